//! Runs watched clients on simulated worlds, seed after seed, on every core, and checks every history.
//!
//! `serializable [--seed FIRST] [--transactions TOTAL] [--each PER_SEED] [--seconds MAX]`

use barn_transaction::history::Summary;
use barn_transaction::scenario::run;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[derive(Default)]
struct Totals {
    summary: Summary,
    deaths: u64,
    resolved: u64,
}

impl Totals {
    fn add(&mut self, summary: Summary, deaths: u64, resolved: u64) {
        self.summary.committed += summary.committed;
        self.summary.aborted += summary.aborted;
        self.summary.unknown_happened += summary.unknown_happened;
        self.summary.unknown_unseen += summary.unknown_unseen;
        self.deaths += deaths;
        self.resolved += resolved;
    }
}

fn transactions(summary: &Summary) -> u64 {
    (summary.committed + summary.aborted + summary.unknown_happened + summary.unknown_unseen) as u64
}

fn main() -> ExitCode {
    let (first, total) = (argument("--seed", 1), argument("--transactions", 100_000));
    let (each, seconds) = (argument("--each", 1000), argument("--seconds", u64::MAX));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let started = Instant::now();
    let (next, checked) = (AtomicU64::new(first), AtomicU64::new(0));
    // A world lives on one thread; each core takes the next seed when it is done with one.
    let work = || -> Result<Totals, ()> {
        let mut totals = Totals::default();
        // ORDER: Relaxed: counts that stand alone.
        while checked.load(Ordering::Relaxed) < total && started.elapsed() < Duration::from_secs(seconds) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if total == 1 && seed > first {
                break;
            }
            let report = run(seed, each);
            if let Some(failure) = report.failure {
                println!("seed {seed} failed: {failure}");
                println!("replay it with: --seed {seed} --transactions 1 --each {each}");
                // ORDER: Relaxed: the others need not begin another.
                checked.store(u64::MAX / 2, Ordering::Relaxed);
                return Err(());
            }
            checked.fetch_add(transactions(&report.summary), Ordering::Relaxed);
            totals.add(report.summary, report.deaths, report.resolved);
        }
        Ok(totals)
    };
    let ended: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|worker| worker.join().unwrap_or(Err(()))).collect()
    });
    let mut all = Totals::default();
    for totals in ended {
        let Ok(totals) = totals else { return ExitCode::FAILURE };
        all.add(totals.summary, totals.deaths, totals.resolved);
    }
    let Summary { committed, aborted, unknown_happened, unknown_unseen, .. } = all.summary;
    println!(
        "seeds {first} to {}: {} transactions ({committed} committed, {aborted} refused, {unknown_happened} unknown \
         that happened, {unknown_unseen} unknown of which nothing was seen), {} clients died in a commit, {} \
         ended by resolvers, no cycle, {:.0} s",
        next.load(Ordering::Relaxed) - 1,
        transactions(&all.summary),
        all.deaths,
        all.resolved,
        started.elapsed().as_secs_f64()
    );
    ExitCode::SUCCESS
}
