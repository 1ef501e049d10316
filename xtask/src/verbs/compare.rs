//! Ours beside perftest's, of the same two devices in the same boot: ratios, and the aims for them.
//!
//! What always holds: a figure that misses its aim is told and fails nothing, for the processor is
//! emulated and has neighbours; a figure that is missing fails the job.
//!
//! The job prints sections (`guest/bench.client.sh`), each a report of ours: perftest's READs have taken turns with ours,
//! and are in it.

use serde_json::Value;

/// Whether a ratio should be small or large.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// Only told.
    None,
}

/// One line: what ours is, what stands beside it, how often that, and the aim.
#[derive(Debug)]
struct Line {
    row: &'static str,
    beside: Beside,
    aim: Aim,
}

#[derive(Clone, Copy, Debug)]
enum Beside {
    /// What one of perftest's tools found, which took turns with it.
    Perftest(&'static str),
    /// Pipelined READs of ours, which took turns with it.
    Reads,
    /// Another row of ours.
    Row(&'static str),
}

const READ_LAT: Beside = Beside::Perftest("ib_read_lat");
const READS: &str = "verbs/read-64/pipelined";

const LINES: &[Line] = &[
    Line { row: "verbs/read-8/blocking", beside: READ_LAT, aim: Aim::AtMost(1.25) },
    Line { row: "verbs/read-64/blocking", beside: READ_LAT, aim: Aim::AtMost(1.25) },
    Line { row: "verbs/read-1k/blocking", beside: READ_LAT, aim: Aim::AtMost(1.25) },
    Line { row: "verbs/get/hopscotch/blocking", beside: READ_LAT, aim: Aim::AtMost(1.25) },
    Line { row: "verbs/get/cuckoo/blocking", beside: READ_LAT, aim: Aim::AtMost(1.25) },
    Line { row: READS, beside: Beside::Perftest("ib_read_bw"), aim: Aim::AtLeast(0.8) },
    Line { row: "verbs/rpc-herd/window-16", beside: Beside::Reads, aim: Aim::AtLeast(0.5) },
    Line { row: "verbs/rpc-ring/window-16", beside: Beside::Reads, aim: Aim::None },
    Line { row: "verbs/echo-send/window-16", beside: Beside::Reads, aim: Aim::None },
    Line { row: "verbs/echo-write/window-16", beside: Beside::Reads, aim: Aim::None },
    Line { row: "verbs/rpc-ring/round-trip", beside: Beside::Row("verbs/read-64/blocking"), aim: Aim::None },
    Line { row: "verbs/rpc-herd/round-trip", beside: Beside::Row("verbs/read-64/blocking"), aim: Aim::None },
];

/// The table, printed, and in one line how many aims were reached.
pub(super) fn check(output: &str) -> Result<String, String> {
    let (lines, reached, aims) = table(output)?;
    lines.iter().for_each(|line| println!("{line}"));
    let missed: Vec<&str> =
        lines.iter().filter(|line| line.ends_with("missed")).map(String::as_str).collect();
    let missed: String = missed
        .iter()
        .map(|line| format!("; {}", line.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    Ok(format!("{reached} of {aims} aims beside perftest reached{missed}"))
}

fn table(output: &str) -> Result<(Vec<String>, usize, usize), String> {
    let sections = sections(output);
    let rows = rows(&sections)?;
    let (mut lines, mut reached, mut aims) = (Vec::new(), 0, 0);
    for Line { row, beside, aim } in LINES {
        let found = find(&rows, row)?;
        let ours = value(found)?;
        let in_turn = |word: &str| {
            let what = found["beside"].as_str().filter(|what| what.contains(word));
            let theirs = what.and(found["beside_value"].as_f64()).filter(|theirs| *theirs > 0.0);
            // The middle one of the turns' ratios.
            let ratio = found["ratio"].as_f64();
            (what.unwrap_or(word).to_owned(), theirs.zip(ratio))
        };
        let (what, theirs) = match beside {
            Beside::Perftest(tool) => in_turn(tool),
            Beside::Reads => in_turn("pipelined READs"),
            Beside::Row(name) => {
                let theirs = value(find(&rows, name)?)?;
                ((*name).to_owned(), Some((theirs, ours / theirs)))
            }
        };
        let Some((theirs, ratio)) = theirs else {
            lines.push(format!("{row:<32} {:>14.0}  {what}: unmeasured", ours));
            continue;
        };
        let (word, met) = match aim {
            Aim::AtMost(most) => (format!("at most {most}"), Some(ratio <= *most)),
            Aim::AtLeast(least) => (format!("at least {least}"), Some(ratio >= *least)),
            Aim::None => (String::new(), None),
        };
        aims += usize::from(met.is_some());
        reached += usize::from(met == Some(true));
        let verdict = met.map_or("", |met| if met { "reached" } else { "missed" });
        lines.push(format!(
            "{row:<32} {ours:>12.0}  {what:<26} {theirs:>12.0}  ratio {ratio:.2}  {word} {verdict}"
        ));
    }
    Ok((lines, reached, aims))
}

/// What was printed, by its headings.
fn sections(output: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for line in output.lines() {
        match (line.trim().strip_prefix("section "), sections.last_mut()) {
            (Some(name), _) => sections.push((name, String::new())),
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    sections
}

/// All rows of our reports.
fn rows(sections: &[(&str, String)]) -> Result<Vec<Value>, String> {
    let mut rows = Vec::new();
    for (name, text) in sections.iter().filter(|(name, _)| name.starts_with("barn ")) {
        let start = text.find('{').ok_or_else(|| format!("{name} printed no report"))?;
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        let report = values.next().and_then(Result::ok).ok_or_else(|| format!("{name}'s report is cut"))?;
        rows.extend(report["rows"].as_array().into_iter().flatten().cloned());
    }
    Ok(rows)
}

fn find<'a>(rows: &'a [Value], name: &str) -> Result<&'a Value, String> {
    rows.iter().find(|row| row["name"] == name).ok_or_else(|| format!("there is no row {name}"))
}

fn value(row: &Value) -> Result<f64, String> {
    let value = row["value"].as_f64().filter(|value| *value > 0.0);
    value.ok_or_else(|| format!("{} has no value", row["name"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What perftest's servers time; the last is what a GET of a hopscotch table READs: two buckets
    /// for keys of 16 bytes and values of 32.
    const SIZES: [u64; 4] = [8, 64, 1024, HOPSCOTCH_BYTES];
    const HOPSCOTCH_BYTES: u64 = 504;

    #[test]
    fn both_ends_of_perftest_know_the_same_sizes() {
        let sizes = SIZES.map(|bytes| bytes.to_string()).join(" ");
        let (server, client) = (include_str!("guest/bench.server.sh"), include_str!("guest/bench.client.sh"));
        assert!(server.contains(&format!("SIZES=\"{sizes}\" READS=1000 BW_READS=2000")), "{server}");
        assert!(client.contains("READS=1000 BW_READS=2000"), "{client}");
        assert!(server.contains("20000 + bytes") && client.contains("20000 + BYTES"), "the same ports");
        assert!(server.contains("30000 + 64") && client.contains("30000 + BYTES"), "the same ports");
    }

    /// What the job prints, with READs of ours that take so many nanoseconds.
    fn output(read_ns: u64) -> String {
        let row = |name: &str| {
            let (beside, theirs) = match name {
                READS => ("ib_read_bw 64 B".to_owned(), 10_000),
                "verbs/get/cuckoo/blocking" => ("2 x ib_read_lat 64 B".to_owned(), 200_000),
                name if name.ends_with("blocking") => ("1 x ib_read_lat 64 B".to_owned(), 100_000),
                _ => ("pipelined READs".to_owned(), 9_000),
            };
            let value = if name.ends_with("blocking") { read_ns } else { 9_000 };
            let ratio = value as f64 / f64::from(theirs);
            format!(
                "{{\"name\":\"{name}\",\"value\":{value},\"beside\":\"{beside}\",\
                 \"beside_value\":{theirs},\"ratio\":{ratio}}}"
            )
        };
        let rows: Vec<String> = LINES.iter().map(|line| row(line.row)).collect();
        format!("section barn fabric\n{{\"bench\":\"fabric\",\"rows\":[{}]}}\n", rows.join(","))
    }

    #[test]
    fn ratios_stand_beside_their_aims() {
        let (lines, reached, aims) = table(&output(120_000)).expect("all is there");
        assert_eq!((lines.len(), reached, aims), (LINES.len(), 7, 7));
        assert!(lines[0].contains("ratio 1.20"), "{}", lines[0]);
        let (lines, reached, _) = table(&output(130_000)).expect("all is there");
        assert_eq!(reached, 3, "a cuckoo GET has two READs' time: {lines:?}");
        assert!(lines[0].ends_with("missed"), "{}", lines[0]);
        let slow = output(100_000).replace("\"ratio\":0.9", "\"ratio\":0.7");
        let (lines, reached, _) = table(&slow).expect("all is there");
        assert_eq!(reached, 6, "the rate of READs is too low: {lines:?}");
    }

    #[test]
    fn a_figure_that_is_missing_fails_the_job() {
        let without = output(100_000).replace("verbs/rpc-herd/window-16", "verbs/other");
        assert!(table(&without).is_err());
        let cut = output(100_000);
        assert!(table(&cut[..cut.len() / 2]).is_err());
    }

    #[test]
    fn a_guest_without_a_clock_is_told_and_fails_nothing() {
        let without = output(100_000).replace("x ib_read_lat", "READ of").replace("ib_read_bw", "another");
        let (lines, _, aims) = table(&without).expect("it ran");
        assert!(lines[0].ends_with("unmeasured"), "{}", lines[0]);
        assert_eq!(aims, 1);
    }
}
