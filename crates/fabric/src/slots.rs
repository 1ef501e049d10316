//! The operations of a connection that wait for an answer, by id.
//!
//! A fixed table: no allocation once its buffers have grown to what the answers need. An id
//! names a place in the table and how often the place has been used, so that a late answer to
//! an operation that gave up is recognised and dropped.
//!
//! What always holds: at most [`OUTSTANDING_MAX`] are outstanding; an id is completed at most
//! once; an answer for an id that is not waiting changes nothing.

use barn_layout::limits::OUTSTANDING_MAX;
use barn_layout::planted;
use std::collections::VecDeque;
use std::task::Waker;

/// Names an outstanding operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(pub(crate) u64);

const INDEX_BITS: u32 = 16;
const _: () = assert!(OUTSTANDING_MAX < 1 << INDEX_BITS);

impl Ticket {
    fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

/// What came for an operation.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The status byte.
    pub(crate) status: u8,
    /// The bytes.
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Default)]
struct Slot {
    /// How often this place has been given out.
    uses: u64,
    state: State,
    answer: Answer,
    waker: Option<Waker>,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum State {
    #[default]
    Free,
    Waiting,
    Done,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// Wakers of those that found the table full.
    queue: VecDeque<Waker>,
    /// Places that wait for an answer.
    waiting: usize,
    /// Places whose future was polled by a runtime and sleeps.
    with_waker: usize,
}

/// The longest buffer that a place keeps for the next answer.
const KEPT_BYTES_MAX: usize = 64 << 10;

impl Slots {
    /// A place for a new operation, unless all are taken.
    pub(crate) fn take(&mut self) -> Option<Ticket> {
        let index = match self.free.pop() {
            Some(index) => usize::from(index),
            None if self.slots.len() < OUTSTANDING_MAX => {
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index];
        debug_assert_eq!(slot.state, State::Free);
        slot.uses += 1;
        slot.state = State::Waiting;
        self.waiting += 1;
        Some(Ticket((slot.uses << INDEX_BITS) | index as u64))
    }

    /// Whether there is a place for a new operation.
    #[cfg_attr(not(feature = "verbs"), expect(dead_code, reason = "only verbs asks"))]
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < OUTSTANDING_MAX
    }

    /// Waits for a place.
    pub(crate) fn queue(&mut self, waker: &Waker) {
        if !self.queue.iter().any(|queued| queued.will_wake(waker)) {
            self.queue.push_back(waker.clone());
        }
    }

    fn waiting_slot(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(ticket.index())?;
        let current = slot.uses == ticket.0 >> INDEX_BITS || planted("late_answer_taken");
        (current && slot.state == State::Waiting).then_some(slot)
    }

    /// How many wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many sleep until the reactor brings an answer.
    pub(crate) fn sleeping(&self) -> usize {
        self.with_waker + self.queue.len()
    }

    /// Where to put a piece of an answer that is under way, if somebody waits for it.
    pub(crate) fn partial(&mut self, ticket: Ticket) -> Option<&mut Vec<u8>> {
        self.waiting_slot(ticket).map(|slot| &mut slot.answer.body)
    }

    /// Completes an operation with what [`Self::partial`] has gathered and a status.
    /// False if nobody waits for it.
    pub(crate) fn complete(&mut self, ticket: Ticket, status: u8) -> bool {
        let Some(slot) = self.waiting_slot(ticket) else { return false };
        slot.state = State::Done;
        slot.answer.status = status;
        let waker = slot.waker.take();
        self.waiting -= 1;
        if let Some(waker) = waker {
            self.with_waker -= 1;
            waker.wake();
        }
        true
    }

    /// Whether the answer is there.
    #[inline]
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        let slot = self.slots.get(ticket.index());
        slot.is_some_and(|slot| slot.uses == ticket.0 >> INDEX_BITS && slot.state == State::Done)
    }

    /// Takes the answer, if it is there: the status, and the bytes swapped into `body`.
    pub(crate) fn collect(&mut self, ticket: Ticket, body: &mut Vec<u8>) -> Option<u8> {
        let slot = self.slots.get_mut(ticket.index())?;
        if slot.uses != ticket.0 >> INDEX_BITS || slot.state != State::Done {
            return None;
        }
        let status = slot.answer.status;
        std::mem::swap(body, &mut slot.answer.body);
        self.release(ticket.index());
        Some(status)
    }

    /// Takes the answer, if it is there, by looking at its bytes.
    pub(crate) fn collect_with<T>(&mut self, ticket: Ticket, take: impl FnOnce(&Answer) -> T) -> Option<T> {
        let slot = self.slots.get_mut(ticket.index())?;
        if slot.uses != ticket.0 >> INDEX_BITS || slot.state != State::Done {
            return None;
        }
        let taken = take(&slot.answer);
        self.release(ticket.index());
        Some(taken)
    }

    /// Gives up waiting: a late answer will be dropped.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        let Some(slot) = self.slots.get_mut(ticket.index()) else { return };
        if slot.uses != ticket.0 >> INDEX_BITS || slot.state == State::Free {
            return;
        }
        if slot.state == State::Waiting {
            self.waiting -= 1;
        }
        if slot.waker.take().is_some() {
            self.with_waker -= 1;
        }
        self.release(ticket.index());
    }

    /// Remembers whom to wake when the answer comes.
    pub(crate) fn wake_when_done(&mut self, ticket: Ticket, waker: &Waker) {
        if let Some(slot) = self.waiting_slot(ticket) {
            let had = slot.waker.is_some();
            match &mut slot.waker {
                Some(known) if known.will_wake(waker) => {}
                other => *other = Some(waker.clone()),
            }
            self.with_waker += usize::from(!had);
        }
    }

    /// Wakes everybody: the connection is gone.
    pub(crate) fn wake_all(&mut self) {
        for slot in &mut self.slots {
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
        self.with_waker = 0;
        self.queue.drain(..).for_each(Waker::wake);
    }

    fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.state = State::Free;
        slot.answer.body.clear();
        if slot.answer.body.capacity() > KEPT_BYTES_MAX {
            slot.answer.body = Vec::new();
        }
        self.free.push(index as u16);
        if !self.queue.is_empty() {
            // All of them: one that gave up meanwhile must not swallow another's turn.
            self.queue.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_to_an_abandoned_operation_is_dropped() {
        let mut slots = Slots::default();
        let first = slots.take().unwrap();
        slots.abandon(first);
        let second = slots.take().unwrap();
        assert_eq!(first.index(), second.index(), "the place is used again");
        assert!(!slots.complete(first, 0), "the late answer was taken");
        slots.partial(second).unwrap().extend_from_slice(b"hello");
        assert!(slots.complete(second, 3));
        assert!(!slots.complete(second, 4), "completed twice");
        let mut body = Vec::new();
        assert_eq!(slots.collect(second, &mut body), Some(3));
        assert_eq!(body, b"hello");
        assert_eq!(slots.waiting(), 0);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut slots = Slots::default();
        let taken: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken.len(), OUTSTANDING_MAX);
        slots.abandon(taken[5]);
        assert_eq!(slots.take().map(Ticket::index), Some(5));
    }

    #[test]
    fn forged_ids_change_nothing() {
        let mut slots = Slots::default();
        let real = slots.take().unwrap();
        for id in [0, u64::MAX, real.0 + (1 << INDEX_BITS), real.0 + 1] {
            assert!(!slots.complete(Ticket(id), 0));
            assert!(slots.partial(Ticket(id)).is_none());
            slots.abandon(Ticket(id));
        }
        assert!(slots.complete(real, 0));
    }
}
