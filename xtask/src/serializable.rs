//! `cargo xtask serializable`: watched clients; every history must have one order.
//!
//! On simulated worlds, where one seed decides who dies and what is cut off when, and on real nodes
//! over shm and tcp, where the transactions are many.

use crate::run::Job;
use crate::{Outcome, Stage};

/// What a run of `cargo xtask test` checks on simulated worlds...
const CI_TRANSACTIONS: u64 = 1_000_000;
/// ...and on real nodes: transport, nodes, transactions. Ten million in all.
const CI_REAL: [(&str, &str, u64); 4] =
    [("shm", "1", 6_700_000), ("shm", "2", 1_200_000), ("shm", "4", 300_000), ("tcp", "2", 800_000)];

/// How much to check, or what to replay.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Replay this seed alone, as a failure named it.
    #[arg(long)]
    seed: Option<u64>,
    /// The first of many seeds.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// How many transactions to check, over as many seeds as they take.
    #[arg(long, default_value_t = CI_TRANSACTIONS)]
    transactions: u64,
}

pub(crate) fn stage() -> Stage {
    let Outcome::Passed(simulated) = run(&Args { seed: None, first: 1, transactions: CI_TRANSACTIONS })?
    else {
        return Err("nothing was simulated".into());
    };
    let mut checked = CI_TRANSACTIONS;
    for (transport, nodes, transactions) in CI_REAL {
        let count = transactions.to_string();
        let example =
            ["run", "--quiet", "--profile", "checkers", "-p", "barn", "--example", "real_histories", "--"];
        let given = ["--transport", transport, "--nodes", nodes, "--transactions", &count];
        Job::cargo(&[&example[..], &given].concat()).succeed("a history of real nodes")?;
        checked += transactions;
    }
    Ok(Outcome::Passed(format!("{checked} transactions; {simulated}; the others on real nodes")))
}

pub(crate) fn run(args: &Args) -> Stage {
    let (first, transactions) = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.first, args.transactions),
    };
    let [first, transactions] = [first, transactions].map(|number| number.to_string());
    let example =
        ["run", "--quiet", "--profile", "checkers", "-p", "barn-transaction", "--features", "scenarios"];
    let given = ["--example", "serializable", "--", "--seed", &first, "--transactions", &transactions];
    let done = Job::cargo(&[&example[..], &given].concat()).run()?;
    if done.status.success() {
        let found = done.output.lines().rev().find(|line| line.starts_with("seeds "));
        return Ok(Outcome::Passed(found.unwrap_or("as asked").to_owned()));
    }
    Err(match done.output.lines().find_map(failing_seed) {
        Some(seed) => {
            format!("seed {seed} failed; replay it with: cargo xtask serializable --seed {seed}")
        }
        None => format!("it {}, naming no seed", done.how()),
    })
}

/// The seed in a line such as `seed 7 failed: a cycle`.
fn failing_seed(line: &str) -> Option<u64> {
    line.strip_prefix("seed ")?.split_once(" failed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_seed_to_replay_is_found() {
        assert_eq!(super::failing_seed("seed 12 failed: a cycle"), Some(12));
        assert_eq!(super::failing_seed("seeds 1 to 12: 40 transactions"), None);
    }
}
