//! Frames: what one write of the log is. Made here, and judged here.
//!
//! What always holds: a frame that passes is of this log, this segment and the position that was
//! asked for, and is whole (Pilaf section 3.1: what is read without a lock proves itself). A frame
//! that a recycled file still holds has another key.

use barn_layout::log::{FRAME_MAGIC, LOG_UNIT_BYTES, LogFrame};
use barn_layout::planted;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Where the checksum stands in a frame's header, and what it covers of it.
const COVERED_BYTES: usize = LogFrame::BYTES - 8;

/// The checksum of a header's first bytes and of what follows the header.
pub(crate) fn checksum(head: &[u8], body: &[u8]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    digest.update(head);
    digest.update(body);
    digest.finalize()
}

/// Memory for writes past the page cache: it begins at a multiple of the unit.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    skip: usize,
    bytes: usize,
}

impl Buffer {
    /// `head`, `body`, and zeros up to a multiple of the unit.
    pub(crate) fn fill(&mut self, head: &[u8], body: &[u8]) -> &[u8] {
        self.bytes = (head.len() + body.len()).next_multiple_of(LOG_UNIT_BYTES);
        if self.memory.len() < self.bytes + LOG_UNIT_BYTES {
            self.memory.resize(self.bytes + LOG_UNIT_BYTES, 0);
        }
        self.skip = self.memory.as_ptr().align_offset(LOG_UNIT_BYTES);
        let all = &mut self.memory[self.skip..self.skip + self.bytes];
        let (to_head, rest) = all.split_at_mut(head.len());
        let (to_body, padding) = rest.split_at_mut(body.len());
        to_head.copy_from_slice(head);
        to_body.copy_from_slice(body);
        padding.fill(0);
        all
    }
}

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) log: u64,
    pub(crate) key: u64,
    pub(crate) position: u64,
    pub(crate) synced: u64,
    pub(crate) records: u32,
    pub(crate) flags: u32,
}

/// How long a frame with so many bytes of records is in its file.
pub(crate) fn frame_bytes(records_bytes: usize) -> u64 {
    (LogFrame::BYTES + records_bytes).next_multiple_of(LOG_UNIT_BYTES) as u64
}

/// A frame, ready to be written.
pub(crate) fn seal<'a>(buffer: &'a mut Buffer, head: Head, records: &[u8]) -> &'a [u8] {
    let mut header = LogFrame {
        magic: U64::new(FRAME_MAGIC),
        log: U64::new(head.log),
        key: U64::new(head.key),
        position: U64::new(head.position),
        synced: U64::new(head.synced),
        bytes: U32::new(records.len() as u32),
        records: U32::new(head.records),
        flags: U32::new(head.flags),
        reserved: U32::new(0),
        checksum: U64::new(0),
    };
    header.checksum = U64::new(checksum(&header.as_bytes()[..COVERED_BYTES], records));
    buffer.fill(header.as_bytes(), records)
}

/// What stands at a place where a frame may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A whole frame, and how many bytes of records it has.
    Frame(Head, usize),
    /// The beginning of what may be a frame of this many bytes; more is needed to tell.
    Partial(u64),
    /// No frame of this log and segment, or not all of it.
    None,
}

/// Judges what stands at the front of `bytes`, which are all that the file has from there on if
/// `all`. Of a frame of another position only the caller knows what it means.
pub(crate) fn look(bytes: &[u8], all: bool, log: u64, key: u64) -> Found {
    let Ok((header, rest)) = LogFrame::read_from_prefix(bytes) else {
        return if all { Found::None } else { Found::Partial(LOG_UNIT_BYTES as u64) };
    };
    let ours = header.magic.get() == FRAME_MAGIC
        && header.log.get() == log
        && (header.key.get() == key || planted("log_recycled_frames_pass"));
    if !ours {
        return Found::None;
    }
    let records_bytes = header.bytes.get() as usize;
    let Some(records) = rest.get(..records_bytes) else {
        return if all { Found::None } else { Found::Partial(frame_bytes(records_bytes)) };
    };
    if header.checksum.get() != checksum(&header.as_bytes()[..COVERED_BYTES], records)
        && !planted("log_torn_frame_accepted")
    {
        return Found::None;
    }
    let head = Head {
        log,
        key,
        position: header.position.get(),
        synced: header.synced.get(),
        records: header.records.get(),
        flags: header.flags.get(),
    };
    Found::Frame(head, records_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head { log: 7, key: 3, position: 64, synced: 8, records: 1, flags: 0 };

    #[test]
    fn a_frame_passes_only_whole_and_where_it_belongs() {
        let mut buffer = Buffer::default();
        let records = [5; 5000];
        let mut bytes = seal(&mut buffer, HEAD, &records).to_vec();
        assert_eq!(bytes.len() as u64, frame_bytes(records.len()));
        assert_eq!(look(&bytes, true, 7, 3), Found::Frame(HEAD, 5000));
        assert_eq!(look(&bytes, true, 7, 4), Found::None, "another segment's");
        assert_eq!(look(&bytes, true, 8, 3), Found::None, "another log's");
        assert_eq!(look(&bytes[..100], false, 7, 3), Found::Partial(bytes.len() as u64));
        assert_eq!(look(&bytes[..100], true, 7, 3), Found::None);
        assert_eq!(look(&[0; 4096], true, 0, 0), Found::None, "zeros");
        for at in 0..LogFrame::BYTES + records.len() {
            bytes[at] ^= 4;
            assert!(!matches!(look(&bytes, true, 7, 3), Found::Frame(..)), "byte {at}");
            bytes[at] ^= 4;
        }
    }

    #[test]
    fn buffers_are_aligned_and_padded_with_zeros() {
        let mut buffer = Buffer::default();
        for bytes in [10_000, 1, 4096, 100_000, 64] {
            let filled = buffer.fill(&[1; 64], &vec![2; bytes]);
            assert_eq!(filled.as_ptr().align_offset(LOG_UNIT_BYTES), 0);
            assert_eq!(filled.len(), (64 + bytes).next_multiple_of(LOG_UNIT_BYTES));
            assert!(filled[64 + bytes..].iter().all(|byte| *byte == 0));
        }
    }
}
