//! The owner's side of a log: append, and at the end of a turn hand over.
//!
//! What always holds: the owner makes all changes in one [`Record`], whose memory is what is written in the end.
//! [`Log::append`] copies nothing, takes no lock, makes no system call and, once the memory has grown, allocates
//! nothing. Every 4 KiB it sums up what was appended, while that is near; the rest of the checksum is the writer's.

use crate::checkpoint::Checkpoint;
use crate::error::LogError;
use crate::record::Record;
use crate::shared::{Condition, NONE, Resting, Shared, Wait};
use crate::stats::{LogStats, LogStatsHandle};
use crate::{Level, Position};
use barn_fabric::seam::{Disk, DiskLock};
use barn_fabric::{RegionId, Words};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a checkpoint that failed is not tried again: a disk that was full is seldom empty sooner.
const CHECKPOINT_RETRY: Duration = Duration::from_secs(10);

/// What an error names that concerns no file alone.
pub(crate) const DIRECTORY: &str = "the log's directory";

/// Says which parts of a region are in use.
pub type Used = Box<dyn Fn(RegionId, &Words) -> Vec<Range<u64>> + Send>;

/// Whether durable writes may be answered.
#[derive(Clone, Debug)]
pub enum Admission {
    /// `logged` writes may be answered at once.
    Open,
    /// The loss window is used up: answer `logged` writes only once they are written.
    Behind,
    /// Refuse durable writes; reads go on.
    Stopped(LogError),
}

/// A node's log. One thread has it, the one that changes the memory.
///
/// Dropped, it writes and syncs what it was handed over, if it can; [`Log::stop`] says whether that worked, and takes
/// the rest as well.
pub struct Log {
    /// When the first record was appended of those that were not handed over.
    born: u64,
    appended: Position,
    /// How far they were handed over.
    handed_over: Position,
    waits: Vec<Wait>,
    disk: Arc<dyn Disk>,
    log: u64,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<Result<(), LogError>>>,
    checkpoint: Option<JoinHandle<()>>,
    /// Let go only after the threads have ended.
    _lock: Box<dyn DiskLock>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(appended {}, written {})", self.appended, self.shared.written())
    }
}

impl Log {
    pub(crate) fn new(disk: Arc<dyn Disk>, log: u64, shared: Arc<Shared>, lock: Box<dyn DiskLock>) -> Self {
        let appended = shared.written();
        Self {
            born: NONE,
            appended,
            handed_over: appended,
            waits: Vec::new(),
            disk,
            log,
            shared,
            writer: None,
            checkpoint: None,
            _lock: lock,
        }
    }

    pub(crate) fn with_thread(mut self, writer: JoinHandle<Result<(), LogError>>) -> Self {
        self.writer = Some(writer);
        self
    }

    /// Appends a record, which is empty afterwards, for the next; gives the position at its end. It keeps the bytes
    /// until they are handed over, and must be the same one each time. The memory that it speaks of must have been
    /// changed, or must be changed before the next [`Log::turn`] and [`Log::begin_checkpoint`].
    #[inline]
    pub fn append(&mut self, record: &mut Record) -> Position {
        if record.is_empty() {
            return self.appended;
        }
        debug_assert_eq!(self.kept_back(), record.complete().len(), "another record than before");
        if self.appended == self.handed_over {
            self.born = self.shared.now();
        }
        self.appended += record.close() as u64;
        self.appended
    }

    /// How many bytes were appended and not handed over.
    #[inline]
    fn kept_back(&self) -> usize {
        (self.appended - self.handed_over) as usize
    }

    /// Calls `then` once the log has come so far: on the writer's thread, or at once. An error means
    /// that it is not known how far it came. While a full disk stops the log nobody is answered: they
    /// are, once there is room.
    pub fn after(
        &mut self,
        position: Position,
        level: Level,
        then: Box<dyn FnOnce(Result<(), LogError>) + Send>,
    ) {
        let reached = match level {
            Level::Written => self.shared.written(),
            Level::Synced => self.shared.synced(),
        };
        if position <= reached {
            then(Ok(()));
        } else if let Some(error) = self.shared.failure() {
            then(Err(error));
        } else {
            self.waits.push(Wait { position, level, then });
        }
    }

    /// Ends a turn of the poll loop; also called before it sleeps. Hands over what was appended with this record: it
    /// is written at once if somebody waits, otherwise when enough has gathered or a few
    /// milliseconds have passed, whether or not there is another turn. At this moment everything that
    /// was changed in memory must have been appended.
    #[inline]
    pub fn turn(&mut self, record: &mut Record) {
        if self.kept_back() > 0 || !self.waits.is_empty() || self.shared.copied() {
            self.hand_over(Some(record), false);
        }
    }

    /// Between turns, when some has been appended: hands it over once it is enough to be written, or old enough
    /// and the writer has taken what it was given before; little of it behind something else would be copied. As
    /// for [`Log::turn`], everything that was changed must have been appended.
    #[inline]
    pub fn offer(&mut self, record: &mut Record) {
        let options = &self.shared.options;
        let aged = || self.shared.now().saturating_sub(self.born) >= options.gather.as_nanos() as u64;
        if self.kept_back() >= options.gather_bytes
            || !self.waits.is_empty()
            || self.shared.copied()
            || (aged() && self.shared.lock().pending.is_empty())
        {
            self.turn(record);
        }
    }

    pub(crate) fn hand_over(&mut self, record: Option<&mut Record>, stop: bool) {
        let mut state = self.shared.lock();
        let mut hurry = stop || !self.waits.is_empty();
        state.stop |= stop;
        state.waits.append(&mut self.waits);
        if let Some(record) = record.filter(|_| self.appended > self.handed_over) {
            debug_assert!(record.is_empty(), "a change that was made and not appended");
            debug_assert_eq!(self.kept_back(), record.complete().len(), "another record than before");
            state.pending.push(record.complete(), self.born, self.shared.options.gather_bytes);
            self.handed_over = self.appended;
            if self.shared.oldest() == NONE {
                self.shared.set_oldest(self.born);
            }
            self.born = NONE;
        }
        if self.shared.copied() {
            // What the copy may have seen was appended before now.
            self.shared.set_copied(false);
            state.checkpoint.end = Some(self.appended);
            state.sync_to = self.appended;
            hurry = true;
            self.shared.checkpoint_wake.notify_all();
        }
        hurry |= state.pending.bytes() >= self.shared.options.gather_bytes || state.rotate_at.is_some();
        let wake = match state.resting {
            Resting::Not => false,
            Resting::Nap => hurry,
            Resting::Asleep => true,
        };
        if wake {
            state.resting = Resting::Not;
            drop(state);
            self.shared.writer_wake.notify_one();
        }
    }

    /// Where the last record ends.
    pub fn position(&self) -> Position {
        self.appended
    }

    /// Whether durable writes may be answered now.
    pub fn admission(&self) -> Admission {
        if self.shared.condition() != Condition::Open {
            let state = self.shared.lock();
            if let Some(error) = state.failure.as_ref().or(state.no_space.as_ref()) {
                return Admission::Stopped(error.clone());
            }
        }
        let options = &self.shared.options;
        let oldest = self.shared.oldest().min(self.born);
        let waiting = self.appended.saturating_sub(self.shared.written());
        let aged =
            oldest != NONE && self.shared.now().saturating_sub(oldest) > options.window.as_nanos() as u64;
        if aged || waiting > options.window_bytes { Admission::Behind } else { Admission::Open }
    }

    /// Whether enough log has gathered since the last checkpoint for another.
    pub fn wants_checkpoint(&self) -> bool {
        if self.appended < self.shared.checkpoint_due() {
            return false;
        }
        let state = self.shared.lock();
        let checkpoint = &state.checkpoint;
        !checkpoint.running && state.failure.is_none() && self.shared.now() >= checkpoint.retry_ns
    }

    /// Begins a checkpoint of these regions; nothing if one is under way. `notes` are all notes as of
    /// now (set, and appended to); `used` is asked on the log's thread, for each region right before
    /// it is copied, and gives everything in it that is in use or was when the checkpoint began. At
    /// this moment everything that was changed in memory must have been appended. The copying is done
    /// by a thread of the log; it ends only after another [`Log::turn`].
    pub fn begin_checkpoint(
        &mut self,
        record: &mut Record,
        notes: &Record,
        regions: Vec<(RegionId, Words)>,
        used: Used,
    ) {
        let Some(checkpoint) = self.checkpoint_of(record, notes, regions, used) else { return };
        if let Some(last) = self.checkpoint.take() {
            let _ = last.join();
        }
        let named = std::thread::Builder::new().name("barn-checkpoint".into());
        match named.spawn(move || checkpoint.run()) {
            Ok(thread) => self.checkpoint = Some(thread),
            Err(error) => {
                let mut state = self.shared.lock();
                state.checkpoint.running = false;
                state.checkpoint.failure = Some(format!("no thread for it: {error}"));
                state.checkpoint.retry_ns = self.shared.now() + CHECKPOINT_RETRY.as_nanos() as u64;
            }
        }
    }

    /// The work of a checkpoint that begins now, if none is under way.
    pub(crate) fn checkpoint_of(
        &mut self,
        record: &mut Record,
        notes: &Record,
        regions: Vec<(RegionId, Words)>,
        used: Used,
    ) -> Option<Checkpoint> {
        {
            let mut state = self.shared.lock();
            if state.checkpoint.running || state.stop || state.failure.is_some() {
                return None;
            }
            let checkpoint = &mut state.checkpoint;
            checkpoint.running = true;
            checkpoint.end = None;
            checkpoint.cancelled = false;
            checkpoint.number += 1;
            checkpoint.retry_ns = self.shared.now() + CHECKPOINT_RETRY.as_nanos() as u64;
            state.rotate_at = Some(self.appended);
            self.shared.set_copied(false);
        }
        self.hand_over(Some(record), false);
        let number = self.shared.lock().checkpoint.number;
        let parts = (self.disk.clone(), self.shared.clone());
        Some(Checkpoint::new(parts, self.log, number, self.appended, notes, regions, used))
    }

    /// How the log is doing.
    pub fn stats(&self) -> LogStats {
        LogStats {
            appended: self.appended,
            lag_bytes: self.appended.saturating_sub(self.shared.written()),
            ..self.stats_handle().stats()
        }
    }

    /// The same from other threads: for metrics.
    pub fn stats_handle(&self) -> Arc<LogStatsHandle> {
        Arc::new(LogStatsHandle::new(self.shared.clone()))
    }

    /// Writes and syncs everything, and ends. A checkpoint that is under way is given up. If the disk is
    /// full it is tried once more; what then has no room is lost, and the error says so.
    pub fn stop(mut self, record: &mut Record) -> Result<(), LogError> {
        self.end(Some(record))
    }

    fn end(&mut self, record: Option<&mut Record>) -> Result<(), LogError> {
        {
            let mut state = self.shared.lock();
            state.checkpoint.cancelled = true;
            self.shared.checkpoint_wake.notify_all();
        }
        self.hand_over(record, true);
        if let Some(checkpoint) = self.checkpoint.take() {
            let _ = checkpoint.join();
        }
        match self.writer.take() {
            Some(writer) => {
                writer.join().unwrap_or_else(|_| Err(self.shared.failure().unwrap_or(LogError::Stopped)))
            }
            None => Ok(()),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Whoever wants to know whether it worked calls `stop`.
        let _ = self.end(None);
    }
}
