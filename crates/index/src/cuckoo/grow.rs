//! Growth: another array of twice the size, and the old one given back.
//!
//! The new one is whole before anybody hears of it; until then the old one is true, for nothing else
//! happens on the poll loop. Giving the old one back zeroes it, which readers take for what it means.
//! Extents stay where they are.

use super::Trouble;
use super::entry::Entry;
use super::owner::Owner;
use super::reopen::Delta;
use super::table::{CHUNK_SLOTS, Table};
use barn_heap::Heap;

/// Fuller than nine in ten, paths become long: 3-way cuckoo tables end at 0.917.
const LOAD_MAX_PERCENT: u64 = 90;
/// How often a new array is made twice as long because not all keys found a place in it: at half
/// the load, once in ages.
const TRIES_MAX: u32 = 3;

/// After growth to several chunks was refused, so many more are refused at once.
const SPARED: u32 = 64;

impl Owner {
    /// Puts a new key into the table, which grows if it must.
    pub(super) fn place(&mut self, heap: &mut Heap, hash: u64, entry: &Entry) -> Result<(), Trouble> {
        let mut refused = None;
        if (self.stats.keys + 1) * 100 > self.table.slots * LOAD_MAX_PERCENT {
            // Without memory for another array there may still be a place in this one.
            refused = self.try_to_grow(heap).err();
        }
        while !self.search.find(&self.table, hash)? {
            match refused {
                Some(trouble) => return Err(trouble),
                None => self.try_to_grow(heap)?,
            }
        }
        self.stats.moves += self.search.walk(&mut self.table, hash, entry)?;
        Ok(())
    }

    /// Grows, unless that was just refused: memory taken in vain is zeroed before it is given back.
    fn try_to_grow(&mut self, heap: &mut Heap) -> Result<(), Trouble> {
        if let Some((why, left)) = &mut self.refused
            && *left > 0
        {
            *left -= 1;
            return Err(Trouble::Full(why.clone()));
        }
        let grown = self.grow_table(heap);
        self.refused = match &grown {
            Err(Trouble::Full(why)) if self.table.slots * 2 > CHUNK_SLOTS && !heap.has_waiting() => {
                Some((why.clone(), SPARED))
            }
            _ => None,
        };
        grown
    }

    /// Replaces the array by one of twice the size.
    fn grow_table(&mut self, heap: &mut Heap) -> Result<(), Trouble> {
        let generation = self.table.generation + 1;
        for doubled in 1..=TRIES_MAX {
            let slots = self.table.slots << doubled;
            let of = (self.seed, self.part);
            let mut new = Table::new(heap, of, self.purpose, generation, slots)?;
            match self.copy(&mut new) {
                Ok(true) => {
                    new.record_all(heap);
                    new.collect(self.records(heap));
                    self.deltas.add(heap, || Delta::of_table(&new).to_bytes());
                    let mut old = std::mem::replace(&mut self.table, new);
                    old.clear(heap);
                    self.stats.grown += 1;
                    return Ok(());
                }
                Ok(false) => new.clear(heap),
                Err(trouble) => {
                    new.clear(heap);
                    return Err(trouble);
                }
            }
        }
        Err(Trouble::Full("the keys find no place even in a larger table".into()))
    }

    /// Puts all keys into `new`; `false` if one finds no place.
    fn copy(&mut self, new: &mut Table) -> Result<bool, Trouble> {
        new.set_versions_max(self.table.versions_max())?;
        // In ascending order: most keys are at home, and homes keep their order.
        for slot in 0..self.table.slots {
            let hash = self.table.hash_at(slot)?;
            if hash == 0 {
                continue;
            }
            if !self.search.find(new, hash)? {
                return Ok(false);
            }
            self.search.walk(new, hash, &self.table.entry_at(slot)?)?;
        }
        Ok(true)
    }
}
