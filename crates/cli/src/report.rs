//! The one form of every benchmark's result, for programs and for people.
//!
//! A [`Report`] is `{ "bench", "machine", "rows" }`. A [`Row`] is one figure: the median of
//! its repeats, the lowest and the highest of them, and, where something else was measured
//! in the same run, that one's figure beside it and the ratio of ours over theirs.
//!
//! What always holds: `low <= value <= high`; `ratio` is there exactly when `beside` is.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bench::quiet::Disturbance;
use crate::machine::Machine;

mod table;

pub(crate) use table::{columns, scaled};

/// Which way a figure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A rate.
    Higher,
    /// A time or a cost.
    Lower,
}

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// A benchmark's whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The benchmark's name, such as `fabric`.
    pub bench: String,
    /// Where it was measured.
    pub machine: Machine,
    /// What others on the same cores did meanwhile, where that was watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// What was measured.
    pub rows: Vec<Row>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// A path, such as `shm/read-64/pipelined`.
    pub name: String,
    /// Such as `ns`, `ops/s`, `bytes/s`; never scaled in JSON.
    pub unit: String,
    /// The median of the repeats.
    pub value: f64,
    /// The lowest of the repeats.
    pub low: f64,
    /// The highest of the repeats.
    pub high: f64,
    /// Which way it improves.
    pub better: Better,
    /// What stands beside it, measured in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// That one's median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside_value: Option<f64>,
    /// Ours over theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whatever else this benchmark says about the figure.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Median, lowest and highest of a list of repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one (the mean of the middle two).
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// The spread of `samples`; zeros if there are none. Samples that are not finite numbers
    /// are left out: JSON has no word for them.
    pub fn of(samples: &[f64]) -> Self {
        let mut samples: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
        samples.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (samples.first(), samples.last()) else {
            return Self { median: 0.0, low: 0.0, high: 0.0 };
        };
        let half = samples.len() / 2;
        let median =
            if samples.len() % 2 == 1 { samples[half] } else { samples[half - 1].midpoint(samples[half]) };
        Self { median, low, high }
    }
}

impl Row {
    /// A figure from its repeats.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, better: Better, samples: &[f64]) -> Self {
        let spread = Spread::of(samples);
        Self {
            name: name.into(),
            unit: unit.into(),
            value: spread.median,
            low: spread.low,
            high: spread.high,
            better,
            beside: None,
            beside_value: None,
            ratio: None,
            extra: Map::new(),
        }
    }

    /// A time from its repeats, in nanoseconds.
    pub fn nanoseconds(name: impl Into<String>, samples: &[f64]) -> Self {
        Self::new(name, "ns", Better::Lower, samples)
    }

    /// A rate from its repeats, in operations a second.
    pub fn rate(name: impl Into<String>, samples: &[f64]) -> Self {
        Self::new(name, "ops/s", Better::Higher, samples)
    }

    /// Of `count` rare events among `of`, another run would see another number: the spread is wide enough
    /// for three standard deviations of it, and for three events where there was none.
    pub fn counting(mut self, count: u64, of: u64) -> Self {
        let (count, of) = (count as f64, of.max(1) as f64);
        let deviations = 3.0 * count.sqrt();
        self.low = self.low.min((count - deviations).max(0.0) / of);
        self.high = self.high.max((count + deviations.max(3.0)) / of);
        self
    }

    /// Puts beside it what was measured in the same run, from its own repeats.
    ///
    /// The ratio is that of the medians. A median of zero has no ratio; 0 stands for it.
    pub fn beside(mut self, name: impl Into<String>, samples: &[f64]) -> Self {
        let theirs = Spread::of(samples);
        self.beside = Some(name.into());
        self.beside_value = Some(theirs.median);
        self.ratio = Some(if theirs.median == 0.0 { 0.0 } else { self.value / theirs.median });
        self.with("beside_low", theirs.low).with("beside_high", theirs.high)
    }

    /// The same where each sample was taken right beside one of ours: the ratio is the middle one of the pairs', which
    /// whatever slows both for a while does not change.
    pub fn beside_in_turn(self, name: impl Into<String>, ours: &[f64], theirs: &[f64]) -> Self {
        let pairs: Vec<f64> = ours
            .iter()
            .zip(theirs)
            .filter(|(_, theirs)| **theirs > 0.0)
            .map(|(ours, theirs)| ours / theirs)
            .collect();
        let mut row = self.beside(name, theirs);
        if !pairs.is_empty() {
            let spread = Spread::of(&pairs);
            row.ratio = Some(spread.median);
            row = row.with("ratio_low", spread.low).with("ratio_high", spread.high);
        }
        row
    }

    /// Says what the value must be, and whether it is: `bound`, `bound_is` and `holds`.
    pub fn bound(self, bound: Bound) -> Self {
        let (word, limit, holds) = match bound {
            Bound::AtMost(limit) => ("at most", limit, self.value <= limit),
            Bound::AtLeast(limit) => ("at least", limit, self.value >= limit),
        };
        self.with("bound", limit).with("bound_is", word).with("holds", holds)
    }

    /// Says what the ratio should at least be, and whether it is: `aim` and `reached`.
    pub fn aim(self, ratio: f64) -> Self {
        let reached = self.ratio.is_some_and(|ours| ours >= ratio);
        self.with("aim", ratio).with("reached", reached)
    }

    /// Adds a field of this benchmark's own.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(key.into(), value.into());
        self
    }
}

impl Report {
    /// An empty report from this machine.
    pub fn new(bench: impl Into<String>) -> Self {
        Self { bench: bench.into(), machine: Machine::here(), disturbance: None, rows: Vec::new() }
    }

    /// Adds a figure.
    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Writes one JSON document.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes the machine in a line and the rows as a table.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let load = self.machine.load_average[0];
        writeln!(out, "{}: {}, load {load:.2}", self.bench, self.machine.summary())?;
        if let Some(disturbance) = self.disturbance {
            writeln!(out, "{}", disturbance.summary())?;
        }
        table::write(out, &self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_of_the_middle() {
        let spread = |samples: &[f64]| {
            let spread = Spread::of(samples);
            (spread.low, spread.median, spread.high)
        };
        assert_eq!(spread(&[3.0, 1.0, 2.0]), (1.0, 2.0, 3.0));
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]), (1.0, 2.5, 4.0));
        assert_eq!(spread(&[5.0, f64::NAN, f64::INFINITY]), (5.0, 5.0, 5.0));
        assert_eq!(spread(&[]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn rare_events_have_the_spread_of_their_count() {
        let row = |count: u64| {
            let row = Row::new("retries", "of the GETs", Better::Lower, &[count as f64 / 1000.0]);
            let row = row.counting(count, 1000);
            (row.low, row.value, row.high)
        };
        assert_eq!(row(100), (0.07, 0.1, 0.13));
        assert_eq!(row(4), (0.0, 0.004, 0.01));
        assert_eq!(row(0), (0.0, 0.0, 0.003), "none now is not none ever");
    }

    #[test]
    fn a_row_in_json_has_the_promised_form() {
        let row = Row::rate("shm/read-64/pipelined", &[80.0, 70.0, 90.0])
            .beside("bare load loop", &[100.0, 100.0, 90.0])
            .with("window", 16);
        let json = serde_json::to_value(&row).expect("serializes");
        assert_eq!(
            json,
            serde_json::json!({
                "name": "shm/read-64/pipelined", "unit": "ops/s", "value": 80.0, "low": 70.0, "high": 90.0,
                "better": "higher", "beside": "bare load loop", "beside_value": 100.0, "ratio": 0.8,
                "beside_low": 90.0, "beside_high": 100.0, "window": 16,
            })
        );
        assert_eq!(serde_json::from_value::<Row>(json).expect("reads back"), row);
    }

    #[test]
    fn bounds_and_aims_say_whether_they_are_met() {
        let row = |value: f64| Row::new("x", "READs", Better::Lower, &[value]).beside("paper", &[2.0]);
        let extra = |row: Row, key: &str| row.extra[key].clone();
        assert_eq!(extra(row(1.0).bound(Bound::AtMost(1.04)), "holds"), true);
        assert_eq!(extra(row(1.1).bound(Bound::AtMost(1.04)), "holds"), false);
        assert_eq!(extra(row(0.6).bound(Bound::AtLeast(0.62)), "bound_is"), "at least");
        assert_eq!(extra(row(1.0).aim(0.5), "reached"), true);
        assert_eq!(extra(row(0.9).aim(0.5), "reached"), false);
    }

    #[test]
    fn a_row_alone_has_no_beside_and_nothing_divides_by_zero() {
        let json = serde_json::to_value(Row::nanoseconds("x", &[1.0])).expect("serializes");
        assert!(json.get("beside").is_none() && json.get("ratio").is_none());
        assert_eq!(Row::nanoseconds("x", &[1.0]).beside("y", &[]).ratio, Some(0.0));
    }

    #[test]
    fn a_report_has_bench_machine_and_rows() {
        let mut report = Report::new("fabric");
        report.push(Row::nanoseconds("shm/rpc/round-trip", &[350.0]));
        let mut out = Vec::new();
        report.write_json(&mut out).expect("writes");
        let json: Value = serde_json::from_slice(&out).expect("is JSON");
        assert_eq!(json["bench"], "fabric");
        assert!(json["machine"]["cores"].is_u64() && json["rows"][0]["better"] == "lower");
    }
}
