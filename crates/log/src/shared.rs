//! What the owner, the writer and the checkpoint share.
//!
//! What always holds: the owner appends to a buffer of its own and moves it here at the end of each
//! turn, so that the lock is taken once a turn and never on the way of a record; whoever holds the
//! lock only moves memory. `written` and `synced` only grow, and `synced` never passes `written`.

use crate::error::LogError;
use crate::options::LogOptions;
use crate::pending::Pending;
use crate::segment::SegmentInfo;
use crate::stats::Counters;
use crate::{Level, Position};
use barn_fabric::seam::Clock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// No time at all.
pub(crate) const NONE: u64 = u64::MAX;

/// What is called when a position has been reached.
pub(crate) type Then = Box<dyn FnOnce(Result<(), LogError>) + Send>;

/// Somebody who waits.
pub(crate) struct Wait {
    pub(crate) position: Position,
    pub(crate) level: Level,
    pub(crate) then: Then,
}

/// Whether the log takes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Condition {
    Open = 0,
    NoSpace = 1,
    Failed = 2,
}

/// What the writer's thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resting {
    /// It looks at everything before it sleeps.
    Not,
    /// It sleeps for a known time; only who is in a hurry wakes it.
    Nap,
    /// It sleeps until it is woken.
    Asleep,
}

/// A checkpoint, as the owner and the writer see it.
#[derive(Debug, Default)]
pub(crate) struct Checkpointing {
    pub(crate) running: bool,
    /// It is to end without a result.
    pub(crate) cancelled: bool,
    /// The position at which the owner found that the copying had ended.
    pub(crate) end: Option<Position>,
    /// The newest number that was used.
    pub(crate) number: u64,
    /// Where the last finished one began.
    pub(crate) start: Position,
    /// How long its image is.
    pub(crate) image_bytes: u64,
    /// After a failure: when the next may begin.
    pub(crate) retry_ns: u64,
    pub(crate) failure: Option<String>,
}

/// What is behind the lock.
pub(crate) struct State {
    /// Records that the writer has not taken yet, from `pending_start` on.
    pub(crate) pending: Pending,
    pub(crate) pending_start: Position,
    pub(crate) waits: Vec<Wait>,
    /// A new segment begins at this position, if that is possible.
    pub(crate) rotate_at: Option<Position>,
    /// The checkpoint waits until this is synced.
    pub(crate) sync_to: Position,
    pub(crate) resting: Resting,
    pub(crate) stop: bool,
    pub(crate) failure: Option<LogError>,
    pub(crate) no_space: Option<LogError>,
    /// The segments in use, the oldest first.
    pub(crate) segments: VecDeque<SegmentInfo>,
    /// Files that wait to be used again.
    pub(crate) spares: Vec<String>,
    pub(crate) checkpoint: Checkpointing,
}

impl State {
    /// The end of what the writer was given.
    pub(crate) fn handed_over(&self) -> Position {
        self.pending_start + self.pending.bytes() as u64
    }
}

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) writer_wake: Condvar,
    pub(crate) checkpoint_wake: Condvar,
    written: AtomicU64,
    synced: AtomicU64,
    /// When the oldest byte that was handed over and is not written was appended.
    oldest_ns: AtomicU64,
    condition: AtomicU8,
    /// The checkpoint has copied everything and asks the owner where that was.
    copied: AtomicBool,
    /// The position from which on a checkpoint is wanted.
    checkpoint_due: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) options: LogOptions,
    clock: Arc<dyn Clock>,
}

impl Shared {
    pub(crate) fn new(
        options: LogOptions,
        clock: Arc<dyn Clock>,
        position: Position,
        segments: VecDeque<SegmentInfo>,
        spares: Vec<String>,
        checkpoint: Checkpointing,
    ) -> Self {
        let due = checkpoint.start + options.checkpoint_after(checkpoint.image_bytes);
        Self {
            checkpoint_due: AtomicU64::new(due),
            state: Mutex::new(State {
                pending: Pending::default(),
                pending_start: position,
                waits: Vec::new(),
                rotate_at: None,
                sync_to: 0,
                resting: Resting::Not,
                stop: false,
                failure: None,
                no_space: None,
                segments,
                spares,
                checkpoint,
            }),
            writer_wake: Condvar::new(),
            checkpoint_wake: Condvar::new(),
            written: AtomicU64::new(position),
            synced: AtomicU64::new(position),
            oldest_ns: AtomicU64::new(NONE),
            condition: AtomicU8::new(Condition::Open as u8),
            copied: AtomicBool::new(false),
            counters: Counters::default(),
            options,
            clock,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_nanos() as u64
    }

    pub(crate) fn written(&self) -> Position {
        // SYNC: pairs with `set_written`: who sees a position may answer for it.
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, position: Position) {
        // SYNC: pairs with `written`.
        self.written.store(position, Ordering::Release);
    }

    pub(crate) fn synced(&self) -> Position {
        // SYNC: pairs with `set_synced`: who sees a position may answer for it.
        self.synced.load(Ordering::Acquire)
    }

    pub(crate) fn set_synced(&self, position: Position) {
        // SYNC: pairs with `synced`.
        self.synced.store(position, Ordering::Release);
    }

    pub(crate) fn oldest(&self) -> u64 {
        // ORDER: Relaxed: an age, judged against a clock; it orders nothing.
        self.oldest_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn set_oldest(&self, born: u64) {
        // ORDER: Relaxed, as in `oldest`; both sides store under the lock.
        self.oldest_ns.store(born, Ordering::Relaxed);
    }

    pub(crate) fn condition(&self) -> Condition {
        // ORDER: Relaxed: the reason is read under the lock afterwards.
        match self.condition.load(Ordering::Relaxed) {
            0 => Condition::Open,
            1 => Condition::NoSpace,
            _ => Condition::Failed,
        }
    }

    /// Called under the lock, together with the reason.
    pub(crate) fn set_condition(&self, condition: Condition) {
        // ORDER: Relaxed, as in `condition`.
        self.condition.store(condition as u8, Ordering::Relaxed);
    }

    pub(crate) fn copied(&self) -> bool {
        // SYNC: pairs with `set_copied`: the loads of the copy come before the owner's next store.
        self.copied.load(Ordering::Acquire)
    }

    pub(crate) fn set_copied(&self, copied: bool) {
        // SYNC: pairs with `copied`.
        self.copied.store(copied, Ordering::Release);
    }

    pub(crate) fn checkpoint_due(&self) -> Position {
        // ORDER: Relaxed: a hint to begin; what is begun is decided under the lock.
        self.checkpoint_due.load(Ordering::Relaxed)
    }

    /// A checkpoint that began at `start` is there.
    pub(crate) fn checkpoint_done(&self, start: Position, image_bytes: u64) {
        let mut state = self.lock();
        state.checkpoint.start = start;
        state.checkpoint.image_bytes = image_bytes;
        state.checkpoint.failure = None;
        state.checkpoint.retry_ns = 0;
        let due = start + self.options.checkpoint_after(image_bytes);
        // ORDER: Relaxed, as in `checkpoint_due`.
        self.checkpoint_due.store(due, Ordering::Relaxed);
    }

    /// Stops the log for good; only the first reason counts.
    pub(crate) fn fail(&self, error: LogError) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        self.set_condition(Condition::Failed);
        state.resting = Resting::Not;
        self.writer_wake.notify_all();
        self.checkpoint_wake.notify_all();
    }

    /// Why the log has stopped for good, if it has.
    pub(crate) fn failure(&self) -> Option<LogError> {
        match self.condition() {
            Condition::Failed => self.lock().failure.clone(),
            _ => None,
        }
    }
}
