//! A run of blocks, divided into slots of one size for one purpose.

use crate::bitmap::FreeSlots;
use crate::size_class::Size;
use barn_layout::heap::{BLOCK_BYTES, Purpose};
use std::ops::{Index, IndexMut};

/// Greater than every version and incarnation that a place has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Floor {
    pub(super) version: u64,
    pub(super) incarnation: u32,
}

impl Floor {
    /// The higher of both.
    #[inline]
    pub(super) fn above(self, other: Self) -> Self {
        Self {
            version: self.version.max(other.version),
            incarnation: self.incarnation.max(other.incarnation),
        }
    }

    /// Just above what a slot has.
    #[inline]
    pub(super) fn over(version: u64, incarnation: u32) -> Self {
        Self { version: version + 1, incarnation: incarnation.saturating_add(1) }
    }
}

/// A run of blocks.
#[derive(Debug)]
pub(super) struct Run {
    /// The region, by its place in the heap's list.
    pub(super) region: usize,
    pub(super) first_block: usize,
    pub(super) size: Size,
    pub(super) purpose: Purpose,
    pub(super) free: FreeSlots,
    /// Above every version and incarnation of a slot that is free.
    pub(super) floor: Floor,
    /// Whether it has held an object since it was divided: then readers may look into it.
    pub(super) touched: bool,
    /// Whether it waits in quarantine.
    pub(super) waiting: bool,
}

impl Run {
    /// Whether no slot is in use.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.free.count() == self.free.slots()
    }

    /// Where a slot starts.
    #[inline]
    pub(super) fn offset(&self, slot: usize) -> usize {
        self.first_block * BLOCK_BYTES + slot * self.size.slot_bytes
    }
}

/// All runs; a number stays a run's until it is removed.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: Vec<Option<Run>>,
    vacant: Vec<u32>,
}

impl Runs {
    /// Adds a run; gives its number.
    pub(super) fn add(&mut self, run: Run) -> u32 {
        match self.vacant.pop() {
            Some(at) => {
                self.runs[at as usize] = Some(run);
                at
            }
            None => {
                self.runs.push(Some(run));
                self.runs.len() as u32 - 1
            }
        }
    }

    /// Removes a run.
    pub(super) fn remove(&mut self, at: u32) {
        self.runs[at as usize] = None;
        self.vacant.push(at);
    }
}

impl Index<u32> for Runs {
    type Output = Run;

    #[inline]
    fn index(&self, at: u32) -> &Run {
        self.runs[at as usize].as_ref().expect("a number that is in use")
    }
}

impl IndexMut<u32> for Runs {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut Run {
        self.runs[at as usize].as_mut().expect("a number that is in use")
    }
}
