//! Opens a log: begins anew in an empty directory, or recovers what is there.
//!
//! The newest checkpoint whose manifest and image are whole is loaded, and the log is replayed from
//! where the checkpoint began. If it cannot be used, the one before it is tried, as long as that is
//! there; without any, the log is replayed from its beginning, if it has it.
//!
//! What always holds: what is given back is the memory at the end of some record, with every record
//! before it and none after it; everything that it rests on is durable before the log goes on; the log
//! goes on in a segment of its own, which begins where the old ones end, so that a later recovery reads
//! across. A recovery that dies on the way is followed by one that finds the same.

mod image;
mod regions;
mod report;
mod scan;
mod settle;

pub use report::{Progress, RecoveryReport, RecoveryStage, TornEnd};

use crate::checkpoint::manifest::Manifest;
use crate::error::OpenError;
use crate::failpoint::failpoint;
use crate::log::{DIRECTORY, Log};
use crate::names::{self, Name};
use crate::options::LogOptions;
use crate::parse::take_record;
use crate::shared::{Checkpointing, Shared};
use crate::writer::Writer;
use barn_fabric::seam::{Clock, Disk, SystemClock};
use barn_fabric::{RegionId, Words};
use regions::Regions;
use scan::{Block, Scan, Scanned, read_header};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::time::Instant;

/// Blocks that are read and verified ahead of those that are applied.
const BLOCKS_AHEAD: usize = 4;

/// Gives recovery the memory of each region that it meets.
pub trait Memory: Sync {
    /// Zeroed, writable memory for a region of this length.
    fn region(&self, region: RegionId, bytes: u64) -> Result<Words, String>;
}

/// What was recovered.
#[derive(Debug)]
pub struct Recovered {
    /// Whether there was nothing, and the log began anew.
    pub fresh: bool,
    /// All notes, each with its values in the order in which they came.
    pub notes: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// All regions, and how long they are.
    pub regions: Vec<(RegionId, u64)>,
    /// How it went.
    pub report: RecoveryReport,
}

/// What is in the directory.
#[derive(Debug, Default)]
struct Directory {
    segments: BTreeSet<u64>,
    spares: BTreeSet<u64>,
    images: BTreeSet<u64>,
    manifests: BTreeSet<u64>,
    unfinished: Vec<String>,
}

impl Directory {
    fn read(disk: &dyn Disk) -> Result<Self, OpenError> {
        let mut directory = Self::default();
        for name in disk.list().map_err(OpenError::disk("listing", DIRECTORY))? {
            match names::parse(&name) {
                Name::Segment(number) => drop(directory.segments.insert(number)),
                Name::Spare(number) => drop(directory.spares.insert(number)),
                Name::Image(number) => drop(directory.images.insert(number)),
                Name::Manifest(number) => drop(directory.manifests.insert(number)),
                Name::Unfinished => directory.unfinished.push(name),
                Name::Other => {}
            }
        }
        Ok(directory)
    }

    /// Whether no log was ever here, or none that got as far as a segment.
    fn is_fresh(&self) -> bool {
        self.segments.is_empty()
            && self.spares.is_empty()
            && self.images.is_empty()
            && self.manifests.is_empty()
    }
}

/// An attempt that led to a state.
struct Attempt {
    log: u64,
    manifest: Option<Manifest>,
    scanned: Scanned,
    records: u64,
    log_bytes: u64,
}

/// Why an attempt did not.
enum Refused {
    /// The checkpoint before may do.
    Unusable(String),
    Error(OpenError),
}

impl From<OpenError> for Refused {
    fn from(error: OpenError) -> Self {
        Self::Error(error)
    }
}

struct Recovery<'a> {
    disk: &'a dyn Disk,
    options: &'a LogOptions,
    directory: &'a Directory,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Recovery<'_> {
    /// Tries the checkpoints, the newest first, and at last the log alone.
    fn run(&self, regions: &mut Regions<'_>, unusable: &mut Vec<String>) -> Result<Attempt, OpenError> {
        let newest_first = self.directory.manifests.iter().rev();
        for start in newest_first.map(|number| Some(*number)).chain([None]) {
            regions.reset()?;
            let tried = match start {
                Some(number) => {
                    self.read_manifest(number).and_then(|manifest| self.attempt(Some(manifest), regions))
                }
                None => self.attempt(None, regions),
            };
            match tried {
                Ok(attempt) => return Ok(attempt),
                Err(Refused::Unusable(why)) => unusable.push(why),
                Err(Refused::Error(error)) => return Err(error),
            }
        }
        Err(OpenError::NoCheckpoint { why: std::mem::take(unusable) })
    }

    fn read_manifest(&self, number: u64) -> Result<Manifest, Refused> {
        let name = names::manifest(number);
        let file = self.disk.open(&name).map_err(OpenError::disk("opening", &name))?;
        let length = file.len().map_err(OpenError::disk("measuring", &name))?;
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(0, &mut bytes).map_err(OpenError::disk("reading", &name))?;
        let manifest = Manifest::parse(&bytes[..read])
            .map_err(|why| Refused::Unusable(format!("`{name}` cannot be used: {why}")))?;
        if manifest.number != number {
            return Err(Refused::Unusable(format!("`{name}` is another checkpoint's manifest")));
        }
        Ok(manifest)
    }

    fn attempt(&self, manifest: Option<Manifest>, regions: &mut Regions<'_>) -> Result<Attempt, Refused> {
        let (first, start, end) = match &manifest {
            Some(manifest) => (manifest.segment, manifest.start, manifest.end),
            None => (1, 0, 0),
        };
        if !self.directory.segments.contains(&first) {
            return Err(Refused::Unusable(format!("`{}` is missing", names::segment(first))));
        }
        let (log, info) = match read_header(self.disk, first) {
            Err(OpenError::Damaged { file, why, .. }) => {
                return Err(Refused::Unusable(format!("`{file}` cannot be used: {why}")));
            }
            other => other?,
        };
        if manifest.as_ref().is_some_and(|manifest| manifest.log != log) || info.start > start {
            return Err(Refused::Unusable(format!("`{}` does not belong to it", names::segment(first))));
        }
        if let Some(manifest) = &manifest {
            regions.ask(&manifest.regions);
            for (region, bytes) in &manifest.regions {
                regions.add(*region, *bytes)?;
            }
            regions.apply(start, &manifest.notes)?;
            let threads = self.options.recovery_threads;
            image::load(self.disk, manifest, &regions.present, threads, self.progress)
                .map_err(Refused::Unusable)?;
        }
        let (scanned, records, log_bytes) = self.replay(log, info, start, regions)?;
        if scanned.position < end.max(start) {
            let end = end.max(start);
            let damage = scanned.damage.map(|damage| format!(" (`{}`: {})", damage.file, damage.why));
            return Err(Refused::Unusable(format!(
                "the log ends at position {}, and the checkpoint needs it up to {end}{}",
                scanned.position,
                damage.unwrap_or_default()
            )));
        }
        Ok(Attempt { log, manifest, scanned, records, log_bytes })
    }

    /// Replays from `start`: one thread reads and verifies, this one applies.
    fn replay(
        &self,
        log: u64,
        first: crate::segment::SegmentInfo,
        start: u64,
        regions: &mut Regions<'_>,
    ) -> Result<(Scanned, u64, u64), OpenError> {
        let total_bytes =
            self.directory.segments.range(first.number..).count() as u64 * self.options.segment_bytes;
        let (sender, receiver) = sync_channel::<Block>(BLOCKS_AHEAD);
        let (give_back, used) = channel();
        std::thread::scope(|scope| {
            let (disk, there) = (self.disk, &self.directory.segments);
            let reader = std::thread::Builder::new().spawn_scoped(scope, move || {
                let mut sink = |block| sender.send(block).is_ok();
                Scan { disk, log, there, sink: &mut sink, used: &used }.run(first)
            });
            let reader = reader.map_err(OpenError::Thread)?;
            let (mut records, mut log_bytes, mut done_bytes) = (0, 0, 0);
            let mut applied = Ok(());
            for block in receiver {
                done_bytes += block.read as u64;
                for (range, position) in &block.frames {
                    applied = apply_frame(regions, &block.bytes[range.clone()], *position, start)
                        .map(|(count, bytes)| (records, log_bytes) = (records + count, log_bytes + bytes));
                    if applied.is_err() {
                        break;
                    }
                }
                if applied.is_err() {
                    break;
                }
                // A reader that has ended needs none.
                let _ = give_back.send(block.bytes);
                let stage = RecoveryStage::Log;
                (self.progress)(Progress { stage, done_bytes, total_bytes: total_bytes.max(done_bytes) });
            }
            // The channel is gone with the loop: a reader that is still at it ends.
            let died = || OpenError::Thread(io::Error::other("the log's reader panicked"));
            let scanned = reader.join().unwrap_or_else(|_| Err(died()));
            applied?;
            Ok((scanned?, records, log_bytes))
        })
    }
}

/// Applies the records of a frame that begin at or after `start`; says how many, and their bytes.
fn apply_frame(
    regions: &mut Regions<'_>,
    mut records: &[u8],
    position: u64,
    start: u64,
) -> Result<(u64, u64), OpenError> {
    let all = records.len();
    let (mut count, mut bytes) = (0, 0);
    while !records.is_empty() {
        let at = position + (all - records.len()) as u64;
        let before = records.len();
        let (entries, _) =
            take_record(&mut records).map_err(|why| OpenError::Record { position: at, why: why.into() })?;
        if at >= start {
            regions.apply(at, entries)?;
            count += 1;
            bytes += (before - records.len()) as u64;
        }
    }
    Ok((count, bytes))
}

/// Begins anew in an empty directory, or recovers. `accept_loss` goes on without what is behind a
/// damaged place of the log, and puts it aside.
pub fn open(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    memory: &dyn Memory,
    progress: &(dyn Fn(Progress) + Sync),
    accept_loss: bool,
) -> Result<(Log, Recovered), OpenError> {
    let clock = Arc::new(SystemClock::default());
    let (log, writer, recovered) = open_parts(disk, options, clock, memory, progress, accept_loss)?;
    let named = std::thread::Builder::new().name("barn-log".into());
    let thread = named.spawn(move || writer.run()).map_err(OpenError::Thread)?;
    Ok((log.with_thread(thread), recovered))
}

/// The same without a thread: whoever has the writer makes its steps.
pub(crate) fn open_parts(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    clock: Arc<dyn Clock>,
    memory: &dyn Memory,
    progress: &(dyn Fn(Progress) + Sync),
    accept_loss: bool,
) -> Result<(Log, Writer, Recovered), OpenError> {
    let began = Instant::now();
    let lock = disk.lock(names::LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked { pid: holder(&*disk) },
        _ => OpenError::disk("locking", names::LOCK)(error),
    })?;
    let directory = Directory::read(&*disk)?;
    let mut regions = Regions::new(memory, options.recovery_threads);
    let mut report = RecoveryReport::default();
    let fresh = directory.is_fresh();
    let attempt = if fresh {
        None
    } else {
        let recovery = Recovery { disk: &*disk, options: &options, directory: &directory, progress };
        let attempt = recovery.run(&mut regions, &mut report.unusable)?;
        if let Some(damage) = attempt.scanned.damage.clone()
            && !accept_loss
        {
            let scan::Damage { file, offset, why, lost_bytes } = damage;
            return Err(OpenError::Damaged { file, offset, why, lost_bytes });
        }
        Some(attempt)
    };
    failpoint("recover-after-replay");
    let settled = settle::settle(&*disk, &options, &directory, attempt.as_ref(), &mut report)?;
    failpoint("recover-after-segment");
    let mut checkpoint = Checkpointing { number: settled.checkpoint_number, ..Checkpointing::default() };
    if let Some(attempt) = attempt {
        report.segments = attempt.scanned.segments.len() as u64;
        report.frames = attempt.scanned.frames;
        report.position = attempt.scanned.position;
        report.stopped_cleanly = attempt.scanned.stopped && attempt.scanned.damage.is_none();
        report.torn = attempt.scanned.torn;
        (report.records, report.log_bytes) = (attempt.records, attempt.log_bytes);
        if let Some(manifest) = attempt.manifest {
            report.checkpoint = Some(manifest.number);
            report.image_bytes = manifest.image_bytes;
            checkpoint.start = manifest.start;
            checkpoint.image_bytes = manifest.image_bytes;
        }
    }
    report.milliseconds = began.elapsed().as_millis() as u64;
    let shared = Shared::new(options, clock, report.position, settled.segments, settled.spares, checkpoint);
    let shared = Arc::new(shared);
    let writer = Writer::new(disk.clone(), shared.clone(), settled.log, settled.segment);
    let recovered = Recovered {
        fresh,
        notes: regions.notes,
        regions: regions.present.iter().map(|(region, (_, bytes))| (*region, *bytes)).collect(),
        report,
    };
    Ok((Log::new(disk, settled.log, shared, lock), writer, recovered))
}

/// The process that has the lock, if it said so.
fn holder(disk: &dyn Disk) -> Option<u32> {
    let mut text = [0; 16];
    let read = disk.open(names::LOCK).ok()?.read_at(0, &mut text).ok()?;
    std::str::from_utf8(&text[..read]).ok()?.trim().parse().ok()
}
