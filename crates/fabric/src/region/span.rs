//! A run of registered bytes whose place was checked once: what follows needs no more than a look at its end.
//!
//! Whoever looks at an object word by word (its version, what it says of its parts, one of them, its version
//! again) would otherwise have each look checked against the whole memory.
//!
//! What always holds: a span begins at a whole word and lies within its memory; what is past its end is not
//! there.

use super::words::{Ordering, Words};
use barn_layout::limits::WORD_BYTES;

/// A run of bytes in some memory.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    words: &'a Words,
    /// Where it begins: a whole word.
    at: usize,
    bytes: usize,
}

impl<'a> Span<'a> {
    /// Of a place that has been checked.
    #[inline(always)]
    pub(super) fn new(words: &'a Words, at: usize, bytes: usize) -> Self {
        debug_assert!(at.is_multiple_of(WORD_BYTES) && at + bytes <= words.bytes());
        Self { words, at, bytes }
    }

    /// Whether so many bytes at `from`, a whole word, are within.
    #[inline(always)]
    fn has(&self, from: u32, bytes: usize) -> bool {
        from.is_multiple_of(WORD_BYTES as u32) && self.has_bytes(from, bytes)
    }

    /// The same, from any byte on. No slice is longer than `isize::MAX`, so that the sum is one.
    #[inline(always)]
    fn has_bytes(&self, from: u32, bytes: usize) -> bool {
        debug_assert!(isize::try_from(bytes).is_ok());
        (from as usize).wrapping_add(bytes) <= self.bytes
    }

    /// Loads the word at `from`.
    #[inline(always)]
    pub fn word(&self, from: u32, order: Ordering) -> Option<u64> {
        self.has(from, WORD_BYTES).then(|| self.words.aligned_word(self.at + from as usize).load(order))
    }

    /// The first words, the very first of them loaded before the others.
    #[inline(always)]
    pub fn first<const WORDS: usize>(&self) -> Option<[u64; WORDS]> {
        self.has(0, WORDS * WORD_BYTES).then(|| self.words.array_checked(self.at))
    }

    /// Whether these bytes stand at `from`, a whole word; not if that is past the end.
    #[inline(always)]
    pub fn holds(&self, from: u32, bytes: &[u8]) -> bool {
        self.has(from, bytes.len()) && self.words.holds_checked(self.at + from as usize, bytes)
    }

    /// Copies bytes out, as [`Words::load`] does; `None` if some are past the end.
    #[inline(always)]
    pub fn load(&self, from: u32, into: &mut [u8]) -> Option<()> {
        self.has_bytes(from, into.len()).then(|| self.words.load_checked(self.at + from as usize, into))
    }

    /// Asks the CPU to fetch a part into its caches.
    #[inline(always)]
    pub fn prefetch(&self, from: u32, bytes: usize) {
        self.words.whereabouts().prefetch((self.at + from as usize) as u64, bytes);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::region::AccessError;

    #[test]
    fn a_span_has_the_bytes_of_its_memory_and_none_past_its_end() {
        let words = Words::private(256);
        let pattern: Vec<u8> = (0..=255).collect();
        words.store(0, &pattern).unwrap();
        let span = words.span(64, 100).unwrap();
        // ORDER: Relaxed, throughout: nobody else is there.
        assert_eq!(
            span.word(8, Ordering::Relaxed),
            Some(u64::from_le_bytes(*pattern[72..].first_chunk().unwrap()))
        );
        assert_eq!(span.word(96, Ordering::Relaxed), None, "it ends within that word");
        assert_eq!([4, 104, u32::MAX - 7].map(|from| span.word(from, Ordering::Relaxed)), [None; 3]);
        assert_eq!(
            span.first::<2>().map(|words| words.map(u64::to_le_bytes).concat()),
            Some(pattern[64..80].to_vec())
        );
        assert_eq!(span.first::<13>(), None);
        for from in 0..100u32 {
            let start = 64 + from as usize;
            for bytes in 0..=164 - start {
                let (mut into, wanted) = (vec![0; bytes], &pattern[start..][..bytes]);
                assert_eq!(span.load(from, &mut into), Some(()));
                assert_eq!(into, wanted, "{from}+{bytes}");
                let aligned = from % 8 == 0;
                assert_eq!(span.holds(from, wanted), aligned, "{from}+{bytes}");
                for wrong in [0, bytes / 2, bytes.saturating_sub(1)].into_iter().filter(|_| bytes > 0) {
                    let mut other = wanted.to_vec();
                    other[wrong] ^= 1;
                    assert!(!span.holds(from, &other), "{from}+{bytes}: {wrong}");
                }
            }
            assert_eq!(span.load(from, &mut vec![0; 165 - start]), None);
            assert!(!span.holds(from, &pattern[start..165]));
        }
        assert_eq!(span.load(u32::MAX, &mut [0; 2]), None);
        span.prefetch(u32::MAX, 7);
    }

    #[test]
    fn a_span_lies_within_its_memory_and_begins_at_a_word() {
        let words = Words::private(64);
        assert!(words.span(0, 64).is_ok() && words.span(64, 0).is_ok());
        assert_eq!(words.span(4, 8).unwrap_err(), AccessError::Misaligned { offset: 4 });
        for (offset, bytes) in [(0, 65), (56, 9), (72, 0), (u64::MAX, 1), (8, usize::MAX)] {
            let error = words.span(offset, bytes).unwrap_err();
            assert!(matches!(error, AccessError::OutOfBounds { .. }), "{offset}+{bytes}: {error}");
        }
    }
}
