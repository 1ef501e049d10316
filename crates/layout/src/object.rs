//! Objects: what stands before every one's bytes (FaRM sections 3.3 to 3.5, Figure 8).
//!
//! FaRM repeats a short version at the start of every cache line, which is sound where lines are
//! read whole. Here only words are, so an object carries one version and a checksum: a reader of
//! mapped memory looks at the version again after the bytes, and a reader whose words may come in
//! any order verifies the checksum.

use crate::shared::shared_struct;
use core::fmt;
use zerocopy::little_endian::{U32, U64};

shared_struct! {
    /// The header of an object, at a multiple of eight bytes.
    pub struct ObjectHeader: 24 {
        /// Version and lock mode: see [`VersionWord`]. The first word, so that one READ of it
        /// validates.
        0 => pub version: U64,
        /// How often this place has been freed.
        8 => pub incarnation: U32,
        /// The object's length, and [`ALLOCATED`]; or [`COMING`].
        12 => pub length: U32,
        /// CRC64 of address, version, incarnation, length and the bytes.
        16 => pub checksum: U64,
    }
}

/// The bit of `length` that says that the place holds an object.
pub const ALLOCATED: u32 = 1 << 31;

/// The bit of `length` that says that it is decided that the place will hold an object of this incarnation: whoever
/// has its pointer waits. In the incarnation's word, so that no READ brings the one without the other.
pub const COMING: u32 = 1 << 30;

/// How an object is locked: the two lowest bits of its version word, as in FaRM section 3.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Not at all.
    Free,
    /// A transaction is about to change it; what it holds may still be read.
    Prepared,
    /// It is being changed, or a change has been decided: not to be read.
    Exclusive,
}

/// The first word of an object: how often it has been changed, and how it is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VersionWord(pub u64);

impl VersionWord {
    /// A version, locked in some mode.
    pub const fn new(version: u64, mode: LockMode) -> Self {
        let bits = match mode {
            LockMode::Free => 0,
            LockMode::Prepared => 1,
            LockMode::Exclusive => 2,
        };
        Self(version << 2 | bits)
    }

    /// How often the object has been changed.
    pub const fn version(self) -> u64 {
        self.0 >> 2
    }

    /// The word as if a transaction had prepared a change, whether one has or not: what the object holds is the same
    /// for as long as this is.
    pub const fn prepared(self) -> Self {
        Self(self.0 | 1)
    }

    /// How it is locked. Bits that mean nothing count as exclusive.
    pub const fn mode(self) -> LockMode {
        match self.0 & 3 {
            0 => LockMode::Free,
            1 => LockMode::Prepared,
            _ => LockMode::Exclusive,
        }
    }
}

impl fmt::Debug for VersionWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.version(), self.mode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_word_keeps_both_parts() {
        for mode in [LockMode::Free, LockMode::Prepared, LockMode::Exclusive] {
            let word = VersionWord::new(77, mode);
            assert_eq!((word.version(), word.mode()), (77, mode));
        }
        assert_eq!(VersionWord(3).mode(), LockMode::Exclusive);
        let word = |version, mode| VersionWord::new(version, mode).prepared();
        assert_eq!(word(77, LockMode::Free), VersionWord::new(77, LockMode::Prepared));
        assert_eq!(word(77, LockMode::Free), word(77, LockMode::Prepared));
        assert_ne!(word(77, LockMode::Free), word(78, LockMode::Free));
        for mode in [LockMode::Free, LockMode::Prepared] {
            assert_ne!(word(77, LockMode::Exclusive), word(77, mode));
        }
    }
}
