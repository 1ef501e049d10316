//! Which runs have room, by size class and purpose.
//!
//! What always holds: a run of a class is in `open` exactly if it has a free slot and does not wait
//! in quarantine; `spare` is the one empty run that is kept for its class, so that a class whose
//! use goes up and down around a run's length does not divide blocks again and again.

use super::run::Runs;
use crate::size_class::CLASSES;
use barn_layout::heap::Purpose;
use std::collections::BTreeSet;

/// Runs with room of one class and purpose.
#[derive(Debug, Default)]
struct Slab {
    /// By region and first block: the lowest are filled first, so that the others get empty.
    open: BTreeSet<(usize, usize, u32)>,
    /// The one that is being filled.
    current: Option<u32>,
    spare: Option<u32>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Slabs {
    slabs: Vec<Slab>,
    /// Every slab's spare: when memory is short, all are looked at for every reservation.
    spares: BTreeSet<u32>,
}

impl Slabs {
    pub(super) fn new() -> Self {
        let slabs = (0..CLASSES * Purpose::ALL.len()).map(|_| Slab::default()).collect();
        Self { slabs, spares: BTreeSet::new() }
    }

    fn at(class: u8, purpose: Purpose) -> usize {
        purpose as usize * CLASSES + class as usize
    }

    #[inline]
    fn of(&mut self, run: u32, runs: &Runs) -> Option<&mut Slab> {
        let run = &runs[run];
        run.size.class.map(|class| &mut self.slabs[Self::at(class, run.purpose)])
    }

    /// The run to fill next.
    #[inline]
    pub(super) fn current(&mut self, class: u8, purpose: Purpose) -> Option<u32> {
        let slab = &mut self.slabs[Self::at(class, purpose)];
        if slab.current.is_none() {
            slab.current = slab.open.first().map(|(_, _, run)| *run);
        }
        slab.current
    }

    /// The runs with room, or those of one region.
    pub(super) fn open(
        &self,
        class: u8,
        purpose: Purpose,
        region: Option<usize>,
    ) -> impl Iterator<Item = u32> + '_ {
        let slab = &self.slabs[Self::at(class, purpose)];
        let range = match region {
            Some(region) => (region, 0, 0)..(region + 1, 0, 0),
            None => (0, 0, 0)..(usize::MAX, 0, 0),
        };
        slab.open.range(range).map(|(_, _, run)| *run)
    }

    /// A run has room, or has it again.
    pub(super) fn has_room(&mut self, run: u32, runs: &Runs) {
        let key = (runs[run].region, runs[run].first_block, run);
        if let Some(slab) = self.of(run, runs) {
            slab.open.insert(key);
        }
    }

    /// A run has none left, or is taken out of use.
    pub(super) fn forget(&mut self, run: u32, runs: &Runs) {
        let key = (runs[run].region, runs[run].first_block, run);
        self.not_spare(run, runs);
        if let Some(slab) = self.of(run, runs) {
            slab.open.remove(&key);
            slab.current = slab.current.filter(|current| *current != run);
        }
    }

    /// An empty run is used again.
    #[inline]
    pub(super) fn not_spare(&mut self, run: u32, runs: &Runs) {
        if let Some(slab) = self.of(run, runs)
            && slab.spare == Some(run)
        {
            slab.spare = None;
            self.spares.remove(&run);
        }
    }

    /// Whether a run that became empty is kept as its class's spare.
    pub(super) fn keep_spare(&mut self, run: u32, runs: &Runs) -> bool {
        let kept = self.of(run, runs).is_some_and(|slab| *slab.spare.get_or_insert(run) == run);
        if kept {
            self.spares.insert(run);
        }
        kept
    }

    /// All spares: when memory is short, they are for whoever needs them.
    pub(super) fn spares(&self) -> Vec<u32> {
        self.spares.iter().copied().collect()
    }
}
