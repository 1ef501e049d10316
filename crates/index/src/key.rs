//! Keys on their way through a table, and what is found for them.

use crate::hash::hash;

/// A key with its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// Its hash under the table's seed.
    pub hash: u64,
}

impl<'a> Key<'a> {
    /// A key of a table with this seed.
    #[inline]
    pub fn new(seed: u64, bytes: &'a [u8]) -> Self {
        Self { bytes, hash: hash(seed, bytes) }
    }
}

/// What a table holds for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Vec<u8>,
    /// Changes with every change of the value, and never comes back: what compare-and-swap
    /// compares. Says nothing else.
    pub version: u64,
    /// When it expires, in milliseconds since 1970; 0 for never.
    pub expires: u64,
}

impl Found {
    /// Whether it is past its time.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires != 0 && self.expires <= now_ms
    }
}

/// How a look into a table's memory ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// The key is there.
    Found,
    /// It is not.
    Absent,
    /// A writer was there: look again.
    Unsettled,
    /// The table's memory is not where it was: fetch its roots again.
    Stale,
}
