//! `cargo xtask shuttle`: the protocols of transactions under schedules that shuttle chooses.
//!
//! The models are tests of barn-transaction (`tests/models`); here they are compiled for speed and
//! share out as many schedules as are asked for.

use crate::run::Job;
use crate::{Outcome, Stage};

/// What a run of `cargo xtask test` explores.
const CI_SCHEDULES: u64 = 10_000_000;

/// How much to explore, or what to replay.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many schedules all models explore together.
    #[arg(long, default_value_t = CI_SCHEDULES)]
    schedules: u64,
    /// What the schedules follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only models whose name contains this.
    #[arg(long, default_value = "")]
    model: String,
    /// Replay this schedule of that model, as a failure printed it.
    #[arg(long, requires = "model")]
    schedule: Option<String>,
}

pub(crate) fn stage() -> Stage {
    run(&Args { schedules: CI_SCHEDULES, seed: 1, model: String::new(), schedule: None })
}

pub(crate) fn run(args: &Args) -> Stage {
    // One model after another: each takes every core.
    let command =
        ["test", "-p", "barn-transaction", "--profile", "checkers", "--test", "models", args.model.as_str()];
    let mut job = Job::cargo(&[&command[..], &["--", "--nocapture", "--test-threads=1"]].concat())
        .env("BARN_SCHEDULES", args.schedules.to_string())
        .env("BARN_SEED", args.seed.to_string());
    if let Some(schedule) = &args.schedule {
        job = job.env("BARN_SCHEDULE", schedule.clone());
    }
    let done = job.succeed("a model (replay its schedule: cargo xtask shuttle --model NAME --schedule …)")?;
    let models = done.tests_passed();
    if models == 0 {
        return Err("no model has such a name: nothing was explored".into());
    }
    let schedules = explored(&done.output);
    Ok(Outcome::Passed(format!("{schedules} schedules of {models} models, {:.0} s", done.seconds)))
}

/// The sum over lines such as `test x ... x: 6000 schedules, 0.3 s`.
fn explored(output: &str) -> u64 {
    let count = |line: &str| line.split_once(" schedules, ")?.0.rsplit(' ').next()?.parse::<u64>().ok();
    output.lines().filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn schedules_are_counted() {
        let output =
            "running 2 tests\ntest a ... a: 6000 schedules, 0.3 s\nok\ntest b ... b: 40 schedules, 1.0 s\n";
        assert_eq!(super::explored(output), 6040);
    }
}
