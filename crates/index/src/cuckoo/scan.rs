//! Scans: the keys in the order of their ranks.
//!
//! A key's rank follows from its hash alone, and homes are in the order of ranks however large the
//! table is. So a cursor is a rank: it outlives moves and growth, and no key is given twice unless
//! it was removed and put again.

use super::Trouble;
use super::owner::Owner;
use crate::hash::scale;
use crate::key::Found;
use barn_layout::table::CURSOR_END;

impl Owner {
    pub(super) fn scan_from(
        &mut self,
        cursor: u64,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<Option<u64>, Trouble> {
        let (mut keys, mut found, mut end) = (Vec::new(), Found::default(), None);
        for home in scale(cursor, self.table.slots)..self.table.slots {
            keys.clear();
            self.table.at_home(home, &mut keys)?;
            keys.sort_unstable();
            for &(rank, slot) in keys.iter().filter(|(rank, _)| *rank >= cursor) {
                // Keys of one rank are given together: the cursor cannot stand between them.
                if end.is_some_and(|end| rank >= end) {
                    return Ok(end);
                }
                let entry = self.table.entry_at(slot)?;
                let key = self.fetch(&entry, &mut found)?;
                if !each(key, &found) {
                    end = rank.checked_add(1).filter(|end| *end != CURSOR_END);
                }
            }
            if end.is_some() {
                return Ok(end);
            }
        }
        Ok(None)
    }
}
