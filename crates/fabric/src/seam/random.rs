//! Chance: the system's for keys and nonces, a seed's for everything that a test replays.

/// Gives unpredictable or seeded numbers.
pub trait Random: Send {
    /// The next 64 bits.
    fn next(&mut self) -> u64;

    /// A number below `bound`, which is not 0. The bias is below 2^-32 for bounds under 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether something that happens `per_million` times in a million happens now.
    fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }
}

/// Numbers that follow from a seed: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Random for Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Fills a buffer with bytes that nobody can predict: keys and nonces.
pub fn system_random(into: &mut [u8]) -> Result<(), rustix::io::Errno> {
    let mut filled = 0;
    while filled < into.len() {
        filled += rustix::rand::getrandom(&mut into[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays() {
        let take = |seed| {
            let mut random = Seeded::new(seed);
            (0..8).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut random = Seeded::new(1);
        let mut seen = [0u32; 7];
        for _ in 0..7000 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }
}
