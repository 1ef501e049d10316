//! Where a worker writes down what it does.
//!
//! In memory, if the process lives as long as anybody asks. In a file otherwise: what a process has
//! written is there after it was killed, and it writes an operation down before it begins.

use crate::linearizable::{Call, Expected, Operation, Outcome, Pending, Recorder};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Takes down operations.
pub trait Journal {
    /// An operation under way.
    type Pending;
    /// An operation on a key is about to begin.
    fn call(&mut self, key: u64, call: Call) -> Self::Pending;
    /// It has returned.
    fn returned(&mut self, pending: Self::Pending, outcome: Outcome);
    /// It was certainly not carried out.
    fn refused(&mut self, pending: Self::Pending);
}

/// A recorder that outlives its worker.
pub type Shared = Arc<Mutex<Recorder>>;

/// A recorder that outlives its worker.
pub fn shared(client: u32, clock: fn() -> u64) -> Shared {
    Arc::new(Mutex::new(Recorder::new(client, clock, 0)))
}

impl Journal for Shared {
    type Pending = Pending;

    fn call(&mut self, key: u64, call: Call) -> Pending {
        self.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).call(key, call)
    }

    fn returned(&mut self, pending: Pending, outcome: Outcome) {
        self.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).returned(pending, outcome);
    }

    fn refused(&mut self, pending: Pending) {
        self.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).refused(pending);
    }
}

/// Words of a line on a tape: what, who, which, key or time, code, and three more.
const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = 8 * LINE_WORDS;

const CALL: u64 = 1;
const RETURNED: u64 = 2;
const REFUSED: u64 = 3;

/// A journal in a file. Each line is one write.
pub struct Tape {
    client: u32,
    clock: fn() -> u64,
    file: File,
    next: u64,
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tape(client {}, {} lines)", self.client, self.next)
    }
}

impl Tape {
    /// Begins a client's tape at the end of a file.
    pub fn new(client: u32, clock: fn() -> u64, path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Self { client, clock, file, next: 0 })
    }

    #[allow(clippy::expect_used, reason = "an operation that is not written down must not happen")]
    fn write(&mut self, words: [u64; LINE_WORDS]) {
        let mut line = [0; LINE_BYTES];
        for (bytes, word) in line.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.file.write_all(&line).expect("the tape can be written");
    }

    /// What clients have written. A line that was cut off by a kill is the last, and never began.
    pub fn read(path: &Path) -> io::Result<Vec<(u64, Operation)>> {
        let bytes = std::fs::read(path)?;
        let mut operations: Vec<(u64, Operation)> = Vec::new();
        let mut places = HashMap::new();
        for line in bytes.chunks_exact(LINE_BYTES) {
            let mut words = [0; LINE_WORDS];
            for (word, bytes) in words.iter_mut().zip(line.chunks_exact(8)) {
                *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            }
            let [what, client, which, time, key, code @ ..] = words;
            if what == CALL {
                let Some(call) = call_of(code) else { continue };
                let operation = Operation {
                    client: client as u32,
                    call,
                    outcome: Outcome::Unknown,
                    invoked: time,
                    returned: u64::MAX,
                };
                places.insert((client, which), operations.len());
                operations.push((key, operation));
            } else if let Some(at) = places.remove(&(client, which)) {
                let operation = &mut operations[at].1;
                match what {
                    RETURNED => (operation.outcome, operation.returned) = (outcome_of(code), time),
                    // A get of unknown outcome says nothing at all.
                    _ => operation.call = Call::Get,
                }
            }
        }
        Ok(operations)
    }
}

impl Journal for Tape {
    type Pending = u64;

    fn call(&mut self, key: u64, call: Call) -> u64 {
        self.next += 1;
        let [code, one, two] = call_code(call);
        let now = (self.clock)();
        self.write([CALL, self.client.into(), self.next, now, key, code, one, two]);
        self.next
    }

    fn returned(&mut self, pending: u64, outcome: Outcome) {
        let now = (self.clock)();
        if outcome != Outcome::Unknown {
            let [code, one, two] = outcome_code(outcome);
            self.write([RETURNED, self.client.into(), pending, now, 0, code, one, two]);
        }
    }

    fn refused(&mut self, pending: u64) {
        self.write([REFUSED, self.client.into(), pending, 0, 0, 0, 0, 0]);
    }
}

fn call_code(call: Call) -> [u64; 3] {
    match call {
        Call::Get => [1, 0, 0],
        Call::Put(value) => [2, value, 0],
        Call::Insert(value) => [3, value, 0],
        Call::Delete => [4, 0, 0],
        Call::DeleteIf(Expected::Value(value)) => [5, value, 0],
        Call::DeleteIf(Expected::Version(version)) => [6, version, 0],
        Call::Swap { expected: Expected::Value(value), new } => [7, value, new],
        Call::Swap { expected: Expected::Version(version), new } => [8, version, new],
    }
}

fn call_of(code: [u64; 3]) -> Option<Call> {
    Some(match code {
        [1, ..] => Call::Get,
        [2, value, _] => Call::Put(value),
        [3, value, _] => Call::Insert(value),
        [4, ..] => Call::Delete,
        [5, value, _] => Call::DeleteIf(Expected::Value(value)),
        [6, version, _] => Call::DeleteIf(Expected::Version(version)),
        [7, value, new] => Call::Swap { expected: Expected::Value(value), new },
        [8, version, new] => Call::Swap { expected: Expected::Version(version), new },
        _ => return None,
    })
}

fn outcome_code(outcome: Outcome) -> [u64; 3] {
    match outcome {
        Outcome::Unknown => [0, 0, 0],
        Outcome::Found { value, version } => [1, value, version],
        Outcome::Absent => [2, 0, 0],
        Outcome::Different => [3, 0, 0],
        Outcome::NotDone => [4, 0, 0],
        Outcome::Done { version } => [5, version, 0],
    }
}

fn outcome_of(code: [u64; 3]) -> Outcome {
    match code {
        [1, value, version] => Outcome::Found { value, version },
        [2, ..] => Outcome::Absent,
        [3, ..] => Outcome::Different,
        [4, ..] => Outcome::NotDone,
        [5, version, _] => Outcome::Done { version },
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tape_tells_what_was_done_and_what_never_ended() {
        let path = std::env::temp_dir().join(format!("barn-tape-{}", std::process::id()));
        let mut tape = Tape::new(3, || 7, &path).unwrap();
        let calls = [
            (Call::Get, Outcome::Found { value: 5, version: 2 }),
            (Call::Put(6), Outcome::Done { version: 3 }),
            (Call::Insert(7), Outcome::Different),
            (Call::Delete, Outcome::Absent),
            (Call::DeleteIf(Expected::Version(3)), Outcome::NotDone),
            (Call::DeleteIf(Expected::Value(3)), Outcome::Done { version: 0 }),
            (Call::Swap { expected: Expected::Version(2), new: 9 }, Outcome::Unknown),
            (Call::Swap { expected: Expected::Value(6), new: 10 }, Outcome::Absent),
        ];
        for (key, (call, outcome)) in calls.into_iter().enumerate() {
            let pending = tape.call(key as u64, call);
            tape.returned(pending, outcome);
        }
        let pending = tape.call(99, Call::Put(11));
        tape.refused(pending);
        // A kill in the middle of a line.
        tape.file.write_all(&[1; 30]).unwrap();
        let read = Tape::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let seen: Vec<_> = read.iter().map(|(key, each)| (*key, each.call, each.outcome)).collect();
        let mut wanted: Vec<_> =
            calls.iter().enumerate().map(|(key, (call, outcome))| (key as u64, *call, *outcome)).collect();
        wanted.push((99, Call::Get, Outcome::Unknown));
        assert_eq!(seen, wanted);
        assert!(read.iter().all(|(_, each)| each.client == 3 && each.invoked == 7));
    }
}
