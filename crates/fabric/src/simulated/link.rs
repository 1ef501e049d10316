//! The client's end of a simulated connection, behind [`Connection`](crate::Connection).
//!
//! What always holds: it never looks at a real clock ([`Wait`] only says how long); deadlines
//! are events of the world.

use super::connection::{Frame, Side, Waited};
use super::net::{Shared, lock};
use super::operation::Owned;
use crate::error::{CallError, OpenError, OperationError};
use crate::link::{Guarantees, Link, Opened, Place, Wait};
use crate::region::Rights;
use crate::registry::PeerId;
use crate::slots::{Answer, Ticket};
use crate::verb::Verb;
use barn_layout::RegionId;
use barn_layout::frame::Outcome;
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::Status;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// See the module's head.
pub(super) struct SimulatedLink {
    pub(super) shared: Shared,
    pub(super) channel: u64,
    pub(super) peer: OnceLock<PeerId>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unanswered {
    Gone,
    Deadline,
}

impl SimulatedLink {
    /// Posts at the first call, and then looks for the answer.
    pub(super) fn poll_posted(
        &self,
        cx: &Context<'_>,
        wait: &mut Wait,
        frame: impl FnOnce(u64) -> Frame,
    ) -> Poll<Result<Answer, Unanswered>> {
        let mut net = lock(&self.shared);
        let ticket = match wait.ticket {
            Some(ticket) => ticket.0,
            None => {
                let Some(ticket) = net.post(self.channel, nanos(wait.limit), frame) else {
                    return Poll::Ready(Err(Unanswered::Gone));
                };
                wait.ticket = Some(Ticket(ticket));
                ticket
            }
        };
        match net.wait_for(self.channel, ticket, cx.waker()) {
            Waited::Answer(answer) => Poll::Ready(Ok(answer)),
            Waited::Pending => Poll::Pending,
            Waited::Gone => Poll::Ready(Err(Unanswered::Gone)),
            Waited::Expired => Poll::Ready(Err(Unanswered::Deadline)),
        }
    }
}

fn call_error(why: Unanswered) -> CallError {
    match why {
        Unanswered::Gone => CallError::PeerGone,
        Unanswered::Deadline => CallError::Deadline,
    }
}

fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?))
}

impl Link for SimulatedLink {
    fn guarantees(&self) -> Guarantees {
        Guarantees::BY_CPU
    }

    fn transport(&self) -> &'static str {
        "simulated"
    }

    fn peer(&self) -> PeerId {
        self.peer.get().copied().unwrap_or(PeerId(0))
    }

    fn is_open(&self) -> bool {
        lock(&self.shared)
            .channels
            .get(&self.channel)
            .is_some_and(|channel| channel.open[Side::Client as usize])
    }

    fn poll_open(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        region: RegionId,
        rights: Rights,
    ) -> Poll<Result<Opened, OpenError>> {
        let polled = self.poll_posted(cx, wait, |ticket| Frame::Open { ticket, region, rights });
        let Poll::Ready(answer) = polled else { return Poll::Pending };
        Poll::Ready(match answer {
            Err(Unanswered::Gone) => Err(OpenError::PeerGone),
            Err(Unanswered::Deadline) => Err(OpenError::Deadline),
            Ok(Answer { status, body }) => match Outcome::from_bits(status) {
                Some(Outcome::Done) => match (word(&body, 0), word(&body, 8)) {
                    (Some(key), Some(bytes)) => Ok(Opened { bytes, rights, place: Place::Keyed(key) }),
                    _ => Err(OpenError::Protocol),
                },
                refused => Err(OpenError::from_outcome(refused, region, rights)),
            },
        })
    }

    fn close_region(&self, place: &Place) {
        if let Place::Keyed(key) = place
            && self.is_open()
        {
            lock(&self.shared).send(self.channel, Side::Server, Frame::Close { key: *key });
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
        let post = |ticket| Frame::Operate { ticket, key, verb: Owned::of(verb) };
        let Poll::Ready(answer) = self.poll_posted(cx, wait, post) else { return Poll::Pending };
        Poll::Ready(match answer {
            Err(Unanswered::Gone) => Err(OperationError::PeerGone),
            Err(Unanswered::Deadline) => Err(OperationError::Deadline),
            Ok(Answer { status, body }) => match (Outcome::from_bits(status), verb) {
                (Some(Outcome::Done), Verb::Read { into, .. }) if into.len() == body.len() => {
                    into.copy_from_slice(&body);
                    Ok(0)
                }
                (Some(Outcome::Done), Verb::Write { .. }) if body.is_empty() => Ok(0),
                (Some(Outcome::Done), Verb::CompareSwap { .. } | Verb::FetchAdd { .. }) => {
                    word(&body, 0).ok_or(OperationError::Protocol)
                }
                (outcome, verb) => Err(OperationError::from_outcome(outcome, verb, rights)),
            },
        })
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
        let post = |ticket| Frame::Request { ticket, method, body: request.to_vec() };
        let Poll::Ready(answer) = self.poll_posted(cx, wait, post) else { return Poll::Pending };
        Poll::Ready(answer.map_err(call_error).and_then(|Answer { status, body }| {
            CallError::check(Status::from_bits(status), method, &body)?;
            *reply = body;
            Ok(())
        }))
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
        let polled = self.poll_posted(cx, wait, |_| Frame::OneWay { body: message.to_vec() });
        polled.map(|taken| taken.map(|_| ()).map_err(call_error))
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        into: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        let mut net = lock(&self.shared);
        if wait.ticket.is_none() {
            wait.ticket = net.wait_until(self.channel, nanos(wait.limit)).map(Ticket);
        }
        let Some(ticket) = wait.ticket else { return Poll::Ready(Err(CallError::PeerGone)) };
        if let Some(body) = net.receive(self.channel, cx.waker()) {
            net.forget(self.channel, ticket.0);
            *into = body;
            return Poll::Ready(Ok(()));
        }
        let open = net.channels.get(&self.channel).is_some_and(|channel| channel.open[Side::Client as usize]);
        if !open {
            net.forget(self.channel, ticket.0);
            return Poll::Ready(Err(CallError::PeerGone));
        }
        if !net.is_waiting(self.channel, ticket.0) {
            return Poll::Ready(Err(CallError::Deadline));
        }
        Poll::Pending
    }

    fn abandon(&self, ticket: Ticket) {
        lock(&self.shared).forget(self.channel, ticket.0);
    }
}

impl Drop for SimulatedLink {
    /// Says goodbye, unless the process that would say it is dead.
    fn drop(&mut self) {
        let mut net = lock(&self.shared);
        let Some(channel) = net.channels.get_mut(&self.channel) else { return };
        channel.dropped = true;
        let was_open = std::mem::replace(&mut channel.open[Side::Client as usize], false);
        let (client, incarnation) = (channel.client, channel.client_incarnation);
        if was_open && net.node(client).incarnation == incarnation {
            net.send(self.channel, Side::Server, Frame::Goodbye);
        }
        net.reap(self.channel);
    }
}
