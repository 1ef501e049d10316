//! A history, held in few bytes: transactions, reads and writes in three arrays.
//!
//! What always holds: `reads_end` and `writes_end` of a transaction are where the next one's begin;
//! `changes` of an object counts the writes of it that may have happened.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::record::{ObjectKey, Outcome, Record, Write, WriteKind};
use super::violation::{TransactionName, Violation};

/// So many reads, writes or transactions: twice as many, each with an object and its slots, still
/// are numbers of 32 bits.
const LENGTH_MAX: usize = 500_000_000;

/// A transaction without its reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transaction {
    pub(super) number: u64,
    pub(super) start: u64,
    /// Never, for one whose outcome is unknown: it may take effect later.
    pub(super) end: u64,
    pub(super) client: u32,
    pub(super) reads_end: u32,
    pub(super) writes_end: u32,
    pub(super) outcome: Outcome,
}

/// A read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) version: u64,
    pub(super) object: u32,
}

/// A write; the version before an update or a free is `after - 1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) after: u64,
    pub(super) object: u32,
    pub(super) kind: WriteKind,
}

/// Somebody was told that an object is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    pub(super) object: u32,
    pub(super) by: TransactionName,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What is known of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    pub(super) key: ObjectKey,
    /// The version it had before the history began.
    pub(super) initial: Option<u64>,
    /// The first version, by a create that was acknowledged.
    pub(super) created: Option<u64>,
    /// What was found after everything had ended, if somebody looked.
    pub(super) last: Option<Option<u64>>,
    /// How many writes of it were not aborted.
    pub(super) changes: u32,
    /// Which transaction, counted from 1, was the last here to change it.
    changed_by: u32,
}

/// Transactions, and what was there before and after them.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(super) transactions: Vec<Transaction>,
    pub(super) reads: Vec<Seen>,
    pub(super) writes: Vec<Change>,
    pub(super) objects: Vec<Object>,
    pub(super) absences: Vec<Absence>,
    names: HashMap<ObjectKey, u32, BuildHasherDefault<Mix>>,
    /// Whatever no checker can make sense of: the first one.
    pub(super) malformed: Option<Violation>,
}

impl History {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many transactions there are.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Adds a transaction; in any order.
    pub fn push(&mut self, record: Record) {
        let name = TransactionName { client: record.client, number: record.number };
        for &(object, version) in &record.reads {
            let object = self.object(object);
            self.reads.push(Seen { version, object });
        }
        for write in &record.writes {
            self.push_write(name, record.outcome, write);
        }
        let unknown = record.outcome == Outcome::Unknown;
        if record.start > record.end {
            self.refuse(Some(name), "it ended before it started");
        }
        if self.too_large() {
            return;
        }
        self.transactions.push(Transaction {
            number: record.number,
            start: record.start,
            end: if unknown { u64::MAX } else { record.end },
            client: record.client,
            reads_end: self.reads.len() as u32,
            writes_end: self.writes.len() as u32,
            outcome: record.outcome,
        });
    }

    /// Adds that somebody was told, between `start` and `end`, that an object is not there.
    pub fn absent(&mut self, by: TransactionName, (start, end): (u64, u64), object: ObjectKey) {
        let object = self.object(object);
        self.absences.push(Absence { object, by, start, end });
    }

    /// Adds all of another history, such as another client's.
    pub fn merge(&mut self, other: History) {
        if self.too_large() || other.len() >= LENGTH_MAX {
            return;
        }
        let renamed: Vec<u32> = other.objects.iter().map(|theirs| self.merge_object(theirs)).collect();
        let (reads, writes) = (self.reads.len() as u32, self.writes.len() as u32);
        self.reads.extend(other.reads.iter().map(|r| Seen { object: renamed[r.object as usize], ..*r }));
        self.writes.extend(other.writes.iter().map(|w| Change { object: renamed[w.object as usize], ..*w }));
        let absences = other.absences.iter();
        self.absences.extend(absences.map(|a| Absence { object: renamed[a.object as usize], ..*a }));
        self.transactions.extend(other.transactions.iter().map(|t| Transaction {
            reads_end: t.reads_end + reads,
            writes_end: t.writes_end + writes,
            ..*t
        }));
        if self.malformed.is_none() {
            self.malformed = other.malformed;
        }
    }

    /// Declares that an object was there, in this version, before the history began.
    pub fn initial(&mut self, object: ObjectKey, version: u64) {
        let object = self.object(object) as usize;
        if self.objects[object].initial.replace(version).is_some_and(|before| before != version) {
            self.refuse(None, "two initial versions of one object were declared");
        }
    }

    /// Declares what was found after everything had ended: a version, or nothing.
    pub fn final_state(&mut self, object: ObjectKey, version: Option<u64>) {
        let object = self.object(object) as usize;
        if self.objects[object].last.replace(version).is_some_and(|before| before != version) {
            self.refuse(None, "two final states of one object were declared");
        }
    }

    /// Everything is numbered in 32 bits.
    fn too_large(&mut self) -> bool {
        let longest = self.reads.len().max(self.writes.len()).max(self.transactions.len());
        let too_large = longest >= LENGTH_MAX;
        if too_large {
            self.refuse(
                None,
                "it has more than 500 million reads, writes or transactions: check it in parts",
            );
        }
        too_large
    }

    fn push_write(&mut self, name: TransactionName, outcome: Outcome, write: &Write) {
        let object = self.object(write.object);
        let aborted = outcome == Outcome::Aborted;
        if write.kind != WriteKind::Create && write.before.checked_add(1) != Some(write.after) {
            self.refuse(Some(name), "it installed a version that is not the one before plus one");
        }
        let number = self.transactions.len() as u32 + 1;
        let known = &mut self.objects[object as usize];
        let twice = std::mem::replace(&mut known.changed_by, number) == number;
        known.changes += u32::from(!aborted);
        if write.kind == WriteKind::Create && outcome == Outcome::Committed {
            known.created.get_or_insert(write.after);
        }
        self.writes.push(Change { after: write.after, object, kind: write.kind });
        if twice {
            self.refuse(Some(name), "it changed an object more than once");
        }
    }

    fn merge_object(&mut self, theirs: &Object) -> u32 {
        let name = self.object(theirs.key);
        if let Some(version) = theirs.initial {
            self.initial(theirs.key, version);
        }
        if let Some(found) = theirs.last {
            self.final_state(theirs.key, found);
        }
        let known = &mut self.objects[name as usize];
        known.changes += theirs.changes;
        known.created = known.created.or(theirs.created);
        name
    }

    /// The number of an object here.
    fn object(&mut self, key: ObjectKey) -> u32 {
        *self.names.entry(key).or_insert_with(|| {
            self.objects.push(Object {
                key,
                initial: None,
                created: None,
                last: None,
                changes: 0,
                changed_by: 0,
            });
            self.objects.len() as u32 - 1
        })
    }

    fn refuse(&mut self, transaction: Option<TransactionName>, why: &'static str) {
        self.malformed.get_or_insert(Violation::Malformed { transaction, why });
    }

    pub(super) fn reads_of(&self, t: u32) -> std::ops::Range<usize> {
        self.range(t, |transaction| transaction.reads_end)
    }

    pub(super) fn writes_of(&self, t: u32) -> std::ops::Range<usize> {
        self.range(t, |transaction| transaction.writes_end)
    }

    fn range(&self, t: u32, end: impl Fn(&Transaction) -> u32) -> std::ops::Range<usize> {
        let t = t as usize;
        let begin = if t == 0 { 0 } else { end(&self.transactions[t - 1]) };
        begin as usize..end(&self.transactions[t]) as usize
    }

    pub(super) fn name(&self, t: u32) -> TransactionName {
        let transaction = &self.transactions[t as usize];
        TransactionName { client: transaction.client, number: transaction.number }
    }

    pub(super) fn outcome(&self, t: u32) -> Outcome {
        self.transactions[t as usize].outcome
    }
}

/// Spreads the bits of a key. Histories are our own: nobody chooses keys to collide.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // The golden ratio: neighbouring addresses land far apart.
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
