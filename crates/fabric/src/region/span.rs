//! A run of registered bytes whose place was checked once: what follows needs no more than a look at its end.
//!
//! Whoever looks at an object word by word (its version, what it says of its parts, one of them, its version
//! again) would otherwise have each look checked against the whole memory.
//!
//! What always holds: a span begins at a whole word and lies within its memory; what is past its end is not
//! there.

use super::checked::Checked;
use super::words::{Ordering, Words};
use barn_layout::limits::WORD_BYTES;

/// A run of bytes in some memory.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Where it begins: a whole word.
    start: Checked<'a>,
    bytes: usize,
}

impl<'a> Span<'a> {
    /// Of a place that has been checked.
    #[inline(always)]
    pub(super) fn new(words: &'a Words, at: usize, bytes: usize) -> Self {
        debug_assert!(at.is_multiple_of(WORD_BYTES) && at + bytes <= words.bytes());
        Self { start: words.checked(at), bytes }
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
        self.has(from, WORD_BYTES).then(|| self.start.after(from as usize).word().load(order))
    }

    /// The first words, the very first of them loaded before the others.
    #[inline(always)]
    pub fn first<const WORDS: usize>(&self) -> Option<[u64; WORDS]> {
        self.has(0, WORDS * WORD_BYTES).then(|| self.start.words())
    }

    /// Copies bytes out, as [`Words::load`] does; `None` if some are past the end.
    #[inline(always)]
    pub fn load(&self, from: u32, into: &mut [u8]) -> Option<()> {
        self.has_bytes(from, into.len()).then(|| self.start.after(from as usize).load(into))
    }

    /// The `rest` bytes that follow these, which stand at `from`, a whole word; `None` if other bytes do, or if some of
    /// the rest are past the end.
    #[inline(always)]
    pub fn behind(&self, from: u32, bytes: &[u8], rest: usize) -> Option<Rest<'a>> {
        // Of so much or less the sum is one.
        if rest > self.bytes || !self.has(from, bytes.len() + rest) {
            return None;
        }
        let start = self.start.after(from as usize);
        start.holds(bytes).then(|| Rest { start: start.after(bytes.len()), bytes: rest })
    }

    /// Asks the CPU to fetch a part into its caches.
    #[inline(always)]
    pub fn prefetch(&self, from: u32, bytes: usize) {
        self.start.whereabouts().prefetch(u64::from(from), bytes);
    }
}

/// Bytes after others.
#[derive(Clone, Copy, Debug)]
pub struct Rest<'a> {
    start: Checked<'a>,
    bytes: usize,
}

impl Rest<'_> {
    /// Copies them out, as [`Words::load`] does, in place of what is there.
    #[inline(always)]
    pub fn load(self, into: &mut Vec<u8>) {
        // They mostly are as many as were there before.
        if into.len() != self.bytes {
            into.resize(self.bytes, 0);
        }
        self.start.load(into);
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
                assert_eq!(span.behind(from, wanted, 0).is_some(), aligned, "{from}+{bytes}");
                for wrong in [0, bytes / 2, bytes.saturating_sub(1)].into_iter().filter(|_| bytes > 0) {
                    let mut other = wanted.to_vec();
                    other[wrong] ^= 1;
                    assert!(span.behind(from, &other, 0).is_none(), "{from}+{bytes}: {wrong}");
                }
            }
            assert_eq!(span.load(from, &mut vec![0; 165 - start]), None);
            assert!(span.behind(from, &pattern[start..165], 0).is_none());
            for (bytes, rest) in
                [(0, 0), (0, 9), (8, 8), (16, 32), (5, 3), (16, 101), (101, 0), (8, usize::MAX - 7)]
            {
                let (end, mut into) = ((start + bytes).min(256), vec![7; 3]);
                let bytes = end - start;
                let behind = span.behind(from, &pattern[start..end], rest);
                let within = from % 8 == 0 && rest <= 164 && end + rest <= 164;
                assert_eq!(
                    behind.map(|rest| rest.load(&mut into)),
                    within.then_some(()),
                    "{from}+{bytes}+{rest}"
                );
                assert_eq!(into, if within { &pattern[end..end + rest] } else { &[7; 3] });
                assert!(bytes == 0 || span.behind(from, &pattern[start - 1..end - 1], rest).is_none());
            }
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
