//! Watched clients on real threads and real nodes: a history is made, put together and checked.
//!
//! Every thread writes down its own part by one clock that all share. A thread runs several workers
//! side by side, so that a switch to a node's thread and back serves many transactions.

use super::recorder::Recorder;
use super::workload::Worker;
use crate::client::{Client, phase};
use crate::history::{History, Summary, check};
use crate::id::Pointer;
use barn_fabric::block_on;
use barn_fabric::seam::{Clock, Seeded, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Workers take so many transactions at a time.
const BATCH: u64 = 64;

/// How a history is made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// So many threads, each with a client of its own.
    pub threads: u64,
    /// So many workers on each of them.
    pub workers: u64,
    /// Objects that all know: the fewer, the more they are in each other's way.
    pub roots: usize,
    /// One choice in so many is among the first three of these.
    pub hot_one_in: u64,
    /// Transactions, about.
    pub transactions: u64,
    /// What the workers do follows from this; when, does not.
    pub seed: u64,
}

/// A history that has one order, and what it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// What it consists of.
    pub summary: Summary,
    /// For how long the workers worked.
    pub ran: Duration,
    /// How long putting it together and checking it took.
    pub checked: Duration,
}

impl Judged {
    /// All transactions.
    pub fn transactions(&self) -> u64 {
        let Summary { committed, aborted, unknown_happened, unknown_unseen, .. } = self.summary;
        (committed + aborted + unknown_happened + unknown_unseen) as u64
    }

    /// Adds up.
    pub fn add(&mut self, other: &Self) {
        self.summary.committed += other.summary.committed;
        self.summary.aborted += other.summary.aborted;
        self.summary.unknown_happened += other.summary.unknown_happened;
        self.summary.unknown_unseen += other.summary.unknown_unseen;
        self.summary.reads += other.summary.reads;
        self.summary.writes += other.summary.writes;
        self.summary.objects += other.summary.objects;
        self.ran += other.ran;
        self.checked += other.checked;
    }
}

/// Makes a history on fresh objects and checks it; what is wrong with it, if anything is.
pub fn one_history(plan: &Plan, connect: impl Fn() -> Result<Client, String>) -> Result<Judged, String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let worker = |number: u64, client: Client, recorder: &Recorder, roots: &[Pointer]| {
        let random = Seeded::new(plan.seed.wrapping_mul(1_000_003).wrapping_add(number));
        let mut worker = Worker::new(number as u32, client, recorder.clone(), roots.to_vec(), random);
        worker.hot_one_in = plan.hot_one_in;
        worker.with_clock(clock.clone())
    };
    let founding = Recorder::default();
    let founder = connect()?;
    let roots = block_on(worker(0, founder.clone(), &founding, &[]).make_roots(plan.roots))?;
    let recorders: Vec<Recorder> = (0..plan.threads).map(|_| Recorder::default()).collect();
    let mut crews = Vec::new();
    for (recorder, thread) in recorders.iter().zip(0..) {
        let client = connect()?;
        let numbers = 1 + thread * plan.workers..1 + (thread + 1) * plan.workers;
        let crew = numbers.map(|number| worker(number, client.clone(), recorder, &roots));
        crews.push(crew.collect::<Vec<Worker>>());
    }
    let left = AtomicU64::new(plan.transactions);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for crew in crews {
            let left = &left;
            scope.spawn(move || {
                block_on(phase::all(crew.into_iter().map(|worker| work(worker, left))));
            });
        }
    });
    let ran = started.elapsed();
    let started = Instant::now();
    let made = recorders.iter().chain([&founding]).flat_map(Recorder::made).collect();
    block_on(worker(u64::from(u32::MAX), founder, &founding, &[]).audit_of(made))?;
    let mut history = History::new();
    for recorder in recorders.iter().chain([&founding]) {
        history.merge(recorder.finish()?);
    }
    let summary = check(&history).map_err(|violation| violation.to_string())?;
    Ok(Judged { summary, ran, checked: started.elapsed() })
}

/// Works until nothing is left to do.
async fn work(mut worker: Worker, left: &AtomicU64) {
    // ORDER: Relaxed: a counter.
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(BATCH)).is_ok() {
        for _ in 0..BATCH {
            worker.step().await;
        }
    }
}
