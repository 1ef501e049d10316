//! What a node's log has to know of transactions, and what becomes of them after a restart.
//!
//! Objects are the heap's affair ([`Heap::changes`](barn_heap::Heap::changes)). Here are the
//! transactions that have been prepared and not yet carried out or aborted: each has a *note* in the
//! log, written with the record of its first step and removed with the record that ends it. What
//! always holds:
//! - a node says that it has prepared, or decided, only once its log says so, too ([`Asked`]);
//! - a transaction's changes and the removal of its note are one record: after a restart it is held
//!   still, or carried out, and never both or neither;
//! - what a restart finds held is an orphan: its session is gone, and a resolver decides it.

use super::{Held, Participant};
use crate::wire::{Malformed, Writes, split, split_many};
use barn_cluster::MemberId;
use barn_heap::ObjectError;
use barn_layout::transaction::{
    Change, HeldNote, PREPARE_DURABILITY_SHIFT, ParticipantEntry, Prepare, TransactionId,
};
use barn_layout::{Address, Durability, planted};
use barn_log::Record;
use zerocopy::{FromBytes, IntoBytes};

/// What every note's key begins with.
pub const NOTE: &[u8] = b"transaction/";
/// The value that says that a transaction was decided.
const DECIDED: &[u8] = b"decided";

/// What an answer has to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// What its client asked for, if it did.
    pub durability: Option<Durability>,
    /// Other nodes go by the answer: it must not be given before the log has at least been written.
    pub together: bool,
}

fn key(id: TransactionId) -> Vec<u8> {
    [NOTE, id.as_bytes()].concat()
}

/// A note's value: what it takes to hold the transaction again.
fn value(held: &Held) -> Vec<u8> {
    let head = HeldNote {
        participants: (held.participants.len() as u32).into(),
        writes: (held.count as u32).into(),
        durability: Durability::to_bits(held.durability).into(),
        decided: u32::from(held.decided).into(),
    };
    let mut bytes = head.as_bytes().to_vec();
    for member in &held.participants {
        let entry = ParticipantEntry { member: member.0.into(), reserved: 0.into() };
        bytes.extend_from_slice(entry.as_bytes());
    }
    bytes.extend_from_slice(&held.writes);
    bytes
}

fn parse(bytes: &[u8]) -> Result<Held, Malformed> {
    let (head, rest) = split::<HeldNote>(bytes)?;
    let (participants, rest) = split_many::<ParticipantEntry>(rest, head.participants.get() as usize)?;
    let writes = Writes { bytes: rest, count: head.writes.get() as usize };
    if writes.count != writes.clone().try_fold(0, |count, write| write.map(|_| count + 1))? {
        return Err(Malformed);
    }
    Ok(Held {
        participants: participants.iter().map(|entry| MemberId(entry.member.get())).collect(),
        writes: rest.to_vec(),
        count: writes.count,
        durability: Durability::from_bits(head.durability.get()).map_err(|_| Malformed)?,
        decided: head.decided.get() == 1,
        frozen: false,
        orphan: true,
    })
}

impl Participant {
    /// What has changed, if that is recorded: see [`Heap::changes`](barn_heap::Heap::changes).
    #[inline]
    pub fn changes(&mut self) -> Option<&mut Record> {
        self.heap.changes()
    }

    /// Refuses what asks for more than this: a node without a log has memory only.
    pub fn offer(&mut self, strongest: Durability) {
        self.strongest = strongest;
    }

    /// Why a first step asks for more than there is, if it does.
    pub(super) fn asks_too_much(&self, body: &[u8]) -> Option<String> {
        let (header, _) = split::<Prepare>(body).ok()?;
        let asked = Durability::from_bits(header.flags.get() >> PREPARE_DURABILITY_SHIFT).ok()??;
        (asked > self.strongest).then(|| {
            format!("the transaction was to be {asked}, and this node keeps nothing on a disk: start it with a data directory")
        })
    }

    /// What the answer to the last request has to wait for; nothing if it changed nothing.
    pub fn take_asked(&mut self) -> Asked {
        std::mem::take(&mut self.asked)
    }

    /// Notes that a transaction is held here from now on.
    pub(super) fn note_held(&mut self, id: TransactionId) {
        if let (Some(record), Some(held)) = (self.heap.changes(), self.held.get(&id)) {
            record.note_set(&key(id), &value(held));
        }
    }

    /// Notes that it will be carried out.
    pub(super) fn note_decided(&mut self, id: TransactionId) {
        if let Some(record) = self.heap.changes()
            && !planted("decision_not_noted")
        {
            record.note_append(&key(id), DECIDED);
        }
    }

    /// Notes that it is held no more.
    pub(super) fn note_ended(&mut self, id: TransactionId) {
        if let Some(record) = self.heap.changes() {
            record.note_remove(&key(id));
        }
    }

    /// All notes as of now, for a checkpoint.
    pub fn remember(&self, record: &mut Record) {
        for (id, held) in &self.held {
            record.note_set(&key(*id), &value(held));
        }
    }

    /// Holds a transaction again that was held before a restart: `key` and `values` as the log gives
    /// them. Its objects are locked once more.
    pub fn restore(&mut self, key: &[u8], values: &[Vec<u8>]) -> Result<(), String> {
        let corrupt = || "a transaction's note in the log cannot be read: it is damaged".to_string();
        let id = key.strip_prefix(NOTE).and_then(|id| TransactionId::read_from_bytes(id).ok());
        let id = id.ok_or_else(corrupt)?;
        let (first, later) = values.split_first().ok_or_else(corrupt)?;
        let held = parse(first).map_err(|Malformed| corrupt())?;
        let decided = held.decided || later.iter().any(|value| value == DECIDED);
        let writes = Writes { bytes: &held.writes, count: held.count };
        for (entry, _) in writes.each() {
            let address = Address::from_bits(entry.address.get());
            let locked = match Change::from_bits(entry.change.get()) {
                None => return Err(corrupt()),
                Some(Change::Create) => self.heap.retake(address),
                Some(_) => self.heap.lock(address, entry.version.get(), entry.incarnation.get()),
            };
            locked.map_err(|error: ObjectError| {
                format!("an object of transaction {id:?} cannot be locked again: {error}")
            })?;
        }
        self.held.insert(id, held);
        // Whether others may still read them depends on what they have decided: nobody does.
        self.close_held(id);
        if let Some(held) = self.held.get_mut(&id) {
            held.decided = decided;
        }
        Ok(())
    }
}
