//! Commit: the phases of a transaction's end, in order (FaRM section 3.4).
//!
//! ```text
//! nothing written     read again the versions of all but the last object
//! one node touched    one message: locked, validated and changed there
//! otherwise           prepare (lock) -> validate (reads) -> decide -> [the caller is told] -> apply
//! ```

use super::phase::{decide, prepare, validate};
use super::resolve::resolve;
use super::table::Table;
use super::transaction::{Entry, Transaction};
use super::{ClientStats, Inner, lock};
use crate::error::{ClientError, CommitError};
use barn_layout::planted;
use barn_layout::transaction::{Change, TransactionId};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A step of a commit, as tests are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitStep {
    /// About to ask the nodes to lock.
    Prepare,
    /// All have.
    Prepared,
    /// The reads are still true.
    Validated,
    /// All nodes know that it will be carried out.
    Decided,
    /// All have been told to carry it out.
    Applied,
}

impl CommitStep {
    /// All steps, in order.
    pub const ALL: [Self; 5] = [Self::Prepare, Self::Prepared, Self::Validated, Self::Decided, Self::Applied];
}

/// Is told of steps.
pub trait Observer: Send + Sync {
    /// A commit has come this far. If this says false it goes no further, ever: as if its thread
    /// had stopped there.
    fn at(&self, step: CommitStep) -> bool;
}

/// A transaction that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its name.
    pub id: TransactionId,
    /// How many nodes it changed.
    pub nodes: usize,
}

/// What the phases work on.
pub(crate) struct Commit<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) transaction: &'a Transaction,
    pub(crate) table: &'a Table,
    pub(crate) id: TransactionId,
    /// The nodes whose objects it changes, as places in the table.
    pub(crate) writers: &'a [usize],
    /// When it has to be over, on the client's clock.
    pub(crate) ends: Duration,
    /// What the clock showed when it began.
    began: Duration,
}

impl Commit<'_> {
    /// How much time is left.
    pub(crate) fn left(&self) -> Duration {
        self.ends.saturating_sub(self.inner.now())
    }

    /// How long a node may take to answer: the other half is for finding out what became of the
    /// commit if it does not.
    pub(crate) fn step_limit(&self) -> Duration {
        self.left() / 2
    }

    /// The same for the first step, which follows at once: the clock need not be looked at again.
    pub(crate) fn first_step_limit(&self) -> Duration {
        self.ends.saturating_sub(self.began) / 2
    }

    async fn at(&self, step: CommitStep) {
        if let Some(observer) = &self.inner.options.observer
            && !observer.at(step)
        {
            std::future::pending::<()>().await;
        }
    }

    /// The entries of a node that are changed.
    pub(crate) fn writes(&self, node: usize) -> impl Iterator<Item = &Entry> {
        let changed = |entry: &&Entry| entry.change.is_some() && !self.transaction.is_unmade(entry);
        self.transaction.entries.iter().filter(move |entry| entry.node == node).filter(changed)
    }

    /// The entries that were only read.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &Entry> {
        self.transaction.entries.iter().filter(|entry| entry.change.is_none())
    }
}

impl Transaction {
    /// The nodes whose objects it changes, as places in the table; the first of them, too.
    fn writers(&self) -> (Option<usize>, Vec<usize>) {
        let changed = |entry: &&Entry| entry.change.is_some() && !self.is_unmade(entry);
        let mut nodes = self.entries.iter().filter(changed).map(|entry| entry.node);
        let Some(first) = nodes.next() else { return (None, Vec::new()) };
        // Mostly there is one, of which no list has to be made.
        let mut writers = Vec::new();
        for node in nodes.filter(|node| *node != first) {
            if writers.is_empty() {
                writers.push(first);
            }
            if !writers.contains(&node) {
                writers.push(node);
            }
        }
        (Some(first), writers)
    }

    /// Commits: all of the transaction's changes, or none.
    ///
    /// `Ok` means that it has been carried out, in one moment between the call and its return, and
    /// that everything it read was true at that moment.
    pub async fn commit(mut self) -> Result<Committed, CommitError> {
        self.end().await
    }

    /// The same. Nothing is to be done with the transaction afterwards.
    pub(super) async fn end(&mut self) -> Result<Committed, CommitError> {
        let (mut request, mut reply) = (std::mem::take(&mut self.request), std::mem::take(&mut self.reply));
        let inner = &*self.client.inner;
        let Some(table) = self.table.as_deref() else {
            // It has touched nothing.
            let id = TransactionId { session: 0.into(), number: 0.into() };
            return Ok(Committed { id, nodes: 0 });
        };
        // ORDER: Relaxed: only that numbers differ matters.
        let number = inner.next_number.fetch_add(1, Ordering::Relaxed);
        let id = TransactionId { session: table.session.into(), number: number.into() };
        let (first, several) = self.writers();
        let writers = if several.is_empty() { first.as_slice() } else { &several };
        let nodes = writers.len();
        // A deadline may be off by 100 µs; a look at the clock takes as long as a small object's read.
        let began = inner.at_latest();
        let ends = began.saturating_add(self.left_at(began));
        let alone = match writers {
            [node] => self.entries.iter().all(|entry| entry.change.is_some() || entry.node == *node),
            _ => false,
        };
        let commit = Commit { inner, transaction: self, table, id, writers, ends, began };
        let outcome = if alone {
            let done = prepare::alone(&commit, &mut request, &mut reply).await;
            settle(&commit, done).await
        } else if nodes == 0 {
            validate::read_only(&commit).await
        } else {
            // In a box, as are other long ways: the future of a small transaction stays small.
            let done = Box::pin(across(&commit)).await;
            settle(&commit, done).await
        };
        (self.request, self.reply) = (request, reply);
        let inner = &*self.client.inner;
        if inner.activity.is_doomed(&self.guard) && nodes == 0 {
            // What it read may have been given another shape meanwhile.
            return Err(ClientError::TooOld { age_max: inner.options.age_max }.into());
        }
        match &outcome {
            Ok(()) => ClientStats::add(&inner.stats.commits, 1),
            Err(CommitError::Conflict { .. }) => ClientStats::add(&inner.stats.conflicts, 1),
            Err(_) => {}
        }
        // Places that the nodes have taken over, or may have, are not ours to give back: a node asked
        // to prepare keeps them, whatever comes of it.
        let given =
            outcome.is_ok() || matches!(outcome, Err(CommitError::Indeterminate)) || !alone && nodes > 0;
        if given {
            self.entries.iter_mut().filter(|entry| entry.change == Some(Change::Create)).for_each(|entry| {
                entry.change = None;
            });
        }
        outcome.map(|()| Committed { id, nodes })
    }
}

/// How far a commit came that did not go through.
pub(crate) enum Stopped {
    /// Nothing was changed, and nobody holds anything of it any more.
    Refused(CommitError),
    /// The nodes know better than we do.
    Unknown,
}

impl From<CommitError> for Stopped {
    fn from(error: CommitError) -> Self {
        Self::Refused(error)
    }
}

async fn settle(commit: &Commit<'_>, done: Result<(), Stopped>) -> Result<(), CommitError> {
    match done {
        Ok(()) => Ok(()),
        Err(Stopped::Refused(error)) => Err(error),
        Err(Stopped::Unknown) => {
            ClientStats::add(&commit.inner.stats.resolved, 1);
            Box::pin(resolve(commit)).await
        }
    }
}

/// Two phases, and a third that nobody waits for.
async fn across(commit: &Commit<'_>) -> Result<(), Stopped> {
    commit.at(CommitStep::Prepare).await;
    let mut leaving = Leaving { commit, armed: true };
    let done = steps(commit).await;
    leaving.armed = false;
    done
}

/// Hands a commit over to the nodes whose future is dropped before its end.
struct Leaving<'a, 'b> {
    commit: &'a Commit<'b>,
    armed: bool,
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        if self.armed {
            let nodes = self.commit.writers.iter().map(|node| self.commit.table.nodes[*node].clone());
            lock(&self.commit.inner.leaving).push((self.commit.id, nodes.collect()));
        }
    }
}

async fn steps(commit: &Commit<'_>) -> Result<(), Stopped> {
    prepare::lock(commit).await?;
    commit.at(CommitStep::Prepared).await;
    if !planted("validation_skipped")
        && let Err(error) = validate::reads(commit).await
    {
        prepare::abort(commit).await;
        return Err(error.into());
    }
    commit.at(CommitStep::Validated).await;
    if !planted("told_before_decided") {
        decide::decide(commit).await?;
    }
    commit.at(CommitStep::Decided).await;
    decide::apply(commit).await;
    commit.at(CommitStep::Applied).await;
    Ok(())
}
