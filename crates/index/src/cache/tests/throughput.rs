//! How fast a shard is on one core: a measurement, run by hand with optimisation.
//!
//! `CARGO_PROFILE_TEST_OPT_LEVEL=3 cargo test -p barn-index cache_throughput -- --ignored --nocapture`

use super::*;
use std::time::Duration;

const KEYS: u64 = 1_500_000;
const ROUNDS: u64 = 4_000_000;
const BATCH: usize = 16;

fn key(number: u64) -> [u8; 16] {
    let mut key = [0x6b; 16];
    key[..8].copy_from_slice(&number.to_le_bytes());
    key
}

/// The time that this thread has had a core, so that others on the machine do not count.
fn on_core() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(said.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn measure(what: &str, mut work: impl FnMut(&mut Random) -> u64) {
    let (start, mut random, mut done) = (on_core(), Random(9), 0);
    while done < ROUNDS {
        done += work(&mut random);
    }
    let rate = done as f64 / (on_core() - start).as_secs_f64();
    println!("{what}: {:.2} M/s, {:.0} ns each", rate / 1e6, 1e9 / rate);
}

#[test]
#[ignore = "a measurement"]
fn cache_throughput() {
    let mut cache = Cache::new(heap(1, 300), 256 << 20);
    measure("puts, 32 bytes", |random| {
        cache.put(&key(random.below(KEYS)), &[7; 32], 0).unwrap();
        1
    });
    measure("gets at the node", |random| {
        cache.get(&key(random.below(KEYS)));
        1
    });
    let mut found = vec![Found::default(); BATCH];
    let Cache { heap, owner, memory, roots } = &mut cache;
    measure("gets at the node, 16 together", |random| {
        let bytes: [[u8; 16]; BATCH] = std::array::from_fn(|_| key(random.below(KEYS)));
        let keys = bytes.each_ref().map(|bytes| Key::new(SEED, bytes));
        keys.iter().for_each(|key| owner.prefetch(heap, *key));
        keys.iter().for_each(|key| drop(owner.get(heap, *key, &mut found[0])));
        BATCH as u64
    });
    measure("lookups in mapped memory", |random| {
        let bytes = key(random.below(KEYS));
        block_on(roots.lookup(memory, Key::new(SEED, &bytes), &mut found[0], &mut 0)).unwrap();
        1
    });
    measure("lookups in mapped memory, 16 together", |random| {
        let bytes: [[u8; 16]; BATCH] = std::array::from_fn(|_| key(random.below(KEYS)));
        let keys = bytes.each_ref().map(|bytes| Key::new(SEED, bytes));
        let mut looked = [Looked::Stale; BATCH];
        roots.lookup_batch_mapped(memory, &keys, &mut found, &mut looked, &mut 0).unwrap();
        BATCH as u64
    });
    println!("{:?}", owner.stats());
    let long = vec![1; 64 << 20];
    for what in ["over short ones", "over short ones", "over short ones", "over both", "over a long one"] {
        let start = on_core();
        cache.put(b"long", &long, 0).unwrap();
        println!("a put of 64 MiB {what}: {:?}", on_core() - start);
    }
}
