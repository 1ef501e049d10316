//! YCSB's core workloads (Cooper and others, SoCC 2010, table 2): what is done, in which proportions.
//!
//! | workload | operations | law |
//! |---|---|---|
//! | A | 50 % read, 50 % update | zipfian |
//! | B | 95 % read, 5 % update | zipfian |
//! | C | read | zipfian |
//! | D | 95 % read, 5 % insert | latest |
//! | E | 95 % scan in the order of the keys, 5 % insert | not measured yet |
//! | F | 50 % read, 50 % read-modify-write | zipfian |
//!
//! E needs ranges of keys in their order, which trees have; the clients of workloads do not ask for any yet. A walk
//! through a table of another kind is in no order: to call it E would be to measure something else.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::choose::Law;

/// A workload by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// Half reads, half updates.
    A,
    /// Mostly reads.
    B,
    /// Reads alone.
    C,
    /// Reads of what is new.
    D,
    /// Short scans.
    E,
    /// Reads and read-modify-writes.
    F,
}

/// What is done to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its value is read.
    Read,
    /// It is given another value, whatever it had.
    Update,
    /// A new one is made.
    Insert,
    /// It is given a value that follows from the one it had.
    ReadModifyWrite,
}

impl Mix {
    /// Those that a hashed table can do.
    pub(crate) const HASHED: [Self; 5] = [Self::A, Self::B, Self::C, Self::D, Self::F];

    /// Reads in a hundred operations, and what the others are; nothing where an order is needed.
    pub(crate) fn parts(self) -> Option<(u64, Kind)> {
        match self {
            Self::A => Some((50, Kind::Update)),
            Self::B => Some((95, Kind::Update)),
            Self::C => Some((100, Kind::Read)),
            Self::D => Some((95, Kind::Insert)),
            Self::E => None,
            Self::F => Some((50, Kind::ReadModifyWrite)),
        }
    }

    /// How YCSB chooses its records.
    pub(crate) fn law(self) -> Law {
        if self == Self::D { Law::Latest } else { Law::Zipfian }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        })
    }
}
