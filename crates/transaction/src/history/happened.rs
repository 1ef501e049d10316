//! Which transactions of unknown outcome happened: those that somebody saw, each as a whole.
//!
//! Every version that was seen needs exactly one writer. Mostly there is one claimant, and nothing
//! to choose; where there are several, a search tries them, and keeps away from choices that were
//! already shown to lead to a cycle. Because what a transaction read or built upon counts as seen,
//! whether it happened or not, no choice ever needs another.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::record::WriteKind;
use super::tables::{INITIAL, NOBODY, NONE, Need, Tables};
use super::violation::{Violation, Witness};

/// So many claimants are looked at before the search gives up: about a second.
const STEPS_MAX: usize = 10_000_000;

/// Who claims a version, and who needs it.
struct Claim {
    need: Need,
    claimants: Vec<u32>,
}

/// Looks at the final states: what they need, and what they show to be lost.
pub(super) fn see_final_states(tables: &mut Tables<'_>) -> Result<(), Violation> {
    let history = tables.history;
    for (number, object) in history.objects.iter().enumerate() {
        if let Some(Some(version)) = object.last {
            let number = number as u32;
            tables.see_version(number, version, Witness::FinalState)?;
            lost_after(tables, number, tables.locate(number, version) + 1, Some(version))?;
        }
    }
    let needed: HashSet<u32> = tables.needs.iter().map(|need| need.slot).collect();
    for (number, object) in history.objects.iter().enumerate() {
        let place = tables.places[number];
        let was = |&slot: &u32| tables.slots[slot as usize].writer != NOBODY || needed.contains(&slot);
        if object.last != Some(None) {
            continue;
        }
        if let Some(tip) = (place.offset..place.offset + place.len).rev().find(was)
            && !tables.is_freed(tip)
        {
            if !claimed_by_free(tables, tip + 1) {
                lost_after(tables, number as u32, tip, None)?;
            }
            tables.needs.push(Need { slot: tip + 1, witness: Witness::FinalState, freed: true });
        }
    }
    Ok(())
}

fn claimed_by_free(tables: &Tables<'_>, slot: u32) -> bool {
    let history = tables.history;
    let writes = tables.unknown.iter().flat_map(|&t| history.writes_of(t));
    writes
        .into_iter()
        .any(|write| tables.write_slots[write] == slot && history.writes[write].kind == WriteKind::Free)
}

/// Fails if a version from `slot` on was installed for sure, or seen.
fn lost_after(tables: &Tables<'_>, object: u32, slot: u32, found: Option<u64>) -> Result<(), Violation> {
    let place = tables.places[object as usize];
    let lost = (slot..place.offset + place.len).find(|&slot| {
        let needed = || tables.needs.iter().any(|need| need.slot == slot);
        tables.slots[slot as usize].writer != NOBODY || needed()
    });
    let Some(lost) = lost else { return Ok(()) };
    let writer = tables.slots[lost as usize].writer;
    Err(Violation::LostWrite {
        writer: (writer < INITIAL).then(|| tables.history.name(writer)),
        object: tables.history.objects[object as usize].key,
        version: tables.version_of(lost).1,
        found,
    })
}

/// Chooses those of unknown outcome that happened, so that every version needed has its writer and
/// none of `refuted` happened together. Says what is wrong if there is no such choice.
pub(super) fn choose(tables: &Tables<'_>, refuted: &[Vec<u32>]) -> Result<Vec<u32>, Violation> {
    if tables.needs.is_empty() {
        return Ok(Vec::new());
    }
    let mut claims = claims(tables)?;
    // Those without a choice first.
    claims.sort_by_key(|claim| claim.claimants.len());
    let mut search = Search { tables, refuted, taken: HashMap::new(), chosen: HashSet::new() };
    // For each claim decided so far: which claimant is next, and whether the current one was added here.
    let mut stack: Vec<(usize, bool)> = vec![(0, false)];
    let (mut steps, mut deepest) = (0, 0);
    while let Some(depth) = stack.len().checked_sub(1) {
        let Some(claim) = claims.get(depth) else {
            let mut chosen: Vec<u32> = search.chosen.into_iter().collect();
            chosen.sort_unstable();
            return Ok(chosen);
        };
        deepest = deepest.max(depth);
        steps += 1;
        if steps > STEPS_MAX {
            let versions = claims.iter().filter(|claim| claim.claimants.len() > 1).count();
            return Err(Violation::Undecided { versions });
        }
        let (next, added) = stack[depth];
        if added {
            search.remove(claim.claimants[next - 1]);
        }
        if let Some(&owner) = search.taken.get(&claim.need.slot).filter(|_| next == 0) {
            // Decided by another of its writes: no claimant is left to try here afterwards.
            let fits = claim.claimants.contains(&owner);
            stack[depth] = (claim.claimants.len(), false);
            if fits {
                stack.push((0, false));
                continue;
            }
        }
        let (next, _) = stack[depth];
        let found = (next..claim.claimants.len()).find(|&at| search.may_add(claim.claimants[at]));
        match found {
            Some(at) => {
                search.add(claim.claimants[at]);
                stack[depth] = (at + 1, true);
                stack.push((0, false));
            }
            None => {
                stack.pop();
            }
        }
    }
    Err(half_commit(tables, &claims[deepest].need))
}

/// The needed versions with those who may have installed them.
fn claims(tables: &Tables<'_>) -> Result<Vec<Claim>, Violation> {
    let history = tables.history;
    let mut by_slot: BTreeMap<u32, Claim> = BTreeMap::new();
    for &need in &tables.needs {
        by_slot.entry(need.slot).or_insert(Claim { need, claimants: Vec::new() });
    }
    for &t in &tables.unknown {
        let slots = || history.writes_of(t).map(|write| (write, tables.write_slots[write]));
        if slots().all(|(write, slot)| may_install(tables, &by_slot, write, slot))
            && !reads_own_free(tables, t)
        {
            for (_, slot) in slots() {
                if let Some(claim) = by_slot.get_mut(&slot) {
                    claim.claimants.push(t);
                }
            }
        }
    }
    let claims: Vec<Claim> = by_slot.into_values().collect();
    match claims.iter().find(|claim| claim.claimants.is_empty()) {
        Some(claim) => Err(half_commit(tables, &claim.need)),
        None => Ok(claims),
    }
}

/// Whether a write of unknown outcome can have happened, as far as its own slot tells.
fn may_install(tables: &Tables<'_>, needed: &BTreeMap<u32, Claim>, write: usize, slot: u32) -> bool {
    let change = &tables.history.writes[write];
    if slot == NONE {
        // Nobody ever saw the object, and its creators do not agree: nothing to contradict.
        return change.kind == WriteKind::Create && tables.places[change.object as usize].len == 0;
    }
    let need = needed.get(&slot).map(|claim| claim.need);
    let closed = match tables.history.objects[change.object as usize].last {
        Some(Some(version)) => change.after > version,
        // Not there in the end, and nobody saw it: so neither was it freed.
        Some(None) => change.kind == WriteKind::Create && need.is_none(),
        None => false,
    };
    let kind_fits = need.is_none_or(|need| need.freed == (change.kind == WriteKind::Free));
    tables.fits(change, slot) && tables.slots[slot as usize].writer == NOBODY && !closed && kind_fits
}

fn reads_own_free(tables: &Tables<'_>, t: u32) -> bool {
    let history = tables.history;
    let mut frees = history.writes[history.writes_of(t)].iter().filter(|write| write.kind == WriteKind::Free);
    frees.any(|write| {
        let mut reads = history.reads[history.reads_of(t)].iter();
        reads.any(|read| read.object == write.object && read.version == write.after)
    })
}

/// The story of a version that was seen, and whose every claimant contradicts something.
fn half_commit(tables: &Tables<'_>, need: &Need) -> Violation {
    let history = tables.history;
    let key = |slot| {
        let (object, version) = tables.version_of(slot);
        (history.objects[object as usize].key, version)
    };
    let seen = key(need.slot);
    let claimant = tables.unknown.iter().copied().find(|&t| {
        let mut writes = history.writes_of(t);
        writes.any(|write| tables.write_slots[write] == need.slot)
    });
    let Some(t) = claimant else {
        let (object, version) = tables.version_of(need.slot);
        return tables.never_installed(object, version, need.witness);
    };
    let written = |write: usize| &history.writes[write];
    let at_need = history.writes_of(t).find(|&write| tables.write_slots[write] == need.slot);
    if !need.freed && at_need.is_some_and(|write| written(write).kind == WriteKind::Free) {
        let (object, version) = seen;
        return Violation::UseAfterFree { witness: need.witness, object, version, freed_by: history.name(t) };
    }
    let other = |write: &usize| tables.write_slots[*write] != need.slot;
    let taken = |write: &usize| {
        tables.slots.get(tables.write_slots[*write] as usize).is_some_and(|slot| slot.writer < INITIAL)
    };
    let missing = history.writes_of(t).find(|write| other(write) && taken(write));
    let missing = missing.or_else(|| history.writes_of(t).find(other)).or(at_need);
    let slot = missing.map_or(need.slot, |write| tables.write_slots[write]);
    Violation::HalfCommit {
        transaction: history.name(t),
        seen,
        witness: need.witness,
        missing: missing.map_or(seen, |write| {
            (history.objects[written(write).object as usize].key, written(write).after)
        }),
        taken_by: tables
            .slots
            .get(slot as usize)
            .filter(|slot| slot.writer < INITIAL)
            .map(|s| history.name(s.writer)),
    }
}

/// A choice in the making.
struct Search<'t, 'h> {
    tables: &'t Tables<'h>,
    refuted: &'t [Vec<u32>],
    /// Slots of those chosen.
    taken: HashMap<u32, u32>,
    chosen: HashSet<u32>,
}

impl Search<'_, '_> {
    fn slots(&self, t: u32) -> impl Iterator<Item = u32> + '_ {
        let writes = self.tables.history.writes_of(t);
        writes.map(|write| self.tables.write_slots[write]).filter(|&slot| slot != NONE)
    }

    fn may_add(&self, t: u32) -> bool {
        let free = self.slots(t).all(|slot| !self.taken.contains_key(&slot));
        let refuted = |set: &Vec<u32>| {
            set.contains(&t) && set.iter().all(|other| *other == t || self.chosen.contains(other))
        };
        free && !self.refuted.iter().any(refuted)
    }

    fn add(&mut self, t: u32) {
        let slots: Vec<u32> = self.slots(t).collect();
        self.taken.extend(slots.into_iter().map(|slot| (slot, t)));
        self.chosen.insert(t);
    }

    fn remove(&mut self, t: u32) {
        self.taken.retain(|_, owner| *owner != t);
        self.chosen.remove(&t);
    }
}
