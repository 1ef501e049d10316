//! One operation on a key, as its client saw it, and all of them together.

use std::fmt;

/// What a conditional operation compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The value that is there.
    Value(u64),
    /// The version of the value that is there. Whatever told the client of this version has to be in
    /// the history as well; a version that nobody was told of is taken for one that never was.
    Version(u64),
}

/// What was asked for. A value stands for its bytes: each is written by one operation only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads the key.
    Get,
    /// Gives it this value.
    Put(u64),
    /// Gives it this value if it has none.
    Insert(u64),
    /// Removes it.
    Delete,
    /// Removes it if it is as expected.
    DeleteIf(Expected),
    /// Gives it another value if it is as expected.
    Swap {
        /// What it has to be.
        expected: Expected,
        /// Its value from then on.
        new: u64,
    },
}

/// What the client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: the client was killed, or the link lost. It happened at any later time, or never.
    Unknown,
    /// A get's value and its version; version 0 if there are none.
    Found {
        /// The value.
        value: u64,
        /// Its version.
        version: u64,
    },
    /// The key is not there, so nothing was found, deleted or swapped.
    Absent,
    /// The key was there, and not as expected: nothing was inserted, deleted or swapped.
    Different,
    /// Nothing was changed, for one of these two reasons.
    NotDone,
    /// It was done, and the value has this version now; 0 if the client was not told.
    Done {
        /// The version.
        version: u64,
    },
}

/// One operation, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who did it.
    pub client: u32,
    /// What was asked for.
    pub call: Call,
    /// What came of it.
    pub outcome: Outcome,
    /// When it was called: nanoseconds of a clock that all clients share.
    pub invoked: u64,
    /// When it returned; means nothing if the outcome is unknown.
    pub returned: u64,
}

/// What clients did with one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The value and its version before all else; nothing if the key was not there.
    pub initial: Option<(u64, u64)>,
    /// The key may vanish at any time, as in a cache.
    pub lossy: bool,
    /// The operations, in any order.
    pub operations: Vec<Operation>,
}

impl Call {
    /// The value that it writes.
    pub(super) fn writes(&self) -> Option<u64> {
        match *self {
            Self::Put(value) | Self::Insert(value) | Self::Swap { new: value, .. } => Some(value),
            Self::Get | Self::Delete | Self::DeleteIf(_) => None,
        }
    }

    /// Whether there can be such an outcome.
    pub(super) fn can_be(&self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (_, Outcome::Unknown) => true,
            (Self::Get, outcome) => matches!(outcome, Outcome::Found { .. } | Outcome::Absent),
            (_, Outcome::Found { .. }) => false,
            (_, Outcome::Done { .. }) => true,
            (Self::Put(_), _) => false,
            (Self::Insert(_), outcome) => *outcome != Outcome::Absent,
            (Self::Delete, outcome) => *outcome != Outcome::Different,
            (Self::DeleteIf(_) | Self::Swap { .. }, _) => true,
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "value {value}"),
            Self::Version(version) => write!(f, "version {version}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => write!(f, "get"),
            Self::Put(value) => write!(f, "put {value}"),
            Self::Insert(value) => write!(f, "insert {value}"),
            Self::Delete => write!(f, "delete"),
            Self::DeleteIf(expected) => write!(f, "delete if {expected}"),
            Self::Swap { expected, new } => write!(f, "swap {expected} for {new}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "no answer"),
            Self::Found { value, version: 0 } => write!(f, "{value}"),
            Self::Found { value, version } => write!(f, "{value} in version {version}"),
            Self::Absent => write!(f, "absent"),
            Self::Different => write!(f, "different"),
            Self::NotDone => write!(f, "not done"),
            Self::Done { version: 0 } => write!(f, "done"),
            Self::Done { version } => write!(f, "done, version {version}"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} [{} .. ", self.client, self.invoked)?;
        match self.outcome {
            Outcome::Unknown => write!(f, "?")?,
            _ => write!(f, "{}", self.returned)?,
        }
        write!(f, "] {}: {}", self.call, self.outcome)
    }
}
