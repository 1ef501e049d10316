//! `cargo xtask guard`: instructions of one operation, for each hot path, against those that are kept.
//!
//! A guard against growing slower that is no timed test. The program `hot_paths` runs each path on fixed
//! inputs, with client and node on one thread, under valgrind's callgrind: on a busy machine as on an idle
//! one, two runs differ by far less than the tolerance. What is kept is in xtask/guard.txt.
//!
//! What always holds: more instructions than the tolerance allows is a failure, and so is a path that is
//! kept and was not run, or the other way round. With another compiler, valgrind or C library than the
//! kept figures were counted with, differences are shown and fail nothing: they may all be theirs.

mod callgrind;
mod kept;

use crate::run::{Job, root, works};
use crate::{Outcome, Stage};
use kept::{Kept, Verdict};
use std::fs;
use std::time::Duration;

/// Where the figures are kept.
const FILE: &str = "xtask/guard.txt";
/// How to get what counts.
const INSTALL: &str = "sudo apt-get install -y valgrind";
/// A run takes a quarter of a minute; one that takes this long waits for something that never comes.
const RUN_MAX: Duration = Duration::from_secs(300);

/// What to do with what was counted.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Keep the new figures: what they are now is what they should be.
    #[arg(long)]
    write: bool,
}

/// Whether valgrind is installed.
pub(crate) fn present() -> bool {
    works("valgrind", &["--version"])
}

pub(crate) fn stage() -> Stage {
    run(&Args::default())
}

pub(crate) fn run(args: &Args) -> Stage {
    if !present() {
        return Ok(Outcome::Skipped(format!("no valgrind; install with: {INSTALL}")));
    }
    let with = tools();
    let counted = count()?;
    let file = root().join(FILE);
    let kept = match fs::read_to_string(&file) {
        Ok(text) => Kept::parse(&text).map_err(|why| format!("{FILE}: {why}"))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && args.write => Kept::default(),
        Err(error) => return Err(format!("{FILE}: {error}; make it with: cargo xtask guard --write")),
    };
    let rows = kept.compare(&counted);
    println!("{:<30} {:>12} {:>12} {:>9}  verdict", "instructions of one operation", "kept", "now", "change");
    rows.iter().for_each(|row| println!("{row}"));
    if args.write {
        fs::write(&file, kept.renewed(with, &counted).to_string())
            .map_err(|error| format!("{FILE}: {error}"))?;
        return Ok(Outcome::Passed(format!("{} figures written to {FILE}", counted.len())));
    }
    judge(&rows, &kept.with, &with)
}

/// What the rows come to.
fn judge(rows: &[kept::Row], kept_with: &str, with: &str) -> Stage {
    let worse: Vec<&str> =
        rows.iter().filter(|row| row.verdict.fails()).map(|row| row.name.as_str()).collect();
    let better = rows.iter().filter(|row| row.verdict == Verdict::Better).count();
    let count = rows.len();
    if kept_with != with {
        return Ok(Outcome::Passed(format!(
            "{count} paths counted with {with}, but kept with {kept_with}: {} differ, which fails nothing. If the \
             older tools agree, accept with: cargo xtask guard --write",
            worse.len() + better
        )));
    }
    if !worse.is_empty() {
        return Err(format!(
            "{} of {count} paths take more than is kept: {}. Look why (valgrind --tool=callgrind \
             target/checkers/examples/hot_paths PATH, then callgrind_annotate --inclusive=yes); if it is worth it, \
             accept with: cargo xtask guard --write",
            worse.len(),
            worse.join(", ")
        ));
    }
    let gained = match better {
        0 => String::new(),
        some => format!("; {some} take less: keep that with: cargo xtask guard --write"),
    };
    Ok(Outcome::Passed(format!("{count} paths take what is kept{gained}")))
}

/// What instructions depend on besides our code.
fn tools() -> String {
    let said = |program: &str, args: &[&str]| {
        let done = Job::new(program, args).quiet().run();
        done.map_or_else(|_| "unknown".into(), |done| done.output.trim().to_owned())
    };
    // The C library's copies are chosen by what valgrind says that the processor can.
    let libc = said("getconf", &["GNU_LIBC_VERSION"]);
    format!("{}, {}, {libc}", said("rustc", &["--version"]), said("valgrind", &["--version"]))
}

/// Builds the program, runs it, and gives each figure's name and instructions of one operation.
fn count() -> Result<Vec<(String, f64)>, String> {
    let build = ["build", "--quiet", "--profile", "checkers", "-p", "barn", "--example", "hot_paths"];
    Job::cargo(&build).succeed("building hot_paths")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let program = target.join("checkers/examples/hot_paths");
    let profile = target.join("guard.callgrind");
    let out = format!("--callgrind-out-file={}", profile.display());
    // Fair: until the loop is turned by hand, the node's thread spins, and would keep the others out.
    let valgrind = ["--tool=callgrind", "--fair-sched=yes", &out, &program.display().to_string()];
    let done = Job::new("valgrind", &valgrind).quiet().timeout(RUN_MAX).run()?;
    if !done.status.success() {
        return Err(format!("hot_paths under valgrind {}:\n{}", done.how(), done.output));
    }
    let text = fs::read_to_string(&profile).map_err(|error| format!("{}: {error}", profile.display()))?;
    let costs = callgrind::inclusive(&text);
    let paths = done.output.lines().filter_map(|line| line.strip_prefix("path "));
    let mut figures = Vec::new();
    for path in paths {
        let (name, operations) = path.split_once(' ').ok_or_else(|| format!("hot_paths said: {path}"))?;
        let operations: f64 = operations.parse().map_err(|_| format!("hot_paths said: {path}"))?;
        figures.extend(callgrind::parts(&costs, name, operations)?);
    }
    if figures.is_empty() {
        return Err("hot_paths ran no path: nothing was counted".into());
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is judged when `now` is counted and 100 instructions of `get` are kept.
    fn judged(now: f64, with: &str) -> Stage {
        let kept = Kept::parse("with tools\nget 100.0 2\n").expect("a file");
        judge(&kept.compare(&[("get".into(), now)]), &kept.with, with)
    }

    #[test]
    fn more_instructions_than_the_tolerance_allows_fail() {
        assert!(matches!(judged(101.9, "tools"), Ok(Outcome::Passed(_))));
        let why = judged(102.1, "tools").expect_err("two percent are allowed");
        assert!(why.contains("get") && why.contains("--write"), "{why}");
    }

    #[test]
    fn with_another_compiler_differences_are_said_and_fail_nothing() {
        let Ok(Outcome::Passed(said)) = judged(150.0, "newer tools") else { panic!("it fails nothing") };
        assert!(said.contains("1 differ") && said.contains("newer tools"), "{said}");
    }

    #[test]
    fn fewer_instructions_pass_and_are_to_be_kept() {
        let Ok(Outcome::Passed(said)) = judged(90.0, "tools") else { panic!("fewer are welcome") };
        assert!(said.contains("1 take less"), "{said}");
    }
}
