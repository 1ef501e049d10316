//! The writer: takes what the owner handed over, writes it as frames, syncs, and answers.
//!
//! Everything that arrived while the last write and sync ran goes into the next (group commit), and
//! only one is under way at a time. What always holds: nobody is answered before their position is
//! written or synced, as they asked; after a write or sync has failed nothing is written or synced
//! again; a segment is synced before the next one is made, so that only the newest can have a tail
//! that is not durable.

mod rotate;

use crate::error::LogError;
use crate::failpoint::failpoint;
use crate::frame::{Batch, Head, frame_bytes, seal};
use crate::parse::whole_records;
use crate::segment::{FRAMES_START, RESERVED_BYTES, Segment};
use crate::shared::{Resting, Shared, State, Then, Wait};
use crate::stats::Counters;
use crate::{Level, Position};
use barn_fabric::seam::Disk;
use barn_layout::log::FRAME_STOPPED;
use barn_layout::planted;
use std::collections::VecDeque;
use std::sync::Arc;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Something is left to do.
    Again,
    /// Nothing before this time, unless somebody is in a hurry.
    Until(u64),
    /// Nothing before somebody hands something over.
    Sleep,
    /// The log was stopped.
    Done,
}

/// What a frame is made of.
enum Frame {
    /// All that was taken.
    Batch,
    /// These of its bytes, and how many records they are.
    Part(std::ops::Range<usize>, u32),
    /// No records: it says something of the log itself.
    Mark,
}

pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    shared: Arc<Shared>,
    log: u64,
    segment: Segment,
    /// What was taken; written up to `batch_at`.
    batch: Batch,
    batch_at: usize,
    /// The end of what is written.
    position: Position,
    rotate_at: Option<Position>,
    /// A frame of only some of them, or of none.
    part: Batch,
    waits_written: VecDeque<(Position, Then)>,
    waits_synced: VecDeque<(Position, Then)>,
    /// When the oldest byte that is not synced was written.
    unsynced_since: Option<u64>,
    /// When a full disk is tried again.
    retry_at: Option<u64>,
    /// The next segment could not be made ahead; it is not tried again before it is needed.
    ahead_failed: bool,
    result: Result<(), LogError>,
}

impl Writer {
    pub(crate) fn new(disk: Arc<dyn Disk>, shared: Arc<Shared>, log: u64, segment: Segment) -> Self {
        let position = shared.written();
        Self {
            disk,
            shared,
            log,
            segment,
            batch: Batch::default(),
            batch_at: 0,
            position,
            rotate_at: None,
            part: Batch::default(),
            waits_written: VecDeque::new(),
            waits_synced: VecDeque::new(),
            unsynced_since: None,
            retry_at: None,
            ahead_failed: false,
            result: Ok(()),
        }
    }

    /// Runs until the log is stopped.
    pub(crate) fn run(mut self) -> Result<(), LogError> {
        let shared = self.shared.clone();
        let guard = Unwinding(shared.clone());
        loop {
            let until = match self.step() {
                Next::Again => continue,
                Next::Done => break,
                Next::Until(time) => Some(time),
                Next::Sleep => None,
            };
            let mut state = shared.lock();
            while state.resting != Resting::Not {
                let left = until.map(|time| time.saturating_sub(shared.now()));
                state = match left {
                    Some(0) => break,
                    Some(left) => {
                        let left = std::time::Duration::from_nanos(left);
                        let woken = shared.writer_wake.wait_timeout(state, left);
                        woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0
                    }
                    None => shared.writer_wake.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
                };
            }
            state.resting = Resting::Not;
        }
        std::mem::forget(guard);
        self.result
    }

    /// One round: take, write one frame, answer, sync if somebody waits for it or it is time.
    pub(crate) fn step(&mut self) -> Next {
        let now = self.shared.now();
        let stop = self.collect(now);
        if let Some(error) = self.shared.failure() {
            return self.give_up(error);
        }
        match self.work(now, stop) {
            Ok(true) => self.next(now),
            Ok(false) => Next::Done,
            Err(error) => {
                self.shared.fail(error.clone());
                self.give_up(error)
            }
        }
    }

    /// Everything that can fail. Whether there is a next round.
    fn work(&mut self, now: u64, stop: bool) -> Result<bool, LogError> {
        let space = self.write(now, stop)?;
        self.answer_written();
        if self.batch.is_empty() || !space {
            self.sync_if_due(now, stop)?;
        }
        if !stop {
            self.make_ahead();
            return Ok(true);
        }
        if !space {
            let error = self.shared.lock().no_space.clone().unwrap_or(LogError::Stopped);
            self.answer_all(&error);
            self.result = Err(error);
            return Ok(false);
        }
        if self.batch.is_empty() && self.shared.lock().pending.is_empty() {
            self.mark(FRAME_STOPPED)?;
            self.answer_all(&LogError::Stopped);
            return Ok(false);
        }
        Ok(true)
    }

    /// Takes over who waits and, if it is time, what was handed over. Whether the log is to stop.
    fn collect(&mut self, now: u64) -> bool {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        for Wait { position, level, then } in state.waits.drain(..) {
            match level {
                Level::Written => self.waits_written.push_back((position, then)),
                Level::Synced => self.waits_synced.push_back((position, then)),
            }
        }
        if let Some(at) = state.rotate_at.take() {
            self.rotate_at = Some(at);
        }
        if self.batch.is_empty() && self.is_due(&state, now) {
            self.position = state.pending_start;
            state.pending.pop(&mut self.batch);
            state.pending_start += self.batch.len() as u64;
        }
        state.stop
    }

    /// Whether what was handed over is to be written now.
    fn is_due(&self, state: &State, now: u64) -> bool {
        let options = &self.shared.options;
        let hurry = !self.waits_written.is_empty()
            || !self.waits_synced.is_empty()
            || !state.waits.is_empty()
            || state.stop
            || state.sync_to > self.shared.synced();
        let aged = state.pending.born().saturating_add(options.gather.as_nanos() as u64) <= now;
        !state.pending.is_empty() && (hurry || aged || state.pending.bytes() >= options.gather_bytes)
    }

    /// Writes one frame of what was taken. Whether there was room.
    fn write(&mut self, now: u64, stop: bool) -> Result<bool, LogError> {
        if self.retry_at.is_some_and(|at| at > now) && !stop {
            return Ok(false);
        }
        if self.rotate_at.is_some_and(|at| at <= self.position) {
            self.rotate_at = None;
            // Without room the checkpoint does without: replay can begin inside a segment.
            if self.segment.at > FRAMES_START {
                let _ = self.rotate(0)?;
            }
        }
        if self.batch.is_empty() {
            return Ok(true);
        }
        let options = &self.shared.options;
        let rest = &self.batch.bytes()[self.batch_at..];
        let up_to =
            self.rotate_at.map_or(rest.len(), |at| (at - self.position).min(rest.len() as u64) as usize);
        // All that was taken goes as it is, as long as that is a frame.
        let whole = up_to == self.batch.len() && up_to <= options.frame_bytes_max;
        let (bytes, records) = match whole {
            true => (up_to, self.batch.records()),
            false => whole_records(&rest[..up_to], options.frame_bytes_max),
        };
        if bytes == 0 {
            let cause = std::io::Error::other("a record of 4 GiB or more");
            return Err(LogError::failed("framing records for", &self.segment.name)(cause));
        }
        let needed = frame_bytes(bytes);
        if self.segment.at + needed + RESERVED_BYTES > self.segment.info.bytes && !self.rotate(needed)? {
            self.retry_at = Some(now + self.shared.options.space_retry.as_nanos() as u64);
            return Ok(false);
        }
        self.retry_at = None;
        let frame =
            if whole { Frame::Batch } else { Frame::Part(self.batch_at..self.batch_at + bytes, records) };
        self.write_frame(frame, 0)?;
        self.batch_at += bytes;
        self.position += bytes as u64;
        self.unsynced_since.get_or_insert(now);
        if self.batch_at == self.batch.len() {
            self.batch.clear();
            self.batch_at = 0;
        }
        Counters::add(&self.shared.counters.records, u64::from(records));
        self.written();
        Ok(true)
    }

    /// Writes a frame at the end of the segment.
    fn write_frame(&mut self, frame: Frame, flags: u32) -> Result<(), LogError> {
        failpoint("write-before");
        let from = match frame {
            Frame::Batch => &mut self.batch,
            Frame::Part(range, records) => {
                self.part.clear();
                self.part.append(&self.batch.bytes()[range], records);
                &mut self.part
            }
            Frame::Mark => {
                self.part.clear();
                &mut self.part
            }
        };
        let head = Head {
            log: self.log,
            key: self.segment.info.key,
            position: self.position,
            synced: self.shared.synced(),
            records: from.records(),
            flags,
        };
        let frame = seal(from, head);
        let bytes = frame.len() as u64;
        let written = self.segment.file.write_at(self.segment.at, frame);
        written.map_err(LogError::failed("writing", &self.segment.name))?;
        self.segment.at += bytes;
        let counters = &self.shared.counters;
        Counters::add(&counters.writes, 1);
        Counters::add(&counters.bytes, bytes);
        failpoint("write-after");
        Ok(())
    }

    /// Says how far the log is written, and how old the oldest byte that is not.
    fn written(&self) {
        let state = self.shared.lock();
        self.shared.set_written(self.position);
        // The rest of a batch is as old as its beginning was: `oldest` stays.
        if self.batch.is_empty() {
            self.shared.set_oldest(state.pending.born());
        }
    }

    fn sync_if_due(&mut self, now: u64, stop: bool) -> Result<(), LogError> {
        let shared = self.shared.clone();
        let Some(since) = self.unsynced_since else {
            self.answer_synced();
            return Ok(());
        };
        let wanted = stop || !self.waits_synced.is_empty() || shared.lock().sync_to > shared.synced();
        let overdue = since.saturating_add(shared.options.sync_interval.as_nanos() as u64) <= now;
        if wanted || overdue {
            self.sync()?;
        }
        self.answer_synced();
        Ok(())
    }

    /// Syncs the segment: everything written so far is durable afterwards.
    fn sync(&mut self) -> Result<(), LogError> {
        if !planted("log_sync_skipped") {
            self.segment.file.sync().map_err(LogError::failed("syncing", &self.segment.name))?;
        }
        Counters::add(&self.shared.counters.syncs, 1);
        failpoint("sync-after");
        self.unsynced_since = None;
        self.shared.set_synced(self.position);
        let _state = self.shared.lock();
        self.shared.checkpoint_wake.notify_all();
        Ok(())
    }

    fn answer_written(&mut self) {
        let written = self.shared.written();
        answer(&mut self.waits_written, written);
    }

    fn answer_synced(&mut self) {
        let synced = self.shared.synced();
        answer(&mut self.waits_synced, synced);
    }

    /// Answers everybody who is left: at the end, and after a failure.
    fn answer_all(&mut self, error: &LogError) {
        self.answer_written();
        self.answer_synced();
        for (_, then) in self.waits_written.drain(..).chain(self.waits_synced.drain(..)) {
            then(Err(error.clone()));
        }
    }

    /// After a failure: nothing is written or synced any more, and whoever waits is told.
    fn give_up(&mut self, error: LogError) -> Next {
        self.batch.clear();
        self.batch_at = 0;
        self.answer_all(&error);
        let mut state = self.shared.lock();
        state.pending_start = state.handed_over();
        state.pending.clear();
        // Looked at here, under the lock: who stops the log a moment ago would wait for ever.
        if state.stop {
            self.result = Err(error);
            return Next::Done;
        }
        if state.waits.is_empty() {
            state.resting = Resting::Asleep;
            return Next::Sleep;
        }
        Next::Again
    }

    /// What comes next; said under the lock, so that nobody's hand-over is overlooked.
    fn next(&mut self, now: u64) -> Next {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if let Some(retry) = self.retry_at {
            state.resting = if state.stop { Resting::Not } else { Resting::Nap };
            return if state.stop { Next::Again } else { Next::Until(retry) };
        }
        let asked = !state.waits.is_empty() || state.rotate_at.is_some() || state.stop;
        let sync_wanted = self.unsynced_since.is_some() && state.sync_to > shared.synced();
        if !self.batch.is_empty() || asked || sync_wanted || self.is_due(&state, now) {
            return Next::Again;
        }
        let gather_ns = shared.options.gather.as_nanos() as u64;
        let gather = (!state.pending.is_empty()).then(|| state.pending.born().saturating_add(gather_ns));
        // While bytes wait for their sync it looks as often for new ones: nobody wakes it for those, and
        // they must not become as old as the window meanwhile.
        let sync_ns = shared.options.sync_interval.as_nanos() as u64;
        let sync = self.unsynced_since.map(|since| {
            let due = since.saturating_add(sync_ns);
            if planted("log_naps_until_sync") { due } else { due.min(now.saturating_add(gather_ns)) }
        });
        match gather.into_iter().chain(sync).min() {
            Some(time) => {
                state.resting = Resting::Nap;
                Next::Until(time)
            }
            None => {
                state.resting = Resting::Asleep;
                Next::Sleep
            }
        }
    }
}

/// Answers everybody up to a position, in the order in which they came.
fn answer(waits: &mut VecDeque<(Position, Then)>, reached: Position) {
    while waits.front().is_some_and(|(position, _)| *position <= reached) {
        if let Some((_, then)) = waits.pop_front() {
            then(Ok(()));
        }
    }
}

/// If the writer's thread panics (a caller's closure may), nobody waits for it for ever.
struct Unwinding(Arc<Shared>);

impl Drop for Unwinding {
    fn drop(&mut self) {
        let cause = std::io::Error::other("the log's writer panicked");
        self.0.fail(LogError::failed("running", "log")(cause));
    }
}
