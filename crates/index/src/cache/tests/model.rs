//! Against a map that may only lose entries.

use super::*;
use crate::cache::log::Log;
use crate::cache::space::POSITION_BITS;
use std::collections::HashMap;

#[derive(Default)]
struct Model {
    /// What each key has, unless it was forgotten.
    keys: HashMap<Vec<u8>, Found>,
    version: u64,
    put_bytes: u64,
}

fn key(random: &mut Random, keys: u64) -> Vec<u8> {
    let number = random.below(keys);
    let mut key = number.to_le_bytes().to_vec();
    // Most are short, some are not.
    key.resize(if number.is_multiple_of(97) { 8 + number as usize * 13 % 65_000 } else { 8 }, 1);
    key
}

fn value(random: &mut Random) -> Vec<u8> {
    let bytes = match random.below(1000) {
        0 => 200_000 + random.below(500_000),
        1..20 => random.below(20_000),
        _ => random.below(300),
    };
    vec![random.below(256) as u8; bytes as usize]
}

impl Model {
    /// One random operation, and a look at what it found.
    fn step(&mut self, cache: &mut Cache, random: &mut Random, keys: u64) {
        let key = key(random, keys);
        match random.below(10) {
            0..5 => {
                let (value, expires) = (value(random), random.below(3) * (1 << 50));
                let version = cache.put(&key, &value, expires).expect("a put is never refused");
                assert!(version > self.version);
                self.version = version;
                self.put_bytes += (key.len() + value.len()) as u64;
                self.keys.insert(key.clone(), Found { value, version, expires });
                assert_eq!(cache.both(&key).as_ref(), self.keys.get(&key), "just put");
            }
            5 => {
                let (seen, version) = cache.update(&key, Decision::Remove);
                self.check(&key, seen.as_ref());
                assert_eq!(version, Ok(0));
                self.keys.remove(&key);
                assert_eq!(cache.both(&key), None);
            }
            6 => {
                // Compare and swap: what the change is told of is what a get finds.
                let there = cache.get(&key);
                let (seen, version) = cache.update(&key, Decision::Keep);
                assert_eq!((version, &seen), (Ok(there.as_ref().map_or(0, |found| found.version)), &there));
                self.check(&key, seen.as_ref());
            }
            _ => {
                let found = cache.both(&key);
                self.check(&key, found.as_ref());
            }
        }
    }

    /// What was forgotten stays so.
    fn check(&mut self, key: &[u8], found: Option<&Found>) {
        match found {
            Some(found) => assert_eq!(self.keys.get(key), Some(found)),
            None => drop(self.keys.remove(key)),
        }
    }

    /// What a scan gives is what is there, each key once, and what the counts say.
    fn check_all(&mut self, cache: &mut Cache) {
        let all = cache.scan();
        let (mut payload_bytes, count) = (0, all.len() as u64);
        let scanned: HashMap<Vec<u8>, Found> = all.into_iter().collect();
        assert_eq!(scanned.len() as u64, count, "each key once");
        for (key, found) in &scanned {
            payload_bytes += (key.len() + found.value.len()) as u64;
            assert_eq!(self.keys.get(key), Some(found));
        }
        let stats = cache.owner.stats();
        assert_eq!((stats.keys, stats.payload_bytes), (count, payload_bytes));
        self.keys.retain(|key, _| scanned.contains_key(key));
        for key in self.keys.keys() {
            assert!(cache.get(key).is_some(), "scanned, so there");
        }
    }
}

fn run(mut cache: Cache, keys: u64, seed: u64) {
    let (mut model, mut random) = (Model::default(), Random(seed << 32));
    for _ in 0..10 {
        for _ in 0..3000 {
            model.step(&mut cache, &mut random, keys);
        }
        model.check_all(&mut cache);
    }
    let stats = cache.owner.stats();
    assert!(stats.evicted > 1000 && stats.hits > 1000, "{stats:?}");
    let (log_bytes, memory_mib) = (cache.roots.space.log_words() * 8, stats.memory_bytes >> 20);
    assert!(model.put_bytes > log_bytes * 10 / memory_mib, "{} of {log_bytes}", model.put_bytes);
}

#[test]
fn a_cache_is_a_map_that_may_only_lose() {
    for seed in 0..4 {
        run(Cache::new(heap(1, 8), 1 << 20), 300 + 3000 * (seed % 2), seed);
    }
}

#[test]
fn so_is_a_cache_in_pieces() {
    for seed in 4..7 {
        run(Cache::new(heap(4, 2), 4 << 20), 5000, seed);
    }
}

#[test]
fn so_is_a_cache_whose_positions_begin_again_in_the_index() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    let offset_bits = u64::BITS - (cache.roots.space.log_words() - 1).leading_zeros();
    cache.owner.log = Log::from_lap((1 << (POSITION_BITS - offset_bits)) - 3);
    let before = cache.put(b"key", b"value", 0).unwrap();
    run(cache, 3000, before);
}

#[test]
fn what_expired_is_counted_apart() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    for key in 0..50_000u32 {
        cache.put(&key.to_le_bytes(), &[1; 32], u64::from(key % 2)).unwrap();
    }
    let stats = cache.owner.stats();
    assert_eq!(stats.keys + stats.evicted + stats.expired, 50_000);
    assert!(stats.evicted.abs_diff(stats.expired) < 2000, "{stats:?}");
}
