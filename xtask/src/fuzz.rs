//! `cargo xtask fuzz`: coverage-guided fuzzing on a stable toolchain, without cargo-fuzz.
//!
//! What is needed: the toolchain, and a C++ compiler for libFuzzer's own sources, which come
//! with the crate `libfuzzer-sys` (g++ does; clang is not needed). The flags below are those
//! that cargo-fuzz gives; `RUSTC_BOOTSTRAP=1` lets a stable compiler take the one that is
//! unstable, for the address sanitizer. Nothing so built is ever shipped.
//!
//! To add a target: one file, `fuzz/src/bin/NAME.rs`; optionally inputs to start from in
//! `fuzz/seeds/NAME/`, and words in `fuzz/seeds/NAME.dict`. There is no list to keep.
//!
//! What it does not see: the compiler reports comparisons of 1, 2, 4 and 8 bytes, but not of
//! other sizes. A constant of 3 bytes, compared whole, was not found in 10 million runs,
//! where one of 4 and then one of 8 bytes took under a second. Such words belong in the
//! dictionary.
//!
//! What always holds: before the real targets, the canary must crash. It hides behind eight
//! bytes that only a fuzzer with coverage finds, so that fuzzing blindly cannot pass.

use std::fs;
use std::path::PathBuf;

use crate::run::{Done, Job, root, side_by_side, works};
use crate::{Outcome, Stage};

const CANARY: &str = "canary";
/// It takes about 4 s with coverage; a loaded machine may take ten times as long.
const CANARY_SECONDS_MAX: u64 = 60;
/// What a run of `cargo xtask test` spends on each target.
const CI_SECONDS: u64 = 20;
/// No parser needs more for an input; one that does is a way to exhaust a node.
const INPUT_SECONDS_MAX: u64 = 10;
const MEMORY_MIB_MAX: u64 = 2048;

const FLAGS: [&str; 9] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // Conditions folded into one branch are one edge: the fuzzer would have to meet them at once.
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
    "-Zsanitizer=address",
];

/// What to fuzz, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The target: a file of fuzz/src/bin. All of them, if none is named.
    target: Option<String>,
    /// How long to fuzz each target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run the target once, on this input: replays a crash.
    #[arg(long, requires = "target")]
    input: Option<PathBuf>,
}

pub(crate) fn stage() -> Stage {
    run(&Args { target: None, seconds: CI_SECONDS, input: None })
}

pub(crate) fn run(args: &Args) -> Stage {
    let targets = targets()?;
    if let Some(target) = args.target.as_ref().filter(|target| !targets.contains(target)) {
        return Err(format!("there is no target `{target}`; there are: {}", targets.join(", ")));
    }
    let triple = build()?;
    if let (Some(target), Some(input)) = (&args.target, &args.input) {
        let input = input.to_string_lossy();
        let done = binary(&triple, target, &[&input]).succeed(target)?;
        return Ok(Outcome::Passed(format!("{target} took the input in {:.1} s", done.seconds)));
    }
    canary(&triple)?;
    let chosen = targets.iter().filter(|target| match &args.target {
        Some(given) => given == *target,
        None => *target != CANARY,
    });
    let chosen: Vec<&String> = chosen.filter(|target| *target != CANARY).collect();
    // A fuzzer keeps one core busy. Of one target alone all is shown while it is fuzzed.
    let fuzzed = side_by_side(&chosen, |target| fuzz(&triple, target, args.seconds, chosen.len() > 1));
    let mut results = vec!["the canary was found".to_owned()];
    for fuzzed in fuzzed {
        results.push(fuzzed?);
    }
    if results.len() == 1 && args.target.is_none() {
        return Err("the fuzzer sees, but there is no target for it yet: add fuzz/src/bin/NAME.rs".into());
    }
    Ok(Outcome::Passed(results.join("; ")))
}

/// The names of the files in `fuzz/src/bin`, sorted.
fn targets() -> Result<Vec<String>, String> {
    let dir = root().join("fuzz/src/bin");
    let entries = fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".rs")?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds all targets and gives the triple that they were built for. Naming it keeps the
/// flags away from build scripts, which must not be instrumented.
fn build() -> Result<String, String> {
    if !works("c++", &["--version"]) {
        return Err("libFuzzer needs a C++ compiler; install with: sudo apt-get install -y g++".into());
    }
    let version = Job::new("rustc", &["-vV"]).quiet().succeed("rustc -vV")?.output;
    let triple =
        version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc -vV names no host")?;
    Job::cargo(&[
        "build",
        "--release",
        "--manifest-path",
        "fuzz/Cargo.toml",
        "--target",
        triple,
        "--target-dir",
        "target/fuzz",
    ])
    .env("RUSTC_BOOTSTRAP", "1")
    .env("RUSTFLAGS", FLAGS.join(" "))
    .succeed("building the fuzz targets")?;
    Ok(triple.to_owned())
}

fn binary(triple: &str, target: &str, args: &[&str]) -> Job {
    let path = root().join("target/fuzz").join(triple).join("release").join(target);
    Job::new(&path.to_string_lossy(), args)
}

/// Runs the target on a corpus that lasts from run to run.
fn campaign(triple: &str, target: &str, seconds: u64, quiet: bool) -> Result<Done, String> {
    let make = |dir: PathBuf| -> Result<String, String> {
        fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        Ok(dir.to_string_lossy().into_owned())
    };
    let corpus = root().join("target/fuzz/corpus").join(target);
    if target == CANARY {
        // Found once, it would be in the corpus, and finding it again would prove nothing.
        let _ = fs::remove_dir_all(&corpus);
    }
    let corpus = make(corpus)?;
    let artifacts = make(root().join("target/fuzz/artifacts").join(target))?;
    let mut args = vec![
        format!("-max_total_time={seconds}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-artifact_prefix={artifacts}/"),
        "-print_final_stats=1".into(),
        corpus,
    ];
    let seeds = root().join("fuzz/seeds");
    let words = seeds.join(format!("{target}.dict"));
    if words.is_file() {
        args.push(format!("-dict={}", words.display()));
    }
    if seeds.join(target).is_dir() {
        args.push(seeds.join(target).to_string_lossy().into_owned());
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let job = binary(triple, target, &args);
    if quiet { job.quiet().run() } else { job.run() }
}

fn canary(triple: &str) -> Result<(), String> {
    let done = campaign(triple, CANARY, CANARY_SECONDS_MAX, true)?;
    if done.output.contains("the canary was found") {
        println!("canary: found in {:.1} s", done.seconds);
        return Ok(());
    }
    Err(format!("the fuzzer is blind: in {CANARY_SECONDS_MAX} s it did not find the canary ({})", done.how()))
}

fn fuzz(triple: &str, target: &str, seconds: u64, quiet: bool) -> Result<String, String> {
    let done = campaign(triple, target, seconds, quiet)?;
    if !done.status.success() {
        if quiet {
            print!("{}", done.output);
        }
        let marker = "Test unit written to ";
        let input = done.output.lines().find_map(|line| Some(line.split_once(marker)?.1.trim().to_owned()));
        let replay =
            input.map(|input| format!("; replay it with: cargo xtask fuzz {target} --input {input}"));
        return Err(format!("{target} {}{}", done.how(), replay.unwrap_or_default()));
    }
    let runs = stat(&done.output, "stat::number_of_executed_units:").unwrap_or(0);
    let covered = coverage(&done.output).unwrap_or(0);
    if runs == 0 || covered == 0 {
        return Err(format!("{target} ran {runs} times and covered {covered} edges: it fuzzed nothing"));
    }
    let fuzzed = format!("{target} {runs} runs, {covered} edges");
    println!("{fuzzed}");
    Ok(fuzzed)
}

fn stat(output: &str, name: &str) -> Option<u64> {
    output.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().parse().ok())
}

/// The last coverage in lines such as `#2097152 pulse  cov: 31 ft: 40 corp: 9/34b`.
fn coverage(output: &str) -> Option<u64> {
    output.lines().rev().find_map(|line| line.split_once("cov: ")?.1.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_libfuzzer_are_read() {
        let output = "#8 NEW    cov: 4 ft: 5 corp: 1/1b\n#9 DONE   cov: 31 ft: 40 corp: 9/34b\nstat::number_of_executed_units: 77\n";
        assert_eq!(coverage(output), Some(31));
        assert_eq!(stat(output, "stat::number_of_executed_units:"), Some(77));
        assert_eq!(coverage("INFO: no coverage"), None);
    }

    #[test]
    fn the_canary_is_a_target() {
        assert!(targets().expect("lists").iter().any(|target| target == CANARY));
    }
}
