//! Finds, without a search, what cannot be: most histories that go wrong do so in this way.
//!
//! All who wrote or saw a value are its cluster. If one of them returned (at `from`) before another was
//! called (at `to`), the value was there all that time: Gibbons and Korach's forward zone. Nothing
//! else can have been there at any moment in between.

use super::meaning::{Effect, NOTHING, Requires};
use super::prepare::Prepared;

/// When the first of a cluster returned, and when the last was called.
#[derive(Clone, Copy)]
struct Cluster {
    returned: u64,
    called: u64,
    step: u32,
}

/// An operation that falls into the time of another value.
pub(super) fn misplaced(history: &Prepared) -> Option<u32> {
    let (clusters, alone) = clusters(history);
    let mut forward: Vec<Cluster> =
        clusters.iter().filter(|cluster| cluster.returned < cluster.called).copied().collect();
    forward.sort_unstable_by_key(|cluster| cluster.returned);
    if let Some(pair) = forward.windows(2).find(|pair| pair[1].returned < pair[0].called) {
        return Some(pair[1].step);
    }
    let is_within = |cluster: &&Cluster| {
        let later = forward.partition_point(|zone| zone.returned < cluster.called);
        later > 0 && cluster.returned < forward[later - 1].called
    };
    let others = clusters.iter().filter(|cluster| cluster.returned >= cluster.called);
    others.chain(&alone).find(is_within).map(|cluster| cluster.step)
}

/// The clusters of values, and operations that need, or leave, nothing there.
fn clusters(history: &Prepared) -> (Vec<Cluster>, Vec<Cluster>) {
    let nobody = Cluster { returned: u64::MAX, called: 0, step: u32::MAX };
    let mut clusters = vec![nobody; history.demanded.len()];
    let mut alone = Vec::new();
    if history.initial != NOTHING {
        clusters[history.initial as usize].returned = 0;
    }
    for (number, step) in history.steps.iter().enumerate().filter(|(_, step)| !step.optional) {
        let (returned, called, number) = (step.returned, step.invoked, number as u32);
        let seen = if let Requires::Is(value) = step.requires { Some(value) } else { None };
        let written = if let Effect::Set(value) = step.effect { Some(value) } else { None };
        for value in seen.into_iter().chain(written) {
            let cluster = &mut clusters[value as usize];
            cluster.returned = cluster.returned.min(returned);
            (cluster.called, cluster.step) = (cluster.called.max(called), number);
        }
        if step.effect == Effect::Clear || step.requires == Requires::Nothing {
            alone.push(Cluster { returned, called, step: number });
        }
    }
    clusters.retain(|cluster| cluster.step != u32::MAX);
    (clusters, alone)
}
