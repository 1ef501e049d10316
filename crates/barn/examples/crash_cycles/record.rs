//! What a client was told, and whether what is there agrees with it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// A place that a client writes to: a table's key, an object.
pub(crate) type Slot = u32;

/// What a client knows of one of its changes.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) sequence: u64,
    /// What it wrote to, and whether that was removed.
    pub(crate) slots: Vec<(Slot, bool)>,
    pub(crate) synced: bool,
    /// When it was acknowledged; never, if nobody knows what became of it.
    pub(crate) acknowledged: Option<Instant>,
    /// When it had an end, known or not.
    pub(crate) ended: Instant,
}

/// A client's changes since the last time that all was compared.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// What was there then: the sequence number of each slot's last change.
    base: BTreeMap<Slot, u64>,
    pub(crate) changes: Vec<Change>,
}

/// What was compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    changes: u64,
    synced: u64,
    logged: u64,
    unknown: u64,
    lost: u64,
    oldest_lost: Duration,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self { kills, changes, synced, logged, unknown, lost, oldest_lost } = other;
        self.kills += kills;
        self.changes += changes;
        self.synced += synced;
        self.logged += logged;
        self.unknown += unknown;
        self.lost += lost;
        self.oldest_lost = self.oldest_lost.max(*oldest_lost);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, changes, synced, logged, unknown, lost, oldest_lost } = self;
        write!(
            f,
            "{kills} kills, {changes} changes: {synced} acknowledged as synced and none lost, {logged} as logged \
             and {lost} lost, the oldest acknowledged {:.1} ms before the end, {unknown} of unknown outcome; every \
             loss a suffix, nothing torn",
            oldest_lost.as_secs_f64() * 1e3
        )
    }
}

fn apply(state: &mut BTreeMap<Slot, u64>, change: &Change) {
    for (slot, removed) in &change.slots {
        match removed {
            true => state.remove(slot),
            false => state.insert(*slot, change.sequence),
        };
    }
}

impl Record {
    /// Whether what is there (`found`) can be: the base, then the client's changes up to some point.
    /// The last one of all may have been made after the restart, behind a gap. The node was alive
    /// at `alive`; what was acknowledged longer than `window` before that must be there.
    pub(crate) fn judge(
        &mut self,
        found: &BTreeMap<Slot, u64>,
        alive: Instant,
        window: Duration,
    ) -> Result<Tally, String> {
        let must = |change: &Change| {
            change.acknowledged.is_some_and(|at| at < alive && (change.synced || at + window < alive))
        };
        let least = self.changes.iter().rposition(must).map_or(0, |at| at + 1);
        let mut state = self.base.clone();
        self.changes[..least].iter().for_each(|change| apply(&mut state, change));
        // The last change, if it ended after the restart: by then earlier ones may have been lost.
        let last = self.changes.last().filter(|change| change.ended > alive).cloned();
        let mut kept = None;
        for count in least..=self.changes.len() {
            if count > least {
                apply(&mut state, &self.changes[count - 1]);
            }
            let rest = &self.changes[count..];
            // What was acknowledged after the node was back is there.
            let allowed = rest.iter().all(|change| change.acknowledged.is_none_or(|at| at <= alive));
            if allowed && state == *found {
                kept = Some(count);
                break;
            }
            if let Some(last) = last.as_ref().filter(|_| !rest.is_empty()) {
                let mut state = state.clone();
                apply(&mut state, last);
                if state == *found {
                    kept = Some(count);
                    break;
                }
            }
        }
        let Some(kept) = kept else { return Err(self.explain(found, &state, least)) };
        let mut tally = Tally { changes: self.changes.len() as u64, ..Tally::default() };
        for (at, change) in self.changes.iter().enumerate() {
            match change.acknowledged {
                None => tally.unknown += 1,
                Some(_) if change.synced => tally.synced += 1,
                Some(_) => tally.logged += 1,
            }
            let lost = at >= kept && change.acknowledged.is_some_and(|at| at <= alive);
            if let Some(at) = change.acknowledged.filter(|_| lost) {
                tally.lost += 1;
                tally.oldest_lost = tally.oldest_lost.max(alive.saturating_duration_since(at));
            }
        }
        self.base = found.clone();
        self.changes.clear();
        Ok(tally)
    }

    fn explain(&self, found: &BTreeMap<Slot, u64>, all: &BTreeMap<Slot, u64>, least: usize) -> String {
        let differ = found.iter().filter(|(slot, sequence)| all.get(slot) != Some(sequence));
        let differ: Vec<_> = differ.take(5).collect();
        let missing: Vec<_> = all.iter().filter(|(slot, _)| !found.contains_key(slot)).take(5).collect();
        let tail: Vec<_> = self.changes.iter().rev().take(5).collect();
        format!(
            "what is there is no prefix of the {} changes of which {least} must be there; against all of them, these \
             differ: {differ:?}, these are missing: {missing:?}; the last changes: {tail:?}",
            self.changes.len()
        )
    }
}
