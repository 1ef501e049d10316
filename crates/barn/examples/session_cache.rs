//! Sessions in a cache table: `cargo run --example session_cache`.
//!
//! A cache table has a fixed memory and refuses no put: it forgets the oldest. Sessions expire by
//! themselves, too. Visitors come back by a skewed chance, as visitors do; who is not found has to log
//! in, which costs a visit to the database that this program pretends to have.
#![forbid(unsafe_code)]

use barn::node::NodeConfig;
use barn::{Barn, Error, Kind, TableOptions};
use std::time::{Duration, Instant};

/// The cache's memory: room for some of the visitors, not for all.
const MEMORY_BYTES: u64 = 8 << 20;
const VISITORS: u64 = 50_000;
const SESSION_BYTES: usize = 200;
/// How long a session lasts after the visitor was last seen logging in.
const SESSION: Duration = Duration::from_millis(300);
const TIME: Duration = Duration::from_secs(2);

fn main() -> Result<(), Error> {
    let barn = Barn::embedded_with(NodeConfig { memory_bytes: 32 << 20, ..NodeConfig::embedded() })?;
    let options = TableOptions {
        kind: Kind::Cache,
        memory_bytes: MEMORY_BYTES,
        capacity: VISITORS / 2,
        ..TableOptions::default()
    };
    let sessions = barn.table_with("sessions", options)?;

    println!("{VISITORS} visitors, {} MiB for their sessions, each good for {SESSION:?}", MEMORY_BYTES >> 20);
    let (started, mut dice) = (Instant::now(), 1);
    let (mut visits, mut hits, mut reported) = (0u64, 0u64, 0u64);
    while started.elapsed() < TIME {
        let visitor = visitor(&mut dice);
        let key = format!("session:{visitor}");
        visits += 1;
        // A look into shared memory: the node is not asked.
        match sessions.get(key.as_bytes())? {
            Some(session) => {
                // What is there is whole and the visitor's own, however often it was written over.
                assert!(session.len() == SESSION_BYTES && session.starts_with(key.as_bytes()));
                hits += 1;
            }
            None => {
                sessions.put_for(key.as_bytes(), &log_in(&key), SESSION)?;
            }
        }
        let halves = started.elapsed().as_millis() as u64 / 500;
        if halves > reported {
            reported = halves;
            println!(
                "  after {:.1} s: {visits} visits, hit rate {:.1} %",
                halves as f64 / 2.0,
                percent(hits, visits)
            );
        }
    }

    let stats = sessions.stats()?.shards;
    println!(
        "{:.0} visits per second; {} sessions now, {} forgotten to make room, {} removed as expired",
        visits as f64 / started.elapsed().as_secs_f64(),
        stats.keys,
        stats.evicted,
        stats.expired
    );
    println!("hit rate {:.1} % over all: every miss was a login", percent(hits, visits));
    Ok(())
}

/// What a database would give, after a while.
fn log_in(key: &str) -> Vec<u8> {
    let mut session = format!("{key} logged in").into_bytes();
    session.resize(SESSION_BYTES, b'.');
    session
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// A visitor; half of all visits are by the most faithful few percent.
fn visitor(dice: &mut u64) -> u64 {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let chance = (*dice >> 33) as f64 / (1u64 << 31) as f64;
    (chance.powi(4) * VISITORS as f64) as u64
}
