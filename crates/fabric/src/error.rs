//! What can go wrong, an enum for each operation, each message saying what to do next.

use crate::VerbsError;
use crate::region::{AccessError, MapError, Rights};
use barn_layout::RegionId;
use barn_layout::frame::Outcome;
use barn_layout::handshake::{Refusal, VERSION};
use barn_layout::limits::{MESSAGE_BYTES_MAX, OPERATION_BYTES_MAX, PEERS_MAX, REGIONS_PER_PEER_MAX};
use barn_layout::message::Status;
use std::fmt;
use std::io;

/// Why a READ, WRITE, compare-and-swap or fetch-and-add was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationError {
    /// The grant lacks a right.
    NoRight {
        /// What the operation needs.
        needs: Rights,
        /// What was granted.
        has: Rights,
    },
    /// The range leaves the region.
    OutOfBounds {
        /// Where it starts.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// How long the region is.
        region_bytes: u64,
    },
    /// An atomic's offset is no multiple of 8.
    Misaligned {
        /// The offset.
        offset: u64,
    },
    /// Longer than one operation may be.
    TooLong {
        /// The length.
        bytes: usize,
    },
    /// The grant was revoked, or the region withdrawn.
    Revoked,
    /// The node does not know the key.
    BadKey,
    /// The peer is gone. A WRITE or an atomic that was under way may have been done.
    PeerGone,
    /// No answer within the deadline. A WRITE or an atomic may have been done.
    Deadline,
    /// The peer's answer was not of the protocol's form.
    Protocol,
}

impl OperationError {
    /// The error that a wire outcome means, for an operation that its own side found fine.
    pub(crate) fn from_outcome(outcome: Option<Outcome>, verb: &crate::verb::Verb<'_>, has: Rights) -> Self {
        match outcome {
            Some(Outcome::Revoked) => Self::Revoked,
            Some(Outcome::BadKey | Outcome::NoSuchRegion) => Self::BadKey,
            Some(Outcome::NoRight) => Self::NoRight { needs: verb.needs(), has },
            Some(Outcome::OutOfBounds) => {
                Self::OutOfBounds { offset: verb.offset(), bytes: verb.bytes() as u64, region_bytes: 0 }
            }
            Some(Outcome::Misaligned) => Self::Misaligned { offset: verb.offset() },
            Some(Outcome::TooLong) => Self::TooLong { bytes: verb.bytes() },
            Some(
                Outcome::Done
                | Outcome::TooManyRegions
                | Outcome::NoDescriptor
                | Outcome::NoVerbs
                | Outcome::NoRoom,
            )
            | None => Self::Protocol,
        }
    }
}

impl From<AccessError> for OperationError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::OutOfBounds { offset, bytes, memory_bytes } => {
                Self::OutOfBounds { offset, bytes, region_bytes: memory_bytes }
            }
            AccessError::Misaligned { offset } => Self::Misaligned { offset },
            AccessError::ReadOnly => Self::NoRight { needs: Rights::WRITE, has: Rights::READ },
        }
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRight { needs, has } => write!(
                f,
                "this needs the right to {needs}, and the grant has {has}: ask the region's owner for more"
            ),
            Self::OutOfBounds { offset, bytes, region_bytes } => {
                write!(f, "{bytes} bytes at {offset} leave the region, which has {region_bytes} bytes")
            }
            Self::Misaligned { offset } => {
                write!(f, "an atomic at {offset}: the offset must be a multiple of 8")
            }
            Self::TooLong { bytes } => write!(
                f,
                "{bytes} bytes are more than one operation may move ({OPERATION_BYTES_MAX}): split it, in one batch"
            ),
            Self::Revoked => write!(f, "the grant was revoked: open the region again"),
            Self::BadKey => write!(f, "the node does not know this key: open the region again"),
            Self::PeerGone => {
                write!(f, "the peer is gone: connect again; a write under way may have been done")
            }
            Self::Deadline => write!(f, "no answer within the deadline; a write may have been done"),
            Self::Protocol => write!(f, "the peer's answer makes no sense: are both of the same version?"),
        }
    }
}

impl std::error::Error for OperationError {}

/// Why a region was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The node has no such region.
    NoSuchRegion(RegionId),
    /// The node grants this peer less than it asked for.
    NoRight {
        /// What was asked for.
        asked: Rights,
    },
    /// This peer holds as many grants as it may.
    TooManyRegions,
    /// The node has no descriptor left to hand over.
    NoDescriptor,
    /// The node's device could not be let into the region.
    NoRoom,
    /// The memory could not be mapped here.
    Map(MapError),
    /// The peer is gone.
    PeerGone,
    /// No answer within the deadline.
    Deadline,
    /// The peer's answer was not of the protocol's form.
    Protocol,
}

impl OpenError {
    /// The error that a wire outcome means.
    pub(crate) fn from_outcome(outcome: Option<Outcome>, region: RegionId, asked: Rights) -> Self {
        match outcome {
            Some(Outcome::NoSuchRegion) => Self::NoSuchRegion(region),
            Some(Outcome::NoRight) => Self::NoRight { asked },
            Some(Outcome::TooManyRegions) => Self::TooManyRegions,
            Some(Outcome::NoDescriptor) => Self::NoDescriptor,
            Some(Outcome::NoRoom) => Self::NoRoom,
            _ => Self::Protocol,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRegion(id) => write!(f, "the node has no {id}"),
            Self::NoRight { asked } => write!(f, "the node does not grant this peer {asked} on that region"),
            Self::TooManyRegions => write!(
                f,
                "this connection holds {REGIONS_PER_PEER_MAX} regions, which is the most: drop one, or use another connection"
            ),
            Self::NoDescriptor => write!(
                f,
                "the node has no file descriptor left: try again, or raise its limit (`ulimit -n`) and restart it"
            ),
            Self::NoRoom => write!(
                f,
                "the node cannot register the region with its device: raise its limit of locked memory (`ulimit -l`) and restart it, or use tcp://"
            ),
            Self::Map(cause) => cause.fmt(f),
            Self::PeerGone => write!(f, "the peer is gone: connect again"),
            Self::Deadline => write!(f, "no answer within the deadline"),
            Self::Protocol => write!(f, "the peer's answer makes no sense: are both of the same version?"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The request is longer than a message may be.
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The service does not know the method.
    UnknownMethod {
        /// The method.
        method: u16,
    },
    /// The service refused, and says why.
    Refused(String),
    /// The node has no room now; nothing was done. Try again.
    Busy,
    /// The peer is gone. The request may have been carried out.
    PeerGone,
    /// No answer within the deadline. The request may have been carried out.
    Deadline,
    /// The peer's answer was not of the protocol's form.
    Protocol,
}

impl CallError {
    /// What a reply's status means; `reply` is its body.
    #[inline]
    pub(crate) fn check(status: Option<Status>, method: u16, reply: &[u8]) -> Result<(), Self> {
        match status {
            Some(Status::Done) => Ok(()),
            Some(Status::UnknownMethod) => Err(Self::UnknownMethod { method }),
            Some(Status::Refused) => Err(Self::Refused(String::from_utf8_lossy(reply).into_owned())),
            Some(Status::Busy) => Err(Self::Busy),
            None => Err(Self::Protocol),
        }
    }

    /// Whether the request may have been carried out although no answer came. Such a request
    /// is repeated only if doing it twice is harmless.
    pub fn outcome_is_unknown(&self) -> bool {
        matches!(self, Self::PeerGone | Self::Deadline | Self::Protocol)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => {
                write!(f, "a message of {bytes} bytes is longer than the most, {MESSAGE_BYTES_MAX}")
            }
            Self::UnknownMethod { method } => {
                write!(f, "the service does not know method {method}: is the node of an older version?")
            }
            Self::Refused(why) => write!(f, "the service refused: {why}"),
            Self::Busy => write!(f, "the node has no room for the request now; nothing was done: try again"),
            Self::PeerGone => write!(f, "the peer is gone; the request may have been carried out"),
            Self::Deadline => {
                write!(f, "no answer within the deadline; the request may have been carried out")
            }
            Self::Protocol => write!(f, "the peer's answer makes no sense: are both of the same version?"),
        }
    }
}

impl std::error::Error for CallError {}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The address is not of a known form.
    Address {
        /// The address.
        address: String,
    },
    /// Nobody listens there.
    NoNode {
        /// The address.
        address: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The node refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The version that the node speaks.
        version: u16,
    },
    /// The node did not prove that it knows the token.
    NodeUnproved,
    /// The node's memory could not be mapped.
    Map(MapError),
    /// There are no verbs here, or at the node.
    Verbs(VerbsError),
    /// No answer within the deadline.
    Deadline,
    /// The peer's answer was not of the protocol's form.
    Protocol,
    /// The system refused a step.
    System(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { address } => {
                write!(f, "`{address}` is no address: write shm:PATH, tcp://HOST:PORT or verbs://HOST:PORT")
            }
            Self::NoNode { address, cause } => {
                write!(f, "no node at {address} ({cause}): start one with `barn serve`")
            }
            Self::Refused { refusal, version } => match refusal {
                Refusal::NotBarn => write!(f, "the node does not take this for Barn's protocol"),
                Refusal::Version => write!(
                    f,
                    "the node speaks version {version} and this program {VERSION}: upgrade the older one"
                ),
                Refusal::Credentials => {
                    write!(f, "the node does not let this user in: run as the node's user")
                }
                Refusal::TooManyPeers => write!(f, "the node has its most peers ({PEERS_MAX}): close some"),
                Refusal::Shape => {
                    write!(f, "the node does not offer the ring size or window that was asked for")
                }
                Refusal::Unauthenticated => write!(
                    f,
                    "the node lets nobody in without its token: give it (`--token-file`). A node that has none takes peers of other hosts only with --allow-unauthenticated"
                ),
                Refusal::BadToken => write!(f, "the token is not the node's"),
                Refusal::NoMemory => write!(f, "the node has no memory for another connection"),
                Refusal::NoTls => write!(f, "the node offers no TLS yet: use a token"),
            },
            Self::NodeUnproved => {
                write!(f, "the node at that address does not know the token: it may not be yours")
            }
            Self::Map(cause) => cause.fmt(f),
            Self::Verbs(cause) => cause.fmt(f),
            Self::Deadline => write!(f, "the node did not answer within the deadline"),
            Self::Protocol => write!(f, "what answers there does not speak Barn's protocol"),
            Self::System(cause) => write!(f, "connecting failed: {cause}"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<VerbsError> for ConnectError {
    fn from(cause: VerbsError) -> Self {
        Self::Verbs(cause)
    }
}

impl From<io::Error> for ConnectError {
    fn from(cause: io::Error) -> Self {
        Self::System(cause)
    }
}

impl From<rustix::io::Errno> for ConnectError {
    fn from(cause: rustix::io::Errno) -> Self {
        Self::System(cause.into())
    }
}
