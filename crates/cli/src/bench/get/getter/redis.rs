//! Redis: a pipeline of `GET`, one call out and as few in as the socket allows.

use std::io;

use super::{Getter, check, missing};
use crate::bench::get::workload::Pool;
use crate::bench::peer::link::Place;
use crate::bench::peer::redis::Wire;

/// A client of Redis.
pub(crate) struct RedisGetter(Wire);

impl RedisGetter {
    /// Connects.
    pub(crate) fn connect(place: &Place, spin: bool) -> io::Result<Self> {
        Ok(Self(Wire::connect(place, spin)?))
    }
}

impl Getter for RedisGetter {
    fn get(&mut self, pool: &Pool, at: usize, batch: usize, verify: bool) -> io::Result<()> {
        let keys = &pool.keys[at..at + batch];
        for key in keys {
            self.0.command(&[b"GET", key]);
        }
        let mut outcome = Ok(());
        self.0.exchange(batch, |number, reply| {
            let key = &keys[number];
            let one = reply.bulk().ok_or_else(|| missing(key)).and_then(|found| check(key, found, verify));
            if outcome.is_ok() {
                outcome = one;
            }
            Ok(())
        })?;
        outcome
    }
}
