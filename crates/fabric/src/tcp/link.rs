//! The operations of a tcp connection: each posts its frame at its first poll, and afterwards
//! looks for the answer.

use super::answer::{ask, opened};
use super::client::{For, OUT_BYTES_MAX, State, TcpClient};
use super::intake::FILL_BYTES;
use super::stream::{DIRECT_BYTES, header};
use crate::drive;
use crate::error::{CallError, OpenError, OperationError};
use crate::link::{Guarantees, Link, Opened, Place, Wait};
use crate::region::Rights;
use crate::registry::PeerId;
use crate::slots::Ticket;
use crate::verb::Verb;
use barn_layout::RegionId;
use barn_layout::frame::{FrameKind, MemoryBody, OpenBody};
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::Status;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use zerocopy::IntoBytes;

impl Link for TcpClient {
    fn guarantees(&self) -> Guarantees {
        Guarantees::BY_CPU
    }

    fn transport(&self) -> &'static str {
        "tcp"
    }

    fn peer(&self) -> PeerId {
        self.peer
    }

    fn is_open(&self) -> bool {
        // An idle connection hears of its peer's end only when somebody looks.
        if let Ok(mut state) = self.state.try_lock()
            && !state.gone
        {
            self.drive(&mut state, None);
        }
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
        self.poll_opened(cx, wait, region, rights).map_ok(|(opened, _)| opened)
    }

    fn close_region(&self, place: &Place) {
        if let Place::Keyed(key) = place {
            let mut state = self.lock();
            if !state.gone {
                state.out.push(&header(FrameKind::Close, 0, 0, *key, 0), [&[], &[]]);
                self.flush(&mut state);
            }
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
        let fresh = wait.ticket.is_none();
        if fresh {
            let bytes = if let Verb::Write { from, .. } = verb { from.len() } else { 0 };
            let Some(ticket) = self.place(state, cx, wait, bytes)? else { return Poll::Pending };
            ask(ticket, key, verb, |header, parts| self.post(state, header, parts));
            if let Verb::Read { into, .. } = verb
                && into.len() >= DIRECT_BYTES
            {
                state.intake.expect(into.len());
            }
        }
        let into = match verb {
            Verb::Read { into, .. } if into.len() >= FILL_BYTES => Some(&mut **into),
            _ => None,
        };
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, into)? else { return Poll::Pending };
        let placed = wait.placed;
        let taken = state.slots.collect_with(ticket, |answer| verb.answered(answer, rights, placed));
        Poll::Ready(taken.unwrap_or(Err(OperationError::Protocol)))
    }

    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        method: u16,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        if self.is_in_vain(wait) {
            return Poll::Pending;
        }
        let mut state = self.lock();
        let state = &mut *state;
        let fresh = wait.ticket.is_none();
        if fresh {
            if request.len() > MESSAGE_BYTES_MAX {
                return Poll::Ready(Err(CallError::TooLong { bytes: request.len() }));
            }
            let Some(ticket) = self.place(state, cx, wait, request.len())? else { return Poll::Pending };
            let header = header(FrameKind::Request, 0, method, ticket.0, request.len());
            self.post(state, &header, [&[], request]);
        }
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, None)? else { return Poll::Pending };
        let status = state.slots.collect(ticket, reply).and_then(Status::from_bits);
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
        if wait.ticket.is_none() {
            if state.out.pending() >= OUT_BYTES_MAX {
                self.drive_if_due(state, None);
            }
            if state.gone || state.out.pending() >= OUT_BYTES_MAX {
                self.rest(state, cx, wait, For::Place)?;
                return Poll::Pending;
            }
            self.post(state, &header(FrameKind::OneWay, 0, 0, 0, message.len()), [&[], message]);
            // No answer will come: the ticket is where in the stream the message ends.
            wait.ticket = Some(Ticket(LEAVING | state.out.end()));
            if !drive::corked() {
                self.flush(state);
            }
        } else {
            self.drive_if_due(state, None);
        }
        let end = wait.ticket.map_or(u64::MAX, |ticket| ticket.0 & !LEAVING);
        let left = |state: &State| end <= state.out.taken() && !state.gone;
        if left(state) {
            return Poll::Ready(Ok(()));
        }
        self.rest(state, cx, wait, For::Leaving)?;
        // Whoever is about to sleep has just sent what was left: nothing else would wake it.
        if left(state) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        into: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        let mut state = self.lock();
        let state = &mut *state;
        for round in 0..2 {
            if let Some(message) = state.intake.message() {
                *into = message;
                return Poll::Ready(Ok(()));
            }
            if round == 0 {
                self.drive_if_due(state, None);
            }
        }
        self.rest(state, cx, wait, For::Message)?;
        Poll::Pending
    }

    fn abandon(&self, ticket: Ticket) {
        // A message that is under way leaves whole, whether anybody waits for that or not.
        if ticket.0 & LEAVING == 0 {
            self.lock().slots.abandon(ticket);
        }
    }
}

impl TcpClient {
    /// Asks for a region; gives also where its memory is, if the node's device has it.
    pub(crate) fn poll_opened(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        region: RegionId,
        rights: Rights,
    ) -> Poll<Result<(Opened, Option<MemoryBody>), OpenError>> {
        let mut state = self.lock();
        let state = &mut *state;
        let fresh = wait.ticket.is_none();
        if fresh {
            let Some(ticket) = self.place(state, cx, wait, 0)? else { return Poll::Pending };
            let body = OpenBody { region: region.0.into(), rights: rights.to_bits().into() };
            let header = header(FrameKind::Open, 0, 0, ticket.0, OpenBody::BYTES);
            self.post(state, &header, [body.as_bytes(), &[]]);
        }
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, None)? else { return Poll::Pending };
        let taken = state.slots.collect_with(ticket, |answer| opened(answer, region, rights));
        Poll::Ready(taken.unwrap_or(Err(OpenError::Protocol)))
    }
}

/// Marks the ticket of a message, which is a place in the stream and none in the table.
const LEAVING: u64 = 1 << 63;
