//! A node's figures in Prometheus's text format.
//!
//! What always holds: a metric's lines stand together, below its help and its kind, and every label
//! is escaped; what the node cannot know is left out, not shown as zero.

use super::table::{self as t, Metric};
use barn::node::{Figures, Handled, Probe};
use barn_heap::Purpose;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A page in the making.
pub(super) struct Page {
    text: String,
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Page {
    /// The lines of one metric: label values and a number each.
    fn metric<const N: usize>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([String; N], f64)>,
    ) {
        debug_assert_eq!(metric.labels.len(), N, "{} has other labels", metric.name);
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.begin(metric);
        for (values, number) in samples {
            let labels = metric.labels.iter().zip(&values);
            let labels: Vec<String> =
                labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            // Writing to a String does not fail.
            let _ = writeln!(self.text, "{}{labels} {number}", metric.name);
        }
    }

    fn begin(&mut self, metric: &Metric) {
        let (name, kind) = (metric.name, metric.sort.name());
        let _ = write!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help);
    }

    /// A metric without labels.
    fn one(&mut self, metric: &Metric, number: f64) {
        self.metric(metric, [([], number)]);
    }
}

fn count(counter: &AtomicU64) -> f64 {
    // ORDER: Relaxed: counters, of which nothing else follows.
    counter.load(Ordering::Relaxed) as f64
}

/// Everything that is known of a node.
pub(super) fn render(probe: &Probe) -> String {
    let figures = probe.figures();
    let mut page = Page { text: String::with_capacity(16 << 10) };
    of_the_cluster(&mut page, probe);
    of_connections(&mut page, probe, &figures);
    of_requests(&mut page, &figures);
    of_memory(&mut page, probe, &figures);
    of_tables(&mut page, &figures);
    of_spaces(&mut page, &figures);
    if let Some(log) = &figures.log {
        page.one(&t::LOG_APPENDED, log.appended as f64);
        page.one(&t::LOG_UNSYNCED, log.appended.saturating_sub(log.synced) as f64);
        page.one(&t::LOG_LAG, log.lag_bytes as f64);
        page.one(&t::LOG_LAG_TIME, log.lag.as_secs_f64());
        page.one(&t::LOG_SEGMENTS, log.segments as f64);
        page.one(&t::LOG_SYNCS, log.syncs as f64);
        page.one(&t::LOG_DISK, log.disk_bytes as f64);
        let outcomes = [("done", log.checkpoints), ("failed", log.checkpoint_failures)];
        page.metric(
            &t::LOG_CHECKPOINTS,
            outcomes.map(|(outcome, count)| ([outcome.to_string()], count as f64)),
        );
        page.one(&t::LOG_STOPPED, f64::from(u8::from(log.failure.is_some())));
    }
    page.text
}

fn of_the_cluster(page: &mut Page, probe: &Probe) {
    let configuration = probe.directory().configuration();
    let (version, member) = (env!("CARGO_PKG_VERSION").to_string(), probe.member().0.to_string());
    page.metric(&t::INFO, [([version, member, format!("{:016x}", configuration.cluster)], 1.0)]);
    page.metric(&t::FIGURES_AGE, probe.age().map(|age| ([], age.as_secs_f64())));
    let left = probe.lease_left();
    page.one(&t::LEASE_LEFT, left.as_secs_f64());
    page.one(&t::LEASE_AGE, configuration.lease().saturating_sub(left).as_secs_f64());
    page.one(&t::CONFIGURATION, configuration.version as f64);
    page.one(&t::MEMBERS, configuration.members.len() as f64);
    page.one(&t::TABLES, configuration.tables.len() as f64);
}

fn of_connections(page: &mut Page, probe: &Probe, figures: &Figures) {
    let stats = probe.stats();
    page.one(&t::SESSIONS, figures.sessions as f64);
    page.one(&t::SESSIONS_EXPIRED, figures.transactions.expired as f64);
    let transports = probe.transports();
    page.metric(&t::PEERS, transports.map(|(name, stats)| ([name.to_string()], count(&stats.peers))));
    page.one(&t::PEERS_ACCEPTED, count(&stats.accepted));
    page.one(&t::PEERS_REFUSED, count(&stats.refused));
    page.one(&t::PEERS_EXPELLED, count(&stats.expelled));
    page.metric(&t::BYTES_IN, transports.map(|(name, stats)| ([name.to_string()], count(&stats.bytes_in))));
    page.metric(&t::BYTES_OUT, transports.map(|(name, stats)| ([name.to_string()], count(&stats.bytes_out))));
    page.one(&t::MESSAGES, count(&stats.messages));
    page.one(&t::ONE_SIDED, count(&stats.operations));
    page.one(&t::SLEEPS, count(&stats.sleeps));
    page.one(&t::RINGS, count(&stats.rings));
}

fn of_requests(page: &mut Page, figures: &Figures) {
    let rows = figures.operations.rows();
    page.metric(&t::OPERATIONS, rows.map(|(name, number)| ([name.to_string()], number as f64)));
    let transactions = &figures.transactions;
    let outcomes = [
        ("committed_alone", transactions.alone),
        ("committed", transactions.applied),
        ("aborted", transactions.aborted),
        ("resolved", transactions.resolved),
    ];
    page.metric(&t::TRANSACTIONS, outcomes.map(|(name, number)| ([name.to_string()], number as f64)));
    page.one(&t::PREPARED, transactions.prepared as f64);
    page.one(&t::HELD, figures.held as f64);
    page.one(&t::SHIPPED, transactions.shipped as f64);
    let metric = &t::HANDLING;
    page.begin(metric);
    for handled in Handled::ALL {
        let (name, kind, samples) = (metric.name, handled.name(), figures.times.of(handled));
        for (end, total) in samples.cumulative() {
            let end = end.as_secs_f64();
            let _ = writeln!(page.text, "{name}_bucket{{request=\"{kind}\",le=\"{end}\"}} {total}");
        }
        let (total, sum) = (samples.count(), samples.sum().as_secs_f64());
        let _ = write!(
            page.text,
            "{name}_bucket{{request=\"{kind}\",le=\"+Inf\"}} {total}\n\
             {name}_sum{{request=\"{kind}\"}} {sum}\n{name}_count{{request=\"{kind}\"}} {total}\n"
        );
    }
}

fn of_memory(page: &mut Page, probe: &Probe, figures: &Figures) {
    let regions = probe.directory().configuration().regions_of(probe.member()).count();
    page.one(&t::REGIONS, regions as f64);
    page.one(&t::EPOCH, figures.epoch as f64);
    let Some(usage) = &figures.usage else { return };
    page.one(&t::MEMORY_BUDGET, usage.budget_bytes as f64);
    page.one(&t::MEMORY_HELD, usage.held_bytes as f64);
    let bytes = Purpose::ALL.into_iter().flat_map(|purpose| {
        let used = usage.of(purpose);
        [("block", used.block_bytes), ("slot", used.slot_bytes), ("object", used.object_bytes)]
            .map(|(what, bytes)| ([purpose.name().to_string(), what.to_string()], bytes as f64))
    });
    page.metric(&t::MEMORY_PURPOSE, bytes);
    let objects = Purpose::ALL.into_iter();
    let objects = objects.map(|purpose| ([purpose.name().to_string()], usage.of(purpose).objects as f64));
    page.metric(&t::OBJECTS, objects);
    let blocks = [
        ("free", usage.free_blocks),
        ("slab", usage.slab_blocks),
        ("waiting", usage.waiting_blocks),
        ("table", usage.table_blocks),
        ("worn", usage.worn_blocks),
    ];
    page.metric(&t::BLOCKS, blocks.map(|(state, blocks)| ([state.to_string()], blocks as f64)));
}

fn of_spaces(page: &mut Page, figures: &Figures) {
    let chunks = &figures.spaces;
    page.one(&t::SPACE_CHUNKS, chunks.chunks as f64);
    let bytes = [("held", chunks.bytes), ("budget", chunks.bytes_max)];
    page.metric(&t::SPACE_BYTES, bytes.map(|(what, bytes)| ([what.to_string()], bytes as f64)));
    page.one(&t::SPACE_CHUNKS_MADE, chunks.made as f64);
    page.one(&t::SPACE_CHUNKS_CLEARED, chunks.scrubbed as f64);
}

fn of_tables(page: &mut Page, figures: &Figures) {
    let shards = || {
        figures.shards.iter().map(|shard| {
            let name = if shard.name.is_empty() { format!("#{}", shard.table) } else { shard.name.clone() };
            (name, shard.shard.to_string(), &shard.stats)
        })
    };
    page.metric(&t::TABLE_KEYS, shards().map(|(table, shard, stats)| ([table, shard], stats.keys as f64)));
    let bytes = shards().flat_map(|(table, shard, stats)| {
        [("payload", stats.payload_bytes), ("memory", stats.memory_bytes)]
            .map(|(what, bytes)| ([table.clone(), shard.clone(), what.to_string()], bytes as f64))
    });
    page.metric(&t::TABLE_BYTES, bytes);
    let gets = shards().flat_map(|(table, shard, stats)| {
        [("yes", stats.hits), ("no", stats.gets.saturating_sub(stats.hits))]
            .map(|(found, gets)| ([table.clone(), shard.clone(), found.to_string()], gets as f64))
    });
    page.metric(&t::TABLE_GETS, gets);
    page.metric(
        &t::TABLE_UPDATES,
        shards().map(|(table, shard, stats)| ([table, shard], stats.updates as f64)),
    );
    page.metric(
        &t::TABLE_EVICTED,
        shards().map(|(table, shard, stats)| ([table, shard], stats.evicted as f64)),
    );
    page.metric(
        &t::TABLE_EXPIRED,
        shards().map(|(table, shard, stats)| ([table, shard], stats.expired as f64)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
