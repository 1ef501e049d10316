//! What a peer may do with a region.

use std::fmt;
use std::ops::BitOr;

/// A set of rights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights(u32);

impl Rights {
    /// No right at all.
    pub const NONE: Self = Self(0);
    /// READ.
    pub const READ: Self = Self(1);
    /// WRITE.
    pub const WRITE: Self = Self(2);
    /// Compare-and-swap and fetch-and-add.
    pub const ATOMIC: Self = Self(4);
    /// All three.
    pub const ALL: Self = Self(7);

    /// Whether every right of `other` is here.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any right lets the peer change bytes.
    pub const fn changes(self) -> bool {
        self.0 & (Self::WRITE.0 | Self::ATOMIC.0) != 0
    }

    /// The bits that are sent.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The rights that sent bits mean; bits that mean nothing are dropped.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & Self::ALL.0)
    }
}

impl BitOr for Rights {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(Self::READ, "read"), (Self::WRITE, "write"), (Self::ATOMIC, "atomic")];
        let mut held = names.iter().filter(|(right, _)| self.contains(*right)).map(|(_, name)| *name);
        match held.next() {
            None => write!(f, "none"),
            Some(first) => {
                write!(f, "{first}")?;
                held.try_for_each(|name| write!(f, "+{name}"))
            }
        }
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}
