//! Counts of what a node has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts, each only ever read as a whole: they order nothing.
#[derive(Debug, Default)]
pub struct NodeStats {
    /// Peers connected now.
    pub peers: AtomicU64,
    /// Peers accepted since the start.
    pub accepted: AtomicU64,
    /// Newcomers refused since the start.
    pub refused: AtomicU64,
    /// Peers that were disconnected because of what they sent.
    pub expelled: AtomicU64,
    /// Requests and messages that came.
    pub messages: AtomicU64,
    /// One-sided operations that the tcp agent carried out.
    pub operations: AtomicU64,
    /// How often the poll loop went to sleep.
    pub sleeps: AtomicU64,
}

/// Adds to a count that only this thread writes: no locked instruction on the hot path.
#[inline]
pub(crate) fn count(counter: &AtomicU64, add: u64) {
    // ORDER: Relaxed: counts order nothing, and only the poll loop writes them.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(add), Ordering::Relaxed);
}
