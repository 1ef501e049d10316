//! What a node counts, and how others get to see it.
//!
//! What always holds: counters on the data path are plain integers that the poll loop alone changes;
//! ten times a lease, when the node's own resolver calls, it writes them down as a whole
//! (`Board::publish`), and whoever wants to know reads what was written, at any time, without being
//! in its way.

use super::histogram::{Histogram, ONE_IN};
use barn_cluster::{Directory, MemberId, Membership};
use barn_fabric::seam::{Clock, SystemClock};
use barn_fabric::{NodeStats, TransportStats};
use barn_heap::Usage;
use barn_index::node::{OperationCounts, ShardStats};
use barn_log::LogStats;
use barn_space::keeper::ChunkUsage;
use barn_transaction::participant::ParticipantStats;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a request is about, as far as its time is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handled {
    /// Lookups in tables.
    TableGet,
    /// Changes of tables.
    TableUpdate,
    /// Steps of transactions.
    Transaction,
    /// Everything else.
    Other,
}

impl Handled {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::TableGet, Self::TableUpdate, Self::Transaction, Self::Other];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::TableGet => "table_get",
            Self::TableUpdate => "table_update",
            Self::Transaction => "transaction",
            Self::Other => "other",
        }
    }
}

/// How long requests took: one of [`ONE_IN`] is timed, on average. The gaps are irregular, as requests
/// often come in a regular order: every 64th of puts and gets in turn would always be a get.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Requests until the next that is timed.
    gap: u32,
    /// What the next gap follows from.
    state: u32,
    by: [Histogram; Handled::ALL.len()],
}

impl Times {
    /// The time now, if the request that begins is one of those that are timed.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<Instant> {
        if self.gap > 0 {
            self.gap -= 1;
            return None;
        }
        // Knuth's generator: its high bits are irregular enough.
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.gap = (self.state >> 16) % (2 * ONE_IN - 1);
        Some(Instant::now())
    }

    /// Notes the end of a request that was timed.
    #[inline]
    pub(super) fn end(&mut self, began: Option<Instant>, handled: Handled) {
        if let Some(began) = began {
            self.by[handled as usize].add(began.elapsed());
        }
    }

    /// The samples of one kind of request.
    pub fn of(&self, handled: Handled) -> &Histogram {
        &self.by[handled as usize]
    }
}

/// A shard that the node holds.
#[derive(Clone, Debug)]
pub struct ShardFigures {
    /// The table's name, if it is still in the configuration.
    pub name: String,
    /// Its number.
    pub table: u32,
    /// Which of its shards.
    pub shard: u16,
    /// What it holds.
    pub stats: ShardStats,
}

/// What the poll loop knows, as it last wrote it down.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Operations on tables.
    pub operations: OperationCounts,
    /// Transactions.
    pub transactions: ParticipantStats,
    /// Transactions that wait for their decision.
    pub held: u64,
    /// Sessions.
    pub sessions: u64,
    /// The heap's epoch.
    pub epoch: u64,
    /// What the memory is used for; none before the node is ready.
    pub usage: Option<Usage>,
    /// The shards.
    pub shards: Vec<ShardFigures>,
    /// How long requests took.
    pub times: Times,
    /// The log, if there is one.
    pub log: Option<LogStats>,
    /// The chunks of spaces.
    pub spaces: ChunkUsage,
}

/// Where the poll loop writes its figures down.
#[derive(Debug)]
pub(super) struct Board {
    clock: SystemClock,
    newest: Mutex<Arc<Figures>>,
    /// When that was, in nanoseconds of the clock; 0 for never.
    at: AtomicU64,
}

impl Board {
    pub(super) fn new(clock: SystemClock) -> Self {
        Self { clock, newest: Mutex::default(), at: AtomicU64::new(0) }
    }

    pub(super) fn publish(&self, figures: Figures) {
        *self.newest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(figures);
        // ORDER: Relaxed: a time that stands alone; the figures are behind their lock.
        self.at.store(self.clock.now().as_nanos().max(1) as u64, Ordering::Relaxed);
    }

    fn newest(&self) -> Arc<Figures> {
        self.newest.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn age(&self) -> Option<Duration> {
        // ORDER: Relaxed: as in `publish`.
        let at = self.at.load(Ordering::Relaxed);
        (at > 0).then(|| self.clock.now().saturating_sub(Duration::from_nanos(at)))
    }
}

/// Looks at a running node from any thread, without a question to its poll loop. Clones are the same.
#[derive(Clone, Debug)]
pub struct Probe {
    pub(super) board: Arc<Board>,
    pub(super) stats: Arc<NodeStats>,
    pub(super) membership: Membership,
    pub(super) clock: SystemClock,
    pub(super) member: MemberId,
}

impl Probe {
    /// What the poll loop wrote down last.
    pub fn figures(&self) -> Arc<Figures> {
        self.board.newest()
    }

    /// How long ago that was; `None` before the first time. Long, if the poll loop stands still.
    pub fn age(&self) -> Option<Duration> {
        self.board.age()
    }

    /// Counts of the node's connections.
    pub fn stats(&self) -> &NodeStats {
        &self.stats
    }

    /// Its transports, by name.
    pub fn transports(&self) -> [(&'static str, &TransportStats); 3] {
        [("shm", &self.stats.shm), ("tcp", &self.stats.tcp), ("verbs", &self.stats.verbs)]
    }

    /// For how long its lease in the cluster still lasts; zero if it has ended.
    pub fn lease_left(&self) -> Duration {
        self.membership.lease().ends_at().saturating_sub(self.clock.now())
    }

    /// Its number in the cluster.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// Who is in the cluster, as far as the node knows.
    pub fn directory(&self) -> &Directory {
        self.membership.directory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_turn_are_all_timed_now_and_then() {
        let mut times = Times::default();
        let requests = 64_000;
        for turn in 0..requests {
            let began = times.begin();
            times.end(began, Handled::ALL[turn % 4]);
        }
        let timed = Handled::ALL.map(|handled| times.of(handled).count());
        assert!(timed.iter().all(|count| (150..350).contains(count)), "{timed:?} of {requests}");
    }
}
