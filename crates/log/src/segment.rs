//! Segments: the files of the log.
//!
//! What always holds: a file gets a segment's name only after its header, which says which segment
//! of which log it is and where it begins, is durable; and whoever makes a segment has synced
//! everything before its beginning. So a named segment without a right header is damage, and a
//! segment that begins at a position proves that everything before it was durable.

use crate::failpoint::failpoint;
use crate::frame::{Batch, checksum};
use crate::names;
use barn_fabric::seam::{Disk, DiskFile, system_random};
use barn_layout::log::{LOG_FORMAT, LOG_UNIT_BYTES, LogSegment, SEGMENT_MAGIC};
use std::io;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

const COVERED_BYTES: usize = LogSegment::BYTES - 8;
/// What is kept free at the end of a segment: for the frame that says that the log was stopped,
/// and for the one that says that it goes on in the next.
pub(crate) const RESERVED_BYTES: u64 = 2 * LOG_UNIT_BYTES as u64;
/// Where the first frame begins.
pub(crate) const FRAMES_START: u64 = LOG_UNIT_BYTES as u64;

/// A segment that is written to.
pub(crate) struct Segment {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) name: String,
    pub(crate) info: SegmentInfo,
    /// Where the next frame goes.
    pub(crate) at: u64,
}

/// What is known of a segment that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    pub(crate) number: u64,
    /// The position at which it begins.
    pub(crate) start: u64,
    /// How long the file is.
    pub(crate) bytes: u64,
    /// Tells its frames from those that the file held before; drawn when the segment is made.
    pub(crate) key: u64,
}

/// Why a segment could not be made.
#[derive(Debug)]
pub(crate) struct MakeError {
    pub(crate) step: &'static str,
    pub(crate) file: String,
    pub(crate) cause: io::Error,
    /// There was no room, and nothing else has happened.
    pub(crate) no_space: bool,
}

/// The header of a segment.
fn header(log: u64, info: SegmentInfo) -> LogSegment {
    let mut header = LogSegment {
        magic: U64::new(SEGMENT_MAGIC),
        log: U64::new(log),
        number: U64::new(info.number),
        start: U64::new(info.start),
        bytes: U64::new(info.bytes),
        format: U32::new(LOG_FORMAT),
        unit_bytes: U32::new(LOG_UNIT_BYTES as u32),
        key: U64::new(info.key),
        checksum: U64::new(0),
    };
    header.checksum = U64::new(checksum(&header.as_bytes()[..COVERED_BYTES], &[]));
    header
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    Damaged(&'static str),
    NewerFormat(u32),
}

/// The log and the segment that a header names.
pub(crate) fn parse_header(bytes: &[u8]) -> Result<(u64, SegmentInfo), HeaderError> {
    let (header, _) =
        LogSegment::read_from_prefix(bytes).map_err(|_| HeaderError::Damaged("its header is cut off"))?;
    if header.magic.get() != SEGMENT_MAGIC {
        return Err(HeaderError::Damaged("it does not begin as a segment does"));
    }
    if header.checksum.get() != checksum(&header.as_bytes()[..COVERED_BYTES], &[]) {
        return Err(HeaderError::Damaged("its header's checksum is wrong"));
    }
    if header.format.get() > LOG_FORMAT {
        return Err(HeaderError::NewerFormat(header.format.get()));
    }
    if header.unit_bytes.get() as usize != LOG_UNIT_BYTES {
        return Err(HeaderError::Damaged("its frames have another unit"));
    }
    let info = SegmentInfo {
        number: header.number.get(),
        start: header.start.get(),
        bytes: header.bytes.get(),
        key: header.key.get(),
    };
    Ok((header.log.get(), info))
}

/// Makes a segment, out of a spare file if one is given; durable when it returns. The key is drawn here.
pub(crate) fn make(
    disk: &dyn Disk,
    log: u64,
    mut info: SegmentInfo,
    spare: Option<&str>,
) -> Result<Segment, MakeError> {
    let failed = |step: &'static str, file: &str, may_retry: bool| {
        let file = file.to_string();
        move |cause: io::Error| {
            let no_space = may_retry && cause.kind() == io::ErrorKind::StorageFull;
            MakeError { step, file, cause, no_space }
        }
    };
    let mut key = [0; 8];
    let drawn = system_random(&mut key).map_err(io::Error::from);
    drawn.map_err(failed("drawing a key for", names::SEGMENT_NEW, false))?;
    info.key = u64::from_le_bytes(key);
    let reused = spare.and_then(|spare| {
        let file = disk.open_log(spare).ok()?;
        (file.len().ok()? == info.bytes).then(|| (file, spare.to_string()))
    });
    let (file, temporary) = match reused {
        Some(reused) => reused,
        None => {
            // A process that died, or a try that found no room, may have left one.
            match disk.remove(names::SEGMENT_NEW) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("removing", names::SEGMENT_NEW, false)(error));
                }
                _ => {}
            }
            let made = disk.create_log(names::SEGMENT_NEW, info.bytes);
            let file = made.map_err(failed("reserving room for", names::SEGMENT_NEW, true))?;
            (file, names::SEGMENT_NEW.to_string())
        }
    };
    let head = header(log, info);
    let mut unit = Batch::default();
    file.write_at(0, unit.framed(head.as_bytes())).map_err(failed("writing", &temporary, true))?;
    file.sync().map_err(failed("syncing", &temporary, false))?;
    failpoint("rotate-after-header");
    let name = names::segment(info.number);
    disk.rename(&temporary, &name).map_err(failed("renaming", &temporary, true))?;
    disk.sync_names().map_err(failed("syncing the directory of", &name, false))?;
    failpoint("rotate-after-name");
    Ok(Segment { file, name, info, at: FRAMES_START })
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_fabric::simulated::SimulatedDisk;

    #[test]
    fn a_segment_is_what_its_header_says() {
        let disk = SimulatedDisk::new(1);
        let info = SegmentInfo { number: 4, start: 99, bytes: 64 << 10, key: 0 };
        let made = make(&disk, 7, info, None).unwrap();
        assert_eq!((made.at, made.name.as_str()), (FRAMES_START, "log-0000000000000004"));
        let mut bytes = vec![0; LogSegment::BYTES];
        disk.open(&made.name).unwrap().read_at(0, &mut bytes).unwrap();
        assert_eq!(parse_header(&bytes), Ok((7, made.info)));
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(parse_header(&bytes).is_err(), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(parse_header(&bytes[..20]).is_err());
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        let disk = SimulatedDisk::new(1);
        disk.set_capacity(1000);
        let info = SegmentInfo { number: 1, start: 0, bytes: 64 << 10, key: 0 };
        let error = make(&disk, 7, info, None).err().unwrap();
        assert!(error.no_space);
        disk.set_capacity(usize::MAX);
        disk.fail_call(disk.calls() + 3, io::ErrorKind::StorageFull);
        let error = make(&disk, 7, info, None).err().unwrap();
        assert!(!error.no_space, "a sync that failed is final: {error:?}");
    }
}
