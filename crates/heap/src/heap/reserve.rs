//! Allocation: a slot is taken out of the free ones, near a hint if there is one.
//!
//! FaRM's order: in the hint's block, in its region, anywhere. Which region is nearest in the ring
//! is for the caller to know, who chooses the node and the hint.

use super::run::{Floor, Run};
use super::{Heap, Slot};
use crate::bitmap::FreeSlots;
use crate::error::{AllocError, ObjectError};
use crate::object::{HEADER_BYTES, publish};
use crate::size_class::Size;
use barn_fabric::Words;
use barn_layout::heap::{BLOCK_BYTES, Purpose};
use barn_layout::{Address, RegionId, planted};

/// A slot that is nobody's object yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Where it is.
    pub address: Address,
    /// The incarnation that the object will have.
    pub incarnation: u32,
}

/// Slots side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedArray {
    /// The slots, in ascending order.
    pub slots: Vec<Reserved>,
    /// How far one is from the next.
    pub slot_bytes: usize,
}

/// Memory that holds no object.
#[derive(Clone, Debug)]
pub struct Raw {
    pub(super) slot: Address,
    /// Where it starts; a multiple of eight.
    pub start: Address,
    /// How many bytes there are from there on.
    pub bytes: usize,
    /// The region that it lies in.
    pub words: Words,
    /// What it is for.
    pub(super) purpose: Purpose,
}

impl Heap {
    /// Takes a slot for an object of `bytes` out of the free ones. Nobody can see it as an object
    /// until [`Heap::create`]; [`Heap::release`] gives it back.
    #[inline]
    pub fn reserve(
        &mut self,
        bytes: usize,
        hint: Option<Address>,
        purpose: Purpose,
    ) -> Result<Reserved, AllocError> {
        let size = Size::for_object(bytes).ok_or(AllocError::TooLarge { bytes, count: 1 })?;
        let (run, slot) = self.find(size, 1, hint, purpose)?;
        self.take(run, slot)
    }

    /// Takes `count` slots side by side, so that one READ brings several objects.
    pub fn reserve_array(
        &mut self,
        bytes: usize,
        count: usize,
        hint: Option<Address>,
        purpose: Purpose,
    ) -> Result<ReservedArray, AllocError> {
        let too_large = AllocError::TooLarge { bytes, count };
        let size = Size::for_object(bytes).ok_or(too_large.clone())?;
        if count == 0 || count > size.slots() {
            return Err(too_large);
        }
        let (run, first) = self.find(size, count, hint, purpose)?;
        let slot_bytes = self.runs[run].size.slot_bytes;
        let slots = (first..first + count).map(|slot| self.take(run, slot)).collect::<Result<_, _>>()?;
        Ok(ReservedArray { slots, slot_bytes })
    }

    /// Takes `count` slots side by side whose objects will all have one incarnation, so that whoever
    /// knows one of them knows them all. They are as long as `bytes` asks for, not longer.
    pub fn reserve_uniform_array(
        &mut self,
        bytes: usize,
        count: usize,
        purpose: Purpose,
    ) -> Result<ReservedArray, AllocError> {
        let hint = self.roomy_region().map(|region| Address::new(region, BLOCK_BYTES as u32));
        let mut array = self.reserve_array(bytes, count, hint, purpose)?;
        let wanted = Size::for_object(bytes).map(|size| size.slot_bytes);
        let incarnation = array.slots.iter().map(|slot| slot.incarnation).max().unwrap_or(0);
        for slot in &mut array.slots {
            let at = self.locate(slot.address).ok().zip(self.header(slot.address).ok());
            if let Some((at, header)) = at.filter(|_| slot.incarnation != incarnation) {
                let words = &self.regions[at.region].words;
                publish::vacate(words, at.offset, header.word.version() + 1, incarnation)?;
                let run = &mut self.runs[at.run];
                run.touched = true;
                run.floor = run.floor.above(Floor::over(header.word.version() + 1, incarnation));
                slot.incarnation = incarnation;
                self.recorded_vacant(at.region, at.offset, purpose);
            }
        }
        if wanted != Some(array.slot_bytes) {
            for slot in &array.slots {
                // They were reserved just now.
                let _ = self.release(slot.address);
            }
            // There was no memory left to divide as it should be.
            let blocks = Size::for_object(bytes).map_or(1, |size| size.run_blocks);
            return Err(self.lacking(blocks as u64));
        }
        Ok(array)
    }

    /// Whether the budget has so many bytes left: for whoever takes them in many pieces, and would
    /// otherwise learn that they are too many when it has taken everything.
    pub fn check_budget(&mut self, bytes: u64) -> Result<(), AllocError> {
        let blocks = bytes.div_ceil(BLOCK_BYTES as u64);
        if blocks > self.blocks_in_budget() {
            self.fall_short();
        }
        match blocks > self.blocks_in_budget() {
            true => Err(self.lacking(blocks)),
            false => Ok(()),
        }
    }

    /// Whether what was refused last for want of memory can be had once readers have left what was freed.
    pub fn will_have_room(&self) -> bool {
        let in_time = self.blocks_in_budget() + self.usage.waiting_blocks as u64;
        self.has_waiting() && self.lacked_blocks <= in_time
    }

    /// Memory is needed: what is kept only to save work is given up, and what waits for its readers is
    /// wanted soon.
    fn fall_short(&mut self) {
        self.slabs.spares().into_iter().for_each(|run| self.retire(run));
        self.short = true;
    }

    /// Why so many blocks cannot be had.
    fn lacking(&mut self, blocks: u64) -> AllocError {
        self.lacked_blocks = blocks;
        match blocks > self.blocks_in_budget() {
            true => AllocError::Budget {
                budget_bytes: self.budget_bytes,
                held_bytes: self.usage.held_bytes,
                needed_bytes: blocks * BLOCK_BYTES as u64,
                waiting_bytes: (self.usage.waiting_blocks * BLOCK_BYTES) as u64,
            },
            false => AllocError::Full { blocks: blocks as usize },
        }
    }

    /// A region in which what is put now leaves room for what belongs to it later: the first of which
    /// more than a sixteenth is free; if there is none, the one with the most.
    fn roomy_region(&self) -> Option<RegionId> {
        let roomy = self.regions.iter().find(|region| region.free_blocks() > region.blocks() / 16);
        let most = || self.regions.iter().max_by_key(|region| region.free_blocks());
        roomy.or_else(most).map(|region| region.id)
    }

    /// Takes memory that holds no object: whoever takes it keeps its bytes in a shape of its own, which
    /// must tell by itself whether what was read is whole and is what was meant.
    /// [`Heap::release_raw`] gives it back; it is not used for another size while readers may still
    /// look at it.
    pub fn reserve_raw(&mut self, bytes: usize, purpose: Purpose) -> Result<Raw, AllocError> {
        let reserved = self.reserve(bytes, None, purpose)?;
        self.raw(reserved).ok_or(AllocError::TooLarge { bytes, count: 1 })
    }

    /// A reserved slot as raw memory.
    pub(super) fn raw(&mut self, Reserved { address, .. }: Reserved) -> Option<Raw> {
        let slot = self.locate(address).ok()?;
        let run = &mut self.runs[slot.run];
        run.touched = true;
        // Not zero: when its blocks are divided anew, headers are written over whatever is there. Raw
        // memory is zeroed when it is given back, but a log does not hold those zeros.
        run.floor = run.floor.above(Floor::over(0, 0));
        let (usable, purpose) = (run.size.slot_bytes - HEADER_BYTES, run.purpose);
        let words = self.regions[slot.region].words.clone();
        let start = Address::new(address.region(), address.offset() + HEADER_BYTES as u32);
        Some(Raw { slot: address, start, bytes: usable, words, purpose })
    }

    /// Gives raw memory back, zeroed: free memory is.
    pub fn release_raw(&mut self, raw: &Raw) -> Result<(), ObjectError> {
        const ZEROS: [u64; 512] = [0; 512];
        let (mut at, end) = (u64::from(raw.start.offset()), u64::from(raw.start.offset()) + raw.bytes as u64);
        while at < end {
            let words = (((end - at) / 8) as usize).min(ZEROS.len());
            raw.words.store_words(at, &ZEROS[..words])?;
            at += words as u64 * 8;
        }
        self.release(raw.slot)
    }

    /// Gives back a reservation that came to nothing.
    pub fn release(&mut self, address: Address) -> Result<(), ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        if header.allocated || self.runs[slot.run].free.is_free(slot.index) {
            return Err(ObjectError::NotReserved);
        }
        if header.coming {
            publish::announce(&self.regions[slot.region].words, slot.offset, header.incarnation, false)?;
        }
        let Run { size, purpose, .. } = self.runs[slot.run];
        let usage = self.purpose_usage(purpose);
        usage.reserved -= 1;
        usage.reserved_bytes -= size.slot_bytes as u64;
        self.give(slot);
        Ok(())
    }

    /// Finds `count` free slots side by side, dividing blocks if need be.
    #[inline]
    fn find(
        &mut self,
        size: Size,
        count: usize,
        hint: Option<Address>,
        purpose: Purpose,
    ) -> Result<(u32, usize), AllocError> {
        if let Some(hint) = hint
            && !planted("hint_ignored")
            && let Some(found) = self.find_near(hint, size, count, purpose)?
        {
            return Ok(found);
        }
        if let Some(class) = size.class {
            if let Some(run) = self.slabs.current(class, purpose)
                && let Some(slot) = self.runs[run].free.find(count)
            {
                return Ok((run, slot));
            }
            if let Some(found) = self.find_open(class, purpose, None, count) {
                return Ok(found);
            }
        }
        match self.divide(size, purpose, None) {
            Ok(run) => Ok((run, 0)),
            Err(AllocError::Memory(error)) => Err(AllocError::Memory(error)),
            Err(_) => self.find_when_short(size, count, purpose),
        }
    }

    /// As [`Heap::find`], when no block is to be had: what is kept only to save work is given up,
    /// and a slot that is longer than need be is better than none.
    #[cold]
    fn find_when_short(
        &mut self,
        size: Size,
        count: usize,
        purpose: Purpose,
    ) -> Result<(u32, usize), AllocError> {
        self.slabs.spares().into_iter().for_each(|run| self.retire(run));
        let error = match self.divide(size, purpose, None) {
            Ok(run) => return Ok((run, 0)),
            Err(error) => error,
        };
        self.short = true;
        for larger in size.larger() {
            let open = larger.class.and_then(|class| self.find_open(class, purpose, None, count));
            if let Some(found) = open {
                return Ok(found);
            }
            if count <= larger.slots()
                && let Some(run) = self.reopen(larger, purpose, None)?
            {
                return Ok((run, 0));
            }
        }
        Err(error)
    }

    /// As [`Heap::find`], in the hint's block or else its region.
    fn find_near(
        &mut self,
        hint: Address,
        size: Size,
        count: usize,
        purpose: Purpose,
    ) -> Result<Option<(u32, usize)>, AllocError> {
        let Some(region) = self.region_at(hint.region()) else {
            return Ok(None);
        };
        if let Some(run) = self.regions[region].run_of(hint.offset() as usize / BLOCK_BYTES) {
            let of = &self.runs[run];
            if of.size == size
                && of.purpose == purpose
                && !of.waiting
                && let Some(slot) = of.free.find(count)
            {
                return Ok(Some((run, slot)));
            }
        }
        if let Some(class) = size.class
            && let Some(found) = self.find_open(class, purpose, Some(region), count)
        {
            return Ok(Some(found));
        }
        // Nearness is worth a block for each size in each region only while there are plenty.
        if !self.is_roomy()
            && let Some(class) = size.class
            && let Some(found) = self.find_open(class, purpose, None, count)
        {
            return Ok(Some(found));
        }
        match self.divide(size, purpose, Some(region)) {
            Ok(run) => Ok(Some((run, 0))),
            Err(AllocError::Memory(error)) => Err(AllocError::Memory(error)),
            Err(_) => Ok(None),
        }
    }

    /// Whether at least a quarter of the budget is left.
    fn is_roomy(&self) -> bool {
        self.budget_bytes.saturating_sub(self.usage.held_bytes) >= self.budget_bytes / 4
    }

    /// Finds free slots in runs that have some.
    fn find_open(
        &self,
        class: u8,
        purpose: Purpose,
        region: Option<usize>,
        count: usize,
    ) -> Option<(u32, usize)> {
        self.slabs
            .open(class, purpose, region)
            .find_map(|run| self.runs[run].free.find(count).map(|slot| (run, slot)))
    }

    /// A run without objects: one that waits and has this size already, or free blocks.
    fn divide(&mut self, size: Size, purpose: Purpose, only: Option<usize>) -> Result<u32, AllocError> {
        if let Some(run) = self.reopen(size, purpose, only)? {
            return Ok(run);
        }
        if size.run_blocks as u64 > self.blocks_in_budget() {
            return Err(self.lacking(size.run_blocks as u64));
        }
        let mut candidates = match only {
            Some(only) => only..only + 1,
            None => 0..self.regions.len(),
        };
        let (region, first_block) = candidates
            .find_map(|at| self.regions[at].find_free(size.run_blocks).map(|first| (at, first)))
            .ok_or_else(|| self.lacking(size.run_blocks as u64))?;
        let floor = self.regions[region].carve(first_block, size, purpose)?;
        self.recorded_blocks(region, first_block..first_block + size.run_blocks);
        if floor != Floor::default() && self.changes.is_some() {
            for slot in 0..size.slots() {
                let at = (first_block * BLOCK_BYTES + slot * size.slot_bytes) as u64;
                self.recorded_vacant(region, at, purpose);
            }
        }
        let free = FreeSlots::all(size.slots());
        let run = Run { region, first_block, size, purpose, free, floor, touched: false, waiting: false };
        let run = self.runs.add(run);
        self.regions[region].assign(first_block, size.run_blocks, run);
        self.usage.free_blocks -= size.run_blocks;
        self.usage.held_bytes += (size.run_blocks * BLOCK_BYTES) as u64;
        self.opened(run);
        Ok(run)
    }

    /// A run that waits and has this size already.
    fn reopen(
        &mut self,
        size: Size,
        purpose: Purpose,
        only: Option<usize>,
    ) -> Result<Option<u32>, AllocError> {
        let same = |run: u32| {
            let run = &self.runs[run];
            run.size == size
                && run.purpose.is_durable() == purpose.is_durable()
                && only.is_none_or(|only| only == run.region)
        };
        let Some(run) = self.quarantine.take_where(same) else { return Ok(None) };
        let Run { region, first_block, .. } = self.runs[run];
        self.regions[region].set_purpose(first_block, size, purpose)?;
        self.recorded_blocks(region, first_block..first_block + size.run_blocks);
        self.runs[run].purpose = purpose;
        self.runs[run].waiting = false;
        self.usage.waiting_blocks -= size.run_blocks;
        self.opened(run);
        Ok(Some(run))
    }

    /// A run has come into use.
    pub(super) fn opened(&mut self, run: u32) {
        let Run { size, purpose, .. } = self.runs[run];
        self.usage.slab_blocks += size.run_blocks;
        self.purpose_usage(purpose).block_bytes += (size.run_blocks * BLOCK_BYTES) as u64;
        self.slabs.has_room(run, &self.runs);
    }

    /// Takes a free slot of a run.
    #[inline]
    pub(super) fn take(&mut self, run: u32, index: usize) -> Result<Reserved, AllocError> {
        let of = &mut self.runs[run];
        let (region, offset) = (of.region, of.offset(index));
        let (incarnation, mended) = self.regions[region].vacant(offset, of.floor)?;
        let was_empty = of.is_empty();
        of.free.take(index);
        let Run { size, purpose, .. } = *of;
        let is_full = of.free.count() == 0;
        if mended {
            self.recorded_vacant(region, offset as u64, purpose);
        }
        if was_empty {
            self.slabs.not_spare(run, &self.runs);
        }
        if is_full {
            self.slabs.forget(run, &self.runs);
        }
        let usage = self.purpose_usage(purpose);
        usage.reserved += 1;
        usage.reserved_bytes += size.slot_bytes as u64;
        Ok(Reserved { address: self.regions[region].address(offset), incarnation })
    }

    /// Gives a slot back to its run.
    #[inline]
    pub(super) fn give(&mut self, slot: Slot) {
        let run = &mut self.runs[slot.run];
        run.free.give(slot.index);
        let (had_room, is_empty) = (run.free.count() > 1, run.is_empty());
        if !had_room {
            self.slabs.has_room(slot.run, &self.runs);
        }
        if is_empty && !self.slabs.keep_spare(slot.run, &self.runs) {
            self.retire(slot.run);
        }
    }
}
