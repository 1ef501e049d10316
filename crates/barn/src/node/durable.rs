//! A node's log: what it finds there when it starts, and what has to wait for it while it runs.
//!
//! What always holds:
//! - one process has a data directory at a time;
//! - nobody is told of a change before the log has come as far as was asked. Where nothing was asked but that it be
//!   logged in time, it is in the log's hands a few requests later, or once the poll loop has nothing to do;
//! - who the node is, is in the log before it serves: after a restart it is the same member, with the
//!   same regions and the same bytes in them.

use super::config::NodeConfig;
use crate::error::Error;
use barn_cluster::MemberId;
use barn_fabric::seam::SystemDisk;
use barn_fabric::{Region, RegionId, RegionOptions, Reply, Rights, Words};
use barn_heap::used_ranges;
use barn_layout::Durability;
use barn_log::{Admission, Level, Log, LogOptions, LogStats, Memory, Position, Record, Recovered};
use barn_transaction::participant::Asked;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

/// The note that says which member this is.
const NODE_NOTE: &[u8] = b"node";
/// Where the log is, in the data directory.
const LOG_DIRECTORY: &str = "log";

/// Takes memory for the regions that a log speaks of.
#[derive(Debug, Default)]
struct Taking(Mutex<Vec<(RegionId, Region)>>);

impl Memory for Taking {
    fn region(&self, id: RegionId, bytes: u64) -> Result<Words, String> {
        let wanted = RegionOptions { bytes, remote: Rights::READ, huge: true };
        let region = Region::allocate(&wanted).map_err(|error| error.to_string())?;
        let words = region.words().clone();
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((id, region));
        Ok(words)
    }
}

/// What a node was before, as its log tells.
pub(super) struct Earlier {
    pub(super) member: MemberId,
    pub(super) regions: Vec<(RegionId, Region)>,
    pub(super) recovered: Recovered,
}

/// A node's log, as its poll loop sees it.
pub(super) struct Durable {
    /// Taken when it is stopped.
    log: Option<Log>,
    usual: Durability,
    /// Records since the writer was last given some.
    changes: u32,
    /// Requests since the last record.
    kept: u32,
    /// Whether somebody waits for one of them.
    awaited: bool,
    /// What the log said then of further ones. It looks at the clock for that: too dear for each.
    admission: Admission,
}

/// After so many records they are offered to the writer. 64: under load about half a millisecond's; the poll
/// loop sleeps after 50 µs without work, which hands them over, so that none waits here for long before it is
/// offered.
const TOGETHER: u32 = 64;

/// The changes of so many requests, or so many bytes of them, become one record, if nobody waits for them: to append
/// one costs as much as to append some. 512 bytes: more, and a record would be longer than what was fetched to write it
/// to (`log/frame.rs`).
const KEPT_REQUESTS: u32 = 16;
const KEPT_BYTES: usize = 512;

impl fmt::Debug for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Durable").field("usual", &self.usual).finish_non_exhaustive()
    }
}

impl Durable {
    /// Opens the log of a data directory, and recovers what is there.
    pub(super) fn open(path: &Path, config: &NodeConfig) -> Result<(Self, Option<Earlier>), Error> {
        let why = |error: String| Error::Node(format!("the data directory {}: {error}", path.display()));
        let disk = SystemDisk::at(&path.join(LOG_DIRECTORY)).map_err(|error| why(error.to_string()))?;
        let options = LogOptions {
            window: config.window,
            sync_interval: config.sync_interval,
            checkpoint_bytes: config.checkpoint_bytes,
            ..LogOptions::default()
        };
        let taking = Taking::default();
        let shown = config.progress.as_ref();
        let progress = |progress| {
            if let Some(show) = shown {
                show.show(progress);
            }
        };
        let (log, recovered) =
            barn_log::open(Arc::new(disk), options, &taking, &progress, config.accept_loss)
                .map_err(|error| why(error.to_string()))?;
        let this = Self {
            log: Some(log),
            usual: config.durability,
            changes: 0,
            kept: 0,
            awaited: false,
            admission: Admission::Open,
        };
        // It comes with the first record, that of the node's regions: without it the node never served.
        let note = recovered.notes.get(NODE_NOTE).and_then(|values| values.last());
        let member = note.and_then(|value| value.get(..4)?.try_into().ok()).map(u32::from_le_bytes);
        let Some(member) = member else { return Ok((this, None)) };
        let mut regions = taking.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        regions.sort_unstable_by_key(|(id, _)| *id);
        Ok((this, Some(Earlier { member: MemberId(member), regions, recovered })))
    }

    /// Notes which member this is.
    pub(super) fn remember(member: MemberId, record: &mut Record) {
        record.note_set(NODE_NOTE, &member.0.to_le_bytes());
    }

    /// How far a write must have come that does not say.
    pub(super) fn usual(&self) -> Durability {
        self.usual
    }

    /// How the log is doing.
    pub(super) fn figures(&self) -> Option<LogStats> {
        self.log.as_ref().map(Log::stats)
    }

    /// Whether a request that changes something durable may be carried out; if not, why.
    #[inline]
    pub(super) fn admits(&self) -> Result<(), String> {
        match &self.admission {
            Admission::Open | Admission::Behind => Ok(()),
            Admission::Stopped(error) => Err(format!("nothing can be written that must survive: {error}")),
        }
    }

    /// Whether a request that changed so much, with those before it, may be answered without a look at the log: it
    /// goes there with the next ones, at the latest when the poll loop has nothing to do.
    #[inline]
    pub(super) fn may_wait(&mut self, record: &Record, durability: Durability) -> bool {
        self.kept += 1;
        self.kept < KEPT_REQUESTS
            && record.bytes() < KEPT_BYTES
            && durability != Durability::Synced
            && matches!(self.admission, Admission::Open)
    }

    /// Hands a record to the log, and empties it.
    #[inline]
    pub(super) fn take(&mut self, record: &mut Record) -> Option<Position> {
        self.kept = 0;
        if record.is_empty() {
            return None;
        }
        let log = self.log.as_mut()?;
        let position = log.append(record);
        self.changes += 1;
        if self.changes >= TOGETHER {
            self.offer(record);
        }
        Some(position)
    }

    /// Much has changed: the writer gets it if it can take it, and the log is asked whether it takes more.
    #[cold]
    fn offer(&mut self, record: &mut Record) {
        if self.awaited {
            return self.turn(record);
        }
        self.changes = 0;
        if let Some(log) = &mut self.log {
            log.offer(record);
            let now = log.admission();
            self.admit(now);
        }
    }

    /// What the log says now of further changes; whoever runs the node hears when it begins and ends to refuse them.
    fn admit(&mut self, now: Admission) {
        match (&self.admission, &now) {
            (Admission::Stopped(_), Admission::Stopped(_)) => {}
            (_, Admission::Stopped(error)) => {
                tracing::warn!(%error, "writes that must survive are refused");
            }
            (Admission::Stopped(_), _) => tracing::info!("the log goes on, and writes are taken again"),
            _ => {}
        }
        self.admission = now;
    }

    /// Everything that has changed goes to the writer: the poll loop is about to sleep, or somebody
    /// waits.
    #[inline]
    pub(super) fn turn(&mut self, record: &mut Record) {
        (self.changes, self.awaited) = (0, false);
        if let Some(log) = &mut self.log {
            log.turn(record);
            let now = log.admission();
            self.admit(now);
        }
    }

    /// The poll loop has taken all that had come.
    #[inline]
    pub(super) fn pause(&mut self, record: &mut Record) {
        if self.awaited {
            self.turn(record);
        }
    }

    /// Answers once the log has come as far as was asked.
    #[inline]
    pub(super) fn answer(&mut self, reply: Reply<'_>, body: &[u8], position: Option<Position>, asked: Asked) {
        let durability = asked.durability.unwrap_or(self.usual);
        let Some(log) = &mut self.log else { return reply.done(body) };
        let level = match (durability, asked.together) {
            // Also if nothing has changed: what the answer tells of the rest is to be there, too.
            (Durability::Synced, _) if position.is_some() || asked.durability.is_some() => Level::Synced,
            _ if position.is_none() => return reply.done(body),
            (_, true) => Level::Written,
            (Durability::Memory | Durability::Synced, false) => return reply.done(body),
            (Durability::Logged, false) => match self.admission {
                Admission::Open => return reply.done(body),
                // The window is used up, or the log has stopped since this was admitted: from here on
                // nothing is acknowledged that could be lost.
                Admission::Behind | Admission::Stopped(_) => Level::Written,
            },
        };
        let (deferred, body) = (reply.later(), body.to_vec());
        let position = position.unwrap_or_else(|| log.position());
        log.after(
            position,
            level,
            Box::new(move |durable| match durable {
                Ok(()) => deferred.done(body),
                Err(error) => deferred.refuse(&format!(
                    "it is not known whether the change will be there after a restart: {error}"
                )),
            }),
        );
        // Not at once: requests that have come at the same time go together.
        self.awaited = true;
    }

    /// Waits until everything so far is on the disk.
    pub(super) fn settle(&mut self, record: &mut Record) -> Result<(), Error> {
        let Some(position) = self.take(record) else { return Ok(()) };
        let Some(log) = &mut self.log else { return Ok(()) };
        let (done, settled) = mpsc::channel();
        log.after(position, Level::Synced, Box::new(move |durable| drop(done.send(durable))));
        log.turn(record);
        let failed = |why: String| Error::Node(format!("the node's log: {why}"));
        match settled.recv() {
            Ok(durable) => durable.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed("it has stopped".into())),
        }
    }

    /// Whether it is time for a checkpoint.
    pub(super) fn wants_checkpoint(&self) -> bool {
        self.log.as_ref().is_some_and(Log::wants_checkpoint)
    }

    /// Begins one.
    pub(super) fn checkpoint(
        &mut self,
        record: &mut Record,
        notes: &Record,
        regions: Vec<(RegionId, Words)>,
    ) {
        // All that was changed must be in the log's hands.
        self.take(record);
        if let Some(log) = &mut self.log {
            log.begin_checkpoint(record, notes, regions, Box::new(|_, words| used_ranges(words)));
        }
    }

    /// Writes and syncs everything, and ends.
    pub(super) fn stop(&mut self, record: &mut Record) {
        self.take(record);
        if let Some(log) = self.log.take() {
            // Whoever waited has been told what failed.
            let _ = log.stop(record);
        }
    }
}
