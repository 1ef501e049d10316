//! `cargo xtask linearizable`: watched clients of tables; what they saw of each key must have one order.
//!
//! All kinds of tables and all ways to read them: on real nodes over shm and tcp, with client processes
//! killed at random moments, and on simulated worlds, where one seed decides who dies and what is cut
//! off. A key without a verdict fails the stage just as a wrong one does.

use crate::run::Job;
use crate::{Outcome, Stage};

/// Transport, nodes, operations of each kind, and clients of each kind that are killed.
const CI_REAL: [(&str, u64, u64, u64); 4] =
    [("shm", 1, 2_000_000, 9), ("shm", 2, 400_000, 5), ("tcp", 1, 100_000, 3), ("tcp", 2, 100_000, 3)];
pub(crate) const KINDS: [&str; 4] = ["hopscotch", "cuckoo", "cache", "tree"];
/// Operations on simulated worlds, of all kinds.
const CI_SIMULATED: u64 = 500_000;

/// What must have been checked for the stage to pass.
const OPERATIONS_MIN: u64 = 10_000_000;
const KILLS_MIN: u64 = 50;

/// How much to check, or what to replay.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Replay this seed of the simulated world alone, as a failure named it.
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn stage() -> Stage {
    run(&Args { seed: None })
}

pub(crate) fn run(args: &Args) -> Stage {
    if let Some(seed) = args.seed {
        let line = watch(&["--transport", "simulated", "--seed", &seed.to_string(), "--operations", "1"])?;
        return Ok(Outcome::Passed(line));
    }
    let (mut operations, mut kills, mut parts) = (0, 0, Vec::new());
    for (transport, nodes, each, killed) in CI_REAL {
        for kind in KINDS {
            let [nodes, each, killed] = [nodes, each, killed].map(|number| number.to_string());
            let line = watch(&[
                "--kind",
                kind,
                "--transport",
                transport,
                "--nodes",
                &nodes,
                "--operations",
                &each,
                "--kills",
                &killed,
            ])?;
            let count = before(&line, " operations");
            operations += count;
            kills += before(&line, " clients killed");
            parts.push(format!("{kind} {transport}/{nodes} {count}"));
        }
    }
    let simulated = watch(&["--transport", "simulated", "--operations", &CI_SIMULATED.to_string()])?;
    let count = before(&simulated, " operations");
    operations += count;
    parts.push(format!("simulated {count} with {} deaths", before(&simulated, " clients killed")));
    if operations < OPERATIONS_MIN || kills < KILLS_MIN {
        return Err(format!("only {operations} operations were checked, with {kills} processes killed"));
    }
    Ok(Outcome::Passed(format!(
        "{operations} operations, {kills} processes killed, one order for each key: {}",
        parts.join(", ")
    )))
}

/// Runs the watched clients; the line in which they say what was checked.
fn watch(args: &[&str]) -> Result<String, String> {
    let example =
        ["run", "--quiet", "--profile", "checkers", "-p", "barn", "--example", "linear_histories", "--"];
    let done = Job::cargo(&[&example[..], args].concat()).run()?;
    if done.status.success() {
        let line = done.output.lines().find(|line| line.contains("one order for each key"));
        return line.map(str::to_owned).ok_or_else(|| "the watched clients said nothing".into());
    }
    let why = done.output.lines().find_map(|line| line.strip_prefix("failed: "));
    Err(format!("{}: {}", args.join(" "), why.unwrap_or(&done.how())))
}

/// The number before some words: 12 in `of them 12 clients killed`.
fn before(line: &str, words: &str) -> u64 {
    let number = line.split_once(words).and_then(|(start, _)| start.split_whitespace().last());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_read_from_a_line() {
        let line = "cuckoo over shm, 1 nodes: 403831 operations on 9 keys, 4 clients killed, one order";
        assert_eq!(super::before(line, " operations"), 403_831);
        assert_eq!(super::before(line, " clients killed"), 4);
        assert_eq!(super::before(line, " worlds"), 0);
    }
}
