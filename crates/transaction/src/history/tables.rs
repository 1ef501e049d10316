//! Who installed and who read each version: a slot for every version that there can be.
//!
//! The versions of an object that happened are consecutive, so its slots are too: they begin with
//! the first version and are as many as there are changes that may have happened, and an empty one
//! after them. A version without a slot cannot have been.
//!
//! What always holds after [`Tables::build`]: every change that was acknowledged has its slot alone,
//! and follows a slot that has a writer, or needs one ([`Tables::needs`]).

use super::record::{Outcome, WriteKind};
use super::store::{Change, History};
use super::violation::{Violation, Witness};

/// The writer of a version that nobody installed.
pub(super) const NOBODY: u32 = u32::MAX;
/// The writer of a version that was there before the history.
pub(super) const INITIAL: u32 = u32::MAX - 1;
/// No slot; the end of a list.
pub(super) const NONE: u32 = u32::MAX;
/// In [`Slot::pending`]: the version has a writer, and it has not been taken away yet.
pub(super) const WRITER: u32 = 1 << 31;
/// In [`Slot::pending`]: the version is that of a freed object, which nobody may read or replace.
const FREED: u32 = 1 << 30;
/// In [`Slot::pending`]: there is a list of those who wait for the writer ([`super::order`]).
pub(super) const WAITED: u32 = 1 << 29;

/// Reads or writes whose slots are brought into the cache together: a quarter of the first cache.
const AHEAD: usize = 128;

/// Where the slots of an object are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    base: u64,
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// A version of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) writer: u32,
    /// How many readers the next version's writer has to wait for; and the marks above. The next
    /// version's writer may go when it is zero.
    pub(super) pending: u32,
}

/// A version that somebody saw and no acknowledged transaction installed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) slot: u32,
    pub(super) witness: Witness,
    /// Whether it must be that of a freed object (true), or must not (false).
    pub(super) freed: bool,
}

/// The history by version.
#[derive(Debug)]
pub(super) struct Tables<'h> {
    pub(super) history: &'h History,
    pub(super) places: Vec<Place>,
    pub(super) slots: Vec<Slot>,
    /// By number of a read: its slot; none if it is of no consequence.
    pub(super) read_slots: Vec<u32>,
    pub(super) write_slots: Vec<u32>,
    pub(super) needs: Vec<Need>,
    /// Transactions of unknown outcome.
    pub(super) unknown: Vec<u32>,
}

impl<'h> Tables<'h> {
    /// Puts every acknowledged write and every read in its slot.
    pub(super) fn build(history: &'h History) -> Result<Self, Violation> {
        let (places, slots) = lay_out(history);
        let mut tables = Self {
            history,
            places,
            slots,
            read_slots: vec![NONE; history.reads.len()],
            write_slots: vec![NONE; history.writes.len()],
            needs: Vec::new(),
            unknown: Vec::new(),
        };
        tables.place_writes()?;
        tables.find_built_upon()?;
        tables.place_reads()?;
        Ok(tables)
    }

    /// The slot of a version, or none.
    pub(super) fn locate(&self, object: u32, version: u64) -> u32 {
        let place = &self.places[object as usize];
        let at = version.wrapping_sub(place.base);
        if at < u64::from(place.len) { place.offset + at as u32 } else { NONE }
    }

    /// Brings slots into the cache, all at once: one after another, each would be waited for.
    pub(super) fn touch(&self, slots: &[u32]) {
        let writer = |&slot: &u32| self.slots.get(slot as usize).map_or(0, |slot| slot.writer);
        std::hint::black_box(slots.iter().map(writer).fold(0, u32::wrapping_add));
    }

    /// The same for all that a transaction read and wrote.
    pub(super) fn touch_all(&self, t: u32) {
        self.touch(&self.read_slots[self.history.reads_of(t)]);
        self.touch(&self.write_slots[self.history.writes_of(t)]);
    }

    pub(super) fn is_freed(&self, slot: u32) -> bool {
        self.slots[slot as usize].pending & FREED != 0
    }

    /// Whether a write can be in its slot at all: creates come first, and nothing else does.
    pub(super) fn fits(&self, change: &Change, slot: u32) -> bool {
        let first = slot == self.places[change.object as usize].offset;
        slot != NONE && first == (change.kind == WriteKind::Create)
    }

    /// A transaction happened: its writes take their slots.
    pub(super) fn install(&mut self, t: u32) {
        for write in self.history.writes_of(t) {
            let (slot, change) = (self.write_slots[write], &self.history.writes[write]);
            if slot == NONE {
                continue;
            }
            let slot = &mut self.slots[slot as usize];
            slot.writer = t;
            slot.pending |= marks(change.kind);
        }
    }

    /// Counts a read of a transaction that happened, if it says anything.
    pub(super) fn link(&mut self, t: u32, read: usize) {
        let slot = self.read_slots[read];
        if slot == NONE {
            return;
        }
        let next_writer = self.slots[slot as usize + 1].writer;
        let slot = &mut self.slots[slot as usize];
        // One's own version; or the one that the same transaction replaces, whose write says it all.
        let own = slot.writer == t || next_writer == t;
        slot.pending += u32::from(!own);
        self.read_slots[read] = if own { NONE } else { self.read_slots[read] };
    }

    fn place_writes(&mut self) -> Result<(), Violation> {
        let history = self.history;
        let (mut write, mut ahead) = (0, 0);
        for (t, transaction) in history.transactions.iter().enumerate() {
            let t = t as u32;
            if transaction.outcome == Outcome::Unknown {
                self.unknown.push(t);
            }
            while write < transaction.writes_end as usize {
                if write == ahead {
                    ahead = (write + AHEAD).min(history.writes.len());
                    for at in write..ahead {
                        let change = &history.writes[at];
                        self.write_slots[at] = self.locate(change.object, change.after);
                    }
                    self.touch(&self.write_slots[write..ahead]);
                }
                let (change, slot) = (&history.writes[write], self.write_slots[write]);
                write += 1;
                if transaction.outcome != Outcome::Committed {
                    continue;
                }
                if !self.fits(change, slot) || self.slots[slot as usize].writer != NOBODY {
                    return Err(self.misplaced(t, change, slot));
                }
                self.slots[slot as usize] = Slot { writer: t, pending: marks(change.kind) };
            }
        }
        Ok(())
    }

    /// Why a write that was acknowledged cannot be.
    fn misplaced(&self, t: u32, change: &Change, slot: u32) -> Violation {
        let object = self.history.objects[change.object as usize].key;
        let by = self.history.name(t);
        if change.kind == WriteKind::Create {
            return Violation::BornTwice { object, by };
        }
        match self.slots.get(slot as usize) {
            Some(taken) if self.fits(change, slot) => {
                let first = self.history.name(taken.writer);
                Violation::LostUpdate { object, version: change.after, first, second: by }
            }
            _ => {
                let (witness, version) = (Witness::BuiltUpon(by), change.after - 1);
                Violation::NeverInstalled { witness, object, version }
            }
        }
    }

    /// Every change needs the version before it; those of acknowledged ones are in their slots.
    fn find_built_upon(&mut self) -> Result<(), Violation> {
        for number in 0..self.places.len() {
            let place = self.places[number];
            for slot in place.offset + 1..place.offset + place.len {
                let writer = self.slots[slot as usize].writer;
                let before = &self.slots[slot as usize - 1];
                if writer != NOBODY && (before.writer == NOBODY || before.pending & FREED != 0) {
                    self.see(slot - 1, Witness::BuiltUpon(self.history.name(writer)))?;
                }
            }
        }
        let history = self.history;
        for t in 0..history.transactions.len() as u32 {
            if history.outcome(t) == Outcome::Committed {
                continue;
            }
            for change in &history.writes[history.writes_of(t)] {
                if change.kind != WriteKind::Create {
                    let witness = Witness::BuiltUpon(history.name(t));
                    self.see_version(change.object, change.after - 1, witness)?;
                }
            }
        }
        Ok(())
    }

    fn place_reads(&mut self) -> Result<(), Violation> {
        let history = self.history;
        let (mut read, mut ahead) = (0, 0);
        for (t, transaction) in history.transactions.iter().enumerate() {
            let t = t as u32;
            let committed = transaction.outcome == Outcome::Committed;
            while read < transaction.reads_end as usize {
                if read == ahead {
                    ahead = (read + AHEAD).min(history.reads.len());
                    for at in read..ahead {
                        let seen = &history.reads[at];
                        self.read_slots[at] = self.locate(seen.object, seen.version);
                    }
                    self.touch(&self.read_slots[read..ahead]);
                }
                let (seen, slot) = (&history.reads[read], self.read_slots[read]);
                let sound =
                    slot != NONE && self.slots[slot as usize].writer != NOBODY && !self.is_freed(slot);
                if !sound && (committed || !self.is_own(t, seen.object, seen.version)) {
                    self.see_version(seen.object, seen.version, Witness::Read(history.name(t)))?;
                }
                if committed {
                    self.link(t, read);
                }
                read += 1;
            }
        }
        Ok(())
    }

    /// Whether a transaction read what it was about to install itself.
    fn is_own(&self, t: u32, object: u32, version: u64) -> bool {
        let writes = &self.history.writes[self.history.writes_of(t)];
        writes.iter().any(|write| write.object == object && write.after == version)
    }

    /// Somebody saw a version.
    pub(super) fn see_version(
        &mut self,
        object: u32,
        version: u64,
        witness: Witness,
    ) -> Result<(), Violation> {
        match self.locate(object, version) {
            NONE => Err(self.never_installed(object, version, witness)),
            slot => self.see(slot, witness),
        }
    }

    /// Somebody saw what is in a slot.
    fn see(&mut self, slot: u32, witness: Witness) -> Result<(), Violation> {
        if self.is_freed(slot) {
            let (object, version) = self.version_of(slot);
            let freed_by = self.history.name(self.slots[slot as usize].writer);
            let object = self.history.objects[object as usize].key;
            return Err(Violation::UseAfterFree { witness, object, version, freed_by });
        }
        if self.slots[slot as usize].writer == NOBODY {
            self.needs.push(Need { slot, witness, freed: false });
        }
        Ok(())
    }

    /// What it means that somebody saw a version that nobody can have installed.
    pub(super) fn never_installed(&self, object: u32, version: u64, witness: Witness) -> Violation {
        let history = self.history;
        let aborted = (0..history.transactions.len() as u32)
            .find(|&t| history.outcome(t) == Outcome::Aborted && self.is_own(t, object, version));
        let object = history.objects[object as usize].key;
        match aborted {
            Some(t) => Violation::AbortedSeen { witness, writer: history.name(t), object, version },
            None => Violation::NeverInstalled { witness, object, version },
        }
    }

    /// The object and the version of a slot.
    pub(super) fn version_of(&self, slot: u32) -> (u32, u64) {
        let object = self.places.partition_point(|place| place.offset <= slot) - 1;
        let place = &self.places[object];
        (object as u32, place.base.wrapping_add(u64::from(slot - place.offset)))
    }
}

/// The marks of a version that was written so.
fn marks(kind: WriteKind) -> u32 {
    if kind == WriteKind::Free { WRITER | FREED } else { WRITER }
}

/// Gives every object its slots.
fn lay_out(history: &History) -> (Vec<Place>, Vec<Slot>) {
    let births = unknown_births(history);
    let empty = Slot { writer: NOBODY, pending: 0 };
    let total: u64 = history.objects.iter().map(|object| u64::from(object.changes) + 2).sum();
    let mut slots = Vec::with_capacity(total as usize);
    let mut places = Vec::with_capacity(history.objects.len());
    for (number, object) in history.objects.iter().enumerate() {
        let offset = slots.len() as u32;
        let unknown = || births.binary_search_by_key(&(number as u32), |birth| birth.0).ok();
        let base = object.initial.or(object.created).or_else(|| unknown().map(|at| births[at].1));
        let len = if base.is_none() { 0 } else { object.changes + u32::from(object.initial.is_some()) };
        places.push(Place { base: base.unwrap_or(0), offset, len });
        slots.resize(slots.len() + len as usize + 1, empty);
        if object.initial.is_some() {
            slots[offset as usize].writer = INITIAL;
        }
    }
    (places, slots)
}

/// The first versions of objects of which only creates of unknown outcome speak: the lowest that
/// was seen; or the only one that there is. Objects of which neither is true stay unborn.
fn unknown_births(history: &History) -> Vec<(u32, u64)> {
    let mut births = Vec::new();
    for t in 0..history.transactions.len() as u32 {
        if history.outcome(t) == Outcome::Unknown {
            let creates = history.writes[history.writes_of(t)].iter();
            let unborn = creates.filter(|change| {
                let object = &history.objects[change.object as usize];
                change.kind == WriteKind::Create && object.initial.or(object.created).is_none()
            });
            births.extend(unborn.map(|change| (change.object, change.after)));
        }
    }
    births.sort_unstable();
    births.dedup();
    if births.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        let built = history.writes.iter().filter(|change| change.kind != WriteKind::Create);
        let seen: std::collections::HashSet<(u32, u64)> = history
            .reads
            .iter()
            .map(|read| (read.object, read.version))
            .chain(built.map(|change| (change.object, change.after - 1)))
            .filter(|seen| births.binary_search(seen).is_ok())
            .collect();
        let several = |at: &(u32, u64)| births.iter().filter(|birth| birth.0 == at.0).count() > 1;
        let kept = births.iter().copied().filter(|birth| !several(birth) || seen.contains(birth));
        births = kept.collect();
        births.dedup_by_key(|birth| birth.0);
    }
    births
}
