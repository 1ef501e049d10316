//! Churn: a heap filled to 80 % of its budget whose objects are replaced, with sizes that change.
//!
//! `cargo run --release -p barn-heap --example churn [steps] [budget MiB]`. Sizes drift through
//! all that applications use, the oldest objects go first, and epochs pass as readers leave. At the
//! end everything is freed: a byte that does not come back is a leak, and the exit code says so.

use barn_fabric::Words;
use barn_fabric::seam::{Random, Seeded};
use barn_heap::{AllocError, Heap, HeapOptions, Purpose, PurposeUsage, Reserved};
use barn_layout::RegionId;
use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

/// Steps between a new epoch and the moment when the readers of the last have left.
const READERS_STAY: u64 = 2_000;

/// What a churn came to.
#[derive(Debug)]
pub(crate) struct Report {
    /// Objects made.
    pub(crate) created: u64,
    /// Objects freed early because no memory was to be had.
    pub(crate) evicted: u64,
    /// The least and the most that objects' slots took of the budget, once it was filled, in percent.
    pub(crate) filled_percent: (f64, f64),
    /// The most memory held at once.
    pub(crate) held_bytes_max: u64,
    /// Epochs that passed.
    pub(crate) epochs: u64,
    /// What is wrong with the accounts, if something is.
    pub(crate) leak: Option<String>,
}

struct Churn {
    heap: Heap,
    random: Seeded,
    budget: u64,
    live: VecDeque<Reserved>,
    body: Vec<u8>,
    /// Whether the budget has been filled.
    is_full: bool,
    /// Bytes of objects made.
    written: u64,
    /// When the readers of the last epoch have left.
    leaving: Option<(u64, u64)>,
    report: Report,
}

/// Replaces objects `steps` times in a heap of `budget` bytes.
pub(crate) fn churn(steps: u64, budget: u64, seed: u64) -> Report {
    let mut heap = Heap::new(HeapOptions { budget_bytes: budget });
    let region = budget.min(64 << 20);
    for id in 0..budget.div_ceil(region) as u32 {
        heap.add_region(RegionId(id + 1), Words::private(region as usize)).expect("a fresh region");
    }
    let report = Report {
        created: 0,
        evicted: 0,
        filled_percent: (100.0, 0.0),
        held_bytes_max: 0,
        epochs: 0,
        leak: None,
    };
    let body = (0..1 << 16).map(|at| at as u8).collect();
    let random = Seeded::new(seed);
    let mut churn = Churn {
        heap,
        random,
        budget,
        live: VecDeque::new(),
        body,
        written: 0,
        is_full: false,
        leaving: None,
        report,
    };
    for step in 0..steps {
        churn.step(step);
    }
    churn.finish()
}

impl Churn {
    fn step(&mut self, step: u64) {
        while self.filled() * 10 >= self.budget * 8 {
            self.is_full = true;
            self.free_old();
        }
        self.create(step);
        self.pass_epochs(step);
        if self.is_full && step.is_multiple_of(1024) {
            let percent = self.filled() as f64 * 100.0 / self.budget as f64;
            let (low, high) = self.report.filled_percent;
            self.report.filled_percent = (low.min(percent), high.max(percent));
        }
        self.report.held_bytes_max = self.report.held_bytes_max.max(self.heap.usage().held_bytes);
    }

    fn filled(&self) -> u64 {
        self.heap.usage().total().slot_bytes
    }

    /// Sizes are spread over a factor of 1.25. Where that starts goes down from 2 KiB to 40 bytes and
    /// up again, by a quarter whenever as much as the budget has been written.
    fn length(&mut self) -> usize {
        let drift = 1.25f64.ln() * self.written as f64 / self.budget as f64;
        let height = (drift / 50f64.ln() % 2.0 - 1.0).abs();
        let low = 40.0 * 50f64.powf(height);
        (low * 1.25f64.powf(self.random.below(1000) as f64 / 1000.0)) as usize
    }

    fn create(&mut self, step: u64) {
        let bytes = self.length();
        let purpose = [Purpose::Objects, Purpose::Tables][usize::from(step.is_multiple_of(8))];
        loop {
            match self.heap.reserve(bytes, None, purpose) {
                Ok(slot) => {
                    self.heap.create(slot.address, &self.body[..bytes]).expect("just reserved");
                    self.live.push_back(slot);
                    self.report.created += 1;
                    self.written += bytes as u64;
                    return;
                }
                Err(AllocError::Budget { .. } | AllocError::Full { .. }) => {
                    // As a cache would: something goes, and readers are asked to leave.
                    self.report.evicted += 1;
                    self.free_old();
                    let epoch = self.heap.next_epoch();
                    self.report.epochs += 1;
                    self.heap.readers_left(epoch);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Frees one of the oldest tenth.
    fn free_old(&mut self) {
        let at = self.random.below((self.live.len() as u64 / 10).max(1)) as usize;
        let Some(old) = self.live.swap_remove_front(at) else { return };
        let version = self.heap.header(old.address).expect("live").word.version();
        self.heap.lock(old.address, version, old.incarnation).expect("live");
        self.heap.free(old.address).expect("locked");
    }

    fn pass_epochs(&mut self, step: u64) {
        match self.leaving {
            Some((at, epoch)) if step >= at => {
                self.heap.readers_left(epoch);
                self.leaving = None;
            }
            None if self.heap.wants_epoch() => {
                self.leaving = Some((step + READERS_STAY, self.heap.next_epoch()));
                self.report.epochs += 1;
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Report {
        let usage = self.heap.usage().total();
        if usage.objects != self.live.len() as u64 {
            self.report.leak = Some(format!("{} objects live, {} counted", self.live.len(), usage.objects));
        }
        while !self.live.is_empty() {
            self.free_old();
        }
        let usage = self.heap.usage();
        let nothing = PurposeUsage { block_bytes: usage.total().block_bytes, ..PurposeUsage::default() };
        if usage.total() != nothing {
            self.report.leak = Some(format!("all is freed, and yet there is {usage:?}"));
        }
        // Only spares are left: one for each class and purpose.
        let epoch = self.heap.next_epoch();
        self.heap.readers_left(epoch);
        let usage = self.heap.usage();
        if usage.waiting_blocks + usage.worn_blocks > 0 {
            self.report.leak = Some(format!("blocks wait for nobody: {usage:?}"));
        }
        self.report
    }
}

/// How long a call takes, in nanoseconds: the best of 1000 batches, `times` calls in all, so that
/// whoever else uses the machine does not count.
fn nanoseconds(times: u64, mut call: impl FnMut()) -> f64 {
    let batch = times.div_ceil(1000);
    let one = |_| {
        let start = Instant::now();
        (0..batch).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / batch as f64
    };
    (0..1000).map(one).fold(f64::INFINITY, f64::min)
}

fn timings() {
    let mut heap = Heap::new(HeapOptions { budget_bytes: 64 << 20 });
    heap.add_region(RegionId(1), Words::private(64 << 20)).expect("a fresh region");
    let reserve = nanoseconds(2_000_000, || {
        let slot = heap.reserve(64, None, Purpose::Objects).expect("room");
        heap.release(black_box(slot).address).expect("reserved");
    });
    let live = nanoseconds(2_000_000, || {
        let slot = heap.reserve(64, None, Purpose::Objects).expect("room");
        let version = heap.create(slot.address, &[7; 64]).expect("reserved");
        heap.lock(slot.address, version, slot.incarnation).expect("created");
        heap.free(black_box(slot).address).expect("locked");
    });
    println!("reserve and release, 64 B     {reserve:8.1} ns");
    println!("reserve, create, lock, free   {live:8.1} ns");
    for bytes in [64, 256, 1024, 4096, 65536] {
        let body = vec![7; bytes];
        let slot = heap.reserve(bytes, None, Purpose::Objects).expect("room");
        let mut version = heap.create(slot.address, &body).expect("reserved");
        let write = nanoseconds(1_000_000.min((1 << 31) / bytes as u64), || {
            heap.lock(slot.address, version, slot.incarnation).expect("free");
            version = heap.write(slot.address, black_box(&body)).expect("locked");
        });
        println!("lock and write, {bytes:>5} B       {write:8.1} ns");
    }
}

/// How long it takes until a used block serves another size: all its headers are written.
fn division() {
    let mut heap = Heap::new(HeapOptions { budget_bytes: 2 << 20 });
    heap.add_region(RegionId(1), Words::private(2 << 20)).expect("a fresh region");
    let mut bytes = 40;
    let divided = nanoseconds(4000, || {
        let epoch = heap.next_epoch();
        // The other size's spare is given up only when a block is asked for and none is left.
        let slot = heap.reserve(bytes, None, Purpose::Objects).or_else(|_| {
            heap.readers_left(epoch + 1);
            heap.reserve(bytes, None, Purpose::Objects)
        });
        let slot = slot.expect("the readers have left");
        let version = heap.create(slot.address, &[7; 40]).expect("reserved");
        heap.lock(slot.address, version, slot.incarnation).expect("created");
        heap.free(slot.address).expect("locked");
        bytes = 40 + 1000 - bytes;
    });
    println!("divide a used MiB             {:8.1} us, into 64 B and 1 KiB by turns", divided / 1000.0);
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let steps = numbers.next().unwrap_or(10_000_000);
    let budget = numbers.next().unwrap_or(256) << 20;
    timings();
    division();
    let start = Instant::now();
    let report = churn(steps, budget, 1);
    let rate = steps as f64 / start.elapsed().as_secs_f64();
    println!("{steps} steps, {rate:.0} a second: {report:?}");
    match report.leak {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::FAILURE,
    }
}
