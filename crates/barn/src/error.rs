//! The one error that Barn's blocking calls end in.

use barn_fabric::ConnectError;
use barn_index::TableError;
use barn_space::barrier::BarrierError;
use barn_space::client::{AccessError, MapError, SpaceError, WriteError};
use barn_transaction::{ClientError, CommitError, RunError};
use std::fmt;

/// Why something did not happen.
#[derive(Debug)]
pub enum Error {
    /// No node could be connected to.
    Connect(ConnectError),
    /// A node did not start.
    Node(String),
    /// An object could not be read or changed; nothing was changed.
    Client(ClientError),
    /// A table could not be read or changed.
    Table(TableError),
    /// A space could not be made, joined, reserved in or allocated from.
    Space(SpaceError),
    /// A range of a space could not be mapped.
    Map(MapError),
    /// Bytes of a space could not be moved.
    Access(AccessError),
    /// A copy-on-write range could not be leased, written or switched.
    Write(WriteError),
    /// A barrier did not come about.
    Barrier(BarrierError),
    /// A commit did not go through, or is not known to have.
    Commit(CommitError),
    /// Other transactions were in the way each time; nothing was changed.
    Contended {
        /// How often it was tried.
        attempts: u64,
    },
    /// The program's own reason, from inside a transaction; nothing was changed.
    Own(String),
}

impl Error {
    /// Whether what was asked for may have been done or not: look before you do it again.
    pub fn is_indeterminate(&self) -> bool {
        matches!(
            self,
            Self::Table(TableError::Indeterminate)
                | Self::Commit(CommitError::Indeterminate)
                | Self::Space(SpaceError::Indeterminate)
                | Self::Write(WriteError::Space(SpaceError::Indeterminate))
        )
    }

    /// The program's own reason to give a transaction up.
    pub fn own(why: impl Into<String>) -> Self {
        Self::Own(why.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => error.fmt(f),
            Self::Node(why) | Self::Own(why) => f.write_str(why),
            Self::Client(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
            Self::Space(error) => error.fmt(f),
            Self::Map(error) => error.fmt(f),
            Self::Access(error) => error.fmt(f),
            Self::Write(error) => error.fmt(f),
            Self::Barrier(error) => error.fmt(f),
            Self::Commit(error) => error.fmt(f),
            Self::Contended { attempts } => RunError::<ClientError>::Contended { attempts: *attempts }.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Client(error) => Self::Client(error),
            other => Self::Table(other),
        }
    }
}

macro_rules! from {
    ($($error:ident => $variant:ident),+) => { $(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )+ };
}
from!(SpaceError => Space, MapError => Map, AccessError => Access, WriteError => Write, BarrierError => Barrier);

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        Self::Commit(error)
    }
}

impl From<RunError<Error>> for Error {
    fn from(error: RunError<Error>) -> Self {
        match error {
            RunError::Own(own) => own,
            RunError::Commit(error) => Self::Commit(error),
            RunError::Contended { attempts } => Self::Contended { attempts },
        }
    }
}
