//! Time: monotonic, in nanoseconds since some start that differs from process to process.

use super::ticks;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Ticks for which a thread does not look at the clock again, in [`Clock::at_latest`]: 8 µs at 2.5 GHz.
const TICKS_MAX: u64 = 20_000;
/// How long so many take at the most, with room to spare: as if there were 200 of them in a microsecond,
/// where the slowest processors have 800.
const SLACK: Duration = Duration::from_micros(100);

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Time since the clock's own start; never goes back.
    fn now(&self) -> Duration;

    /// A time that is not before now, and at most 100 µs after it: enough to tell that a lease still
    /// holds, for less than [`Self::now`] costs.
    fn at_latest(&self) -> Duration {
        self.now()
    }
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
    /// Whether the processor's ticks can be counted in between.
    ticks: bool,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now(), ticks: ticks::are_there() }
    }
}

/// A look at a clock.
struct Look {
    /// Whose: no two clocks with different starts are the same.
    start: Cell<Option<Instant>>,
    ticks: Cell<u64>,
    /// What to say until so many ticks have passed.
    at_latest: Cell<Duration>,
}

thread_local! {
    /// The last look of this thread.
    static LAST: Look = const {
        Look { start: Cell::new(None), ticks: Cell::new(0), at_latest: Cell::new(Duration::ZERO) }
    };
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn at_latest(&self) -> Duration {
        if !self.ticks {
            return self.now();
        }
        // Before the look at the clock, so that what passes since then is never too little.
        let ticks = ticks::count();
        LAST.with(|last| {
            let since = ticks.wrapping_sub(last.ticks.get());
            if since >= TICKS_MAX || last.start.get() != Some(self.start) {
                last.at_latest.set(self.now() + SLACK);
                last.ticks.set(ticks);
                last.start.set(Some(self.start));
            }
            last.at_latest.get()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_that_it_can_be_is_never_past_and_never_far() {
        let (one, other) = (SystemClock::default(), SystemClock::default());
        for clock in [one, other, one, other] {
            for _ in 0..20_000 {
                let before = clock.now();
                let at_latest = clock.at_latest();
                let after = clock.now();
                assert!(at_latest >= before, "{at_latest:?} is over at {before:?}");
                assert!(at_latest <= after + SLACK, "{at_latest:?} is far from {after:?}");
            }
        }
        // A thread that was away looks again.
        let _ = one.at_latest();
        std::thread::sleep(Duration::from_millis(2));
        let before = one.now();
        assert!(one.at_latest() >= before);
    }
}
