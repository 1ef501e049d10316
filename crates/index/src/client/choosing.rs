//! Choosing between the two ways to read, by what they have cost lately: Cell's selector.

use crate::selector::{Choice, SelectorOptions, SharedSelector};
use barn_transaction::Client;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Threads that choose without being in each other's way.
const THREADS: usize = 8;

/// A selector, and the time as it was when last somebody looked.
pub(super) struct Choosing {
    selector: SharedSelector,
    now: AtomicU64,
}

impl fmt::Debug for Choosing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Choosing")
    }
}

/// A lookup that was sent one way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) choice: Choice,
    /// When it began, if it is timed.
    began: Option<Duration>,
}

impl Choosing {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            selector: SharedSelector::new(SelectorOptions::default(), seed, THREADS),
            now: AtomicU64::new(0),
        }
    }

    /// Chooses a way for the next lookup.
    #[inline]
    pub(super) fn choose(&self, client: &Client) -> Sent {
        // ORDER: Relaxed: a time that stands alone; it may be behind.
        let mut now = Duration::from_nanos(self.now.load(Ordering::Relaxed));
        if now.is_zero() {
            now = client.now();
        }
        let chosen = self.selector.choose(now, self.selector.reads_expected());
        Sent { choice: chosen.choice, began: chosen.timed.then(|| client.now()) }
    }

    /// Notes what a lookup has cost, for each of its keys.
    #[inline]
    pub(super) fn done(&self, client: &Client, sent: &Sent, keys: usize, reads: u32) {
        if let Some(began) = sent.began {
            let now = client.now();
            let latency = now.saturating_sub(began) / keys.max(1) as u32;
            self.selector.measured(now, sent.choice, latency, reads.max(1));
            // ORDER: Relaxed: as above.
            self.now.store(now.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}
