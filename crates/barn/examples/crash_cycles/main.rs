//! Kills a node again and again while clients write to it, and compares what it recovers with what
//! the clients were told.
//!
//! `crash_cycles [--cycles N] [--clients N] [--nodes N] [--seed SEED] [--window-ms MS] [--data DIR]`
//!
//! The node is a process of its own, killed by SIGKILL at random moments, or by itself at one of the
//! log's failpoints: within a write, a checkpoint, cleaning, or recovery. Clients are threads of this
//! process; they write one change after another, each as `logged` or `synced`, and keep what they were
//! told. After each restart what is there must be, for every client, its changes up to some point and
//! none beyond ([`record::Record::judge`]): with all that were acknowledged as synced; what is lost of the
//! others was acknowledged within a window (the last one, or the one in which the disk began to hang). With
//! several nodes, of which one is killed at a time, all changes are synced.
#![forbid(unsafe_code)]

mod client;
mod node;
mod record;

use barn_fabric::seam::{Random, Seeded};
use client::Client;
use node::{Cluster, End, NodeProcess};
use record::Tally;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the clients write before the node is killed, at most.
const LIFE_MS_MAX: u64 = 120;
/// Longer than a restart takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    argument(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// One end of a node: the clients write, something kills it, it comes back, and all is compared.
fn cycle(cluster: &mut Cluster, clients: &mut [Client], random: &mut Seeded) -> Result<Tally, String> {
    let pause = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                let pause = &pause;
                scope.spawn(move || client.write(pause))
            })
            .collect();
        std::thread::sleep(Duration::from_micros(random.below(LIFE_MS_MAX * 1000)));
        let killed = cluster.kill_and_restart(random);
        // ORDER: Relaxed: a flag that stands alone.
        pause.store(true, Ordering::Relaxed);
        for client in writing {
            client.join().map_err(|_| "a client panicked".to_string())??;
        }
        killed
    })
    .and_then(|ended| {
        let ended = End { again: cluster.settle()?, ..ended };
        let mut tally = Tally::of_kill();
        for client in clients {
            tally.add(&client.check(cluster, ended)?);
        }
        Ok(tally)
    })
}

fn run() -> Result<String, String> {
    let (cycles, seed) = (number("--cycles", 40), number("--seed", 1));
    let mut random = Seeded::new(seed);
    let mut cluster = Cluster::start(number("--nodes", 1))?;
    let mut clients = Vec::new();
    for number in 0..number("--clients", 4) {
        clients.push(Client::connect(&cluster.addresses(), number as u32, random.next())?);
    }
    let (begun, mut tally) = (Instant::now(), Tally::default());
    for number in 0..cycles {
        let one = cycle(&mut cluster, &mut clients, &mut random);
        let of = |why| format!("cycle {number} of seed {seed} ({}): {why}", cluster.ends());
        tally.add(&one.map_err(of)?);
    }
    let ends = cluster.ends();
    drop(clients);
    Ok(format!("{tally}; {ends}; {:.0} s", begun.elapsed().as_secs_f64()))
}

fn main() -> ExitCode {
    let done = match argument("--serve") {
        Some(place) => NodeProcess::serve(&place).map(|()| String::new()),
        None => run(),
    };
    match done {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("failed: {why}");
            ExitCode::FAILURE
        }
    }
}
