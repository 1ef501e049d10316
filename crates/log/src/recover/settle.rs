//! Settles what recovery found: puts aside what is of no use, makes the rest durable, and begins the
//! segment in which the log goes on.
//!
//! What always holds, in this order: a checkpoint that was not used is durably out of the way before
//! anything is appended (it could become usable by mistake when the log grows past its end); whatever
//! was replayed is durable before the new segment is there (it was read from a cache, perhaps); the new
//! segment is durable before the old one says that it goes on there.

use super::{Attempt, Directory, RecoveryReport};
use crate::error::OpenError;
use crate::frame::{Batch, Head, seal};
use crate::log::DIRECTORY;
use crate::names::{self, DAMAGED};
use crate::options::LogOptions;
use crate::segment::{FRAMES_START, Segment, SegmentInfo, make};
use barn_fabric::seam::{Disk, DiskFile, system_random};
use barn_layout::log::FRAME_CONTINUED;
use std::collections::VecDeque;

/// How much is copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// The log, ready to go on.
pub(super) struct Settled {
    pub(super) log: u64,
    pub(super) segment: Segment,
    pub(super) segments: VecDeque<SegmentInfo>,
    pub(super) spares: Vec<String>,
    /// The newest number that a checkpoint has had.
    pub(super) checkpoint_number: u64,
}

pub(super) fn settle(
    disk: &dyn Disk,
    options: &LogOptions,
    directory: &Directory,
    attempt: Option<&Attempt>,
    report: &mut RecoveryReport,
) -> Result<Settled, OpenError> {
    for name in &directory.unfinished {
        // One that stays is in nobody's way.
        let _ = disk.remove(name);
    }
    let numbers = directory.manifests.iter().chain(&directory.images);
    let checkpoint_number = numbers.copied().max().unwrap_or(0);
    let mut spares: Vec<String> = directory.spares.iter().map(|number| names::spare(*number)).collect();
    let (log, mut segments, number) = match attempt {
        Some(attempt) => {
            checkpoints_aside(disk, directory, attempt, report)?;
            let number = log_aside(disk, directory, attempt, report)?;
            make_durable(disk, attempt)?;
            let mut segments: VecDeque<SegmentInfo> = attempt.scanned.segments.iter().copied().collect();
            segments.retain(|segment| segment.number < number);
            (attempt.log, segments, number)
        }
        None => {
            let mut log = [0; 8];
            system_random(&mut log)
                .map_err(|error| OpenError::disk("choosing a number for", DIRECTORY)(error.into()))?;
            (u64::from_le_bytes(log), VecDeque::new(), 1)
        }
    };
    let start = attempt.map_or(0, |attempt| attempt.scanned.position);
    let info = SegmentInfo { number, start, bytes: options.segment_bytes, key: 0 };
    let spare = spares.pop();
    let segment = make(disk, log, info, spare.as_deref())
        .map_err(|error| OpenError::disk(error.step, &error.file)(error.cause))?;
    if let Some(attempt) = attempt {
        close_last(disk, attempt, number)?;
        remove_needless(disk, directory, attempt);
    }
    while spares.len() > options.spares_max {
        if let Some(spare) = spares.pop() {
            let _ = disk.remove(&spare);
        }
    }
    segments.push_back(segment.info);
    Ok(Settled { log, segment, segments, spares, checkpoint_number })
}

/// A name that no file has: what was put aside before stays.
fn free_name(disk: &dyn Disk, name: &str) -> Result<String, OpenError> {
    let there = disk.list().map_err(OpenError::disk("listing", DIRECTORY))?;
    let mut aside = format!("{name}{DAMAGED}");
    let mut count = 1;
    while there.contains(&aside) {
        count += 1;
        aside = format!("{name}{DAMAGED}-{count}");
    }
    Ok(aside)
}

fn put_aside(disk: &dyn Disk, name: &str, report: &mut RecoveryReport) -> Result<(), OpenError> {
    let aside = free_name(disk, name)?;
    disk.rename(name, &aside).map_err(OpenError::disk("renaming", name))?;
    report.lost.push(format!("`{name}` is kept as `{aside}`"));
    Ok(())
}

/// Manifests that are newer than the one that was used.
fn checkpoints_aside(
    disk: &dyn Disk,
    directory: &Directory,
    attempt: &Attempt,
    report: &mut RecoveryReport,
) -> Result<(), OpenError> {
    let used = attempt.manifest.as_ref().map_or(0, |manifest| manifest.number);
    let unusable: Vec<u64> = directory.manifests.range(used + 1..).copied().collect();
    for number in &unusable {
        put_aside(disk, &names::manifest(*number), report)?;
        if directory.images.contains(number) {
            put_aside(disk, &names::image(*number), report)?;
        }
    }
    if unusable.is_empty() {
        return Ok(());
    }
    disk.sync_names().map_err(OpenError::disk("syncing", DIRECTORY))
}

/// What is behind damage, if there is any; the number of the segment in which the log goes on.
fn log_aside(
    disk: &dyn Disk,
    directory: &Directory,
    attempt: &Attempt,
    report: &mut RecoveryReport,
) -> Result<u64, OpenError> {
    let scanned = &attempt.scanned;
    let last = scanned.segments.last().map_or(0, |segment| segment.number);
    // An empty segment is replaced; otherwise each of many starts would leave one behind.
    let number = if scanned.end_offset == FRAMES_START { last } else { last + 1 };
    let Some(damage) = &scanned.damage else { return Ok(number) };
    report.lost.push(format!(
        "`{}` was damaged at byte {}: {}; at least {} bytes of changes are lost",
        damage.file, damage.offset, damage.why, damage.lost_bytes
    ));
    // The last good segment's end is written over: keep a copy of it.
    let name = names::segment(last);
    let aside = free_name(disk, &name)?;
    copy(disk, &name, &aside)?;
    report.lost.push(format!("a copy of `{name}` is kept as `{aside}`"));
    for later in directory.segments.range(last + 1..).rev() {
        put_aside(disk, &names::segment(*later), report)?;
    }
    disk.sync_names().map_err(OpenError::disk("syncing", DIRECTORY))?;
    Ok(number)
}

fn copy(disk: &dyn Disk, from: &str, to: &str) -> Result<(), OpenError> {
    let source = disk.open(from).map_err(OpenError::disk("opening", from))?;
    let target = disk.create(to).map_err(OpenError::disk("making", to))?;
    let bytes = source.len().map_err(OpenError::disk("measuring", from))?;
    copy_range(&*source, &*target, from, 0..bytes)?;
    target.sync().map_err(OpenError::disk("syncing", to))
}

fn copy_range(
    source: &dyn DiskFile,
    target: &dyn DiskFile,
    name: &str,
    range: std::ops::Range<u64>,
) -> Result<(), OpenError> {
    let mut at = range.start;
    while at < range.end {
        let mut bytes = vec![0; COPY_BYTES.min(range.end - at) as usize];
        let read = source.read_at(at, &mut bytes).map_err(OpenError::disk("reading", name))?;
        if read == 0 {
            return Ok(());
        }
        target.write_at(at, &bytes[..read]).map_err(OpenError::disk("writing", name))?;
        at += read as u64;
    }
    Ok(())
}

/// Makes durable what was replayed. What nothing proves durable is written once more: a sync that
/// failed in an earlier process may have left it in the cache, marked as if it were on the disk.
fn make_durable(disk: &dyn Disk, attempt: &Attempt) -> Result<(), OpenError> {
    let Some(last) = attempt.scanned.segments.last() else { return Ok(()) };
    let name = names::segment(last.number);
    let file = disk.open(&name).map_err(OpenError::disk("opening", &name))?;
    for (range, _) in &attempt.scanned.unsynced {
        copy_range(&*file, &*file, &name, range.clone())?;
    }
    file.sync().map_err(OpenError::disk("syncing", &name))?;
    disk.sync_names().map_err(OpenError::disk("syncing", DIRECTORY))
}

/// The last segment says that the log goes on in the next: that one must never be missing.
fn close_last(disk: &dyn Disk, attempt: &Attempt, number: u64) -> Result<(), OpenError> {
    let scanned = &attempt.scanned;
    let Some(last) = scanned.segments.last() else { return Ok(()) };
    if last.number == number || scanned.continued {
        return Ok(());
    }
    let name = names::segment(last.number);
    let file = disk.open(&name).map_err(OpenError::disk("opening", &name))?;
    let head = Head {
        log: attempt.log,
        key: last.key,
        position: scanned.position,
        synced: scanned.position,
        records: 0,
        flags: FRAME_CONTINUED,
    };
    let mut nothing = Batch::default();
    let frame = seal(&mut nothing, head);
    file.write_at(scanned.end_offset, frame).map_err(OpenError::disk("writing", &name))?;
    file.sync().map_err(OpenError::disk("syncing", &name))
}

/// Removes what an unfinished checkpoint or an unfinished cleaning left behind. What cannot be removed
/// is tried again at the next start.
fn remove_needless(disk: &dyn Disk, directory: &Directory, attempt: &Attempt) {
    let used = attempt.manifest.as_ref().map_or(0, |manifest| manifest.number);
    for number in directory.manifests.range(..used) {
        let _ = disk.remove(&names::manifest(*number));
    }
    for number in directory.images.iter().filter(|number| **number != used) {
        let _ = disk.remove(&names::image(*number));
    }
    let first = attempt.scanned.segments.first().map_or(0, |segment| segment.number);
    for number in directory.segments.range(..first) {
        let _ = disk.remove(&names::segment(*number));
    }
}
