//! Time: monotonic, in nanoseconds since some start that differs from process to process.

use std::time::{Duration, Instant};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Time since the clock's own start; never goes back.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}
