//! Stand-in: only what a record is.
#![forbid(unsafe_code)]
use barn_layout::RegionId;

/// One atomic change in the making: all of it is recovered, or nothing.
#[derive(Debug, Default)]
pub struct Record {
    bytes: Vec<u8>,
}

impl Record {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
    fn entry(&mut self, kind: u32, region: u32, offset: u32, parts: &[&[u8]]) {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        for word in [kind, region, offset, bytes as u32] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
    /// These bytes are at `offset` of `region` from now on.
    pub fn words(&mut self, region: RegionId, offset: u32, parts: &[&[u8]]) {
        self.entry(1, region.0, offset, parts);
    }
    /// There is a region, this long.
    pub fn region(&mut self, region: RegionId, bytes: u64) {
        self.entry(2, region.0, 0, &[&bytes.to_le_bytes()]);
    }
    /// Replaces all values of the key.
    pub fn note_set(&mut self, key: &[u8], value: &[u8]) {
        self.entry(3, key.len() as u32, 0, &[key, value]);
    }
    /// Adds one more value.
    pub fn note_append(&mut self, key: &[u8], value: &[u8]) {
        self.entry(4, key.len() as u32, 0, &[key, value]);
    }
    /// Forgets the key.
    pub fn note_remove(&mut self, key: &[u8]) {
        self.entry(5, key.len() as u32, 0, &[key]);
    }
}
