//! Rebuilds what a heap knows from what its memory says (FaRM section 3.2).

use super::Heap;
use super::region::{Region, state_in_run};
use super::run::{Floor, Run};
use crate::bitmap::FreeSlots;
use crate::error::HeapError;
use crate::object::{HEADER_BYTES, Header, checksum, publish};
use crate::size_class::Size;
use barn_layout::Address;
use barn_layout::heap::{BLOCK_BYTES, BlockKind, BlockState, Purpose};
use barn_layout::object::LockMode;
use zerocopy::FromZeros;

/// What was found in a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionScan {
    /// Whether the memory was zero, and has been formatted.
    pub formatted: bool,
    /// How many blocks there are, the table's included.
    pub blocks: usize,
    /// How many of them are divided into slots.
    pub slab_blocks: usize,
    /// How many objects there are.
    pub objects: u64,
    /// Their own bytes.
    pub object_bytes: u64,
    /// Objects that were locked when their owner stopped. They still are.
    pub interrupted: Vec<Interrupted>,
}

/// An object that was locked when its owner stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Where it is.
    pub address: Address,
    /// What its header says.
    pub header: Header,
    /// Whether its bytes are those of its version. If not, a write had begun: the object must be
    /// written again, or freed, and not just unlocked.
    pub whole: bool,
}

/// A run as it was found, not yet in use.
pub(super) struct Found {
    run: Run,
    objects: u64,
    object_bytes: u64,
    worn: u64,
    interrupted: Vec<Interrupted>,
}

/// Reads a region's table and all headers. Changes nothing but what an interrupted change left
/// half done.
pub(super) fn scan(region: &Region) -> Result<Vec<Found>, HeapError> {
    let mut found = Vec::new();
    let mut block = 1;
    while block < region.blocks() {
        let state = region.state(block)?;
        let corrupt = |why| HeapError::Corrupt { block, why };
        match BlockKind::from_byte(state.kind) {
            Some(BlockKind::Free) => block += 1,
            Some(BlockKind::First) => {
                let (size, purpose) = read_state(region, block, state)?;
                match purpose.is_durable() {
                    true => found.push(scan_run(region, block, size, purpose)?),
                    // What was in it is in no log, and nobody has a pointer to it.
                    false => (block..block + size.run_blocks)
                        .try_for_each(|block| region.set_state(block, BlockState::new_zeroed()))?,
                }
                block += size.run_blocks;
            }
            // The owner stopped while it divided blocks, or gave them back.
            Some(BlockKind::Later) => {
                region.set_state(block, BlockState::new_zeroed())?;
                block += 1;
            }
            Some(BlockKind::Table) => return Err(corrupt("a second table")),
            None => return Err(corrupt("an unknown kind")),
        }
    }
    Ok(found)
}

/// Size and purpose of the run that starts at `block`, checked against its other blocks.
fn read_state(region: &Region, block: usize, state: BlockState) -> Result<(Size, Purpose), HeapError> {
    let corrupt = |why| HeapError::Corrupt { block, why };
    let size = Size::of_slot(state.slot_bytes.get() as usize).ok_or(corrupt("an unknown slot size"))?;
    let purpose = Purpose::from_byte(state.purpose).ok_or(corrupt("an unknown purpose"))?;
    if state.run.get() as usize != size.run_blocks || block + size.run_blocks > region.blocks() {
        return Err(corrupt("a run of another length"));
    }
    for later in block + 1..block + size.run_blocks {
        // The purpose may differ: the owner stopped while it changed.
        let want = state_in_run(block, later, size, purpose);
        let have = BlockState { purpose: want.purpose, ..region.state(later)? };
        if have != want {
            return Err(corrupt("a run with a foreign block"));
        }
        region.set_state(later, want)?;
    }
    Ok((size, purpose))
}

fn scan_run(region: &Region, first_block: usize, size: Size, purpose: Purpose) -> Result<Found, HeapError> {
    let mut floor = Floor::default();
    for block in first_block..first_block + size.run_blocks {
        floor = floor.above(region.floor(block)?);
    }
    let free = FreeSlots::all(size.slots());
    let run = Run { region: 0, first_block, size, purpose, free, floor, touched: true, waiting: false };
    let mut found = Found { run, objects: 0, object_bytes: 0, worn: 0, interrupted: Vec::new() };
    for slot in 0..size.slots() {
        scan_slot(region, &mut found, slot)?;
    }
    Ok(found)
}

fn scan_slot(region: &Region, found: &mut Found, slot: usize) -> Result<(), HeapError> {
    let run = &mut found.run;
    let offset = run.offset(slot);
    let mut words = [0; 3];
    region.words.load_words(offset as u64, &mut words)?;
    let header = Header::from_words(words[0], words[1]);
    if !header.allocated {
        let mut version = header.word.version();
        if header.word.mode() != LockMode::Free {
            // Created or freed by halves, or never: there is no object, and nobody has seen one.
            version += 1;
            publish::vacate(&region.words, offset as u64, version, header.incarnation)?;
        } else if header.coming {
            // Announced and not begun: if it is made after all, then as the version that was promised.
            publish::announce(&region.words, offset as u64, header.incarnation, false)?;
        }
        run.floor = run.floor.above(Floor::over(version, header.incarnation));
        if header.incarnation == u32::MAX {
            run.free.take(slot);
            found.worn += 1;
        }
        return Ok(());
    }
    if header.bytes > run.size.slot_bytes - HEADER_BYTES {
        let why = "an object longer than its slot";
        return Err(HeapError::Corrupt { block: offset / BLOCK_BYTES, why });
    }
    run.free.take(slot);
    found.objects += 1;
    found.object_bytes += header.bytes as u64;
    if header.word.mode() != LockMode::Free {
        let mut body = vec![0; header.bytes];
        region.words.load((offset + HEADER_BYTES) as u64, &mut body)?;
        let address = region.address(offset);
        let whole = checksum(address, header.word.version(), words[1], &body) == words[2];
        found.interrupted.push(Interrupted { address, header, whole });
    }
    Ok(())
}

impl Heap {
    /// Brings what was found in a region into use.
    pub(super) fn take_in(&mut self, at: usize, found: Vec<Found>, formatted: bool) -> RegionScan {
        let blocks = self.regions[at].blocks();
        let mut scan = RegionScan { formatted, blocks, ..RegionScan::default() };
        for found in found {
            let Run { first_block, size, purpose, .. } = found.run;
            let (is_empty, has_room) = (found.run.is_empty(), found.run.free.count() > 0);
            let run = self.runs.add(Run { region: at, ..found.run });
            self.regions[at].assign(first_block, size.run_blocks, run);
            self.usage.free_blocks -= size.run_blocks;
            self.usage.held_bytes += (size.run_blocks * BLOCK_BYTES) as u64;
            self.usage.worn_bytes += found.worn * size.slot_bytes as u64;
            self.opened(run);
            if !has_room {
                self.slabs.forget(run, &self.runs);
            }
            let usage = self.purpose_usage(purpose);
            usage.objects += found.objects;
            usage.object_bytes += found.object_bytes;
            usage.slot_bytes += found.objects * size.slot_bytes as u64;
            if is_empty && !self.slabs.keep_spare(run, &self.runs) {
                self.retire(run);
            }
            scan.slab_blocks += size.run_blocks;
            scan.objects += found.objects;
            scan.object_bytes += found.object_bytes;
            scan.interrupted.extend(found.interrupted);
        }
        scan
    }
}
