//! The same verdict by trying everything: every choice of unknown outcomes, every order.

use std::collections::{HashMap, HashSet};

use super::*;

/// A history as plain lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Plain {
    pub(super) initial: Vec<(ObjectKey, u64)>,
    pub(super) last: Vec<(ObjectKey, Option<u64>)>,
    pub(super) records: Vec<Record>,
}

impl Plain {
    pub(super) fn history(&self) -> History {
        let mut history = History::new();
        self.initial.iter().for_each(|&(object, version)| history.initial(object, version));
        self.last.iter().for_each(|&(object, found)| history.final_state(object, found));
        self.records.iter().for_each(|record| history.push(record.clone()));
        history
    }

    /// Whether some choice and some order explain it all.
    pub(super) fn is_explained(&self) -> bool {
        let unknown: Vec<usize> = self.with(Outcome::Unknown);
        (0..1u32 << unknown.len()).any(|choice| {
            let mut happened = self.with(Outcome::Committed);
            happened
                .extend(unknown.iter().enumerate().filter(|(at, _)| choice >> at & 1 == 1).map(|(_, t)| *t));
            let alive: HashMap<ObjectKey, u64> = self.initial.iter().copied().collect();
            self.evidence_holds(&happened)
                && self.some_order(&mut happened, &State { alive, dead: HashSet::new() })
        })
    }

    fn with(&self, outcome: Outcome) -> Vec<usize> {
        (0..self.records.len()).filter(|&t| self.records[t].outcome == outcome).collect()
    }

    /// Whether every version that anybody saw, other than his own, is one that somebody installed.
    fn evidence_holds(&self, happened: &[usize]) -> bool {
        let mut installed: HashSet<(ObjectKey, u64)> = self.initial.iter().copied().collect();
        let writes = happened.iter().flat_map(|&t| &self.records[t].writes);
        installed.extend(writes.filter(|w| w.kind != WriteKind::Free).map(|w| (w.object, w.after)));
        self.records.iter().all(|record| {
            let own = |seen: &(ObjectKey, u64)| record.writes.iter().any(|w| (w.object, w.after) == *seen);
            let based = record.writes.iter().filter(|w| w.kind != WriteKind::Create);
            record.reads.iter().all(|seen| own(seen) || installed.contains(seen))
                && based.into_iter().all(|w| installed.contains(&(w.object, w.before)))
        })
    }

    fn some_order(&self, left: &mut Vec<usize>, state: &State) -> bool {
        if left.is_empty() {
            return self.last.iter().all(|(object, found)| state.alive.get(object).copied() == *found);
        }
        for at in 0..left.len() {
            let t = left[at];
            let first = left.iter().all(|&other| other == t || self.end(other) >= self.records[t].start);
            if first && let Some(after) = state.apply(&self.records[t]) {
                left.swap_remove(at);
                let found = self.some_order(left, &after);
                left.push(t);
                let end = left.len() - 1;
                left.swap(at, end);
                if found {
                    return true;
                }
            }
        }
        false
    }

    fn end(&self, t: usize) -> u64 {
        if self.records[t].outcome == Outcome::Unknown { u64::MAX } else { self.records[t].end }
    }
}

#[derive(Clone, Debug)]
struct State {
    alive: HashMap<ObjectKey, u64>,
    dead: HashSet<ObjectKey>,
}

impl State {
    /// The state after a transaction, if it fits this one.
    fn apply(&self, record: &Record) -> Option<Self> {
        let own = |seen: &(ObjectKey, u64)| {
            record.writes.iter().any(|w| (w.object, w.after) == *seen && w.kind != WriteKind::Free)
        };
        if !record.reads.iter().all(|seen| self.alive.get(&seen.0) == Some(&seen.1) || own(seen)) {
            return None;
        }
        let mut next = self.clone();
        for write in &record.writes {
            let there = self.alive.get(&write.object).copied();
            let fits = match write.kind {
                WriteKind::Create => there.is_none() && !self.dead.contains(&write.object),
                _ => there == Some(write.before),
            };
            if !fits {
                return None;
            }
            if write.kind == WriteKind::Free {
                next.alive.remove(&write.object);
                next.dead.insert(write.object);
            } else {
                next.alive.insert(write.object, write.after);
            }
        }
        Some(next)
    }
}
