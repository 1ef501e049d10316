//! How long operations took: an HDR histogram, exact to a thousandth at every size.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// An hour: nothing here waits longer, and what does counts as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// A thousandth of a value is told apart.
const DIGITS: u8 = 3;

/// Times of operations, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

/// The same between processes: each value that came, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted(Vec<(u64, u64)>);

impl Default for Latencies {
    fn default() -> Self {
        // It grows with what comes: most never need the room for an hour.
        Self(Histogram::new(DIGITS).expect("is a number of digits"))
    }
}

impl Latencies {
    /// One operation took so long, or several did.
    pub(crate) fn record(&mut self, nanoseconds: u64, operations: u64) {
        // What is too long is kept as the longest: this cannot fail.
        let _ = self.0.record_n(nanoseconds.clamp(1, LATENCY_NS_MAX), operations);
    }

    /// Adds what another has seen.
    pub(crate) fn add(&mut self, counted: &Counted) {
        counted.0.iter().for_each(|(nanoseconds, operations)| self.record(*nanoseconds, *operations));
    }

    /// For another process.
    pub(crate) fn counted(&self) -> Counted {
        let each = self.0.iter_recorded();
        Counted(each.map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
    }

    /// Within this so many of a hundred ended, in nanoseconds.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64
    }

    /// The longest.
    pub(crate) fn max(&self) -> f64 {
        self.0.max() as f64
    }

    /// How many were recorded.
    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_to_a_thousandth() {
        let mut latencies = Latencies::default();
        (1..=100_000).for_each(|number| latencies.record(number * 10, 1));
        for (percent, exact) in [(50.0, 500_000.0), (99.0, 990_000.0), (99.9, 999_000.0)] {
            let found = latencies.percentile(percent);
            assert!((found / exact - 1.0).abs() < 0.0011, "{percent}: {found}");
        }
        assert!((latencies.max() / 1e6 - 1.0).abs() < 0.0011 && latencies.len() == 100_000);
    }

    #[test]
    fn what_went_through_a_line_of_text_is_the_same() {
        let mut latencies = Latencies::default();
        for (nanoseconds, operations) in [(0, 2), (17, 1), (123_456, 7), (u64::MAX, 1)] {
            latencies.record(nanoseconds, operations);
        }
        let line = serde_json::to_string(&latencies.counted()).expect("serializes");
        let mut back = Latencies::default();
        back.add(&serde_json::from_str(&line).expect("reads back"));
        assert_eq!((back.counted(), back.len()), (latencies.counted(), 11));
        for percent in [0.0, 10.0, 50.0, 90.0, 100.0] {
            assert_eq!(back.percentile(percent), latencies.percentile(percent));
        }
    }
}
