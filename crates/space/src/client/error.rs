//! What can go wrong with spaces, an enum for each kind of operation, each message saying what to do next.

use crate::message::{Refusal, Role};
use barn_cluster::MemberId;
use std::fmt;

/// Why something was not asked for, granted or given back: the control path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceError {
    /// The master of spaces said no.
    Refused(Refusal),
    /// The session has ended, and with it all that it held.
    SessionLost,
    /// No member of the cluster could be asked.
    NoMaster {
        /// What was tried last.
        why: String,
    },
    /// The answer was lost: it may have been done.
    Indeterminate,
    /// The master's answer makes no sense.
    Protocol,
}

impl SpaceError {
    pub(crate) fn refused(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSession => Self::SessionLost,
            other => Self::Refused(other),
        }
    }
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => say(refusal, f),
            Self::SessionLost => {
                write!(
                    f,
                    "the session with the master of spaces has ended, and all that it held: join the space again"
                )
            }
            Self::NoMaster { why } => {
                write!(f, "the master of spaces could not be asked ({why}): is the cluster's first node up?")
            }
            Self::Indeterminate => {
                write!(
                    f,
                    "the answer was lost, and it may have been done: look at the space before doing it again"
                )
            }
            Self::Protocol => write!(f, "the master's answer makes no sense: are both of the same version?"),
        }
    }
}

impl std::error::Error for SpaceError {}

/// A refusal, in words.
fn say(refusal: &Refusal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal {
        Refusal::NoSession => fmt::Display::fmt(&SpaceError::SessionLost, f),
        Refusal::NoSpace { name } => write!(f, "there is no space `{name}`: create it, or look at the list"),
        Refusal::SpaceExists { name } => write!(f, "there is a space `{name}` already: join it"),
        Refusal::NotAllowed { role, needed } => write!(
            f,
            "{} may not do that in this space, {} may: join it with that key",
            role_name(*role),
            role_name(*needed)
        ),
        Refusal::BadKey => write!(f, "the key is none of this space's: ask its owner for one"),
        Refusal::BadName { why } => write!(f, "this is no name for a space: {why}"),
        Refusal::BadSize { why } => write!(f, "this size is not possible: {why}"),
        Refusal::BadRange { address, bytes } => write!(
            f,
            "there is no range of {bytes} bytes at {address:#x} in this space: see which ranges it has"
        ),
        Refusal::NotReserved { wanted_bytes, free_bytes } => write!(
            f,
            "{wanted_bytes} bytes are wanted and {free_bytes} of what is reserved are free: reserve more first"
        ),
        Refusal::NoMemory { why } => {
            write!(f, "the nodes have no more memory ({why}): add nodes, or raise their space_memory")
        }
        Refusal::NoHold => write!(f, "the range is not held any more: hold it again"),
        Refusal::HasWriter { left_ms } => {
            write!(f, "somebody else is the range's writer, for {left_ms} ms at the most: try again then")
        }
        Refusal::LeaseOver => {
            write!(f, "the writer's lease has ended and nothing was switched: lease again, and write again")
        }
        Refusal::WrongKind { why } => f.write_str(why),
        Refusal::Lost { member } => {
            write!(f, "a chunk of it was lost with node {}: free the range and fill another", member.0)
        }
        Refusal::NotMaster => {
            write!(f, "that node is not the master of spaces: ask the cluster's first node")
        }
        Refusal::Unavailable { why } => write!(f, "not now ({why}): try again"),
    }
}

/// A role's name.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Nobody => "nobody",
        Role::Reader => "a reader",
        Role::Writer => "a writer",
        Role::Owner => "an owner",
    }
}

/// Why a range was not mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The part leaves what is held.
    OutOfBounds {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// How much is held.
        held_bytes: u64,
    },
    /// The range is not held to write to it.
    ReadOnly,
    /// The session has ended, and with it all that it held.
    SessionLost,
    /// A node could not be reached.
    Unreachable {
        /// Which.
        member: MemberId,
        /// Why.
        why: String,
    },
    /// A node that held a part of it was started again or lost, and its bytes with it.
    Lost {
        /// Which.
        member: MemberId,
    },
    /// The hold has ended: the space was deleted, or the session was lost.
    Ended {
        /// At which node that was noticed.
        member: MemberId,
    },
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { offset, bytes, held_bytes } => {
                write!(f, "{bytes} bytes at {offset} leave the range, of which {held_bytes} bytes are held")
            }
            Self::ReadOnly => write!(f, "the range is held for reading only: hold it to write, or lease it"),
            Self::SessionLost => SpaceError::SessionLost.fmt(f),
            Self::Unreachable { member, why } => {
                write!(f, "node {} cannot be reached ({why}): try again when it is back", member.0)
            }
            Self::Lost { member } => lost(*member, f),
            Self::Ended { member } => ended(*member, f),
        }
    }
}

impl std::error::Error for MapError {}

fn lost(member: MemberId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "a chunk was lost with node {}, which was started again or is gone: free the range and fill another",
        member.0
    )
}

fn ended(member: MemberId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        f,
        "node {} lets nobody into this chunk any more: the space was deleted, or the hold or the lease on it has ended; hold it again",
        member.0
    )
}

/// Why bytes were not moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// They leave the mapping.
    OutOfBounds {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        bytes: u64,
        /// How long the mapping is.
        mapped_bytes: u64,
    },
    /// The mapping is for reading only.
    ReadOnly,
    /// An atomic's offset is no multiple of 8.
    Misaligned {
        /// The offset.
        offset: u64,
    },
    /// The grant has ended: the space was deleted, the hold or the lease is over. Of a write, a part may
    /// have been done.
    Ended {
        /// At which node.
        member: MemberId,
    },
    /// The node is gone, and its bytes with it. Of a write, a part may have been done.
    Lost {
        /// Which.
        member: MemberId,
    },
    /// The node did not answer in time. Of a write, a part may have been done.
    Deadline {
        /// Which.
        member: MemberId,
    },
    /// The node's answer makes no sense.
    Protocol {
        /// Which.
        member: MemberId,
    },
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { offset, bytes, mapped_bytes } => {
                write!(f, "{bytes} bytes at {offset} leave the mapping, which has {mapped_bytes} bytes")
            }
            Self::ReadOnly => {
                write!(f, "the mapping is for reading only: hold the range to write, or lease it")
            }
            Self::Misaligned { offset } => {
                write!(f, "an atomic at {offset}: the offset must be a multiple of 8")
            }
            Self::Ended { member } => ended(*member, f),
            Self::Lost { member } => lost(*member, f),
            Self::Deadline { member } => write!(
                f,
                "node {} did not answer in time: try again; a write may have been done in part",
                member.0
            ),
            Self::Protocol { member } => {
                write!(f, "the answer of node {} makes no sense: are both of the same version?", member.0)
            }
        }
    }
}

impl std::error::Error for AccessError {}

/// Why a copy-on-write range was not leased, written or switched. Readers see the version before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The master said no, or could not be asked.
    Space(SpaceError),
    /// The fresh chunks could not be mapped.
    Map(MapError),
    /// Bytes could not be moved.
    Access(AccessError),
    /// A write has failed before: what was written so far may have holes.
    Broken,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Space(error) => error.fmt(f),
            Self::Map(error) => error.fmt(f),
            Self::Access(error) => error.fmt(f),
            Self::Broken => {
                write!(
                    f,
                    "an earlier write through this lease has failed: abandon it, lease again, write again"
                )
            }
        }
    }
}

impl std::error::Error for WriteError {}

impl From<SpaceError> for WriteError {
    fn from(error: SpaceError) -> Self {
        Self::Space(error)
    }
}

impl From<MapError> for WriteError {
    fn from(error: MapError) -> Self {
        Self::Map(error)
    }
}

impl From<AccessError> for WriteError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}
