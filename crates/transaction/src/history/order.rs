//! Looks for an order: takes transactions away that wait for nobody, until none is left.
//!
//! Real time needs no edges. Whoever starts after the earliest end of those still there waits; with
//! the ends sorted, that is one comparison, and with the starts sorted, whoever may go is next.

use super::record::Outcome;
use super::tables::{INITIAL, NOBODY, NONE, Tables};

/// What a transaction waits for that has been taken away.
pub(super) const DONE: u32 = u32::MAX;

/// Transactions whose slots are brought into the cache together.
const AHEAD: usize = 32;

/// The transactions that happened, by their ends; those still there are not [`DONE`].
#[derive(Debug)]
pub(super) struct Order {
    pub(super) by_end: Vec<(u64, u32)>,
}

impl Order {
    /// Whether all could be taken away: then there is an order. `tables.waits` is used up.
    pub(super) fn find(tables: &mut Tables<'_>, happened: &[u32]) -> (Self, bool) {
        let history = tables.history;
        let is_in = |t: u32| history.outcome(t) == Outcome::Committed || happened.binary_search(&t).is_ok();
        let mut by_end = Vec::with_capacity(history.len());
        let mut by_start = Vec::with_capacity(history.len());
        for (t, transaction) in history.transactions.iter().enumerate() {
            if is_in(t as u32) {
                by_end.push((transaction.end, t as u32));
                by_start.push((transaction.start, t as u32));
                // Its time to start.
                tables.waits[t] += 1;
            }
        }
        // Stable: it is quick on what clients recorded in order.
        by_end.sort_by_key(|at| at.0);
        by_start.sort_by_key(|at| at.0);
        let mut queue = Queue { ready: Vec::with_capacity(by_end.len()) };
        for place in &tables.places {
            let first = &tables.slots[place.offset as usize];
            if first.writer == INITIAL && first.pending == 0 {
                queue.release(&mut tables.waits, tables.slots[place.offset as usize + 1].writer);
            }
        }
        let (mut ended, mut started, mut head, mut ahead) = (0, 0, 0, 0);
        loop {
            while ended < by_end.len() && tables.waits[by_end[ended].1 as usize] == DONE {
                ended += 1;
            }
            if started >= ahead {
                ahead = (started + AHEAD).min(by_start.len());
                tables.touch_all(by_start[started..ahead].iter().map(|at| at.1));
            }
            let horizon = by_end.get(ended).map_or(u64::MAX, |at| at.0);
            while started < by_start.len() && by_start[started].0 <= horizon {
                queue.release(&mut tables.waits, by_start[started].1);
                started += 1;
            }
            let Some(&next) = queue.ready.get(head) else { break };
            head += 1;
            queue.take(tables, next);
        }
        let found = head == by_end.len();
        (Self { by_end }, found)
    }
}

/// Those who wait for nobody.
struct Queue {
    ready: Vec<u32>,
}

impl Queue {
    /// One thing less to wait for.
    fn release(&mut self, waits: &mut [u32], t: u32) {
        if t != NOBODY {
            let waits = &mut waits[t as usize];
            *waits -= 1;
            if *waits == 0 {
                self.ready.push(t);
            }
        }
    }

    /// Takes a transaction away; whoever waited for it waits less.
    fn take(&mut self, tables: &mut Tables<'_>, t: u32) {
        tables.waits[t as usize] = DONE;
        for write in tables.history.writes_of(t) {
            let slot = tables.write_slots[write];
            if slot == NONE {
                continue;
            }
            let mut next = tables.first_reader(slot);
            while let Some((reader, after)) = tables.reader(next) {
                self.release(&mut tables.waits, reader);
                next = after;
            }
            self.settle(tables, slot);
        }
        for read in tables.history.reads_of(t) {
            let slot = tables.read_slots[read];
            if slot != NONE {
                self.settle(tables, slot);
            }
        }
    }

    /// One fewer of those that the next version's writer waits for.
    fn settle(&mut self, tables: &mut Tables<'_>, slot: u32) {
        let here = &mut tables.slots[slot as usize];
        here.pending -= 1;
        if here.pending == 0 {
            let next = tables.slots[slot as usize + 1].writer;
            self.release(&mut tables.waits, next);
        }
    }
}
