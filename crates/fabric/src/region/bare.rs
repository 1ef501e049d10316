//! The limits of this memory: bare loads, with nothing of ours around them.
//!
//! Benchmarks put these beside the fabric's own READs. They read the same words through the same
//! mapping; all offsets are checked once, before the clock starts to matter.
#![allow(unsafe_code)]

use super::words::{AtomicU64, Ordering, Words};
use barn_layout::limits::WORD_BYTES;

impl Words {
    /// Adds up the words of `bytes` bytes at `offset`, unchecked.
    ///
    /// # Safety
    /// `offset` is a multiple of 8 and `offset + bytes` is within the memory.
    #[inline]
    unsafe fn bare_sum(&self, offset: usize, bytes: usize) -> u64 {
        let mut sum = 0u64;
        for word in 0..bytes / WORD_BYTES {
            // SAFETY: the caller vouches for the whole range.
            let word: &AtomicU64 = unsafe { self.base().byte_add(offset + word * WORD_BYTES).as_ref() };
            sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
        sum
    }

    /// Adds up `bytes` bytes at each offset, having asked for each `ahead` offsets before its
    /// turn: the most random reads a second that this mapping gives one thread.
    pub fn bare_random(&self, offsets: &[u32], bytes: usize, ahead: usize) -> u64 {
        let fits = |offset: &u32| {
            (*offset as usize).is_multiple_of(WORD_BYTES) && *offset as usize + bytes <= self.bytes()
        };
        assert!(offsets.iter().all(fits), "an offset is out of bounds");
        let mut sum = 0u64;
        for (index, offset) in offsets.iter().enumerate() {
            if let Some(next) = offsets.get(index + ahead) {
                self.prefetch(u64::from(*next), bytes);
            }
            // SAFETY: every offset was checked above.
            sum = sum.wrapping_add(unsafe { self.bare_sum(*offset as usize, bytes) });
        }
        sum
    }

    /// Follows `steps` dependent reads of `bytes` bytes: each place is made from what the last
    /// one held, so that no two overlap.
    pub fn bare_chase(&self, seed: u64, bytes: usize, steps: usize) -> u64 {
        assert!(bytes.is_multiple_of(WORD_BYTES) && bytes > 0, "whole words are read");
        let places = (self.bytes() / bytes) as u64;
        assert!(places > 0, "there is no room for one read");
        let mut at = seed;
        for _ in 0..steps {
            let offset = chase_place(at, places) as usize * bytes;
            // SAFETY: `chase_place` is below `places`, and `places` times `bytes` fit the memory.
            at = chase_next(at, unsafe { self.bare_sum(offset, bytes) });
        }
        at
    }
}

/// The place, of so many, that a chase visits from state `at`.
#[inline]
pub fn chase_place(at: u64, places: u64) -> u64 {
    ((u128::from(at) * u128::from(places)) >> 64) as u64
}

/// The state after a place whose words add up to `sum`.
#[inline]
pub fn chase_next(at: u64, sum: u64) -> u64 {
    at.wrapping_add(sum).wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f)
}
