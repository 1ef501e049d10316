//! `cargo xtask plants`: a gate that has never failed proves nothing, so each is made to.
//!
//! A plant is a bug behind `if planted("NAME")` (see `barn_layout::plant`). All of them are
//! compiled in at once, under `cfg(barn_plants)`, and the environment chooses one for each run.
//! For each, its gate must pass when nothing is planted, and must fail with the plant: the test
//! that the table names, and by failing, not by hanging. The table and the sources must name
//! the same plants, so that none is forgotten or misspelt.
//!
//! By hand the same is `BARN_PLANT=NAME RUSTFLAGS='--cfg barn_plants' cargo test …`.
//!
//! To add a plant: put the bug behind its `planted`, and one line into `plants/table.rs`.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use crate::plants::binaries::Binaries;
use crate::plants::gate::{Gate, Plant};
use crate::plants::table::PLANTS;
use crate::run::{Done, side_by_side};
use crate::{Outcome, Stage};

mod binaries;
mod gate;
mod sources;
mod table;

/// A gate that runs longer hangs. The slowest takes a few seconds.
const GATE_SECONDS_MAX: u64 = 300;

/// Which plants.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Only plants whose name contains this.
    filter: Option<String>,
}

/// What came of a plant.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Caught,
    /// Why it counts as not caught.
    Missed(String),
}

pub(crate) fn stage() -> Stage {
    run(&Args::default())
}

pub(crate) fn run(args: &Args) -> Stage {
    let chosen: Vec<&Plant> = PLANTS
        .iter()
        .filter(|plant| args.filter.as_ref().is_none_or(|filter| plant.name.contains(filter.as_str())))
        .collect();
    if chosen.is_empty() {
        return Err("no plant has such a name".into());
    }
    sources::agree(PLANTS)?;
    let binaries = Binaries::build(&chosen)?;
    // Gates wait as often as they compute: one for each core at a time.
    let clean: BTreeMap<String, OnceLock<Result<(), String>>> =
        chosen.iter().map(|plant| (plant.gate.to_string(), OnceLock::new())).collect();
    let rows = side_by_side(&chosen, |plant| {
        let command = plant.gate.to_string();
        let passes = clean[&command].get_or_init(|| without(&binaries, &plant.gate));
        let (verdict, seconds) = match passes {
            Err(why) => (Verdict::Missed(format!("without the plant: {why}")), 0.0),
            Ok(()) => with(&binaries, plant)?,
        };
        println!("{} {}: {verdict:?} ({seconds:.1} s)", plant.name, command);
        Ok((plant.name, command, verdict, seconds))
    });
    let rows: Vec<_> = rows.into_iter().collect::<Result<_, String>>()?;
    print(&rows);
    let missed: Vec<&str> = rows.iter().filter(|row| row.2 != Verdict::Caught).map(|row| row.0).collect();
    if missed.is_empty() {
        return Ok(Outcome::Passed(format!("{} of {} plants caught", rows.len(), rows.len())));
    }
    Err(format!("{} of {} plants not caught: {}", missed.len(), rows.len(), missed.join(", ")))
}

fn print(rows: &[(&str, String, Verdict, f64)]) {
    let plant = rows.iter().map(|row| row.0.len()).max().unwrap_or(0).max(5);
    let gate = rows.iter().map(|row| row.1.len()).max().unwrap_or(0).max(4);
    println!("\n{:<plant$}  {:<gate$}  {:>7}  caught", "plant", "gate", "seconds");
    for (name, command, verdict, seconds) in rows {
        let caught = match verdict {
            Verdict::Caught => "yes",
            Verdict::Missed(why) => &format!("NO: {why}"),
        };
        println!("{name:<plant$}  {command:<gate$}  {seconds:>7.1}  {caught}");
    }
}

/// The gate must pass, and must run at least one test, when nothing is planted.
fn without(binaries: &Binaries, gate: &Gate) -> Result<(), String> {
    let done = run_gate(binaries, gate, "")?;
    match (done.status.success(), done.tests_passed()) {
        (true, 1..) => {
            println!("{gate}: passes with nothing planted ({:.1} s)", done.seconds);
            Ok(())
        }
        (true, 0) => Err("its filter matches no test".into()),
        (false, _) => {
            print!("{}", done.output);
            Err(format!("the gate {}", done.how()))
        }
    }
}

/// The gate must fail with the plant.
fn with(binaries: &Binaries, plant: &Plant) -> Result<(Verdict, f64), String> {
    let done = run_gate(binaries, &plant.gate, plant.name)?;
    let verdict = judge(&done, plant.fails);
    if verdict != Verdict::Caught {
        print!("{}", done.output);
    }
    Ok((verdict, done.seconds))
}

/// Runs a gate with a plant, or with none if it has no name.
fn run_gate(binaries: &Binaries, gate: &Gate, plant: &str) -> Result<Done, String> {
    let job = binaries.job(gate, &[gate.filter, "--test-threads=1"])?;
    job.env("BARN_PLANT", plant).quiet().timeout(Duration::from_secs(GATE_SECONDS_MAX)).run()
}

fn judge(done: &Done, fails: &str) -> Verdict {
    if done.timed_out {
        return Verdict::Missed(format!("the gate hung: it {}", done.how()));
    }
    if done.status.success() {
        let ran = done.tests_passed() > 0;
        return Verdict::Missed(if ran { "every test passed" } else { "no test ran" }.into());
    }
    if failed_tests(&done.output).iter().any(|name| name.contains(fails)) {
        return Verdict::Caught;
    }
    Verdict::Missed(format!("no test `{fails}` failed; the gate {}", done.how()))
}

/// The tests that failed, by libtest's own list at the end. A test that took the whole process
/// down is on no list; but tests run one at a time, and libtest writes a test's name before
/// it runs, so it is the last one named.
fn failed_tests(output: &str) -> Vec<&str> {
    let lines: Vec<&str> = output.lines().collect();
    if !lines.iter().any(|line| line.starts_with("test result: FAILED")) {
        let last = lines.iter().rev().find_map(|line| line.strip_prefix("test ")?.split_once(" ..."));
        return last.filter(|(_, end)| !end.ends_with(" ok")).map(|(name, _)| name).into_iter().collect();
    }
    let list = lines.iter().rposition(|line| *line == "failures:").map_or(lines.len(), |at| at + 1);
    lines[list..].iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Job;

    fn done(script: &str) -> Done {
        Job::new("sh", &["-c", script]).quiet().timeout(Duration::from_secs(2)).run().expect("runs")
    }

    #[test]
    fn only_the_named_test_failing_counts() {
        let fell = done(
            "echo 'test ring::lost ... ok'; echo 'test ring::torn ... noise'; echo FAILED; echo; \
             echo failures:; echo '    ring::torn'; echo; \
             echo 'test result: FAILED. 1 passed; 1 failed'; exit 101",
        );
        assert_eq!(judge(&fell, "ring::torn"), Verdict::Caught);
        assert!(matches!(judge(&fell, "ring::lost"), Verdict::Missed(_)), "another test failed");
        let passed = done("echo 'test ring::torn ... ok'; echo 'test result: ok. 1 passed; 0 failed'");
        assert!(matches!(judge(&passed, "ring::torn"), Verdict::Missed(_)));
    }

    #[test]
    fn a_crash_counts_for_the_test_that_was_running_and_a_hang_for_none() {
        let crash = done("echo 'test ring::torn ... ok'; printf 'test ring::lost ... '; exit 134");
        assert_eq!(judge(&crash, "ring::lost"), Verdict::Caught);
        assert!(matches!(judge(&crash, "ring::torn"), Verdict::Missed(_)));
        assert!(matches!(judge(&done("printf 'test a ... '; sleep 30"), "a"), Verdict::Missed(_)));
    }

    #[test]
    fn plants_have_distinct_names_and_say_what_must_fail() {
        let mut names: Vec<_> = PLANTS.iter().map(|plant| plant.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PLANTS.len());
        assert!(PLANTS.iter().all(|plant| !plant.fails.is_empty()));
    }
}
