//! The limits of this memory: bare loads, with nothing of ours around them.
//!
//! Benchmarks put these beside the fabric's own READs. They read the same words through the same
//! mapping; all offsets are checked once, before the clock starts to matter.
#![allow(unsafe_code)]

use super::words::{AtomicU64, Ordering, Words};
use barn_layout::limits::LINE_BYTES;

impl Words {
    /// Sums 64 bytes at each offset, having asked for each line `ahead` offsets before its turn:
    /// the most random lines a second that this mapping gives one thread.
    pub fn bare_sum_lines(&self, offsets: &[u32], ahead: usize) -> u64 {
        let Some(highest) = offsets.iter().max() else { return 0 };
        assert!(*highest as usize + LINE_BYTES <= self.bytes(), "an offset is out of bounds");
        let line = |offset: u32| offset as usize & !7;
        let mut sum = 0u64;
        for (index, offset) in offsets.iter().enumerate() {
            if let Some(next) = offsets.get(index + ahead) {
                self.prefetch(u64::from(*next), LINE_BYTES);
            }
            for word in 0..LINE_BYTES / 8 {
                // SAFETY: the highest offset and a line were checked against the length above.
                let word: &AtomicU64 = unsafe { self.base().byte_add(line(*offset) + word * 8).as_ref() };
                sum = sum.wrapping_add(word.load(Ordering::Relaxed));
            }
        }
        sum
    }

    /// Follows `steps` dependent 64-byte loads: each place is made from what the last one held
    /// and a step of a random sequence, so that no two overlap.
    pub fn bare_chase_lines(&self, seed: u64, steps: usize) -> u64 {
        let lines = (self.bytes() / LINE_BYTES) as u64;
        assert!(lines > 0, "there is no line to load");
        let mut at = seed;
        for _ in 0..steps {
            let offset = chase_line(at, lines) as usize * LINE_BYTES;
            let mut sum = 0u64;
            for word in 0..LINE_BYTES / 8 {
                // SAFETY: `chase_line` gives a line below `lines`, and `lines` lines fit the memory.
                let word: &AtomicU64 = unsafe { self.base().byte_add(offset + word * 8).as_ref() };
                sum = sum.wrapping_add(word.load(Ordering::Relaxed));
            }
            at = chase_next(at, sum);
        }
        at
    }
}

/// The line that a chase visits from state `at`.
#[inline]
pub fn chase_line(at: u64, lines: u64) -> u64 {
    ((u128::from(at) * u128::from(lines)) >> 64) as u64
}

/// The state after a line whose words add up to `sum`.
#[inline]
pub fn chase_next(at: u64, sum: u64) -> u64 {
    at.wrapping_add(sum).wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f)
}
