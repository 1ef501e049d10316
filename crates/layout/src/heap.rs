//! A region as the heap divides it (FaRM section 3.2).
//!
//! Block 0 holds a [`RegionHeader`], then, at [`STATES_AT`], a [`BlockState`] of 8 bytes for every
//! block, and at [`FLOORS_AT`] a [`BlockFloor`] for every block. The other blocks hold slabs of one
//! size, alone or in runs, or are free.

use crate::limits::{REGION_BYTES_MAX, WORD_BYTES};
use crate::shared::shared_struct;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::transmute;

/// The unit in which a region is given to size classes, as in FaRM.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Blocks of the largest region.
pub const BLOCKS_MAX: usize = REGION_BYTES_MAX as usize / BLOCK_BYTES;

/// Where the block states start: the second page, so that the header may grow.
pub const STATES_AT: u64 = 4096;

/// Where the block floors start: behind the states of the largest region.
pub const FLOORS_AT: u64 = STATES_AT + (BLOCKS_MAX * BlockState::BYTES) as u64;

const _: () = assert!(FLOORS_AT as usize + BLOCKS_MAX * BlockFloor::BYTES <= BLOCK_BYTES);
const _: () = assert!(BlockState::BYTES == WORD_BYTES);

/// The first word of a region that a heap has taken: "barnheap".
pub const REGION_MAGIC: u64 = u64::from_le_bytes(*b"barnheap");

/// The format of what this file declares.
pub const REGION_FORMAT: u32 = 1;

shared_struct! {
    /// What a region's first block starts with.
    pub struct RegionHeader: 32 {
        /// [`REGION_MAGIC`], written last: a region without it has not been formatted.
        0 => pub magic: U64,
        /// [`REGION_FORMAT`].
        8 => pub format: U32,
        /// The region's own id: memory that was mixed up is not taken for another's.
        12 => pub region: U32,
        /// The region's length.
        16 => pub bytes: U64,
        /// The length of a block.
        24 => pub block_bytes: U32,
        /// Zero.
        28 => pub reserved: U32,
    }
}

shared_struct! {
    /// What a block is used for: one word, so that it changes at once.
    pub struct BlockState: 8 {
        /// See [`BlockKind`].
        0 => pub kind: u8,
        /// See [`Purpose`].
        1 => pub purpose: u8,
        /// Of a run's first block, how many blocks it has; of a later one, how far back the first is.
        2 => pub run: U16,
        /// The length of a slot, header included, in bytes.
        4 => pub slot_bytes: U32,
    }
}

impl BlockState {
    /// The word in which the state is stored.
    pub fn to_word(self) -> u64 {
        let word: U64 = transmute!(self);
        word.get()
    }

    /// The state that a stored word means.
    pub fn from_word(word: u64) -> Self {
        transmute!(U64::new(word))
    }
}

shared_struct! {
    /// Where a block's next slots start to count: above all that earlier ones have had, so that
    /// neither an old version nor an old incarnation ever matches again.
    pub struct BlockFloor: 16 {
        /// Greater than every version in the block before.
        0 => pub version: U64,
        /// Greater than every incarnation in the block before.
        8 => pub incarnation: U32,
        /// Zero.
        12 => pub reserved: U32,
    }
}

/// What stands in [`BlockState::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockKind {
    /// Nothing: any size class may have it.
    Free = 0,
    /// The region's own block 0.
    Table = 1,
    /// The first block of a run that is divided into slots.
    First = 2,
    /// A later block of a run.
    Later = 3,
}

impl BlockKind {
    /// The kind that a stored byte means.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Free),
            1 => Some(Self::Table),
            2 => Some(Self::First),
            3 => Some(Self::Later),
            _ => None,
        }
    }
}

/// What memory is used for: every byte is accounted for under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Purpose {
    /// Objects of applications.
    Objects = 0,
    /// Hash tables: buckets, and values too long for them.
    Tables = 1,
    /// Trees.
    Trees = 2,
    /// Graphs: objects, associations, vertices, edges.
    Graphs = 3,
    /// Memory spaces that were granted to a client.
    Spaces = 4,
    /// What functions keep.
    Functions = 5,
    /// The store's own records: catalogue, configuration.
    System = 6,
    /// Tables that are kept in memory only: what is in them is gone when their node stops.
    Volatile = 7,
}

impl Purpose {
    /// Every purpose, in the order of their bytes.
    pub const ALL: [Self; 8] = [
        Self::Objects,
        Self::Tables,
        Self::Trees,
        Self::Graphs,
        Self::Spaces,
        Self::Functions,
        Self::System,
        Self::Volatile,
    ];

    /// The purpose that a stored byte means.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(byte as usize).copied()
    }

    /// Whether a node that keeps a log recovers it.
    #[inline]
    pub const fn is_durable(self) -> bool {
        !matches!(self, Self::Volatile)
    }

    /// Whether it is a table's.
    #[inline]
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Tables | Self::Volatile)
    }

    /// The name that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Tables => "tables",
            Self::Trees => "trees",
            Self::Graphs => "graphs",
            Self::Spaces => "spaces",
            Self::Functions => "functions",
            Self::System => "system",
            Self::Volatile => "volatile",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_state_is_one_word() {
        let state = BlockState {
            kind: BlockKind::First as u8,
            purpose: Purpose::Trees as u8,
            run: U16::new(15),
            slot_bytes: U32::new(1 << 20),
        };
        assert_eq!(state.to_word(), 2 | 2 << 8 | 15 << 16 | 1 << 52);
        assert_eq!(BlockState::from_word(state.to_word()), state);
    }

    #[test]
    fn bytes_mean_what_they_say() {
        for (byte, purpose) in Purpose::ALL.into_iter().enumerate() {
            assert_eq!(purpose as usize, byte);
            assert_eq!(Purpose::from_byte(byte as u8), Some(purpose));
        }
        assert_eq!(Purpose::from_byte(8), None);
        assert_eq!(BlockKind::from_byte(3), Some(BlockKind::Later));
        assert_eq!(BlockKind::from_byte(4), None);
    }
}
