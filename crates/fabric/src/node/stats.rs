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
    /// How often the bell of a shm client was rung that slept until its answer came.
    pub rings: AtomicU64,
    /// Of clients of this host.
    pub shm: TransportStats,
    /// Of clients of any host.
    pub tcp: TransportStats,
    /// Of those of them that went over to verbs; what their devices do by themselves, nobody counts.
    pub verbs: TransportStats,
}

/// Counts of one transport.
#[derive(Debug, Default)]
pub struct TransportStats {
    /// Peers connected now.
    pub peers: AtomicU64,
    /// Bytes that came: over tcp all that were received, over shm those of messages.
    pub bytes_in: AtomicU64,
    /// Bytes that went. What shm clients read for themselves, nobody can count.
    pub bytes_out: AtomicU64,
}

/// A transport that a node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Shm,
    Tcp,
}

impl NodeStats {
    /// The counts of a transport.
    pub(crate) fn of(&self, transport: Transport) -> &TransportStats {
        match transport {
            Transport::Shm => &self.shm,
            Transport::Tcp => &self.tcp,
        }
    }
}

/// Adds to a count that only this thread writes: no locked instruction on the hot path.
#[inline]
pub(crate) fn count(counter: &AtomicU64, add: u64) {
    // ORDER: Relaxed: counts order nothing, and only the poll loop writes them.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(add), Ordering::Relaxed);
}
