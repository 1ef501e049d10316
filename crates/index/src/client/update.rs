//! Changing keys: always by the node that holds them.

use super::buffers::Buffers;
use super::follow::Unheard;
use super::read::{malformed, said_no};
use super::table::{Counts, Table};
use crate::error::TableError;
use crate::wire::{self, Answer, Method, Update, next_answer};
use barn_layout::table::{Operation, Outcome};
use barn_transaction::Waits;
use std::time::Duration;

/// A node that has no memory now, and will have some when readers have left what was freed, is asked again
/// after so long ...
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// ... and so often: readers leave in a part of a lease, and those who do not must not keep everybody waiting.
const SHORT_TRIES: u32 = 40;

/// How a value is put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// When it expires, in milliseconds since 1970; 0 for never.
    pub expires: u64,
}

impl Put {
    /// Expires after so long.
    pub fn expiring_after(time: Duration) -> Self {
        Self { expires: super::read::now_ms() + (time.as_millis() as u64).max(1) }
    }
}

/// A put among many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// How it is put.
    pub put: Put,
    /// Only if the key has no value.
    pub if_absent: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The key has this value.
    Stored,
    /// The key had a value already, and keeps it.
    Kept,
}

/// What came of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped {
    /// The key has the new value, and this version.
    Done(u64),
    /// The key has another version, this one: nothing was changed.
    Different(u64),
    /// The key is not there: nothing was changed.
    Absent,
}

/// What came of an update.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) version: u64,
    pub(super) value: Vec<u8>,
}

/// The most bytes of keys and values in one message of a batch.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// The most changes in one message.
const BATCH_MAX: usize = 1024;

impl Table {
    /// Gives a key a value; gives its version. If a node is lost it is done again, until the deadline:
    /// see [`barn_transaction::Retry`].
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, TableError> {
        self.put_with(key, value, Put::default()).await
    }

    /// Gives a key a value that may expire; gives its version.
    pub async fn put_with(&self, key: &[u8], value: &[u8], put: Put) -> Result<u64, TableError> {
        let update = Update {
            operation: Operation::Put,
            key,
            value,
            operand: 0,
            expires: put.expires,
            durability: self.durability,
        };
        Ok(self.update(update).await?.version)
    }

    /// Gives a key a value if it has none; false if it has. Never done again when it is not known
    /// whether it was: `Err(Indeterminate)`.
    pub async fn insert(&self, key: &[u8], value: &[u8], put: Put) -> Result<bool, TableError> {
        let update = Update {
            operation: Operation::Insert,
            key,
            value,
            operand: 0,
            expires: put.expires,
            durability: self.durability,
        };
        Ok(self.update(update).await?.outcome == Outcome::Done)
    }

    /// Removes a key; false if it was not there, or if it was removed by an attempt whose answer was
    /// lost: see [`barn_transaction::Retry`].
    pub async fn delete(&self, key: &[u8]) -> Result<bool, TableError> {
        let update = Update {
            operation: Operation::Delete,
            key,
            value: &[],
            operand: 0,
            expires: 0,
            durability: self.durability,
        };
        Ok(self.update(update).await?.outcome == Outcome::Done)
    }

    /// Gives a key a value if it still has this version. Never done again when it is not known whether
    /// it was: `Err(Indeterminate)`.
    pub async fn swap(
        &self,
        key: &[u8],
        version: u64,
        value: &[u8],
        put: Put,
    ) -> Result<Swapped, TableError> {
        let update = Update {
            operation: Operation::Swap,
            key,
            value,
            operand: version,
            expires: put.expires,
            durability: self.durability,
        };
        let done = self.update(update).await?;
        Ok(match done.outcome {
            Outcome::Done => Swapped::Done(done.version),
            Outcome::Absent => Swapped::Absent,
            _ => Swapped::Different(done.version),
        })
    }

    /// Removes a key if it still has this version; false if it has another, or is not there.
    pub async fn delete_version(&self, key: &[u8], version: u64) -> Result<bool, TableError> {
        let update = Update {
            operation: Operation::DeleteVersion,
            key,
            value: &[],
            operand: version,
            expires: 0,
            durability: self.durability,
        };
        Ok(self.update(update).await?.outcome == Outcome::Done)
    }

    /// Adds to a key's value, a decimal number, 0 where there is none; gives the sum. Never done again
    /// when it is not known whether it was: `Err(Indeterminate)`.
    pub async fn increment(&self, key: &[u8], by: i64) -> Result<i64, TableError> {
        self.increment_with(key, by, Put::default()).await
    }

    /// As [`Table::increment`], of a counter that may expire.
    pub async fn increment_with(&self, key: &[u8], by: i64, put: Put) -> Result<i64, TableError> {
        let update = Update {
            operation: Operation::Add,
            key,
            value: &[],
            operand: by as u64,
            expires: put.expires,
            durability: self.durability,
        };
        let done = self.update(update).await?;
        let text = String::from_utf8_lossy(&done.value);
        text.parse().map_err(|_| said_no(&done.value))
    }

    /// Carries a change out, again while something is in its way.
    async fn update(&self, update: Update<'_>) -> Result<Done, TableError> {
        self.check_value(update.value)?;
        Counts::add(&self.inner.counts.updates, 1);
        let idempotent = matches!(update.operation, Operation::Put | Operation::Delete);
        self.changing(idempotent, async |table, waits| table.update_once(&update, waits).await).await
    }

    async fn update_once(&self, update: &Update<'_>, waits: &mut Waits<'_>) -> Result<Done, Unheard> {
        let key = self.key(update.key)?;
        let shard = self.shard(key);
        let mut buffers = Buffers::take();
        let Buffers { message, answer } = &mut buffers;
        wire::begin(message, shard.part.table, shard.part.shard, 1);
        wire::add_update(message, update);
        let mut short_tries = SHORT_TRIES;
        loop {
            self.ask(shard, Method::Update, message, answer, waits.left()).await?;
            let told = next_answer(&mut &answer[..]).map_err(malformed)?;
            match judge(&told)? {
                Outcome::Again => {
                    if !waits.next().await {
                        return Err(TableError::Contended.into());
                    }
                }
                Outcome::Short => {
                    if short_tries == 0 || !waits.next_after(SHORT_PAUSE).await {
                        return Err(TableError::Full { why: text(&told) }.into());
                    }
                    short_tries -= 1;
                }
                outcome => {
                    return Ok(Done { outcome, version: told.version, value: told.value.to_vec() });
                }
            }
        }
    }

    /// Gives many keys values: as few messages as can be. Of a key that is there twice, the last counts.
    /// If it fails, some may have been put.
    pub async fn put_many(&self, pairs: &[(&[u8], &[u8])], put: Put) -> Result<(), TableError> {
        for (key, value) in pairs {
            self.key(key)?;
            self.check_value(value)?;
        }
        let update = |at: usize| {
            let (key, value) = pairs[at];
            Update {
                operation: Operation::Put,
                key,
                value,
                operand: 0,
                expires: put.expires,
                durability: self.durability,
            }
        };
        Counts::add(&self.inner.counts.updates, pairs.len() as u64);
        let attempt = async |table: &Self, waits: &mut Waits<'_>| {
            table.change_many_once(pairs.len(), &update, &mut |_, done| done.map(drop), waits).await
        };
        self.changing(true, attempt).await
    }

    /// Carries many puts out, each with an expiry of its own, and says of each what came of it. One that
    /// is refused is no reason not to do the others.
    ///
    /// If it fails as a whole, `outcomes` is still of the same length: what is not known to have been
    /// done is [`TableError::Indeterminate`].
    pub async fn write_many(
        &self,
        writes: &[Write<'_>],
        outcomes: &mut Vec<Result<Written, TableError>>,
    ) -> Result<(), TableError> {
        outcomes.clear();
        outcomes.resize(writes.len(), Err(TableError::Indeterminate));
        let update = |at: usize| {
            let Write { key, value, put, if_absent } = writes[at];
            let operation = if if_absent { Operation::Insert } else { Operation::Put };
            Update { operation, key, value, operand: 0, expires: put.expires, durability: self.durability }
        };
        let idempotent = writes.iter().all(|write| !write.if_absent);
        Counts::add(&self.inner.counts.updates, writes.len() as u64);
        let attempt = async |table: &Self, waits: &mut Waits<'_>| {
            let mut each = |at: usize, done: Result<Outcome, TableError>| {
                outcomes[at] = done.map(|outcome| match outcome {
                    Outcome::Done => Written::Stored,
                    _ => Written::Kept,
                });
                Ok(())
            };
            table.change_many_once(writes.len(), &update, &mut each, waits).await
        };
        self.changing(idempotent, attempt).await
    }

    /// One attempt at `count` changes, in as few messages as can be; those of one key in their order.
    /// `each` is told what came of a change, and ends it all with an error. What was done before the link
    /// was lost is done again by the next attempt.
    async fn change_many_once<'u>(
        &self,
        count: usize,
        update: &impl Fn(usize) -> Update<'u>,
        each: &mut impl FnMut(usize, Result<Outcome, TableError>) -> Result<(), TableError>,
        waits: &mut Waits<'_>,
    ) -> Result<(), Unheard> {
        let mut left: Vec<Vec<usize>> = vec![Vec::new(); self.inner.shards.len()];
        for at in 0..count {
            let Update { key, value, .. } = update(at);
            match self.check_value(value).and_then(|()| self.key(key)) {
                Ok(key) => left[self.shard_at(key)].push(at),
                Err(error) => each(at, Err(error))?,
            }
        }
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        let mut short_tries = SHORT_TRIES;
        for (shard, left) in self.inner.shards.iter().zip(&mut left) {
            while !left.is_empty() {
                let count = batch(left, |at| {
                    let Update { key, value, .. } = update(at);
                    key.len() + value.len()
                });
                wire::begin(&mut message, shard.part.table, shard.part.shard, count as u16);
                left[..count].iter().for_each(|at| wire::add_update(&mut message, &update(*at)));
                self.ask(shard, Method::Update, &message, &mut answer, waits.left()).await?;
                let mut rest = &answer[..];
                let (mut again, mut short, mut why) = (Vec::new(), Vec::new(), String::new());
                for at in left.drain(..count) {
                    let told = next_answer(&mut rest).map_err(malformed)?;
                    match judge(&told) {
                        Ok(Outcome::Again) => again.push(at),
                        Ok(Outcome::Short) => {
                            short.push(at);
                            why = text(&told);
                        }
                        done => each(at, done)?,
                    }
                }
                if !short.is_empty() && short_tries > 0 && waits.next_after(SHORT_PAUSE).await {
                    short_tries -= 1;
                    // In their order, whatever kept them.
                    again.append(&mut short);
                    again.sort_unstable();
                } else {
                    // Each is told for itself: others may find room.
                    for at in short {
                        each(at, Err(TableError::Full { why: why.clone() }))?;
                    }
                    if !again.is_empty() && !waits.next().await {
                        return Err(TableError::Contended.into());
                    }
                }
                left.splice(0..0, again);
            }
        }
        Ok(())
    }
}

/// How many of the first make one message.
pub(super) fn batch(left: &[usize], bytes: impl Fn(usize) -> usize) -> usize {
    let mut total = 0;
    let fitting = left.iter().take(BATCH_MAX).take_while(|at| {
        total += bytes(**at);
        total <= BATCH_BYTES_MAX
    });
    fitting.count().max(1)
}

/// The reason that an answer gives.
fn text(told: &Answer<'_>) -> String {
    String::from_utf8_lossy(told.value).into_owned()
}

/// What an answer means, if it is not an error.
pub(super) fn judge(told: &Answer<'_>) -> Result<Outcome, TableError> {
    match told.outcome {
        Outcome::Full => Err(TableError::Full { why: text(told) }),
        Outcome::NotANumber => Err(TableError::NotANumber { why: text(told) }),
        Outcome::Invalid => Err(said_no(told.value)),
        outcome => Ok(outcome),
    }
}
