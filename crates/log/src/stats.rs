//! Figures of a log, for its owner and for metrics.

use crate::Position;
use crate::error::LogError;
use crate::shared::{NONE, Shared};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters that the log's threads keep.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) writes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_ms: AtomicU64,
    pub(crate) checkpoint_bytes: AtomicU64,
    pub(crate) checkpoint_failures: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        // ORDER: Relaxed: a figure that orders nothing.
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set(counter: &AtomicU64, value: u64) {
        // ORDER: Relaxed: a figure that orders nothing.
        counter.store(value, Ordering::Relaxed);
    }

    fn get(counter: &AtomicU64) -> u64 {
        // ORDER: Relaxed: a figure that orders nothing.
        counter.load(Ordering::Relaxed)
    }
}

/// How a log is doing.
#[derive(Clone, Debug, Default)]
pub struct LogStats {
    /// The end of the newest record that the writer was given.
    pub appended: Position,
    /// How far the log is written: it survives the process.
    pub written: Position,
    /// How far the log is synced: it survives a power loss.
    pub synced: Position,
    /// Bytes that are not written yet.
    pub lag_bytes: u64,
    /// The age of the oldest byte that is not written yet.
    pub lag: Duration,
    /// Frames written.
    pub writes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Bytes written to segments, with headers and padding.
    pub bytes: u64,
    /// Records written.
    pub records: u64,
    /// Whether a checkpoint is under way.
    pub checkpoint_running: bool,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub checkpoint_failures: u64,
    /// Why the last one failed, if it did.
    pub checkpoint_failure: Option<String>,
    /// How long the last one took.
    pub checkpoint_duration: Duration,
    /// How long its image is.
    pub checkpoint_bytes: u64,
    /// Segments that are in use.
    pub segments: u64,
    /// Bytes of segments, spare ones, and of the image.
    pub disk_bytes: u64,
    /// Why the log has stopped, if it has.
    pub failure: Option<LogError>,
}

/// Gives [`LogStats`] to any thread.
#[derive(Clone)]
pub struct LogStatsHandle {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for LogStatsHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.stats().fmt(f)
    }
}

impl LogStatsHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// How the log is doing.
    pub fn stats(&self) -> LogStats {
        let shared = &self.shared;
        let state = shared.lock();
        let (written, appended) = (shared.written(), state.handed_over());
        let (oldest, now) = (shared.oldest(), shared.now());
        let segments: u64 = state.segments.iter().map(|segment| segment.bytes).sum();
        let spares = state.spares.len() as u64 * shared.options.segment_bytes;
        let counters = &shared.counters;
        LogStats {
            appended,
            written,
            synced: shared.synced(),
            lag_bytes: appended.saturating_sub(written),
            lag: if oldest == NONE {
                Duration::ZERO
            } else {
                Duration::from_nanos(now.saturating_sub(oldest))
            },
            writes: Counters::get(&counters.writes),
            syncs: Counters::get(&counters.syncs),
            bytes: Counters::get(&counters.bytes),
            records: Counters::get(&counters.records),
            checkpoint_running: state.checkpoint.running,
            checkpoints: Counters::get(&counters.checkpoints),
            checkpoint_failures: Counters::get(&counters.checkpoint_failures),
            checkpoint_failure: state.checkpoint.failure.clone(),
            checkpoint_duration: Duration::from_millis(Counters::get(&counters.checkpoint_ms)),
            checkpoint_bytes: state.checkpoint.image_bytes,
            segments: state.segments.len() as u64,
            disk_bytes: segments + spares + state.checkpoint.image_bytes,
            failure: state.failure.clone().or_else(|| state.no_space.clone()),
        }
    }
}
