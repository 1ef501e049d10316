//! The operations of a verbs connection: each is posted at its first poll, and afterwards looks for
//! its completion or its answer.

use super::client::{Key, State, VerbsClient};
use super::faults;
use super::operations::Own;
use super::waiting::For;
use crate::drive;
use crate::error::{CallError, OpenError, OperationError};
use crate::link::{AtOnce, Guarantees, Link, Opened, Place, Trouble, Wait};
use crate::messaging::mail::header;
use crate::region::Rights;
use crate::registry::PeerId;
use crate::slots::Ticket;
use crate::verb::Verb;
use barn_layout::RegionId;
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::{Kind, Status};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

/// Marks the ticket of a region that is being opened, which is the control stream's.
const OPENING: u64 = 1 << 63;

/// Who answers: the device, into these bytes if it is a READ, or the node by a message.
enum By<'a> {
    Device(Option<&'a mut [u8]>),
    Message,
}

impl VerbsClient {
    /// A place for a new operation; `None` if it has to wait for one.
    fn place(&self, state: &mut State, cx: &Context<'_>, wait: &mut Wait) -> Result<Option<Ticket>, Trouble> {
        for round in 0..2 {
            if state.gone {
                return Err(Trouble::Gone);
            }
            if let Some(ticket) = wait.ticket.or_else(|| state.mail.slots.take()) {
                wait.ticket = Some(ticket);
                return Ok(Some(ticket));
            }
            if round == 0 {
                self.drive_if_due(state, None);
            }
        }
        self.rest(state, cx, wait, For::Place)?;
        Ok(None)
    }

    /// Looks for an answer: `Ready(Ok)` if it can be collected. `fresh`: posted just now, and if
    /// more is about to be posted too, it had better leave together with that.
    fn answer(
        &self,
        state: &mut State,
        cx: &Context<'_>,
        wait: &mut Wait,
        fresh: bool,
        by: By<'_>,
    ) -> Poll<Result<Ticket, Trouble>> {
        let Some(ticket) = wait.ticket else { return Poll::Pending };
        // Nothing was driven since it was tried to post the rest of it.
        // ORDER: Relaxed: changes under the lock that we hold.
        let tried = self.brought.load(Ordering::Relaxed);
        wait.seen = u64::MAX;
        let (alone, is_told) = (drive::alone(), matches!(by, By::Message));
        if fresh && wait.posted && drive::in_place() && !alone && !drive::parking() && !state.gone {
            // The rest of the sweep may post more; the next one drives.
            return Poll::Pending;
        }
        if !fresh || alone || !drive::corked() {
            if !state.mail.slots.is_done(ticket) {
                let placed = &mut wait.placed;
                let own = match by {
                    By::Device(Some(into)) => Some(Own { ticket, into, placed }),
                    By::Device(None) | By::Message => None,
                };
                self.drive_if_due(state, own);
            }
            if state.mail.slots.is_done(ticket) {
                return Poll::Ready(Ok(ticket));
            }
            // ORDER: Relaxed: changes under the lock that we hold.
            wait.seen = self.brought.load(Ordering::Relaxed);
        }
        let what = match wait.posted {
            true if is_told => For::Reply(ticket),
            true => For::Completion(ticket),
            false => For::Room(tried),
        };
        if let Err(trouble) = self.rest(state, cx, wait, what) {
            return Poll::Ready(Err(trouble));
        }
        // The last look before a sleep may have brought it, and nobody would tell again.
        if state.mail.slots.is_done(ticket) { Poll::Ready(Ok(ticket)) } else { Poll::Pending }
    }
}

impl Link for VerbsClient {
    fn guarantees(&self) -> Guarantees {
        Guarantees::BY_DEVICE
    }

    fn transport(&self) -> &'static str {
        "verbs"
    }

    fn peer(&self) -> PeerId {
        self.peer
    }

    fn is_open(&self) -> bool {
        // SYNC: Acquire, pairs with the Release store in `fail`.
        self.open.load(Ordering::Acquire)
    }

    fn poll_open(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        region: RegionId,
        rights: Rights,
    ) -> Poll<Result<Opened, OpenError>> {
        if !self.is_open() {
            return Poll::Ready(Err(OpenError::PeerGone));
        }
        wait.ticket = wait.ticket.map(|ticket| Ticket(ticket.0 & !OPENING));
        let polled = self.control.poll_opened(cx, wait, region, rights);
        let Poll::Ready(opened) = polled else {
            wait.ticket = wait.ticket.map(|ticket| Ticket(ticket.0 | OPENING));
            return Poll::Pending;
        };
        let (opened, memory) = opened?;
        let (Place::Keyed(grant), Some(memory)) = (&opened.place, memory) else {
            return Poll::Ready(Err(OpenError::Protocol));
        };
        let (address, key) = faults::key((memory.address.get(), memory.key.get()));
        let key = Key { address, key, revoked: false };
        self.lock().keys.insert(*grant, key);
        Poll::Ready(Ok(opened))
    }

    fn close_region(&self, place: &Place) {
        if let Place::Keyed(key) = place {
            self.lock().keys.remove(key);
            self.control.close_region(place);
        }
    }

    fn poll_operation(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        key: u64,
        rights: Rights,
        verb: &mut Verb<'_>,
    ) -> Poll<Result<u64, OperationError>> {
        if self.is_in_vain(wait) {
            return Poll::Pending;
        }
        let mut state = self.lock();
        let state = &mut *state;
        let fresh = !wait.posted;
        if fresh {
            let Some(Key { address, key, revoked }) = state.keys.get(&key).copied() else {
                return Poll::Ready(Err(OperationError::BadKey));
            };
            if wait.ticket.is_none() {
                let over = match () {
                    () if state.gone => Some(Err(OperationError::PeerGone)),
                    () if revoked => Some(Err(OperationError::Revoked)),
                    () if verb.bytes() == 0 => Some(Ok(0)),
                    () => None,
                };
                if let Some(over) = over {
                    return Poll::Ready(over);
                }
            }
            let Some(ticket) = self.place(state, cx, wait)? else { return Poll::Pending };
            // Refused while some of it was still to be posted.
            if !state.mail.slots.is_done(ticket) {
                wait.posted = state.operations.enter(ticket, (address, key), verb, &mut wait.sent);
            }
        }
        let by = match verb {
            Verb::Read { into, .. } => By::Device(Some(&mut **into)),
            _ => By::Device(None),
        };
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, by)? else { return Poll::Pending };
        wait.ticket = None;
        let placed = wait.placed;
        let done = state.mail.slots.collect_with(ticket, |answer| verb.answered(answer, rights, placed));
        Poll::Ready(done.unwrap_or(Err(OperationError::Protocol)))
    }

    fn read_at_once(&self, key: u64, offset: u64, into: &mut [u8]) -> AtOnce {
        self.read_alone(key, offset, into)
    }

    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        method: u16,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        if request.len() > MESSAGE_BYTES_MAX {
            return Poll::Ready(Err(CallError::TooLong { bytes: request.len() }));
        }
        if self.is_in_vain(wait) {
            return Poll::Pending;
        }
        let mut state = self.lock();
        let state = &mut *state;
        let fresh = !wait.posted;
        if fresh {
            let Some(ticket) = self.place(state, cx, wait)? else { return Poll::Pending };
            let header = header(Kind::Request, ticket, method, request.len());
            // Slots are used in turn: where the next one's request is still out, the ring takes
            // over, so that one slow answer holds up nobody.
            let in_slot =
                wait.sent == 0 && state.lane.as_mut().is_some_and(|lane| lane.post(ticket, &header, request));
            wait.posted = in_slot || state.mail.post(wait, header, request, self.ring_bytes);
        }
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, By::Message)? else {
            return Poll::Pending;
        };
        wait.ticket = None;
        let status = state.mail.slots.collect(ticket, reply).and_then(Status::from_bits);
        Poll::Ready(CallError::check(status, method, reply))
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        message: &[u8],
    ) -> Poll<Result<(), CallError>> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Poll::Ready(Err(CallError::TooLong { bytes: message.len() }));
        }
        let mut state = self.lock();
        let state = &mut *state;
        if !wait.posted {
            let Some(ticket) = self.place(state, cx, wait)? else { return Poll::Pending };
            let header = header(Kind::OneWay, ticket, 0, message.len());
            wait.posted = state.mail.post(wait, header, message, self.ring_bytes);
            // No answer will come: it is done once all of it has left.
            wait.placed = state.mail.writer.tail().0 as usize;
        }
        // ORDER: Relaxed: changes under the lock that we hold.
        let tried = self.brought.load(Ordering::Relaxed);
        self.drive_if_due(state, None);
        for round in 0..2 {
            if wait.posted && !state.gone && state.channel.pushed() >= wait.placed as u64 {
                wait.ticket.take().into_iter().for_each(|ticket| state.mail.slots.abandon(ticket));
                return Poll::Ready(Ok(()));
            }
            if round == 0 {
                // Its last look before a sleep may have sent the rest.
                self.rest(state, cx, wait, For::Room(tried))?;
            }
        }
        Poll::Pending
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        into: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        let mut state = self.lock();
        let state = &mut *state;
        for round in 0..3 {
            if let Some(message) = state.mail.inbox.pop_front() {
                *into = message;
                // A receiver that is done would have the reactor watch on.
                state.mail.receivers.retain(|known| !known.will_wake(cx.waker()));
                return Poll::Ready(Ok(()));
            }
            match round {
                0 => self.drive_if_due(state, None),
                1 => self.rest(state, cx, wait, For::Message)?,
                _ => {}
            }
        }
        Poll::Pending
    }

    fn abandon(&self, ticket: Ticket) {
        if ticket.0 & OPENING != 0 {
            self.control.abandon(Ticket(ticket.0 & !OPENING));
        } else {
            let mut state = self.lock();
            self.give_up(&mut state, ticket);
        }
    }
}
