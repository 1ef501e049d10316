//! What a node is busy with, counted since it started: for `barn status`, `barn top` and metrics.
//!
//! What always holds: counts only grow while the process lives, so that two looks give a rate; the
//! time between them is the node's own (`uptime_ms`).
//!
//! Clients that read shared memory for themselves leave no trace: their lookups are in no count.

use barn::node::{LogStats, NodeView, Traffic};
use barn_index::TableOptions;
use serde::{Deserialize, Serialize};

/// What a node is busy with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// How long the node has been there.
    pub uptime_ms: u64,
    /// Clients that have a session.
    pub clients: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Newcomers refused.
    pub refused: u64,
    /// Peers disconnected because of what they sent.
    pub expelled: u64,
    /// Requests and messages that came.
    pub messages: u64,
    /// One-sided operations that the tcp agent carried out.
    pub one_sided: u64,
    /// Its transactions.
    pub transactions: Transactions,
    /// The tables of which it holds a part, by name.
    pub tables: Vec<TableStatus>,
    /// Bytes that its objects' memory may hold.
    pub memory_budget_bytes: u64,
    /// Bytes that it holds.
    pub memory_held_bytes: u64,
    /// How far its log is behind, where it has one.
    pub log: Option<LogStatus>,
}

/// Transactions, by the way they went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transactions {
    /// Carried out by this node alone, in one message.
    pub alone: u64,
    /// Carried out together with other nodes.
    pub together: u64,
    /// Refused or aborted.
    pub aborted: u64,
    /// Ended by resolvers, for clients that were lost.
    pub resolved: u64,
    /// Functions run next to the data.
    pub shipped: u64,
    /// Waiting for their decision now.
    pub undecided: u64,
}

/// How far a log is behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogStatus {
    /// Bytes that are not written yet.
    pub lag_bytes: u64,
    /// For how long the oldest of them have not been.
    pub lag_ms: u64,
    /// Bytes that are not yet on the disk for certain.
    pub unsynced_bytes: u64,
    /// Bytes on the disk: segments and the last image.
    pub disk_bytes: u64,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
    /// Whether one is under way.
    pub checkpoint_running: bool,
    /// Why it takes nothing, if it does not: durable writes are refused.
    pub stopped: Option<String>,
}

impl LogStatus {
    fn of(log: &LogStats) -> Self {
        Self {
            lag_bytes: log.lag_bytes,
            lag_ms: log.lag.as_millis() as u64,
            unsynced_bytes: log.appended.saturating_sub(log.synced),
            disk_bytes: log.disk_bytes,
            checkpoints: log.checkpoints,
            checkpoint_running: log.checkpoint_running,
            stopped: log.failure.as_ref().map(ToString::to_string),
        }
    }
}

/// A table, as far as a node holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableStatus {
    /// Its name.
    pub name: String,
    /// Its design.
    pub kind: String,
    /// How many shards it has, at all nodes.
    pub shards: u64,
    /// Those that are here.
    pub here: Vec<ShardStatus>,
}

/// A shard of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardStatus {
    /// Which.
    pub shard: u64,
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub payload_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Gets that the node answered.
    pub gets: u64,
    /// Of those, gets that found something.
    pub hits: u64,
    /// Changes made.
    pub updates: u64,
    /// Keys forgotten to make room.
    pub evicted: u64,
    /// Keys whose time was over.
    pub expired: u64,
}

impl Activity {
    /// What a view of the node says.
    pub(crate) fn of(view: &NodeView, uptime_ms: u64) -> Self {
        let Traffic { accepted, refused, expelled, messages, one_sided } = view.traffic;
        let done = &view.transactions;
        let usage = view.usage.unwrap_or_default();
        Self {
            uptime_ms,
            clients: view.clients,
            accepted,
            refused,
            expelled,
            messages,
            one_sided,
            transactions: Transactions {
                alone: done.alone,
                together: done.applied,
                aborted: done.aborted,
                resolved: done.resolved,
                shipped: done.shipped,
                undecided: view.undecided,
            },
            tables: tables(view),
            memory_budget_bytes: usage.budget_bytes,
            memory_held_bytes: usage.held_bytes,
            log: view.log.as_ref().map(LogStatus::of),
        }
    }
}

/// The tables that are in the configuration and of which something is here.
fn tables(view: &NodeView) -> Vec<TableStatus> {
    let mut tables = Vec::new();
    for placed in &view.configuration.tables {
        let here = view.shards.iter().filter(|(table, ..)| *table == placed.table);
        let mut here: Vec<ShardStatus> = here
            .map(|(_, shard, stats)| ShardStatus {
                shard: (*shard).into(),
                keys: stats.keys,
                payload_bytes: stats.payload_bytes,
                memory_bytes: stats.memory_bytes,
                gets: stats.gets,
                hits: stats.hits,
                updates: stats.updates,
                evicted: stats.evicted,
                expired: stats.expired,
            })
            .collect();
        if here.is_empty() {
            continue;
        }
        here.sort_by_key(|shard| shard.shard);
        let kind = TableOptions::from_text(&placed.options).map(|options| options.kind.to_string());
        tables.push(TableStatus {
            name: placed.name.clone(),
            kind: kind.unwrap_or_default(),
            shards: placed.shards.len() as u64,
            here,
        });
    }
    tables.sort_by(|one, other| one.name.cmp(&other.name));
    tables
}
