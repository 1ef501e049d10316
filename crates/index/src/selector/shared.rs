//! A selector that threads share. None of them ever waits for another.
//!
//! Each thread has a selector that it shares with few others, or with none: it learns for itself, as
//! a client does in Cell. If another thread is at it, what seemed better last is good enough, and
//! a sample is lost.

use super::{Choice, Chosen, Selector, SelectorOptions};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// Numbers for threads, in the order in which they come.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // ORDER: Relaxed: only that numbers differ matters.
    static THREAD: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// A selector of some threads. 128 bytes: two cache lines, which the CPU fetches together.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    selector: Mutex<Selector>,
    /// What seemed better last.
    better: AtomicU8,
}

/// A selector for many threads; see the module.
#[derive(Debug)]
pub struct SharedSelector {
    shards: Box<[Shard]>,
}

impl SharedSelector {
    /// A selector for about so many threads; more of them share.
    pub fn new(options: SelectorOptions, seed: u64, threads: usize) -> Self {
        let shard = |number: usize| Shard {
            selector: Mutex::new(Selector::new(options, seed.wrapping_add(number as u64))),
            better: AtomicU8::new(Choice::OneSided as u8),
        };
        Self { shards: (0..threads.max(1)).map(shard).collect() }
    }

    /// See [`Selector::choose`].
    #[inline]
    pub fn choose(&self, now: Duration, reads_expected: f32) -> Chosen {
        let shard = self.shard();
        match shard.lock() {
            Some(mut selector) => {
                let chosen = selector.choose(now, reads_expected);
                let better = if chosen.explores { chosen.choice.other() } else { chosen.choice };
                // ORDER: Relaxed: a hint that stands alone.
                if shard.better.load(Ordering::Relaxed) != better as u8 {
                    // ORDER: Relaxed, as above.
                    shard.better.store(better as u8, Ordering::Relaxed);
                }
                chosen
            }
            None => {
                // ORDER: Relaxed: a hint that stands alone.
                let is_request = shard.better.load(Ordering::Relaxed) == Choice::Request as u8;
                let choice = if is_request { Choice::Request } else { Choice::OneSided };
                Chosen { choice, timed: false, explores: false }
            }
        }
    }

    /// See [`Selector::measured`].
    #[inline]
    pub fn measured(&self, now: Duration, choice: Choice, latency: Duration, reads: u32) {
        if let Some(mut selector) = self.shard().lock() {
            selector.measured(now, choice, latency, reads);
        }
    }

    /// READs of a lookup, on average, as far as this thread knows; 1 if it is not to be found out now.
    pub fn reads_expected(&self) -> f32 {
        self.shard().lock().map_or(1.0, |selector| selector.reads_expected())
    }

    #[inline]
    fn shard(&self) -> &Shard {
        // A task may measure on another thread than it chose on: the sample is as good there.
        let thread = THREAD.try_with(Cell::get).unwrap_or(0);
        &self.shards[thread % self.shards.len()]
    }
}

impl Shard {
    /// The selector, unless another thread is at it.
    #[inline]
    fn lock(&self) -> Option<MutexGuard<'_, Selector>> {
        match self.selector.try_lock() {
            Ok(selector) => Some(selector),
            // Numbers, each of them valid on its own.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_finds_it_taken_goes_on_with_what_seemed_better() {
        let shared = SharedSelector::new(SelectorOptions::default(), 1, 1);
        let now = Duration::from_secs(1);
        for _ in 0..100 {
            let chosen = shared.choose(now, 2.0);
            let latency = if chosen.choice == Choice::Request { 500 } else { 4_000 };
            shared.measured(now, chosen.choice, Duration::from_nanos(latency), 2);
        }
        let taken = shared.shards[0].selector.lock();
        let chosen = shared.choose(now, 2.0);
        assert_eq!(chosen, Chosen { choice: Choice::Request, timed: false, explores: false });
        shared.measured(now, Choice::Request, Duration::from_secs(1), 2);
        assert_eq!(shared.reads_expected(), 1.0);
        drop(taken);
        assert!(shared.reads_expected() > 1.0);
    }

    #[test]
    fn many_threads_choose_at_once() {
        let shared = SharedSelector::new(SelectorOptions::default(), 1, 2);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for operation in 0..20_000 {
                        let now = Duration::from_micros(operation);
                        let chosen = shared.choose(now, 1.0);
                        let latency = if chosen.choice == Choice::Request { 9_000 } else { 2_000 };
                        shared.measured(now, chosen.choice, Duration::from_nanos(latency), 1);
                    }
                });
            }
        });
        let preferred = |shard: &Shard| shard.lock().and_then(|selector| selector.preferred(1.0));
        assert!(shared.shards.iter().filter_map(preferred).all(|choice| choice == Choice::OneSided));
    }
}
