//! Memory for reads and writes past the page cache: it begins at a multiple of the unit.

use barn_layout::log::LOG_UNIT_BYTES;
use std::ops::{Deref, DerefMut};

/// Bytes that begin at a multiple of the unit, and are kept from use to use.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    start: usize,
}

impl Aligned {
    /// Makes it at least so long; the first `kept` bytes stay, and what the others are means nothing.
    pub(crate) fn grow(&mut self, bytes: usize, kept: usize) {
        if bytes <= self.len() {
            return;
        }
        let mut memory = vec![0; bytes + LOG_UNIT_BYTES];
        let start = memory.as_ptr().align_offset(LOG_UNIT_BYTES);
        memory[start..start + kept].copy_from_slice(&self[..kept]);
        (self.memory, self.start) = (memory, start);
    }
}

impl Deref for Aligned {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let end = self.memory.len().saturating_sub(LOG_UNIT_BYTES - self.start);
        &self.memory[self.start..end.max(self.start)]
    }
}

impl DerefMut for Aligned {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let end = self.memory.len().saturating_sub(LOG_UNIT_BYTES - self.start);
        &mut self.memory[self.start..end.max(self.start)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_what_is_kept_stays() {
        let mut memory = Aligned::default();
        assert_eq!(memory.len(), 0);
        for bytes in [1, 4095, 4096, 10_000, 9, 1 << 20] {
            let kept = memory.len();
            memory.fill(bytes as u8);
            memory.grow(bytes, kept);
            assert!(memory.len() >= bytes && memory.len() >= kept);
            assert_eq!(memory.as_ptr().align_offset(LOG_UNIT_BYTES), 0);
            assert!(memory[..kept].iter().all(|byte| *byte == bytes as u8));
        }
    }
}
