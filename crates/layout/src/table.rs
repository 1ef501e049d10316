//! What clients and nodes say to each other about tables.

use crate::shared::shared_struct;
use core::fmt;
use core::str::FromStr;
use zerocopy::little_endian::{U16, U32, U64};

/// The first method of tables; the others follow.
pub const METHODS_START: u16 = 64;

shared_struct! {
    /// Begins every request about a table.
    pub struct TableHeader: 8 {
        /// The table's number.
        0 => pub table: U32,
        /// Which of its shards.
        4 => pub shard: U16,
        /// How many keys, changes or whatever follow.
        6 => pub count: U16,
    }
}

shared_struct! {
    /// One change of a batch; the key and the value follow.
    pub struct TableUpdate: 32 {
        /// What to do: see [`Operation`].
        0 => pub operation: U32,
        /// The key's length.
        4 => pub key_bytes: U32,
        /// The value's length.
        8 => pub value_bytes: U32,
        /// When the change counts as made: see [`Durability`]; 0 for what the table says.
        12 => pub durability: U32,
        /// The version to compare with, or the number to add.
        16 => pub operand: U64,
        /// When the value expires, in milliseconds since 1970; 0 for never.
        24 => pub expires: U64,
    }
}

shared_struct! {
    /// What came of one key of a batch; the value follows, behind the time of its expiry if it has one.
    ///
    /// As short as it can be: with a value of 32 bytes it fits a reply of one line
    /// ([`crate::message::BRIEF_BODY_BYTES_MAX`]).
    pub struct TableAnswer: 16 {
        /// See [`Outcome`].
        0 => pub outcome: U16,
        /// 8 if the value expires, 0 if not.
        2 => pub expiry_bytes: U16,
        /// The length of the value, or of the reason.
        4 => pub value_bytes: U32,
        /// The key's version.
        8 => pub version: U64,
    }
}

shared_struct! {
    /// A key of a page; the key follows, then the value.
    pub struct TableEntry: 24 {
        /// The key's length.
        0 => pub key_bytes: U32,
        /// The value's length, or [`VALUE_LATER`].
        4 => pub value_bytes: U32,
        /// The key's version.
        8 => pub version: U64,
        /// When the value expires, in milliseconds since 1970; 0 for never.
        16 => pub expires: U64,
    }
}

shared_struct! {
    /// Asks for a page of a shard's keys.
    pub struct TableScan: 16 {
        /// Where to go on; 0 from the start.
        0 => pub cursor: U64,
        /// Pages end past so many bytes.
        8 => pub bytes_max: U32,
        /// Pages end after so many keys.
        12 => pub keys_max: U32,
    }
}

shared_struct! {
    /// Asks for keys of a shard in their order, the first key and the end of the range behind it.
    pub struct TableRange: 16 {
        /// Pages end past so many bytes.
        0 => pub bytes_max: U32,
        /// Pages end after so many keys.
        4 => pub keys_max: U32,
        /// How long the key is from which to begin.
        8 => pub from_bytes: U32,
        /// How long the key is before which to end; all ones for none.
        12 => pub to_bytes: U32,
    }
}

shared_struct! {
    /// Begins a page of a shard's keys: for each a [`TableEntry`], then the key, then the value.
    pub struct TablePage: 16 {
        /// Where to go on; all ones at the end.
        0 => pub cursor: U64,
        /// How many keys follow.
        8 => pub count: U32,
        /// Zero.
        12 => pub reserved: U32,
    }
}

/// The cursor after the last key.
pub const CURSOR_END: u64 = u64::MAX;

/// The length of a range's end, if it has none.
pub const NO_END: u32 = u32::MAX;

/// The length of a value that was left out of a page: it is to be asked for.
pub const VALUE_LATER: u32 = u32::MAX;

/// What to do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// It has this value from now on.
    Put = 1,
    /// It has this value, if it had none.
    Insert = 2,
    /// It has none.
    Delete = 3,
    /// It has this value, if its version is the operand.
    Swap = 4,
    /// Its value, a decimal number, grows by the operand; the sum is the answer.
    Add = 5,
    /// It has none, if its version is the operand.
    DeleteVersion = 6,
}

impl Operation {
    /// The operation that a number means.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            1 => Self::Put,
            2 => Self::Insert,
            3 => Self::Delete,
            4 => Self::Swap,
            5 => Self::Add,
            6 => Self::DeleteVersion,
            _ => return None,
        })
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Outcome {
    /// The key is there; the change was made.
    Done = 1,
    /// The key is not there; nothing was changed.
    Absent = 2,
    /// The key is there already, or its version is another; nothing was changed.
    Different = 3,
    /// A transaction holds it, or the answers before it have filled the message: ask again.
    Again = 4,
    /// There is no memory left.
    Full = 5,
    /// The value is not a number.
    NotANumber = 6,
    /// The request makes no sense; the reason follows.
    Invalid = 7,
    /// There is no memory left now, and some becomes free when readers have left it: ask again.
    Short = 8,
}

impl Outcome {
    /// The outcome that a number means.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        Some(match bits {
            1 => Self::Done,
            2 => Self::Absent,
            3 => Self::Different,
            4 => Self::Again,
            5 => Self::Full,
            6 => Self::NotANumber,
            7 => Self::Invalid,
            8 => Self::Short,
            _ => return None,
        })
    }
}

/// What has happened to a change before whoever asked for it is told that it was made. The later of two
/// is the stronger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Durability {
    /// It is in the node's memory. Of a table: nothing of it outlives the node's process.
    #[default]
    Memory = 1,
    /// It has been written to the node's log: it outlives the process, though not the machine.
    Logged = 2,
    /// The log is on the disk: it outlives a loss of power.
    Synced = 3,
}

impl Durability {
    /// All of them, the weakest first.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Logged, Self::Synced];

    /// What stands on the wire; 0 where nothing in particular is asked for.
    pub const fn to_bits(asked: Option<Self>) -> u32 {
        match asked {
            None => 0,
            Some(durability) => durability as u32,
        }
    }

    /// What a number on the wire asks for; `Err` if it means nothing.
    pub const fn from_bits(bits: u32) -> Result<Option<Self>, NoDurability> {
        Ok(match bits {
            0 => None,
            1 => Some(Self::Memory),
            2 => Some(Self::Logged),
            3 => Some(Self::Synced),
            _ => return Err(NoDurability),
        })
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

/// There is no such durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDurability;

impl fmt::Display for NoDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such durability: memory, logged or synced")
    }
}

impl core::error::Error for NoDurability {}

impl FromStr for Durability {
    type Err = NoDurability;

    fn from_str(name: &str) -> Result<Self, NoDurability> {
        Self::ALL.into_iter().find(|durability| durability.name() == name).ok_or(NoDurability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durabilities_have_numbers_names_and_an_order() {
        for bits in 0..16 {
            match Durability::from_bits(bits) {
                Ok(asked) => assert_eq!(Durability::to_bits(asked), bits),
                Err(NoDurability) => assert!(bits > 3),
            }
        }
        for durability in Durability::ALL {
            assert_eq!(durability.name().parse(), Ok(durability));
        }
        assert_eq!("disk".parse::<Durability>(), Err(NoDurability));
        assert!(Durability::ALL.is_sorted());
    }

    #[test]
    fn numbers_mean_what_they_say() {
        for bits in 0..16 {
            assert!(Operation::from_bits(bits).is_none_or(|operation| operation as u32 == bits));
            assert!(Outcome::from_bits(bits as u16).is_none_or(|outcome| outcome as u32 == bits));
        }
    }
}
