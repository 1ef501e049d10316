//! Puts together what workers wrote down, and judges every key.

use crate::linearizable::{Call, History, Operation, Outcome, Recorder, Verdict, check, gather};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What was judged, and found to have an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Operations that say something.
    pub operations: u64,
    /// Those of them whose outcome no client was told.
    pub unknown: u64,
    /// Operations besides that say nothing: refused, or a read that did not end.
    pub silent: u64,
    /// Keys.
    pub keys: u64,
}

impl Judged {
    /// Adds up.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.silent += other.silent;
        self.keys += other.keys;
    }
}

/// Demands an order for every key, and a verdict. `lossy` if keys may vanish, as in a cache.
pub fn judge(
    recorders: impl IntoIterator<Item = Recorder>,
    taped: impl IntoIterator<Item = (u64, Operation)>,
    lossy: bool,
    threads: usize,
) -> Result<Judged, String> {
    let mut histories = gather(recorders, lossy);
    for (key, operation) in taped {
        let history = histories.entry(key).or_insert_with(|| History { lossy, ..History::default() });
        history.operations.push(operation);
    }
    let mut judged = Judged { keys: histories.len() as u64, ..Judged::default() };
    for history in histories.values() {
        for operation in &history.operations {
            match (operation.call, operation.outcome) {
                (Call::Get, Outcome::Unknown) => judged.silent += 1,
                (_, outcome) => {
                    judged.operations += 1;
                    judged.unknown += u64::from(outcome == Outcome::Unknown);
                }
            }
        }
    }
    let histories: Vec<(u64, History)> = histories.into_iter().collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let work = || {
        // ORDER: Relaxed: only that numbers differ matters.
        while let Some((key, history)) = histories.get(next.fetch_add(1, Ordering::Relaxed)) {
            match check(history) {
                Verdict::Linearizable => {}
                verdict => {
                    let mut failed = failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    let why = format!("key {key}, {} operations: {verdict}", history.operations.len());
                    failed.get_or_insert(why);
                    return;
                }
            }
        }
    };
    match threads {
        0 | 1 => work(),
        _ => std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        }),
    }
    match failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        None => Ok(judged),
        Some(why) => Err(why),
    }
}
