//! What memory is used for, to the byte.

use barn_layout::heap::Purpose;

/// What a heap holds. Every block is in exactly one of the five counts of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many bytes may be held.
    pub budget_bytes: u64,
    /// How many are: blocks that are not free.
    pub held_bytes: u64,
    /// How many regions there are.
    pub regions: usize,
    /// Blocks with the regions' own tables.
    pub table_blocks: usize,
    /// Blocks divided into slots.
    pub slab_blocks: usize,
    /// Empty blocks that wait for readers to leave.
    pub waiting_blocks: usize,
    /// Free blocks.
    pub free_blocks: usize,
    /// Blocks whose incarnations are used up: of no use any more.
    pub worn_blocks: usize,
    /// Slots of other blocks whose incarnations are used up, in bytes.
    pub worn_bytes: u64,
    /// By purpose, in the order of [`Purpose::ALL`].
    pub purposes: [PurposeUsage; Purpose::ALL.len()],
}

/// What one purpose uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurposeUsage {
    /// How many objects there are.
    pub objects: u64,
    /// Their own bytes.
    pub object_bytes: u64,
    /// The bytes of their slots.
    pub slot_bytes: u64,
    /// The slots that are reserved.
    pub reserved: u64,
    /// Their bytes.
    pub reserved_bytes: u64,
    /// The bytes of the blocks divided into slots for this purpose.
    pub block_bytes: u64,
}

impl Usage {
    /// What one purpose uses.
    pub fn of(&self, purpose: Purpose) -> &PurposeUsage {
        &self.purposes[purpose as usize]
    }

    /// What all purposes use together.
    pub fn total(&self) -> PurposeUsage {
        self.purposes.iter().fold(PurposeUsage::default(), |sum, one| PurposeUsage {
            objects: sum.objects + one.objects,
            object_bytes: sum.object_bytes + one.object_bytes,
            slot_bytes: sum.slot_bytes + one.slot_bytes,
            reserved: sum.reserved + one.reserved,
            reserved_bytes: sum.reserved_bytes + one.reserved_bytes,
            block_bytes: sum.block_bytes + one.block_bytes,
        })
    }
}
