//! The clock of a loop that measures: real, or moved by hand in tests.

use std::time::{Duration, Instant};

/// Nanoseconds, and waiting for them.
pub(crate) trait Clock {
    /// Nanoseconds since some moment.
    fn now(&self) -> u64;

    /// Comes back when it is as late as this.
    fn wait_until(&self, nanoseconds: u64);
}

/// The machine's.
#[derive(Debug)]
pub(crate) struct Real(Instant);

impl Real {
    /// Begins at nothing.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

/// A sleep may be so much longer than was asked for: the rest is spun away.
const SLEEP_LATE_NS: u64 = 200_000;

impl Clock for Real {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wait_until(&self, nanoseconds: u64) {
        loop {
            let left = nanoseconds.saturating_sub(self.now());
            match left {
                0 => return,
                left if left > 2 * SLEEP_LATE_NS => {
                    std::thread::sleep(Duration::from_nanos(left - SLEEP_LATE_NS));
                }
                _ => std::hint::spin_loop(),
            }
        }
    }
}
