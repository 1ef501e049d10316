//! The owner's side: regions divided into blocks, runs of blocks into slots (FaRM section 3.2).
//!
//! One thread changes a node's memory, so nothing here locks; strangers read at any moment, which
//! is [`crate::object`]'s concern. What always holds:
//! - the regions' memory says which slots hold objects; all else here can be rebuilt from it;
//! - a block belongs to one run, a run to one slot size and one purpose;
//! - a run without objects is kept for its size if no other of that size is empty, and waits
//!   otherwise until readers have left before its blocks are anybody's ([`quarantine`]).

mod change;
mod durable;
mod image;
mod quarantine;
mod region;
mod reserve;
mod run;
mod scan;
mod slabs;
#[cfg(test)]
mod tests;

pub use durable::used_ranges;
pub use image::Image;
pub use reserve::{Raw, Reserved, ReservedArray};
pub use scan::{Interrupted, RegionScan};

use crate::error::{HeapError, ObjectError};
use crate::object::Header;
use crate::usage::{PurposeUsage, Usage};
use barn_fabric::Words;
use barn_layout::heap::{BLOCK_BYTES, Purpose};
use barn_layout::{Address, RegionId, planted};
use barn_log::Record;
use quarantine::Quarantine;
use region::Region;
use run::{Run, Runs};
use slabs::Slabs;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// So many regions are looked through one after another; more are hashed, which takes as long as eight.
const FEW_REGIONS: usize = 8;

/// What a heap may use.
#[derive(Clone, Copy, Debug)]
pub struct HeapOptions {
    /// The most memory that blocks in use may have, tables included.
    pub budget_bytes: u64,
}

/// A node's memory, as its owner sees it.
#[derive(Debug)]
pub struct Heap {
    budget_bytes: u64,
    regions: Vec<Region>,
    /// An object in the making, behind room for the checksum's prefix.
    making: Vec<u8>,
    /// The regions' numbers, in the same order: a few are found soonest by looking at each.
    ids: Vec<RegionId>,
    by_id: HashMap<RegionId, u32, BuildHasherDefault<IdHasher>>,
    runs: Runs,
    slabs: Slabs,
    quarantine: Quarantine,
    usage: Usage,
    /// Whether memory ran short since blocks last became free.
    short: bool,
    /// How many blocks were refused last.
    lacked_blocks: u64,
    /// What has changed, if that is recorded.
    changes: Option<Box<Record>>,
}

/// A slot: where it is, and to which run it belongs.
#[derive(Clone, Copy, Debug)]
struct Slot {
    region: usize,
    run: u32,
    index: usize,
    offset: u64,
}

impl Heap {
    /// A heap without memory: [`Heap::add_region`] brings some.
    pub fn new(options: HeapOptions) -> Self {
        Self {
            budget_bytes: options.budget_bytes,
            regions: Vec::new(),
            making: Vec::new(),
            ids: Vec::new(),
            by_id: HashMap::default(),
            runs: Runs::default(),
            slabs: Slabs::new(),
            quarantine: Quarantine::default(),
            usage: Usage { budget_bytes: options.budget_bytes, ..Usage::default() },
            short: false,
            lacked_blocks: 0,
            changes: None,
        }
    }

    /// Takes a region in. Memory that is zero is formatted; otherwise everything is rebuilt from
    /// block table and object headers: slots that were reserved are free again, and objects that
    /// were locked stay so and are listed, for whoever knows the transactions to decide.
    pub fn add_region(&mut self, id: RegionId, words: Words) -> Result<RegionScan, HeapError> {
        if self.by_id.contains_key(&id) {
            return Err(HeapError::Duplicate(id));
        }
        let (region, formatted) = Region::open(id, words)?;
        let found = scan::scan(&region)?;
        let at = self.regions.len();
        self.usage.regions += 1;
        self.usage.table_blocks += 1;
        self.usage.held_bytes += BLOCK_BYTES as u64;
        self.usage.free_blocks += region.blocks() - 1;
        self.ids.push(id);
        self.by_id.insert(id, at as u32);
        self.regions.push(region);
        match formatted {
            true => self.recorded_region(at),
            // The scan may have mended the table, and has freed what was not durable.
            false => self.recorded_blocks(at, 1..self.regions[at].blocks()),
        }
        Ok(self.take_in(at, found, formatted))
    }

    /// Changes the budget. Less than is held means that nothing more is taken.
    pub fn set_budget(&mut self, budget_bytes: u64) {
        self.budget_bytes = budget_bytes;
        self.usage.budget_bytes = budget_bytes;
    }

    /// What memory is used for.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The current epoch.
    pub fn epoch(&self) -> u64 {
        self.quarantine.epoch()
    }

    /// Whether blocks wait for readers to leave and memory is short: time for a new epoch.
    pub fn wants_epoch(&self) -> bool {
        // An eighth, or as much as waits: enough to bridge the time in which readers leave, also for sizes
        // that come and go so fast that most blocks wait.
        let left = (self.usage.free_blocks as u64).min(self.blocks_in_budget());
        let few = left * 8 < self.usage.slab_blocks as u64 || left < self.usage.waiting_blocks as u64;
        !self.quarantine.is_empty() && (self.short || few)
    }

    /// Whether blocks wait for readers to leave.
    pub fn has_waiting(&self) -> bool {
        !self.quarantine.is_empty()
    }

    /// Begins a new epoch, which it gives. Readers that begin from now on see no pointer into a
    /// block that waits already.
    pub fn next_epoch(&mut self) -> u64 {
        self.quarantine.next_epoch()
    }

    /// Every live reader has left all epochs before `epoch`: blocks that have waited since then are
    /// free for any size.
    pub fn readers_left(&mut self, epoch: u64) {
        while let Some(run) = self.quarantine.take_before(epoch) {
            self.dissolve(run);
        }
    }

    /// The regions, in the order in which they were taken in.
    pub fn regions(&self) -> impl Iterator<Item = RegionId> + '_ {
        self.regions.iter().map(|region| region.id)
    }

    /// Every object of a region, in ascending order: for copies and checks of whole regions.
    pub fn objects(&self, region: RegionId) -> impl Iterator<Item = (Address, Header)> + '_ {
        let at = self.region_at(region);
        at.into_iter().flat_map(move |at| self.objects_at(at))
    }

    fn objects_at(&self, at: usize) -> impl Iterator<Item = (Address, Header)> + '_ {
        let region = &self.regions[at];
        (1..region.blocks())
            .filter_map(move |block| region.run_of(block).filter(|run| self.runs[*run].first_block == block))
            .flat_map(move |run| {
                let of = &self.runs[run];
                (0..of.free.slots()).filter(|index| !of.free.is_free(*index)).map(move |index| {
                    let offset = of.offset(index) as u64;
                    Slot { region: at, run, index, offset }
                })
            })
            .filter_map(move |slot| {
                let header = self.header_at(slot).ok().filter(|header| header.allocated)?;
                Some((region.address(slot.offset as usize), header))
            })
    }

    /// How many blocks the budget still allows.
    fn blocks_in_budget(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.usage.held_bytes) / BLOCK_BYTES as u64
    }

    /// Where a region is in the heap's list.
    #[inline]
    fn region_at(&self, id: RegionId) -> Option<usize> {
        match self.ids.len() {
            ..=FEW_REGIONS => self.ids.iter().position(|known| *known == id),
            _ => self.by_id.get(&id).map(|at| *at as usize),
        }
    }

    /// The slot that starts at `address`.
    #[inline]
    fn locate(&self, address: Address) -> Result<Slot, ObjectError> {
        let region = self.region_at(address.region()).ok_or(ObjectError::NotAnObject)?;
        let offset = address.offset() as usize;
        let run = self.regions[region].run_of(offset / BLOCK_BYTES).ok_or(ObjectError::NotAnObject)?;
        let of = &self.runs[run];
        // Divided as 32 bits, which they are: half the time of 64.
        let within = (offset - of.first_block * BLOCK_BYTES) as u32;
        let slot_bytes = of.size.slot_bytes as u32;
        let (index, rest) = ((within / slot_bytes) as usize, within % slot_bytes);
        if rest != 0 || index >= of.free.slots() {
            return Err(ObjectError::NotAnObject);
        }
        Ok(Slot { region, run, index, offset: offset as u64 })
    }

    /// Gives an empty run's blocks back to their region.
    fn dissolve(&mut self, run: u32) {
        let Run { region, first_block, size, floor, touched, .. } = &self.runs[run];
        let blocks = size.run_blocks;
        self.usage.waiting_blocks -= blocks;
        // Incarnations that are used up must not begin again: the blocks are of no use any more.
        if floor.incarnation == u32::MAX {
            self.usage.worn_blocks += blocks;
            return;
        }
        let (region, first_block) = (*region, *first_block);
        self.regions[region].free_run(first_block, blocks, touched.then_some(*floor));
        self.recorded_blocks(region, first_block..first_block + blocks);
        self.usage.free_blocks += blocks;
        self.usage.held_bytes -= (blocks * BLOCK_BYTES) as u64;
        self.runs.remove(run);
        self.short = false;
    }

    /// Takes an empty run out of use; its blocks wait from now on, or are free at once if nobody
    /// has ever seen an object in them.
    fn retire(&mut self, run: u32) {
        let Run { size, purpose, touched, .. } = self.runs[run];
        self.slabs.forget(run, &self.runs);
        self.usage.purposes[purpose as usize].block_bytes -= (size.run_blocks * BLOCK_BYTES) as u64;
        self.usage.slab_blocks -= size.run_blocks;
        self.usage.waiting_blocks += size.run_blocks;
        self.runs[run].waiting = true;
        match touched && !planted("epoch_ignored") {
            true => self.quarantine.put(run),
            false => self.dissolve(run),
        }
    }

    fn purpose_usage(&mut self, purpose: Purpose) -> &mut PurposeUsage {
        &mut self.usage.purposes[purpose as usize]
    }
}

/// Region ids are spread by their owner already: a multiplication is enough.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, id: u32) {
        self.0 = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}
