//! Frames: what one write of the log is. Made here, and judged here.
//!
//! What always holds: a frame that passes is of this log, this segment and the position that was
//! asked for, and is whole (Pilaf section 3.1: what is read without a lock proves itself). A frame
//! that a recycled file still holds has another key.

use crate::aligned::Aligned;
use barn_fabric::{Crc64, crc64_joined};
use barn_layout::log::{FRAME_MAGIC, LOG_UNIT_BYTES, LogFrame};
use barn_layout::planted;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Where the checksum stands in a frame's header, and what it covers of it.
const COVERED_BYTES: usize = LogFrame::BYTES - 8;

/// The checksum of a header's first bytes and of what follows the header.
pub(crate) fn checksum(head: &[u8], body: &[u8]) -> u64 {
    Crc64::default().and(head).and(body).sum()
}

/// So much of a batch is summed up at once, while it is still in the first cache.
const SUMMED_BYTES: usize = 4 << 10;

/// Memory that grew longer than this for one batch is given back.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// So much is fetched before it is written: for more, the CPU does it by itself.
const FETCHED_BYTES_MAX: usize = 1 << 10;

/// Records, with room for a frame's header before them and for its padding behind: what is made here is written from
/// here.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    memory: Aligned,
    bytes: usize,
    records: u32,
    /// How long the record is that is being made behind them.
    open: usize,
    /// The checksum of the first of them, and how many bytes those are.
    digest: Option<Crc64>,
    digested: usize,
}

impl Batch {
    /// How long all complete records are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How many complete records there are.
    pub(crate) fn records(&self) -> u32 {
        self.records
    }

    /// All complete records.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(LogFrame::BYTES..LogFrame::BYTES + self.bytes).unwrap_or_default()
    }

    /// Takes everything out, and keeps the memory, unless it is much.
    pub(crate) fn clear(&mut self) {
        (self.bytes, self.records, self.open) = (0, 0, 0);
        (self.digest, self.digested) = (None, 0);
        if self.memory.len() > KEPT_BYTES_MAX {
            *self = Self::default();
        }
    }

    /// Room for so many bytes more of the record that is being made.
    #[inline]
    pub(crate) fn room(&mut self, more: usize) -> &mut [u8] {
        let from = LogFrame::BYTES + self.bytes + self.open;
        // A frame's padding always has room behind it.
        if from + more + LOG_UNIT_BYTES > self.memory.len() {
            self.grow(from, more);
        }
        self.open += more;
        &mut self.memory[from..from + more]
    }

    /// The last so many bytes of the record that is being made are none of it.
    #[cold]
    pub(crate) fn take_back(&mut self, bytes: usize) {
        self.open -= bytes;
    }

    #[cold]
    fn grow(&mut self, from: usize, more: usize) {
        self.memory.grow(2 * (from + more + LOG_UNIT_BYTES), from.min(self.memory.len()));
    }

    /// How long the record is that is being made.
    #[inline]
    pub(crate) fn open_len(&self) -> usize {
        self.open
    }

    /// The record that is being made.
    pub(crate) fn open_bytes(&self) -> &[u8] {
        let from = LogFrame::BYTES + self.bytes;
        self.memory.get(from..from + self.open).unwrap_or_default()
    }

    /// Forgets the record that is being made.
    pub(crate) fn open_clear(&mut self) {
        self.open = 0;
    }

    /// The record is complete but for its first bytes, which are these.
    #[inline]
    pub(crate) fn close(&mut self, header: &[u8]) {
        let from = LogFrame::BYTES + self.bytes;
        self.memory[from..from + header.len()].copy_from_slice(header);
        self.complete(1);
    }

    /// What is being made is complete, and is so many records.
    #[inline]
    fn complete(&mut self, records: u32) {
        let more = std::mem::take(&mut self.open);
        self.bytes += more;
        self.records += records;
        // What comes next is about as long. Whoever makes it has other things to wait for meanwhile; stores that wait
        // for their lines hold up whatever comes behind them.
        self.memory.prefetch_for_store(LogFrame::BYTES + self.bytes, more.min(FETCHED_BYTES_MAX));
        if self.bytes - self.digested >= SUMMED_BYTES {
            self.sum_up();
        }
    }

    /// Puts bytes behind what is there, which are so many records.
    pub(crate) fn append(&mut self, bytes: &[u8], records: u32) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.complete(records);
    }

    /// The checksum of all records, as far as there are any.
    #[cold]
    fn sum_up(&mut self) -> u64 {
        let new = &self.memory[LogFrame::BYTES + self.digested..LogFrame::BYTES + self.bytes];
        let digest = self.digest.unwrap_or_default().and(new);
        (self.digest, self.digested) = (Some(digest), self.bytes);
        digest.sum()
    }

    /// The checksum of a header's first bytes and all records.
    fn checksum(&mut self, head: &[u8]) -> u64 {
        match self.digest {
            None => checksum(head, self.bytes()),
            Some(_) => crc64_joined(checksum(head, &[]), self.sum_up(), self.bytes as u64),
        }
    }

    /// A header before the records and zeros behind them, up to a multiple of the unit.
    pub(crate) fn framed(&mut self, header: &[u8]) -> &[u8] {
        let used = LogFrame::BYTES + self.bytes;
        let bytes = used.next_multiple_of(LOG_UNIT_BYTES);
        self.memory.grow(bytes, used.min(self.memory.len()));
        let all = &mut self.memory[..bytes];
        all[..LogFrame::BYTES].copy_from_slice(header);
        all[used..].fill(0);
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

/// All of a batch as a frame, ready to be written.
pub(crate) fn seal(batch: &mut Batch, head: Head) -> &[u8] {
    let mut header = LogFrame {
        magic: U64::new(FRAME_MAGIC),
        log: U64::new(head.log),
        key: U64::new(head.key),
        position: U64::new(head.position),
        synced: U64::new(head.synced),
        bytes: U32::new(batch.len() as u32),
        records: U32::new(head.records),
        flags: U32::new(head.flags),
        reserved: U32::new(0),
        checksum: U64::new(0),
    };
    header.checksum = U64::new(batch.checksum(&header.as_bytes()[..COVERED_BYTES]));
    batch.framed(header.as_bytes())
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
        let mut batch = Batch::default();
        let records = [5; 5000];
        batch.append(&records, 1);
        let mut bytes = seal(&mut batch, HEAD).to_vec();
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
    fn long_batches_are_summed_up_on_the_way_to_the_same_checksum() {
        let mut batch = Batch::default();
        for (record, records) in [(1000, 3), (1000, 100), (SUMMED_BYTES, 2), (8, 50_000), (100_001, 7)] {
            batch.clear();
            for at in 0..records {
                batch.append(&vec![at as u8; record], 1);
            }
            assert_eq!(batch.digest.is_some(), record * records >= SUMMED_BYTES);
            let expected = checksum(&[5; COVERED_BYTES], batch.bytes());
            assert_eq!(batch.checksum(&[5; COVERED_BYTES]), expected, "{records} of {record} bytes");
            batch.append(&[9; 100], 1);
            let expected = checksum(&[5; COVERED_BYTES], batch.bytes());
            assert_eq!(batch.checksum(&[5; COVERED_BYTES]), expected, "and one more");
        }
    }

    #[test]
    fn batches_are_aligned_and_padded_with_zeros_however_they_grow() {
        let mut batch = Batch::default();
        assert_eq!(batch.framed(&[1; 64]).len(), LOG_UNIT_BYTES, "of nothing");
        for bytes in [10_000, 2, 4096, 100_000, 64] {
            batch.clear();
            let mut expected = vec![1; 64];
            for piece in 0..7 {
                let piece = vec![piece + 2; bytes];
                // As a record is made: piece by piece, its header last.
                let (head, rest) = piece.split_at(1);
                batch.room(1);
                batch.room(bytes / 3).copy_from_slice(&rest[..bytes / 3]);
                batch.room(rest.len() - bytes / 3).copy_from_slice(&rest[bytes / 3..]);
                batch.close(head);
                expected.extend_from_slice(&piece);
            }
            assert_eq!((batch.len(), batch.records()), (7 * bytes, 7));
            assert_eq!(batch.bytes(), &expected[64..]);
            expected.resize(expected.len().next_multiple_of(LOG_UNIT_BYTES), 0);
            let framed = batch.framed(&[1; 64]);
            assert_eq!(framed.as_ptr().align_offset(LOG_UNIT_BYTES), 0);
            assert_eq!(framed, expected);
        }
        batch.append(&vec![1; KEPT_BYTES_MAX], 1);
        batch.clear();
        assert_eq!(batch.memory.len(), 0, "more than is kept is given back");
    }
}
