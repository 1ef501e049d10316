//! memcached: a group's values set without replies of their own, and its reads by one `get`, all in one
//! message. The answer to the `get`, or to the no-op that stands for it, comes after the values are set.

use std::io;

use super::{Kind, Shape, Stamps, Store, Tally, cannot_modify, cannot_scan, check, missing};
use crate::bench::peer::link::Place;
use crate::bench::peer::memcached::Wire;

/// A connection of one thread.
pub(crate) struct MemcachedStore {
    wire: Wire,
    shape: Shape,
    stamps: Stamps,
    /// The key and the number of each read of the group; memory is used again.
    reads: Vec<(Vec<u8>, u64)>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl MemcachedStore {
    /// Connects.
    pub(crate) fn connect(place: &Place, spin: bool, shape: Shape, thread: u64) -> io::Result<Self> {
        let wire = Wire::connect(place, spin)?;
        let stamps = Stamps::of(thread);
        Ok(Self { wire, shape, stamps, reads: Vec::new(), key: Vec::new(), value: Vec::new() })
    }
}

impl Store for MemcachedStore {
    fn carry_out(&mut self, group: &[(Kind, u64)], _tally: &mut Tally) -> io::Result<()> {
        let mut asked = 0;
        for (kind, number) in group {
            match kind {
                Kind::Read => {
                    if asked == self.reads.len() {
                        self.reads.push(Default::default());
                    }
                    let (key, read) = &mut self.reads[asked];
                    self.shape.key(*number, key);
                    *read = *number;
                    asked += 1;
                }
                Kind::Update | Kind::Insert => {
                    self.shape.key(*number, &mut self.key);
                    self.shape.value(*number, self.stamps.next(), &mut self.value);
                    self.wire.set(&self.key, &self.value);
                }
                Kind::ReadModifyWrite => return Err(cannot_modify("memcached")),
                Kind::Scan(_) => return Err(cannot_scan("memcached")),
            }
        }
        let (shape, reads) = (self.shape, &self.reads[..asked]);
        if reads.is_empty() {
            return Ok(self.wire.flush()?);
        }
        let (mut came, mut outcome) = (0, Ok(()));
        self.wire.get(reads.iter().map(|(key, _)| &key[..]), |key, value| {
            let one = match reads.get(came) {
                Some((asked, number)) if asked == key => check(shape, *number, value).map(drop),
                Some((_, number)) => Err(missing(*number)),
                None => Err(io::Error::other("memcached gives more than was asked for")),
            };
            if outcome.is_ok() {
                outcome = one;
            }
            came += 1;
        })?;
        outcome?;
        reads.get(came).map_or(Ok(()), |(_, number)| Err(missing(*number)))
    }
}
