//! A client's one-sided operations on their way: staged, posted, completed, in order.
//!
//! Bytes go through registered staging memory, a circle that is filled in the order of posting and
//! emptied in the order of completion, which on a reliable queue pair are the same. Whatever was
//! asked for since the last flush leaves as one list on one doorbell, and only the last of a list
//! is signalled: its completion tells of all before it (HERD section 3.3).
//!
//! What always holds:
//! - operations are carried out in the order in which they were posted: most by themselves, what
//!   changes bytes after a READ by waiting for it ([`UnderWay`]);
//! - when one is refused, its own error is known, all before it are done, and those behind it were
//!   not carried out: they are posted again on the next queue pair;
//! - an operation longer than a piece is posted piece by piece, and nothing between its pieces.

use super::id::{Role, pack};
use super::sys::{Local, MemoryRegion, QueuePair, Verb as Wire, Work};
use crate::VerbsError;
use crate::slots::{Slots, Ticket};
use crate::verb::Verb;
use barn_layout::frame::Outcome;
use barn_layout::limits::WORD_BYTES;
use std::collections::VecDeque;

/// Requests under way at a time; further ones wait here.
pub(super) const REQUESTS: usize = 128;
/// Bytes that a request may carry in itself, if the device can.
pub(super) const INLINE_BYTES: usize = 256;
/// Bytes of the staging memory: several pieces, so that a long operation keeps the device busy.
pub(super) const STAGING_BYTES: usize = 256 << 10;
/// The longest piece of an operation.
const PIECE_BYTES: usize = 64 << 10;
/// At least one in so many requests is signalled, so that staging is freed while a long list is
/// under way.
const SIGNAL_EVERY: usize = 32;

/// The buffer of the READ that drives the connection: its bytes go there at once.
pub(super) struct Own<'a> {
    pub(super) ticket: Ticket,
    pub(super) into: &'a mut [u8],
    /// How many bytes are there.
    pub(super) placed: &'a mut usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Read,
    Write,
    CompareSwap { expected: u64, new: u64 },
    FetchAdd { add: u64 },
}

/// One request of an operation.
#[derive(Debug)]
struct Piece {
    ticket: Ticket,
    action: Action,
    address: u64,
    key: u32,
    /// Where its bytes are in the staging memory.
    stage: u64,
    bytes: usize,
    /// Where in the circle the next one's begin.
    end: u64,
    /// Whether its operation is done with it.
    last: bool,
    /// It was refused with another under the same key: nothing is left to do but to free it.
    dead: bool,
}

/// What is posted and not completed of those that something must not overtake.
///
/// A device carries requests out in order, but for one case: what changes bytes may come before the
/// bytes of an earlier READ or atomic were taken (the standard's table of orderings). A fence in the
/// request would see to that; it is not used, because software RoCE has been seen to forget a
/// request that waits for one. So such a request is held back here, which takes as long.
#[derive(Debug, Default)]
struct UnderWay {
    reads: usize,
    atomics: usize,
}

impl UnderWay {
    /// Whether a piece may be posted now; if so, it counts as posted.
    fn admits(&mut self, piece: &Piece) -> bool {
        let waits = match piece.action {
            _ if piece.dead => false,
            Action::Read => false,
            Action::Write => self.reads + self.atomics > 0,
            Action::CompareSwap { .. } | Action::FetchAdd { .. } => self.reads > 0,
        };
        if !waits {
            *self.of(piece) += usize::from(!piece.dead && piece.action != Action::Write);
        }
        !waits
    }

    fn ended(&mut self, piece: &Piece) {
        let counted = usize::from(!piece.dead && piece.action != Action::Write);
        let count = self.of(piece);
        *count = count.saturating_sub(counted);
    }

    fn of(&mut self, piece: &Piece) -> &mut usize {
        if piece.action == Action::Read { &mut self.reads } else { &mut self.atomics }
    }
}

/// The operations of a connection.
pub(super) struct Operations {
    pair: QueuePair,
    owner: u32,
    staging: MemoryRegion,
    /// Bytes of the circle that were freed, and that were taken, since the start.
    freed: u64,
    taken: u64,
    /// What is not completed, in order, and the number of the first.
    queue: VecDeque<Piece>,
    first: u32,
    /// How many of them are posted.
    posted: usize,
    under_way: UnderWay,
    /// The operation of which only some pieces are in the queue.
    entering: Option<Ticket>,
    /// The queue pair failed, and the next one is not there yet.
    stopped: bool,
}

/// What a completion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Some operations are done.
    Done,
    /// One was refused, under this key: the queue pair must be renewed.
    Refused(u32),
    /// It was of no concern.
    Nothing,
}

impl Operations {
    pub(super) fn new(pair: QueuePair, staging: MemoryRegion) -> Self {
        Self {
            pair,
            owner: 0,
            staging,
            freed: 0,
            taken: 0,
            queue: VecDeque::new(),
            first: 0,
            posted: 0,
            under_way: UnderWay::default(),
            entering: None,
            stopped: false,
        }
    }

    /// Room for `bytes` in the circle, in one piece: where, and where the next begins.
    fn stage(&self, bytes: usize) -> Option<(u64, u64)> {
        let (size, bytes) = (STAGING_BYTES as u64, (bytes as u64).next_multiple_of(WORD_BYTES as u64));
        let at = self.taken % size;
        let skip = if at + bytes > size { size - at } else { 0 };
        let end = self.taken + skip + bytes;
        (end - self.freed <= size).then_some(((at + skip) % size, end))
    }

    /// Takes as much of an operation into the queue as there is room for, from `*sent` on; true
    /// once all of it is in.
    pub(super) fn enter(
        &mut self,
        ticket: Ticket,
        (address, key): (u64, u32),
        verb: &Verb<'_>,
        sent: &mut usize,
    ) -> bool {
        if self.entering.is_some_and(|entering| entering != ticket) {
            return false;
        }
        let total = verb.bytes();
        self.entering = None;
        if self.queue.is_empty() {
            // From the start again: memory that was used just now is near, to the device as well.
            (self.freed, self.taken) = (0, 0);
        }
        while *sent < total {
            let bytes = (total - *sent).min(PIECE_BYTES);
            let Some((stage, end)) = self.stage(bytes) else {
                // Nobody comes in between its pieces; before the first one nothing is lost.
                self.entering = (*sent > 0).then_some(ticket);
                return false;
            };
            let action = match verb {
                Verb::Read { .. } => Action::Read,
                Verb::Write { from, .. } => {
                    // The circle is ours, and `stage` found the range in it.
                    let _ = self.staging.words().store(stage, &from[*sent..*sent + bytes]);
                    Action::Write
                }
                Verb::CompareSwap { expected, new, .. } => {
                    Action::CompareSwap { expected: *expected, new: *new }
                }
                Verb::FetchAdd { add, .. } => Action::FetchAdd { add: *add },
            };
            let address = address.wrapping_add(verb.offset()).wrapping_add(*sent as u64);
            *sent += bytes;
            let last = *sent == total;
            self.taken = end;
            self.queue.push_back(Piece {
                ticket,
                action,
                address,
                key,
                stage,
                bytes,
                end,
                last,
                dead: false,
            });
        }
        true
    }

    /// The longest READ that can be made by itself.
    pub(super) const ALONE_BYTES_MAX: usize = PIECE_BYTES;

    /// Whether nothing is under way and nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.entering.is_none() && !self.stopped
    }

    /// Posts a READ by itself, with nothing under way; gives what its completion is known by. What came of it
    /// is then taken ([`Self::take_alone`]), or it is left to what is under way ([`Self::leave_alone`]).
    #[inline]
    pub(super) fn post_alone(&mut self, (address, key): (u64, u32), bytes: usize) -> Result<u64, VerbsError> {
        debug_assert!(self.is_idle() && bytes <= Self::ALONE_BYTES_MAX, "nothing beside it");
        let id = pack(Role::Operation, self.owner, self.first);
        let local = Local::of(&self.staging, 0, bytes);
        self.pair.post_one(&Work {
            id,
            verb: Wire::Read,
            local,
            address,
            key,
            signalled: true,
            inline: false,
        })?;
        Ok(id)
    }

    /// Takes the bytes of a READ that was made by itself and is done.
    #[inline]
    pub(super) fn take_alone(&mut self, into: &mut [u8]) {
        self.first = self.first.wrapping_add(1);
        // The circle is ours, and longer.
        let _ = self.staging.words().load(0, into);
    }

    /// A READ that was made by itself is from now on one of those under way.
    pub(super) fn leave_alone(&mut self, ticket: Ticket, (address, key): (u64, u32), bytes: usize) {
        let end = (bytes as u64).next_multiple_of(WORD_BYTES as u64);
        (self.freed, self.taken) = (0, end);
        let piece = Piece {
            ticket,
            action: Action::Read,
            address,
            key,
            stage: 0,
            bytes,
            end,
            last: true,
            dead: false,
        };
        self.under_way.admits(&piece);
        self.queue.push_back(piece);
        self.posted = 1;
    }

    /// An operation was given up: others may come in.
    pub(super) fn abandon(&mut self, ticket: Ticket) {
        if self.entering == Some(ticket) {
            self.entering = None;
        }
    }

    /// Posts what waits, as one list.
    pub(super) fn flush(&mut self) -> Result<(), VerbsError> {
        if self.stopped || self.posted == self.queue.len() || self.posted >= REQUESTS {
            return Ok(());
        }
        let Self { pair, owner, staging, queue, first, posted, under_way, .. } = self;
        let (first, from) = (*first, *posted);
        let until =
            queue.range(from..).zip(from..REQUESTS).take_while(|(piece, _)| under_way.admits(piece)).count();
        let until = from + until;
        let last = queue.range(from..until).rposition(|piece| !piece.dead).map(|at| from + at);
        let list = queue.range(from..until).zip(from..).filter(|(piece, _)| !piece.dead);
        let list = list.map(|(piece, index)| Work {
            id: pack(Role::Operation, *owner, first.wrapping_add(index as u32)),
            verb: match piece.action {
                Action::Read => Wire::Read,
                Action::Write => Wire::Write,
                Action::CompareSwap { expected, new } => Wire::CompareSwap { expected, new },
                Action::FetchAdd { add } => Wire::FetchAdd { add },
            },
            local: Local::of(staging, piece.stage, piece.bytes),
            address: piece.address,
            key: piece.key,
            signalled: Some(index) == last || (index + 1).is_multiple_of(SIGNAL_EVERY),
            inline: piece.action == Action::Write && piece.bytes <= pair.inline_bytes,
        });
        pair.post(list)?;
        *posted = until;
        Ok(())
    }

    /// A request is done, and with it all before it.
    pub(super) fn done(
        &mut self,
        owner: u32,
        number: u32,
        slots: &mut Slots,
        own: &mut Option<Own<'_>>,
    ) -> Progress {
        let count = number.wrapping_sub(self.first).wrapping_add(1) as usize;
        if owner != self.owner || self.stopped || count > self.posted {
            return Progress::Nothing;
        }
        for _ in 0..count {
            self.retire(true, slots, own);
        }
        self.retire_dead(slots);
        Progress::Done
    }

    /// A request was refused: those before it are done, it is not, and the rest waits for the next
    /// queue pair; all under the same key are refused with it.
    pub(super) fn refused(
        &mut self,
        owner: u32,
        number: u32,
        slots: &mut Slots,
        own: &mut Option<Own<'_>>,
    ) -> Progress {
        let before = number.wrapping_sub(self.first) as usize;
        if owner != self.owner || self.stopped || before >= self.posted {
            return Progress::Nothing;
        }
        for _ in 0..before {
            self.retire(true, slots, own);
        }
        self.stopped = true;
        self.posted = 0;
        self.under_way = UnderWay::default();
        let Some(key) = self.queue.front().map(|piece| piece.key) else { return Progress::Nothing };
        for piece in self.queue.iter_mut().filter(|piece| piece.key == key) {
            piece.dead = true;
            slots.complete(piece.ticket, Outcome::Revoked as u8);
        }
        self.retire_dead(slots);
        Progress::Refused(key)
    }

    /// Goes on with a new queue pair.
    pub(super) fn renew(&mut self, pair: QueuePair) {
        self.pair = pair;
        self.owner = self.owner.wrapping_add(1) & super::id::OWNER_MASK;
        self.stopped = false;
    }

    fn retire_dead(&mut self, slots: &mut Slots) {
        while self.queue.front().is_some_and(|piece| piece.dead) {
            self.retire(false, slots, &mut None);
        }
    }

    /// Takes the first piece out of the queue; if it is `done`, with what it brought.
    fn retire(&mut self, done: bool, slots: &mut Slots, own: &mut Option<Own<'_>>) {
        let Some(piece) = self.queue.pop_front() else { return };
        self.first = self.first.wrapping_add(1);
        self.freed = piece.end;
        if self.posted > 0 {
            self.posted -= 1;
            self.under_way.ended(&piece);
        }
        if !done || piece.dead {
            return;
        }
        if piece.action != Action::Write {
            self.bring(&piece, slots, own);
        }
        if piece.last {
            slots.complete(piece.ticket, Outcome::Done as u8);
        }
    }

    /// Gives bytes that came to whoever waits for them.
    fn bring(&self, piece: &Piece, slots: &mut Slots, own: &mut Option<Own<'_>>) {
        let Some(gathered) = slots.partial(piece.ticket) else { return };
        let words = self.staging.words();
        if let Some(own) = own.as_mut().filter(|own| own.ticket == piece.ticket) {
            // What another operation's drive has gathered comes first.
            let start = *own.placed + gathered.len();
            if let Some(place) = own.into.get_mut(*own.placed..start) {
                place.copy_from_slice(gathered);
                gathered.clear();
                if let Some(place) = own.into.get_mut(start..start + piece.bytes) {
                    let _ = words.load(piece.stage, place);
                    *own.placed = start + piece.bytes;
                    return;
                }
            }
        }
        let start = gathered.len();
        gathered.resize(start + piece.bytes, 0);
        let _ = words.load(piece.stage, &mut gathered[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(action: Action) -> Piece {
        let (address, key, stage, bytes, end) = (0, 0, 0, 8, 8);
        Piece { ticket: Ticket(0), action, address, key, stage, bytes, end, last: true, dead: false }
    }

    #[test]
    fn what_changes_bytes_waits_for_reads_before_it_and_nothing_else_waits() {
        let (read, write) = (piece(Action::Read), piece(Action::Write));
        let atomic = piece(Action::FetchAdd { add: 1 });
        let mut under_way = UnderWay::default();
        assert!(under_way.admits(&write) && under_way.admits(&read) && under_way.admits(&read));
        assert!(!under_way.admits(&write) && !under_way.admits(&atomic), "it would overtake a READ");
        under_way.ended(&read);
        assert!(!under_way.admits(&atomic), "one READ is still under way");
        under_way.ended(&read);
        assert!(under_way.admits(&atomic) && under_way.admits(&atomic));
        assert!(!under_way.admits(&write), "it would overtake an atomic");
        assert!(under_way.admits(&read), "a READ behind an atomic is in order by itself");
        for ended in [&atomic, &atomic, &read] {
            under_way.ended(ended);
        }
        assert!(under_way.admits(&write));
    }
}
