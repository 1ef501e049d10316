//! Writes down what a client does, while it does it.
//!
//! Each client thread has a recorder of its own: nothing is shared, so nothing waits. The clock is
//! read right before the operation and right after it; it has to be one that all threads share and
//! that never goes back.

use super::operation::{Call, History, Operation, Outcome};
use std::collections::BTreeMap;

/// What one client did.
#[derive(Debug)]
pub struct Recorder {
    client: u32,
    clock: fn() -> u64,
    operations: Vec<(u64, Operation)>,
}

/// An operation that has not yet returned. If it never does, its outcome stays unknown.
#[derive(Debug)]
#[must_use = "an operation that never returns has an unknown outcome"]
pub struct Pending(usize);

impl Recorder {
    /// Records a client's operations, with room for `operations` of them before memory is asked for.
    pub fn new(client: u32, clock: fn() -> u64, operations: usize) -> Self {
        Self { client, clock, operations: Vec::with_capacity(operations) }
    }

    /// An operation on a key is about to begin.
    #[inline]
    pub fn call(&mut self, key: u64, call: Call) -> Pending {
        let client = self.client;
        let at = self.operations.len();
        let operation = Operation { client, call, outcome: Outcome::Unknown, invoked: 0, returned: u64::MAX };
        self.operations.push((key, operation));
        // Last of all: what the recorder itself takes is no part of the operation.
        self.operations[at].1.invoked = (self.clock)();
        Pending(at)
    }

    /// It has returned.
    #[inline]
    pub fn returned(&mut self, pending: Pending, outcome: Outcome) {
        let now = (self.clock)();
        if let Some((_, operation)) = self.operations.get_mut(pending.0) {
            operation.outcome = outcome;
            if outcome != Outcome::Unknown {
                operation.returned = now;
            }
        }
    }

    /// It certainly was not, and will never be, carried out: the node refused it.
    pub fn refused(&mut self, pending: Pending) {
        if let Some((_, operation)) = self.operations.get_mut(pending.0) {
            // A get of unknown outcome says nothing at all.
            operation.call = Call::Get;
        }
    }

    /// Everything so far; the recorder goes on with nothing.
    pub fn take(&mut self) -> Self {
        let operations = std::mem::take(&mut self.operations);
        Self { client: self.client, clock: self.clock, operations }
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

/// Sorts by key what the clients did.
pub fn gather(recorders: impl IntoIterator<Item = Recorder>, lossy: bool) -> BTreeMap<u64, History> {
    let mut histories: BTreeMap<u64, History> = BTreeMap::new();
    for recorder in recorders {
        for (key, operation) in recorder.operations {
            let history = histories.entry(key).or_default();
            history.lossy = lossy;
            history.operations.push(operation);
        }
    }
    histories
}
