//! The hash of a key: the same in every process, different in every table.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// XXH3 with the table's own seed, so that nobody can choose keys that collide.
#[inline]
pub(crate) fn hash(seed: u64, key: &[u8]) -> u64 {
    match key.len() {
        // What most keys are, where they are hashed: of the function nothing is left but its part for such lengths.
        9..=16 => xxh3_64_with_seed(key, seed),
        _ => hash_any(seed, key),
    }
}

#[inline(never)]
fn hash_any(seed: u64, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, seed)
}

/// A number below `bound` that follows from all bits of `hash`, without a division.
#[inline]
pub(crate) const fn scale(hash: u64, bound: u64) -> u64 {
    ((hash as u128 * bound as u128) >> 64) as u64
}

/// Another hash out of a hash: neighbouring seeds give unrelated ones.
#[inline]
pub(crate) const fn remix(hash: u64, seed: u64) -> u64 {
    let product = (hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) as u128 * 0xd6e8_feb8_6659_fd93;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_spread_over_any_bound() {
        let mut counts = [0; 10];
        for key in 0..10_000u32 {
            counts[scale(hash(7, &key.to_le_bytes()), 10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn seeds_make_other_hashes() {
        assert_ne!(hash(1, b"key"), hash(2, b"key"));
        let same =
            (0..1000u64).filter(|hash| scale(remix(hash << 32, 1), 64) == scale(remix(hash << 32, 2), 64));
        assert!(same.count() < 60);
    }
}
