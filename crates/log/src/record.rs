//! A record in the making: one atomic change, already in the form that it has on disk and in the place from which it
//! is written.
//!
//! What always holds: the bytes are whole entries, each a whole number of words; appending a record copies nothing, it
//! says that the record is complete. Those that are stay before it until they are handed over.

use crate::frame::Batch;
use crate::parse::{Entry, take_entry};
use barn_layout::RegionId;
use barn_layout::limits::WORD_BYTES;
use barn_layout::log::{EntryKind, LogEntry, LogRecord};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// Room before the bytes that whoever makes an entry in place may use: the entry's header comes there in the end.
pub const ROOM_BYTES: usize = LogEntry::BYTES;

#[inline(always)]
fn head(kind: EntryKind, region: u32, offset: u32, bytes: usize) -> LogEntry {
    LogEntry {
        kind: U32::new(kind as u32),
        region: U32::new(region),
        offset: U32::new(offset),
        bytes: U32::new(bytes as u32),
    }
}

/// One atomic change in the making: all of it is recovered, or nothing. A log's owner makes all of its changes in the
/// same one, one after another.
#[derive(Debug, Default)]
pub struct Record {
    /// The changes that were appended to the log and not handed over, and this one.
    batch: Batch,
    count: u32,
}

impl Record {
    /// Whether nothing was put into it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes everything out again, and keeps the memory.
    pub fn clear(&mut self) {
        self.batch.open_clear();
        self.count = 0;
    }

    /// What is in it: for whoever applies records without a log between.
    pub fn each(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = self.entries();
        // They were put together here, so they come apart.
        std::iter::from_fn(move || (!rest.is_empty()).then(|| take_entry(&mut rest).ok()).flatten())
    }

    /// How many bytes of log it takes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.batch.open_len()
    }

    /// These bytes (a whole number of words, the parts one after another) are at `offset` of
    /// `region` from now on.
    #[inline(always)]
    pub fn words(&mut self, region: RegionId, offset: u32, parts: &[&[u8]]) {
        debug_assert!((offset as usize).is_multiple_of(WORD_BYTES));
        self.entry(EntryKind::Words, region.0, offset, parts);
    }

    /// As [`Record::words`], but the bytes, a whole number of words, are put in place by `fill`. It has room for them
    /// all behind [`ROOM_BYTES`] more, with which it may do what it likes. If it fails nothing is recorded.
    #[inline(always)]
    pub fn words_in_place<T, E>(
        &mut self,
        region: RegionId,
        offset: u32,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<T, E>,
    ) -> Result<T, E> {
        debug_assert!((offset as usize).is_multiple_of(WORD_BYTES) && bytes.is_multiple_of(WORD_BYTES));
        let begin = self.begin();
        let more = begin + LogEntry::BYTES + bytes;
        let room = &mut self.batch.room(more)[begin..];
        match fill(room) {
            Ok(made) => {
                let header = head(EntryKind::Words, region.0, offset, bytes);
                room[..LogEntry::BYTES].copy_from_slice(header.as_bytes());
                self.count += 1;
                Ok(made)
            }
            Err(error) => {
                self.batch.take_back(more);
                Err(error)
            }
        }
    }

    /// There is a region, this long, zero at first.
    pub fn region(&mut self, region: RegionId, bytes: u64) {
        self.entry(EntryKind::Region, region.0, 0, &[&bytes.to_le_bytes()]);
    }

    /// The note has this value and no other.
    pub fn note_set(&mut self, key: &[u8], value: &[u8]) {
        self.entry(EntryKind::NoteSet, key.len() as u32, 0, &[key, value]);
    }

    /// The note has this value, too.
    pub fn note_append(&mut self, key: &[u8], value: &[u8]) {
        self.entry(EntryKind::NoteAppend, key.len() as u32, 0, &[key, value]);
    }

    /// There is no such note.
    pub fn note_remove(&mut self, key: &[u8]) {
        self.entry(EntryKind::NoteRemove, key.len() as u32, 0, &[key]);
    }

    #[inline(always)]
    fn entry(&mut self, kind: EntryKind, region: u32, offset: u32, parts: &[&[u8]]) {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let begin = self.begin();
        let room = self.batch.room(begin + LogEntry::BYTES + bytes.next_multiple_of(WORD_BYTES));
        let (header, mut rest) = room[begin..].split_at_mut(LogEntry::BYTES);
        header.copy_from_slice(head(kind, region, offset, bytes).as_bytes());
        for part in parts {
            let (to, behind) = rest.split_at_mut(part.len());
            to.copy_from_slice(part);
            rest = behind;
        }
        // Seldom: words are whole.
        if !rest.is_empty() {
            rest.fill(0);
        }
        self.count += 1;
    }

    /// What the first entry leaves free before it: the record's own header.
    #[inline(always)]
    fn begin(&self) -> usize {
        if self.count == 0 { LogRecord::BYTES } else { 0 }
    }

    /// The entries, as they are on disk.
    pub(crate) fn entries(&self) -> &[u8] {
        self.batch.open_bytes().get(LogRecord::BYTES..).unwrap_or_default()
    }

    /// The record is complete, and the next one begins; gives how many bytes of log it takes.
    #[inline]
    pub(crate) fn close(&mut self) -> usize {
        let bytes = self.batch.open_len();
        let header =
            LogRecord { bytes: U32::new((bytes - LogRecord::BYTES) as u32), entries: U32::new(self.count) };
        self.batch.close(header.as_bytes());
        self.count = 0;
        bytes
    }

    /// Those that are complete, and not handed over.
    #[inline]
    pub(crate) fn complete(&mut self) -> &mut Batch {
        &mut self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_in_place_is_as_if_it_had_been_copied_and_what_fails_leaves_nothing() {
        let (mut copied, mut made) = (Record::default(), Record::default());
        for at in 0..4u8 {
            let bytes = [at; 24];
            copied.words(RegionId(3), 64 * u32::from(at), &[&bytes]);
            let filled = made.words_in_place(RegionId(3), 64 * u32::from(at), bytes.len(), |room| {
                room[..ROOM_BYTES].fill(0xee);
                room[ROOM_BYTES..].copy_from_slice(&bytes);
                Ok::<_, ()>(at)
            });
            assert_eq!(filled, Ok(at));
            let failed: Result<(), _> = made.words_in_place(RegionId(4), 0, 8 << 10, |room| {
                room.fill(0xff);
                Err("no")
            });
            assert_eq!(failed, Err("no"));
            assert_eq!(made.entries(), copied.entries());
            assert_eq!((made.bytes(), made.count), (copied.bytes(), copied.count));
        }
        let refused: Result<(), _> = Record::default().words_in_place(RegionId(4), 0, 8, |_| Err(()));
        assert_eq!(refused, Err(()));
        assert_eq!(made.close(), copied.close());
        assert_eq!(made.complete().bytes(), copied.complete().bytes());
    }
}
