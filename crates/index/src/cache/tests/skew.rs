//! How much of a skewed workload a cache holds that is far smaller.

use super::*;

/// Zipf's law with exponent 0.99 over `keys` keys: the sums of the first weights.
fn zipf(keys: usize) -> Vec<f64> {
    let weights = (1..=keys).map(|rank| (rank as f64).powf(-0.99));
    weights.scan(0.0, |sum, weight| Some((*sum += weight, *sum).1)).collect()
}

#[test]
fn a_tenth_of_the_memory_serves_most_gets() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    // 16-byte keys and 32-byte values: entries of 80 bytes.
    let capacity = cache.roots.space.log_words() as usize / 10;
    let sums = zipf(10 * capacity);
    let mut random = Random(42);
    let (mut hits, gets) = (0, 300_000);
    for round in 0..2 * gets {
        let at = random.below(1 << 53) as f64 / (1u64 << 53) as f64 * sums[sums.len() - 1];
        let mut key = [0; 16];
        key[..8].copy_from_slice(&(sums.partition_point(|sum| *sum < at) as u64).to_le_bytes());
        let found = cache.get(&key).is_some();
        // The first half fills it.
        hits += u32::from(found && round >= gets);
        if !found {
            cache.put(&key, &[9; 32], 0).unwrap();
        }
    }
    let stats = cache.owner.stats();
    let rate = f64::from(hits) / f64::from(gets);
    println!("hit rate {rate:.3}, {} keys in room for {capacity}", stats.keys);
    // The hottest tenth of the keys gets 80 % of the gets; first in, first out holds somewhat less.
    assert!((0.6..0.82).contains(&rate), "{rate}");
    assert!(stats.keys as f64 > 0.9 * capacity as f64, "{stats:?}");
}
