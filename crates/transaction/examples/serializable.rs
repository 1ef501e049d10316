//! Runs watched clients on simulated worlds, seed after seed, and checks every history.
//!
//! `serializable [--seed FIRST] [--transactions TOTAL] [--each PER_SEED] [--seconds MAX]`

use barn_transaction::scenario::run;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn main() -> ExitCode {
    let (first, total) = (argument("--seed", 1), argument("--transactions", 100_000));
    let (each, seconds) = (argument("--each", 1000), argument("--seconds", u64::MAX));
    let started = Instant::now();
    let (mut checked, mut seed, mut deaths, mut resolved) = (0, first, 0, 0);
    let (mut committed, mut aborted, mut happened, mut unseen) = (0, 0, 0, 0);
    while checked < total && started.elapsed() < Duration::from_secs(seconds) {
        let report = run(seed, each);
        if let Some(failure) = report.failure {
            println!("seed {seed} failed: {failure}");
            println!("replay it with: --seed {seed} --transactions 1 --each {each}");
            return ExitCode::FAILURE;
        }
        let summary = report.summary;
        checked +=
            (summary.committed + summary.aborted + summary.unknown_happened + summary.unknown_unseen) as u64;
        committed += summary.committed;
        aborted += summary.aborted;
        happened += summary.unknown_happened;
        unseen += summary.unknown_unseen;
        deaths += report.deaths;
        resolved += report.resolved;
        seed += 1;
    }
    println!(
        "seeds {first} to {}: {checked} transactions ({committed} committed, {aborted} refused, {happened} unknown \
         that happened, {unseen} unknown of which nothing was seen), {deaths} clients died in a commit, {resolved} \
         ended by resolvers, no cycle, {:.0} s",
        seed - 1,
        started.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
