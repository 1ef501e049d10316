//! The free slots of a run: two levels of bits, so that finding one takes a few steps.
//!
//! What always holds: bit `i` of `free` is set exactly if slot `i` is free; bit `w` of `summary` is
//! set exactly if word `w` of `free` is not zero; `count` is the number of bits set in `free`.

/// Which slots of a run are free.
#[derive(Debug)]
pub(crate) struct FreeSlots {
    free: Vec<u64>,
    summary: Vec<u64>,
    count: usize,
    slots: usize,
}

impl FreeSlots {
    /// `slots` slots, all free.
    pub(crate) fn all(slots: usize) -> Self {
        let free = ones(slots);
        Self { summary: ones(free.len()), free, count: slots, slots }
    }

    /// How many are free.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many there are, free or not.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Whether a slot is free.
    #[inline]
    pub(crate) fn is_free(&self, slot: usize) -> bool {
        self.free[slot / 64] >> (slot % 64) & 1 == 1
    }

    /// The first slot of the first `count` free ones in a row.
    pub(crate) fn find(&self, count: usize) -> Option<usize> {
        if count > self.count {
            return None;
        }
        if count == 1 {
            let (at, word) = self.summary.iter().enumerate().find(|(_, word)| **word != 0)?;
            let word_at = at * 64 + word.trailing_zeros() as usize;
            return Some(word_at * 64 + self.free[word_at].trailing_zeros() as usize);
        }
        let (mut start, mut slot) = (0, 0);
        while slot < self.slots {
            if slot.is_multiple_of(64) && self.free[slot / 64] == 0 {
                slot += 64;
                start = slot;
                continue;
            }
            if !self.is_free(slot) {
                start = slot + 1;
            } else if slot + 1 - start == count {
                return Some(start);
            }
            slot += 1;
        }
        None
    }

    /// Takes a free slot.
    #[inline]
    pub(crate) fn take(&mut self, slot: usize) {
        debug_assert!(self.is_free(slot));
        let word = &mut self.free[slot / 64];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.summary[slot / 64 / 64] &= !(1 << (slot / 64 % 64));
        }
        self.count -= 1;
    }

    /// Gives a slot back.
    #[inline]
    pub(crate) fn give(&mut self, slot: usize) {
        debug_assert!(!self.is_free(slot));
        self.free[slot / 64] |= 1 << (slot % 64);
        self.summary[slot / 64 / 64] |= 1 << (slot / 64 % 64);
        self.count += 1;
    }
}

/// Words with the first `bits` bits set.
fn ones(bits: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; bits / 64];
    if !bits.is_multiple_of(64) {
        words.push((1 << (bits % 64)) - 1);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_fabric::seam::{Random, Seeded};

    #[test]
    fn it_finds_what_a_plain_search_finds() {
        let mut random = Seeded::new(1);
        for slots in [1, 2, 63, 64, 65, 1000, 16384] {
            let (mut set, mut model) = (FreeSlots::all(slots), vec![true; slots]);
            for _ in 0..2000 {
                let slot = random.below(slots as u64) as usize;
                match model[slot] {
                    true => set.take(slot),
                    false => set.give(slot),
                }
                model[slot] = !model[slot];
                assert_eq!(set.count(), model.iter().filter(|free| **free).count());
                let count = 1 + random.below(5) as usize;
                let plain = model.windows(count).position(|run| run.iter().all(|free| *free));
                assert_eq!(set.find(count), plain, "{count} of {slots}");
            }
        }
    }
}
