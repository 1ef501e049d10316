//! `cargo xtask simulate`: the simulated fabric, from one seed or from many.
//!
//! The simulator is the example `simulate` of `barn-fabric`. Its side of the agreement:
//! it takes `--seed FIRST --seeds COUNT --minutes M` (0 minutes: no bound in time), prints
//! `seed N` before it starts a seed that it will say more about, and for a failure prints
//! `seed N failed: WHY` and ends with a code that is not zero.

use crate::run::{Job, root};
use crate::{Outcome, Stage};

const PACKAGE: &str = "barn-fabric";
const SOURCE: &str = "crates/fabric/examples/simulate.rs";
/// What a run of `cargo xtask test` spends on it.
const CI: Args = Args { seed: 1, seeds: 1000, minutes: 1 };

/// Which seeds, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The first seed. A failure names the seed that replays it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds to run, one after another.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Stop starting new seeds after this many minutes (0: run them all).
    #[arg(long, default_value_t = 0)]
    minutes: u64,
}

pub(crate) fn stage() -> Stage {
    run(&CI)
}

pub(crate) fn run(args: &Args) -> Stage {
    if !root().join(SOURCE).exists() {
        return Err(format!("{SOURCE} is missing: nothing was simulated"));
    }
    let [seed, seeds, minutes] = [args.seed, args.seeds, args.minutes].map(|number| number.to_string());
    let done = Job::cargo(&[
        "run",
        "--quiet",
        "--profile",
        "checkers",
        "-p",
        PACKAGE,
        "--example",
        "simulate",
        "--",
        "--seed",
        &seed,
        "--seeds",
        &seeds,
        "--minutes",
        &minutes,
    ])
    .run()?;
    if done.status.success() {
        return Ok(Outcome::Passed(format!(
            "from seed {seed}, at most {seeds} seeds, {:.0} s",
            done.seconds
        )));
    }
    let replay = match failing_seed(&done.output) {
        Some(seed) => {
            format!("seed {seed} failed; replay it with: cargo xtask simulate --seed {seed}")
        }
        None => format!("it {}, naming no seed", done.how()),
    };
    Err(replay)
}

/// The seed that failed; if it died without a word, the last one that was started.
fn failing_seed(output: &str) -> Option<u64> {
    let seed = |line: &str| -> Option<u64> {
        let rest = line.trim().strip_prefix("seed ")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let failed = output.lines().filter(|line| line.contains(" failed")).find_map(seed);
    failed.or_else(|| output.lines().rev().find_map(seed))
}

#[cfg(test)]
mod tests {
    use super::failing_seed;

    #[test]
    fn the_seed_to_replay_is_found() {
        assert_eq!(failing_seed("seed 7\nseed 8 failed: torn read\nseed 9\n"), Some(8));
        assert_eq!(failing_seed("seed 7\nseed 12\nSegmentation fault\n"), Some(12));
        assert_eq!(failing_seed("error: could not compile"), None);
    }
}
