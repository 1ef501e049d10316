//! What can go wrong with a table, and what to do about it.

use crate::options::{KEY_BYTES_MAX, OptionsError, VALUE_BYTES_MAX};
use barn_transaction::{ClientError, CommitError};
use std::fmt;

/// Why a node did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Something that it would change is held by a transaction: ask again.
    Busy,
    /// There is no memory left.
    Full(String),
    /// It makes no sense.
    Invalid(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("held by a transaction that is being committed"),
            Self::Full(why) | Self::Invalid(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refused {}

/// Why a shard could not be opened again after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReopenError {
    /// What the log has noted of it makes no sense.
    Notes(&'static str),
    /// The memory is not what the notes say.
    Memory(&'static str),
    /// The table's options cannot be.
    Options(String),
    /// Tables of this kind are kept in memory only.
    Volatile,
}

impl fmt::Display for ReopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notes(why) => write!(f, "the log's notes of it are damaged: {why}")?,
            Self::Memory(why) => write!(f, "its memory is not what the log's notes say: {why}")?,
            Self::Options(why) => f.write_str(why)?,
            Self::Volatile => f.write_str("it is kept in memory only and should not be in a log")?,
        }
        f.write_str("; bring back the node's data from a copy, or start it with an empty data directory")
    }
}

impl std::error::Error for ReopenError {}

/// Why an operation on a table failed.
#[derive(Clone, Debug, PartialEq)]
pub enum TableError {
    /// There is no table of this name.
    NoTable(String),
    /// There is one of this name already.
    Exists(String),
    /// The table's options cannot be.
    Options(OptionsError),
    /// A key is too long.
    KeyTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A value is too long.
    ValueTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The value is not a decimal number, or the sum would not be one of 64 bits.
    NotANumber {
        /// What it is.
        why: String,
    },
    /// This kind of table does not do that.
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What kind the table is of.
        kind: crate::Kind,
    },
    /// The node has no memory left for the table.
    Full {
        /// What it said.
        why: String,
    },
    /// Others were in the way for the whole deadline.
    Contended,
    /// The link was lost before the answer came: whether the change was made is not known.
    Indeterminate,
    /// Everything else.
    Client(ClientError),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTable(name) => {
                write!(f, "no table `{name}`: make one with `barn table create {name}`")
            }
            Self::Exists(name) => write!(f, "a table `{name}` is there already, with other options"),
            Self::Options(error) => error.fmt(f),
            Self::KeyTooLong { bytes } => {
                write!(f, "the key has {bytes} bytes, and may have {KEY_BYTES_MAX} at most")
            }
            Self::ValueTooLong { bytes } => {
                write!(f, "the value has {bytes} bytes, and may have {VALUE_BYTES_MAX} at most")
            }
            Self::NotANumber { why } => write!(f, "cannot be incremented: {why}"),
            Self::Unsupported { what, kind } => write!(f, "{what}: a {kind} table cannot"),
            // Where it can be helped by deleting, the heap has said so.
            Self::Full { why } if why.contains("delete something") => write!(f, "the table is full: {why}"),
            Self::Full { why } => write!(
                f,
                "the table is full: {why}; delete something, or give the node more memory (--memory)"
            ),
            Self::Contended => f.write_str("others were in the way for the whole deadline: try again"),
            Self::Indeterminate => {
                f.write_str("the link was lost before the answer: the change may have been made or not; look before you make it again")
            }
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TableError {}

impl From<ClientError> for TableError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<OptionsError> for TableError {
    fn from(error: OptionsError) -> Self {
        Self::Options(error)
    }
}

impl From<CommitError> for TableError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Conflict { .. } => Self::Contended,
            CommitError::Indeterminate => Self::Indeterminate,
            CommitError::Failed(error) => Self::Client(error),
        }
    }
}
