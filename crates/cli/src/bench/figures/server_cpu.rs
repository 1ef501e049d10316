//! What the node's CPU does for one-sided GETs: nothing. Its clock before and after many of them,
//! less what it needs in as long a time when nobody asks for anything.

use std::io;
use std::time::{Duration, Instant};

use barn::{Answers, Barn, TableOptions, Way};
use barn_fabric::seam::{Random, Seeded};

use super::{Scale, figure};
use crate::bench::node::BenchNode;
use crate::report::{Bound, Row};

pub(super) const ROWS: &[&str] = &["server-cpu-per-get"];

const KEYS: u64 = 100_000;
const BATCH: usize = 32;
/// Above what a tick of the clock is worth over ten million GETs.
const NOISE_MAX: f64 = 1e-9;
/// What the node does when it wakes without being asked, at most: it looks for work for a while before it sleeps again.
const WAKE: Duration = Duration::from_millis(1);
/// The node looks for work a little longer before it sleeps.
const SETTLE: Duration = Duration::from_millis(200);

/// The node is another process: its clock is its own.
pub(super) fn measure(scale: Scale) -> io::Result<Vec<Row>> {
    let node = BenchNode::start(256 << 20, 0, None)?;
    let barn = Barn::connect(&node.address("shm")).map_err(io::Error::other)?;
    let options = TableOptions { capacity: KEYS, inline_bytes: 32, ..TableOptions::default() };
    let table = barn.table_with("cpu", options).map_err(io::Error::other)?.read_by(Way::OneSided);
    let keys: Vec<[u8; 16]> = (0..KEYS).map(|number| u128::from(number).to_be_bytes()).collect();
    for keys in keys.chunks(512) {
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &[7; 32][..])).collect();
        table.put_many(&pairs).map_err(io::Error::other)?;
    }
    let mut answers = Answers::new();
    let mut random = Seeded::new(5);
    let mut get = |count: u64| -> io::Result<()> {
        for _ in 0..count.div_ceil(BATCH as u64) {
            let chosen: [&[u8]; BATCH] = std::array::from_fn(|_| &keys[random.below(KEYS) as usize][..]);
            table.find_many(&chosen, &mut answers).map_err(io::Error::other)?;
            if answers.iter().any(|found| found.is_none()) {
                return Err(io::Error::other("a key is not there"));
            }
        }
        Ok(())
    };
    // The first fetches where the memory is, and has the node's answer.
    get(BATCH as u64)?;
    std::thread::sleep(SETTLE);
    let (before, start) = (node.cpu_seconds(), Instant::now());
    get(scale.gets)?;
    let (used, took) = (node.cpu_seconds() - before, start.elapsed());
    let before = node.cpu_seconds();
    std::thread::sleep(took);
    let idle = node.cpu_seconds() - before;
    let each = ((used - idle) / scale.gets as f64).max(0.0);
    let row = figure(ROWS[0], "s", each, ("Pilaf and FaRM", 0.0), Bound::AtMost(NOISE_MAX))
        .with("gets", scale.gets)
        .with("cpu_s", used)
        .with("idle_cpu_s", idle)
        .with("took_s", took.as_secs_f64());
    // The node wakes for its lease in either of the two, and once more or less in the next run.
    let wake = WAKE.as_secs_f64() / scale.gets as f64;
    Ok(vec![Row { low: (each - wake).max(0.0), high: each + wake, ..row }])
}
