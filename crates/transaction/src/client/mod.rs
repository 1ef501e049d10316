//! A client of the shared address space: reads objects for itself, and commits transactions.
//!
//! What always holds:
//! - a client has one *session* at all nodes it talks to; once any of them has ended it, the client
//!   begins another everywhere, and what was under way in the old one is given up or found out;
//! - what a read gave is true of some moment during the read, also if this process or the node was
//!   stopped in between: the node's lease on the session is looked at after the bytes
//!   ([`Table::is_valid`]);
//! - memory that a read may still look at is not given another shape: see [`activity`].

pub(crate) mod activity;
#[cfg(test)]
mod activity_tests;
mod atomics;
mod backoff;
mod by_region;
mod commit;
mod fetch;
mod glance;
mod keeper;
pub(crate) mod phase;
mod reach;
mod read;
mod recover;
mod resolve;
mod retry;
mod ship;
mod stats;
mod table;
mod transaction;

pub use commit::{CommitStep, Committed, Observer};
pub use glance::Glance;
pub use reach::{Exchange, Reach, TOGETHER_MAX, Waits};
pub use read::{Object, Snapshot};
pub use retry::{Attempts, RunOptions};
pub use stats::{ClientStats, LookupCounts, Lookups, Stats};
pub use transaction::{Touched, Transaction};

use crate::error::ClientError;
use activity::Activity;
use barn_cluster::{Directory, Member};
use barn_fabric::seam::{Clock, Random, Schedule, Seeded};
use barn_fabric::{ConnectError, Connection};
use barn_layout::transaction::TransactionId;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;
use table::Table;

/// A future in a box.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How a client reaches the members of a cluster.
pub trait Connector: Send + Sync {
    /// Connects to a member, within a time.
    fn connect<'a>(
        &'a self,
        member: &'a Member,
        limit: Duration,
    ) -> Boxed<'a, Result<Connection, ConnectError>>;

    /// Connects, within a time, to the address that the cluster was given by: whichever cluster is
    /// there is the one that is meant. `None` where there is no such address.
    fn rediscover<'a>(&'a self, limit: Duration) -> Option<Boxed<'a, Result<Connection, ConnectError>>> {
        let _ = limit;
        None
    }
}

/// What a client does again by itself, until the deadline, when a node or the link to it is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Nothing: whoever asked is told at once.
    Never,
    /// What changes nothing. A put whose answer is lost ends as indeterminate.
    Reads,
    /// Also what comes to the same end when it is done twice: put and delete. Of a put that was done
    /// twice the second counts: it replaces what others have put between the two.
    #[default]
    Idempotent,
}

/// What a client stands on.
#[derive(Clone)]
pub struct Environment {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who runs its keeper and wakes it from waits.
    pub schedule: Arc<dyn Schedule>,
    /// How it reaches nodes.
    pub connector: Arc<dyn Connector>,
    /// The method by which nodes give their configuration.
    pub configuration_method: u16,
    /// What its random numbers follow from.
    pub seed: u64,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// How a client behaves.
#[derive(Clone)]
pub struct ClientOptions {
    /// How long an operation may take, all in all, with its retries: 5 s unless said otherwise.
    pub deadline: Duration,
    /// What is done again by itself.
    pub retry: Retry,
    /// How old a transaction may grow: memory that it may still look at waits for it.
    pub age_max: Duration,
    /// Is told of every step of every commit; for tests.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        // 5 s, as the fabric's; 30 s is long for optimistic transactions, which should be short.
        Self {
            deadline: Duration::from_secs(5),
            retry: Retry::default(),
            age_max: Duration::from_secs(30),
            observer: None,
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// A client. Clones are the same client, and cheap; threads may share one.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    /// How long an operation through this handle may take.
    pub(crate) deadline: Duration,
}

pub(crate) struct Inner {
    pub(crate) environment: Environment,
    pub(crate) options: ClientOptions,
    pub(crate) directory: Arc<Directory>,
    pub(crate) table: RwLock<Arc<Table>>,
    /// Members to which a connection is being made.
    pub(crate) connecting: Mutex<Vec<barn_cluster::MemberId>>,
    /// Whether somebody looks for the cluster.
    pub(crate) recovering: AtomicBool,
    pub(crate) random: Mutex<Seeded>,
    pub(crate) next_number: AtomicU64,
    pub(crate) next_member: AtomicU64,
    pub(crate) activity: Activity,
    pub(crate) stats: ClientStats,
    /// Commits whose futures were dropped half-way, and the nodes that have to decide them.
    pub(crate) leaving: Mutex<Vec<(TransactionId, Vec<Arc<table::NodeLink>>)>>,
    /// Places that were reserved and not used.
    pub(crate) giving_back: Mutex<Vec<(Arc<table::NodeLink>, barn_layout::Address)>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client(session {:016x})", self.inner.table().session)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Client {
    /// A client of the cluster that `directory` describes. Connects when it has to.
    pub fn new(environment: Environment, directory: Arc<Directory>, options: ClientOptions) -> Self {
        let mut random = Seeded::new(environment.seed);
        let table = Table::new(random.next(), directory.cluster());
        let deadline = options.deadline;
        let next_member = random.next();
        let inner = Arc::new(Inner {
            activity: Activity::default(),
            environment,
            options,
            directory,
            table: RwLock::new(Arc::new(table)),
            connecting: Mutex::default(),
            recovering: AtomicBool::new(false),
            random: Mutex::new(random),
            next_number: AtomicU64::new(1),
            next_member: AtomicU64::new(next_member),
            stats: ClientStats::default(),
            leaving: Mutex::default(),
            giving_back: Mutex::default(),
        });
        keeper::start(&inner);
        Self { inner, deadline }
    }

    /// The same client, whose operations may take so long.
    #[must_use = "the handle itself keeps its deadline"]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { inner: self.inner.clone(), deadline }
    }

    /// How long an operation may take, all in all.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// What is done again by itself.
    pub fn retry(&self) -> Retry {
        self.inner.options.retry
    }

    /// What it did, counted.
    pub fn stats(&self) -> &ClientStats {
        &self.inner.stats
    }

    /// Who holds what, as far as the client knows.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.inner.directory
    }

    /// The time on the client's clock.
    pub fn now(&self) -> Duration {
        self.inner.now()
    }

    /// What it stands on: for clients of other layers that reach the same cluster.
    pub fn environment(&self) -> &Environment {
        &self.inner.environment
    }

    /// Begins a transaction. Nothing is sent until it reads or allocates.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.clone())
    }
}

impl Inner {
    pub(crate) fn table(&self) -> Arc<Table> {
        self.table.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(crate) fn now(&self) -> Duration {
        self.environment.clock.now()
    }

    /// See [`barn_fabric::seam::Clock::at_latest`].
    pub(crate) fn at_latest(&self) -> Duration {
        self.environment.clock.at_latest()
    }

    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        lock(&self.random).below(bound.max(1))
    }

    /// Whether an error says that the session is over; if so, the client begins another.
    pub(crate) fn session_lost(&self, session: u64) -> ClientError {
        let mut table = self.table.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if table.session == session {
            self.begin_session(&mut table);
        }
        ClientError::SessionLost
    }

    /// Begins another session, at whichever cluster the directory describes.
    fn begin_session(&self, table: &mut Arc<Table>) {
        let next = lock(&self.random).next();
        *table = Arc::new(Table::new(next, self.directory.cluster()));
        ClientStats::add(&self.stats.sessions, 1);
    }

    /// Sees to it that the session is one at the cluster that the directory describes.
    pub(crate) fn follow_directory(&self) {
        let mut table = self.table.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if table.cluster != self.directory.cluster() {
            self.begin_session(&mut table);
        }
    }
}
