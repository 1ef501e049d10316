//! Zipf's law over ranks from 0, drawn in constant time.
//!
//! Gray and others, "Quickly generating billion-record synthetic databases" (SIGMOD 1994), figure 3, as
//! YCSB has it: theta is 0.99, and zeta grows with the items, term by term, where there come to be more.

use barn_fabric::seam::{Random, Seeded};

/// YCSB's exponent.
pub(crate) const THETA: f64 = 0.99;

/// The items that YCSB's scrambled Zipfian has, whatever the number of records: 0 up to and with 10^10.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000 + 1;
/// Zeta of 10^10 items, which YCSB has worked out once for all.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// A law over so many items.
#[derive(Clone, Debug)]
pub(crate) struct Zipfian {
    items: u64,
    zeta: f64,
    eta: f64,
}

/// The terms of zeta from one number of items up to another.
fn zeta_between(from: u64, to: u64) -> f64 {
    (from + 1..=to).map(|rank| (rank as f64).powf(-THETA)).sum()
}

/// A number in `[0, 1)`, with all the digits that there are.
pub(crate) fn fraction(random: &mut Seeded) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

impl Zipfian {
    /// Over so many items, at least one.
    pub(crate) fn over(items: u64) -> Self {
        let items = items.max(1);
        Self::with_zeta(items, zeta_between(0, items))
    }

    /// What YCSB's scrambled Zipfian draws from.
    pub(crate) fn scrambled() -> Self {
        Self::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)
    }

    fn with_zeta(items: u64, zeta: f64) -> Self {
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_between(0, 2) / zeta);
        Self { items, zeta, eta }
    }

    /// There are so many items from now on; fewer than there were is no change.
    pub(crate) fn grow(&mut self, items: u64) {
        if items > self.items {
            *self = Self::with_zeta(items, self.zeta + zeta_between(self.items, items));
        }
    }

    /// The next rank.
    pub(crate) fn rank(&self, random: &mut Seeded) -> u64 {
        let uniform = fraction(random);
        let at = uniform * self.zeta;
        if at < 1.0 {
            return 0;
        }
        if at < 1.0 + 0.5f64.powf(THETA) {
            return 1.min(self.items - 1);
        }
        let rank = self.items as f64 * (self.eta * uniform - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items - 1)
    }

    /// The chance of a rank.
    #[cfg(test)]
    pub(crate) fn chance(&self, rank: u64) -> f64 {
        ((rank + 1) as f64).powf(-THETA) / self.zeta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    /// How often each of the first ranks came.
    fn counts(zipfian: &Zipfian, seed: u64) -> Vec<f64> {
        let mut random = Seeded::new(seed);
        let mut counts = vec![0.0; 1000];
        for _ in 0..DRAWS {
            if let Some(count) = counts.get_mut(zipfian.rank(&mut random) as usize) {
                *count += 1.0;
            }
        }
        counts
    }

    /// Euler and Maclaurin's expansion of the sum; its error is below 1e-12 for so many items.
    fn zeta_by_expansion(items: f64) -> f64 {
        // The Riemann zeta function at 0.99, by Laurent's series around 1 with the first Stieltjes constants.
        let (gamma_0, gamma_1, gamma_2) =
            (0.577_215_664_901_533, -0.072_815_845_483_677, -0.009_690_363_192_872);
        let away = THETA - 1.0;
        let riemann = 1.0 / away + gamma_0 - gamma_1 * away + gamma_2 * away * away / 2.0;
        riemann + items.powf(1.0 - THETA) / (1.0 - THETA) + items.powf(-THETA) / 2.0
            - THETA * items.powf(-THETA - 1.0) / 12.0
    }

    #[test]
    fn zeta_is_its_closed_form_and_so_is_ycsbs_constant() {
        for items in [100, 10_000, 1_000_000] {
            let (ours, closed) = (Zipfian::over(items).zeta, zeta_by_expansion(items as f64));
            assert!((ours - closed).abs() < 1e-6, "{items}: {ours} and {closed}");
        }
        let closed = zeta_by_expansion(1e10);
        assert!((SCRAMBLED_ZETA - closed).abs() < 1e-6, "{SCRAMBLED_ZETA} and {closed}");
    }

    #[test]
    fn the_constant_for_two_items_is_grays() {
        assert!((zeta_between(0, 2) - (1.0 + 0.5f64.powf(0.99))).abs() < 1e-15);
        assert!((zeta_between(0, 2) - 1.503_477_775_053_2).abs() < 1e-9, "{}", zeta_between(0, 2));
    }

    #[test]
    fn a_law_that_grew_is_the_law_over_as_many_items() {
        let mut grown = Zipfian::over(1000);
        (1001..=5000).for_each(|items| grown.grow(items));
        let fresh = Zipfian::over(5000);
        assert!((grown.zeta - fresh.zeta).abs() < 1e-9 && (grown.eta - fresh.eta).abs() < 1e-9);
        grown.grow(10);
        assert_eq!(grown.items, 5000, "it does not shrink");
    }

    #[test]
    fn the_first_two_ranks_come_as_often_as_the_law_says() {
        // Gray's method is exact for these two: within five standard deviations.
        for zipfian in [Zipfian::over(1000), Zipfian::over(1_000_000), Zipfian::scrambled()] {
            let counts = counts(&zipfian, 1);
            for (rank, count) in counts.iter().take(2).enumerate() {
                let chance = zipfian.chance(rank as u64);
                let (mean, deviation) =
                    (DRAWS as f64 * chance, (DRAWS as f64 * chance * (1.0 - chance)).sqrt());
                assert!((count - mean).abs() < 5.0 * deviation, "{rank}: {count}, not {mean}");
            }
        }
    }

    #[test]
    fn the_hottest_ranks_together_have_their_share() {
        // Past the second rank the method approximates the law, and has a closed form of its own: a rank is
        // below k where the uniform number is below this.
        let zipfian = Zipfian::over(100_000);
        let counts = counts(&zipfian, 2);
        for first in [10, 100, 1000] {
            let below = (first as f64 / 100_000.0).powf(1.0 - THETA);
            let method = (below - 1.0 + zipfian.eta) / zipfian.eta;
            let share: f64 = counts[..first].iter().sum::<f64>() / DRAWS as f64;
            let deviation = (method * (1.0 - method) / DRAWS as f64).sqrt();
            assert!((share - method).abs() < 5.0 * deviation, "{first}: {share}, not {method}");
            let law: f64 = (0..first as u64).map(|rank| zipfian.chance(rank)).sum();
            assert!((share / law - 1.0).abs() < 0.06, "{first}: {share}, where the law has {law}");
        }
    }

    #[test]
    fn ranks_stay_within_the_items() {
        for items in [1, 2, 3, 7] {
            let (zipfian, mut random) = (Zipfian::over(items), Seeded::new(items));
            assert!((0..10_000).all(|_| zipfian.rank(&mut random) < items), "{items}");
        }
    }
}
