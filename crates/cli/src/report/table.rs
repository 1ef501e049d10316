//! Rows as a table for people: aligned, with units scaled to what a head can hold.

use std::io::{self, Write};

use super::Row;

const HEAD: [&str; COLUMNS] = ["name", "value", "spread", "beside", "beside value", "ratio", "aim"];
const COLUMNS: usize = 7;

/// Columns further right, for rows that say more: the heading, the field, and its unit.
const FIELDS: [(&str, &str, &str); 6] = [
    ("p50", "p50_ns", "ns"),
    ("p99", "p99_ns", "ns"),
    ("p99.9", "p999_ns", "ns"),
    ("max", "max_ns", "ns"),
    ("client CPU / M", "client_cpu_s_per_million", "s"),
    ("server CPU / M", "server_cpu_s_per_million", "s"),
];

/// How many columns the rows need: those on the right that no row has are left out.
fn count(rows: &[Row]) -> usize {
    let aims = rows.iter().any(|row| row.extra.contains_key("aim") || row.extra.contains_key("bound"));
    match rows.iter().any(|row| row.beside.is_some()) {
        _ if aims => COLUMNS,
        true => COLUMNS - 1,
        false => 3,
    }
}

/// Head and cells; columns that no row has are left out.
pub(crate) fn columns(rows: &[Row]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let count = count(rows);
    // All or none: half of them would say little.
    let fields = if rows.iter().any(|row| row.extra.contains_key("p50_ns")) { &FIELDS[..] } else { &[] };
    let head = HEAD[..count].iter().copied().chain(fields.iter().map(|(head, ..)| *head));
    let lines = rows.iter().map(|row| {
        let further = fields.iter().map(|(_, field, unit)| {
            let value = row.extra.get(*field).and_then(serde_json::Value::as_f64);
            value.map_or_else(String::new, |value| scaled(value, unit))
        });
        cells(row).into_iter().take(count).chain(further).collect()
    });
    (head.collect(), lines.collect())
}

/// Writes the rows.
pub(super) fn write(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let (head, body) = columns(rows);
    let mut lines = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    lines.extend(body);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    for line in &lines {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            // Names stand left, figures right.
            let (before, after) =
                if matches!(column, 0 | 3) { ("", pad.as_str()) } else { (pad.as_str(), "") };
            text += &format!("{before}{cell}{after}  ");
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

fn cells(row: &Row) -> [String; COLUMNS] {
    let figure = |value: f64| scaled(value, &row.unit);
    [
        row.name.clone(),
        figure(row.value),
        format!("{} – {}", figure(row.low), figure(row.high)),
        row.beside.clone().unwrap_or_default(),
        row.beside_value.map(figure).unwrap_or_default(),
        row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        aim(row),
    ]
}

/// What the figure or its ratio should be, and a mark where it is not.
fn aim(row: &Row) -> String {
    let number = |key: &str| row.extra.get(key).and_then(serde_json::Value::as_f64);
    let is = |key: &str, word: bool| row.extra.get(key) == Some(&word.into());
    let sign = if row.extra.get("bound_is").is_some_and(|word| word == "at least") { "≥" } else { "≤" };
    let (text, missed) = match (number("bound"), number("aim")) {
        (Some(bound), _) => (format!("{sign} {}", plain(bound)), is("holds", false)),
        (None, Some(aim)) => (format!("× {}", plain(aim)), is("reached", false)),
        (None, None) => return String::new(),
    };
    format!("{text}{}", if missed { " missed" } else { "" })
}

/// A number as short as it can be said.
fn plain(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.001 { format!("{value:e}") } else { value.to_string() }
}

/// A figure with its unit, scaled: 1500 ns is 1.50 µs, 2.5e6 ops/s is 2.50 Mops/s.
pub(crate) fn scaled(value: f64, unit: &str) -> String {
    let (steps, unit): (&[(f64, &str)], &str) = match unit {
        "ns" => (&[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")], ""),
        unit if unit.ends_with("/s") => (&[(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")], unit),
        unit => (&[(1.0, "")], unit),
    };
    let (size, prefix) = steps
        .iter()
        .copied()
        .find(|(size, _)| value.abs() >= *size)
        .unwrap_or(*steps.last().expect("has steps"));
    let value = value / size;
    // Two digits would make nothing of it; a time has units for that.
    if value != 0.0 && value.abs() < 0.01 && prefix != "ns" {
        return format!("{value:.1e} {prefix}{unit}").trim_end().to_owned();
    }
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 || v == 0.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$} {prefix}{unit}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Bound};

    #[test]
    fn units_scale() {
        for (value, unit, text) in [
            (0.0, "ns", "0.00 ns"),
            (52.34, "ns", "52.3 ns"),
            (1500.0, "ns", "1.50 µs"),
            (2.5e9, "ns", "2.50 s"),
            (2.5e6, "ops/s", "2.50 Mops/s"),
            (999.0, "ops/s", "999 ops/s"),
            (1.25e10, "bytes/s", "12.5 Gbytes/s"),
            (93.5, "%", "93.5 %"),
            (0.018, "of a slot", "0.0180 of a slot"),
            (0.000_05, "", "5.0e-5"),
        ] {
            assert_eq!(scaled(value, unit), text);
        }
    }

    #[test]
    fn columns_align() {
        let rows = [
            Row::rate("shm/read-64/pipelined", &[8e7, 7e7, 9e7]).beside("bare load loop", &[1e8]),
            Row::nanoseconds("tcp/rpc", &[12_000.0]),
        ];
        let mut out = Vec::new();
        write(&mut out, &rows).expect("writes");
        assert_eq!(
            String::from_utf8(out).expect("is text"),
            "\
name                         value                     spread  beside          beside value  ratio
shm/read-64/pipelined  80.0 Mops/s  70.0 Mops/s – 90.0 Mops/s  bare load loop    100 Mops/s   0.80
tcp/rpc                    12.0 µs          12.0 µs – 12.0 µs
"
        );
    }

    #[test]
    fn aims_and_bounds_have_a_column_and_a_mark() {
        let row = Row::new("x", "", Better::Higher, &[1.0]);
        let cell = |row: Row| aim(&row);
        assert_eq!(cell(row.clone()), "");
        assert_eq!(cell(row.clone().bound(Bound::AtMost(1e-4))), "≤ 1e-4 missed");
        assert_eq!(cell(row.clone().bound(Bound::AtLeast(0.62))), "≥ 0.62");
        assert_eq!(cell(row.beside("y", &[4.0]).aim(0.5)), "× 0.5 missed");
    }

    #[test]
    fn times_and_cpu_have_columns_where_a_row_has_them() {
        let timed = Row::rate("x", &[1e6]).with("p50_ns", 1500.0).with("server_cpu_s_per_million", 2.5);
        let mut out = Vec::new();
        write(&mut out, &[timed, Row::rate("y", &[2e6])]).expect("writes");
        let text = String::from_utf8(out).expect("is text");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("p99.9") && lines[0].ends_with("server CPU / M"), "{text}");
        assert!(lines[1].contains("1.50 µs") && lines[1].ends_with("2.50 s"), "{text}");
        assert!(lines[2].ends_with("2.00 Mops/s"), "what a row does not have is left out: {text}");
    }

    #[test]
    fn beside_columns_vanish_where_nobody_has_them() {
        let mut out = Vec::new();
        write(&mut out, &[Row::new("x", "%", Better::Higher, &[1.0])]).expect("writes");
        assert!(!String::from_utf8(out).expect("is text").contains("beside"));
    }
}
