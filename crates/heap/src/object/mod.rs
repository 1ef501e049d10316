//! Objects as bytes: how the owner publishes them, and how a reader judges what a READ brought.
//!
//! A reader takes no lock and may see any mix of words (FaRM section 3.4). What always holds:
//! - the version word is the first; while anything behind it changes, it says so;
//! - incarnation and length share a word, so that whether a place holds an object, and which, is
//!   never torn;
//! - the checksum covers address, version, incarnation, length and body: words of two objects, or
//!   of two versions of one, do not fit together.

mod checksum;
mod inspect;
pub(crate) mod publish;
#[cfg(all(test, not(loom)))]
mod race_tests;

pub use checksum::checksum;
pub(crate) use checksum::{PREFIX_BYTES, checksum_behind};
pub use inspect::{Confirmation, Seen, View, inspect, read_bytes};

#[cfg(not(loom))]
use crate::error::ObjectError;
#[cfg(not(loom))]
use barn_layout::object::LockMode;
use barn_layout::object::{ALLOCATED, COMING, ObjectHeader, VersionWord};

/// Bytes before an object's own.
pub const HEADER_BYTES: usize = ObjectHeader::BYTES;

/// The longest object: a 64 MiB value with a 64 KiB key, and what a table writes before them.
pub const OBJECT_BYTES_MAX: usize = (64 << 20) + (64 << 10) + 64;

/// What an object's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version and lock mode.
    pub word: VersionWord,
    /// How often the place has been freed.
    pub incarnation: u32,
    /// The object's length.
    pub bytes: usize,
    /// Whether there is an object.
    pub allocated: bool,
    /// Whether there is none yet, and one is decided.
    pub coming: bool,
}

impl Header {
    /// What the first two words of a header say.
    #[inline]
    pub fn from_words(version: u64, meta: u64) -> Self {
        let length = (meta >> 32) as u32;
        Self {
            word: VersionWord(version),
            incarnation: meta as u32,
            bytes: (length & !(ALLOCATED | COMING)) as usize,
            allocated: length & ALLOCATED != 0,
            coming: length & (ALLOCATED | COMING) == COMING,
        }
    }

    /// Whether there is an object of this incarnation that nobody holds, and that has this version.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn is_free_to_change(&self, version: u64, incarnation: u32) -> Result<(), ObjectError> {
        if !self.allocated || self.incarnation != incarnation {
            return Err(ObjectError::Freed);
        }
        if self.word.mode() != LockMode::Free {
            return Err(ObjectError::Locked);
        }
        match self.word.version() {
            now if now == version => Ok(()),
            now => Err(ObjectError::Changed { version: now }),
        }
    }
}

/// The header's second word, for an object of `bytes`.
#[inline]
pub(crate) const fn meta_allocated(incarnation: u32, bytes: usize) -> u64 {
    incarnation as u64 | ((bytes as u32 | ALLOCATED) as u64) << 32
}

/// The header's second word, for a place that holds none.
#[inline]
pub(crate) const fn meta_vacant(incarnation: u32) -> u64 {
    incarnation as u64
}

/// The header's second word, for a place that will hold one.
#[inline]
pub(crate) const fn meta_coming(incarnation: u32) -> u64 {
    incarnation as u64 | (COMING as u64) << 32
}

const _: () = assert!(OBJECT_BYTES_MAX < COMING as usize);
