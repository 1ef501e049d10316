//! What a client did, counted: the only place where one-sided reads can be, as no node sees them.
//!
//! What always holds: a count never goes back, also not when the table that it came from is closed.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a client did, counted.
#[derive(Debug, Default)]
pub struct ClientStats {
    /// READs of objects; those of tables are counted by their tables.
    pub reads: AtomicU64,
    /// READs of versions alone, by which commits validate.
    pub version_reads: AtomicU64,
    /// READs that had to be made again: the object was locked, or was caught in a change.
    pub read_retries: AtomicU64,
    /// Of those, READs whose words did not belong together.
    pub torn: AtomicU64,
    /// Messages sent.
    pub messages: AtomicU64,
    /// Transactions committed.
    pub commits: AtomicU64,
    /// Transactions that did not go through because of another.
    pub conflicts: AtomicU64,
    /// Transactions whose outcome had to be found out from the nodes.
    pub resolved: AtomicU64,
    /// The most attempts that one call of `run` has needed.
    pub attempts_max: AtomicU64,
    /// Sessions begun after the first: each time, a link or a lease was lost.
    pub sessions: AtomicU64,
    /// Operations that were tried again because a node or the link to it was lost.
    pub retries: AtomicU64,
    /// Times that another cluster was found at the address of the last.
    pub clusters: AtomicU64,
    /// How tables were read: one for each that was opened.
    lookups: Mutex<Vec<Arc<LookupCounts>>>,
    /// The same of tables that are closed.
    closed: Mutex<Lookups>,
}

impl ClientStats {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        // ORDER: Relaxed: counters, of which nothing else follows.
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// A counter's value.
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

/// How one table was read, counted by its handle: shared by its clones alone, so that tables do not
/// wait for each other.
#[derive(Debug, Default)]
pub struct LookupCounts {
    /// Keys looked up one-sidedly.
    gets: AtomicU64,
    /// READs for them beyond one for each: in the common case there is nothing to add.
    more_reads: AtomicU64,
    /// Lookups begun again because a writer was there.
    pub retries: AtomicU64,
    /// Keys that nodes were asked for.
    pub requests: AtomicU64,
    /// Times that a node was asked where a shard's memory is.
    pub refreshed: AtomicU64,
    /// Changes asked for.
    pub updates: AtomicU64,
}

impl LookupCounts {
    /// Adds to one of them.
    #[inline]
    pub fn add(counter: &AtomicU64, count: u64) {
        // ORDER: Relaxed: counters, of which nothing else follows.
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts keys that were looked up one-sidedly, and all READs for them. Of no key that was settled
    /// there are fewer than one.
    #[inline]
    pub fn looked_up(&self, gets: u64, reads: u64) {
        if gets > 0 {
            Self::add(&self.gets, gets);
        }
        let more = reads.saturating_sub(gets);
        if more > 0 {
            Self::add(&self.more_reads, more);
        }
    }

    /// As they are now.
    pub fn now(&self) -> Lookups {
        let gets = ClientStats::get(&self.gets);
        Lookups {
            gets,
            reads: gets + ClientStats::get(&self.more_reads),
            retries: ClientStats::get(&self.retries),
            requests: ClientStats::get(&self.requests),
            refreshed: ClientStats::get(&self.refreshed),
            updates: ClientStats::get(&self.updates),
        }
    }
}

/// [`LookupCounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Keys looked up one-sidedly.
    pub gets: u64,
    /// READs for them.
    pub reads: u64,
    /// Lookups begun again because a writer was there.
    pub retries: u64,
    /// Keys that nodes were asked for.
    pub requests: u64,
    /// Times that a node was asked where a shard's memory is.
    pub refreshed: u64,
    /// Changes asked for.
    pub updates: u64,
}

impl Lookups {
    fn add(&mut self, other: Self) {
        self.gets += other.gets;
        self.reads += other.reads;
        self.retries += other.retries;
        self.requests += other.requests;
        self.refreshed += other.refreshed;
        self.updates += other.updates;
    }
}

/// What a client did, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How tables were read and changed.
    pub lookups: Lookups,
    /// READs of objects.
    pub reads: u64,
    /// READs of versions alone, by which commits validate.
    pub version_reads: u64,
    /// READs of objects that had to be made again.
    pub read_retries: u64,
    /// Of those, READs whose words did not belong together.
    pub torn: u64,
    /// Messages sent.
    pub messages: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions that did not go through because of another.
    pub conflicts: u64,
    /// Transactions whose outcome had to be found out from the nodes.
    pub resolved: u64,
    /// Sessions begun after the first.
    pub sessions: u64,
    /// Operations tried again because a node or the link to it was lost.
    pub retries: u64,
    /// Times that another cluster was found at the address of the last.
    pub clusters: u64,
}

impl Stats {
    /// READs for each key that was looked up one-sidedly; `None` before the first.
    pub fn reads_per_get(&self) -> Option<f64> {
        (self.lookups.gets > 0).then(|| self.lookups.reads as f64 / self.lookups.gets as f64)
    }

    /// Names, meanings and values, in the order in which they are shown.
    pub fn rows(&self) -> [(&'static str, &'static str, u64); 17] {
        let Self { lookups, .. } = self;
        [
            ("gets_total", "Keys looked up one-sidedly, which no node sees.", lookups.gets),
            ("get_reads_total", "READs for keys that were looked up one-sidedly.", lookups.reads),
            ("get_retries_total", "Lookups begun again because a writer was there.", lookups.retries),
            ("get_requests_total", "Keys that nodes were asked for.", lookups.requests),
            ("updates_total", "Changes of keys that were asked for.", lookups.updates),
            ("roots_refreshed_total", "Questions where a shard's memory is.", lookups.refreshed),
            ("object_reads_total", "READs of objects and of tables.", self.reads),
            (
                "version_reads_total",
                "READs of versions alone, by which commits validate.",
                self.version_reads,
            ),
            ("read_retries_total", "READs of objects that had to be made again.", self.read_retries),
            ("torn_reads_total", "READs of objects whose words did not belong together.", self.torn),
            ("messages_total", "Messages sent.", self.messages),
            ("commits_total", "Transactions committed.", self.commits),
            ("conflicts_total", "Transactions that met another.", self.conflicts),
            ("resolved_total", "Transactions whose outcome had to be found out.", self.resolved),
            (
                "sessions_lost_total",
                "Sessions begun after the first: a link or lease was lost.",
                self.sessions,
            ),
            ("retries_total", "Operations tried again because a node was lost.", self.retries),
            ("clusters_found_total", "Times that another cluster was found at the address.", self.clusters),
        ]
    }

    /// All of it in Prometheus's text format, for a program's own `/metrics`.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for (name, meaning, value) in self.rows() {
            // Writing to a String does not fail.
            let _ = write!(
                text,
                "# HELP barn_client_{name} {meaning}\n# TYPE barn_client_{name} counter\nbarn_client_{name} {value}\n"
            );
        }
        text
    }
}

impl ClientStats {
    /// Counts for a table that is being opened.
    pub(crate) fn open_table(&self) -> Arc<LookupCounts> {
        let counts = Arc::new(LookupCounts::default());
        self.lookups().push(counts.clone());
        counts
    }

    /// The open tables' counts; those of closed ones are added up first.
    fn lookups(&self) -> std::sync::MutexGuard<'_, Vec<Arc<LookupCounts>>> {
        let mut open = super::lock(&self.lookups);
        let mut closed = super::lock(&self.closed);
        open.retain(|counts| {
            let is_open = Arc::strong_count(counts) > 1;
            if !is_open {
                closed.add(counts.now());
            }
            is_open
        });
        open
    }

    /// Everything, as it is now.
    pub fn now(&self) -> Stats {
        let mut lookups = Lookups::default();
        let open = self.lookups();
        open.iter().for_each(|counts| lookups.add(counts.now()));
        lookups.add(*super::lock(&self.closed));
        drop(open);
        Stats {
            reads: Self::get(&self.reads) + lookups.reads,
            lookups,
            version_reads: Self::get(&self.version_reads),
            read_retries: Self::get(&self.read_retries),
            torn: Self::get(&self.torn),
            messages: Self::get(&self.messages),
            commits: Self::get(&self.commits),
            conflicts: Self::get(&self.conflicts),
            resolved: Self::get(&self.resolved),
            sessions: Self::get(&self.sessions),
            retries: Self::get(&self.retries),
            clusters: Self::get(&self.clusters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_tables_counts_are_kept() {
        let stats = ClientStats::default();
        let (one, other) = (stats.open_table(), stats.open_table());
        one.looked_up(3, 3);
        // One that had to be left to the node, after two READs.
        one.looked_up(0, 2);
        other.looked_up(1, 1);
        assert_eq!(stats.now().lookups.gets, 4);
        drop(one);
        assert_eq!((stats.now().lookups.gets, stats.now().lookups.reads), (4, 6));
        assert_eq!((stats.now().reads, stats.now().reads_per_get()), (6, Some(1.5)));
        assert!(stats.now().to_prometheus().contains("\nbarn_client_gets_total 4\n"));
    }
}
