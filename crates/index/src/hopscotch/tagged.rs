//! Which slots of a bucket have the tag of a key: the control words, two in a word, are compared two at a time.
//!
//! What always holds: it is known by arithmetic alone, without a loop or a branch for each slot; nothing past
//! the last slot counts, whatever is there.

use super::bucket::{CONTROL_BYTES, Control};
use barn_heap::HEADER_BYTES;
use barn_layout::limits::WORD_BYTES;
use barn_layout::planted;

/// Where a control word's tag is, in each half of a word.
const TAGS: u64 = 0xff | 0xff << 32;
/// One in each half.
const ONES: u64 = 1 | 1 << 32;
/// A bit for the first of two slots, and one for the second; those of the next two are one higher.
const FIRST_BIT: u32 = 8;
const SECOND_BIT: u32 = FIRST_BIT + 32;
const _: () = assert!(CONTROL_BYTES * 2 == WORD_BYTES);

/// The control words of two slots, of an object whose control words start at `START`, after the header.
#[inline(always)]
fn pair<const WORDS: usize, const START: usize>(words: &[u64; WORDS], pair: usize) -> u64 {
    let at = (HEADER_BYTES + START) / WORD_BYTES + pair;
    match Tagged::straddles::<START>() {
        true => words[at] >> 32 | words[at + 1] << 32,
        false => words[at],
    }
}

/// The control word of a slot.
#[inline(always)]
pub(super) fn control<const WORDS: usize, const START: usize>(words: &[u64; WORDS], slot: usize) -> Control {
    let two = match Tagged::pairs::<WORDS, START>() {
        // One of two values that are at hand, rather than one out of memory.
        2 => match slot / 2 {
            0 => pair::<WORDS, START>(words, 0),
            _ => pair::<WORDS, START>(words, 1),
        },
        _ => pair::<WORDS, START>(words, slot / 2),
    };
    Control((two >> (slot % 2 * 32)) as u32)
}

/// Slots that have a tag: bit 8 + n for slot 2n, bit 40 + n for slot 2n + 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tagged(u64);

impl Tagged {
    /// The slots with this tag, of the first `slots` of an object with these words, whose control words start
    /// at `START`, after the header.
    #[inline(always)]
    pub(super) fn in_words<const WORDS: usize, const START: usize>(
        words: &[u64; WORDS],
        slots: usize,
        tag: u8,
    ) -> Self {
        let wanted = u64::from(tag) * ONES;
        let mut alike = 0;
        for at in 0..Self::pairs::<WORDS, START>() {
            // Of tags that differ something is left, and 256 less that is less than 256.
            let left = (pair::<WORDS, START>(words, at) ^ wanted) & TAGS;
            alike |= (((ONES << FIRST_BIT) - left) & (ONES << FIRST_BIT)) << at;
        }
        let slots = if planted("tag_past_the_last_slot") { Self::pairs::<WORDS, START>() * 2 } else { slots };
        Self(alike & Self::all(slots))
    }

    /// Whether the first control word is the second half of a word.
    const fn straddles<const START: usize>() -> bool {
        !(HEADER_BYTES + START).is_multiple_of(WORD_BYTES)
    }

    /// How many pairs of control words so many words have.
    const fn pairs<const WORDS: usize, const START: usize>() -> usize {
        WORDS - (HEADER_BYTES + START).div_ceil(WORD_BYTES)
    }

    /// The bits of so many slots.
    #[inline(always)]
    const fn all(slots: usize) -> u64 {
        ((1 << slots.div_ceil(2)) - 1) << FIRST_BIT | ((1 << (slots / 2)) - 1) << SECOND_BIT
    }

    #[inline(always)]
    fn slot(bit: u32) -> usize {
        let second = bit / 32;
        ((bit % 32 - FIRST_BIT) * 2 + second) as usize
    }

    /// One of them.
    #[inline(always)]
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| Self::slot(self.0.trailing_zeros()))
    }
}

impl Iterator for Tagged {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let slot = self.first()?;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bucket::HEAD_BYTES;
    use super::*;
    use barn_fabric::seam::{Random, Seeded};

    /// Words of a bucket or block with these tags; whatever else there is, is noise.
    fn words<const WORDS: usize, const START: usize>(tags: &[u8], noise: &mut Seeded) -> [u64; WORDS] {
        let mut words: [u64; WORDS] = std::array::from_fn(|_| noise.next());
        for (slot, tag) in tags.iter().enumerate() {
            let at = HEADER_BYTES + START + slot * CONTROL_BYTES;
            let shift = at % WORD_BYTES * 8;
            let word = &mut words[at / WORD_BYTES];
            *word = *word & !(0xff << shift) | u64::from(*tag) << shift;
        }
        words
    }

    fn check<const WORDS: usize, const START: usize>(slots_max: usize) {
        let mut random = Seeded::new(7);
        for round in 0..2000 {
            let slots = 1 + round % slots_max;
            // Few tags, so that some are alike; all of them now and then.
            let few = [0, 1, 2, 127, 128, 254, 255];
            let tags: Vec<u8> = (0..slots_max).map(|_| few[random.below(7) as usize]).collect();
            let tag = match round % 3 {
                0 => random.next() as u8,
                _ => few[random.below(7) as usize],
            };
            let words = words::<WORDS, START>(&tags, &mut random);
            let mut found: Vec<usize> = Tagged::in_words::<WORDS, START>(&words, slots, tag).collect();
            found.sort_unstable();
            let wanted: Vec<usize> = (0..slots).filter(|slot| tags[*slot] == tag).collect();
            assert_eq!(found, wanted, "{tag} among {tags:?}");
            for (slot, tag) in tags.iter().enumerate() {
                let at = HEADER_BYTES + START + slot * CONTROL_BYTES;
                let bits = (words[at / WORD_BYTES] >> (at % WORD_BYTES * 8)) as u32;
                assert_eq!(control::<WORDS, START>(&words, slot), Control(bits), "{slot}");
                assert_eq!(Control(bits).tag(), *tag);
            }
        }
    }

    #[test]
    fn the_slots_with_a_tag_are_found_and_no_others() {
        check::<7, HEAD_BYTES>(4);
        check::<9, HEAD_BYTES>(8);
        check::<11, 0>(15);
    }
}
