//! What a node's log has on disk: segments of frames of records, images of regions, manifests
//! (Pilaf sections 3.1 and 4; the formats are Barn's own).
//!
//! A later process of another version reads these bytes, and what wrote them may have died in the
//! middle. So every piece says what it is, which log and which file it belongs to, and has a
//! checksum (CRC64/NVME) over its header up to the checksum, and over what follows the header.

use crate::shared::shared_struct;
use zerocopy::little_endian::{U32, U64};

/// The format that is written, and the newest that can be read.
pub const LOG_FORMAT: u32 = 1;

/// Frames begin and end at multiples of this: what O_DIRECT asks for on every disk in use, and
/// what no device writes less of without reading first.
pub const LOG_UNIT_BYTES: usize = 4096;

/// How a segment begins.
pub const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"barnsegm");
/// How a frame begins.
pub const FRAME_MAGIC: u64 = u64::from_le_bytes(*b"barnfram");
/// How a chunk of an image begins.
pub const CHUNK_MAGIC: u64 = u64::from_le_bytes(*b"barnchnk");
/// How a manifest begins.
pub const MANIFEST_MAGIC: u64 = u64::from_le_bytes(*b"barnmani");

shared_struct! {
    /// One change of a record, followed by its bytes, padded with zeros to a word.
    pub struct LogEntry: 16 {
        /// An [`EntryKind`].
        0 => pub kind: U32,
        /// The region; of a note, how long its key is.
        4 => pub region: U32,
        /// Where in the region; zero for all others.
        8 => pub offset: U32,
        /// How many bytes follow, without the padding: the words; the region's length as 64 bits;
        /// or a note's key and value.
        12 => pub bytes: U32,
    }
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EntryKind {
    /// These bytes are at this place of a region from now on.
    Words = 1,
    /// There is a region, zero at first.
    Region = 2,
    /// The note has this one value.
    NoteSet = 3,
    /// The note has this value, too.
    NoteAppend = 4,
    /// There is no such note.
    NoteRemove = 5,
}

impl EntryKind {
    /// The kind that a number means, if any.
    pub const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            1 => Self::Words,
            2 => Self::Region,
            3 => Self::NoteSet,
            4 => Self::NoteAppend,
            5 => Self::NoteRemove,
            _ => return None,
        })
    }
}

shared_struct! {
    /// A record: entries that are recovered together or not at all.
    pub struct LogRecord: 8 {
        /// How many bytes of entries follow: a whole number of words.
        0 => pub bytes: U32,
        /// How many entries they are.
        4 => pub entries: U32,
    }
}

shared_struct! {
    /// What one write of the log is: whole records, followed by zeros up to the write unit.
    pub struct LogFrame: 64 {
        /// [`FRAME_MAGIC`].
        0 => pub magic: U64,
        /// The log's random number.
        8 => pub log: U64,
        /// The key of the segment that it was written into: what the file held before has another.
        16 => pub key: U64,
        /// Where its first record begins, in bytes of records since the log began.
        24 => pub position: U64,
        /// Everything before this position was durable before this frame was written.
        32 => pub synced: U64,
        /// How many bytes of records follow.
        40 => pub bytes: U32,
        /// How many records they are.
        44 => pub records: U32,
        /// [`FRAME_CONTINUED`], [`FRAME_STOPPED`].
        48 => pub flags: U32,
        /// Zero.
        52 => pub reserved: U32,
        /// Over all before it, and over the records.
        56 => pub checksum: U64,
    }
}

/// The log goes on in the segment with the next number, which was durable before this was written.
pub const FRAME_CONTINUED: u32 = 1;
/// The log was stopped in good order: nothing that was appended is missing before here.
pub const FRAME_STOPPED: u32 = 2;

shared_struct! {
    /// The first unit of a segment; frames follow it.
    pub struct LogSegment: 64 {
        /// [`SEGMENT_MAGIC`].
        0 => pub magic: U64,
        /// The log's random number.
        8 => pub log: U64,
        /// The segment's number, which is also its name.
        16 => pub number: U64,
        /// Where its first frame begins: everything before it is in older segments, and durable.
        24 => pub start: U64,
        /// How long the file is: a shorter one was cut off.
        32 => pub bytes: U64,
        /// [`LOG_FORMAT`].
        40 => pub format: U32,
        /// [`LOG_UNIT_BYTES`] of its writer.
        44 => pub unit_bytes: U32,
        /// Drawn at random for this use of the file; its frames have it, too.
        48 => pub key: U64,
        /// Over all before it.
        56 => pub checksum: U64,
    }
}

shared_struct! {
    /// A piece of a region in an image, followed by its bytes.
    pub struct ImageChunk: 48 {
        /// [`CHUNK_MAGIC`].
        0 => pub magic: U64,
        /// The log's random number.
        8 => pub log: U64,
        /// The image's number.
        16 => pub image: U64,
        /// Which region.
        24 => pub region: U32,
        /// How many bytes follow.
        28 => pub bytes: U32,
        /// Where in the region.
        32 => pub offset: U64,
        /// Over all before it, and over the bytes.
        40 => pub checksum: U64,
    }
}

shared_struct! {
    /// A checkpoint, followed by its regions and its notes: the image, and the log from `start` on,
    /// are everything, provided that the log reaches `end`.
    pub struct LogManifest: 96 {
        /// [`MANIFEST_MAGIC`].
        0 => pub magic: U64,
        /// The log's random number.
        8 => pub log: U64,
        /// The checkpoint's number, which is also its image's.
        16 => pub number: U64,
        /// The position at which the checkpoint began: replay begins here.
        24 => pub start: U64,
        /// The position at which the copying had ended: replay must reach it.
        32 => pub end: U64,
        /// The segment that holds `start`.
        40 => pub segment: U64,
        /// How long the image is.
        48 => pub image_bytes: U64,
        /// How many chunks the image has.
        56 => pub image_chunks: U64,
        /// Over the checksums of the image's chunks, in their order.
        64 => pub image_checksum: U64,
        /// How many [`ManifestRegion`] follow.
        72 => pub regions: U32,
        /// [`LOG_FORMAT`].
        76 => pub format: U32,
        /// How many bytes of notes (entries) follow the regions.
        80 => pub notes_bytes: U64,
        /// Over all before it, and over what follows.
        88 => pub checksum: U64,
    }
}

shared_struct! {
    /// A region that was there when a checkpoint began.
    pub struct ManifestRegion: 16 {
        /// Which.
        0 => pub region: U32,
        /// Zero.
        4 => pub reserved: U32,
        /// How long it is.
        8 => pub bytes: U64,
    }
}
