//! What a client does with the bytes that a node sends.
//!
//! What always holds: the node's bytes are checked like a stranger's: an answer for an id that
//! nobody waits for changes nothing, a frame that a node never sends ends the connection, and
//! memory grows with the bytes that came. A long body is received where it belongs, not through
//! the common buffer.

use super::outbound::Outbound;
use super::stream::{Inbound, Received, header, receive_into, receive_onto};
use crate::slots::{Slots, Ticket};
use barn_layout::frame::{Frame, FrameHeader, FrameKind, OpenedBody, Outcome};
use barn_layout::limits::{MESSAGE_BYTES_MAX, OPERATION_BYTES_MAX};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use zerocopy::FromBytes;

/// A body from here on is received where it belongs; below, the rest of it is near.
pub(super) const FILL_BYTES: usize = 16 << 10;
/// Messages that nobody has taken, in bytes: two of the longest. Past that the connection ends.
const INBOX_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// What a message costs beside its bytes, so that empty ones are bounded too.
const MESSAGE_COST_BYTES: usize = 64;
/// The least that a buffer for a long body grows by.
const GROW_BYTES: usize = 256 << 10;

/// So often a long body is left for the READ that it belongs to, which is polled in the same sweep as a
/// rule; then whoever drives takes it.
const LEFT_MAX: u32 = 4;

/// The connection is over.
#[derive(Debug)]
pub(super) struct Gone;

/// The buffer of the READ that drives the connection: its bytes go there at once.
pub(super) struct Own<'a> {
    pub(super) ticket: Ticket,
    pub(super) into: &'a mut [u8],
    /// How many bytes are there.
    pub(super) placed: &'a mut usize,
}

/// The bytes that came, and what they have become so far.
#[derive(Default)]
pub(super) struct Intake {
    inbound: Inbound,
    filling: Option<Filling>,
    /// Bytes of long READs that are still to come, so that small `recv`s leave them for `Own`.
    expected: usize,
    /// How often the body under way was left in the socket for the READ that it belongs to.
    left: u32,
    inbox: VecDeque<Vec<u8>>,
    inbox_bytes: usize,
}

/// A long body under way.
struct Filling {
    frame: Frame,
    left: usize,
    message: Vec<u8>,
}

impl Intake {
    /// A READ of so many bytes was posted.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.expected += bytes;
    }

    /// The next message, if there is one.
    pub(super) fn message(&mut self) -> Option<Vec<u8>> {
        let message = self.inbox.pop_front()?;
        self.inbox_bytes -= message.len() + MESSAGE_COST_BYTES;
        Some(message)
    }

    /// One `recv`, and everything that it completes; says how much that was.
    pub(super) fn take(
        &mut self,
        socket: &OwnedFd,
        slots: &mut Slots,
        out: &mut Outbound,
        mut own: Option<Own<'_>>,
    ) -> Result<usize, Gone> {
        let received = if self.filling.is_some() && self.inbound.pending() == 0 {
            if self.is_anothers(own.as_ref()) && self.left < LEFT_MAX {
                self.left += 1;
                return Ok(0);
            }
            self.left = 0;
            self.fill(socket, slots, &mut own)
        } else if self.expected > 0 && slots.waiting() > 0 {
            self.inbound.receive_little(socket)
        } else {
            self.expected = 0;
            self.inbound.receive(socket)
        };
        match received {
            Ok(Received::Bytes(_)) => self.parse(slots, out, &mut own),
            Ok(Received::Nothing) => Ok(0),
            Ok(Received::End) | Err(_) => Err(Gone),
        }
    }

    /// Whether the next bytes are of a long body that belongs to this operation.
    #[inline]
    pub(super) fn is_for(&self, ticket: Ticket) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.frame.id == ticket.0)
    }

    /// Whether a long body was left in the socket.
    pub(super) fn has_left(&self) -> bool {
        self.left > 0
    }

    /// Whether the body under way is that of a READ, and of another one than of who drives.
    fn is_anothers(&self, own: Option<&Own<'_>>) -> bool {
        let Some(Filling { frame, .. }) = &self.filling else { return false };
        matches!(frame.kind, FrameKind::Piece | FrameKind::Done)
            && own.is_some_and(|own| own.ticket.0 != frame.id)
    }

    /// Receives a part of the long body under way where it belongs.
    fn fill(
        &mut self,
        socket: &OwnedFd,
        slots: &mut Slots,
        own: &mut Option<Own<'_>>,
    ) -> Result<Received, rustix::io::Errno> {
        let Some(filling) = &mut self.filling else { return Ok(Received::Nothing) };
        if let Some(place) = place_for(own, slots, &filling.frame, filling.left) {
            let received = receive_into(socket, place)?;
            if let (Received::Bytes(bytes), Some(own)) = (received, own) {
                *own.placed += bytes;
                filling.left -= bytes;
            }
            return Ok(received);
        }
        let body = match filling.frame.kind {
            FrameKind::OneWay => Some(&mut filling.message),
            _ => slots.partial(Ticket(filling.frame.id)),
        };
        // Nobody wants it any more: let the common buffer take it, and drop it from there.
        let Some(body) = body else { return self.inbound.receive(socket) };
        if body.capacity() - body.len() < filling.left.min(GROW_BYTES) {
            body.reserve_exact(filling.left.min(GROW_BYTES.max(body.len())));
        }
        let end = body.len() + filling.left;
        let received = receive_onto(socket, body)?;
        if let Received::Bytes(bytes) = received {
            filling.left -= bytes.min(filling.left);
            if body.len() > end {
                self.inbound.put(&body[end..]);
                body.truncate(end);
            }
        }
        Ok(received)
    }

    /// Takes bytes as if they had come from the socket.
    #[cfg(fuzzing)]
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        slots: &mut Slots,
        out: &mut Outbound,
    ) -> Result<usize, Gone> {
        self.inbound.put(bytes);
        self.parse(slots, out, &mut None)
    }

    fn parse(
        &mut self,
        slots: &mut Slots,
        out: &mut Outbound,
        own: &mut Option<Own<'_>>,
    ) -> Result<usize, Gone> {
        let mut completed = 0;
        loop {
            if let Some(filling) = &mut self.filling {
                let part = self.inbound.take(filling.left);
                filling.left -= part.len();
                match filling.frame.kind {
                    FrameKind::OneWay => filling.message.extend_from_slice(part),
                    _ => put(own, slots, &filling.frame, part),
                }
                if filling.left > 0 {
                    return Ok(completed);
                }
                if let Some(Filling { frame, message, .. }) = self.filling.take() {
                    completed += 1;
                    match frame.kind {
                        FrameKind::OneWay => self.keep(message),
                        FrameKind::Piece => {}
                        _ => drop(slots.complete(Ticket(frame.id), frame.status)),
                    }
                }
            }
            let Some(frame) = self.inbound.peek().map_err(|_| Gone)? else { return Ok(completed) };
            if self.inbound.pending() < FrameHeader::BYTES + frame.body_bytes {
                if frame.body_bytes < FILL_BYTES {
                    return Ok(completed);
                }
                self.inbound.take(FrameHeader::BYTES);
                self.admit(&frame, slots)?;
                self.filling = Some(Filling { frame, left: frame.body_bytes, message: Vec::new() });
                continue;
            }
            self.admit(&frame, slots)?;
            let Some(body) = self.inbound.body(&frame) else { return Err(Gone) };
            completed += 1;
            match frame.kind {
                FrameKind::OneWay => {
                    let message = body.to_vec();
                    self.keep(message);
                }
                FrameKind::Ping => out.push(&header(FrameKind::Pong, 0, 0, frame.id, 0), [&[], &[]]),
                FrameKind::Pong => {}
                FrameKind::Piece => put(own, slots, &frame, body),
                _ => {
                    put(own, slots, &frame, body);
                    if !slots.complete(Ticket(frame.id), frame.status) && frame.kind == FrameKind::Opened {
                        give_back(&frame, body, out);
                    }
                }
            }
        }
    }

    /// Whether a node may send this frame now.
    #[inline]
    fn admit(&mut self, frame: &Frame, slots: &mut Slots) -> Result<(), Gone> {
        match frame.kind {
            FrameKind::Reply | FrameKind::Opened | FrameKind::Renewed | FrameKind::Ping | FrameKind::Pong => {
                Ok(())
            }
            FrameKind::Done | FrameKind::Piece => {
                self.expected = self.expected.saturating_sub(frame.body_bytes);
                let gathered = match frame.body_bytes {
                    0..FILL_BYTES => 0,
                    _ => slots.partial(Ticket(frame.id)).map_or(0, |body| body.len()),
                };
                if gathered + frame.body_bytes > OPERATION_BYTES_MAX { Err(Gone) } else { Ok(()) }
            }
            FrameKind::OneWay => {
                let after = self.inbox_bytes + frame.body_bytes + MESSAGE_COST_BYTES;
                if after > INBOX_BYTES_MAX { Err(Gone) } else { Ok(()) }
            }
            _ => Err(Gone),
        }
    }

    fn keep(&mut self, message: Vec<u8>) {
        self.inbox_bytes += message.len() + MESSAGE_COST_BYTES;
        self.inbox.push_back(message);
    }
}

/// A grant came for which nobody waits any more: gives it back.
fn give_back(frame: &Frame, body: &[u8], out: &mut Outbound) {
    if frame.status == Outcome::Done as u8
        && let Ok((opened, _)) = OpenedBody::ref_from_prefix(body)
    {
        out.push(&header(FrameKind::Close, 0, 0, opened.key.get(), 0), [&[], &[]]);
    }
}

/// Where the next `bytes` of an answer go in the buffer of the READ that drives, if the answer
/// is its own and all before them are there already.
fn place_for<'a>(
    own: &'a mut Option<Own<'_>>,
    slots: &mut Slots,
    frame: &Frame,
    bytes: usize,
) -> Option<&'a mut [u8]> {
    let own = own.as_mut().filter(|own| own.ticket.0 == frame.id)?;
    let gathered = slots.partial(own.ticket)?;
    if !gathered.is_empty() {
        // Another operation drove meanwhile: catch up.
        let end = own.placed.checked_add(gathered.len())?;
        own.into.get_mut(*own.placed..end)?.copy_from_slice(gathered);
        *own.placed = end;
        gathered.clear();
    }
    own.into.get_mut(*own.placed..own.placed.checked_add(bytes)?)
}

/// Adds a part to an answer.
#[inline]
fn put(own: &mut Option<Own<'_>>, slots: &mut Slots, frame: &Frame, part: &[u8]) {
    if own.is_some()
        && let Some(place) = place_for(own, slots, frame, part.len())
    {
        place.copy_from_slice(part);
        if let Some(own) = own {
            *own.placed += part.len();
        }
        return;
    }
    if let Some(body) = slots.partial(Ticket(frame.id)) {
        body.extend_from_slice(part);
    }
}
