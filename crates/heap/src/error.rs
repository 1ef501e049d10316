//! What can go wrong, and what to do about it.

use barn_fabric::AccessError;
use barn_layout::RegionId;
use barn_layout::bytes::human;
use std::fmt;

/// Why a region was not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeapError {
    /// The heap has this region already.
    Duplicate(RegionId),
    /// A region must have two blocks at least and 2 GiB at most.
    Length {
        /// How long it is.
        bytes: u64,
    },
    /// The memory is not zero and was not formatted by a heap, or by one of another format.
    Format {
        /// What is wrong.
        why: &'static str,
    },
    /// The memory is that of another region.
    Other {
        /// Whose it is.
        found: RegionId,
    },
    /// The memory contradicts itself.
    Corrupt {
        /// In which block.
        block: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// The memory could not be reached.
    Memory(AccessError),
}

/// Why nothing was allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// The budget is used up.
    Budget {
        /// The budget.
        budget_bytes: u64,
        /// What is held of it.
        held_bytes: u64,
        /// What would have been needed in addition.
        needed_bytes: u64,
        /// What of it is empty and only waits for readers to leave.
        waiting_bytes: u64,
    },
    /// The budget allows it, but no region has room: add a region and try again.
    Full {
        /// How many blocks in a row were needed.
        blocks: usize,
    },
    /// Objects, or arrays, of this length are not supported.
    TooLarge {
        /// The length asked for, of one object.
        bytes: usize,
        /// How many objects.
        count: usize,
    },
    /// The memory could not be reached.
    Memory(AccessError),
}

/// Why an object was not read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectError {
    /// No slot starts there.
    NotAnObject,
    /// There is no object, or another than the one meant.
    Freed,
    /// Somebody else has locked it.
    Locked,
    /// It is not locked, as whoever changes it must have done first.
    NotLocked,
    /// It has another version.
    Changed {
        /// Which.
        version: u64,
    },
    /// The slot is not one that `reserve` gave and nobody has used since.
    NotReserved,
    /// The bytes do not have the object's length, or do not fit.
    Length {
        /// How many there were.
        bytes: usize,
        /// How many there must be, or may be at most.
        expected: usize,
    },
    /// The memory could not be reached.
    Memory(AccessError),
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate(region) => write!(f, "{region} is in use already"),
            Self::Length { bytes } => write!(f, "a region of {bytes} bytes: 2 MiB to 2 GiB are possible"),
            Self::Format { why } => write!(f, "not a region of this version of Barn: {why}"),
            Self::Other { found } => write!(f, "the memory is that of {found}"),
            Self::Corrupt { block, why } => {
                write!(f, "block {block} is damaged ({why}): recover the region from a replica or a log")
            }
            Self::Memory(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget { budget_bytes, held_bytes, needed_bytes, waiting_bytes } => {
                let [needed, held, budget] =
                    [needed_bytes, held_bytes, budget_bytes].map(|bytes| human(*bytes));
                write!(
                    f,
                    "{needed} more than the {held} held would exceed the memory budget of {budget}: delete \
                     something, raise the budget or add a node"
                )?;
                match waiting_bytes {
                    0 => Ok(()),
                    some => {
                        write!(f, "; {} become free when their readers have left: try again", human(*some))
                    }
                }
            }
            Self::Full { blocks } => {
                write!(
                    f,
                    "no region has {blocks} MiB in a row left: delete something, raise the budget or add a node"
                )
            }
            Self::TooLarge { bytes, count: 1 } => {
                write!(f, "{bytes} bytes are more than an object can have: divide it")
            }
            Self::TooLarge { bytes, count } => {
                write!(f, "{count} objects of {bytes} bytes do not fit side by side: ask for fewer")
            }
            Self::Memory(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnObject => write!(f, "no object can start there"),
            Self::Freed => write!(f, "the object has been freed"),
            Self::Locked => write!(f, "the object is locked"),
            Self::NotLocked => write!(f, "the object is not locked"),
            Self::Changed { version } => write!(f, "the object has changed: its version is {version}"),
            Self::NotReserved => write!(f, "the place is not reserved"),
            Self::Length { bytes, expected } => write!(f, "{bytes} bytes where {expected} are expected"),
            Self::Memory(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for HeapError {}
impl std::error::Error for AllocError {}
impl std::error::Error for ObjectError {}

impl From<AccessError> for HeapError {
    fn from(error: AccessError) -> Self {
        Self::Memory(error)
    }
}

impl From<AccessError> for AllocError {
    fn from(error: AccessError) -> Self {
        Self::Memory(error)
    }
}

impl From<AccessError> for ObjectError {
    fn from(error: AccessError) -> Self {
        Self::Memory(error)
    }
}
