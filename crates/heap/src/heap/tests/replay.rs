//! A copy of a node's memory and notes that knows nothing but the records of its changes.
//!
//! The tests of `barn-index` use this file, too.

use barn_fabric::Words;
use barn_layout::RegionId;
use barn_log::{Entry, Record};
use std::collections::BTreeMap;

/// What can be brought back.
#[derive(Debug, Default)]
pub(crate) struct Replica {
    regions: BTreeMap<u32, Words>,
    pub(crate) notes: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Bytes of all records so far.
    pub(crate) bytes: usize,
}

impl Replica {
    /// Applies a record, and clears it.
    pub(crate) fn apply(&mut self, record: &mut Record) {
        self.bytes += record.bytes();
        for entry in record.each() {
            match entry {
                Entry::Words { region, offset, bytes } => {
                    self.regions[&region.0].store(offset.into(), bytes).unwrap();
                }
                Entry::Region { region, bytes } => {
                    self.regions.entry(region.0).or_insert_with(|| Words::private(bytes as usize));
                }
                Entry::NoteSet { key, value } => {
                    self.notes.insert(key.to_vec(), vec![value.to_vec()]);
                }
                Entry::NoteAppend { key, value } => {
                    self.notes.entry(key.to_vec()).or_default().push(value.to_vec());
                }
                Entry::NoteRemove { key } => _ = self.notes.remove(key),
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
