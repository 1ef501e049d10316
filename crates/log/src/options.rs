//! What may be set about a log, each with its reason.

use std::time::Duration;

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// How long a segment is. 64 MiB: at the full speed of a disk of 2 GiB/s one lasts 30 ms, and
    /// changing to the next costs about 1 ms; an idle log holds two of them.
    pub segment_bytes: u64,
    /// The loss window, in time: while the oldest byte that is not written is older than this, writes
    /// are answered only once they are written. 100 ms: a disk that is busy with others' syncs is
    /// seldom away for longer, and a person who sees a crash notices no less.
    pub window: Duration,
    /// The loss window, in bytes: the same if more than this waits. 16 MiB: what a disk takes in
    /// about 10 ms.
    pub window_bytes: u64,
    /// How long written bytes wait for a sync that nobody asks for. 1 s, as everybody's default.
    pub sync_interval: Duration,
    /// A checkpoint is wanted after so many bytes of log since the last, or as many as the last image
    /// had (eight times this at most), whichever is more: then writing images costs at most as much as writing the log, and
    /// recovery reads at most about twice the memory. 1 GiB: replayed in about a second.
    pub checkpoint_bytes: u64,
    /// How long bytes for which nobody waits are gathered before they are written. 10 ms: a hundred writes a second
    /// cost little of the core that the owner may share (twice as many took 3 % more of the time of puts in batches),
    /// and 10 % of the window.
    pub gather: Duration,
    /// Bytes that are written at once even if nobody waits. 4 MiB: the disk is no faster with longer writes than 1 MiB,
    /// but one of those costs some 70 µs of the core that the owner may share, most of it for the call.
    pub gather_bytes: usize,
    /// The longest frame, unless one record is longer. 8 MiB: half the window, 4 ms of a disk.
    pub frame_bytes_max: usize,
    /// How much of a region is one chunk of an image. 1 MiB: lost in the noise of a checksum and a
    /// write, and a copy of it holds up nobody.
    pub chunk_bytes: usize,
    /// Segments that are kept for use again after a checkpoint. 4: writing over old bytes needs no
    /// change of the file system's own data, which is half the cost of a sync.
    pub spares_max: usize,
    /// How often a full disk is tried again.
    pub space_retry: Duration,
    /// Threads that take memory and read an image. 4: half of them wait for the disk at any time.
    pub recovery_threads: usize,
}

impl LogOptions {
    /// Bytes of log after which a checkpoint is wanted, if the last image was so long. At most eight
    /// times what was set: whoever wants checkpoints soon gets them, if not after every few changes.
    pub(crate) fn checkpoint_after(&self, image_bytes: u64) -> u64 {
        self.checkpoint_bytes.max(image_bytes.min(self.checkpoint_bytes.saturating_mul(8)))
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            window: Duration::from_millis(100),
            window_bytes: 16 << 20,
            sync_interval: Duration::from_secs(1),
            checkpoint_bytes: 1 << 30,
            gather: Duration::from_millis(10),
            gather_bytes: 4 << 20,
            frame_bytes_max: 8 << 20,
            chunk_bytes: 1 << 20,
            spares_max: 4,
            space_retry: Duration::from_secs(1),
            recovery_threads: 4,
        }
    }
}
