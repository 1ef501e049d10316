//! Doors for the fuzzers; compiled for them alone (`cfg(fuzzing)`), used by `fuzz/src/bin`.

use crate::checkpoint::manifest::Manifest;
use crate::frame::{Found, look};
use crate::parse::{Entry, take_entry, take_record};
use crate::record::Record;
use crate::segment::parse_header;

/// Bytes as everything that a log has on disk: nothing panics, and what passes comes out as it went in.
pub fn on_disk(bytes: &[u8]) {
    let _ = parse_header(bytes);
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert_eq!(Manifest::parse(&manifest.render()).as_ref(), Ok(&manifest));
    }
    if let Found::Frame(_, records_bytes) = look(bytes, true, 0, 1) {
        assert!(records_bytes <= bytes.len());
    }
    records(bytes);
}

/// Bytes as records, without the checksum that would keep most of them away.
fn records(mut bytes: &[u8]) {
    while let Ok((mut entries, _)) = take_record(&mut bytes) {
        let (all, mut again) = (entries, Record::default());
        let mut whole = true;
        while !entries.is_empty() {
            match take_entry(&mut entries) {
                Ok(Entry::Words { region, offset, bytes }) if offset.is_multiple_of(8) => {
                    again.words(region, offset, &[bytes])
                }
                Ok(Entry::Region { region, bytes }) => again.region(region, bytes),
                Ok(Entry::NoteSet { key, value }) => again.note_set(key, value),
                Ok(Entry::NoteAppend { key, value }) => again.note_append(key, value),
                Ok(Entry::NoteRemove { key }) => again.note_remove(key),
                Ok(Entry::Words { .. }) | Err(_) => {
                    whole = false;
                    break;
                }
            }
        }
        if whole {
            assert_eq!(again.entries(), all, "an entry that was read is what would be written");
        }
    }
}
