//! The figures that are kept, and how new ones compare.
//!
//! A line `with TOOLS`, then one for each figure: name, instructions of one operation, and by how many
//! percent it may grow. Lines that begin with `#` explain.

use barn_layout::planted;
use std::fmt;

/// By how much a new figure may grow, unless somebody says otherwise in the file. Most figures are the same
/// to a tenth of a percent in every run; where a node's threads or sockets have a say, to 0.8 %.
/// But where functions are cut into units of compilation moves with any change elsewhere, and moved the
/// client's part of a request by 5 % once.
const TOLERANCE_PERCENT: f64 = 8.0;

const HEADER: &str = "\
# Instructions of one operation, for each hot path (crates/barn/examples/hot_paths), counted by valgrind's
# callgrind; and by how many percent each may grow. `cargo xtask guard` compares, `--write` renews.
# Of paths that ask a node, the client's part and the node's are apart. Waiting is in neither.
";

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// What the figures were counted with.
    pub(super) with: String,
    figures: Vec<Figure>,
}

#[derive(Clone, Debug, PartialEq)]
struct Figure {
    name: String,
    instructions: f64,
    tolerance_percent: f64,
}

/// How a figure compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Same,
    Better,
    Worse,
    /// Counted, and not kept.
    New,
    /// Kept, and not counted.
    Gone,
}

/// A figure, as it was and as it is.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    kept: Option<f64>,
    now: Option<f64>,
    pub(super) verdict: Verdict,
}

impl Verdict {
    /// Whether the guard fails because of it.
    pub(super) fn fails(self) -> bool {
        matches!(self, Self::Worse | Self::New | Self::Gone)
    }
}

impl Kept {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut kept = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            if let Some(with) = line.strip_prefix("with ") {
                kept.with = with.trim().to_owned();
                continue;
            }
            let figure = || {
                let mut fields = line.split_whitespace();
                let name = fields.next()?.to_owned();
                let [instructions, tolerance_percent] = [fields.next()?, fields.next()?];
                let figure = Figure {
                    name,
                    instructions: instructions.parse().ok().filter(|count| *count > 0.0)?,
                    tolerance_percent: tolerance_percent.parse().ok()?,
                };
                fields.next().is_none().then_some(figure)
            };
            kept.figures.push(figure().ok_or_else(|| {
                format!("`{line}` is not NAME INSTRUCTIONS TOLERANCE: correct it, or write the file anew")
            })?);
        }
        Ok(kept)
    }

    /// Every figure that is kept or was counted.
    pub(super) fn compare(&self, counted: &[(String, f64)]) -> Vec<Row> {
        let now = |name: &str| counted.iter().find(|(counted, _)| counted == name).map(|(_, now)| *now);
        let known = self.figures.iter().map(|figure| {
            let now = now(&figure.name);
            let verdict = now.map_or(Verdict::Gone, |now| figure.judge(now));
            Row { name: figure.name.clone(), kept: Some(figure.instructions), now, verdict }
        });
        let new = counted.iter().filter(|(name, _)| self.figure(name).is_none()).map(|(name, now)| Row {
            name: name.clone(),
            kept: None,
            now: Some(*now),
            verdict: Verdict::New,
        });
        known.chain(new).collect()
    }

    fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// What was counted, to be kept; tolerances stay.
    pub(super) fn renewed(&self, with: String, counted: &[(String, f64)]) -> Self {
        let figures = counted.iter().map(|(name, now)| Figure {
            name: name.clone(),
            instructions: *now,
            tolerance_percent: self.figure(name).map_or(TOLERANCE_PERCENT, |known| known.tolerance_percent),
        });
        Self { with, figures: figures.collect() }
    }
}

impl Figure {
    fn judge(&self, now: f64) -> Verdict {
        let change_percent = (now / self.instructions - 1.0) * 100.0;
        if change_percent > self.tolerance_percent && !planted("guard_overlooks_growth") {
            Verdict::Worse
        } else if change_percent < -self.tolerance_percent {
            Verdict::Better
        } else {
            Verdict::Same
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}with {}", self.with)?;
        for Figure { name, instructions, tolerance_percent } in &self.figures {
            writeln!(f, "{name:<30} {instructions:>10.1} {tolerance_percent:>4}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: Option<f64>| count.map_or_else(|| "-".into(), |count| format!("{count:.1}"));
        let change = match (self.kept, self.now) {
            (Some(kept), Some(now)) => format!("{:+.1} %", (now / kept - 1.0) * 100.0),
            _ => "-".into(),
        };
        let verdict = match self.verdict {
            Verdict::Same => "as kept",
            Verdict::Better => "less",
            Verdict::Worse => "MORE",
            Verdict::New => "NOT KEPT",
            Verdict::Gone => "NOT COUNTED",
        };
        let (kept, now) = (number(self.kept), number(self.now));
        write!(f, "{:<30} {kept:>12} {now:>12} {change:>9}  {verdict}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(kept: &str, counted: &[(&str, f64)]) -> Vec<Verdict> {
        let counted: Vec<(String, f64)> =
            counted.iter().map(|(name, now)| ((*name).to_owned(), *now)).collect();
        let rows = Kept::parse(kept).expect("a file").compare(&counted);
        rows.into_iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn a_figure_that_grew_past_its_own_tolerance_is_worse() {
        let kept = "with x\nget 100 2\nput 100 10\n";
        assert_eq!(verdicts(kept, &[("get", 103.0), ("put", 103.0)]), [Verdict::Worse, Verdict::Same]);
        assert_eq!(verdicts(kept, &[("get", 97.0), ("put", 111.0)]), [Verdict::Better, Verdict::Worse]);
    }

    #[test]
    fn what_is_kept_and_not_counted_fails_and_so_does_what_is_new() {
        let verdicts = verdicts("with x\nget 100 2\n", &[("put", 5.0)]);
        assert_eq!(verdicts, [Verdict::Gone, Verdict::New]);
        assert!(verdicts.iter().all(|verdict| verdict.fails()));
    }

    #[test]
    fn what_is_written_is_read_and_keeps_its_tolerances() {
        let kept = Kept::parse("# why\nwith x 1\nget 100 7.5\n").expect("a file");
        let renewed = kept.renewed("x 2".into(), &[("get".into(), 90.5), ("put".into(), 3.0)]);
        assert_eq!(Kept::parse(&renewed.to_string()), Ok(renewed.clone()));
        assert_eq!(
            renewed.figures.iter().map(|it| it.tolerance_percent).collect::<Vec<_>>(),
            [7.5, TOLERANCE_PERCENT]
        );
    }

    #[test]
    fn a_line_that_makes_no_sense_is_said() {
        for line in ["get", "get 0 2", "get x 2", "get 1 2 3"] {
            assert!(Kept::parse(line).is_err_and(|why| why.contains(line)), "{line}");
        }
    }
}
