//! Remembers dead ends, in bounded memory.
//!
//! A dead end is a set of operations in place and a state, from which no order leads on. Each is
//! known by 128 bits that its operations give by exclusive or. When there are too many, the older
//! half is forgotten: that costs time, not truth.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// 2^20 dead ends of 16 bytes: at most about 80 MB for both halves.
const HALF_MAX: usize = 1 << 20;

/// A hash for keys that are numbers.
#[derive(Default)]
pub(super) struct Mixer(u64);

pub(super) type Mixed = BuildHasherDefault<Mixer>;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        // All of its bits are as good as random already.
        self.0 = number as u64;
    }
}

/// SplitMix64's finish: every bit of the result depends on every bit of the number.
#[inline]
pub(super) fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// 128 bits that stand for a number.
#[inline]
pub(super) fn fingerprint(number: u64) -> u128 {
    (u128::from(mix(number)) << 64) | u128::from(mix(number ^ 0xA5A5_A5A5_0000_0000))
}

/// The dead ends.
#[derive(Default)]
pub(super) struct DeadEnds {
    young: HashSet<u128, Mixed>,
    old: HashSet<u128, Mixed>,
}

impl DeadEnds {
    #[inline]
    pub(super) fn contains(&self, key: u128) -> bool {
        (!self.young.is_empty() && self.young.contains(&key))
            || (!self.old.is_empty() && self.old.contains(&key))
    }

    pub(super) fn insert(&mut self, key: u128) {
        if self.young.len() == HALF_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key);
    }
}
