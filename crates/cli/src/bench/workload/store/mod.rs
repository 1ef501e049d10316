//! What is measured, as one thread of a client sees it: operations in, a group at a time.
//!
//! What always holds: a value that is read is checked to be its key's, and whole. A key that is not there is
//! an error, but for a store that may forget.

use std::io;

use barn_layout::planted;

use super::mix::Kind;
use super::shape::Shape;

mod barn;
mod map;
mod memcached;
mod redis;

pub(crate) use barn::BarnStore;
#[cfg(feature = "peers")]
pub(crate) use map::Dashmap;
pub(crate) use map::{LockedBTree, Map, MapStore};
pub(crate) use memcached::MemcachedStore;
pub(crate) use redis::RedisStore;

/// A store, from one thread.
pub(crate) trait Store: Send {
    /// Carries all operations of a group out, at once where it can; they are in no order.
    fn carry_out(&mut self, group: &[(Kind, u64)], tally: &mut Tally) -> io::Result<()>;
}

/// What came of operations, beside that they were carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Tally {
    /// Reads that found nothing in a store that may forget.
    pub(crate) misses: u64,
    /// Compare-and-swaps that met another's change, and were done again.
    pub(crate) retries: u64,
    /// Scans that came to the end of the keys before they had as many as they wanted.
    pub(crate) short: u64,
}

impl Tally {
    /// Both together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            misses: self.misses + other.misses,
            retries: self.retries + other.retries,
            short: self.short + other.short,
        }
    }
}

/// What a value that was read says.
pub(crate) fn check(shape: Shape, number: u64, value: &[u8]) -> io::Result<u32> {
    if planted("values_unchecked") {
        return Ok(0);
    }
    let stamp = shape.stamp(number, value);
    stamp.ok_or_else(|| io::Error::other(format!("record {number} has a value that is not its own")))
}

/// What a key that is not there says.
pub(crate) fn missing(number: u64) -> io::Error {
    io::Error::other(format!("record {number} is not there"))
}

/// What a store that cannot change a value by the one it had says.
pub(crate) fn cannot_modify(store: &str) -> io::Error {
    io::Error::other(format!("{store} is not asked to read, modify and write: workload f is for Barn"))
}

/// What a store without an order says of a scan.
pub(crate) fn cannot_scan(store: &str) -> io::Error {
    io::Error::other(format!("{store} has no order of keys to scan in: workload e is for trees"))
}

/// A scan as it comes in: from a record's key on in ascending order, each with a value of its own.
pub(crate) struct Scanned<'a> {
    shape: Shape,
    from: &'a [u8],
    last: Vec<u8>,
    keys: usize,
}

impl<'a> Scanned<'a> {
    /// One that begins at a key that is there.
    pub(crate) fn from(shape: Shape, from: &'a [u8]) -> Self {
        Self { shape, from, last: Vec::new(), keys: 0 }
    }

    /// The next that came.
    pub(crate) fn take(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let in_order = if self.keys == 0 { key == self.from } else { key > &self.last[..] };
        if !in_order && !planted("scans_unchecked") {
            return Err(io::Error::other("a scan does not begin where it was to, or is in no order"));
        }
        let number = self.shape.number(key).ok_or_else(|| io::Error::other("a key that nobody put"))?;
        check(self.shape, number, value)?;
        self.last.clear();
        self.last.extend_from_slice(key);
        self.keys += 1;
        Ok(())
    }

    /// No more comes: counts it if the store had no further key, and so fewer than were wanted.
    pub(crate) fn end(self, wanted: u8, tally: &mut Tally) -> io::Result<()> {
        let wanted = usize::from(wanted);
        if self.keys == 0 || self.keys > wanted {
            return Err(io::Error::other(format!("a scan of {wanted} records has {}", self.keys)));
        }
        tally.short += u64::from(self.keys < wanted);
        Ok(())
    }
}

/// Stamps of updates: each thread's begin elsewhere, so that two of one key are seldom the same.
#[derive(Debug)]
pub(crate) struct Stamps(u32);

impl Stamps {
    /// Those of a thread.
    pub(crate) fn of(thread: u64) -> Self {
        Self((thread as u32).wrapping_mul(0x9E37_79B9))
    }

    /// The next.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}
