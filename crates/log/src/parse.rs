//! Reads records and entries back from bytes that may be anything.
//!
//! What always holds: nothing here panics or allocates; every length is checked before it is used;
//! a record that comes out is what [`crate::Record`] makes of the same entries.

use barn_layout::RegionId;
use barn_layout::limits::WORD_BYTES;
use barn_layout::log::{EntryKind, LogEntry, LogRecord};
use zerocopy::FromBytes;

/// One entry of a record: see the functions of [`crate::Record`] that make them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are what those functions take")]
pub enum Entry<'a> {
    Words { region: RegionId, offset: u32, bytes: &'a [u8] },
    Region { region: RegionId, bytes: u64 },
    NoteSet { key: &'a [u8], value: &'a [u8] },
    NoteAppend { key: &'a [u8], value: &'a [u8] },
    NoteRemove { key: &'a [u8] },
}

/// Bytes that are no entry or no record.
pub(crate) type Nonsense = &'static str;

/// Takes one entry off the front.
pub(crate) fn take_entry<'a>(from: &mut &'a [u8]) -> Result<Entry<'a>, Nonsense> {
    let (header, rest) = LogEntry::read_from_prefix(from).map_err(|_| "an entry's header is cut off")?;
    let bytes = header.bytes.get() as usize;
    let padded = bytes.checked_next_multiple_of(WORD_BYTES).ok_or("an entry's length makes no sense")?;
    let (body, rest) = rest.split_at_checked(padded).ok_or("an entry's bytes are cut off")?;
    let (body, padding) = body.split_at_checked(bytes).ok_or("an entry's bytes are cut off")?;
    if padding.iter().any(|byte| *byte != 0) {
        return Err("an entry's padding is not zero");
    }
    let kind = EntryKind::from_bits(header.kind.get()).ok_or("an entry of an unknown kind")?;
    let (region, offset) = (RegionId(header.region.get()), header.offset.get());
    if kind != EntryKind::Words && offset != 0 {
        return Err("an entry that has no place has one");
    }
    let note = || body.split_at_checked(region.0 as usize).ok_or("a note's key is longer than the note");
    let entry = match kind {
        EntryKind::Words => Entry::Words { region, offset, bytes: body },
        EntryKind::Region => {
            let bytes = body.try_into().map_err(|_| "a region's length is not 8 bytes long")?;
            Entry::Region { region, bytes: u64::from_le_bytes(bytes) }
        }
        EntryKind::NoteSet => note().map(|(key, value)| Entry::NoteSet { key, value })?,
        EntryKind::NoteAppend => note().map(|(key, value)| Entry::NoteAppend { key, value })?,
        EntryKind::NoteRemove => match note()? {
            (key, []) => Entry::NoteRemove { key },
            _ => return Err("a note that is removed has a value"),
        },
    };
    *from = rest;
    Ok(entry)
}

/// Takes one record's entries off the front.
pub(crate) fn take_record<'a>(from: &mut &'a [u8]) -> Result<(&'a [u8], u32), Nonsense> {
    let (header, rest) = LogRecord::read_from_prefix(from).map_err(|_| "a record's header is cut off")?;
    let bytes = header.bytes.get() as usize;
    if !bytes.is_multiple_of(WORD_BYTES) {
        return Err("a record is no whole number of words");
    }
    let (entries, rest) = rest.split_at_checked(bytes).ok_or("a record's entries are cut off")?;
    *from = rest;
    Ok((entries, header.entries.get()))
}

/// How many bytes from the front are whole records and at most `bytes_max`; one record at least.
pub(crate) fn whole_records(from: &[u8], bytes_max: usize) -> (usize, u32) {
    let (mut rest, mut records) = (from, 0);
    loop {
        let taken = from.len() - rest.len();
        let mut ahead = rest;
        if rest.is_empty() || take_record(&mut ahead).is_err() {
            return (taken, records);
        }
        if from.len() - ahead.len() > bytes_max && records > 0 {
            return (taken, records);
        }
        rest = ahead;
        records += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;

    #[test]
    fn what_goes_into_a_record_comes_out_of_it() {
        let mut record = Record::default();
        record.region(RegionId(3), 4096);
        record.words(RegionId(3), 16, &[&[1; 8], &[2; 16]]);
        record.note_set(b"key", b"value");
        record.note_append(b"key", b"");
        record.note_remove(b"");
        let (each, long) = (record.each().count(), record.bytes());
        assert_eq!((each, record.close()), (5, long));
        assert!(record.is_empty() && record.bytes() == 0 && record.each().next().is_none(), "the next one");
        let mut from = record.complete().bytes();
        assert_eq!(from.len(), long);
        let (mut entries, count) = take_record(&mut from).unwrap();
        assert_eq!((from.len(), count), (0, 5));
        let words: Vec<u8> = [[1; 8], [2; 8], [2; 8]].concat();
        let expected = [
            Entry::Region { region: RegionId(3), bytes: 4096 },
            Entry::Words { region: RegionId(3), offset: 16, bytes: &words },
            Entry::NoteSet { key: b"key", value: b"value" },
            Entry::NoteAppend { key: b"key", value: b"" },
            Entry::NoteRemove { key: b"" },
        ];
        for entry in expected {
            assert_eq!(take_entry(&mut entries), Ok(entry));
        }
        assert!(entries.is_empty());
        record.note_remove(b"another");
        record.clear();
        assert!(record.is_empty() && record.complete().len() == long, "what was complete stays");
    }

    #[test]
    fn every_cut_is_noticed() {
        let mut record = Record::default();
        record.words(RegionId(1), 0, &[&[7; 24]]);
        record.close();
        let bytes = record.complete().bytes();
        for cut in 0..bytes.len() {
            assert!(take_record(&mut &bytes[..cut]).is_err(), "{cut}");
            let mut entries = &bytes[LogRecord::BYTES.min(cut)..cut];
            assert!(take_entry(&mut entries).is_err(), "{cut}");
        }
    }

    #[test]
    fn frames_are_cut_between_records() {
        let mut record = Record::default();
        let mut each = 0;
        for _ in 0..5 {
            record.words(RegionId(1), 0, &[&[7; 40]]);
            each = record.close();
        }
        let bytes = record.complete().bytes();
        assert_eq!(whole_records(bytes, usize::MAX), (5 * each, 5));
        assert_eq!(whole_records(bytes, 3 * each - 1), (2 * each, 2));
        assert_eq!(whole_records(bytes, 1), (each, 1), "one at least");
    }
}
