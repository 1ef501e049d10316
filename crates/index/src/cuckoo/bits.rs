//! A set of small numbers that finds its least quickly: a tree of 64-bit words.

/// A set of numbers below a bound.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    /// The lowest level first; a bit of a higher one says that the word below holds any.
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// An empty set of numbers below `bound`.
    pub(super) fn new(bound: usize) -> Self {
        let mut levels = vec![vec![0; bound.div_ceil(64).max(1)]];
        while let Some(last) = levels.last()
            && last.len() > 1
        {
            let above = vec![0; last.len().div_ceil(64)];
            levels.push(above);
        }
        Self { levels }
    }

    /// Whether `number` is in.
    pub(super) fn has(&self, number: usize) -> bool {
        self.levels[0].get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts `number` in.
    pub(super) fn add(&mut self, mut number: usize) {
        for level in &mut self.levels {
            level[number / 64] |= 1 << (number % 64);
            number /= 64;
        }
    }

    /// Takes `number` out.
    pub(super) fn remove(&mut self, mut number: usize) {
        for level in &mut self.levels {
            level[number / 64] &= !(1 << (number % 64));
            if level[number / 64] != 0 {
                return;
            }
            number /= 64;
        }
    }

    /// Whether none is in.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.last().is_none_or(|top| top[0] == 0)
    }

    /// The least number that is in.
    pub(super) fn first(&self) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            if word == 0 {
                return None;
            }
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_on_every_level() {
        let mut bits = Bits::new(70_000);
        assert_eq!(bits.first(), None);
        for number in [69_999, 4096, 64, 63, 0] {
            bits.add(number);
            assert_eq!(bits.first(), Some(number));
        }
        for number in [0, 63, 64, 4096, 69_999] {
            assert!(bits.has(number));
            assert_eq!(bits.first(), Some(number));
            bits.remove(number);
        }
        assert_eq!(bits.first(), None);
    }
}
