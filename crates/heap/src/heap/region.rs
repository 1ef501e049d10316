//! One region: its memory, its block table, and which blocks are free.

use super::run::Floor;
use crate::error::HeapError;
use crate::object::{Header, publish};
use crate::size_class::Size;
use barn_fabric::Words;
use barn_fabric::region::{AccessError, Ordering};
use barn_layout::heap::{
    BLOCK_BYTES, BlockFloor, BlockKind, BlockState, FLOORS_AT, Purpose, REGION_FORMAT, REGION_MAGIC,
    RegionHeader, STATES_AT,
};
use barn_layout::limits::{REGION_BYTES_MAX, REGION_BYTES_MIN};
use barn_layout::object::LockMode;
use barn_layout::{Address, RegionId, planted};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// No run: the block is free, or the table's.
const NONE: u32 = u32::MAX;

/// A region of the heap.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) id: RegionId,
    pub(super) words: Words,
    /// The run of every block.
    runs: Vec<u32>,
}

impl Region {
    /// Opens a region, formatting it if nobody has; says whether it did.
    pub(super) fn open(id: RegionId, words: Words) -> Result<(Self, bool), HeapError> {
        let bytes = words.bytes() as u64;
        if !(REGION_BYTES_MIN..=REGION_BYTES_MAX).contains(&bytes) {
            return Err(HeapError::Length { bytes });
        }
        if !words.writable() {
            return Err(HeapError::Memory(AccessError::ReadOnly));
        }
        let region = Self { id, runs: vec![NONE; bytes as usize / BLOCK_BYTES], words };
        let formatted = region.words.load_word(0, Ordering::Relaxed)? == 0;
        match formatted {
            true => region.format()?,
            false => region.check_header()?,
        }
        Ok((region, formatted))
    }

    fn header(&self) -> RegionHeader {
        RegionHeader {
            magic: U64::new(REGION_MAGIC),
            format: U32::new(REGION_FORMAT),
            region: U32::new(self.id.0),
            bytes: U64::new(self.words.bytes() as u64),
            block_bytes: U32::new(BLOCK_BYTES as u32),
            reserved: U32::new(0),
        }
    }

    /// Writes header and table; the magic last, so that a half-formatted region is formatted again.
    fn format(&self) -> Result<(), HeapError> {
        let mut block = vec![0; BLOCK_BYTES];
        self.words.load(0, &mut block)?;
        // An earlier attempt may have written the header, without the magic, and the table's entry.
        let rest_is_zero = |from: usize| block[from..].iter().all(|byte| *byte == 0);
        if !rest_is_zero(STATES_AT as usize + BlockState::BYTES) {
            return Err(HeapError::Format { why: "the memory is not zero, and has no header" });
        }
        let header = self.header();
        self.words.store(8, &header.as_bytes()[8..])?;
        let table = BlockState { kind: BlockKind::Table as u8, ..BlockState::new_zeroed() };
        self.set_state(0, table)?;
        // ORDER: Release: whoever sees the magic sees the rest.
        self.words.store_word(0, header.magic.get(), Ordering::Release)?;
        Ok(())
    }

    fn check_header(&self) -> Result<(), HeapError> {
        let mut bytes = [0; RegionHeader::BYTES];
        self.words.load(0, &mut bytes)?;
        let Ok(found) = RegionHeader::read_from_bytes(&bytes) else {
            return Err(HeapError::Format { why: "no header" });
        };
        let want = self.header();
        if found.magic != want.magic {
            return Err(HeapError::Format { why: "another magic number" });
        }
        if found.format != want.format || found.block_bytes != want.block_bytes {
            return Err(HeapError::Format { why: "another format" });
        }
        if found.region != want.region {
            return Err(HeapError::Other { found: RegionId(found.region.get()) });
        }
        if found.bytes != want.bytes {
            return Err(HeapError::Format { why: "another length" });
        }
        Ok(())
    }

    /// How many blocks it has, the table's included.
    pub(super) fn blocks(&self) -> usize {
        self.runs.len()
    }

    /// The run to which a block belongs.
    #[inline]
    pub(super) fn run_of(&self, block: usize) -> Option<u32> {
        self.runs.get(block).copied().filter(|run| *run != NONE)
    }

    /// Says that blocks are a run's.
    pub(super) fn assign(&mut self, first: usize, blocks: usize, run: u32) {
        self.runs[first..first + blocks].fill(run);
    }

    /// How many blocks are nobody's.
    pub(super) fn free_blocks(&self) -> usize {
        self.runs.iter().skip(1).filter(|run| **run == NONE).count()
    }

    /// The first of `blocks` free blocks in a row. Single blocks come from the low end and longer
    /// runs from the high end, so that the one does not cut up the other's room.
    pub(super) fn find_free(&self, blocks: usize) -> Option<usize> {
        let is_free = |first: &usize| self.runs[*first..first + blocks].iter().all(|run| *run == NONE);
        let last = self.runs.len().checked_sub(blocks).filter(|last| *last >= 1)?;
        match blocks {
            1 => (1..=last).find(is_free),
            _ => (1..=last).rev().find(is_free),
        }
    }

    /// Divides free blocks into slots; gives the floor from which their versions count.
    pub(super) fn carve(&mut self, first: usize, size: Size, purpose: Purpose) -> Result<Floor, AccessError> {
        let blocks = first..first + size.run_blocks;
        let mut floor = Floor::default();
        for block in blocks.clone() {
            floor = floor.above(self.floor(block)?);
        }
        if planted("floor_forgotten") {
            floor = Floor { incarnation: floor.incarnation.min(1), version: floor.version.min(1) };
        }
        // Blocks that were never used are zero, which is what a new slot's header is.
        if floor != Floor::default() {
            for slot in 0..size.slots() {
                let at = (first * BLOCK_BYTES + slot * size.slot_bytes) as u64;
                publish::vacate(&self.words, at, floor.version, floor.incarnation)?;
            }
        }
        // The first block's state last: until then, the others belong to nothing.
        for block in blocks.rev() {
            self.set_state(block, state_in_run(first, block, size, purpose))?;
        }
        Ok(floor)
    }

    /// Changes what a run is used for.
    pub(super) fn set_purpose(&self, first: usize, size: Size, purpose: Purpose) -> Result<(), AccessError> {
        (first..first + size.run_blocks)
            .try_for_each(|block| self.set_state(block, state_in_run(first, block, size, purpose)))
    }

    /// Gives a run's blocks back, and notes where the next slots in them start to count.
    pub(super) fn free_run(&mut self, first: usize, blocks: usize, floor: Option<Floor>) {
        for block in first..first + blocks {
            if let Some(floor) = floor {
                self.set_floor(block, floor);
            }
        }
        for block in first..first + blocks {
            // The table was reached when the region was opened, and is still there.
            let _ = self.set_state(block, BlockState::new_zeroed());
        }
        self.assign(first, blocks, NONE);
    }

    /// What the table says of a block.
    pub(super) fn state(&self, block: usize) -> Result<BlockState, AccessError> {
        let at = STATES_AT + (block * BlockState::BYTES) as u64;
        Ok(BlockState::from_word(self.words.load_word(at, Ordering::Relaxed)?))
    }

    pub(super) fn set_state(&self, block: usize, state: BlockState) -> Result<(), AccessError> {
        let at = STATES_AT + (block * BlockState::BYTES) as u64;
        // ORDER: Release: a run's slots are there before the table says so.
        self.words.store_word(at, state.to_word(), Ordering::Release)
    }

    /// Where the slots of a block start to count.
    pub(super) fn floor(&self, block: usize) -> Result<Floor, AccessError> {
        let mut words = [0; BlockFloor::BYTES / 8];
        self.words.load_words(FLOORS_AT + (block * BlockFloor::BYTES) as u64, &mut words)?;
        Ok(Floor { version: words[0], incarnation: words[1] as u32 })
    }

    fn set_floor(&self, block: usize, floor: Floor) {
        let at = FLOORS_AT + (block * BlockFloor::BYTES) as u64;
        // As for the table: within the first block, which is there.
        let _ = self.words.store_words(at, &[floor.version, u64::from(floor.incarnation)]);
    }

    /// The incarnation of the free slot at `offset`, and whether its header had to be mended. What is there and is no free slot's header is
    /// damage, for free memory is zero where no header was written: it is mended.
    #[inline]
    pub(super) fn vacant(&self, offset: usize, floor: Floor) -> Result<(u32, bool), AccessError> {
        let mut words = [0; 2];
        self.words.load_words(offset as u64, &mut words)?;
        let header = Header::from_words(words[0], words[1]);
        if header.allocated || header.coming || header.word.mode() != LockMode::Free {
            let version = floor.version.max(header.word.version() + 1);
            publish::vacate(&self.words, offset as u64, version, floor.incarnation)?;
            return Ok((floor.incarnation, true));
        }
        Ok((header.incarnation, false))
    }

    /// The address of an offset.
    #[inline]
    pub(super) fn address(&self, offset: usize) -> Address {
        Address::new(self.id, offset as u32)
    }
}

/// The state of a block of a run.
pub(super) fn state_in_run(first: usize, block: usize, size: Size, purpose: Purpose) -> BlockState {
    let (kind, run) = match block == first {
        true => (BlockKind::First, size.run_blocks),
        false => (BlockKind::Later, block - first),
    };
    BlockState {
        kind: kind as u8,
        purpose: purpose as u8,
        run: U16::new(run as u16),
        slot_bytes: U32::new(size.slot_bytes as u32),
    }
}
