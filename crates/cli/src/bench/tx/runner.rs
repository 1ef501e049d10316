//! Measures contenders in turn, a slice each, so that a noisy moment hits all.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::subject::{Counters, Subject};
use super::workload::{Case, Contention, Operation, Workload};
use crate::bench::quiet::sample;
use crate::bench::timing::Effort;

/// Every so many operations, one is timed and the clock looked at: two looks cost 50 ns, which is
/// 3 ns each.
const SAMPLE_EVERY: u64 = 16;

/// Transactions of a pipelined client between two looks at the clock.
const BATCH: usize = 1024;

/// One who is measured: clients of the same data.
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) clients: Vec<Box<dyn Subject>>,
}

impl Contender {
    /// How many transactions its clients have under way at once.
    pub(crate) fn window(&self) -> usize {
        self.clients.first().map_or(1, |client| client.window())
    }

    /// Whether a case is measured of it: several at once would only be in each other's way among 16
    /// objects, and READs of mapped memory do not wait for anybody.
    fn does(&self, case: Case) -> bool {
        self.window() == 1 || case.operation == Operation::Rmw2 && case.contention == Contention::Low
    }
}

/// What one contender did, over all its slices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Transactions committed a second, by slice.
    pub(crate) rates: Vec<f64>,
    /// Sampled times of one transaction, in nanoseconds, sorted.
    pub(crate) latencies_ns: Vec<u64>,
    pub(crate) committed: u64,
    pub(crate) counters: Counters,
}

impl Measured {
    /// The time within which so many of a hundred transactions ended.
    pub(crate) fn percentile_ns(&self, percent: usize) -> u64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        self.latencies_ns.get(last * percent / 100).copied().unwrap_or(0)
    }

    /// So much of something for each transaction.
    pub(crate) fn each(&self, count: u64) -> f64 {
        count as f64 / self.committed.max(1) as f64
    }

    /// Attempts that were aborted, of all.
    pub(crate) fn abort_rate(&self) -> f64 {
        self.counters.aborts as f64 / (self.committed + self.counters.aborts).max(1) as f64
    }

    fn add(&mut self, slice: Slice) {
        self.rates.push(slice.committed as f64 / slice.took.as_secs_f64());
        self.latencies_ns.extend(slice.latencies_ns);
        self.committed += slice.committed;
        self.counters = self.counters.and(slice.counters);
    }
}

/// Measures each in turn, as often as there are repeats.
pub(crate) fn in_turn(
    effort: Effort,
    contenders: &mut [Contender],
    case: Case,
    objects: u32,
    seed: u64,
) -> io::Result<Vec<Measured>> {
    let mut measured = vec![Measured::default(); contenders.len()];
    // The first round warms up.
    for round in 0..=effort.repeats {
        for (contender, measured) in contenders.iter_mut().zip(&mut measured) {
            if !contender.does(case) {
                continue;
            }
            let slice = if round == 0 { effort.slice / 4 } else { effort.slice };
            let seed = seed + 1000 * round as u64;
            let mut one = || one_slice(&mut contender.clients, case, objects, seed, slice);
            let done = if round == 0 { one() } else { sample(one) };
            let done = done.map_err(|error| io::Error::other(format!("{}: {error}", contender.name)))?;
            if round > 0 {
                measured.add(done);
            }
        }
    }
    for measured in &mut measured {
        measured.latencies_ns.sort_unstable();
    }
    Ok(measured)
}

/// What was done in one slice.
struct Slice {
    committed: u64,
    took: Duration,
    latencies_ns: Vec<u64>,
    counters: Counters,
}

/// All clients of a contender at once.
fn one_slice(
    clients: &mut [Box<dyn Subject>],
    case: Case,
    objects: u32,
    seed: u64,
    slice: Duration,
) -> io::Result<Slice> {
    // One alone stays on this thread, and on its core.
    if let [client] = clients {
        return one_client(client.as_mut(), case, Workload::new(case.contention, objects, seed), slice);
    }
    let slices: Vec<io::Result<Slice>> = thread::scope(|scope| {
        let each = clients.iter_mut().enumerate().map(|(number, client)| {
            let workload = Workload::new(case.contention, objects, seed + number as u64);
            scope.spawn(move || one_client(client.as_mut(), case, workload, slice))
        });
        // All are started before the first is waited for.
        let threads: Vec<_> = each.collect();
        let failed = |_| Err(io::Error::other("a client panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
    });
    let mut all =
        Slice { committed: 0, took: Duration::ZERO, latencies_ns: Vec::new(), counters: Counters::default() };
    for slice in slices {
        let slice = slice?;
        all.committed += slice.committed;
        all.took = all.took.max(slice.took);
        all.latencies_ns.extend(slice.latencies_ns);
        all.counters = all.counters.and(slice.counters);
    }
    Ok(all)
}

fn one_client(
    client: &mut dyn Subject,
    case: Case,
    mut workload: Workload,
    slice: Duration,
) -> io::Result<Slice> {
    let before = client.counters();
    let mut latencies_ns = Vec::new();
    let (mut committed, start) = (0, Instant::now());
    if client.window() > 1 && case.operation == Operation::Rmw2 {
        let mut pairs = Vec::with_capacity(BATCH);
        loop {
            pairs.clear();
            pairs.extend((0..BATCH).map(|_| workload.pair()));
            client.rmw_2_pipelined(&pairs, &mut latencies_ns)?;
            committed += BATCH as u64;
            let took = start.elapsed();
            if took >= slice {
                let counters = client.counters().since(before);
                return Ok(Slice { committed, took, latencies_ns, counters });
            }
        }
    }
    let mut one = |client: &mut dyn Subject| match case.operation {
        Operation::Rmw2 => {
            let (i, j) = workload.pair();
            client.rmw_2(i, j)
        }
        Operation::Read4 => client.read_4(workload.four()).map(|sum| {
            std::hint::black_box(sum);
        }),
    };
    loop {
        for _ in 1..SAMPLE_EVERY {
            one(client)?;
        }
        let sampled = Instant::now();
        one(client)?;
        let now = Instant::now();
        latencies_ns.push((now - sampled).as_nanos() as u64);
        committed += SAMPLE_EVERY;
        let took = now - start;
        if took >= slice {
            let counters = client.counters().since(before);
            return Ok(Slice { committed, took, latencies_ns, counters });
        }
    }
}
