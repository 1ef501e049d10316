//! What clients and keepers ask the master of spaces, and what it answers.
//!
//! The master runs on the node that coordinates the cluster, and is a state machine without I/O. A
//! *keeper* runs on every node: it makes chunks, scrubs them and lets them go, as the master says. It
//! asks for work ([`Request::Attend`]) and is answered when there is some, so that the master calls
//! nobody. Clients have a *session* with a lease, under which everything that they hold is counted.

use barn_cluster::{Life, MemberId};
use serde::{Deserialize, Serialize};

/// The default size of a chunk (RStore section IV: 64 MB).
pub const CHUNK_BYTES_DEFAULT: u64 = 64 << 20;
/// The smallest chunk: below that a chunk's own cost outweighs it.
pub const CHUNK_BYTES_MIN: u64 = 64 << 10;
/// The largest chunk: the largest region.
pub const CHUNK_BYTES_MAX: u64 = barn_layout::limits::REGION_BYTES_MAX;
/// The longest name of a space.
pub const NAME_BYTES_MAX: usize = 255;
/// How long a writer's lease on a copy-on-write range is, unless it asks otherwise (RStore III-G: 10 s).
pub const WRITER_LEASE_MS_DEFAULT: u64 = 10_000;

/// A client's session with the master: drawn by the client, 64 unpredictable bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

/// Names a space for as long as it exists; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpaceId(pub u64);

/// Names what a session holds of a range: one for each `alloc` and `init`, until it is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HoldId(pub u64);

/// Names something that a keeper was told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub u64);

/// What somebody may do in a space; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Nothing: a private space, for those without a key.
    Nobody,
    /// Map and read.
    Reader,
    /// Read, write, reserve, alloc, free what it has allocated.
    Writer,
    /// All of that, free what others have allocated, and delete the space.
    Owner,
}

/// The keys of a space, 128 unpredictable bits each, in hex: who shows one has its role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Whoever made the space.
    pub owner: String,
    /// For those who may write.
    pub writer: String,
    /// For those who may read.
    pub reader: String,
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Chunk {
    /// At which member.
    pub member: MemberId,
    /// Under which region number there. Numbers from [`FIRST_CHUNK_REGION`] on are chunks.
    pub region: u32,
    /// Its word in that member's marks ([`MARKS_REGION`]): 0 is clean, anything else tainted.
    pub mark: u32,
}

/// The region of a member in which the marks of its chunks are, eight bytes each, for everybody to read.
pub const MARKS_REGION: u32 = 0x8000_0000;
/// Chunks are regions of their members, numbered from here.
pub const FIRST_CHUNK_REGION: u32 = 0x8000_0001;

/// A pass into chunks of one member. A client shows it to that member ([`Enter`]) and may then
/// open the regions with those rights; nobody else can make one out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// At which member.
    pub member: MemberId,
    /// In which life of it.
    pub life: Life,
    /// For whom.
    pub session: SessionId,
    /// Which regions.
    pub regions: Vec<u32>,
    /// Whether it allows writing, too.
    pub write: bool,
    /// A keyed code over all of the above, in hex, under the secret of master and keepers.
    pub code: String,
}

/// A range of addresses, as it was when the master answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Where it begins: a multiple of the chunk size.
    pub address: u64,
    /// How long it is: what was asked for; the last chunk may be longer.
    pub bytes: u64,
    /// Whether it is copy-on-write.
    pub copy_on_write: bool,
    /// Of a copy-on-write range, how often it was switched; otherwise 0.
    pub version: u64,
    /// Its chunks, in order; those of the part that was asked for.
    pub chunks: Vec<Chunk>,
    /// The first chunk's number in the range, where only a part was asked for.
    pub first_chunk: u64,
    /// How long a chunk is.
    pub chunk_bytes: u64,
}

/// A question to the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Begin a session, or renew its lease. Answered by `Renewed`.
    Renew {
        /// Whose.
        session: SessionId,
    },
    /// End a session, and with it all that it holds. Answered by `Done`.
    End {
        /// Whose.
        session: SessionId,
    },
    /// Make a space. Answered by `Created`; asked again by the same session, in the same way.
    Create {
        /// Who asks.
        session: SessionId,
        /// Its name.
        name: String,
        /// How long its chunks are: a power of two.
        chunk_bytes: u64,
        /// What those without a key may do.
        everyone: Role,
    },
    /// Join a space. Answered by `Joined`.
    Join {
        /// Who asks.
        session: SessionId,
        /// Its name.
        name: String,
        /// A key, if one is needed.
        key: Option<String>,
    },
    /// Delete a space, whoever still maps it. Answered by `Done`.
    Delete {
        /// Who asks; it has joined as owner.
        session: SessionId,
        /// Which.
        space: SpaceId,
    },
    /// All spaces. Answered by `Spaces`.
    List,
    /// One space. Answered by `Spaces` with one entry.
    Stat {
        /// Its name.
        name: String,
    },
    /// Prepare so much memory for a space. Answered by `Reserved`, once it is there.
    Reserve {
        /// Who asks.
        session: SessionId,
        /// For which space.
        space: SpaceId,
        /// How much; rounded up to whole chunks.
        bytes: u64,
    },
    /// Give reserved memory that is bound to nothing back. Answered by `Reserved`.
    Release {
        /// Who asks.
        session: SessionId,
        /// Which space.
        space: SpaceId,
        /// How much; rounded down to whole chunks.
        bytes: u64,
    },
    /// Bind reserved chunks to new addresses. Answered by `Held`.
    Alloc {
        /// Who asks.
        session: SessionId,
        /// In which space.
        space: SpaceId,
        /// How much.
        bytes: u64,
        /// Whether the range is copy-on-write.
        copy_on_write: bool,
    },
    /// Hold all or part of a range that somebody allocated. Answered by `Held`.
    Init {
        /// Who asks.
        session: SessionId,
        /// In which space.
        space: SpaceId,
        /// From where.
        address: u64,
        /// How much.
        bytes: u64,
        /// Whether to write to it, too (of a copy-on-write range, that is by `Lease`).
        write: bool,
    },
    /// Let go of what `alloc` or `init` gave. Answered by `Done`.
    Drop {
        /// Who asks.
        session: SessionId,
        /// What.
        hold: HoldId,
    },
    /// Free a range. Its chunks go back once nobody holds them. Answered by `Done`.
    Free {
        /// Who asks.
        session: SessionId,
        /// In which space.
        space: SpaceId,
        /// Where the range begins.
        address: u64,
    },
    /// Become the one writer of a copy-on-write range, and get fresh chunks for these parts of it.
    /// Answered by `Leased`. Asked again while the lease lasts, it adds chunks and renews the lease; with a
    /// later turn, it ends what the turn before had and begins anew.
    Lease {
        /// Who asks.
        session: SessionId,
        /// What it holds of the range.
        hold: HoldId,
        /// Which of the hold's leases: larger than those before. What the client says of an earlier one may
        /// arrive when a later one has begun.
        turn: u64,
        /// The numbers of the chunks to be written, within the range.
        chunks: Vec<u64>,
        /// For how long; 0 for the default.
        lease_ms: u64,
    },
    /// Switch the range to the chunks that were written, all at once, and end the lease. The hold is on
    /// the new version from then on. Answered by `Held`.
    Commit {
        /// Who asks.
        session: SessionId,
        /// What it holds of the range.
        hold: HoldId,
        /// Which of its leases.
        turn: u64,
        /// The version that `Leased` named.
        version: u64,
    },
    /// End the lease without a switch, unless a later one has begun. Answered by `Done`.
    Abandon {
        /// Who asks.
        session: SessionId,
        /// What it holds of the range.
        hold: HoldId,
        /// Which of its leases.
        turn: u64,
    },
    /// Move a hold to the newest version of its range. Answered by `Held`, with a new hold; the old one is
    /// let go.
    Refresh {
        /// Who asks.
        session: SessionId,
        /// What it holds.
        hold: HoldId,
    },
    /// Which of these sessions are alive. Answered by `Alive`.
    Alive {
        /// Which.
        sessions: Vec<SessionId>,
    },
    /// A keeper's: what was done, and is there more? Answered by `Work` as soon as there is some, or
    /// after a while with none.
    Attend {
        /// Which member.
        member: MemberId,
        /// Its life: chunks of an earlier one are lost.
        life: Life,
        /// The memory that it has left for chunks.
        free_bytes: u64,
        /// What was done.
        done: Vec<Done>,
    },
}

/// What a keeper is to do: in order, and each task once, for one that was not answered in time is handed out
/// again. Numbers of regions are not used twice in a keeper's life, and a region that is not there (any more)
/// counts as retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Let go of every chunk that there is, and of every task before: the master knows none of them. It is
    /// what a keeper hears first of a master that it, or this life of it, is new to.
    Clear {
        /// Named in the answer.
        task: TaskId,
    },
    /// Make so many chunks.
    Prepare {
        /// Named in the answer.
        task: TaskId,
        /// How long each.
        chunk_bytes: u64,
        /// How many.
        count: u64,
    },
    /// End every grant on these chunks. With `keep`, zero them and register them anew, for another use;
    /// without, let their memory go: somebody may still have them mapped for writing.
    Retire {
        /// Named in the answer.
        task: TaskId,
        /// Which.
        regions: Vec<u32>,
        /// Whether they are wanted again.
        keep: bool,
    },
    /// Mark these chunks as tainted: there is a newer version.
    Taint {
        /// Named in the answer.
        task: TaskId,
        /// Their marks.
        marks: Vec<u32>,
    },
}

/// What a keeper has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Done {
    /// The chunks are there (also those of `Retire` with `keep`): region and mark of each. Fewer than
    /// asked for, if memory ran out.
    Prepared {
        /// The task.
        task: TaskId,
        /// Region and mark of each.
        chunks: Vec<(u32, u32)>,
        /// Why there are no more, if there are too few.
        why: Option<String>,
    },
    /// The rest is done.
    Finished {
        /// The task.
        task: TaskId,
    },
}

/// A space, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// Its number.
    pub space: SpaceId,
    /// Its name.
    pub name: String,
    /// How long its chunks are.
    pub chunk_bytes: u64,
    /// What those without a key may do.
    pub everyone: Role,
    /// Bytes prepared for it, in all.
    pub reserved_bytes: u64,
    /// Of these, bound to addresses: in ranges, in old versions that somebody holds, in writers' leases.
    pub used_bytes: u64,
    /// Ranges: address, bytes, whether copy-on-write, version, holds.
    pub ranges: Vec<RangeInfo>,
    /// Sessions that have joined it.
    pub sessions: u64,
}

/// A range, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeInfo {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// Whether it is copy-on-write.
    pub copy_on_write: bool,
    /// Its version.
    pub version: u64,
    /// How many hold it.
    pub holds: u64,
    /// Whether somebody has the writer's lease.
    pub writer: bool,
    /// Whether a chunk of it was lost with its node.
    pub lost: bool,
}

/// The master's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Done.
    Done,
    /// The session has a lease, from before it asked.
    Renewed {
        /// How long it is.
        lease_ms: u64,
    },
    /// The space is there, and the session has joined it as owner.
    Created {
        /// Which.
        space: SpaceId,
        /// Its keys.
        keys: Keys,
    },
    /// The session has joined.
    Joined {
        /// Which.
        space: SpaceId,
        /// As what.
        role: Role,
        /// How long its chunks are.
        chunk_bytes: u64,
    },
    /// Spaces.
    Spaces(Vec<SpaceInfo>),
    /// What is prepared for the space now.
    Reserved {
        /// In all.
        reserved_bytes: u64,
        /// Of these, bound to nothing yet.
        free_bytes: u64,
    },
    /// The session holds the range.
    Held {
        /// Under this name.
        hold: HoldId,
        /// What.
        range: Range,
        /// How to get in.
        passes: Vec<Pass>,
    },
    /// The session is the range's writer.
    Leased {
        /// For `Commit`: the version that it will make.
        version: u64,
        /// How long the lease is, from before it was asked for.
        lease_ms: u64,
        /// Fresh chunks: the number within the range, and where.
        chunks: Vec<(u64, Chunk)>,
        /// How to get in, to write.
        passes: Vec<Pass>,
    },
    /// Of the sessions asked for, these are alive.
    Alive(Vec<SessionId>),
    /// A keeper's work.
    Work {
        /// What to do.
        work: Vec<Work>,
        /// The secret that passes are made with, 32 bytes in hex.
        secret: String,
    },
    /// It cannot be, and why.
    Refused(Refusal),
}

/// Why the master refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The session's lease has ended: all that it held is gone. Begin another.
    NoSession,
    /// There is no such space (any more).
    NoSpace {
        /// The name, or the number.
        name: String,
    },
    /// There is a space of that name.
    SpaceExists {
        /// The name.
        name: String,
    },
    /// The role does not allow that.
    NotAllowed {
        /// What the session is there.
        role: Role,
        /// What it would have to be.
        needed: Role,
    },
    /// The key is none of the space's.
    BadKey,
    /// A name that is empty, too long, or has characters that it may not have.
    BadName {
        /// Why.
        why: String,
    },
    /// A size that is zero, not a power of two, too large, or past 64 bits.
    BadSize {
        /// Why.
        why: String,
    },
    /// There is no range there, or it ends before that.
    BadRange {
        /// From where.
        address: u64,
        /// How much.
        bytes: u64,
    },
    /// More than is reserved and free: reserve more.
    NotReserved {
        /// Wanted.
        wanted_bytes: u64,
        /// There.
        free_bytes: u64,
    },
    /// The nodes have no more memory.
    NoMemory {
        /// What is missing, and at whom.
        why: String,
    },
    /// The hold is not the session's, or was let go.
    NoHold,
    /// Somebody else is the range's writer.
    HasWriter {
        /// How long that lease is still, at the most.
        left_ms: u64,
    },
    /// The writer's lease has ended: nothing was switched.
    LeaseOver,
    /// Not for this kind of range.
    WrongKind {
        /// What to do instead.
        why: String,
    },
    /// A chunk was lost with its node.
    Lost {
        /// Whose.
        member: MemberId,
    },
    /// This node does not coordinate the cluster.
    NotMaster,
    /// Not now: try again.
    Unavailable {
        /// Why.
        why: String,
    },
}

/// What a client shows to a member to be let into chunks: the pass. Answered by an empty message, or refused.
pub type Enter = Pass;
