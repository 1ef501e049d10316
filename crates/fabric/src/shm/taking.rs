//! How a node takes messages out of shared memory: several at once, so that what the later ones need
//! is on its way into the cache while the first are served (HERD section 4.1.1: its pipeline of requests).
//!
//! What always holds: messages are served in the order in which they came; a message is copied to
//! private memory before anybody looks at it; garbage is found before anything that came behind it is
//! served, and after everything before it was.

use super::peer::{BACKLOG_BYTES_HIGH, Expelled, ShmPeer};
use crate::messaging::request_region::read_slot;
use crate::service::{Outbox, Reply, Request, Service};
use barn_layout::message::{Kind, MessageHeader};
use std::sync::Arc;

/// Messages that are taken from one peer before the others have their turn.
const MESSAGES_PER_TURN: usize = 64;
/// Messages that are taken together. 8: about as many misses as a core has under way at once.
pub(super) const GROUP: usize = 8;

/// A message that was taken out of shared memory.
pub(super) struct Taken {
    header: MessageHeader,
    /// The body, or a piece of it.
    buffer: Vec<u8>,
}

impl Taken {
    /// A place for a message.
    pub(super) fn nothing() -> Self {
        Self { header: zerocopy::FromZeros::new_zeroed(), buffer: Vec::new() }
    }
}

/// Where messages come from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// HERD's slots.
    Lane,
    /// FaRM's ring.
    Ring,
}

impl ShmPeer {
    /// Serves what has come one way, a turn's worth; says how many messages.
    ///
    /// One that comes alone, as the last one did, is answered before anybody looks for another: the line
    /// where that one will come is in the client's cache, and the answer would wait for it.
    pub(super) fn serve_from(
        &mut self,
        source: Source,
        service: &mut dyn Service,
        outbox: &Arc<Outbox>,
    ) -> Result<usize, Expelled> {
        let (mut served, mut most) = (0, if self.together { GROUP } else { 1 });
        while served < MESSAGES_PER_TURN {
            let (taken, end) = match source {
                Source::Lane => self.take_slots(most),
                Source::Ring => self.take_messages(most),
            };
            self.expect(service, taken);
            for at in 0..taken {
                let header = self.group[at].header;
                let buffer = std::mem::take(&mut self.group[at].buffer);
                let buffer = self.serve_message(service, outbox, &header, buffer)?;
                // It goes back to be used again, unless a long message made it large.
                if buffer.capacity() <= BACKLOG_BYTES_HIGH {
                    self.group[at].buffer = buffer;
                }
            }
            served += taken;
            end?;
            if taken < most {
                break;
            }
            most = GROUP;
        }
        if served > 0 {
            self.together = served > 1;
        }
        Ok(served)
    }

    /// Takes requests from the slots, as many as go together: how many, and why no more.
    fn take_slots(&mut self, most: usize) -> (usize, Result<(), Expelled>) {
        let Some(lane) = &mut self.lane else { return (0, Ok(())) };
        for (at, taken) in self.group[..most].iter_mut().enumerate() {
            let (slot, lap) = lane.window.current();
            taken.buffer.clear();
            let slot_at = self.answers.shape.request_slot(slot) as u64;
            taken.header = match read_slot(&self.inbound, slot_at, lap, &mut taken.buffer) {
                Ok(Some(header)) => header,
                Ok(None) => return (at, Ok(())),
                Err(corrupt) => return (at, Err(corrupt.into())),
            };
            // An honest client has the answer of the slot's last request before it uses it again.
            if Kind::from_bits(taken.header.kind) != Some(Kind::Request) || self.answers.slots[slot].is_some()
            {
                return (at, Err(Expelled::Garbage));
            }
            lane.window.advance();
            self.bytes_in += taken.buffer.len() as u64;
            self.answers.slots[slot] = Some((taken.header.id.get(), lap));
        }
        (most, Ok(()))
    }

    /// Takes messages from the ring, as many as go together: how many, and why no more.
    fn take_messages(&mut self, most: usize) -> (usize, Result<(), Expelled>) {
        for (at, taken) in self.group[..most].iter_mut().enumerate() {
            taken.buffer.clear();
            taken.header = match self.reader.pop(&mut taken.buffer) {
                Ok(Some(header)) => header,
                Ok(None) => return (at, Ok(())),
                Err(corrupt) => return (at, Err(corrupt.into())),
            };
            self.bytes_in += taken.buffer.len() as u64;
        }
        (most, Ok(()))
    }

    /// Tells the service of requests that it will have in a moment.
    #[inline]
    fn expect(&self, service: &mut dyn Service, taken: usize) {
        let whole = |taken: &Taken| {
            let Taken { header, buffer } = taken;
            header.total_bytes.get() as usize == buffer.len()
                && Kind::from_bits(header.kind) == Some(Kind::Request)
        };
        if let [one] = &self.group[..taken] {
            if whole(one) {
                let request = Request { peer: self.id, method: one.header.method.get(), body: &one.buffer };
                service.expect(&[request]);
            }
            return;
        }
        let mut requests = [Request { peer: self.id, method: 0, body: &[] }; GROUP];
        let mut count = 0;
        for one in self.group[..taken].iter().filter(|one| whole(one)) {
            let Taken { header, buffer } = one;
            requests[count] = Request { peer: self.id, method: header.method.get(), body: buffer };
            count += 1;
        }
        if count > 0 {
            service.expect(&requests[..count]);
        }
    }

    /// Serves one message, or keeps it until its other pieces are there; gives back a buffer.
    fn serve_message(
        &mut self,
        service: &mut dyn Service,
        outbox: &Arc<Outbox>,
        header: &MessageHeader,
        mut buffer: Vec<u8>,
    ) -> Result<Vec<u8>, Expelled> {
        let id = header.id.get();
        if Kind::from_bits(header.kind) == Some(Kind::Abandoned) {
            self.assembly.forget(id)?;
            return Ok(buffer);
        }
        let Some(body) = self.assembly.add(header, &mut buffer)? else { return Ok(buffer) };
        match Kind::from_bits(header.kind) {
            Some(Kind::Request) => {
                let request = Request { peer: self.id, method: header.method.get(), body: &body };
                service.call(request, Reply::new(&mut self.answers, self.id, id, outbox));
            }
            Some(Kind::OneWay) => service.message(self.id, &body),
            Some(Kind::Reply | Kind::Abandoned) | None => return Err(Expelled::Garbage),
        }
        Ok(body)
    }
}
