//! How long to wait before the coordinator is tried again.

use crate::member::Life;
use barn_fabric::seam::{Random, Seeded};
use std::time::Duration;

/// The first wait after a failure, on average; it doubles up to a quarter of the lease.
const BACKOFF_MIN: Duration = Duration::from_millis(4);

/// Waits that grow and differ from process to process, so that a coordinator that comes back is
/// not asked by all at once.
pub(super) struct Backoff {
    step: u32,
    random: Seeded,
}

impl Backoff {
    pub(super) fn new(life: Life) -> Self {
        Self { step: 0, random: Seeded::new(life.0) }
    }

    pub(super) fn reset(&mut self) {
        self.step = 0;
    }

    /// Between half and one and a half times the step's wait.
    pub(super) fn next(&mut self, lease: Duration) -> Duration {
        let wait = (BACKOFF_MIN * (1 << self.step)).min(lease / 4);
        self.step = (self.step + 1).min(10);
        wait / 2 + Duration::from_nanos(self.random.below(wait.as_nanos() as u64 + 1))
    }
}
