//! How fast histories are checked: `cargo run --release -p barn-transaction --example check_speed`.
//!
//! Arguments: transactions (1,000,000), objects (100,000), clients (16). Half of the transactions
//! read 2 to 8 objects, the others read and change as many.

#![forbid(unsafe_code)]

use std::time::Instant;

use barn_transaction::history::{History, ObjectKey, Outcome, Record, Write, WriteKind, check};

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
    }
}

fn key(object: u64) -> ObjectKey {
    ObjectKey { address: 0x1000 + object * 88, incarnation: 0 }
}

/// A transaction that runs at its moment, on different objects.
fn transaction(random: &mut Random, number: u64, clients: u64, versions: &mut [u64]) -> Record {
    let size = 2 + random.below(7);
    let changes = random.below(2) == 0;
    let first = random.below(versions.len() as u64);
    // A stride coprime to most counts: different objects without looking for repeats.
    let stride = 1 + random.below(1000);
    let moment = 1000 * (number + clients);
    let mut record = Record {
        client: (number % clients) as u32,
        number,
        start: moment - random.below(500 * clients),
        end: moment + random.below(500 * clients),
        outcome: Outcome::Committed,
        reads: Vec::new(),
        writes: Vec::new(),
    };
    for step in 0..size {
        let object = (first + step * stride) % versions.len() as u64;
        let version = &mut versions[object as usize];
        if record.reads.iter().any(|read| read.0 == key(object)) {
            continue;
        }
        record.reads.push((key(object), *version));
        if changes {
            let (before, after) = (*version, *version + 1);
            record.writes.push(Write { object: key(object), kind: WriteKind::Update, before, after });
            *version = after;
        }
    }
    record
}

/// The most memory that this process has had, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Seconds of a core that this thread has had: other work on the machine does not count.
fn core_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().unwrap_or(0));
    let mut next = |default: u64| args.next().filter(|&given| given > 0).unwrap_or(default);
    let (transactions, objects, clients) = (next(1_000_000), next(100_000), next(16));
    let mut random = Random(0xBA4);
    let mut versions = vec![1; objects as usize];
    let mut history = History::new();
    let mut push_seconds = 0.0;
    (0..objects).for_each(|object| history.initial(key(object), 1));
    let mut batch = Vec::new();
    for number in 0..transactions {
        batch.push(transaction(&mut random, number, clients, &mut versions));
        if batch.len() == 1024 || number + 1 == transactions {
            let start = core_seconds();
            batch.drain(..).for_each(|record| history.push(record));
            push_seconds += core_seconds() - start;
        }
    }
    (0..objects).for_each(|object| history.final_state(key(object), Some(versions[object as usize])));
    let rate = |seconds: f64| transactions as f64 / seconds / 1e6;
    let before_mib = peak_mib();
    println!("push:  {:.2} M transactions/s, {before_mib} MiB", rate(push_seconds));
    for _ in 0..5 {
        let (start, start_core) = (Instant::now(), core_seconds());
        match check(&history) {
            Ok(summary) => println!(
                "check: {:.2} M transactions/s of a core, {:.2} M/s by the clock; {} reads, {} writes; peak {} MiB",
                rate(core_seconds() - start_core),
                rate(start.elapsed().as_secs_f64()),
                summary.reads,
                summary.writes,
                peak_mib()
            ),
            Err(violation) => println!("{violation}"),
        }
    }
}
