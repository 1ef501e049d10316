//! `cargo xtask crash`: nodes killed again and again under load; what they recover is compared with
//! what their clients were told. And a log whose file system loses its power again and again.

use crate::run::{Job, works};
use crate::{Outcome, Stage};

/// Nodes of a cluster, and how often one of them is killed in CI.
const CI: [(u64, u64); 2] = [(1, 45), (2, 15)];

/// Losses of power in CI.
const CI_IMAGES: u64 = 1000;

/// How much to check, or what to replay.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Kills, instead of CI's few: thousands for a soak.
    #[arg(long)]
    cycles: Option<u64>,
    /// Nodes, where --cycles is given.
    #[arg(long, default_value_t = 1)]
    nodes: u64,
    /// Losses of power.
    #[arg(long, default_value_t = CI_IMAGES)]
    images: u64,
    /// The seed that decides when to kill, and where.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn stage() -> Stage {
    run(&Args { cycles: None, nodes: 1, images: CI_IMAGES, seed: 1 })
}

pub(crate) fn run(args: &Args) -> Stage {
    let plan = match args.cycles {
        Some(cycles) => vec![(args.nodes, cycles)],
        None => CI.to_vec(),
    };
    let mut said = Vec::new();
    for (nodes, cycles) in plan {
        let [cycles, nodes, seed] = [cycles, nodes, args.seed].map(|number| number.to_string());
        let example =
            ["run", "--quiet", "--profile", "checkers", "-p", "barn", "--example", "crash_cycles", "--"];
        let job = ["--cycles", &cycles, "--nodes", &nodes, "--seed", &seed];
        let done = Job::cargo(&[&example[..], &job].concat()).run()?;
        let line = |begins: &str| done.output.lines().find_map(|line| line.strip_prefix(begins));
        if !done.status.success() {
            let why = line("failed: ").map_or_else(|| done.how(), str::to_owned);
            return Err(format!("{}: {why}", job.join(" ")));
        }
        let line = done.output.lines().find(|line| line.contains("every loss a suffix"));
        said.push(format!("{nodes} nodes: {}", line.ok_or("the crash cycles said nothing")?));
    }
    if args.images > 0 {
        said.push(power(args)?);
    }
    Ok(Outcome::Passed(said.join("; ")))
}

/// Cuts the power of a log's file system (`crates/log/src/tests/power.rs`), where this machine lets us.
fn power(args: &Args) -> Result<String, String> {
    const MOUNTS: &str = "test $(id -u) = 0 && test -e /dev/loop-control && command -v mkfs.ext4 mount perl";
    if !works("sh", &["-c", MOUNTS]) {
        return Ok("power never lost: that needs root, loop devices, mkfs.ext4 and perl".into());
    }
    let test = ["test", "--quiet", "--profile", "checkers", "-p", "barn-log", "--lib", "--"];
    let name = ["tests::power", "--ignored", "--nocapture"];
    let job = Job::cargo(&[&test[..], &name].concat());
    let job = job.env("BARN_POWER_IMAGES", args.images.to_string());
    let done = job.env("BARN_POWER_SEED", args.seed.to_string()).run()?;
    let line = done.output.lines().find(|line| line.starts_with("power lost "));
    match line {
        Some(line) if done.status.success() => Ok(line.to_owned()),
        _ => Err(format!("power loss, seed {}: {}", args.seed, done.how())),
    }
}
