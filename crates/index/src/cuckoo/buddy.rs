//! A buddy allocator over the atoms of one chunk: SQLite's mem5, as Pilaf uses it (section 4).
//!
//! Blocks are powers of two of 64-byte atoms, each at a multiple of its length. The least free block
//! that is long enough is taken, of those the one at the lowest place, and halved as needed; a freed
//! block joins its other half for as long as that is free too. J. M. Robson's bound, which mem5
//! quotes: with a total in use of at most M and blocks of 1 to n atoms, no request fails if there
//! are M * (1 + log2(n) / 2) - n + 1 atoms.

use super::bits::Bits;

/// The shortest block.
pub(super) const ATOM_BYTES: usize = 64;
/// The longest block is this power of two of atoms: 32 KiB. What is longer has heap memory of its
/// own, whose size classes waste 3.4 % at most instead of half.
pub(super) const ORDER_MAX: usize = 9;

/// The free blocks of one chunk.
#[derive(Clone, Debug)]
pub(super) struct Buddy {
    atoms: usize,
    used: usize,
    /// A bit for each order of which there is a free block.
    open: u16,
    /// For each order the free blocks, by their number among the blocks of that order.
    free: [Bits; ORDER_MAX + 1],
}

/// The order of the blocks that hold so many bytes, if there is one.
pub(super) fn order_of(bytes: usize) -> Option<usize> {
    let order = bytes.div_ceil(ATOM_BYTES).max(1).next_power_of_two().trailing_zeros() as usize;
    (order <= ORDER_MAX).then_some(order)
}

impl Buddy {
    /// `atoms` atoms, all free.
    pub(super) fn new(atoms: usize) -> Self {
        let free = std::array::from_fn(|order| Bits::new((atoms >> order) + 1));
        let mut buddy = Self { atoms, used: 0, open: 0, free };
        let mut at = 0;
        while at < atoms {
            let order =
                (at.trailing_zeros().min(ORDER_MAX as u32) as usize).min((atoms - at).ilog2() as usize);
            buddy.add(order, at >> order);
            at += 1 << order;
        }
        buddy
    }

    /// The orders of which there is a free block, a bit for each.
    pub(super) fn open(&self) -> u16 {
        self.open
    }

    fn add(&mut self, order: usize, block: usize) {
        self.free[order].add(block);
        self.open |= 1 << order;
    }

    fn remove(&mut self, order: usize, block: usize) {
        self.free[order].remove(block);
        if self.free[order].is_empty() {
            self.open &= !(1 << order);
        }
    }

    /// Whether nothing is in use.
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Takes the first atom of a block of `order`, out of a free block of order `from`.
    pub(super) fn take(&mut self, order: usize, from: usize) -> Option<usize> {
        let block = self.free[from].first()?;
        self.remove(from, block);
        let at = block << from;
        for half in (order..from).rev() {
            self.add(half, (at >> half) + 1);
        }
        self.used += 1 << order;
        Some(at)
    }

    /// Takes the very block of `order` at atom `at`; `false` if it is not free, or can be none.
    pub(super) fn claim(&mut self, at: usize, order: usize) -> bool {
        if !at.is_multiple_of(1 << order) || at + (1 << order) > self.atoms {
            return false;
        }
        let Some(from) = (order..=ORDER_MAX).find(|from| self.free[*from].has(at >> from)) else {
            return false;
        };
        self.remove(from, at >> from);
        for half in order..from {
            self.add(half, (at >> half) ^ 1);
        }
        self.used += 1 << order;
        true
    }

    /// Gives the block of `order` at atom `at` back.
    pub(super) fn give(&mut self, mut at: usize, mut order: usize) {
        debug_assert!(at + (1 << order) <= self.atoms && !self.free[order].has(at >> order));
        self.used -= 1 << order;
        while order < ORDER_MAX {
            let other = (at >> order) ^ 1;
            if !self.free[order].has(other) {
                break;
            }
            self.remove(order, other);
            at &= !(1 << order);
            order += 1;
        }
        self.add(order, at >> order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(buddy: &mut Buddy, order: usize) -> Option<usize> {
        let from = (order..=ORDER_MAX).find(|from| buddy.open() >> from & 1 == 1)?;
        buddy.take(order, from)
    }

    #[test]
    fn blocks_do_not_overlap_and_join_again() {
        for atoms in [1023, 1024, 700, 1] {
            let whole = Buddy::new(atoms);
            let mut buddy = whole.clone();
            let (mut held, mut used, mut chance) = (Vec::<(usize, usize)>::new(), vec![false; atoms], 7u64);
            for _ in 0..5000 {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let order = (chance >> 33) as usize % 7;
                if chance >> 62 < 2 && !held.is_empty() {
                    let (at, order) = held.swap_remove((chance >> 20) as usize % held.len());
                    used[at..at + (1 << order)].fill(false);
                    buddy.give(at, order);
                } else if let Some(at) = take(&mut buddy, order) {
                    assert_eq!(at % (1 << order), 0);
                    assert!(used[at..at + (1 << order)].iter().all(|used| !used));
                    used[at..at + (1 << order)].fill(true);
                    held.push((at, order));
                }
            }
            // Whoever claims the same blocks has the same left, in whatever order they come.
            let mut again = whole.clone();
            held.iter().rev().for_each(|(at, order)| assert!(again.claim(*at, *order)));
            assert_eq!(format!("{again:?}"), format!("{buddy:?}"));
            assert!(held.iter().all(|(at, order)| !again.claim(*at, *order)), "claimed twice");
            assert!(!again.claim(1, 1) && !again.claim(atoms, 0), "no block can be there");
            held.into_iter().for_each(|(at, order)| buddy.give(at, order));
            assert!(buddy.is_empty());
            assert_eq!(format!("{buddy:?}"), format!("{whole:?}"));
        }
    }

    #[test]
    fn the_lowest_place_is_taken() {
        let mut buddy = Buddy::new(64);
        let places: Vec<_> = (0..4).filter_map(|_| take(&mut buddy, 0)).collect();
        assert_eq!(places, [0, 1, 2, 3]);
        buddy.give(1, 0);
        buddy.give(3, 0);
        assert_eq!(take(&mut buddy, 0), Some(1));
        assert_eq!(order_of(64), Some(0));
        assert_eq!(order_of(65), Some(1));
        assert_eq!(order_of(64 << ORDER_MAX), Some(ORDER_MAX));
        assert_eq!(order_of((64 << ORDER_MAX) + 1), None);
    }
}
