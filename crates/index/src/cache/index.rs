//! The index: buckets of one cache line, eight words of a tag and a position each.
//!
//! Lossy and associative, as MICA's: a word is replaced by a newer one of the same tag, and by any
//! newer one if it is the oldest of a full bucket.

use super::space::{POSITION_BITS, POSITION_MASK};
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};

/// How many words a bucket has.
pub(super) const SLOTS: usize = 8;

const _: () = assert!(SLOTS * WORD_BYTES == LINE_BYTES);

/// The word that names an entry. Never 0, as tags are not.
#[inline]
pub(super) fn pack(tag: u16, position: u64) -> u64 {
    u64::from(tag) << POSITION_BITS | position & POSITION_MASK
}

/// The low bits of the position that a word names.
#[inline]
pub(super) fn position(word: u64) -> u64 {
    word & POSITION_MASK
}

/// A bucket, as it was when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(pub(super) [u64; SLOTS]);

impl Line {
    /// The line that was read.
    #[inline]
    pub(super) fn parse(bytes: &[u8; LINE_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<WORD_BYTES>();
        Self(std::array::from_fn(|slot| u64::from_le_bytes(words[slot])))
    }

    /// Where the word with this tag is.
    #[inline]
    pub(super) fn find(&self, tag: u16) -> Option<usize> {
        self.0.iter().position(|word| word >> POSITION_BITS == u64::from(tag))
    }

    /// The word with this tag.
    #[inline]
    pub(super) fn word(&self, tag: u16) -> Option<u64> {
        self.find(tag).map(|slot| self.0[slot])
    }

    /// Where a new word with this tag goes while the log ends at `head`: where the tag is already, to an
    /// empty place, or to that of the oldest.
    pub(super) fn slot_for(&self, tag: u16, head: u64) -> usize {
        let age = |slot: &usize| head.wrapping_sub(self.0[*slot]) & POSITION_MASK;
        self.find(tag)
            .or_else(|| self.0.iter().position(|word| *word == 0))
            .or_else(|| (0..SLOTS).max_by_key(age))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_goes_to_its_tag_or_to_room_or_to_the_oldest() {
        let mut line = Line::default();
        assert_eq!((line.find(7), line.slot_for(7, 100)), (None, 0));
        line.0[0] = pack(3, 10);
        line.0[2] = pack(7, 20);
        assert_eq!((line.word(7), line.slot_for(7, 100)), (Some(pack(7, 20)), 2));
        assert_eq!(line.slot_for(9, 100), 1);
        // Positions that have just begun again are younger than those before.
        line.0 = std::array::from_fn(|slot| pack(slot as u16 + 1, slot as u64));
        line.0[5] = pack(6, POSITION_MASK - 3);
        assert_eq!(line.slot_for(99, 1 << POSITION_BITS | 50), 5);
        assert_eq!(position(line.0[5]), POSITION_MASK - 3);
    }
}
