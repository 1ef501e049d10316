//! What was measured, by name: the repeats of each value, in the order in which they were measured.

use std::collections::BTreeMap;

use super::claim::Ours;
use crate::report::{Report, Row, Spread};

/// Measured values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(BTreeMap<String, Samples>);

#[derive(Clone, Debug)]
struct Samples {
    samples: Vec<f64>,
    /// Whether they are repeats in order, and not only the lowest, the middle and the highest of some.
    in_order: bool,
}

impl Values {
    /// Keeps the repeats of a value.
    pub(crate) fn set(&mut self, name: impl Into<String>, samples: Vec<f64>) {
        self.0.insert(name.into(), Samples { samples, in_order: true });
    }

    /// Keeps a value of which only the spread is known.
    pub(crate) fn set_spread(&mut self, name: impl Into<String>, spread: Spread) {
        let samples = vec![spread.low, spread.median, spread.high];
        self.0.insert(name.into(), Samples { samples, in_order: false });
    }

    /// The repeats of a value.
    pub(crate) fn get(&self, name: &str) -> Option<&[f64]> {
        self.there(name).map(|there| there.samples.as_slice())
    }

    fn there(&self, name: &str) -> Option<&Samples> {
        self.0.get(name).filter(|there| !there.samples.is_empty())
    }

    /// Keeps under `name` the one of several that has the highest median; nothing if none is there.
    pub(crate) fn set_best(&mut self, name: impl Into<String>, of: &[String]) {
        let there = of.iter().filter_map(|one| self.get(one));
        let best = there.max_by(|a, b| Spread::of(a).median.total_cmp(&Spread::of(b).median));
        if let Some(best) = best.map(<[f64]>::to_vec) {
            self.set(name, best);
        }
    }

    /// Keeps every row of a benchmark: its value as `BENCH/NAME`, and its ratio as `BENCH/NAME:ratio`.
    pub(crate) fn take(&mut self, report: &Report) {
        for row in &report.rows {
            let name = format!("{}/{}", report.bench, row.name);
            self.set_spread(&name, Spread { median: row.value, low: row.low, high: row.high });
            if let Some(ratio) = row.ratio {
                // The worst of ours over the best of theirs, and the other way round.
                let (least, most) =
                    (row.low / beside(row, "beside_high"), row.high / beside(row, "beside_low"));
                self.set_spread(format!("{name}:ratio"), Spread { median: ratio, low: least, high: most });
            }
        }
    }

    /// The figure of a claim; an error names what is missing. What is no number is missing: a spread of
    /// nothing is zero, and zero would keep many a rule.
    pub(crate) fn find(&self, ours: Ours) -> Result<Spread, &'static str> {
        match ours {
            Ours::Value(name) => spread(&self.there(name).ok_or(name)?.samples).ok_or(name),
            Ours::Ratio(over, under) => {
                ratio(self.there(over).ok_or(over)?, self.there(under).ok_or(under)?).ok_or(over)
            }
            Ours::NotBuilt(what) | Ours::NotHere(what) => Err(what),
        }
    }
}

fn beside(row: &Row, key: &str) -> f64 {
    let there = row.extra.get(key).and_then(serde_json::Value::as_f64);
    there.or(row.beside_value).unwrap_or(f64::NAN)
}

/// One over another. Repeats that were measured in turn are divided one by one, so that a noisy moment that
/// hit both does not count; else the medians are, and the spread is the widest that there can be.
fn ratio(over: &Samples, under: &Samples) -> Option<Spread> {
    if over.in_order && under.in_order && over.samples.len() == under.samples.len() {
        let each: Vec<f64> =
            over.samples.iter().zip(&under.samples).map(|(over, under)| over / under).collect();
        return spread(&each);
    }
    let (over, under) = (Spread::of(&over.samples), Spread::of(&under.samples));
    spread(&[over.low / under.high, over.median / under.median, over.high / under.low])
}

/// The spread, if all samples are numbers.
fn spread(samples: &[f64]) -> Option<Spread> {
    samples.iter().all(|sample| sample.is_finite()).then(|| Spread::of(samples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Better;

    #[test]
    fn repeats_in_turn_are_divided_one_by_one() {
        let mut values = Values::default();
        // The second repeat met a busy moment, which slowed both.
        values.set("a", vec![20.0, 10.0, 22.0]);
        values.set("b", vec![10.0, 5.0, 10.0]);
        let spread = values.find(Ours::Ratio("a", "b")).expect("both are there");
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 2.0, 2.2));
        values.set("c", vec![10.0]);
        let spread = values.find(Ours::Ratio("a", "c")).expect("both are there");
        assert_eq!((spread.low, spread.median, spread.high), (1.0, 2.0, 2.2));
    }

    #[test]
    fn spreads_without_their_repeats_are_divided_crosswise() {
        let mut values = Values::default();
        values.set_spread("a", Spread { median: 20.0, low: 10.0, high: 40.0 });
        values.set_spread("b", Spread { median: 10.0, low: 5.0, high: 20.0 });
        let spread = values.find(Ours::Ratio("a", "b")).expect("both are there");
        assert_eq!((spread.low, spread.median, spread.high), (0.5, 2.0, 8.0));
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut values = Values::default();
        values.set("a", vec![1.0]);
        values.set("empty", Vec::new());
        values.set("no-number", vec![1.0, f64::NAN]);
        values.set("zero", vec![0.0]);
        assert_eq!(values.find(Ours::Value("no-number")), Err("no-number"));
        assert_eq!(values.find(Ours::Ratio("a", "zero")), Err("a"));
        assert_eq!(values.find(Ours::Ratio("a", "b")), Err("b"));
        assert_eq!(values.find(Ours::Value("empty")), Err("empty"));
        assert_eq!(values.find(Ours::NotBuilt("trees")), Err("trees"));
    }

    #[test]
    fn a_row_brings_its_value_and_the_widest_spread_of_its_ratio() {
        let row =
            Row::new("read-8", "ns", Better::Lower, &[9.0, 10.0, 12.0]).beside("bare", &[4.0, 5.0, 6.0]);
        let mut report = Report::new("space");
        report.push(row);
        let mut values = Values::default();
        values.take(&report);
        assert_eq!(values.get("space/read-8"), Some(&[9.0, 10.0, 12.0][..]));
        assert_eq!(values.get("space/read-8:ratio"), Some(&[1.5, 2.0, 3.0][..]));
    }

    #[test]
    fn the_best_of_those_that_are_there_counts() {
        let mut values = Values::default();
        values.set("redis", vec![1.0, 9.0, 1.0]);
        values.set("memcached", vec![2.0]);
        values.set_best("store", &["redis".into(), "memcached".into(), "absent".into()]);
        assert_eq!(values.get("store"), Some(&[2.0][..]));
        values.set_best("nobody", &["absent".into()]);
        assert_eq!(values.get("nobody"), None);
    }
}
