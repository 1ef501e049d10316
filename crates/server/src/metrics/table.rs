//! Every metric of a node, declared once: its name, its kind, what it means, its labels.
//!
//! What always holds: nothing is shown that is not declared here, and everything that is declared is
//! documented in docs/metrics.md, which a test keeps current.

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// Only grows, until the node is started again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many took no longer than each bound.
    Histogram,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) sort: Sort,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

const fn metric(
    name: &'static str,
    sort: Sort,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, sort, labels, help }
}

macro_rules! metrics {
    ($($id:ident = $name:literal, $sort:ident, [$($label:literal),*], $help:literal;)*) => {
        $(pub(super) const $id: Metric = metric($name, Sort::$sort, &[$($label),*], $help);)*
        /// All of them, in the order in which they are documented.
        #[cfg(test)]
        pub(super) const ALL: &[Metric] = &[$($id),*];
    };
}

metrics! {
    INFO = "barn_node_info", Gauge, ["version", "member", "cluster"], "1; what the node is.";
    FIGURES_AGE = "barn_figures_age_seconds", Gauge, [], "How long ago the poll loop wrote these figures down. Long, if it stands still.";
    LEASE_LEFT = "barn_lease_left_seconds", Gauge, [], "For how long the node's lease in the cluster still lasts; 0 if it has ended.";
    LEASE_AGE = "barn_lease_age_seconds", Gauge, [], "How long ago the lease was asked for: its length less what is left. It is renewed at about a third.";
    CONFIGURATION = "barn_configuration_version", Gauge, [], "The version of the cluster's configuration that the node knows.";
    MEMBERS = "barn_members", Gauge, [], "Members of the cluster.";
    TABLES = "barn_tables", Gauge, [], "Tables of the cluster.";
    REGIONS = "barn_regions", Gauge, [], "Regions of memory that the node holds for objects.";
    EPOCH = "barn_epoch", Gauge, [], "The heap's epoch: memory gets another shape only after readers have left the epoch in which it was freed.";
    SESSIONS = "barn_sessions", Gauge, [], "Clients' sessions.";
    SESSIONS_EXPIRED = "barn_sessions_expired_total", Counter, [], "Sessions that ended by their lease, not by a goodbye.";
    PEERS = "barn_peers", Gauge, ["transport"], "Peers connected; those that went over to verbs are also among those of tcp, whose connection they keep.";
    PEERS_ACCEPTED = "barn_peers_accepted_total", Counter, [], "Peers that were let in.";
    PEERS_REFUSED = "barn_peers_refused_total", Counter, [], "Newcomers that were refused: no token, a wrong one, or too many peers.";
    PEERS_EXPELLED = "barn_peers_expelled_total", Counter, [], "Peers that were disconnected because of what they sent, or did not take.";
    BYTES_IN = "barn_bytes_in_total", Counter, ["transport"], "Bytes that came: over tcp all, over shm and verbs those of messages.";
    BYTES_OUT = "barn_bytes_out_total", Counter, ["transport"], "Bytes that went: over tcp all, over shm and verbs those of messages. What clients read for themselves there, no node can count.";
    MESSAGES = "barn_messages_total", Counter, [], "Requests and messages that came.";
    ONE_SIDED = "barn_one_sided_operations_total", Counter, [], "READs and other one-sided operations that the tcp agent carried out. Over shm they are loads and over verbs the device's, which no node can count.";
    SLEEPS = "barn_poll_loop_sleeps_total", Counter, [], "How often the poll loop had nothing to do and slept.";
    RINGS = "barn_client_bells_rung_total", Counter, [], "How often a client of this host slept until its answer came, and had to be woken.";
    OPERATIONS = "barn_table_operations_total", Counter, ["operation"], "Operations on tables that the node was asked for, key by key. One-sided lookups are not among them: clients count those (barn_client_gets_total).";
    TRANSACTIONS = "barn_transactions_total", Counter, ["outcome"], "Transactions at this node: committed_alone touched no other node, committed did; aborted were refused or given up; resolved were ended by resolvers, and are among the others, too.";
    PREPARED = "barn_transactions_prepared_total", Counter, [], "Transactions over several nodes that were prepared here.";
    HELD = "barn_transactions_held", Gauge, [], "Transactions that wait for their decision, with their locks.";
    SHIPPED = "barn_functions_run_total", Counter, [], "Functions that ran next to the data.";
    HANDLING = "barn_request_seconds", Histogram, ["request"], "How long the poll loop took over a request. One in 64 is timed, so that timing costs less than a nanosecond each: the counts are of samples.";
    MEMORY_BUDGET = "barn_memory_budget_bytes", Gauge, [], "Memory that may be held for objects.";
    MEMORY_HELD = "barn_memory_held_bytes", Gauge, [], "Memory that is held: blocks that are not free.";
    MEMORY_PURPOSE = "barn_memory_bytes", Gauge, ["purpose", "what"], "Memory by purpose: block, the blocks set aside for it; slot, the slots in use; object, the objects' own bytes.";
    OBJECTS = "barn_objects", Gauge, ["purpose"], "Objects by purpose.";
    BLOCKS = "barn_memory_blocks", Gauge, ["state"], "Blocks of 1 MiB: free, divided into slots (slab), waiting for readers to leave, the regions' own tables (table), worn out.";
    TABLE_KEYS = "barn_table_keys", Gauge, ["table", "shard"], "Keys of a shard, those that have expired and were not yet removed among them.";
    TABLE_BYTES = "barn_table_bytes", Gauge, ["table", "shard", "what"], "Bytes of a shard: payload, its keys and values; memory, all that it takes.";
    TABLE_GETS = "barn_table_gets_total", Counter, ["table", "shard", "found"], "Lookups that the node has answered.";
    TABLE_UPDATES = "barn_table_updates_total", Counter, ["table", "shard"], "Changes made to a shard.";
    TABLE_EVICTED = "barn_table_evicted_total", Counter, ["table", "shard"], "Keys that a cache forgot to make room.";
    TABLE_EXPIRED = "barn_table_expired_total", Counter, ["table", "shard"], "Keys that were removed because their time was over.";
    SPACE_CHUNKS = "barn_space_chunks", Gauge, [], "Chunks of spaces that the node holds, those among them that are kept for whoever reserves next.";
    SPACE_BYTES = "barn_space_bytes", Gauge, ["what"], "Memory for spaces: held, what the chunks take; budget, what they may take (`space_memory`).";
    SPACE_CHUNKS_MADE = "barn_space_chunks_made_total", Counter, [], "Chunks that were made.";
    SPACE_CHUNKS_CLEARED = "barn_space_chunks_cleared_total", Counter, [], "Chunks that were cleared to be used again.";
    LOG_APPENDED = "barn_log_appended_bytes_total", Counter, [], "Bytes of records in the log since the start. Only where there is a log.";
    LOG_UNSYNCED = "barn_log_unsynced_bytes", Gauge, [], "Bytes of records that a loss of power could take.";
    LOG_LAG = "barn_log_lag_bytes", Gauge, [], "Bytes of records that are not written yet: what a process that dies now loses.";
    LOG_LAG_TIME = "barn_log_lag_seconds", Gauge, [], "For how long the oldest record that is not written has waited; at `window_ms` writes are held back.";
    LOG_SEGMENTS = "barn_log_segments", Gauge, [], "Segments of the log on disk.";
    LOG_SYNCS = "barn_log_syncs_total", Counter, [], "Times that the log was synced.";
    LOG_DISK = "barn_log_disk_bytes", Gauge, [], "Bytes on disk: segments, spare ones, the last image.";
    LOG_CHECKPOINTS = "barn_log_checkpoints_total", Counter, ["outcome"], "Checkpoints, done and failed.";
    LOG_STOPPED = "barn_log_stopped", Gauge, [], "1 if the log takes nothing, because the disk is full or has failed: durable writes are refused.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// docs/metrics.md.
    fn document() -> String {
        let mut text = String::from(
            "# Metrics\n\n\
             `barn serve --metrics 127.0.0.1:9411` shows what a node counts, in Prometheus's text format, at\n\
             `/metrics`. `/healthz` answers 200 while the node's poll loop turns, `/readyz` while it also holds\n\
             its lease in the cluster; otherwise 503, and why. The port has no authentication: bind it to an\n\
             address that only those can reach who may know. This page is made from the table in the code\n\
             (`crates/server/src/metrics/table.rs`): `BARN_WRITE_DOCS=1 cargo test -p barn-server documented`\n\
             writes it again.\n\n\
             The figures are those that the poll loop wrote down last, ten times a lease: a scrape asks nothing\n\
             of it.\n\n\
             ## Of a node\n\n\
             | metric | kind | labels | meaning |\n|---|---|---|---|\n",
        );
        for metric in ALL {
            let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                metric.name,
                metric.sort.name(),
                labels.join(", "),
                metric.help
            );
        }
        text.push_str(
            "\n## Of a client\n\n\
             No node sees what its clients read for themselves, so they count it: `barn.stats()` gives the\n\
             numbers, `barn.stats().to_prometheus()` the text below for a program's own `/metrics`. READs for\n\
             each lookup are `barn_client_get_reads_total / barn_client_gets_total`.\n\n\
             | metric | kind | meaning |\n|---|---|---|\n",
        );
        for (name, meaning, _) in barn::Stats::default().rows() {
            let _ = writeln!(text, "| `barn_client_{name}` | counter | {meaning} |");
        }
        text
    }

    #[test]
    fn every_metric_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("BARN_WRITE_DOCS").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            there == document(),
            "docs/metrics.md is not current: BARN_WRITE_DOCS=1 cargo test -p barn-server documented"
        );
    }

    #[test]
    fn names_are_as_prometheus_wants_them() {
        for (at, metric) in ALL.iter().enumerate() {
            let name = metric.name;
            assert!(name.starts_with("barn_"), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert_eq!(name.ends_with("_total"), metric.sort == Sort::Counter, "{name}");
            assert!(ALL[..at].iter().all(|other| other.name != name), "{name} is there twice");
            assert!(metric.help.ends_with('.'), "{name}");
        }
    }
}
