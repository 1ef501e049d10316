//! Keys, values, and which keys are asked for: the same for everybody, from a seed.

use barn_fabric::seam::{Random, Seeded};

use super::cell::Choice;
use crate::bench::workload::zipfian::Zipfian;

/// A key: sixteen hexadecimal digits, which every peer's protocol can carry.
pub(crate) type Key = [u8; 16];
/// The length of a value.
pub(crate) const VALUE_BYTES: usize = 32;

/// The key of a number. No two numbers have the same.
pub(crate) fn key(number: u64) -> Key {
    let mut digits = [0; 16];
    let scattered = scatter(number);
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(scattered >> (60 - 4 * at)) as usize & 15];
    }
    digits
}

/// A key's value: the key, and the key with every bit turned.
pub(crate) fn value(key: &Key) -> [u8; VALUE_BYTES] {
    std::array::from_fn(|at| if at < 16 { key[at] } else { !key[at - 16] })
}

/// SplitMix64's last steps: each number goes to another.
pub(crate) fn scatter(number: u64) -> u64 {
    Seeded::new(number).next()
}

/// A cache line: what holds a key and its value.
pub(crate) const LINE_BYTES: usize = 64;

/// Keys to ask for, in order.
pub(crate) struct Pool {
    pub(crate) keys: Vec<Key>,
    /// A place for each key in memory of a given length, at which bare loads look.
    pub(crate) offsets: Vec<u32>,
}

impl Pool {
    /// So many draws from `keys` keys, with places in so much memory.
    pub(crate) fn new(choice: Choice, keys: u32, draws: usize, seed: u64, memory_bytes: u32) -> Self {
        let numbers = numbers(choice, keys, draws, seed);
        let lines = u128::from(memory_bytes / LINE_BYTES as u32);
        let offset = |number: &u32| {
            let line = (u128::from(scatter(u64::from(*number))) * lines) >> 64;
            line as u32 * LINE_BYTES as u32
        };
        let offsets = numbers.iter().map(offset).collect();
        Self { keys: numbers.iter().map(|number| key(u64::from(*number))).collect(), offsets }
    }
}

/// The numbers of so many keys to ask for, in order.
pub(crate) fn numbers(choice: Choice, keys: u32, draws: usize, seed: u64) -> Vec<u32> {
    let mut random = Seeded::new(seed);
    match choice {
        Choice::Uniform => (0..draws).map(|_| random.below(u64::from(keys)) as u32).collect(),
        Choice::Zipf => {
            let zipf = Zipfian::over(u64::from(keys));
            // Hot keys are not neighbours.
            let scattered = |rank: u64| (scatter(!rank) % u64::from(keys)) as u32;
            (0..draws).map(|_| scattered(zipf.rank(&mut random))).collect()
        }
    }
}
