//! Those who are asked, as a client process sees them: so many keys at once, every one of them found.

use std::io;

use super::workload::{Key, Pool, VALUE_BYTES, value};

mod bare;
mod barn;
#[cfg(feature = "peers")]
mod dashmap;
mod flat;
mod memcached;
mod redis;

pub(super) use bare::Bare;
pub(super) use barn::BarnGetter;
#[cfg(feature = "peers")]
pub(super) use dashmap::Dashmap;
pub(super) use flat::Flat;
pub(super) use memcached::MemcachedGetter;
pub(super) use redis::RedisGetter;

/// Gets keys of a pool.
pub(super) trait Getter {
    /// Gets `batch` keys from `at` on, in one go. A key that is not there, or a value that has not its
    /// length, is an error; a value that is not the key's is one where `verify` says to look.
    fn get(&mut self, pool: &Pool, at: usize, batch: usize, verify: bool) -> io::Result<()>;

    /// How many keys it takes at once where it should take `batch`.
    fn step(&self, batch: usize) -> usize {
        batch
    }
}

fn check(key: &Key, found: &[u8], verify: bool) -> io::Result<()> {
    if found.len() != VALUE_BYTES || verify && *found != value(key) {
        return Err(io::Error::other(format!("key {} has another value", String::from_utf8_lossy(key))));
    }
    Ok(())
}

fn missing(key: &Key) -> io::Error {
    io::Error::other(format!("key {} is not there", String::from_utf8_lossy(key)))
}
