//! Redis: `GET` and `SET`, a group in one go.

use std::io;

use super::{Kind, Shape, Stamps, Store, Tally, cannot_modify, cannot_scan, check, missing};
use crate::bench::peer::link::Place;
use crate::bench::peer::redis::{Wire, failed};

/// A connection of one thread.
pub(crate) struct RedisStore {
    wire: Wire,
    shape: Shape,
    stamps: Stamps,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl RedisStore {
    /// Connects.
    pub(crate) fn connect(place: &Place, spin: bool, shape: Shape, thread: u64) -> io::Result<Self> {
        let wire = Wire::connect(place, spin)?;
        Ok(Self { wire, shape, stamps: Stamps::of(thread), key: Vec::new(), value: Vec::new() })
    }
}

impl Store for RedisStore {
    fn carry_out(&mut self, group: &[(Kind, u64)], _tally: &mut Tally) -> io::Result<()> {
        for (kind, number) in group {
            self.shape.key(*number, &mut self.key);
            match kind {
                Kind::Read => self.wire.command(&[b"GET", &self.key]),
                Kind::Update | Kind::Insert => {
                    self.shape.value(*number, self.stamps.next(), &mut self.value);
                    self.wire.command(&[b"SET", &self.key, &self.value]);
                }
                Kind::ReadModifyWrite => return Err(cannot_modify("Redis")),
                Kind::Scan(_) => return Err(cannot_scan("Redis")),
            }
        }
        let (shape, mut outcome) = (self.shape, Ok(()));
        self.wire.exchange(group.len(), |at, reply| {
            if let Some(why) = reply.fails() {
                return Err(failed(why));
            }
            if let (Kind::Read, number) = group[at] {
                let one = match reply.bulk() {
                    Some(value) => check(shape, number, value).map(drop),
                    None => Err(missing(number)),
                };
                if outcome.is_ok() {
                    outcome = one;
                }
            }
            Ok(())
        })?;
        outcome
    }
}
