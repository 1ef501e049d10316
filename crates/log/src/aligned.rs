//! Memory for reads and writes past the page cache: it begins at a multiple of the unit.

use barn_fabric::region::PrivateMemory;
use std::ops::{Deref, DerefMut};

/// Bytes that begin at a multiple of the unit, and are kept from use to use.
#[derive(Debug, Default)]
pub(crate) struct Aligned(Option<PrivateMemory>);

impl Aligned {
    /// Makes it at least so long; the first `kept` bytes stay, and what the others are means nothing.
    pub(crate) fn grow(&mut self, bytes: usize, kept: usize) {
        if bytes <= self.len() {
            return;
        }
        let mut memory = PrivateMemory::zeroed(bytes);
        memory[..kept].copy_from_slice(&self[..kept]);
        self.0 = Some(memory);
    }

    /// So many bytes from `at` on are stored to soon.
    #[inline]
    pub(crate) fn prefetch_for_store(&self, at: usize, bytes: usize) {
        if let Some(memory) = &self.0 {
            memory.prefetch_for_store(at, bytes);
        }
    }
}

impl Deref for Aligned {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Aligned {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_layout::log::LOG_UNIT_BYTES;

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
