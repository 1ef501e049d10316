//! How room is made for a key (Pilaf section 3.4).
//!
//! The path is found first, breadth first and so the shortest: from the new key's places over the
//! other places of the keys there, to a place that is free. Then it is walked from its end, each key
//! copied to the next place before its own is overwritten. Nobody ever finds a key nowhere, and a
//! path that is not found has changed nothing.

use super::Trouble;
use super::entry::Entry;
use super::table::{Table, WAYS, places};
use barn_layout::planted;

/// The places looked at before the table is called full: with 512, tables end at a load of 0.88.
const LOOKED_AT_MAX: usize = 4096;

/// The places of a search; kept to save the allocation.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// A place, and which of those before has led here.
    nodes: Vec<(u64, u32)>,
    /// The places of the path, the free one first.
    path: Vec<u64>,
}

const ROOT: u32 = u32::MAX;

impl Search {
    /// Finds a path for a key that is not in the table; `false` if there is none.
    pub(super) fn find(&mut self, table: &Table, hash: u64) -> Result<bool, Trouble> {
        self.nodes.clear();
        for place in places(hash, table.slots) {
            self.nodes.push((place, ROOT));
            if table.hash_at(place)? == 0 {
                self.trace();
                return Ok(true);
            }
        }
        let mut at = 0;
        while at < self.nodes.len() && self.nodes.len() + WAYS <= LOOKED_AT_MAX {
            let (from, _) = self.nodes[at];
            for place in places(table.hash_at(from)?, table.slots) {
                if self.leads_through(at, place) {
                    continue;
                }
                self.nodes.push((place, at as u32));
                if table.hash_at(place)? == 0 {
                    self.trace();
                    return Ok(true);
                }
            }
            at += 1;
        }
        Ok(false)
    }

    /// Puts a key where the path that was found begins. Gives how many others have moved.
    pub(super) fn walk(&mut self, table: &mut Table, hash: u64, entry: &Entry) -> Result<u64, Trouble> {
        let moves = self.path.len() as u64 - 1;
        if moves > 0 {
            table.begin_moves()?;
        }
        match planted("cuckoo_moves_from_the_front") {
            false => self.walk_from_end(table, hash, entry)?,
            true => self.walk_from_front(table, hash, entry)?,
        }
        if moves > 0 {
            table.end_moves()?;
        }
        Ok(moves)
    }

    fn walk_from_end(&self, table: &mut Table, hash: u64, entry: &Entry) -> Result<(), Trouble> {
        for step in self.path.windows(2) {
            let [to, from] = [step[0], step[1]];
            let (moved_hash, moved) = (table.hash_at(from)?, table.entry_at(from)?);
            table.forget(from)?;
            table.occupy(to, moved_hash, &moved)?;
            watched(table);
        }
        if let Some(last) = self.path.last() {
            table.occupy(*last, hash, entry)?;
            watched(table);
        }
        Ok(())
    }

    /// What must not be done: a key is nowhere for a while.
    fn walk_from_front(&self, table: &mut Table, hash: u64, entry: &Entry) -> Result<(), Trouble> {
        let (mut hash, mut entry) = (hash, *entry);
        for place in self.path.iter().rev() {
            let (other_hash, other) = (table.hash_at(*place)?, table.entry_at(*place)?);
            if other_hash != 0 {
                table.forget(*place)?;
            }
            table.occupy(*place, hash, &entry)?;
            watched(table);
            (hash, entry) = (other_hash, other);
        }
        Ok(())
    }

    /// Whether the path to node `at` leads over `place`.
    fn leads_through(&self, mut at: usize, place: u64) -> bool {
        loop {
            let (here, before) = self.nodes[at];
            if here == place {
                return true;
            }
            if before == ROOT {
                return false;
            }
            at = before as usize;
        }
    }

    /// Writes down the path to the last node.
    fn trace(&mut self) {
        self.path.clear();
        let mut at = self.nodes.len() as u32 - 1;
        while at != ROOT {
            let (place, before) = self.nodes[at as usize];
            self.path.push(place);
            at = before;
        }
    }
}

#[cfg(test)]
fn watched(table: &mut Table) {
    if let Some(watch) = &mut table.watch.0 {
        watch();
    }
}

#[cfg(not(test))]
fn watched(_: &mut Table) {}
