//! Tables as cells, the same for every kind of page.

use serde_json::Value;

use super::Section;
use crate::bench::quiet::Disturbance;
use crate::report::{Report, Row, columns, scaled};

/// What a run cannot see of itself is how the next will differ: pairs of runs on a quiet machine differed by
/// up to a tenth where their repeats differed by less. So spreads are shown wider on either side by this, and
/// by as much as the section's samples were slowed on average, if that is more.
const BETWEEN_RUNS: f64 = 0.05;

/// By which part of it a figure may differ in the next run, beside what its repeats show.
pub(super) fn margin(disturbance: Option<Disturbance>) -> f64 {
    disturbance.map_or(0.0, |seen| seen.slowed_by).max(BETWEEN_RUNS)
}

/// What every page says of its values.
pub(super) const VALUES: &str = "A value is the median of its repeats. Its spread is from the lowest to the highest, \
     wider on either side by what one run differs from the next, which each section says. Beside it stands what was \
     measured in the same run, in turn; the ratio is ours over theirs. A sample during which somebody else slowed the \
     cores was taken again, if there was time.";

/// What a section says of its spreads.
pub(super) fn said(section: &Section) -> String {
    let seen = section.disturbance.map_or_else(String::new, |seen| format!(": {}", seen.summary()));
    format!("Spreads are wider by {:.0} %{seen}.", section.margin * 100.0)
}

fn wider(row: &Row, margin: f64) -> Row {
    // What is counted of the same input is the same in the next run, too; what depends on when things happen is not.
    let varies = ["ns", "ms", "s", "s per million", "ops/s", "GB/s", "×", "READs", "of the GETs", "bytes"];
    if !varies.contains(&row.unit.as_str()) && row.low == row.high {
        return row.clone();
    }
    Row { low: row.low / (1.0 + margin), high: row.high * (1.0 + margin), ..row.clone() }
}

/// A table: its head, and its lines.
pub(super) struct Table {
    pub(super) head: Vec<&'static str>,
    pub(super) lines: Vec<Line>,
}

/// A line, and whether it should be seen that an aim was missed.
pub(super) struct Line {
    pub(super) cells: Vec<String>,
    pub(super) missed: bool,
}

/// The table of a report: claims where they are, else the table that the terminal has.
pub(super) fn table(report: &Report, margin: f64) -> Table {
    if report.rows.iter().any(|row| row.extra.contains_key("verdict")) {
        let head = vec!["where", "claim", "kind", "paper", "ours", "spread", "verdict"];
        return Table { head, lines: report.rows.iter().map(|row| claim(&wider(row, margin))).collect() };
    }
    let rows: Vec<Row> = report.rows.iter().map(|row| wider(row, margin)).collect();
    let (head, lines) = columns(&rows);
    let missed =
        |row: &Row| ["holds", "reached"].iter().any(|key| row.extra.get(*key) == Some(&Value::Bool(false)));
    let lines = lines.into_iter().zip(&report.rows).map(|(cells, row)| Line { cells, missed: missed(row) });
    Table { head, lines: lines.collect() }
}

fn claim(row: &Row) -> Line {
    let text = |key: &str| row.extra.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let figure = |value: f64| scaled(value, &row.unit);
    let measured = row.extra.get("measured") == Some(&Value::Bool(true));
    let (ours, spread) = match measured {
        true if row.low == row.high => (figure(row.value), String::new()),
        true => (figure(row.value), format!("{} – {}", figure(row.low), figure(row.high))),
        false => (String::new(), String::new()),
    };
    let verdict = text("verdict");
    let missed = verdict.starts_with("does not hold");
    let place = row.beside.clone().unwrap_or_default();
    let theirs = figure(row.beside_value.unwrap_or_default());
    Line { cells: vec![place, text("claim"), text("kind"), theirs, ours, spread, verdict], missed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::page::tests::page;
    use crate::report::Better;

    #[test]
    fn spreads_are_wider_than_the_repeats_by_what_runs_differ() {
        let mut report = Report::new("x");
        report.push(Row::rate("a", &[100.0, 200.0, 300.0]));
        let shown = &table(&report, BETWEEN_RUNS).lines[0].cells;
        assert_eq!((shown[1].as_str(), shown[2].as_str()), ("200 ops/s", "95.2 ops/s – 315 ops/s"));
        let mut report = Report::new("x");
        report.push(Row::new("a", "probes", Better::Lower, &[1.6]));
        assert_eq!(
            table(&report, BETWEEN_RUNS).lines[0].cells[2],
            "1.60 probes – 1.60 probes",
            "it was counted"
        );
        let slowed = |slowed_by| margin(Some(Disturbance { slowed_by, ..Disturbance::default() }));
        assert_eq!((margin(None), slowed(0.02), slowed(0.6)), (BETWEEN_RUNS, BETWEEN_RUNS, 0.6));
    }

    #[test]
    fn a_section_says_by_how_much_its_spreads_are_wider_and_why() {
        let mut section = page().sections.remove(0);
        assert_eq!(said(&section), "Spreads are wider by 5 %.");
        section.disturbance = Some(Disturbance { slowed_part: 0.2, again: 3, ..Disturbance::default() });
        let said = said(&section);
        assert!(said.contains("wider by 5 %: others") && said.contains("3 taken again"), "{said}");
    }

    #[test]
    fn every_line_has_a_cell_for_every_head() {
        for section in page().sections {
            let Some(report) = section.report else { continue };
            let table = table(&report, BETWEEN_RUNS);
            assert!(table.lines.iter().all(|line| line.cells.len() == table.head.len()), "{}", section.title);
        }
    }

    #[test]
    fn missed_aims_and_bounds_are_marked_and_others_are_not() {
        let sections = page().sections;
        let lines = table(sections[0].report.as_ref().expect("has rows"), BETWEEN_RUNS).lines;
        assert_eq!(lines.iter().map(|line| line.missed).collect::<Vec<_>>(), [true, true]);
        let lines = table(sections[1].report.as_ref().expect("has rows"), BETWEEN_RUNS).lines;
        assert!(!lines[0].missed && lines[0].cells.contains(&"holds".to_owned()));
    }
}
