//! A concurrent map in the client's own process: no other process, no network, keys and values inline.

use std::hint::black_box;
use std::io;

use super::{Getter, check, missing};
use crate::bench::get::workload::{Key, Pool, VALUE_BYTES, key, value};

/// dashmap with ahash.
pub(crate) struct Dashmap(dashmap::DashMap<Key, [u8; VALUE_BYTES], ahash::RandomState>);

impl Dashmap {
    /// With so many keys.
    pub(crate) fn load(keys: u32) -> Self {
        let map = dashmap::DashMap::with_capacity_and_hasher(keys as usize, ahash::RandomState::new());
        for number in 0..keys {
            let key = key(u64::from(number));
            map.insert(key, value(&key));
        }
        Self(map)
    }
}

impl Getter for Dashmap {
    fn get(&mut self, pool: &Pool, at: usize, batch: usize, verify: bool) -> io::Result<()> {
        for key in &pool.keys[at..at + batch] {
            // The value is taken out, as from everybody else: the shard's lock ends here.
            let found = *self.0.get(key).ok_or_else(|| missing(key))?;
            check(key, black_box(&found), verify)?;
        }
        Ok(())
    }
}
