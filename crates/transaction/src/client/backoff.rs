//! Waiting before another attempt: random, longer each time, never past the deadline.
//!
//! What always holds: the deadline counts from the start of the operation, so that its attempts
//! and the waits between them together take no longer.

use super::{Environment, Inner};
use std::time::Duration;

/// The first wait is at most this: about what a commit takes that holds a lock.
const FIRST: Duration = Duration::from_micros(2);
/// No wait is longer.
const LONGEST: Duration = Duration::from_millis(2);
/// Waits up to this are spent spinning: waking a sleeper costs more.
const SPIN_MAX: Duration = Duration::from_micros(8);

/// Counts attempts and waits between them.
#[derive(Debug)]
pub(crate) struct Backoff {
    pub(crate) attempts: u64,
    bound: Duration,
    /// When there is no time left, on the client's clock.
    ends: Duration,
}

impl Backoff {
    /// No attempt yet, and `limit` from `now` for all of them.
    pub(crate) fn new(now: Duration, limit: Duration) -> Self {
        Self { attempts: 0, bound: FIRST, ends: now.saturating_add(limit) }
    }

    /// When there is no time left, on the client's clock.
    pub(crate) fn ends(&self) -> Duration {
        self.ends
    }

    /// How much time is left.
    pub(crate) fn left(&self, now: Duration) -> Duration {
        self.ends.saturating_sub(now)
    }

    /// Waits before the next attempt; false if there is no time for one.
    pub(crate) async fn wait(&mut self, inner: &Inner) -> bool {
        self.attempts += 1;
        let left = self.left(inner.now());
        if left.is_zero() {
            return false;
        }
        let nanos = inner.random_below(self.bound.as_nanos() as u64) + 1;
        self.bound = (self.bound * 2).min(LONGEST);
        pause(&inner.environment, Duration::from_nanos(nanos).min(left)).await;
        true
    }
}

/// Waits for a while.
pub(crate) async fn pause(environment: &Environment, time: Duration) {
    let clock = &environment.clock;
    let until = clock.now() + time;
    if time <= SPIN_MAX {
        // A virtual clock stands still while we look at it: then the scheduler is asked.
        let start = clock.now();
        for _ in 0..64 {
            std::hint::spin_loop();
        }
        if clock.now() != start {
            while clock.now() < until {
                std::hint::spin_loop();
            }
            return;
        }
    }
    environment.schedule.sleep(time).await;
}
