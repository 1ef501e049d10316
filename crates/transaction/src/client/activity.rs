//! Which of this client's reads are under way: what lets nodes use memory for something else.
//!
//! FaRM section 3.5: memory is given another shape only after every operation that began in an
//! earlier epoch has ended. A client counts its operations by *generation*; the keeper begins a new
//! generation at each renewal, and tells a node that its epoch has been left once every operation
//! of the generations in which that epoch was not yet known is over.
//!
//! An operation that is older than the client allows is *doomed*: it is not waited for, and finds
//! that out before it uses what it reads ([`Guard::is_doomed`]).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Generations that are told apart: a new one waits until the one that used its counter is over.
const COUNTERS: u64 = 8;

/// Counts operations by generation.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    generation: AtomicU64,
    /// Operations of earlier generations are doomed.
    oldest: AtomicU64,
    counts: [AtomicUsize; COUNTERS as usize],
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Guard {
    generation: u64,
}

impl Activity {
    /// An operation begins. It ends with [`Self::leave`].
    pub(crate) fn enter(&self) -> Guard {
        loop {
            // SYNC: SeqCst here and in `advance`: either the keeper sees our count, or we see its
            // new generation and count there.
            let generation = self.generation.load(Ordering::SeqCst);
            let count = &self.counts[(generation % COUNTERS) as usize];
            count.fetch_add(1, Ordering::SeqCst);
            // ORDER: SeqCst, as above.
            if self.generation.load(Ordering::SeqCst) == generation {
                return Guard { generation };
            }
            // ORDER: Release, as in `leave`.
            count.fetch_sub(1, Ordering::Release);
        }
    }

    /// An operation ends.
    pub(crate) fn leave(&self, guard: &Guard) {
        // SYNC: Release, pairs with the Acquire load in `is_quiet`: its reads are over.
        self.counts[(guard.generation % COUNTERS) as usize].fetch_sub(1, Ordering::Release);
    }

    /// Begins a new generation if its counter is free; gives the present one.
    pub(crate) fn advance(&self) -> u64 {
        let generation = self.generation.load(Ordering::Relaxed);
        if self.is_quiet(generation + 1) {
            // SYNC: SeqCst, pairs with the load in `enter`.
            self.generation.store(generation + 1, Ordering::SeqCst);
            return generation + 1;
        }
        generation
    }

    /// Whether no operation of a generation (that is not the present one) is under way.
    fn is_quiet(&self, generation: u64) -> bool {
        // SYNC: SeqCst, pairs with `enter` and, as Acquire, with the Release in `leave`.
        self.counts[(generation % COUNTERS) as usize].load(Ordering::SeqCst) == 0
    }

    /// Whether every operation that began before `generation` is over, or doomed.
    pub(crate) fn is_over_before(&self, generation: u64) -> bool {
        // ORDER: Relaxed: only the keeper, who asks, changes it.
        let oldest = self.oldest.load(Ordering::Relaxed);
        let from = oldest.max(generation.saturating_sub(COUNTERS - 1));
        (from..generation).all(|earlier| self.is_quiet(earlier))
    }

    /// Dooms what began before `generation`.
    pub(crate) fn doom_before(&self, generation: u64) {
        // SYNC: Release, pairs with the Acquire load in `is_doomed`.
        self.oldest.fetch_max(generation, Ordering::Release);
    }

    /// Whether an operation is too old to use what it reads.
    pub(crate) fn is_doomed(&self, guard: &Guard) -> bool {
        // SYNC: Acquire, pairs with `doom_before`: looked at after the bytes were read.
        guard.generation < self.oldest.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_over_when_its_operations_are() {
        let activity = Activity::default();
        let first = activity.enter();
        let next = activity.advance();
        assert_eq!(next, 1);
        let second = activity.enter();
        assert!(!activity.is_over_before(1), "the first is under way");
        activity.leave(&first);
        assert!(activity.is_over_before(1), "only the second is under way, and it is newer");
        assert!(!activity.is_over_before(2));
        activity.leave(&second);
        assert!(activity.is_over_before(2));
    }

    #[test]
    fn an_old_operation_is_doomed_and_not_waited_for() {
        let activity = Activity::default();
        let old = activity.enter();
        let next = activity.advance();
        activity.doom_before(next);
        assert!(activity.is_over_before(next));
        assert!(activity.is_doomed(&old));
        assert!(!activity.is_doomed(&activity.enter()));
    }

    #[test]
    fn a_generation_whose_counter_is_taken_does_not_begin() {
        let activity = Activity::default();
        let old = activity.enter();
        for _ in 0..COUNTERS * 2 {
            activity.advance();
        }
        assert_eq!(activity.advance(), COUNTERS - 1);
        activity.leave(&old);
        assert_eq!(activity.advance(), COUNTERS);
    }
}
