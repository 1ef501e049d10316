//! A paper's claim, and the rule by which ours is judged.
//!
//! What always holds: a verdict follows from what was measured and from the rule that stands beside the
//! paper's value, and from nothing else. A claim whose figure was not measured has no other verdict than
//! that.

use std::fmt;

use barn_layout::planted;

use crate::report::Spread;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Paper {
    /// Mitchell, Geng, Li: Using One-Sided RDMA Reads to Build a Fast, CPU-Efficient Key-Value Store.
    Pilaf,
    /// Dragojević, Narayanan, Hodson, Castro: FaRM: Fast Remote Memory.
    Farm,
    /// Kalia, Kaminsky, Andersen: Using RDMA Efficiently for Key-Value Services.
    Herd,
    /// Trivedi and others: RStore: A Direct-Access DRAM-based Data Store.
    Rstore,
    /// Mitchell and others: Balancing CPU and Network in the Cell Distributed B-Tree Store.
    Cell,
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pilaf => "Pilaf",
            Self::Farm => "FaRM",
            Self::Herd => "HERD",
            Self::Rstore => "RStore",
            Self::Cell => "Cell",
        })
    }
}

/// What kind of claim it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No hardware changes it.
    AnyHardware,
    /// A ratio that can be measured here, and need not be the paper's.
    RatioHere,
    /// It is about something that Barn does not have yet.
    NotBuilt,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnyHardware => "any hardware",
            Self::RatioHere => "ratio here",
            Self::NotBuilt => "not built yet",
        })
    }
}

/// Where our figure comes from: names of measured values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    /// One of them.
    Value(&'static str),
    /// One over another, repeat by repeat where both were measured in turn.
    Ratio(&'static str, &'static str),
    /// None: this is missing.
    NotBuilt(&'static str),
    /// None: it is there, and cannot be measured on one machine.
    NotHere(&'static str),
}

/// When a claim holds. `direction` is where it still holds in direction: which of two is better, but by less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// Ours may be no more.
    AtMost { holds: f64, direction: f64 },
    /// Ours must be no less.
    AtLeast { holds: f64, direction: f64 },
    /// Ours must be the paper's, to so large a part of it.
    Within { holds: f64, direction: f64 },
    /// There is nothing to judge.
    None,
}

/// A claim of a paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) paper: Paper,
    /// The name of its row, after the paper's.
    pub(crate) name: &'static str,
    /// Section or figure.
    pub(crate) place: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unit: &'static str,
    /// The paper's value.
    pub(crate) value: f64,
    pub(crate) ours: Ours,
    pub(crate) rule: Rule,
    /// Why it would not hold here, if it does not.
    pub(crate) otherwise: &'static str,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds. `sure`: all repeats say so.
    Holds { sure: bool },
    /// It holds in direction only. `sure`: as above.
    InDirection { sure: bool },
    /// It does not, and why.
    DoesNotHold { why: String },
    /// It could not be measured in this run, and why.
    NotMeasured { why: String },
    /// What it is about is missing.
    NotBuilt { what: String },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unsure = |sure: &bool| if *sure { "" } else { ", but not in every repeat" };
        match self {
            Self::Holds { sure } => write!(f, "holds{}", unsure(sure)),
            Self::InDirection { sure } => write!(f, "holds in direction{}", unsure(sure)),
            Self::DoesNotHold { why } => write!(f, "does not hold here: {why}"),
            Self::NotMeasured { why } => write!(f, "not measured: {why}"),
            Self::NotBuilt { what } => write!(f, "not built yet: {what}"),
        }
    }
}

impl Claim {
    /// The row's whole name.
    pub(crate) fn row_name(&self) -> String {
        format!("{}/{}", self.paper.to_string().to_lowercase(), self.name)
    }

    /// Judges our figure: the median decides, and the repeats say how surely.
    pub(crate) fn judge(&self, ours: Spread) -> Verdict {
        let met = |value: f64, strictly: bool| self.rule.met(self.value, value, strictly);
        let sure = |strictly| met(ours.low, strictly) && met(ours.high, strictly);
        if met(ours.median, true) || planted("papers_verdict_always_holds") {
            return Verdict::Holds { sure: sure(true) };
        }
        if met(ours.median, false) {
            return Verdict::InDirection { sure: sure(false) };
        }
        Verdict::DoesNotHold { why: self.otherwise.to_owned() }
    }
}

impl Rule {
    /// Whether a value meets it, strictly or in direction.
    fn met(self, paper: f64, value: f64, strictly: bool) -> bool {
        let limit = |holds: f64, direction: f64| if strictly { holds } else { direction };
        match self {
            Self::AtMost { holds, direction } => value <= limit(holds, direction),
            Self::AtLeast { holds, direction } => value >= limit(holds, direction),
            Self::Within { holds, direction } => {
                (value - paper).abs() <= limit(holds, direction) * paper.abs()
            }
            Self::None => false,
        }
    }

    /// The rule in words.
    pub(crate) fn words(self) -> String {
        let percent = |part: f64| format!("{} %", (part * 100.0).round());
        match self {
            Self::AtMost { holds, direction } => format!("at most {holds}; in direction up to {direction}"),
            Self::AtLeast { holds, direction } => {
                format!("at least {holds}; in direction from {direction}")
            }
            Self::Within { holds, direction } => {
                format!(
                    "within {} of the paper's; in direction within {}",
                    percent(holds),
                    percent(direction)
                )
            }
            Self::None => String::new(),
        }
    }

    /// Whether it is a rule at all, and what holds also holds in direction.
    #[cfg(test)]
    pub(crate) fn makes_sense(self) -> bool {
        match self {
            Self::AtMost { holds, direction } | Self::Within { holds, direction } => holds <= direction,
            Self::AtLeast { holds, direction } => holds >= direction,
            Self::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(rule: Rule, low: f64, median: f64, high: f64) -> Verdict {
        let claim = Claim {
            paper: Paper::Pilaf,
            name: "figure-10/over-request",
            place: "Figure 10",
            claim: "c",
            kind: Kind::RatioHere,
            unit: "×",
            value: 2.0,
            ours: Ours::Value("v"),
            rule,
            otherwise: "a READ is a load here",
        };
        assert_eq!(claim.row_name(), "pilaf/figure-10/over-request");
        claim.judge(Spread { median, low, high })
    }

    #[test]
    fn the_median_decides_and_the_spread_says_how_surely() {
        let rule = Rule::AtLeast { holds: 2.0, direction: 1.0 };
        assert_eq!(judged(rule, 2.1, 2.5, 3.0), Verdict::Holds { sure: true });
        assert_eq!(judged(rule, 1.9, 2.5, 3.0), Verdict::Holds { sure: false });
        assert_eq!(judged(rule, 1.1, 1.5, 3.0), Verdict::InDirection { sure: true });
        assert_eq!(judged(rule, 0.5, 1.5, 3.0), Verdict::InDirection { sure: false });
        let why = "a READ is a load here".to_owned();
        assert_eq!(judged(rule, 0.1, 0.9, 3.0), Verdict::DoesNotHold { why });
    }

    #[test]
    fn every_kind_of_rule_judges_at_its_very_limit() {
        let most = Rule::AtMost { holds: 1.04, direction: 1.5 };
        assert_eq!(judged(most, 1.0, 1.04, 1.04), Verdict::Holds { sure: true });
        assert!(matches!(judged(most, 1.05, 1.05, 1.05), Verdict::InDirection { .. }));
        assert!(matches!(judged(most, 1.0, 1.6, 1.7), Verdict::DoesNotHold { .. }));
        // Parts that binary fractions can say.
        let within = Rule::Within { holds: 0.25, direction: 0.5 };
        assert_eq!(judged(within, 1.5, 2.0, 2.5), Verdict::Holds { sure: true });
        assert!(matches!(judged(within, 2.6, 2.75, 3.0), Verdict::InDirection { sure: true }));
        assert!(matches!(judged(within, 3.0, 3.1, 3.2), Verdict::DoesNotHold { .. }));
    }

    #[test]
    fn a_figure_that_is_no_number_never_holds() {
        for rule in [
            Rule::AtMost { holds: 1.0, direction: 2.0 },
            Rule::AtLeast { holds: 2.0, direction: 1.0 },
            Rule::Within { holds: 0.1, direction: 0.2 },
            Rule::None,
        ] {
            let verdict = judged(rule, f64::NAN, f64::NAN, f64::NAN);
            assert!(matches!(verdict, Verdict::DoesNotHold { .. }), "{rule:?}");
        }
    }

    #[test]
    fn verdicts_read_as_sentences() {
        assert_eq!(Verdict::Holds { sure: false }.to_string(), "holds, but not in every repeat");
        let missing = Verdict::NotBuilt { what: "trees".into() };
        assert_eq!(missing.to_string(), "not built yet: trees");
    }
}
