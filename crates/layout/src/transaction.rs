//! What a transaction's client, the nodes it touches and their resolvers say to each other
//! (FaRM section 3.4).

use crate::shared::shared_struct;
use core::fmt;
use zerocopy::little_endian::{U32, U64};

/// The first method of the transaction layer; the others follow.
pub const METHODS_START: u16 = 32;

shared_struct! {
    /// Names a transaction: its client's session, and a number of the session's own.
    pub struct TransactionId: 16 {
        /// A random number that the client chose.
        0 => pub session: U64,
        /// Counts the session's transactions.
        8 => pub number: U64,
    }
}

impl core::hash::Hash for TransactionId {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.session.get() ^ self.number.get().rotate_left(32));
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.session.get(), self.number.get())
    }
}

shared_struct! {
    /// Opens a session at a node.
    pub struct Hello: 16 {
        /// The session; never used again once it has ended.
        0 => pub session: U64,
        /// Who it is: 0 a client, 1 a node's resolver.
        8 => pub role: U32,
        /// Zero.
        12 => pub reserved: U32,
    }
}

shared_struct! {
    /// The answer to [`Hello`].
    pub struct Welcome: 40 {
        /// How long the session lives without a renewal.
        0 => pub lease_ms: U64,
        /// The node's present epoch.
        8 => pub epoch: U64,
        /// The node's number in its cluster.
        16 => pub member: U32,
        /// Zero.
        20 => pub reserved: U32,
        /// Which cluster that is.
        24 => pub cluster: U64,
        /// The life of the node's process: a node that was started again has another.
        32 => pub life: U64,
    }
}

shared_struct! {
    /// Renews a session.
    pub struct Renew: 16 {
        /// The session.
        0 => pub session: U64,
        /// Every read that began in an earlier epoch of the node has ended.
        8 => pub epoch: U64,
    }
}

shared_struct! {
    /// The answer to [`Renew`].
    pub struct Renewed: 16 {
        /// The node's present epoch.
        0 => pub epoch: U64,
        /// The version of the configuration that the node knows.
        8 => pub configuration: U64,
    }
}

shared_struct! {
    /// Asks for places for new objects.
    pub struct Reserve: 32 {
        /// An address to be near to; zero for none.
        0 => pub hint: U64,
        /// The length of each object.
        8 => pub bytes: U32,
        /// How many.
        12 => pub count: U32,
        /// What for, as the heap numbers purposes.
        16 => pub purpose: U32,
        /// Whether they must stand side by side in one block: 1 if so.
        20 => pub array: U32,
        /// Zero.
        24 => pub reserved: U64,
    }
}

shared_struct! {
    /// A place for a new object.
    pub struct ReservedPlace: 24 {
        /// Where.
        0 => pub address: U64,
        /// The version that the object will have.
        8 => pub version: U64,
        /// The incarnation that the object will have.
        16 => pub incarnation: U32,
        /// The distance to the next element of an array.
        20 => pub stride: U32,
    }
}

shared_struct! {
    /// Asks a node to lock what a transaction changes there, or, if the transaction touches no
    /// other node, to carry it out. Followed by the participants, the reads and the writes.
    pub struct Prepare: 48 {
        /// Which transaction.
        0 => pub transaction: TransactionId,
        /// The version of the configuration that the client knows.
        16 => pub configuration: U64,
        /// How many [`ParticipantEntry`] follow.
        24 => pub participants: U32,
        /// How many [`ReadEntry`] follow.
        28 => pub reads: U32,
        /// How many [`WriteEntry`], each with its bytes, follow.
        32 => pub writes: U32,
        /// [`PREPARE_LAST`], [`PREPARE_ALONE`], [`PREPARE_CLOSED`], and from
        /// [`PREPARE_DURABILITY_SHIFT`] on the durability that is asked for.
        36 => pub flags: U32,
        /// The frame's number, from zero.
        40 => pub frame: U32,
        /// Zero.
        44 => pub reserved: U32,
    }
}

/// No further frame follows.
pub const PREPARE_LAST: u32 = 1;
/// The transaction touches this node only: lock, validate and change in one go.
pub const PREPARE_ALONE: u32 = 2;
/// The transaction has read what it does not change: from here on nobody reads what it changes.
pub const PREPARE_CLOSED: u32 = 4;
/// Where the [`Durability`](crate::Durability) stands in the flags; 0 for what is usual.
pub const PREPARE_DURABILITY_SHIFT: u32 = 8;

shared_struct! {
    /// Begins what a log notes of a transaction that waits for its decision: the participants and
    /// the writes follow, as they came.
    pub struct HeldNote: 16 {
        /// How many participants.
        0 => pub participants: U32,
        /// How many writes.
        4 => pub writes: U32,
        /// The durability that was asked for; 0 for what is usual.
        8 => pub durability: U32,
        /// 1 if it is decided that it will be carried out.
        12 => pub decided: U32,
    }
}

shared_struct! {
    /// A node whose objects a transaction changes.
    pub struct ParticipantEntry: 8 {
        /// Its number in the cluster.
        0 => pub member: U32,
        /// Zero.
        4 => pub reserved: U32,
    }
}

shared_struct! {
    /// An object that must not have changed.
    pub struct ReadEntry: 16 {
        /// Where.
        0 => pub address: U64,
        /// The version that was read.
        8 => pub version: U64,
    }
}

shared_struct! {
    /// A change of an object, followed by its new bytes, padded to a word.
    pub struct WriteEntry: 32 {
        /// Where.
        0 => pub address: U64,
        /// The version that it replaces; for a new object, the one it will have.
        8 => pub version: U64,
        /// The object's incarnation.
        16 => pub incarnation: U32,
        /// A [`Change`].
        20 => pub change: U32,
        /// How many bytes follow.
        24 => pub bytes: U32,
        /// Zero.
        28 => pub reserved: U32,
    }
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Change {
    /// Its bytes are replaced.
    Update = 0,
    /// It comes to be, where a place was reserved.
    Create = 1,
    /// It is freed.
    Free = 2,
}

impl Change {
    /// The change that a number means, if any.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(Self::Update),
            1 => Some(Self::Create),
            2 => Some(Self::Free),
            _ => None,
        }
    }
}

shared_struct! {
    /// A node's answer to [`Prepare`], and to a list of reads to validate.
    pub struct Vote: 24 {
        /// A [`Verdict`].
        0 => pub verdict: U32,
        /// Zero.
        4 => pub reserved: U32,
        /// The object that stood in the way.
        8 => pub address: U64,
        /// The version of the configuration that the node knows.
        16 => pub configuration: U64,
    }
}

/// What a node says to a step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// Done: locked, decided, or carried out.
    Yes = 0,
    /// An object is locked by another transaction.
    Locked = 1,
    /// An object has changed since it was read.
    Changed = 2,
    /// An object has been freed.
    Freed = 3,
    /// The address is not that of an object here.
    NotAnObject = 4,
    /// The new bytes are not as long as the object.
    Length = 5,
    /// The session has ended; begin another.
    SessionEnded = 6,
    /// The transaction is being decided, or has been, by the nodes themselves.
    InRecovery = 7,
    /// The region is not held here (any more).
    NotHere = 8,
    /// The transaction holds more than a node takes.
    TooLarge = 9,
    /// Nothing is known of the transaction.
    Unknown = 10,
}

impl Verdict {
    /// The verdict that a number means, if any.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            0 => Self::Yes,
            1 => Self::Locked,
            2 => Self::Changed,
            3 => Self::Freed,
            4 => Self::NotAnObject,
            5 => Self::Length,
            6 => Self::SessionEnded,
            7 => Self::InRecovery,
            8 => Self::NotHere,
            9 => Self::TooLarge,
            10 => Self::Unknown,
            _ => return None,
        })
    }
}

shared_struct! {
    /// A step after [`Prepare`].
    pub struct Step: 24 {
        /// Which transaction.
        0 => pub transaction: TransactionId,
        /// A [`StepKind`].
        16 => pub kind: U32,
        /// Zero.
        20 => pub reserved: U32,
    }
}

/// What is to be done with a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum StepKind {
    /// It will be carried out: nobody reads its objects from here on.
    Decide = 0,
    /// Every node knows that it will be: carry it out.
    Apply = 1,
    /// It will not be.
    Abort = 2,
    /// Its client does not know what became of it and leaves it to the nodes.
    Leave = 3,
}

impl StepKind {
    /// The step that a number means, if any.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(Self::Decide),
            1 => Some(Self::Apply),
            2 => Some(Self::Abort),
            3 => Some(Self::Leave),
            _ => None,
        }
    }
}

shared_struct! {
    /// What a node knows of a transaction.
    pub struct Known: 8 {
        /// A [`State`].
        0 => pub state: U32,
        /// Zero.
        4 => pub reserved: U32,
    }
}

/// How far a transaction has come at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing is known of it.
    Unknown = 0,
    /// Its objects are locked.
    Prepared = 1,
    /// It will be carried out.
    Decided = 2,
    /// It has been carried out.
    Committed = 3,
    /// It will not be carried out.
    Aborted = 4,
}

impl State {
    /// The state that a number means, if any.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(Self::Unknown),
            1 => Some(Self::Prepared),
            2 => Some(Self::Decided),
            3 => Some(Self::Committed),
            4 => Some(Self::Aborted),
            _ => None,
        }
    }
}

shared_struct! {
    /// A transaction that its client has left behind, followed by its participants.
    pub struct Orphan: 24 {
        /// Which transaction.
        0 => pub transaction: TransactionId,
        /// How many [`ParticipantEntry`] follow.
        16 => pub participants: U32,
        /// Zero.
        20 => pub reserved: U32,
    }
}

shared_struct! {
    /// Calls a function next to an object, followed by its name and its argument.
    pub struct Ship: 24 {
        /// The object.
        0 => pub address: U64,
        /// The object's incarnation.
        8 => pub incarnation: U32,
        /// The object's length.
        12 => pub bytes: U32,
        /// How long the name is.
        16 => pub name_bytes: U32,
        /// How long the argument is.
        20 => pub argument_bytes: U32,
    }
}
