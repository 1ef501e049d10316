//! Which of this client's reads are under way: what lets nodes use memory for something else.
//!
//! FaRM section 3.5: memory is given another shape only after every operation that began in an
//! earlier epoch has ended. A client counts its operations by *generation*; the keeper begins a new
//! generation at each renewal, and tells a node that its epoch has been left once every operation
//! of the generations in which that epoch was not yet known is over.
//!
//! An operation that is older than the client allows is *doomed*: it is not waited for, and finds
//! that out before it uses what it reads ([`Guard::is_doomed`]).

// The atomics of whoever compiles this: the machine's, loom's, or a scheduler's.
use super::atomics::{AtomicU64, AtomicUsize, Ordering};
use barn_layout::planted;

/// Generations that are told apart: a new one waits until the one that used its counter is over.
#[cfg(not(loom))]
pub(super) const COUNTERS: u64 = 8;
/// Two make every second generation wait, in as few steps as loom can explore.
#[cfg(loom)]
const COUNTERS: u64 = 2;

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
    #[inline]
    pub(crate) fn enter(&self) -> Guard {
        loop {
            // ORDER: Relaxed: a guess, which is looked at again.
            let generation = self.generation.load(Ordering::Relaxed);
            let count = &self.counts[(generation % COUNTERS) as usize];
            // SYNC: Acquire, pairs with `is_quiet`, which changes the count, too: whichever comes
            // second sees the first. Either the keeper counts us, or we see what it did before.
            count.fetch_add(1, Ordering::Acquire);
            // SYNC: Acquire, pairs with the store in `advance`: what was out of reach before the
            // generation began is out of ours.
            let now = self.generation.load(Ordering::Acquire);
            if now == generation {
                return Guard { generation };
            }
            // ORDER: Release, as in `leave`.
            count.fetch_sub(1, Ordering::Release);
        }
    }

    /// An operation ends.
    #[inline]
    pub(crate) fn leave(&self, guard: &Guard) {
        let count = &self.counts[(guard.generation % COUNTERS) as usize];
        // SYNC: Release, pairs with the Acquire load in `is_quiet`: its reads are over.
        let order = if planted("leave_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        count.fetch_sub(1, order);
    }

    /// Begins a new generation if its counter is free; gives the present one.
    pub(crate) fn advance(&self) -> u64 {
        // ORDER: Relaxed: only the keeper changes it.
        let generation = self.generation.load(Ordering::Relaxed);
        if self.is_quiet(generation + 1) {
            // SYNC: Release, pairs with the loads in `enter`.
            self.generation.store(generation + 1, Ordering::Release);
            return generation + 1;
        }
        generation
    }

    /// Whether no operation of a generation (that is not the present one) is under way.
    fn is_quiet(&self, generation: u64) -> bool {
        // SYNC: a change that changes nothing: Release pairs with `enter`, Acquire with `leave`.
        self.counts[(generation % COUNTERS) as usize].fetch_add(0, Ordering::AcqRel) == 0
    }

    /// Whether every operation that began before `generation` is over, or doomed.
    pub(crate) fn is_over_before(&self, generation: u64) -> bool {
        // ORDER: Relaxed, both: only the keeper, who asks, changes them.
        let oldest = self.oldest.load(Ordering::Relaxed);
        let present = self.generation.load(Ordering::Relaxed);
        // The present one began when the counter that it took over was free: older ones are over.
        let from = oldest.max((present + 1).saturating_sub(COUNTERS));
        (from..generation).all(|earlier| self.is_quiet(earlier))
    }

    /// Dooms what began before `generation`.
    pub(crate) fn doom_before(&self, generation: u64) {
        // SYNC: Release, pairs with the Acquire load in `is_doomed`.
        self.oldest.fetch_max(generation, Ordering::Release);
    }

    /// Whether an operation is too old to use what it reads.
    #[inline]
    pub(crate) fn is_doomed(&self, guard: &Guard) -> bool {
        // SYNC: Acquire, pairs with `doom_before`: looked at after the bytes were read.
        guard.generation < self.oldest.load(Ordering::Acquire)
    }
}

/// What a client knows of a node's epochs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epochs {
    /// The epoch that we have told the node we are in.
    left: u64,
    /// A newer one, and the generation that began after we heard of it.
    told: Option<(u64, u64)>,
}

impl Epochs {
    /// A session that begins in this epoch.
    pub(crate) fn new(epoch: u64) -> Self {
        Self { left: epoch, told: None }
    }

    /// The epoch to tell the node: every operation that began in an earlier one is over.
    pub(crate) fn leave(&mut self, activity: &Activity) -> u64 {
        if let Some((epoch, since)) = self.told
            && (activity.is_over_before(since) || planted("epoch_left_too_early"))
        {
            self.left = epoch;
            self.told = None;
        }
        self.left
    }

    /// The node is in this epoch, it said when it was asked in `generation`.
    pub(crate) fn heard(&mut self, epoch: u64, generation: u64) {
        if epoch > self.left && self.told.is_none() {
            // Operations that begin in a later generation know nothing of the old epoch's memory.
            self.told = Some((epoch, generation + 1));
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    struct Model {
        activity: Activity,
        /// Whether the place can be found.
        linked: AtomicBool,
        /// The place: loom objects if it is given another shape while somebody is reading it.
        place: UnsafeCell<()>,
    }

    impl Model {
        fn new() -> Arc<Self> {
            let (activity, linked) = (Activity::default(), AtomicBool::new(true));
            Arc::new(Self { activity, linked, place: UnsafeCell::new(()) })
        }

        fn read(&self) {
            let guard = self.activity.enter();
            // ORDER: Relaxed: a READ, which nothing but `enter` orders.
            if self.linked.load(Ordering::Relaxed) {
                self.place.with(|_| ());
            }
            self.activity.leave(&guard);
        }

        /// The place cannot be found from here on; then the keeper's rounds.
        fn reclaim(&self, rounds: usize) {
            // ORDER: Relaxed: the node's doing, of which the keeper heard before `heard`.
            self.linked.store(false, Ordering::Relaxed);
            let mut epochs = Epochs::new(0);
            for _ in 0..rounds {
                let generation = self.activity.advance();
                if epochs.leave(&self.activity) == 1 {
                    self.place.with_mut(|_| ());
                    return;
                }
                epochs.heard(1, generation);
            }
        }
    }

    #[test]
    fn loom_a_place_that_is_read_keeps_its_shape() {
        loom::model(|| {
            let model = Model::new();
            let reader = model.clone();
            let reading = thread::spawn(move || reader.read());
            model.reclaim(3);
            reading.join().unwrap();
        });
    }

    /// It is not waited for, so it must find out by itself.
    #[test]
    fn loom_a_doomed_reader_does_not_use_what_it_read() {
        loom::model(|| {
            let model = Model::new();
            let (reader, reused) = (model.clone(), Arc::new(AtomicBool::new(false)));
            let seen = reused.clone();
            let reading = thread::spawn(move || {
                let guard = reader.activity.enter();
                // ORDER: Relaxed, Acquire: READs, the second of bytes that may be another's by then.
                let found = reader.linked.load(Ordering::Relaxed);
                let torn = seen.load(Ordering::Acquire);
                let doomed = reader.activity.is_doomed(&guard);
                assert!(!(found && torn && !doomed), "bytes of another object were used");
                reader.activity.leave(&guard);
            });
            model.linked.store(false, Ordering::Relaxed);
            let generation = model.activity.advance();
            model.activity.doom_before(generation);
            if model.activity.is_over_before(generation) {
                // ORDER: Release: the node's bytes, written after it was told.
                reused.store(true, Ordering::Release);
            }
            reading.join().unwrap();
        });
    }
}
