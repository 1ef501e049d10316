//! Which record comes next: YCSB's three laws.
//!
//! | law | which record |
//! |---|---|
//! | uniform | any, with the same chance |
//! | zipfian | YCSB's scrambled Zipfian: a rank of 10^10, hashed by FNV-1a, modulo the records |
//! | latest | a rank of the records, counted from the newest |
//!
//! The first two choose among the records that were loaded, as YCSB's do: they know nothing of inserts.

use barn_fabric::seam::{Random, Seeded};
use serde::{Deserialize, Serialize};

use super::fnv;
use super::zipfian::Zipfian;

/// A law of choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Law {
    /// Any record, with the same chance.
    Uniform,
    /// Zipf's law with exponent 0.99, what is popular scattered over the records.
    Zipfian,
    /// Zipf's law with exponent 0.99 over the age: the newest record is the most popular.
    Latest,
}

/// A law at work.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    records: u64,
    law: Law,
    zipfian: Zipfian,
    random: Seeded,
}

impl Chooser {
    /// A law over the records that were loaded, at least one.
    pub(crate) fn new(law: Law, records: u64, seed: u64) -> Self {
        let zipfian = match law {
            Law::Latest => Zipfian::over(records),
            _ => Zipfian::scrambled(),
        };
        Self { records: records.max(1), law, zipfian, random: Seeded::new(seed) }
    }

    /// The next record's number; how far back from the newest one where the law is `latest`.
    pub(crate) fn next(&mut self) -> u64 {
        match self.law {
            Law::Uniform => self.random.below(self.records),
            Law::Zipfian => fnv::scattered(self.zipfian.rank(&mut self.random)) % self.records,
            Law::Latest => self.zipfian.rank(&mut self.random),
        }
    }

    /// A record was inserted: it is the newest now.
    pub(crate) fn inserted(&mut self) {
        if self.law == Law::Latest {
            self.records += 1;
            self.zipfian.grow(self.records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 300_000;

    fn counts(law: Law, records: u64, seed: u64) -> Vec<f64> {
        let mut chooser = Chooser::new(law, records, seed);
        let mut counts = vec![0.0; records as usize];
        (0..DRAWS).for_each(|_| counts[chooser.next() as usize] += 1.0);
        counts
    }

    #[test]
    fn uniform_passes_a_chi_square_test() {
        let records = 100;
        let expected = DRAWS as f64 / records as f64;
        let square: f64 = counts(Law::Uniform, records, 7)
            .iter()
            .map(|count| (count - expected) * (count - expected) / expected)
            .sum();
        // 99 degrees of freedom: 0.1 % of all seeds are above 148.2 and 0.1 % below 60.7.
        assert!((60.7..148.2).contains(&square), "{square}");
    }

    #[test]
    fn the_hottest_records_of_the_scrambled_law_are_where_their_hashes_say() {
        let records = 1000;
        let counts = counts(Law::Zipfian, records, 3);
        let zipfian = Zipfian::scrambled();
        let hottest = (0..records).max_by(|a, b| counts[*a as usize].total_cmp(&counts[*b as usize]));
        assert_eq!(hottest, Some(fnv::scattered(0) % records));
        // A rank's own share, and its part of the ranks that are spread over everybody.
        let tail = 1.0 - (0..20).map(|rank| zipfian.chance(rank)).sum::<f64>();
        for rank in 0..2 {
            let share = counts[(fnv::scattered(rank) % records) as usize] / DRAWS as f64;
            let least = zipfian.chance(rank);
            assert!(
                (least * 0.95..least * 1.05 + 20.0 * tail / records as f64).contains(&share),
                "{rank}: {share}"
            );
        }
        assert!(counts.iter().all(|count| *count > 0.0), "every record is asked for");
    }

    #[test]
    fn the_scrambled_law_is_not_the_law_over_the_records() {
        // 10^10 items: the hottest has 1 in 26.5, where the law over 1000 records gives it 1 in 7.7.
        let counts = counts(Law::Zipfian, 1000, 5);
        let hottest = counts.iter().copied().fold(0.0, f64::max) / DRAWS as f64;
        assert!((0.037..0.041).contains(&hottest), "{hottest}");
    }

    #[test]
    fn latest_is_counted_from_the_newest_and_grows_with_inserts() {
        let counts = counts(Law::Latest, 1000, 9);
        let law = Zipfian::over(1000);
        let (newest, expected) = (counts[0], DRAWS as f64 * law.chance(0));
        assert!((newest - expected).abs() < 5.0 * expected.sqrt(), "{newest}, not {expected}");
        let mut grown = Chooser::new(Law::Latest, 10, 1);
        (0..10_000).for_each(|_| grown.inserted());
        let furthest = (0..10_000).map(|_| grown.next()).max().expect("some");
        assert!((1000..10_010).contains(&furthest), "{furthest}");
    }

    #[test]
    fn a_seed_chooses_the_same_again() {
        for law in [Law::Uniform, Law::Zipfian, Law::Latest] {
            let draw = |seed| {
                let mut chooser = Chooser::new(law, 5000, seed);
                (0..100).map(|_| chooser.next()).collect::<Vec<_>>()
            };
            assert_eq!(draw(1), draw(1));
            assert_ne!(draw(1), draw(2), "{law:?}");
        }
    }
}
