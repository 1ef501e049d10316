//! Two looks made into figures: members, memory, tables, rates and hot spots.

use std::collections::BTreeMap;

use barn_layout::planted;
use barn_server::{Activity, LogStatus, PurposeStatus, RegionStatus, ShardStatus};
use serde::Serialize;

use super::{Look, Seen};

/// Hot spots that are named.
const HOT_MAX: usize = 5;

/// A cluster in figures. Rates are there once there were two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The version of the cluster's configuration, as the first node knows it.
    pub configuration: u64,
    /// The nodes, by number.
    pub nodes: Vec<NodeRow>,
    /// What all nodes' memory is used for.
    pub memory: Vec<PurposeStatus>,
    /// The tables, by name, over all nodes.
    pub tables: Vec<TableRow>,
    /// The busiest shards, those first that have most to do.
    pub hot: Vec<ShardRow>,
    /// What happened each second, at all nodes.
    pub rates: Option<Rates>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeRow {
    /// Its number.
    pub member: u32,
    /// Where it is.
    pub addresses: Vec<String>,
    /// Why it did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The version of its program.
    pub version: String,
    /// Its process.
    pub process: u32,
    /// How long it has been there.
    pub uptime_ms: u64,
    /// How long a question takes.
    pub round_trip_ns: Option<f64>,
    /// Clients that have a session with it.
    pub clients: u64,
    /// Connections of clients and other nodes.
    pub connections: u64,
    /// Bytes that its memory may hold.
    pub memory_budget_bytes: u64,
    /// Bytes that it holds.
    pub memory_held_bytes: u64,
    /// Its regions.
    pub regions: Vec<RegionStatus>,
    /// How far its log is behind, where it has one.
    pub log: Option<LogStatus>,
    /// Transactions that wait for their decision.
    pub undecided: u64,
}

/// A table, over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TableRow {
    /// Its name.
    pub name: String,
    /// Its design.
    pub kind: String,
    /// How many shards it has.
    pub shards: u64,
    /// Of those, how many were seen.
    pub shards_seen: u64,
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub payload_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Gets that nodes answered since they started.
    pub gets: u64,
    /// Of those, gets that found something.
    pub hits: u64,
    /// Changes made since they started.
    pub updates: u64,
    /// Gets answered each second.
    pub gets_per_second: Option<f64>,
    /// Changes made each second.
    pub updates_per_second: Option<f64>,
}

/// A shard with much to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShardRow {
    /// Its table.
    pub table: String,
    /// Which shard.
    pub shard: u64,
    /// Who holds it.
    pub member: u32,
    /// Gets and changes since the node started.
    pub operations: u64,
    /// Gets and changes each second.
    pub operations_per_second: Option<f64>,
}

/// What happened each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// Gets that nodes answered.
    pub gets: f64,
    /// Changes of tables.
    pub updates: f64,
    /// One-sided operations that came over tcp.
    pub one_sided: f64,
    /// Requests and messages of all kinds.
    pub messages: f64,
    /// Transactions at one node.
    pub alone: f64,
    /// Parts of transactions over several nodes.
    pub together: f64,
    /// Transactions refused or aborted.
    pub aborted: f64,
}

/// What a node did between two looks.
struct Between<'a> {
    now: &'a Activity,
    before: Option<&'a Activity>,
}

impl Between<'_> {
    /// How often each second a count grew; nothing where there were no two looks at one process.
    fn rate(&self, count: impl Fn(&Activity) -> u64) -> Option<f64> {
        let before = self.before?;
        let ms = self.now.uptime_ms.checked_sub(before.uptime_ms).filter(|ms| *ms > 0)?;
        if planted("rates_ignore_time") {
            return Some(count(self.now).saturating_sub(count(before)) as f64);
        }
        Some(count(self.now).saturating_sub(count(before)) as f64 * 1000.0 / ms as f64)
    }
}

/// The shard's counts in an activity.
fn shard<'a>(activity: &'a Activity, table: &str, number: u64) -> Option<&'a ShardStatus> {
    let table = activity.tables.iter().find(|known| known.name == table)?;
    table.here.iter().find(|known| known.shard == number)
}

fn add(to: &mut Option<f64>, rate: Option<f64>) {
    if let Some(rate) = rate {
        *to = Some(to.unwrap_or(0.0) + rate);
    }
}

impl Report {
    /// What a look shows, and what happened since another.
    pub fn new(now: &Look, before: Option<&Look>) -> Self {
        let mut report = Self::default();
        let mut tables: BTreeMap<String, TableRow> = BTreeMap::new();
        for seen in &now.nodes {
            report.nodes.push(NodeRow::of(seen));
            let Ok(status) = &seen.status else { continue };
            if seen.member == now.first {
                report.configuration = status.configuration;
            }
            // A count of another process is no count to compare with.
            let same = |other: &&Seen| {
                other.member == seen.member
                    && other.status.as_ref().is_ok_and(|other| other.process == status.process)
            };
            let earlier = before.and_then(|look| look.nodes.iter().find(same));
            let earlier = earlier.and_then(|seen| seen.status.as_ref().ok()).map(|status| &status.activity);
            let between = Between { now: &status.activity, before: earlier };
            report.add_memory(&status.memory);
            report.add_tables(&mut tables, &between, seen.member);
            report.add_rates(&between);
        }
        report.tables = tables.into_values().collect();
        // By what happens now; where nothing does, by what has happened.
        report.hot.sort_by(|one, other| {
            let now = |row: &ShardRow| row.operations_per_second.unwrap_or(0.0);
            now(other).total_cmp(&now(one)).then(other.operations.cmp(&one.operations))
        });
        report.hot.retain(|row| row.operations > 0);
        report.hot.truncate(HOT_MAX);
        report
    }

    fn add_memory(&mut self, used: &[PurposeStatus]) {
        for one in used {
            match self.memory.iter_mut().find(|known| known.purpose == one.purpose) {
                Some(known) => {
                    known.objects += one.objects;
                    known.object_bytes += one.object_bytes;
                    known.held_bytes += one.held_bytes;
                }
                None => self.memory.push(one.clone()),
            }
        }
    }

    fn add_tables(&mut self, tables: &mut BTreeMap<String, TableRow>, between: &Between<'_>, member: u32) {
        for table in &between.now.tables {
            let row = tables.entry(table.name.clone()).or_default();
            row.name.clone_from(&table.name);
            row.kind.clone_from(&table.kind);
            row.shards = table.shards;
            for here in &table.here {
                let of = |activity: &Activity| {
                    shard(activity, &table.name, here.shard).cloned().unwrap_or_default()
                };
                let (gets, updates) = (
                    between.rate(|activity| of(activity).gets),
                    between.rate(|activity| of(activity).updates),
                );
                row.shards_seen += 1;
                row.keys += here.keys;
                row.payload_bytes += here.payload_bytes;
                row.memory_bytes += here.memory_bytes;
                row.gets += here.gets;
                row.hits += here.hits;
                row.updates += here.updates;
                add(&mut row.gets_per_second, gets);
                add(&mut row.updates_per_second, updates);
                self.hot.push(ShardRow {
                    table: table.name.clone(),
                    shard: here.shard,
                    member,
                    operations: here.gets + here.updates,
                    operations_per_second: gets.zip(updates).map(|(gets, updates)| gets + updates),
                });
                if let Some((gets, updates)) = gets.zip(updates) {
                    let rates = self.rates.get_or_insert_default();
                    rates.gets += gets;
                    rates.updates += updates;
                }
            }
        }
    }

    fn add_rates(&mut self, between: &Between<'_>) {
        let Some(messages) = between.rate(|activity| activity.messages) else { return };
        let rate = |count: fn(&Activity) -> u64| between.rate(count).unwrap_or(0.0);
        let rates = self.rates.get_or_insert_default();
        rates.messages += messages;
        rates.one_sided += rate(|activity| activity.one_sided);
        rates.alone += rate(|activity| activity.transactions.alone);
        rates.together += rate(|activity| activity.transactions.together);
        rates.aborted += rate(|activity| activity.transactions.aborted);
    }
}

impl NodeRow {
    fn of(seen: &Seen) -> Self {
        let mut row = Self { member: seen.member, addresses: seen.addresses.clone(), ..Self::default() };
        match &seen.status {
            Err(why) => row.trouble = Some(why.clone()),
            Ok(status) => {
                let activity = &status.activity;
                row.version.clone_from(&status.version);
                row.process = status.process;
                row.uptime_ms = activity.uptime_ms;
                row.round_trip_ns = seen.round_trip_ns;
                row.clients = activity.clients;
                row.connections = status.peers;
                row.memory_budget_bytes = activity.memory_budget_bytes;
                row.memory_held_bytes = activity.memory_held_bytes;
                row.regions.clone_from(&status.regions);
                row.log.clone_from(&activity.log);
                row.undecided = activity.transactions.undecided;
            }
        }
        row
    }
}
