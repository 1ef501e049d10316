//! What a client was told, and whether what is there agrees with it.

use crate::node::End;
use std::collections::{BTreeMap, BTreeSet};
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
    kills: u64,
    changes: u64,
    synced: u64,
    logged: u64,
    unknown: u64,
    lost: u64,
    oldest_lost: Duration,
}

impl Tally {
    /// That of one kill, with nothing compared yet.
    pub(crate) fn of_kill() -> Self {
        Self { kills: 1, ..Self::default() }
    }

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
    /// Whether what is there (`found`) can be: the base, then the client's changes up to some point, and then
    /// those that ended after the restart, of which a client makes some before it is told to pause. What was
    /// acknowledged as synced must be there, and what is lost of the rest was acknowledged within a window.
    pub(crate) fn judge(
        &mut self,
        found: &BTreeMap<Slot, u64>,
        end: End,
        window: Duration,
    ) -> Result<Tally, String> {
        let End { alive, dead, again } = end;
        let (before, after) =
            self.changes.split_at(self.changes.partition_point(|change| change.ended <= dead));
        let must = |change: &Change| change.synced && change.acknowledged.is_some();
        let first = |changes: &[Change]| changes.iter().rposition(must).map_or(0, |at| at + 1);
        let least = first(before);
        // What the next life acknowledged is there, unless that was killed as well. What nobody knows of is the
        // last, for its client writes no more.
        let known = after.iter().filter(|change| change.acknowledged.is_some()).count();
        let least_after = if again { first(after) } else { known };
        let mut state = self.base.clone();
        before[..least].iter().for_each(|change| apply(&mut state, change));
        let mut kept = None;
        for count in least..=before.len() {
            if count > least {
                apply(&mut state, &before[count - 1]);
            }
            let mut state = state.clone();
            for made in 0..=after.len() {
                if made > 0 {
                    apply(&mut state, &after[made - 1]);
                }
                if made >= least_after && state == *found {
                    kept = Some(count);
                }
            }
        }
        let Some(kept) = kept else { return Err(self.explain(found, dead, least)) };
        let told = |change: &Change| change.acknowledged.filter(|at| *at <= dead);
        let mut lost = self.changes[kept..].iter().filter_map(told);
        if let Some(first) = lost.next() {
            let span = lost.next_back().unwrap_or(first).saturating_duration_since(first);
            // As much again: on a loaded machine a client hears late of what was answered in time.
            if span > window * 2 {
                return Err(format!(
                    "what was acknowledged during {span:?} is lost: {}",
                    self.explain(found, dead, kept)
                ));
            }
        }
        let mut tally = Tally { changes: self.changes.len() as u64, ..Tally::default() };
        for (at, change) in self.changes.iter().enumerate() {
            match change.acknowledged {
                None => tally.unknown += 1,
                Some(_) if change.synced => tally.synced += 1,
                Some(_) => tally.logged += 1,
            }
            let lost = at >= kept && change.acknowledged.is_some_and(|at| at <= dead);
            if let Some(at) = change.acknowledged.filter(|_| lost) {
                tally.lost += 1;
                tally.oldest_lost = tally.oldest_lost.max(alive.saturating_duration_since(at));
            }
        }
        self.base = found.clone();
        self.changes.clear();
        Ok(tally)
    }

    /// What stands in the way: the prefix that comes nearest, and what it lacks.
    fn explain(&self, found: &BTreeMap<Slot, u64>, dead: Instant, least: usize) -> String {
        let mut state = self.base.clone();
        let differences = |state: &BTreeMap<Slot, u64>| {
            let differ = found.iter().filter(|(slot, sequence)| state.get(slot) != Some(sequence)).count();
            differ + state.keys().filter(|slot| !found.contains_key(slot)).count()
        };
        let mut nearest = (differences(&state), 0, state.clone());
        for (at, change) in self.changes.iter().enumerate() {
            apply(&mut state, change);
            if differences(&state) < nearest.0 {
                nearest = (differences(&state), at + 1, state.clone());
            }
        }
        let (_, kept, state) = nearest;
        let slots: BTreeSet<&Slot> = found.keys().chain(state.keys()).collect();
        let differ: Vec<_> = slots
            .into_iter()
            .map(|slot| (slot, state.get(slot), found.get(slot)))
            .filter(|(_, wanted, there)| wanted != there)
            .collect();
        let ago = |change: &Change| {
            let ago = change.acknowledged.map(|at| dead.saturating_duration_since(at));
            let how = if change.synced { "synced" } else { "logged" };
            format!("{} {how} {ago:?} {:?}", change.sequence, change.slots)
        };
        let around: Vec<_> = self.changes.iter().map(ago).collect();
        format!(
            "of {} changes the first {least} must be there; what is there is nearest to the first {kept}, with other \
             slots (what they would hold, what they do): {differ:?}; {:?}",
            self.changes.len(),
            &around[kept.min(least).saturating_sub(2)..]
        )
    }
}
