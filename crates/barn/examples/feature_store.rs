//! Feature vectors that worker processes share: `cargo run --example feature_store`.
//!
//! The first process starts a node inside itself, fills a table with vectors, and keeps writing new
//! ones. Workers, each a process, read batches of them from the node's memory without asking it:
//! nothing is copied into their own memory beforehand, and no read waits for the writer. Every vector
//! that a worker sees is whole: it was all written at once.
#![forbid(unsafe_code)]

use barn::node::NodeConfig;
use barn::{Answers, Barn, TableOptions, Way};
use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WORKERS: usize = 3;
const USERS: u64 = 20_000;
/// The numbers of a vector: 128 bytes, which lie in the buckets themselves.
const FEATURES: usize = 32;
/// Vectors that a worker looks up together, as for one inference.
const BATCH: usize = 64;
const TIME: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => write(),
        [address, seed] => work(address, seed.parse()?),
        _ => Err("give nothing, or an address and a seed".into()),
    }
}

/// Fills the table, starts the workers and updates vectors for as long as they work.
fn write() -> Result<(), Box<dyn Error>> {
    let barn = Barn::embedded_with(NodeConfig { memory_bytes: 64 << 20, ..NodeConfig::embedded() })?;
    let options =
        TableOptions { capacity: USERS, key_bytes: 8, inline_bytes: 128, ..TableOptions::default() };
    let features = barn.table_with("features", options)?;
    for user in 0..USERS {
        features.put(&user.to_le_bytes(), &vector(user, 0))?;
    }
    let stats = features.stats()?.shards;
    println!(
        "{} vectors of {FEATURES} numbers in {:.1} MiB, shared by {WORKERS} processes and a writer",
        stats.keys,
        stats.memory_bytes as f64 / (1 << 20) as f64
    );

    let address = barn.address().ok_or("the node listens nowhere")?;
    let this_program = std::env::current_exe()?;
    let mut workers = (0..WORKERS)
        .map(|seed| {
            Command::new(&this_program)
                .args([&address, &(seed + 1).to_string()])
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<Result<Vec<_>, _>>()?;

    let (started, mut updates, mut dice) = (Instant::now(), 0u64, 99);
    while workers.iter_mut().any(|worker| worker.try_wait().is_ok_and(|ended| ended.is_none())) {
        let user = roll(&mut dice, USERS);
        updates += 1;
        features.put(&user.to_le_bytes(), &vector(user, updates as u32))?;
    }
    let seconds = started.elapsed().as_secs_f64();

    let mut total = 0.0;
    for worker in workers {
        let output = worker.wait_with_output()?;
        let line = String::from_utf8(output.stdout)?;
        print!("  {line}");
        let rate = line.split(' ').nth(3).and_then(|rate| rate.parse::<f64>().ok());
        total += rate.filter(|_| output.status.success()).ok_or("a worker failed")?;
    }
    println!("together {total:.0} vectors per second, while {:.0} were replaced", updates as f64 / seconds);
    Ok(())
}

/// Reads batches of vectors and uses them.
fn work(address: &str, mut dice: u64) -> Result<(), Box<dyn Error>> {
    let features = Barn::connect(address)?.open_table("features")?.read_by(Way::OneSided);
    // All memory that reading needs, used again for each batch.
    let mut answers = Answers::new();
    let (started, mut vectors, mut fresh, mut newest) = (Instant::now(), 0u64, 0u64, 0);
    while started.elapsed() < TIME {
        let users: Vec<[u8; 8]> = (0..BATCH).map(|_| roll(&mut dice, USERS).to_le_bytes()).collect();
        let keys: Vec<&[u8]> = users.iter().map(<[u8; 8]>::as_slice).collect();
        features.find_many(&keys, &mut answers)?;
        for (user, found) in users.iter().zip(answers.iter()) {
            let found = found.ok_or("a vector is missing")?;
            let round = check(u64::from_le_bytes(*user), &found.value).ok_or("a vector is torn")?;
            fresh += u64::from(round > newest);
            newest = newest.max(round);
            vectors += 1;
        }
    }
    let rate = vectors as f64 / started.elapsed().as_secs_f64();
    let stats = features.stats()?;
    println!(
        "worker {} read {rate:.0} vectors per second, {:.2} READs each; {fresh} times one newer than all before",
        std::process::id(),
        stats.reads as f64 / stats.one_sided_gets.max(1) as f64
    );
    Ok(())
}

/// A user's vector in a round of updates: every number follows from both, so that a torn one shows.
fn vector(user: u64, round: u32) -> Vec<u8> {
    (0..FEATURES as u32)
        .flat_map(|at| if at == 0 { round } else { number(user, round, at) }.to_le_bytes())
        .collect()
}

/// The round in which a vector was written, if it is whole.
fn check(user: u64, vector: &[u8]) -> Option<u32> {
    let mut numbers =
        vector.chunks_exact(4).map(|number| u32::from_le_bytes([number[0], number[1], number[2], number[3]]));
    let round = numbers.next()?;
    let whole = numbers.enumerate().all(|(at, seen)| seen == number(user, round, at as u32 + 1));
    (whole && vector.len() == FEATURES * 4).then_some(round)
}

fn number(user: u64, round: u32, at: u32) -> u32 {
    (user as u32).wrapping_mul(0x9e37_79b1) ^ round.wrapping_mul(0x85eb_ca6b).wrapping_add(at)
}

/// A number below a bound.
fn roll(dice: &mut u64, bound: u64) -> u64 {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*dice >> 33) % bound
}
