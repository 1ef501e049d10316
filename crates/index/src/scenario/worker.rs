//! What clients do while they are watched: everything, mostly to the same few keys.

use super::journal::Journal;
use super::value::{decode, encode, key};
use crate::client::{Answers, Put, Swapped, Table, TableTransaction, Way};
use crate::error::TableError;
use crate::key::Found;
use crate::linearizable::{Call, Expected, Outcome};
use crate::options::Kind;
use barn_fabric::seam::{Random, Seeded};
use barn_transaction::CommitError;
use std::collections::HashMap;
use std::fmt;

/// Versions that a worker remembers, to compare with.
const KNOWN_MAX: usize = 4096;
/// Keys of one batch, at most.
const BATCH_MAX: u64 = 12;
/// Keys of a long one, before those are left out that came twice: a node looks up 32 at a time, and what it does at
/// the end of such a group is to be seen, too.
const LONG_MAX: u64 = 200;

/// What workers do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Keys that all are after.
    pub hot: u64,
    /// Keys besides, which make the table grow, move and forget.
    pub cold: u64,
    /// Of 100 choices of a key, those of a hot one.
    pub hot_percent: u64,
    /// Of 100 operations, those that read.
    pub read_percent: u64,
    /// Cold keys that are put at once, now and then.
    pub flood: u64,
    /// One batch in so many is long; none, if this is 0.
    pub long_one_in: u64,
}

/// A client that is watched.
pub struct Worker<J> {
    /// What the values of this worker begin with: no other has this number.
    pub number: u32,
    /// What has been seen that nobody wrote.
    pub torn: Option<String>,
    tables: [Table; 3],
    journal: J,
    plan: Plan,
    random: Seeded,
    count: u64,
    /// The value and the version that a key had when it was last seen.
    known: HashMap<u64, (u64, u64)>,
    /// A key's version follows its value alone.
    is_versioned: bool,
    found: Found,
    answers: Answers,
    value: Vec<u8>,
    spare: Vec<u8>,
}

impl<J> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({}, {} values)", self.number, self.count)
    }
}

impl<J: Journal> Worker<J> {
    /// A worker that has done nothing yet.
    pub fn new(number: u32, table: &Table, journal: J, plan: Plan, random: Seeded) -> Self {
        Self {
            number,
            torn: None,
            tables: [Way::OneSided, Way::Request, Way::Auto].map(|way| table.read_by(way)),
            journal,
            plan,
            random,
            count: 0,
            known: HashMap::new(),
            // A bucket that has changed often gives its entries new versions, though not new values.
            is_versioned: table.kind() != Kind::Hopscotch,
            found: Found::default(),
            answers: Answers::new(),
            value: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// One operation, or one batch of them; gives how many were written down.
    pub async fn step(&mut self) -> u64 {
        if self.random.below(100) < self.plan.read_percent {
            return match self.random.below(10) {
                0 => self.find_many().await,
                _ => self.find().await,
            };
        }
        let at = self.key();
        match self.random.below(100) {
            0..38 => self.put(at).await,
            38..50 => self.insert(at).await,
            50..68 => self.delete(at).await,
            68..86 => self.swap(at).await,
            86..91 => self.delete_version(at).await,
            91..96 => self.put_many().await,
            _ => self.transact().await,
        }
    }

    fn key(&mut self) -> u64 {
        match self.random.below(100) < self.plan.hot_percent {
            true => self.random.below(self.plan.hot),
            // Ever more of them.
            false => self.plan.hot + self.random.below(self.plan.cold.min(8 + self.count * 2)),
        }
    }

    fn keys(&mut self) -> Vec<u64> {
        let one_in = self.plan.long_one_in;
        let most = if one_in > 0 && self.random.below(one_in) == 0 { LONG_MAX } else { BATCH_MAX };
        let count = 2 + self.random.below(most - 1);
        let mut keys: Vec<u64> = (0..count).map(|_| self.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// A new value, in `self.value`; gives its number.
    fn fresh(&mut self) -> u64 {
        self.count += 1;
        let id = (u64::from(self.number) << 32) | self.count;
        encode(id, &mut self.value);
        id
    }

    fn table(&mut self) -> Table {
        self.tables[self.random.below(3) as usize].clone()
    }

    fn expected(&self, value: u64, version: u64) -> Expected {
        match self.is_versioned {
            true => Expected::Version(version),
            false => Expected::Value(value),
        }
    }

    fn version(&self, version: u64) -> u64 {
        if self.is_versioned { version } else { 0 }
    }

    fn learn(&mut self, at: u64, value: u64, version: u64) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(at, (value, version));
    }

    /// What somebody has found.
    fn saw(&mut self, at: u64, bytes: &[u8], version: u64) -> Outcome {
        match decode(bytes, &mut self.spare) {
            Ok(value) => {
                self.learn(at, value, version);
                Outcome::Found { value, version: self.version(version) }
            }
            Err(torn) => {
                self.torn.get_or_insert(torn);
                Outcome::Unknown
            }
        }
    }

    /// Writes down how a change has ended.
    fn ended(&mut self, pending: J::Pending, outcome: Result<Option<Outcome>, TableError>) {
        match outcome {
            Ok(Some(outcome)) => self.journal.returned(pending, outcome),
            // It was not done, and why says nothing.
            Ok(None) | Err(TableError::Contended | TableError::Full { .. }) => self.journal.refused(pending),
            Err(_) => self.journal.returned(pending, Outcome::Unknown),
        }
    }

    async fn find(&mut self) -> u64 {
        let (at, table) = (self.key(), self.table());
        let mut found = std::mem::take(&mut self.found);
        let pending = self.journal.call(at, Call::Get);
        let there = table.find_into(&key(at), &mut found).await;
        let outcome = match there {
            Ok(true) => self.saw(at, &found.value, found.version),
            Ok(false) => Outcome::Absent,
            Err(_) => Outcome::Unknown,
        };
        self.journal.returned(pending, outcome);
        self.found = found;
        1
    }

    async fn find_many(&mut self) -> u64 {
        let (numbers, table) = (self.keys(), self.table());
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut answers = std::mem::take(&mut self.answers);
        let pending: Vec<J::Pending> = numbers.iter().map(|at| self.journal.call(*at, Call::Get)).collect();
        let done = table.find_many(&keys, &mut answers).await;
        for (place, (at, pending)) in numbers.iter().zip(pending).enumerate() {
            let outcome = match (&done, answers.get(place)) {
                (Err(_), _) => Outcome::Unknown,
                (Ok(()), Some(found)) => self.saw(*at, &found.value, found.version),
                (Ok(()), None) => Outcome::Absent,
            };
            self.journal.returned(pending, outcome);
        }
        self.answers = answers;
        numbers.len() as u64
    }

    async fn put(&mut self, at: u64) -> u64 {
        let (id, table) = (self.fresh(), self.table());
        let pending = self.journal.call(at, Call::Put(id));
        let done = table.put(&key(at), &self.value).await;
        if let Ok(version) = done {
            self.learn(at, id, version);
        }
        let outcome = done.map(|version| Some(Outcome::Done { version: self.version(version) }));
        self.ended(pending, outcome);
        1
    }

    async fn insert(&mut self, at: u64) -> u64 {
        let (id, table) = (self.fresh(), self.table());
        let pending = self.journal.call(at, Call::Insert(id));
        let done = table.insert(&key(at), &self.value, Put::default()).await;
        let outcome = |done| if done { Outcome::Done { version: 0 } } else { Outcome::Different };
        self.ended(pending, done.map(|done| Some(outcome(done))));
        1
    }

    async fn delete(&mut self, at: u64) -> u64 {
        let table = self.table();
        let pending = self.journal.call(at, Call::Delete);
        let done = table.delete(&key(at)).await;
        let outcome = |done| if done { Outcome::Done { version: 0 } } else { Outcome::Absent };
        self.ended(pending, done.map(|done| Some(outcome(done))));
        1
    }

    async fn swap(&mut self, at: u64) -> u64 {
        let Some(&(value, version)) = self.known.get(&at) else { return self.find().await };
        let (new, table) = (self.fresh(), self.table());
        let expected = self.expected(value, version);
        let pending = self.journal.call(at, Call::Swap { expected, new });
        let done = table.swap(&key(at), version, &self.value, Put::default()).await;
        let outcome = match done {
            Ok(Swapped::Done(version)) => {
                self.learn(at, new, version);
                Ok(Some(Outcome::Done { version: self.version(version) }))
            }
            Ok(Swapped::Absent) => Ok(Some(Outcome::Absent)),
            // Another version, though perhaps of the same value.
            Ok(Swapped::Different(_)) => Ok(self.is_versioned.then_some(Outcome::Different)),
            Err(error) => Err(error),
        };
        self.ended(pending, outcome);
        1
    }

    async fn delete_version(&mut self, at: u64) -> u64 {
        let Some((value, version)) = self.known.remove(&at) else { return self.find().await };
        let table = self.table();
        let pending = self.journal.call(at, Call::DeleteIf(self.expected(value, version)));
        let outcome = match table.delete_version(&key(at), version).await {
            Ok(true) => Ok(Some(Outcome::Done { version: 0 })),
            Ok(false) => Ok(self.is_versioned.then_some(Outcome::NotDone)),
            Err(error) => Err(error),
        };
        self.ended(pending, outcome);
        1
    }

    /// Cold keys of the whole range, many at once.
    fn flood(&mut self) -> Vec<u64> {
        let Plan { hot, cold, flood, .. } = self.plan;
        let mut keys: Vec<u64> = (0..flood).map(|_| hot + self.random.below(cold)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    async fn put_many(&mut self) -> u64 {
        let numbers = if self.random.below(2) == 0 { self.flood() } else { self.keys() };
        let table = self.table();
        let mut pairs = Vec::new();
        let mut pending = Vec::new();
        for at in &numbers {
            let id = self.fresh();
            pairs.push((key(*at), self.value.clone()));
            pending.push(self.journal.call(*at, Call::Put(id)));
        }
        let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let done = table.put_many(&pairs, Put::default()).await;
        for pending in pending {
            // If it fails, some may have been put.
            let outcome = if done.is_ok() { Outcome::Done { version: 0 } } else { Outcome::Unknown };
            self.journal.returned(pending, outcome);
        }
        numbers.len() as u64
    }

    /// Reads a key and changes two others in one transaction, where there are any.
    async fn transact(&mut self) -> u64 {
        let mut numbers = self.keys();
        numbers.truncate(3);
        if self.is_versioned || numbers.len() < 3 {
            return self.find().await;
        }
        let (table, [seen, put, gone]) = (self.table(), [numbers[0], numbers[1], numbers[2]]);
        let id = self.fresh();
        let calls = [(seen, Call::Get), (put, Call::Put(id)), (gone, Call::Delete)];
        let pending: Vec<J::Pending> =
            calls.into_iter().map(|(at, call)| self.journal.call(at, call)).collect();
        let mut transaction = table.client().begin();
        let body = async {
            let read = transaction.table_get(&table, &key(seen)).await?;
            transaction.table_put(&table, &key(put), &self.value, Put::default()).await?;
            let was_there = transaction.table_delete(&table, &key(gone)).await?;
            Ok::<_, TableError>((read, was_there))
        };
        let body = body.await;
        let committed = match &body {
            // Nothing was sent.
            Err(_) => Ok(false),
            Ok(_) => match transaction.commit().await {
                Ok(_) => Ok(true),
                Err(CommitError::Conflict { .. }) => Ok(false),
                Err(_) => Err(()),
            },
        };
        let outcomes = match (committed, body) {
            (Ok(true), Ok((read, was_there))) => {
                let read = match read {
                    Some(bytes) => match decode(&bytes, &mut self.spare) {
                        Ok(value) => Outcome::Found { value, version: 0 },
                        Err(torn) => {
                            self.torn.get_or_insert(torn);
                            Outcome::Unknown
                        }
                    },
                    None => Outcome::Absent,
                };
                let deleted = if was_there { Outcome::Done { version: 0 } } else { Outcome::Absent };
                [Some(read), Some(Outcome::Done { version: 0 }), Some(deleted)]
            }
            (Err(()), _) => [Some(Outcome::Unknown); 3],
            _ => [None; 3],
        };
        for (pending, outcome) in pending.into_iter().zip(outcomes) {
            self.ended(pending, Ok(outcome));
        }
        3
    }
}
