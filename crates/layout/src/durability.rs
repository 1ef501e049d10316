//! How far a write must have come before it is answered.

use std::fmt;
use std::str::FromStr;

/// How far a write must have come before it is answered. A later one includes the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Durability {
    /// In the node's memory: gone when the node's process is.
    Memory = 1,
    /// On its way to the log, within a bounded window: what a dead process may have lost is what it
    /// answered during the window before its end.
    Logged = 2,
    /// In the log, and on the disk: survives a loss of power.
    Synced = 3,
}

impl Durability {
    /// All of them, weakest first.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Logged, Self::Synced];

    /// The durability that a number on the wire means; 0 is for "whatever is usual".
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1 => Some(Self::Memory),
            2 => Some(Self::Logged),
            3 => Some(Self::Synced),
            _ => None,
        }
    }

    /// The number on the wire.
    pub fn to_bits(this: Option<Self>) -> u32 {
        this.map_or(0, |durability| durability as u32)
    }

    /// The name that people use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Logged => "logged",
            Self::Synced => "synced",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no durability's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoDurability(String);

impl fmt::Display for NoDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no durability `{}`: memory, logged or synced", self.0)
    }
}

impl std::error::Error for NoDurability {}

impl FromStr for Durability {
    type Err = NoDurability;

    fn from_str(name: &str) -> Result<Self, NoDurability> {
        Self::ALL.into_iter().find(|this| this.name() == name).ok_or_else(|| NoDurability(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for this in Durability::ALL {
            assert_eq!(this.to_string().parse(), Ok(this));
            assert_eq!(Durability::from_bits(Durability::to_bits(Some(this))), Some(this));
        }
        assert_eq!(Durability::from_bits(Durability::to_bits(None)), None);
        assert!("fsync".parse::<Durability>().is_err_and(|error| error.to_string().contains("synced")));
        assert!(Durability::Memory < Durability::Logged && Durability::Logged < Durability::Synced);
    }
}
