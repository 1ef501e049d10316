//! What clients do while they are watched: transactions of every kind on a few shared objects.
//!
//! Every object is a pointer (to a child, or to nothing) and a stamp, repeated to its end: bytes of
//! two writes side by side are noticed at once. Children come and go; pointers to them are kept
//! longer than they should be.

use super::recorder::Recorder;
use crate::client::{Client, Transaction};
use crate::error::{ClientError, CommitError};
use crate::id::Pointer;
use barn_fabric::seam::{Clock, Random, Seeded};
use barn_layout::Address;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an object's pointer.
const POINTER: usize = Pointer::BYTES;

/// How long to try for each of the first objects: a cluster that is starting is ready by then.
const ROOT_WITHIN: Duration = Duration::from_secs(30);

/// Lengths of objects, header not counted: within a line, two, and many.
const LENGTHS: [usize; 4] = [24, 40, 104, 1000];

/// A client that is watched.
pub struct Worker {
    /// Whose transactions these are.
    pub number: u32,
    /// By what they are made.
    pub client: Client,
    /// Who writes them down.
    pub recorder: Recorder,
    /// The objects that everybody knows.
    pub roots: Vec<Pointer>,
    /// What it does follows from this.
    pub random: Seeded,
    /// One choice of a root in so many is among the first three: contention.
    pub hot_one_in: u64,
    /// Whose time is written down: one for all whose histories are put together.
    clock: Arc<dyn Clock>,
    count: u64,
    /// Pointers to children, some of them gone.
    known: Vec<Pointer>,
    /// Pointers to children that never came to be, as far as this worker was told.
    in_vain: Vec<Pointer>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({}, {} transactions)", self.number, self.count)
    }
}

/// The bytes of an object: where its child is, and a stamp.
fn body(bytes: usize, child: Option<Pointer>, stamp: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(&child.map_or([0; POINTER], Pointer::to_bytes));
    while body.len() < bytes {
        body.extend_from_slice(&stamp.to_le_bytes());
    }
    body.truncate(bytes);
    body
}

/// The child that an object points to; an error if its bytes do not belong together.
fn child(bytes: &[u8]) -> Result<Option<Pointer>, String> {
    let (pointer, stamps) = bytes.split_at(POINTER);
    let first = &stamps[..8];
    if stamps.chunks_exact(8).any(|stamp| stamp != first) {
        return Err(format!("stamps of two writes in one object: {stamps:?}"));
    }
    let mut copy = [0; POINTER];
    copy.copy_from_slice(pointer);
    let pointer = Pointer::from_bytes(&copy);
    Ok((pointer.bytes != 0).then_some(pointer))
}

impl Worker {
    /// A worker that has done nothing yet.
    pub fn new(number: u32, client: Client, recorder: Recorder, roots: Vec<Pointer>, random: Seeded) -> Self {
        let clock = client.inner.environment.clock.clone();
        Self {
            number,
            client,
            recorder,
            roots,
            random,
            hot_one_in: 2,
            clock,
            count: 0,
            known: Vec::new(),
            in_vain: Vec::new(),
        }
    }

    /// The same, by a clock that is shared with others.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    fn now(&self) -> u64 {
        self.clock.now().as_nanos() as u64
    }

    fn stamp(&mut self) -> u64 {
        self.count += 1;
        (u64::from(self.number) << 32) | self.count
    }

    /// A length that is a multiple of eight past the pointer.
    fn length(&mut self) -> usize {
        LENGTHS[self.random.below(LENGTHS.len() as u64) as usize]
    }

    fn look(&self, bytes: &[u8]) -> Option<Pointer> {
        child(bytes).unwrap_or_else(|torn| {
            self.recorder.torn(torn);
            None
        })
    }

    async fn commit(&mut self, start: u64, transaction: Transaction) -> Result<(), CommitError> {
        let number = self.count;
        self.count += 1;
        self.recorder.begin(self.number, number, start, &transaction.touched());
        let outcome = transaction.commit().await.map(|_| ());
        self.recorder.end(self.number, number, self.now(), &outcome);
        outcome
    }

    /// Makes the objects that everybody will know: the first transactions. Why not, if one of them does
    /// not go through for long.
    pub async fn make_roots(&mut self, count: usize) -> Result<Vec<Pointer>, String> {
        let mut ends = self.now() + ROOT_WITHIN.as_nanos() as u64;
        while self.roots.len() < count {
            let start = self.now();
            let why = match self.make_root(start).await {
                Ok(pointer) => {
                    self.roots.push(pointer);
                    ends = self.now() + ROOT_WITHIN.as_nanos() as u64;
                    continue;
                }
                Err(why) => why,
            };
            if start > ends {
                return Err(format!(
                    "{} of {count} first objects were made, then none: {why}",
                    self.roots.len()
                ));
            }
        }
        Ok(self.roots.clone())
    }

    async fn make_root(&mut self, start: u64) -> Result<Pointer, String> {
        let (stamp, bytes) = (self.stamp(), self.length());
        let mut transaction = self.client.begin();
        let made = transaction.alloc(&body(bytes, None, stamp), None).await;
        let pointer = made.map_err(|error| error.to_string())?;
        self.commit(start, transaction).await.map_err(|error| error.to_string())?;
        Ok(pointer)
    }

    fn root(&mut self) -> Pointer {
        let bound =
            if self.random.below(self.hot_one_in) == 0 { 3.min(self.roots.len()) } else { self.roots.len() };
        self.roots[self.random.below(bound as u64) as usize]
    }

    fn some_roots(&mut self, at_most: u64) -> Vec<Pointer> {
        let count = 2 + self.random.below(at_most - 1);
        let mut chosen: Vec<Pointer> = (0..count).map(|_| self.root()).collect();
        chosen.sort_unstable();
        chosen.dedup();
        // Any order of reading.
        for at in (1..chosen.len()).rev() {
            let other = self.random.below(at as u64 + 1) as usize;
            chosen.swap(at, other);
        }
        chosen
    }

    /// Reads objects at once, half of the time: one after another they are read anyway.
    async fn fetch_perhaps(
        &mut self,
        transaction: &mut Transaction,
        pointers: &[Pointer],
    ) -> Result<(), ClientError> {
        match self.random.below(2) {
            0 => transaction.fetch(pointers).await,
            _ => Ok(()),
        }
    }

    /// One transaction, or one lock-free read; whether it went through.
    pub async fn step(&mut self) -> bool {
        let done = match self.random.below(100) {
            0..15 => self.read_one().await,
            15..35 => self.read_some().await,
            35..60 => self.change_some().await,
            60..75 => self.read_and_change_another().await,
            75..88 => self.make_or_free().await,
            _ => self.follow().await,
        };
        done.is_ok()
    }

    async fn read_one(&mut self) -> Result<(), CommitError> {
        if let Some(pointer) = self.in_vain.pop() {
            // Whatever it gives: another object may be there, of another length.
            if let Ok(object) = self.client.read(pointer).await {
                self.look(&object);
            }
        }
        let pointer = match self.known.len() {
            0 => self.root(),
            _ if self.random.below(2) == 0 => self.root(),
            known => self.known[self.random.below(known as u64) as usize],
        };
        let start = self.now();
        let read = self.client.read(pointer).await;
        self.count += 1;
        let object = match read {
            Err(ClientError::Freed { .. }) => {
                self.recorder.absent(self.number, self.count, (start, self.now()), pointer);
                return Ok(());
            }
            read => read?,
        };
        self.look(&object);
        self.recorder.read(self.number, self.count, (start, self.now()), pointer, object.version);
        Ok(())
    }

    async fn read_some(&mut self) -> Result<(), CommitError> {
        let start = self.now();
        let mut transaction = self.client.begin();
        let chosen = self.some_roots(8);
        self.fetch_perhaps(&mut transaction, &chosen).await?;
        for pointer in chosen {
            let found = self.look(transaction.read(pointer).await?);
            self.known.extend(found);
        }
        self.known.truncate(16);
        self.commit(start, transaction).await
    }

    async fn change_some(&mut self) -> Result<(), CommitError> {
        let start = self.now();
        let stamp = self.stamp();
        let mut transaction = self.client.begin();
        let chosen = self.some_roots(8);
        self.fetch_perhaps(&mut transaction, &chosen).await?;
        for pointer in chosen {
            let found = self.look(transaction.read(pointer).await?);
            transaction.write(pointer, &body(pointer.bytes as usize, found, stamp)).await?;
        }
        self.commit(start, transaction).await
    }

    /// Write skew, if validation were wrong.
    async fn read_and_change_another(&mut self) -> Result<(), CommitError> {
        let start = self.now();
        let stamp = self.stamp();
        let chosen = self.some_roots(6);
        let mut transaction = self.client.begin();
        self.fetch_perhaps(&mut transaction, &chosen).await?;
        let mut children = Vec::new();
        for pointer in &chosen {
            children.push(self.look(transaction.read(*pointer).await?));
        }
        let changed = chosen.len().div_ceil(2);
        for (pointer, child) in chosen.iter().zip(children).take(changed) {
            transaction.write(*pointer, &body(pointer.bytes as usize, child, stamp)).await?;
        }
        self.commit(start, transaction).await
    }

    /// Gives a root a child, or takes it away.
    async fn make_or_free(&mut self) -> Result<(), CommitError> {
        let start = self.now();
        let (stamp, bytes) = (self.stamp(), self.length());
        let root = self.root();
        let mut transaction = self.client.begin();
        let child = match self.look(transaction.read(root).await?) {
            Some(old) => {
                transaction.free(old).await?;
                None
            }
            None => {
                let near = (self.random.below(2) == 0).then_some(root);
                Some(transaction.alloc(&body(bytes, None, stamp), near).await?)
            }
        };
        transaction.write(root, &body(root.bytes as usize, child, stamp)).await?;
        let done = self.commit(start, transaction).await;
        // Whoever was told that it is there finds it.
        if done.is_ok() { &mut self.known } else { &mut self.in_vain }.extend(child);
        self.in_vain.truncate(16);
        done
    }

    /// Reads a root and its child, and changes the child: what was freed must not come back.
    async fn follow(&mut self) -> Result<(), CommitError> {
        let start = self.now();
        let stamp = self.stamp();
        let root = self.root();
        let mut transaction = self.client.begin();
        let found = self.look(transaction.read(root).await?);
        let pointer = match self.known.len() {
            0 => found,
            _ if self.random.below(2) == 0 => found,
            known => Some(self.known.swap_remove(self.random.below(known as u64) as usize)),
        };
        if let Some(pointer) = pointer {
            self.look(transaction.read(pointer).await?);
            transaction.write(pointer, &body(pointer.bytes as usize, None, stamp)).await?;
        }
        self.commit(start, transaction).await
    }

    /// Looks at everything that was ever made, after all others have ended.
    pub async fn audit(&mut self) -> Result<(), String> {
        let made = self.recorder.made();
        self.audit_of(made).await
    }

    /// Looks at what others have made, after they have ended.
    pub async fn audit_of(&mut self, made: Vec<Pointer>) -> Result<(), String> {
        let mut states: BTreeMap<(Address, u32), (Pointer, Option<u64>)> = BTreeMap::new();
        for pointer in made {
            let found = match self.client.read(pointer).await {
                Ok(object) => {
                    self.look(&object);
                    Some(object.version)
                }
                Err(ClientError::Freed { .. }) => None,
                Err(error) => return Err(format!("{pointer} cannot be read after all is over: {error}")),
            };
            // A place that was reserved in vain is reserved again, perhaps for another length.
            let state = states.entry((pointer.address, pointer.incarnation)).or_insert((pointer, None));
            state.1 = state.1.or(found);
        }
        states.into_values().for_each(|(pointer, found)| self.recorder.found(pointer, found));
        Ok(())
    }
}
