//! Lookups of many keys at once in mapped memory: the waits for memory overlap.
//!
//! A load that misses every cache takes about 100 ns. For a group of keys all first entries are asked
//! for, then looked at; what they point to is asked for in turn. Whatever is not plain is left to
//! [`Roots::lookup`].

use super::entry::{ENTRY_BYTES, ENTRY_WORDS, Entry, Seen};
use super::lookup::{Fetched, judge};
use super::roots::Roots;
use super::table::{WAYS, hash_of, places};
use crate::client::memory::{Memory, Unreadable};
use crate::key::{Found, Key, Looked};
use barn_layout::RegionId;
use barn_layout::limits::WORD_BYTES;
use std::sync::atomic::{Ordering, fence};

/// Keys under way together: more than a core's 10 to 16 outstanding misses are of no use.
const GROUP: usize = 32;

/// How far a key has come.
#[derive(Clone, Copy)]
enum Step {
    /// Its first places did not hold it.
    Looking,
    /// This entry may be its.
    Pointed(Entry),
    /// It was nowhere, unless keys have moved.
    Nowhere,
    /// It is known what to say.
    Done(Looked),
}

impl Roots {
    /// Looks many keys up. What comes out as [`Looked::Unsettled`] is for [`Roots::lookup`].
    /// Adds the loads that it made to `reads`.
    pub fn lookup_batch_mapped<M: Memory>(
        &self,
        memory: &M,
        keys: &[Key<'_>],
        found: &mut [Found],
        looked: &mut [Looked],
        reads: &mut u64,
    ) -> Result<(), Unreadable> {
        let groups = keys.chunks(GROUP).zip(found.chunks_mut(GROUP)).zip(looked.chunks_mut(GROUP));
        for ((keys, found), looked) in groups {
            self.group(memory, keys, found, looked, reads)?;
        }
        Ok(())
    }

    fn group<M: Memory>(
        &self,
        memory: &M,
        keys: &[Key<'_>],
        found: &mut [Found],
        looked: &mut [Looked],
        reads: &mut u64,
    ) -> Result<(), Unreadable> {
        let mut steps = [Step::Looking; GROUP];
        let mut slots = [[0; WAYS]; GROUP];
        let mut regions = Regions::default();
        // SYNC: pairs with the store in `lookup`: what that reader saw, this one comes after.
        let before = self.seen.load(Ordering::Acquire);
        for (slots, key) in slots.iter_mut().zip(keys) {
            *slots = places(hash_of(*key), self.slots);
        }
        for way in 0..WAYS {
            for (step, slots) in steps.iter().zip(&slots[..keys.len()]) {
                if let Step::Looking = step {
                    self.prefetch(memory, slots[way]);
                }
            }
            for ((step, slots), key) in steps.iter_mut().zip(&slots).zip(keys) {
                if let Step::Looking = step {
                    *reads += 1;
                    *step = self.step(memory, *key, slots[way], way, &mut regions);
                }
            }
        }
        for ((step, key), found) in steps.iter_mut().zip(keys).zip(found) {
            if let Step::Pointed(entry) = *step {
                *reads += 1;
                *step = Step::Done(self.extent(memory, &entry, *key, found, &mut regions));
            }
        }
        let mut moves = None;
        for (looked, step) in looked.iter_mut().zip(&steps[..keys.len()]) {
            *looked = match step {
                Step::Done(looked) => *looked,
                Step::Nowhere => {
                    let now = *moves.get_or_insert_with(|| {
                        *reads += 1;
                        self.moves_mapped(memory)
                    });
                    if now == Some(before) && before.is_multiple_of(2) {
                        Looked::Absent
                    } else {
                        Looked::Unsettled
                    }
                }
                Step::Looking | Step::Pointed(_) => Looked::Unsettled,
            };
        }
        regions.add(self.chunks.first().map(|chunk| chunk.region()));
        regions.0.iter().try_for_each(|region| memory.believe(*region))
    }

    fn prefetch<M: Memory>(&self, memory: &M, slot: u64) {
        if let Some(at) = self.entry_at(slot)
            && let Some(words) = memory.mapped(at.region())
        {
            words.prefetch(u64::from(at.offset()), ENTRY_BYTES);
        }
    }

    /// Looks at one entry.
    fn step<M: Memory>(
        &self,
        memory: &M,
        key: Key<'_>,
        slot: u64,
        way: usize,
        regions: &mut Regions,
    ) -> Step {
        let mut entry = [0; ENTRY_WORDS];
        let loaded = self.entry_at(slot).and_then(|at| {
            regions.add(Some(at.region()));
            memory.mapped(at.region())?.load_words(u64::from(at.offset()), &mut entry).ok()
        });
        if loaded.is_none() {
            return Step::Done(Looked::Unsettled);
        }
        match self.salt.open(slot, &entry) {
            Seen::Used(entry) if entry.may_be(hash_of(key), key.bytes) => {
                if let Some(words) = memory.mapped(entry.address.region()) {
                    words.prefetch(u64::from(entry.address.offset()), entry.extent_bytes());
                }
                Step::Pointed(entry)
            }
            Seen::Used(_) | Seen::Empty if way + 1 < WAYS => Step::Looking,
            Seen::Used(_) | Seen::Empty => Step::Nowhere,
            Seen::Torn => Step::Done(Looked::Unsettled),
            Seen::Gone => Step::Done(Looked::Stale),
        }
    }

    /// Looks at one extent.
    fn extent<M: Memory>(
        &self,
        memory: &M,
        entry: &Entry,
        key: Key<'_>,
        found: &mut Found,
        regions: &mut Regions,
    ) -> Looked {
        let Some(words) = memory.mapped(entry.address.region()) else { return Looked::Unsettled };
        regions.add(Some(entry.address.region()));
        let into = self.make_room(entry, found);
        // SYNC: pairs with the fence in `Table::write`: whoever has seen the entry sees the extent.
        fence(Ordering::Acquire);
        if words.load(u64::from(entry.address.offset()), into).is_err() {
            return Looked::Unsettled;
        }
        match judge(entry, key, found) {
            Fetched::This => Looked::Found,
            Fetched::Another | Fetched::Torn => Looked::Unsettled,
        }
    }

    fn moves_mapped<M: Memory>(&self, memory: &M) -> Option<u64> {
        let at = self.moves_at()?;
        let mut word = [0; WORD_BYTES];
        // SYNC: pairs with the fence in `Table::begin_moves`: after an entry of a path, its count.
        fence(Ordering::Acquire);
        memory.mapped(at.region())?.load(u64::from(at.offset()), &mut word).ok()?;
        Some(u64::from_le_bytes(word))
    }
}

/// The regions that a group has read, few and mostly the same.
#[derive(Default)]
struct Regions(Vec<RegionId>);

impl Regions {
    #[inline]
    fn add(&mut self, region: Option<RegionId>) {
        if let Some(region) = region
            && !self.0.contains(&region)
        {
            self.0.push(region);
        }
    }
}
