//! How a node that was here before takes back what its log tells.
//!
//! In this order: regions, which the heap scans; shards, for what they lie in must be theirs again
//! before anything is reserved; transactions that were prepared, whose objects are locked once more.

use super::durable::Earlier;
use super::{Node, failed, register};
use crate::error::Error;
use barn_cluster::Configuration;
use barn_fabric::Registry;
use barn_heap::Heap;
use barn_index::node::notes::NoteKey;
use barn_index::node::{Reopened, Tables};
use barn_log::{Recovered, RecoveryReport};
use barn_transaction::participant::Participant;
use std::fmt;
use std::time::Duration;

/// What a node found in its log when it started.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// What the log says.
    pub log: RecoveryReport,
    /// Shards of tables that came back.
    pub shards: usize,
    /// Keys in them.
    pub keys: u64,
    /// How long it took until all of it could be served; the wait for an earlier life's lease to end
    /// is not in it.
    pub took: Duration,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, shards, keys, took } = self;
        write!(f, "{keys} keys in {shards} shards, in {:.2} s: {log}", took.as_secs_f64())
    }
}

impl Node {
    /// Takes back what the node had before it was restarted.
    pub(super) fn take_back(
        &mut self,
        earlier: Earlier,
        registry: &Registry,
        heap: &mut Heap,
    ) -> Result<Recovered, Error> {
        let Earlier { member, regions, recovered } = earlier;
        if self.member != member {
            return Err(Error::Node(format!(
                "the data directory belongs to member {} of another cluster, or one that has forgotten it; \
                 choose another directory, or join the cluster that it came from",
                member.0
            )));
        }
        for (id, region) in regions {
            let damaged = |why: String| failed("the node's memory, as its log tells")(why);
            let found =
                heap.add_region(id, region.words().clone()).map_err(|error| damaged(error.to_string()))?;
            heap.unlock_interrupted(&found.interrupted)
                .map_err(|address| damaged(format!("the object at {address:?} is half written")))?;
            register(registry, id, &region)?;
            self.regions.push((id, region));
        }
        Ok(recovered)
    }
}

/// Brings tables and transactions back that the log's notes tell of.
pub(super) fn restore(
    recovered: &Recovered,
    participant: &mut Participant,
    tables: &mut Tables,
    configuration: &Configuration,
) -> Result<Reopened, Error> {
    let why = failed("what the node held before");
    let shards = recovered.notes.iter().filter_map(|(key, values)| {
        let (table, shard) = NoteKey::parse(key)?;
        Some((table, shard, values.clone()))
    });
    // Tables first: what they lie in must be theirs again before anything else is reserved.
    let Some(heap) = participant.heap_mut() else {
        return Err(Error::Node(
            "the node lost its place in the cluster while it started: start it again".into(),
        ));
    };
    let reopened = tables.reopen(heap, configuration, shards).map_err(&why)?;
    for (key, values) in &recovered.notes {
        if key.starts_with(barn_transaction::participant::NOTE) {
            participant.restore(key, values).map_err(&why)?;
        }
    }
    Ok(reopened)
}
