//! The limit of requests through shared memory: lines that two spinning threads pass to and fro.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use barn_fabric::region::Words;
use barn_fabric::{Region, RegionOptions};

use crate::bench::timing::pin;
use crate::bench::turn::Turn;

const LINE: u64 = 64;
const LINES: u64 = 256;
/// Requests are in the first half, replies in the second.
const REPLIES: u64 = LINES * LINE;

/// A thread that answers every line.
pub(super) struct BareRing {
    words: Words,
    window: u64,
    next: u64,
    turn: Arc<Turn>,
    thread: Option<JoinHandle<()>>,
}

/// Writes 56 bytes and then the line's number, which says that they are there.
fn put(words: &Words, at: u64, number: u64, body: &[u8; 56]) {
    words.store(at + 8, body).expect("in bounds");
    // SYNC: Release, pairs with the Acquire load in `take`.
    words.store_word(at, number, Ordering::Release).expect("in bounds");
}

fn take(words: &Words, at: u64, number: u64, body: &mut [u8; 56]) -> bool {
    // SYNC: Acquire, pairs with the Release store in `put`.
    if words.load_word(at, Ordering::Acquire) != Ok(number) {
        return false;
    }
    words.load(at + 8, body).expect("in bounds");
    true
}

impl BareRing {
    /// Starts the answering thread.
    pub(super) fn start(window: usize) -> io::Result<Self> {
        let options = RegionOptions { huge: false, ..RegionOptions::writable(2 * LINES * LINE) };
        let words = Region::allocate(&options).map_err(io::Error::other)?.words().clone();
        let turn = Arc::new(Turn::default());
        let thread = std::thread::spawn({
            let (words, turn) = (words.clone(), turn.clone());
            move || {
                pin(None, 1);
                let mut body = [0; 56];
                for number in 1.. {
                    let at = number % LINES * LINE;
                    while !take(&words, at, number, &mut body) {
                        std::hint::spin_loop();
                        if !turn.go_on() {
                            return;
                        }
                    }
                    put(&words, REPLIES + at, number, &body);
                }
            }
        });
        Ok(Self { words, window: window as u64, next: 1, turn, thread: Some(thread) })
    }

    /// So many lines there and back, a window of them under way.
    pub(super) fn round_trips(&mut self, count: usize) {
        let turn = self.turn.clone();
        turn.during(|| self.run(count));
    }

    fn run(&mut self, count: usize) {
        let mut body = [1; 56];
        let (mut sent, mut received) = (self.next, self.next);
        let end = self.next + count as u64;
        while received < end {
            while sent < end && sent - received < self.window {
                put(&self.words, sent % LINES * LINE, sent, &body);
                sent += 1;
            }
            while received < sent && take(&self.words, REPLIES + received % LINES * LINE, received, &mut body)
            {
                received += 1;
            }
        }
        self.next = end;
    }
}

impl Drop for BareRing {
    fn drop(&mut self) {
        self.turn.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
