//! Pilaf's Figure 9: how many one-sided GETs a writer at full speed makes begin again.
//!
//! A node inside this process, a client that puts and one that gets, each as fast as it goes, all
//! uniformly over the same keys.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barn::node::NodeConfig;
use barn::{Barn, Found, Kind, Table, TableOptions, Way};
use barn_fabric::seam::{Random, Seeded};

use super::{Scale, figure};
use crate::report::{Better, Bound, Row};

pub(super) const ROWS: &[&str] = &[
    "retries/1000-keys",
    "retries/5000-keys",
    "retries/20000-keys",
    "retries/100000-keys",
    "cuckoo/reads-per-get",
];

const KEYS: [u64; 4] = [1000, 5000, 20_000, 100_000];
/// Where Pilaf says how many are retried, and less than how many.
const BOUNDED_KEYS: u64 = 20_000;
const RETRIES_MAX: f64 = 0.0001;
/// The keys with which READs are counted, and what Pilaf needs at 75 %: 1.6 places and the extent.
const READS_PAPER: f64 = 2.6;
const VALUE_BYTES: usize = 32;
/// Operations between two looks at the clock.
const LOOK_EVERY: u32 = 256;

/// What one load showed.
struct Load {
    gets: u64,
    retries: u64,
    reads: u64,
    puts: u64,
    fill: f64,
}

/// A load for each number of keys.
pub(super) fn measure(scale: Scale) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut reads = None;
    for (name, keys) in ROWS.iter().zip(KEYS) {
        let load = under_load(keys, scale.load).map_err(io::Error::other)?;
        let fraction = load.retries as f64 / load.gets.max(1) as f64;
        let row = if keys == BOUNDED_KEYS {
            figure(
                name,
                "of the GETs",
                fraction,
                ("Pilaf, Figure 9", RETRIES_MAX),
                Bound::AtMost(RETRIES_MAX),
            )
        } else {
            Row::new(*name, "of the GETs", Better::Lower, &[fraction])
        };
        let rate = |count: u64| count as f64 / scale.load.as_secs_f64();
        rows.push(
            row.with("keys", keys)
                .with("gets", load.gets)
                .with("retries", load.retries)
                .with("gets_per_s", rate(load.gets))
                .with("puts_per_s", rate(load.puts)),
        );
        if keys == BOUNDED_KEYS {
            reads = Some(load);
        }
    }
    rows.extend(reads.map(|load| {
        Row::new(ROWS[4], "READs", Better::Lower, &[load.reads as f64 / load.gets.max(1) as f64])
            .beside("Pilaf at 75 %", &[READS_PAPER])
            .with("keys", BOUNDED_KEYS)
            .with("fill", load.fill)
    }));
    Ok(rows)
}

fn under_load(keys: u64, time: Duration) -> Result<Load, barn::Error> {
    let node = Barn::embedded_with(NodeConfig::embedded().memory(256 << 20))?;
    let options = TableOptions { kind: Kind::Cuckoo, capacity: keys, ..TableOptions::default() };
    let written = node.table_with("retries", options)?;
    for number in 0..keys {
        written.put(&key(number), &[7; VALUE_BYTES])?;
    }
    let address = node.address().unwrap_or_default();
    let read = Barn::connect(&address)?.open_table("retries")?.read_by(Way::OneSided);
    let over = AtomicBool::new(false);
    let (puts, outcome) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| put_until(&written, keys, &over));
        let outcome = get_for(&read, keys, time);
        // ORDER: Relaxed: the writer may put a few more.
        over.store(true, Ordering::Relaxed);
        (writer.join().unwrap_or(Ok(0)), outcome)
    });
    let puts = puts?;
    outcome?;
    let stats = read.stats()?;
    Ok(Load {
        gets: stats.one_sided_gets,
        retries: stats.retries,
        reads: stats.reads,
        puts,
        fill: stats.shards.keys as f64 / stats.shards.slots.max(1) as f64,
    })
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn put_until(table: &Table, keys: u64, over: &AtomicBool) -> Result<u64, barn::Error> {
    let mut random = Seeded::new(3);
    let mut puts = 0;
    // ORDER: Relaxed: nothing follows from it but the end.
    while !over.load(Ordering::Relaxed) {
        table.put(&key(random.below(keys)), &[puts as u8; VALUE_BYTES])?;
        puts += 1;
    }
    Ok(puts)
}

fn get_for(table: &Table, keys: u64, time: Duration) -> Result<(), barn::Error> {
    let (mut random, mut found) = (Seeded::new(4), Found::default());
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..LOOK_EVERY {
            let number = random.below(keys);
            if !table.find_into(&key(number), &mut found)? || found.value.len() != VALUE_BYTES {
                return Err(barn::Error::own(format!("key {number} is not there, or not whole")));
            }
        }
    }
    Ok(())
}
