//! Pilaf's Figure 9: how many one-sided GETs a writer at full speed makes begin again.
//!
//! A node inside this process, a client that puts and one that gets, each as fast as it goes, both
//! uniformly over the same keys. A GET whose entry or extent failed its check reads again, at once and
//! on its own, so that what counts is the READs that the same GETs need when nobody writes, and those
//! that they needed beyond that: one for a torn entry, two for a torn extent, hence no fewer than there
//! were GETs read again. Keys do not move while only their values change.

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
/// Gets between two looks at the clock.
const LOOK_EVERY: u64 = 256;
/// Puts in one message: so the writer is limited by the node, and not by how soon that is woken.
const PUTS_AT_ONCE: u64 = 512;

/// What one load showed.
struct Load {
    gets: u64,
    puts: u64,
    /// READs for the gets while somebody wrote, and for the same ones when nobody did.
    reads: u64,
    quiet_reads: u64,
    /// Lookups that were begun anew after reading again on their own had not helped.
    restarts: u64,
    fill: f64,
}

impl Load {
    fn extra_reads(&self) -> u64 {
        self.reads.saturating_sub(self.quiet_reads)
    }
}

/// A load for each number of keys.
pub(super) fn measure(scale: Scale) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut reads = None;
    for (name, keys) in ROWS.iter().zip(KEYS) {
        let load = under_load(keys, scale.load).map_err(io::Error::other)?;
        let fraction = load.extra_reads() as f64 / load.gets.max(1) as f64;
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
            row.counting(load.extra_reads(), load.gets)
                .with("keys", keys)
                .with("gets", load.gets)
                .with("extra_reads", load.extra_reads())
                .with("restarts", load.restarts)
                .with("gets_per_s", rate(load.gets))
                .with("puts_per_s", rate(load.puts)),
        );
        if keys == BOUNDED_KEYS {
            reads = Some(load);
        }
    }
    rows.extend(reads.map(|load| {
        Row::new(ROWS[4], "READs", Better::Lower, &[load.quiet_reads as f64 / load.gets.max(1) as f64])
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
    for first in (0..keys).step_by(PUTS_AT_ONCE as usize) {
        put(&written, first..keys.min(first + PUTS_AT_ONCE), 0)?;
    }
    let address = node.address().unwrap_or_default();
    let read = Barn::connect(&address)?.open_table("retries")?.read_by(Way::OneSided);
    let over = AtomicBool::new(false);
    let (puts, gets) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| put_until(&written, keys, &over));
        let start = Instant::now();
        let gets = get_while(&read, keys, |_| start.elapsed() < time);
        // ORDER: Relaxed: the writer may put a few more.
        over.store(true, Ordering::Relaxed);
        (writer.join().unwrap_or(Ok(0)), gets)
    });
    let (puts, gets) = (puts?, gets?);
    let loaded = read.stats()?;
    get_while(&read, keys, |done| done < gets)?;
    let both = read.stats()?;
    Ok(Load {
        gets,
        puts,
        reads: loaded.reads,
        quiet_reads: both.reads - loaded.reads,
        restarts: loaded.retries,
        fill: both.shards.keys as f64 / both.shards.slots.max(1) as f64,
    })
}

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn put(table: &Table, numbers: impl Iterator<Item = u64>, byte: u8) -> Result<(), barn::Error> {
    let (keys, value): (Vec<[u8; 16]>, _) = (numbers.map(key).collect(), [byte; VALUE_BYTES]);
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
    table.put_many(&pairs)
}

fn put_until(table: &Table, keys: u64, over: &AtomicBool) -> Result<u64, barn::Error> {
    let mut random = Seeded::new(3);
    let mut puts = 0;
    // ORDER: Relaxed: nothing follows from it but the end.
    while !over.load(Ordering::Relaxed) {
        put(table, (0..PUTS_AT_ONCE).map(|_| random.below(keys)), puts as u8)?;
        puts += PUTS_AT_ONCE;
    }
    Ok(puts)
}

/// Gets keys, always the same ones in the same order, while `more` says so; gives how many.
fn get_while(table: &Table, keys: u64, mut more: impl FnMut(u64) -> bool) -> Result<u64, barn::Error> {
    let (mut random, mut found, mut gets) = (Seeded::new(4), Found::default(), 0);
    while more(gets) {
        for _ in 0..LOOK_EVERY {
            let number = random.below(keys);
            if !table.find_into(&key(number), &mut found)? || found.value.len() != VALUE_BYTES {
                return Err(barn::Error::own(format!("key {number} is not there, or not whole")));
            }
        }
        gets += LOOK_EVERY;
    }
    Ok(gets)
}
