//! A running hash over everything that happens: the same seed gives the same one.

/// The hash of a world's history so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trace(u64);

impl Trace {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed ^ 0xcbf2_9ce4_8422_2325)
    }

    /// Mixes in a number: FNV-1a by words, with a rotation so that high bits count too.
    pub(super) fn note(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    pub(super) fn note_all(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.note(*value));
    }

    pub(super) fn note_bytes(&mut self, bytes: &[u8]) {
        self.note(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.note(u64::from_le_bytes(word));
        }
    }

    pub(super) fn hash(self) -> u64 {
        self.0
    }
}
