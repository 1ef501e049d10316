//! What can go wrong, and what to do about it.

use crate::id::Pointer;
use barn_cluster::MemberId;
use barn_fabric::{CallError, ConnectError, OpenError, OperationError};
use barn_layout::{Address, RegionId};
use std::fmt;
use std::time::Duration;

/// Why an object was not read, or a step of a transaction not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientError {
    /// The object has been freed, or never was.
    Freed {
        /// The object.
        pointer: Pointer,
    },
    /// The object was being changed all the time until the deadline.
    Contended {
        /// The object.
        address: Address,
        /// How often it was tried.
        attempts: u64,
    },
    /// Nobody holds the region (now).
    NoRegion {
        /// Which.
        region: RegionId,
    },
    /// The cluster has no such region, and never had.
    Void {
        /// Which.
        region: RegionId,
    },
    /// At the address of the cluster there is another one: it was begun anew, without what it held.
    AnotherCluster,
    /// The node is there, and not ready to serve.
    NotReady {
        /// What it said.
        why: String,
    },
    /// No node can take new objects.
    NoMember,
    /// A node cannot be reached.
    Unreachable {
        /// Which.
        member: MemberId,
        /// Why.
        cause: String,
    },
    /// The link to a node broke or its lease ran out: the session is over; a new attempt begins
    /// another.
    SessionLost,
    /// The transaction has been open for too long.
    TooOld {
        /// How old it may grow.
        age_max: Duration,
    },
    /// The new bytes are not as long as the object.
    Length {
        /// The object.
        pointer: Pointer,
        /// How many bytes there were.
        bytes: usize,
    },
    /// The node refused, and said why.
    Refused {
        /// Why.
        why: String,
    },
    /// No answer in time. Nothing was changed.
    Deadline,
}

impl ClientError {
    /// Whether a new attempt of the whole transaction may well succeed.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Contended { .. }
                | Self::SessionLost
                | Self::Unreachable { .. }
                | Self::NoRegion { .. }
                | Self::NotReady { .. }
                | Self::NoMember
        )
    }

    /// Whether it says that a node or the cluster has to be looked for again.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::NoRegion { .. } | Self::NotReady { .. } | Self::NoMember
        )
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Freed { pointer } => write!(f, "no object at {pointer}: it has been freed"),
            Self::Contended { address, attempts } => {
                write!(
                    f,
                    "the object at {address:?} was being changed at each of {attempts} attempts: try again later"
                )
            }
            Self::NoRegion { region } => write!(f, "no node holds {region}: is the node that had it down?"),
            Self::Void { region } => write!(
                f,
                "{region} is not in this cluster: the pointer is from another, or from before it was begun anew"
            ),
            Self::AnotherCluster => write!(
                f,
                "the cluster was begun anew, without what it held: make its tables and objects again"
            ),
            Self::NotReady { why } => write!(f, "the node is not ready: {why}; try again"),
            Self::NoMember => write!(f, "no node takes objects: start one with `barn serve`"),
            Self::Unreachable { member, cause } => write!(f, "{member} cannot be reached: {cause}"),
            Self::SessionLost => write!(f, "the link to a node was lost: try again"),
            Self::TooOld { age_max } => {
                write!(f, "the transaction has been open for more than {age_max:?}: make it shorter")
            }
            Self::Length { pointer, bytes } => {
                write!(f, "{bytes} bytes for the object {pointer}: objects keep their length")
            }
            Self::Refused { why } => write!(f, "the node refused: {why}"),
            Self::Deadline => write!(f, "no answer in time; nothing was changed"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Why a transaction was not committed, or is not known to be.
#[derive(Clone, Debug, PartialEq)]
pub enum CommitError {
    /// Another transaction was there first. Nothing was changed: run it again.
    Conflict {
        /// The object that both wanted.
        address: Option<Address>,
    },
    /// Something else was in the way. Nothing was changed.
    Failed(ClientError),
    /// Whether it was committed could not be found out in time: look before you run it again.
    Indeterminate,
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { address: Some(address) } => {
                write!(f, "another transaction has changed the object at {address:?}: run this one again")
            }
            Self::Conflict { address: None } => {
                write!(f, "another transaction was in the way: run this one again")
            }
            Self::Failed(error) => error.fmt(f),
            Self::Indeterminate => {
                write!(
                    f,
                    "the link was lost during the commit, and no node could say in time what became of it: \
                           read the objects before you run it again"
                )
            }
        }
    }
}

impl std::error::Error for CommitError {}

impl From<ClientError> for CommitError {
    fn from(error: ClientError) -> Self {
        Self::Failed(error)
    }
}

/// Why a transaction that was run with retries did not go through.
#[derive(Debug)]
pub enum RunError<E> {
    /// The closure's own error. Nothing was changed.
    Own(E),
    /// The commit's.
    Commit(CommitError),
    /// Others were in the way each time.
    Contended {
        /// How often it was tried.
        attempts: u64,
    },
}

impl<E: fmt::Display> fmt::Display for RunError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(error) => error.fmt(f),
            Self::Commit(error) => error.fmt(f),
            Self::Contended { attempts } => {
                write!(
                    f,
                    "other transactions were in the way at each of {attempts} attempts: try again later"
                )
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for RunError<E> {}

/// Starts the refusal of a node that has lost its place in the cluster: it may be back soon.
pub const FENCED: &str = "this node has lost its place in the cluster";

/// A question that was not answered, or not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Unanswered {
    /// Why.
    pub error: ClientError,
    /// Whether what was asked for may have been done all the same.
    pub unknown: bool,
}

impl From<ClientError> for Unanswered {
    /// Of something that was not sent.
    fn from(error: ClientError) -> Self {
        Self { error, unknown: false }
    }
}

impl From<Unanswered> for ClientError {
    fn from(unanswered: Unanswered) -> Self {
        unanswered.error
    }
}

/// What a failed call or READ means to a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Broken {
    /// The session is over.
    Session,
    /// Something else.
    Other(ClientError),
}

impl From<CallError> for Broken {
    fn from(error: CallError) -> Self {
        match error {
            CallError::PeerGone => Self::Session,
            CallError::Deadline => Self::Other(ClientError::Deadline),
            CallError::Busy => Self::Other(ClientError::NotReady { why: "it is starting".into() }),
            CallError::Refused(why) if why.starts_with(FENCED) => Self::Other(ClientError::NotReady { why }),
            CallError::Refused(why) => Self::Other(ClientError::Refused { why }),
            other => Self::Other(ClientError::Refused { why: other.to_string() }),
        }
    }
}

impl From<OperationError> for Broken {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::PeerGone | OperationError::Revoked | OperationError::BadKey => Self::Session,
            OperationError::Deadline => Self::Other(ClientError::Deadline),
            other => Self::Other(ClientError::Refused { why: other.to_string() }),
        }
    }
}

impl From<OpenError> for Broken {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::PeerGone => Self::Session,
            OpenError::Deadline => Self::Other(ClientError::Deadline),
            OpenError::NoSuchRegion(region) => Self::Other(ClientError::NoRegion { region }),
            other => Self::Other(ClientError::Refused { why: other.to_string() }),
        }
    }
}

/// A node that cannot be connected to.
pub(crate) fn unreachable(member: MemberId, error: &ConnectError) -> ClientError {
    ClientError::Unreachable { member, cause: error.to_string() }
}
