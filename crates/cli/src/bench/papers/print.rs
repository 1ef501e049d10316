//! Claims as text for people: two lines each, because a claim is a sentence.

use std::io::{self, Write};

use serde_json::Value;

use crate::report::{Report, Row, scaled};

/// Writes the machine in a line, and the claims of each paper below its name.
pub fn write_table(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let load = report.machine.load_average[0];
    writeln!(out, "{}: {}, load {load:.2}", report.bench, report.machine.summary())?;
    if let Some(disturbance) = report.disturbance {
        writeln!(out, "{}", disturbance.summary())?;
    }
    let mut paper = "";
    for row in &report.rows {
        if text(row, "paper") != paper {
            paper = text(row, "paper");
            writeln!(out, "\n{paper}")?;
        }
        writeln!(out, "  {}: {}", text(row, "place"), text(row, "claim"))?;
        let theirs = scaled(row.beside_value.unwrap_or_default(), &row.unit);
        writeln!(out, "      {}; paper {theirs}; {}{}", text(row, "kind"), ours(row), text(row, "verdict"))?;
    }
    Ok(())
}

/// Our figure and its spread, if there is one.
fn ours(row: &Row) -> String {
    if row.extra.get("measured") != Some(&Value::Bool(true)) {
        return String::new();
    }
    let figure = |value: f64| scaled(value, &row.unit);
    match row.low == row.high {
        true => format!("ours {}; ", figure(row.value)),
        false => format!("ours {} ({} – {}); ", figure(row.value), figure(row.low), figure(row.high)),
    }
}

fn text<'a>(row: &'a Row, key: &str) -> &'a str {
    row.extra.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Better;

    #[test]
    fn a_claim_is_a_sentence_with_both_figures_and_the_verdict() {
        let row = |measured: bool, verdict: &str| {
            Row::new("pilaf/figure-6/cuckoo-mean", "probes", Better::Lower, &[1.5, 1.4, 1.5])
                .beside("Pilaf, Figure 6", &[1.6])
                .with("paper", "Pilaf")
                .with("place", "Figure 6")
                .with("claim", "a lookup looks at 1.6 places")
                .with("kind", "any hardware")
                .with("measured", measured)
                .with("verdict", verdict)
        };
        let mut report = Report::new("papers");
        report.rows = vec![row(true, "holds"), row(false, "not built yet: trees")];
        let mut out = Vec::new();
        write_table(&report, &mut out).expect("writes");
        let text = String::from_utf8(out).expect("is text");
        assert!(
            text.ends_with(
                "
Pilaf
  Figure 6: a lookup looks at 1.6 places
      any hardware; paper 1.60 probes; ours 1.50 probes (1.40 probes – 1.50 probes); holds
  Figure 6: a lookup looks at 1.6 places
      any hardware; paper 1.60 probes; not built yet: trees
"
            ),
            "{text}"
        );
    }
}
