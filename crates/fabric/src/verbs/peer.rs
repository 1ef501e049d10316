//! One peer of a node that came over to verbs, from its attachment to its end.
//!
//! What always holds: everything it may reach is in a protection domain of its own, so that a key
//! means something only on its queue pairs; what one call of [`VerbsPeer::serve`] does is bounded;
//! what it wrote is copied before it is looked at, and checked like a stranger's.

use super::channel::Channel;
use super::choose::Path;
use super::datagrams::Datagrams;
use super::sys::{ProtectionDomain, QueuePair, Remote};
use super::window::RequestWindow;
use crate::VerbsError;
use crate::messaging::Corrupt;
use crate::messaging::assembly::Assembly;
use crate::messaging::backlog::Backlog;
use crate::messaging::mail::said;
use crate::messaging::repeated::{Kept, Progress};
use crate::messaging::ring::RingReader;
use crate::registry::PeerId;
use crate::service::{Outbox, Outgoing, Reply, ReplySink, Request, Service};
use barn_layout::message::{Kind, Status};
use std::sync::Arc;

/// Messages that are taken from one peer before the others have their turn.
const MESSAGES_PER_TURN: usize = 64;
/// Answers that wait for room past this stop the peer's requests from being taken.
const BACKLOG_BYTES_HIGH: usize = 1 << 20;

/// An attached peer.
pub(super) struct VerbsPeer {
    pub(super) id: PeerId,
    pub(super) domain: Arc<ProtectionDomain>,
    /// The queue pair of its one-sided operations: nobody here ever looks at it.
    pub(super) operations: QueuePair,
    /// Its own end of that, but for the number and the first packet.
    pub(super) remote: Remote,
    /// The way to it.
    pub(super) path: Path,
    /// Which completion queue its queue pairs complete in.
    pub(super) group: usize,
    pub(super) channel: Channel,
    pub(super) reader: RingReader,
    pub(super) answers: Answers,
    /// Where its requests come in HERD's mode.
    pub(super) window: Option<RequestWindow>,
    assembly: Assembly,
    /// Whether it is on the list of those with something to do.
    pub(super) listed: bool,
    bytes_in: u64,
    /// What is being looked at: private bytes, used again.
    buffer: Vec<u8>,
}

/// The way back to the client.
pub(super) struct Answers {
    ring: Backlog,
    /// Answers to requests that came in slots.
    pub(super) kept: Option<Kept>,
}

/// A peer that cannot stay.
#[derive(Debug)]
pub(super) struct Expelled;

impl From<Corrupt> for Expelled {
    fn from(_: Corrupt) -> Self {
        Self
    }
}

impl From<VerbsError> for Expelled {
    fn from(_: VerbsError) -> Self {
        Self
    }
}

impl ReplySink for Answers {
    fn reply(&mut self, id: u64, status: Status, body: &[u8]) {
        // A request that came in a slot is answered by a datagram, if the answer fits.
        if !self.kept.as_mut().is_some_and(|kept| kept.answer(id, status, body)) {
            self.ring.push(said(Kind::Reply, id, status as u8, body.len()), body);
        }
    }
}

/// What a turn came to.
pub(super) struct Served {
    /// Messages that were taken.
    pub(super) messages: usize,
    /// Whether there is more to do at once, without any completion.
    pub(super) more: bool,
}

impl VerbsPeer {
    pub(super) fn new(
        id: PeerId,
        domain: Arc<ProtectionDomain>,
        operations: QueuePair,
        (remote, path): (Remote, Path),
        group: usize,
        (channel, ring_bytes): (Channel, usize),
        window: Option<(RequestWindow, Kept)>,
    ) -> Self {
        let (writer, reader) = channel.rings();
        let (window, kept) = window.unzip();
        Self {
            id,
            domain,
            operations,
            remote,
            path,
            group,
            channel,
            reader,
            answers: Answers { ring: Backlog::new(writer, ring_bytes), kept },
            window,
            assembly: Assembly::default(),
            listed: false,
            bytes_in: 0,
            buffer: Vec::new(),
        }
    }

    /// Takes what the peer has sent, a turn's worth, and sends what there is for it.
    pub(super) fn serve(
        &mut self,
        service: &mut dyn Service,
        outbox: &Arc<Outbox>,
        backlog_bytes_max: usize,
        thorough: bool,
    ) -> Result<Served, Expelled> {
        self.answers.ring.push_waiting();
        let mut messages = 0;
        if self.answers.ring.bytes() < BACKLOG_BYTES_HIGH {
            messages += self.serve_window(service, outbox, thorough)?;
            messages += self.serve_ring(service, outbox)?;
        }
        if self.answers.ring.bytes() > backlog_bytes_max {
            return Err(Expelled);
        }
        self.channel.replenish()?;
        self.channel.flush(&self.answers.ring.writer, &self.reader)?;
        // What waits for room goes on with the peer's next report, which is a completion.
        let left = self.reader.next().1 != self.channel.announced || messages >= MESSAGES_PER_TURN;
        Ok(Served { messages, more: left && self.answers.ring.bytes() < BACKLOG_BYTES_HIGH })
    }

    /// Whether a request in a slot is to be looked at.
    #[inline]
    pub(super) fn has_request(&self) -> bool {
        match (&self.window, &self.answers.kept) {
            (Some(window), Some(kept)) => window.scan.has_next(kept),
            _ => false,
        }
    }

    fn serve_window(
        &mut self,
        service: &mut dyn Service,
        outbox: &Arc<Outbox>,
        thorough: bool,
    ) -> Result<usize, Expelled> {
        for turn in 0..MESSAGES_PER_TURN {
            self.buffer.clear();
            let (Some(window), Some(kept)) = (&mut self.window, &mut self.answers.kept) else { return Ok(0) };
            let Some(header) = window.scan.take(kept, thorough, &mut self.buffer) else { return Ok(turn) };
            if Kind::from_bits(header.kind) != Some(Kind::Request) {
                return Err(Expelled);
            }
            self.bytes_in += self.buffer.len() as u64;
            let request = Request { peer: self.id, method: header.method.get(), body: &self.buffer };
            service.call(request, Reply::new(&mut self.answers, self.id, header.id.get(), outbox));
        }
        Ok(MESSAGES_PER_TURN)
    }

    /// The client rang about a slot.
    pub(super) fn rung(&mut self, slot: u32) -> Result<(), Expelled> {
        match (&mut self.window, &mut self.answers.kept) {
            (Some(window), Some(kept)) => Ok(window.ring(slot, kept)?),
            _ => Err(Expelled),
        }
    }

    /// Hands the answers that are to leave as datagrams to `send`; one that it has no room for goes
    /// by the ring.
    pub(super) fn send_kept(&mut self, datagrams: &mut Datagrams) {
        let Answers { ring, kept } = &mut self.answers;
        let (Some(window), Some(kept)) = (&self.window, kept) else { return };
        for index in std::mem::take(&mut kept.out) {
            let slot = &mut kept.slots[index];
            let Progress::Answered { status, body } = &slot.progress else { continue };
            let header = said(Kind::Reply, slot.id, *status, body.len());
            if !datagrams.push(&header, body, &window.to, window.datagrams) {
                ring.push(header, body);
                slot.progress = Progress::ByRing;
            }
        }
    }

    fn serve_ring(&mut self, service: &mut dyn Service, outbox: &Arc<Outbox>) -> Result<usize, Expelled> {
        for turn in 0..MESSAGES_PER_TURN {
            if self.reader.next().1 == self.channel.announced {
                return Ok(turn);
            }
            self.buffer.clear();
            // It was announced: if it is not there, the peer does not speak the protocol.
            let header = self.reader.pop(&mut self.buffer)?.ok_or(Expelled)?;
            let id = header.id.get();
            self.bytes_in += self.buffer.len() as u64;
            if Kind::from_bits(header.kind) == Some(Kind::Abandoned) {
                self.assembly.forget(id)?;
                continue;
            }
            let Some(body) = self.assembly.add(&header, &mut self.buffer)? else { continue };
            match Kind::from_bits(header.kind) {
                Some(Kind::Request) => {
                    let request = Request { peer: self.id, method: header.method.get(), body: &body };
                    service.call(request, Reply::new(&mut self.answers, self.id, id, outbox));
                }
                Some(Kind::OneWay) => service.message(self.id, &body),
                Some(Kind::Reply | Kind::Abandoned) | None => return Err(Expelled),
            }
            // The buffer goes back to be used again, unless a long message made it large.
            if body.capacity() <= BACKLOG_BYTES_HIGH {
                self.buffer = body;
            }
        }
        Ok(MESSAGES_PER_TURN)
    }

    /// Sends something that was not said on the poll loop; it leaves with the next `serve`.
    pub(super) fn send(&mut self, outgoing: &Outgoing, number: u64) {
        match outgoing {
            Outgoing::Reply { id, status, body, .. } => self.answers.reply(*id, *status, body),
            Outgoing::Message { body, .. } => {
                self.answers.ring.push(said(Kind::OneWay, number, 0, body.len()), body);
            }
        }
    }

    /// Bytes of messages that came and went since this was last asked.
    pub(super) fn take_bytes(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.bytes_in), std::mem::take(&mut self.answers.ring.bytes_out))
    }
}
