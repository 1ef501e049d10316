//! Runs the simulated scenarios: `--seed N` replays one seed, `--seeds K` runs K of them from
//! the seed on, `--minutes M` runs new ones until the time is up.
//!
//! A failure prints the seed and the command that replays it, and ends with status 1.

use barn_fabric::simulated::Stats;
use barn_fabric::simulated::scenario::{ALL, Report};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: simulate [--seed N] [--seeds K] [--minutes M] [--scenario NAME]";

struct Arguments {
    seed: u64,
    seeds: u64,
    time: Option<Duration>,
    scenario: Option<String>,
}

fn parse() -> Result<Arguments, String> {
    let mut parsed = Arguments { seed: 1, seeds: 0, time: None, scenario: None };
    let (mut given, mut arguments) = (false, std::env::args().skip(1));
    while let Some(name) = arguments.next() {
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(value.to_string())),
            None => (name, arguments.next()),
        };
        let value = value.ok_or_else(|| format!("{name} needs a value\n{USAGE}"))?;
        let wrong = |error: &dyn std::fmt::Display| format!("{name} {value}: {error}\n{USAGE}");
        match name.as_str() {
            "--seed" => {
                parsed.seed = value.parse().map_err(|error| wrong(&error))?;
                given = true;
            }
            "--seeds" => parsed.seeds = value.parse().map_err(|error| wrong(&error))?,
            "--minutes" => {
                let minutes: f64 = value.parse().map_err(|error| wrong(&error))?;
                let time = Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| wrong(&error))?;
                parsed.time = Some(time);
            }
            "--scenario" => parsed.scenario = Some(value),
            _ => return Err(format!("{name} is not known\n{USAGE}")),
        }
    }
    if parsed.seeds == 0 {
        parsed.seeds = match (parsed.time, given) {
            (Some(_), _) => u64::MAX,
            (None, true) => 1,
            (None, false) => 100,
        };
    }
    Ok(parsed)
}

/// What all seeds so far came to.
#[derive(Default)]
struct Total {
    seeds: u64,
    stats: Stats,
    checked: u64,
    first: Option<(u64, u64)>,
}

/// Runs one scenario; a panic is a failure like any other.
fn run(name: &'static str, scenario: fn(u64) -> Report, seed: u64) -> Report {
    catch_unwind(AssertUnwindSafe(|| scenario(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let failure = Some(format!("panicked: {text}"));
        Report { scenario: name, seed, trace: 0, stats: Stats::default(), checked: 0, failure }
    })
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let mut total = Total::default();
    for seed in (arguments.seed..).take(usize::try_from(arguments.seeds).unwrap_or(usize::MAX)) {
        if arguments.time.is_some_and(|time| start.elapsed() >= time) {
            break;
        }
        let mut hash = 0u64;
        for (name, scenario) in ALL {
            if arguments.scenario.as_ref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            let report = run(name, scenario, seed);
            hash = hash.rotate_left(17) ^ report.trace;
            if arguments.seeds == 1 {
                let Stats { events, torn_reads, faults, .. } = report.stats;
                println!(
                    "{name}: {events} events, {} checked, {torn_reads} torn READs, {faults} faults, trace {:016x}",
                    report.checked, report.trace
                );
            }
            if let Some(why) = report.failure {
                println!("seed {seed} failed: {name}: {why} (trace {:016x})", report.trace);
                println!("replay: cargo xtask simulate --seed {seed}");
                return ExitCode::FAILURE;
            }
            total.stats += report.stats;
            total.checked += report.checked;
        }
        total.seeds += 1;
        total.first.get_or_insert((seed, hash));
    }
    let Stats { events, reads, torn_reads, calls, faults, crashes } = total.stats;
    let (first, hash) = total.first.unwrap_or_default();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} seeds from {}, {events} events, {} checked, {reads} READs of which {torn_reads} torn, {calls} calls, \
         {faults} faults ({crashes} crashes), {:.0} seeds/s, trace of seed {first}: {hash:016x}",
        total.seeds,
        arguments.seed,
        total.checked,
        total.seeds as f64 / seconds.max(1e-9),
    );
    // A gate that never shows a torn READ shows nothing.
    if total.seeds >= 20 && torn_reads == 0 && arguments.scenario.is_none() {
        println!("no READ was torn in {} seeds: the simulation has lost its teeth", total.seeds);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
