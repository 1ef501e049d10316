//! A copy of a node's memory and notes that knows nothing but the records of its changes.
//!
//! The tests of `barn-index` use this file, too. It takes records apart as the stand-in of `barn-log` puts
//! them together: entries of four words of 32 bits (kind, region or length of a key, offset, bytes), and
//! their bytes, padded to 8. It is the only place that knows.

use barn_fabric::Words;
use barn_layout::RegionId;
use barn_log::Record;
use std::collections::BTreeMap;

/// What can be brought back.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    regions: BTreeMap<u32, Words>,
    pub(crate) notes: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Bytes of all records so far.
    pub(crate) bytes: usize,
}

/// One entry of a record.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: u32,
    pub(crate) region: u32,
    pub(crate) offset: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A record's entries.
pub(crate) fn entries(record: &Record) -> Vec<Entry> {
    // The stand-in shows its bytes in no other way.
    let shown = format!("{record:?}");
    let list = shown.split_once('[').and_then(|(_, rest)| rest.split_once(']')).expect("a list of bytes").0;
    let bytes: Vec<u8> = list.split(", ").filter(|it| !it.is_empty()).map(|it| it.parse().unwrap()).collect();
    let (mut rest, mut entries) = (&bytes[..], Vec::new());
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let word = |at: usize| u32::from_le_bytes(header[at * 4..at * 4 + 4].try_into().unwrap());
        let length = word(3) as usize;
        let bytes = after[..length].to_vec();
        entries.push(Entry { kind: word(0), region: word(1), offset: word(2), bytes });
        rest = &after[length.next_multiple_of(8)..];
    }
    assert!(rest.is_empty(), "half an entry");
    entries
}

impl Replica {
    /// Applies a record, and clears it.
    pub(crate) fn apply(&mut self, record: &mut Record) {
        self.bytes += record.bytes();
        for Entry { kind, region, offset, bytes } in entries(record) {
            match kind {
                1 => self.regions[&region].store(offset.into(), &bytes).unwrap(),
                2 => {
                    let length = u64::from_le_bytes(bytes.try_into().unwrap());
                    self.regions.entry(region).or_insert_with(|| Words::private(length as usize));
                }
                _ => {
                    let (key, value) = bytes.split_at(region as usize);
                    match kind {
                        3 => _ = self.notes.insert(key.to_vec(), vec![value.to_vec()]),
                        4 => self.notes.entry(key.to_vec()).or_default().push(value.to_vec()),
                        5 => _ = self.notes.remove(key),
                        _ => panic!("an entry of kind {kind}"),
                    }
                }
            }
        }
        record.clear();
    }

    /// Memory as it would be after a restart: a copy, of which the replica hears by records alone.
    pub(crate) fn restored(&self) -> Vec<(RegionId, Words)> {
        let copy = |words: &Words| {
            let (new, mut buffer) = (Words::private(words.bytes()), vec![0; 1 << 20]);
            for at in (0..words.bytes()).step_by(buffer.len()) {
                words.load(at as u64, &mut buffer).unwrap();
                // Most of it is zero, and stays untouched.
                if buffer.iter().any(|byte| *byte != 0) {
                    new.store(at as u64, &buffer).unwrap();
                }
            }
            new
        };
        self.regions.iter().map(|(id, words)| (RegionId(*id), copy(words))).collect()
    }
}
