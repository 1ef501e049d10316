//! Tells why there is no order: a short cycle among the transactions that could not be taken away.
//!
//! Whoever is left waits for somebody who is left. Walking from one to another finds a cycle; a
//! search from its members finds the shortest one through any of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::order::{DONE, Order};
use super::tables::{INITIAL, NONE, Tables};
use super::violation::{Cycle, Edge, EdgeKind, Violation, Witness};

/// The searches for a shorter cycle may look at so many transactions altogether: about a second.
const LOOKS_MAX: usize = 10_000_000;

/// Why one transaction waits for another: the kind, and the slot.
type Reason = (EdgeKind, u32);

/// A cycle: each transaction with why the next waits for it.
pub(super) type Steps = Vec<(u32, Reason)>;

/// What is left when no more could be taken away.
pub(super) struct Left<'t, 'h> {
    tables: &'t Tables<'h>,
    order: &'t Order,
    /// By slot: those left who read it.
    readers: HashMap<u32, Vec<u32>>,
}

impl<'t, 'h> Left<'t, 'h> {
    /// Looks at what is left.
    pub(super) fn new(tables: &'t Tables<'h>, order: &'t Order) -> Self {
        let mut left = Self { tables, order, readers: HashMap::new() };
        for &(_, t) in order.by_end.iter().filter(|end| order.waits[end.1 as usize] != DONE) {
            for &slot in &tables.read_slots[tables.history.reads_of(t)] {
                left.readers.entry(slot).or_default().push(t);
            }
        }
        left
    }

    /// A short cycle; empty if there is none.
    pub(super) fn shortest(&self) -> Steps {
        let mut best = Steps::new();
        let mut looks = 0;
        for member in self.any() {
            let cycle = self.through(member, &mut looks);
            if !cycle.is_empty() && (best.is_empty() || cycle.len() < best.len()) {
                best = cycle;
            }
            if best.len() == 2 || !best.is_empty() && looks > LOOKS_MAX {
                break;
            }
        }
        best
    }

    /// Walks from one to whom it waits for, until it has been there.
    fn any(&self) -> Vec<u32> {
        let Some(mut at) = self.order.by_end.iter().map(|end| end.1).find(|&t| self.is_left(t)) else {
            return Vec::new();
        };
        let mut visited: HashMap<u32, usize> = HashMap::new();
        let mut path = Vec::new();
        loop {
            if let Some(&first) = visited.get(&at) {
                return path.split_off(first);
            }
            visited.insert(at, path.len());
            path.push(at);
            let mut before = None;
            self.each_before(at, |t, _| before = before.or(Some(t)));
            let earliest = || self.order.by_end.iter().copied().find(|end| self.is_left(end.1));
            let Some(t) = before.or_else(|| earliest().map(|end| end.1)) else { return Vec::new() };
            at = t;
        }
    }

    /// The shortest cycle through one transaction: a search backwards, nearest first.
    fn through(&self, target: u32, looks: &mut usize) -> Steps {
        let mut after: HashMap<u32, (u32, Reason)> = HashMap::new();
        let mut queue = vec![target];
        let (mut head, mut ended) = (0, 0);
        while let Some(&at) = queue.get(head) {
            head += 1;
            let mut meet = |t: u32, reason: Reason| {
                *looks += 1;
                if let Entry::Vacant(place) = after.entry(t) {
                    place.insert((at, reason));
                    queue.push(t);
                }
            };
            self.each_before(at, &mut meet);
            // All who ended before this one started; those before the last one's start have been met.
            let start = self.tables.history.transactions[at as usize].start;
            while let Some(&(_, t)) = self.order.by_end.get(ended).filter(|end| end.0 < start) {
                ended += 1;
                if self.is_left(t) {
                    meet(t, (EdgeKind::RealTime, NONE));
                }
            }
            if after.contains_key(&target) {
                let mut cycle = Steps::new();
                let mut t = target;
                while cycle.is_empty() || t != target {
                    let (next, reason) = after[&t];
                    cycle.push((t, reason));
                    t = next;
                }
                return cycle;
            }
        }
        Steps::new()
    }

    /// Everybody left that a transaction waits for, except by time.
    fn each_before(&self, t: u32, mut meet: impl FnMut(u32, Reason)) {
        let tables = self.tables;
        let mut tell = |other: u32, kind, slot| {
            if other != t && other < INITIAL && self.is_left(other) {
                meet(other, (kind, slot));
            }
        };
        for read in tables.history.reads_of(t) {
            let slot = tables.read_slots[read];
            if slot != NONE {
                tell(tables.slots[slot as usize].writer, EdgeKind::WriteRead, slot);
            }
        }
        for write in tables.history.writes_of(t) {
            let slot = tables.write_slots[write];
            if slot == NONE || tables.places[tables.history.writes[write].object as usize].offset == slot {
                continue;
            }
            let before = slot - 1;
            tell(tables.slots[before as usize].writer, EdgeKind::WriteWrite, before);
            for reader in self.readers_of(before) {
                tell(reader, EdgeKind::ReadWrite, before);
            }
        }
    }

    fn readers_of(&self, slot: u32) -> impl Iterator<Item = u32> {
        self.readers.get(&slot).into_iter().flatten().copied()
    }

    fn is_left(&self, t: u32) -> bool {
        self.order.waits[t as usize] != DONE
    }

    /// Whether somebody used an object who started after it had been freed.
    pub(super) fn use_after_free(&self) -> Option<Violation> {
        let (tables, history) = (self.tables, self.tables.history);
        for (number, place) in tables.places.iter().enumerate() {
            let mut slots = place.offset..place.offset + place.len;
            let Some(free) = slots.find(|&slot| tables.is_freed(slot)) else { continue };
            let freed_by = tables.slots[free as usize].writer;
            let end = history.transactions[freed_by as usize].end;
            let late = |t: &u32| history.transactions[*t as usize].start > end;
            for slot in place.offset..free {
                let witness =
                    self.readers_of(slot).find(late).map(|t| Witness::Read(history.name(t))).or_else(|| {
                        let writer = tables.slots[slot as usize + 1].writer;
                        (writer < INITIAL && late(&writer)).then(|| Witness::BuiltUpon(history.name(writer)))
                    });
                if let Some(witness) = witness {
                    let object = history.objects[number].key;
                    let (version, freed_by) = (tables.version_of(slot).1, history.name(freed_by));
                    return Some(Violation::UseAfterFree { witness, object, version, freed_by });
                }
            }
        }
        None
    }

    /// The cycle as a story.
    pub(super) fn tell(&self, steps: &Steps) -> Cycle {
        let history = self.tables.history;
        let edge = |&(t, (kind, slot)): &(u32, Reason)| Edge {
            transaction: history.name(t),
            kind,
            object: (slot != NONE).then(|| {
                let (object, version) = self.tables.version_of(slot);
                (history.objects[object as usize].key, version)
            }),
        };
        Cycle { edges: steps.iter().map(edge).collect() }
    }
}
