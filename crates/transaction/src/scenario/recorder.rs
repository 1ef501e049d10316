//! Writes down what clients see, also of those that die half-way.

use crate::client::Touched;
use crate::error::CommitError;
use crate::history::{History, ObjectKey, Outcome, Record, TransactionName, Write, WriteKind};
use crate::id::Pointer;
use barn_layout::transaction::Change;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// A history that several clients write. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    /// Transactions whose outcome nobody knows yet.
    pending: BTreeMap<(u32, u64), Record>,
    /// Every object that anybody may have made.
    made: BTreeSet<Pointer>,
    torn: Option<String>,
}

fn key(pointer: Pointer) -> ObjectKey {
    ObjectKey { address: pointer.address.to_bits(), incarnation: pointer.incarnation }
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A transaction is about to be committed.
    pub fn begin(&self, client: u32, number: u64, start: u64, touched: &[Touched]) {
        let mut state = self.lock();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for object in touched {
            let (key, before) = (key(object.pointer), object.version);
            if object.change != Some(Change::Create) {
                reads.push((key, before));
            }
            let (kind, after) = match object.change {
                None => continue,
                Some(Change::Update) => (WriteKind::Update, before + 1),
                Some(Change::Free) => (WriteKind::Free, before + 1),
                Some(Change::Create) => {
                    state.made.insert(object.pointer);
                    (WriteKind::Create, before)
                }
            };
            writes.push(Write { object: key, kind, before, after });
        }
        let record =
            Record { client, number, start, end: u64::MAX, outcome: Outcome::Unknown, reads, writes };
        state.pending.insert((client, number), record);
    }

    /// Its client was told what became of it.
    pub fn end(&self, client: u32, number: u64, end: u64, outcome: &Result<(), CommitError>) {
        let mut state = self.lock();
        let Some(mut record) = state.pending.remove(&(client, number)) else { return };
        match outcome {
            Ok(()) => (record.outcome, record.end) = (Outcome::Committed, end),
            Err(CommitError::Indeterminate) => {}
            Err(_) => (record.outcome, record.end) = (Outcome::Aborted, end),
        }
        state.history.push(record);
    }

    /// A lock-free read of one object.
    pub fn read(&self, client: u32, number: u64, span: (u64, u64), pointer: Pointer, version: u64) {
        let record = Record {
            client,
            number,
            start: span.0,
            end: span.1,
            outcome: Outcome::Committed,
            reads: vec![(key(pointer), version)],
            writes: Vec::new(),
        };
        self.lock().history.push(record);
    }

    /// A lock-free read that was told that the object is not there.
    pub fn absent(&self, client: u32, number: u64, span: (u64, u64), pointer: Pointer) {
        self.lock().history.absent(TransactionName { client, number }, span, key(pointer));
    }

    /// Bytes were read that nobody wrote together.
    pub fn torn(&self, what: String) {
        self.lock().torn.get_or_insert(what);
    }

    /// Every object that anybody may have made.
    pub fn made(&self) -> Vec<Pointer> {
        self.lock().made.iter().copied().collect()
    }

    /// What was found after everything had ended.
    pub fn found(&self, pointer: Pointer, version: Option<u64>) {
        self.lock().history.final_state(key(pointer), version);
    }

    /// Everything, or what was torn.
    pub fn finish(&self) -> Result<History, String> {
        let mut state = self.lock();
        if let Some(torn) = &state.torn {
            return Err(torn.clone());
        }
        let pending = std::mem::take(&mut state.pending);
        pending.into_values().for_each(|record| state.history.push(record));
        Ok(std::mem::take(&mut state.history))
    }
}
