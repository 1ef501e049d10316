//! The simplest table that there can be, in the client's own process: a line for each key with its value in it,
//! half of the lines taken, and all lines of a batch asked for before the first is looked at. No versions, no
//! pointers, no writers: what is left between this and bare loads is what it takes to find a key at all.

use std::hint::black_box;
use std::io;

use barn_fabric::{Region, RegionOptions, Rights, Words};

use super::{Getter, check, missing};
use crate::bench::get::workload::{Key, LINE_BYTES, Pool, VALUE_BYTES, key, value};

const LINE_WORDS: usize = LINE_BYTES / 8;
/// Lines for each key.
const SPARSENESS: usize = 2;
/// Keys whose lines are asked for together.
const TOGETHER: usize = 32;

/// A table of lines: whether it is taken, key, value.
pub(crate) struct Flat {
    region: Region,
    lines: usize,
}

fn words_of<const WORDS: usize>(bytes: &[u8]) -> [u64; WORDS] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

impl Flat {
    /// With so many keys.
    pub(crate) fn load(keys: u32) -> io::Result<Self> {
        let lines = keys.max(1) as usize * SPARSENESS;
        let bytes = (lines * LINE_BYTES) as u64;
        let options = RegionOptions { remote: Rights::NONE, ..RegionOptions::readable(bytes) };
        let region = Region::allocate(&options).map_err(io::Error::other)?;
        let flat = Self { region, lines };
        for number in 0..keys {
            let key = key(u64::from(number));
            flat.insert(&key, &value(&key))?;
        }
        Ok(flat)
    }

    fn words(&self) -> &Words {
        self.region.words()
    }

    /// Where a key is looked for first.
    #[inline]
    fn home(&self, key: [u64; 2]) -> usize {
        let product = u128::from(key[0] ^ 0x9e37_79b9_7f4a_7c15) * u128::from(key[1] ^ 0xbf58_476d_1ce4_e5b9);
        let hash = (product as u64) ^ (product >> 64) as u64;
        ((u128::from(hash.wrapping_mul(0x94d0_49bb_1331_11eb)) * self.lines as u128) >> 64) as usize
    }

    #[inline]
    fn line(&self, at: usize) -> io::Result<[u64; LINE_WORDS]> {
        self.words().load_array((at * LINE_BYTES) as u64).map_err(io::Error::other)
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.lines { 0 } else { at + 1 }
    }

    fn insert(&self, key: &Key, value: &[u8; VALUE_BYTES]) -> io::Result<()> {
        let [one, two] = words_of(key);
        let mut at = self.home([one, two]);
        while self.line(at)?[0] != 0 {
            at = self.next(at);
        }
        let [a, b, c, d] = words_of(value);
        let stored = self.words().store_words((at * LINE_BYTES) as u64, &[1, one, two, a, b, c, d, 0]);
        stored.map_err(io::Error::other)
    }

    /// Takes a key's value out of the first line from `at` on that is its.
    #[inline]
    fn find(&self, mut at: usize, [one, two]: [u64; 2]) -> io::Result<Option<[u8; VALUE_BYTES]>> {
        loop {
            let [taken, first, second, value @ .., _] = self.line(at)?;
            if taken == 0 {
                return Ok(None);
            }
            if first == one && second == two {
                let mut bytes = [0; VALUE_BYTES];
                let (parts, _) = bytes.as_chunks_mut::<8>();
                for (part, word) in parts.iter_mut().zip(value) {
                    *part = word.to_le_bytes();
                }
                return Ok(Some(bytes));
            }
            at = self.next(at);
        }
    }
}

impl Getter for Flat {
    fn get(&mut self, pool: &Pool, at: usize, batch: usize, verify: bool) -> io::Result<()> {
        for keys in pool.keys[at..at + batch].chunks(TOGETHER) {
            let mut homes = [(0, [0; 2]); TOGETHER];
            for (home, key) in homes.iter_mut().zip(keys) {
                let words = words_of(key);
                *home = (self.home(words), words);
                self.words().prefetch((home.0 * LINE_BYTES) as u64, LINE_BYTES);
            }
            for ((home, words), key) in homes.into_iter().zip(keys) {
                let found = self.find(home, words)?.ok_or_else(|| missing(key))?;
                check(key, black_box(&found), verify)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::get::cell::Choice;

    #[test]
    fn every_key_has_its_value_and_no_other_is_there() {
        const KEYS: u32 = 5000;
        let mut flat = Flat::load(KEYS).expect("loads");
        let pool = Pool::new(Choice::Uniform, KEYS, 4096, 1, 1 << 20);
        for batch in [1, 32, 100] {
            flat.get(&pool, 7, batch, true).expect("all are there");
        }
        let absent = words_of(&key(u64::from(KEYS)));
        assert_eq!(flat.find(flat.home(absent), absent).expect("looks"), None);
    }
}
