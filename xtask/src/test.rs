//! `cargo xtask test`: the one test command. Every gate, its time, and one last line.
//!
//! What always holds: the very last line is `N passed, N failed`, counting stages; the exit
//! code is zero exactly when none failed; a stage that could not run says why in the table.
//!
//! To add a stage: one line in [`STAGES`], and a function that returns a [`Stage`].

use std::process::ExitCode;
use std::time::Instant;

use crate::run::{Job, works};
use crate::{
    Outcome, Stage, crash, fuzz, guard, licences, linearizable, loom, miri, plants, serializable, shuttle,
    simulate, tidy, tools, verbs,
};

/// A stage's name, what it demands, and what runs it.
type Entry = (&'static str, &'static str, fn() -> Stage);

/// Every stage, in the order that fails soonest.
const STAGES: &[Entry] = &[
    ("tools", "the programs that the stages need", tools::stage),
    ("format", "cargo fmt --check", format),
    ("tidy", "what a program can check, a program checks", tidy::stage),
    ("clippy", "no warning in any target of the workspace", clippy),
    ("tests", "unit, integration and conformance tests, and the examples in the docs", tests),
    ("examples", "every example builds", examples),
    ("licences", "licences and sources of all dependencies", licences::stage),
    ("loom", "every interleaving of the copy, ring and reclamation protocols", loom::stage),
    ("shuttle", "10 million schedules of commit, recovery and reclamation", shuttle::stage),
    ("serializable", "a million transactions on simulated worlds have one order", serializable::stage),
    (
        "linearizable",
        "10 million operations on tables, clients killed: one order for each key",
        linearizable::stage,
    ),
    ("crash", "nodes killed under load: nothing lost that was promised", crash::stage),
    ("guard", "hot paths take no more instructions than are kept", guard::stage),
    ("simulate", "a short run of seeds on the simulated fabric", simulate::stage),
    ("verbs", "real RDMA verbs between software RoCE devices, in a virtual machine", verbs::stage),
    ("fuzz", "each parser for a short while, with coverage", fuzz::stage),
    ("plants", "each planted bug is caught by its gate", plants::stage),
    ("miri", "undefined behaviour, where a nightly toolchain has Miri", miri::stage),
];

/// Which stages to run; all, if nothing is said.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only these stages.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave these stages out.
    #[arg(long, value_delimiter = ',')]
    skip: Vec<String>,
    /// List the stages and stop.
    #[arg(long)]
    list: bool,
}

struct Result {
    name: &'static str,
    stage: Stage,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    if args.list {
        for (name, about, _) in STAGES {
            println!("{name:<12} {about}");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) =
        args.only.iter().chain(&args.skip).find(|name| STAGES.iter().all(|stage| stage.0 != **name))
    {
        eprintln!("there is no stage `{unknown}`; see: cargo xtask test --list");
        return ExitCode::from(2);
    }
    let chosen = |name: &str| {
        let named = |list: &[String]| list.iter().any(|given| given == name);
        (args.only.is_empty() || named(&args.only)) && !named(&args.skip)
    };
    let mut results = Vec::new();
    for (name, about, stage) in STAGES.iter().filter(|stage| chosen(stage.0)) {
        println!("\n── {name}: {about}");
        let started = Instant::now();
        let stage = stage();
        let seconds = started.elapsed().as_secs_f64();
        println!("── {name}: {} ({seconds:.1} s)", verdict(&stage));
        results.push(Result { name, stage, seconds });
    }
    summary(&results)
}

fn verdict(stage: &Stage) -> String {
    match stage {
        Ok(Outcome::Passed(what)) => format!("passed: {what}"),
        Ok(Outcome::Skipped(why)) => format!("SKIPPED: {why}"),
        Err(why) => format!("FAILED: {why}"),
    }
}

fn summary(results: &[Result]) -> ExitCode {
    println!("\n{:<12} {:>8}  result", "stage", "seconds");
    for result in results {
        println!("{:<12} {:>8.1}  {}", result.name, result.seconds, verdict(&result.stage));
    }
    let total: f64 = results.iter().map(|result| result.seconds).sum();
    println!("{:<12} {total:>8.1}", "total");
    let failed = results.iter().filter(|result| result.stage.is_err()).count();
    let passed = results.iter().filter(|result| matches!(result.stage, Ok(Outcome::Passed(_)))).count();
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn format() -> Stage {
    Job::cargo(&["fmt", "--all", "--check"]).succeed("cargo fmt --check")?;
    Job::cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])
        .succeed("cargo fmt --check in fuzz")?;
    Ok(Outcome::Passed("formatted; otherwise: cargo fmt --all".into()))
}

fn clippy() -> Stage {
    Job::cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
        .succeed("clippy")?;
    Ok(Outcome::Passed("no warnings".into()))
}

/// How long money is moved while clients are killed; ten seconds where nobody says.
const BANK_SECONDS: &str = "60";

fn tests() -> Stage {
    let (count, with) = if works("cargo", &["nextest", "--version"]) {
        let done = Job::cargo(&["nextest", "run", "--workspace", "--all-features"])
            .env("BARN_BANK_SECONDS", BANK_SECONDS)
            .run()?;
        if !done.status.success() {
            return Err(format!("cargo nextest run {}{}", done.how(), failures(&done.output)));
        }
        (nextest_passed(&done.output), format!("nextest{}", named(&done.output, "FLAKY")))
    } else {
        let done = Job::cargo(&["test", "--workspace", "--all-features", "--lib", "--bins", "--tests"])
            .env("BARN_BANK_SECONDS", BANK_SECONDS)
            .succeed("cargo test")?;
        (done.tests_passed(), "cargo test".into())
    };
    let documented = Job::cargo(&["test", "--workspace", "--all-features", "--doc"])
        .succeed("cargo test --doc")?
        .tests_passed();
    Ok(Outcome::Passed(format!("{count} tests with {with}, {documented} in docs")))
}

/// The tests that nextest lists at its end with this word: `FAIL [ 1.2s] (3/27) barn::bank money`.
fn named(output: &str, word: &str) -> String {
    let plain = |line: &str| -> Option<String> {
        let rest = line.trim_start().strip_prefix(word)?.trim_start();
        let (_, name) = rest.split_once(") ")?;
        Some(name.trim().to_owned())
    };
    let mut names: Vec<String> = output.lines().filter_map(plain).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { String::new() } else { format!("; {word}: {}", names.join(", ")) }
}

/// What failed, by name, and the end of what the first of them said: CI may show only the last lines.
fn failures(output: &str) -> String {
    const LINES: usize = 25;
    let names = named(output, "FAIL");
    let lines: Vec<&str> = output.lines().collect();
    let panicked = lines.iter().position(|line| line.contains("panicked at"));
    let said = panicked.map_or(&[][..], |at| &lines[at..lines.len().min(at + LINES)]);
    format!("{names}\n{}", said.join("\n"))
}

/// The count in nextest's last line: `Summary [ 1.2s] 27 tests run: 27 passed, 0 skipped`.
fn nextest_passed(output: &str) -> u64 {
    let count = |line: &str| {
        let (before, _) = line.split_once(" passed")?;
        before.split_whitespace().last()?.parse().ok()
    };
    output.lines().filter(|line| line.contains("tests run:")).find_map(count).unwrap_or(0)
}

fn examples() -> Stage {
    Job::cargo(&["build", "--workspace", "--examples", "--all-features"]).succeed("building the examples")?;
    Ok(Outcome::Passed("all build".into()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn stage_names_are_distinct() {
        let mut names: Vec<_> = super::STAGES.iter().map(|stage| stage.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), super::STAGES.len());
    }

    #[test]
    fn failed_and_flaky_tests_are_named_once() {
        let output = "   FAIL [ 1.2s] ( 3/27) barn::bank money\nthread 'money' panicked at bank.rs:3:\nlost\n \
                      FLAKY 2/2 [ 0.1s] (4/27) barn::node_loss dies\n   FAIL [ 1.2s] (3/27) barn::bank money\n";
        assert_eq!(super::named(output, "FLAKY"), "; FLAKY: barn::node_loss dies");
        let failures = super::failures(output);
        assert!(
            failures.starts_with("; FAIL: barn::bank money\n") && failures.contains("lost"),
            "{failures}"
        );
    }

    #[test]
    fn nextest_is_counted() {
        assert_eq!(super::nextest_passed("Summary [ 1.2s] 27 tests run: 27 passed, 0 skipped"), 27);
    }
}
