//! YCSB's core workloads (Cooper and others, SoCC 2010, table 2): what is done, in which proportions.
//!
//! | workload | operations | law |
//! |---|---|---|
//! | A | 50 % read, 50 % update | zipfian |
//! | B | 95 % read, 5 % update | zipfian |
//! | C | read | zipfian |
//! | D | 95 % read, 5 % insert | latest |
//! | E | 95 % scan of 1 to 100 records in the order of their keys, 5 % insert | zipfian |
//! | F | 50 % read, 50 % read-modify-write | zipfian |
//!
//! E needs ranges of keys in their order, which trees have: whatever kind the others use, E has a tree of its own.
//! A walk through a table of another kind is in no order: to call it E would be to measure something else.

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
    /// It and those after it are read, in the order of their keys, so many in all.
    Scan(u8),
}

/// YCSB's longest scan; lengths are spread evenly.
pub(crate) const SCAN_MAX: u8 = 100;

impl Mix {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// What most operations are, how many in a hundred, and what the others are. Scans have the longest length.
    pub(crate) fn parts(self) -> (Kind, u64, Kind) {
        match self {
            Self::A => (Kind::Read, 50, Kind::Update),
            Self::B => (Kind::Read, 95, Kind::Update),
            Self::C => (Kind::Read, 100, Kind::Read),
            Self::D => (Kind::Read, 95, Kind::Insert),
            Self::E => (Kind::Scan(SCAN_MAX), 95, Kind::Insert),
            Self::F => (Kind::Read, 50, Kind::ReadModifyWrite),
        }
    }

    /// Whether keys must have an order.
    pub(crate) fn is_ordered(self) -> bool {
        self == Self::E
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
