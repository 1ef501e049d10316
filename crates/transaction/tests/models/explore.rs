//! Runs a model under many schedules, on every core; a failure tells how to replay it.

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::thread;
use std::time::Instant;

/// What a plain `cargo test` explores with all models together.
const SCHEDULES: usize = 40_000;
/// Changes of priority in a schedule: what most of known concurrency bugs need.
const DEPTH: usize = 3;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Explores a model with its share, in percent, of all schedules. `make` gives each core a model of
/// its own, whose memory is used again by schedule after schedule.
pub(crate) fn explore<F: Fn() + Send + Sync + 'static>(name: &str, percent: usize, make: impl Fn() -> F) {
    if let Ok(schedule) = std::env::var("BARN_SCHEDULE") {
        return shuttle::replay(make(), &schedule);
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let each = (number("BARN_SCHEDULES", SCHEDULES) * percent / 100).div_ceil(cores);
    let seed = number("BARN_SEED", 1);
    let started = Instant::now();
    let running: Vec<_> = (0..cores)
        .map(|core| (core, make(), make()))
        .map(|(core, random, by_priority)| {
            thread::spawn(move || {
                let seed = (seed * cores + core) as u64;
                let scheduler = RandomScheduler::new_from_seed(seed, each.div_ceil(2));
                let explored = Runner::new(scheduler, config()).run(random);
                // Rare orders, which a coin for every step hardly ever gives.
                let scheduler = PctScheduler::new_from_seed(seed, DEPTH, each / 2);
                explored + if each > 1 { Runner::new(scheduler, config()).run(by_priority) } else { 0 }
            })
        })
        .collect();
    let explored: Vec<_> = running.into_iter().map(thread::JoinHandle::join).collect();
    let replay = "replay the schedule printed above: BARN_SCHEDULE=… cargo test -p barn-transaction";
    assert!(explored.iter().all(Result::is_ok), "{replay} --release --test models {name}");
    let explored: usize = explored.into_iter().flatten().sum();
    println!("{name}: {explored} schedules, {:.1} s", started.elapsed().as_secs_f64());
}

fn config() -> Config {
    let mut config = Config::new();
    // The participant's own calls are shallow; so small a stack is made and cleared quickly.
    config.stack_size = 128 << 10;
    config.silence_warnings = true;
    config
}
