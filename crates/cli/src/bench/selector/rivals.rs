//! Those who have the node's core while it is to have little of it.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::NODE_CORE;
use crate::bench::timing::pin;

/// How often the node has its turn: often, so that every sample has many turns and is like every other.
const TURN: Duration = Duration::from_millis(1);
/// Steps between two looks at the clock: about a microsecond.
const STEPS: u64 = 1000;

/// Somebody who takes N parts of the node's core where the node takes one.
///
/// A thread with real-time priority does so exactly, for the first part of each turn. Who may not have that
/// priority has N threads that never rest instead, with which the node shares as the system sees fit: over slices
/// of milliseconds, and less evenly.
pub(super) struct Rivals {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Rivals {
    /// So many, until they are dropped.
    pub(super) fn start(count: usize) -> Self {
        let mut rivals = Self { stop: Arc::default(), threads: Vec::new() };
        if count == 0 {
            return rivals;
        }
        let (say, hear) = mpsc::channel();
        let (permit, permitted) = mpsc::channel();
        let stop = rivals.stop.clone();
        rivals.threads.push(std::thread::spawn(move || {
            pin(None, NODE_CORE);
            let _ = say.send(rustix::thread::gettid().as_raw_nonzero());
            match permitted.recv() {
                Ok(true) => take_turns(&stop, TURN * count as u32 / (count as u32 + 1)),
                _ => never_rest(&stop),
            }
        }));
        let is_first = hear.recv().is_ok_and(|thread| comes_first(thread.get()));
        let _ = permit.send(is_first);
        if !is_first {
            rivals.threads.extend((1..count).map(|_| {
                let stop = rivals.stop.clone();
                std::thread::spawn(move || {
                    pin(None, NODE_CORE);
                    never_rest(&stop);
                })
            }));
        }
        rivals
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        // ORDER: Relaxed: a flag that stands alone.
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Gives a thread real-time priority, before everybody that has none; whether it has it.
fn comes_first(thread: i32) -> bool {
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "--pid", "1", &thread.to_string()]);
    chrt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    chrt.status().is_ok_and(|status| status.success())
}

fn never_rest(stop: &AtomicBool) {
    let mut number = 1;
    // ORDER: Relaxed: a flag that stands alone.
    while !stop.load(Ordering::Relaxed) {
        number = spin(number);
    }
}

/// Is busy for the first part of each turn, and sleeps for the rest.
fn take_turns(stop: &AtomicBool, busy: Duration) {
    let (mut turn, mut number) = (Instant::now(), 1);
    // ORDER: Relaxed: a flag that stands alone.
    while !stop.load(Ordering::Relaxed) {
        while turn.elapsed() < busy {
            number = spin(number);
        }
        turn += TURN;
        let now = Instant::now();
        match turn.checked_duration_since(now) {
            Some(rest) => std::thread::sleep(rest),
            // It was held up itself: what it missed is the node's.
            None => turn = now,
        }
    }
}

fn spin(number: u64) -> u64 {
    (0..STEPS).fold(number, |number, _| black_box(number.wrapping_mul(3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_begin_and_end() {
        for count in [0, 1, 4] {
            let rivals = Rivals::start(count);
            assert!(if count == 0 {
                rivals.threads.is_empty()
            } else {
                [1, count].contains(&rivals.threads.len())
            });
            std::thread::sleep(TURN * 3);
        }
    }
}
