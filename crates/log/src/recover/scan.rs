//! Reads the log: segment after segment, frame after frame, and finds its end.
//!
//! A frame counts if it is whole and begins where the one before it ended. Where none does, the log
//! ends, or goes on in the next segment (if that begins at this very position: a recovery made it).
//! Anything else is damage, if there is proof that more was durable: a later segment, a frame that
//! says that a later position was synced, a file that has become shorter, a last frame that names a
//! next segment. Without such proof it is what a crash leaves: writes that were not synced may be
//! missing in any part.
//!
//! What always holds: nothing behind a gap is ever given to the caller.

use crate::aligned::Aligned;
use crate::error::OpenError;
use crate::frame::{Found, Head, frame_bytes, look};
use crate::names;
use crate::recover::report::TornEnd;
use crate::segment::{FRAMES_START, HeaderError, SegmentInfo, parse_header};
use barn_fabric::seam::{Disk, DiskFile};
use barn_layout::log::{FRAME_CONTINUED, FRAME_STOPPED, LOG_FORMAT, LOG_UNIT_BYTES, LogFrame};
use barn_layout::planted;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::mpsc::Receiver;

/// How much is read at once. 4 MiB: about 2 ms of a disk, which one that reads for each costs nothing.
const WINDOW_BYTES: usize = 4 << 20;

/// Whole frames, as they stand in the file.
pub(super) struct Block {
    pub(super) bytes: Aligned,
    /// How many of them were read.
    pub(super) read: usize,
    /// Where records stand in `bytes`, and the position at which they begin.
    pub(super) frames: Vec<(Range<usize>, u64)>,
}

/// Damage: what is behind it cannot be used.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) why: String,
    pub(super) lost_bytes: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// The end of the last whole record.
    pub(super) position: u64,
    /// The segments that were read, and the last one's end.
    pub(super) segments: Vec<SegmentInfo>,
    pub(super) end_offset: u64,
    /// The last segment says itself that it goes on in the next.
    pub(super) continued: bool,
    /// Frames of the last segment that nothing proves durable.
    pub(super) unsynced: VecDeque<(Range<u64>, u64)>,
    pub(super) frames: u64,
    pub(super) stopped: bool,
    pub(super) torn: Option<TornEnd>,
    pub(super) damage: Option<Damage>,
}

pub(super) struct Scan<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) log: u64,
    /// The numbers of all segments that are there.
    pub(super) there: &'a BTreeSet<u64>,
    /// Takes whole frames; says whether it wants more.
    pub(super) sink: &'a mut dyn FnMut(Block) -> bool,
    /// Memory of blocks that were used. Fresh pages for each would cost more than reading into them.
    pub(super) used: &'a Receiver<Aligned>,
}

/// The log and the segment that a file's header names.
pub(super) fn read_header(disk: &dyn Disk, number: u64) -> Result<(u64, SegmentInfo), OpenError> {
    let name = names::segment(number);
    let file = disk.open(&name).map_err(OpenError::disk("opening", &name))?;
    let mut head = vec![0; LOG_UNIT_BYTES];
    let read = file.read_at(0, &mut head).map_err(OpenError::disk("reading", &name))?;
    let damaged =
        |why: &str| OpenError::Damaged { file: name.clone(), offset: 0, why: why.into(), lost_bytes: 0 };
    match parse_header(&head[..read]) {
        Ok((_, info)) if info.number != number => Err(damaged("it is another segment's file")),
        Ok(found) => Ok(found),
        Err(HeaderError::Damaged(why)) => Err(damaged(why)),
        Err(HeaderError::NewerFormat(found)) => {
            Err(OpenError::NewerFormat { file: name, found, known: LOG_FORMAT })
        }
    }
}

impl Scan<'_> {
    /// Reads from the segment `first` on. Its header must be right; of what follows damage is found.
    pub(super) fn run(&mut self, first: SegmentInfo) -> Result<Scanned, OpenError> {
        let mut found = Scanned { position: first.start, ..Scanned::default() };
        let mut segment = first;
        loop {
            self.read_segment(segment, &mut found)?;
            let next = segment.number + 1;
            if !self.there.contains(&next) {
                self.judge_end(segment, &mut found)?;
                return Ok(found);
            }
            match read_header(self.disk, next) {
                Ok((log, info)) if log == self.log && info.start == found.position => segment = info,
                Ok((log, info)) => {
                    let last = names::segment(segment.number);
                    let (file, offset, why) = if log != self.log {
                        (names::segment(next), 0, "it is of another log".to_string())
                    } else {
                        let why = format!("the log breaks off at position {}", found.position);
                        (
                            last,
                            found.end_offset,
                            format!("{why}, and the next segment begins at {}", info.start),
                        )
                    };
                    return self.damaged(segment, found, file, offset, why);
                }
                Err(OpenError::Damaged { file, offset, why, .. }) => {
                    return self.damaged(segment, found, file, offset, why);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn damaged(
        &mut self,
        segment: SegmentInfo,
        mut found: Scanned,
        file: String,
        offset: u64,
        why: String,
    ) -> Result<Scanned, OpenError> {
        let (end, _) = self.look_behind(segment, &found)?;
        let lost_bytes = end.saturating_sub(found.position);
        found.damage = Some(Damage { file, offset, why, lost_bytes });
        Ok(found)
    }

    /// There is no next segment. Is this the end that a crash leaves?
    fn judge_end(&mut self, segment: SegmentInfo, found: &mut Scanned) -> Result<(), OpenError> {
        let file = names::segment(segment.number);
        let (end, synced) = self.look_behind(segment, found)?;
        let bytes = self.length(segment.number)?;
        let missing = names::segment(segment.number + 1);
        let why = if found.continued {
            Some(format!("it goes on in `{missing}`, which is missing"))
        } else if self.there.last().is_some_and(|last| *last > segment.number) {
            Some(format!("`{missing}` is missing, and there are later segments"))
        } else if synced > found.position {
            Some(format!("a frame is damaged, and a later one says that {synced} was durable"))
        } else if bytes < segment.bytes {
            Some(format!("it has {bytes} bytes of {}", segment.bytes))
        } else {
            None
        };
        let lost_bytes = end.max(synced).saturating_sub(found.position);
        if let Some(why) = why {
            found.damage = Some(Damage { file, offset: found.end_offset, why, lost_bytes });
        } else if lost_bytes > 0 || self.is_torn(segment, found.end_offset)? {
            found.torn = Some(TornEnd { file, offset: found.end_offset, dropped_bytes: lost_bytes });
        }
        Ok(())
    }

    fn length(&self, number: u64) -> Result<u64, OpenError> {
        let name = names::segment(number);
        let file = self.disk.open(&name).map_err(OpenError::disk("opening", &name))?;
        file.len().map_err(OpenError::disk("measuring", &name))
    }

    /// Whether a write of this segment was begun at the end of it.
    fn is_torn(&self, segment: SegmentInfo, offset: u64) -> Result<bool, OpenError> {
        let name = names::segment(segment.number);
        let file = self.disk.open(&name).map_err(OpenError::disk("opening", &name))?;
        let mut unit = vec![0; LOG_UNIT_BYTES];
        let read = file.read_at(offset, &mut unit).map_err(OpenError::disk("reading", &name))?;
        // A recycled file has old frames here, and a fresh one zeros; neither is of this segment.
        let mark = segment.key.to_le_bytes();
        let at = std::mem::offset_of!(LogFrame, key);
        Ok(read >= LogFrame::BYTES && unit[at..at + mark.len()] == mark)
    }

    /// The end and the greatest `synced` of all whole frames behind the end of what can be used.
    fn look_behind(&mut self, segment: SegmentInfo, found: &Scanned) -> Result<(u64, u64), OpenError> {
        let (mut end, mut synced) = (0, 0);
        let later = self.there.range(segment.number + 1..).copied();
        for number in std::iter::once(segment.number).chain(later) {
            let name = names::segment(number);
            let file = self.disk.open(&name).map_err(OpenError::disk("opening", &name))?;
            let bytes = file.len().map_err(OpenError::disk("measuring", &name))?;
            let (mut at, key) = if number == segment.number {
                (found.end_offset, segment.key)
            } else {
                // Without its header nothing in a segment can be told from what its file held before.
                match read_header(self.disk, number) {
                    Ok((log, info)) if log == self.log => {
                        end = end.max(info.start);
                        synced = synced.max(info.start);
                        (FRAMES_START, info.key)
                    }
                    _ => continue,
                }
            };
            while at < bytes {
                let (head, records_bytes) = match self.frame_at(&*file, &name, at, bytes, key)? {
                    Some((head, records_bytes)) if head.position >= found.position => (head, records_bytes),
                    _ => {
                        at += LOG_UNIT_BYTES as u64;
                        continue;
                    }
                };
                end = end.max(head.position + records_bytes as u64);
                synced = synced.max(head.synced);
                at += frame_bytes(records_bytes);
            }
        }
        Ok((end, synced))
    }

    /// The whole frame at a place, if there is one.
    fn frame_at(
        &self,
        file: &dyn DiskFile,
        name: &str,
        at: u64,
        bytes: u64,
        key: u64,
    ) -> Result<Option<(Head, usize)>, OpenError> {
        let mut wanted = LOG_UNIT_BYTES as u64;
        loop {
            let now = wanted.min(bytes - at);
            let mut window = vec![0; now as usize];
            let read = file.read_at(at, &mut window).map_err(OpenError::disk("reading", name))?;
            let all = now == bytes - at || (read as u64) < now;
            match look(&window[..read], all, self.log, key) {
                Found::Frame(head, records_bytes) => return Ok(Some((head, records_bytes))),
                Found::Partial(needed) if needed > wanted && at + needed <= bytes => wanted = needed,
                _ => return Ok(None),
            }
        }
    }

    /// Reads the frames of one segment, up to the first that does not count.
    fn read_segment(&mut self, segment: SegmentInfo, found: &mut Scanned) -> Result<(), OpenError> {
        let name = names::segment(segment.number);
        let (file, length) = self.open_to_scan(&name)?;
        found.segments.push(segment);
        found.end_offset = FRAMES_START;
        found.continued = false;
        found.unsynced.clear();
        let (mut read_at, mut window, mut had) = (FRAMES_START, self.memory(), 0);
        let mut wanted = WINDOW_BYTES;
        loop {
            // `window` begins with what is left of the last one; fill it up.
            window.grow(wanted, had);
            let now = length.saturating_sub(read_at).min((wanted - had) as u64) as usize;
            let read = file.read_at(read_at, &mut window[had..had + now]);
            let read = had + read.map_err(OpenError::disk("reading", &name))?;
            read_at += (read - had) as u64;
            let all = read < wanted;
            let mut frames = Vec::new();
            let mut at = 0;
            let more = loop {
                match look(&window[at..read], all, self.log, segment.key) {
                    Found::Frame(head, records_bytes) if head.position == found.position => {
                        let records = at + LogFrame::BYTES..at + LogFrame::BYTES + records_bytes;
                        frames.push((records, head.position));
                        at += (frame_bytes(records_bytes) as usize).min(read - at);
                        found.take(head, records_bytes);
                        if head.flags & FRAME_CONTINUED != 0 {
                            break false;
                        }
                    }
                    // A length that rotted may promise more than there is.
                    Found::Partial(needed) if found.end_offset + needed <= length => {
                        wanted = WINDOW_BYTES.max(needed as usize);
                        break true;
                    }
                    Found::Frame(head, _)
                        if planted("log_volatile_tail_replayed") && head.position > found.position =>
                    {
                        found.position = head.position;
                    }
                    _ if planted("log_volatile_tail_replayed") && at + LOG_UNIT_BYTES < read => {
                        at += LOG_UNIT_BYTES;
                    }
                    _ => break false,
                }
            };
            if !frames.is_empty() {
                let mut next = self.memory();
                had = if more { read - at } else { 0 };
                next.grow(had, 0);
                next[..had].copy_from_slice(&window[at..at + had]);
                let bytes = std::mem::replace(&mut window, next);
                if !(self.sink)(Block { bytes, read, frames }) {
                    return Ok(());
                }
            } else {
                had = read;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Memory to read into.
    fn memory(&self) -> Aligned {
        self.used.try_recv().unwrap_or_default()
    }

    /// A segment and its length; past the page cache, which would only keep what nobody reads again. A file
    /// that was cut off within a unit cannot be read so to its end.
    fn open_to_scan(&self, name: &str) -> Result<(Box<dyn DiskFile>, u64), OpenError> {
        let file = self.disk.open_log(name).map_err(OpenError::disk("opening", name))?;
        let length = file.len().map_err(OpenError::disk("measuring", name))?;
        if length.is_multiple_of(LOG_UNIT_BYTES as u64) {
            return Ok((file, length));
        }
        let file = self.disk.open(name).map_err(OpenError::disk("opening", name))?;
        Ok((file, length))
    }
}

impl Scanned {
    /// Takes a frame that counts.
    fn take(&mut self, head: Head, records_bytes: usize) {
        let bytes = frame_bytes(records_bytes);
        self.position += records_bytes as u64;
        while self.unsynced.front().is_some_and(|(_, end)| *end <= head.synced) {
            self.unsynced.pop_front();
        }
        self.unsynced.push_back((self.end_offset..self.end_offset + bytes, self.position));
        self.end_offset += bytes;
        self.frames += 1;
        self.continued = head.flags & FRAME_CONTINUED != 0;
        self.stopped = head.flags & FRAME_STOPPED != 0 || (self.stopped && self.continued);
    }
}
