//! memcached: one `get` for all keys, which it answers faster than one for each.

use std::io;

use super::{Getter, check, missing};
use crate::bench::get::workload::Pool;
use crate::bench::peer::link::Place;
use crate::bench::peer::memcached::Wire;

/// A client of memcached.
pub(crate) struct MemcachedGetter(Wire);

impl MemcachedGetter {
    /// Connects.
    pub(crate) fn connect(place: &Place, spin: bool) -> io::Result<Self> {
        Ok(Self(Wire::connect(place, spin)?))
    }
}

impl Getter for MemcachedGetter {
    fn get(&mut self, pool: &Pool, at: usize, batch: usize, verify: bool) -> io::Result<()> {
        let keys = &pool.keys[at..at + batch];
        let (mut came, mut outcome) = (0, Ok(()));
        self.0.get(keys.iter().map(|key| &key[..]), |key, found| {
            let one = match keys.get(came) {
                Some(asked) if asked == key => check(asked, found, verify),
                Some(asked) => Err(missing(asked)),
                None => Err(io::Error::other("memcached gives more than was asked for")),
            };
            if outcome.is_ok() {
                outcome = one;
            }
            came += 1;
        })?;
        outcome?;
        keys.get(came).map_or(Ok(()), |key| Err(missing(key)))
    }
}
