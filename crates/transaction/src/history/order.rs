//! Looks for an order: takes transactions away that wait for nobody, until none is left.
//!
//! Real time needs no edges. Whoever starts after the earliest end of those still there waits; with
//! the ends sorted, that is one comparison, and with the starts sorted, whoever may go is next.
//! Only then is it looked at what else a transaction waits for: mostly that was long ago, and no
//! list of readers is ever built.
//!
//! A transaction waits for the writer of each version it read, and for the writer and the readers of
//! each version it replaced.

use std::collections::HashMap;

use super::record::{Outcome, WriteKind};
use super::tables::{INITIAL, NONE, Tables, WAITED, WRITER};

/// Has been taken away, or did not happen.
pub(super) const DONE: u32 = u32::MAX;
/// Waits for its time; what else it waits for has not been looked at.
const EARLY: u32 = u32::MAX - 1;
/// Transactions whose slots are brought into the cache together.
const AHEAD: usize = 32;

/// A list of those who wait for the writer of a version.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    transaction: u32,
    next: u32,
}

/// The order in the making.
#[derive(Debug)]
pub(super) struct Order {
    /// The transactions that happened, by their ends.
    pub(super) by_end: Vec<(u64, u32)>,
    by_start: Vec<(u64, u32)>,
    /// By transaction: how many things it waits for; or [`EARLY`], or [`DONE`].
    pub(super) waits: Vec<u32>,
    waiters: Vec<Waiter>,
    /// By slot: where the list begins of those who wait for its writer. Few do.
    waiting: HashMap<u32, u32>,
    /// Those who wait for nobody any more.
    ready: Vec<u32>,
}

impl Order {
    /// Gathers the transactions that happened: those acknowledged, and `happened`.
    pub(super) fn new(tables: &Tables<'_>, happened: &[u32]) -> Self {
        let history = tables.history;
        let mut by_end = Vec::with_capacity(history.len());
        let mut by_start = Vec::with_capacity(history.len());
        let mut waits = vec![DONE; history.len()];
        for (t, transaction) in history.transactions.iter().enumerate() {
            if transaction.outcome == Outcome::Committed || happened.binary_search(&(t as u32)).is_ok() {
                by_end.push((transaction.end, t as u32));
                by_start.push((transaction.start, t as u32));
                waits[t] = EARLY;
            }
        }
        // Stable: it is quick on what clients recorded in order.
        by_end.sort_by_key(|at| at.0);
        by_start.sort_by_key(|at| at.0);
        let ready = Vec::with_capacity(by_end.len());
        Self { by_end, by_start, waits, waiters: Vec::new(), waiting: HashMap::new(), ready }
    }

    /// Takes away whom it can; whether that was everybody. `tables.slots` are used up.
    pub(super) fn find(&mut self, tables: &mut Tables<'_>) -> bool {
        let (mut ended, mut started, mut head, mut ahead) = (0, 0, 0, 0);
        loop {
            while ended < self.by_end.len() && self.waits[self.by_end[ended].1 as usize] == DONE {
                ended += 1;
            }
            let horizon = self.by_end.get(ended).map_or(u64::MAX, |at| at.0);
            while started < self.by_start.len() && self.by_start[started].0 <= horizon {
                if started == ahead {
                    ahead = (started + AHEAD).min(self.by_start.len());
                    self.by_start[started..ahead].iter().for_each(|at| tables.touch_all(at.1));
                }
                self.start(tables, self.by_start[started].1);
                started += 1;
            }
            let Some(&next) = self.ready.get(head) else { break };
            head += 1;
            self.take(tables, next);
        }
        head == self.by_end.len()
    }

    /// Its time has come: counts what else it waits for.
    fn start(&mut self, tables: &mut Tables<'_>, t: u32) {
        let mut waits = 0;
        for read in tables.history.reads_of(t) {
            let number = tables.read_slots[read];
            let Some(slot) = tables.slots.get_mut(number as usize) else { continue };
            if slot.pending & WRITER != 0 {
                slot.pending |= WAITED;
                let first = self.waiting.entry(number).or_insert(NONE);
                self.waiters.push(Waiter { transaction: t, next: *first });
                *first = self.waiters.len() as u32 - 1;
                waits += 1;
            }
        }
        for write in tables.history.writes_of(t) {
            let (slot, kind) = (tables.write_slots[write], tables.history.writes[write].kind);
            if slot != NONE && kind != WriteKind::Create && tables.slots[slot as usize - 1].pending != 0 {
                waits += 1;
            }
        }
        self.waits[t as usize] = waits;
        if waits == 0 {
            self.ready.push(t);
        }
    }

    /// Takes a transaction away; whoever waited for it waits less.
    fn take(&mut self, tables: &mut Tables<'_>, t: u32) {
        self.waits[t as usize] = DONE;
        for write in tables.history.writes_of(t) {
            let slot = tables.write_slots[write];
            if slot != NONE {
                let waited = tables.slots[slot as usize].pending & WAITED;
                if waited != 0 {
                    self.release_waiters(slot);
                }
                self.settle(tables, slot, WRITER | waited);
            }
        }
        for read in tables.history.reads_of(t) {
            let slot = tables.read_slots[read];
            if slot != NONE {
                self.settle(tables, slot, 1);
            }
        }
    }

    /// The writer of a version is gone: those who waited for it wait less.
    fn release_waiters(&mut self, slot: u32) {
        let mut next = self.waiting.remove(&slot).unwrap_or(NONE);
        while let Some(&waiter) = self.waiters.get(next as usize) {
            self.release(waiter.transaction);
            next = waiter.next;
        }
    }

    /// One fewer of those that the next version's writer waits for.
    fn settle(&mut self, tables: &mut Tables<'_>, slot: u32, pending: u32) {
        let here = &mut tables.slots[slot as usize];
        here.pending -= pending;
        if here.pending == 0 {
            let next = tables.slots[slot as usize + 1].writer;
            if next < INITIAL && self.waits[next as usize] < EARLY {
                self.release(next);
            }
        }
    }

    /// One thing less to wait for.
    fn release(&mut self, t: u32) {
        let waits = &mut self.waits[t as usize];
        *waits -= 1;
        if *waits == 0 {
            self.ready.push(t);
        }
    }
}
