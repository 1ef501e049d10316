//! A client's calls and messages over a pair of rings: what is on its way out, and what has come.
//!
//! What always holds: a message goes out in pieces, in order, or its node is told that the rest
//! will not come; an answer for an id that nobody waits for changes nothing; messages that nobody
//! has received are bounded ([`INBOX_MAX`]).

use super::Corrupt;
use super::ring::{RingReader, RingWriter, piece_bytes_max};
use crate::link::Wait;
use crate::slots::{Slots, Ticket};
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::{Kind, MessageHeader};
use std::collections::{HashMap, HashSet, VecDeque};
use std::task::Waker;

/// Messages from the node that nobody has received; past that the connection is closed.
const INBOX_MAX: usize = 4096;

/// The rings of a connection, and who waits for what.
pub(crate) struct Mail {
    pub(crate) writer: RingWriter,
    pub(crate) reader: RingReader,
    pub(crate) slots: Slots,
    pub(crate) inbox: VecDeque<Vec<u8>>,
    pub(crate) receivers: Vec<Waker>,
    /// Those whose message waits for room in the ring.
    pub(crate) posters: Vec<Waker>,
    /// Messages from the node of which only some pieces have come.
    pushed: HashMap<u64, Vec<u8>>,
    /// Messages of which some pieces are in the ring and some are not.
    partial: HashSet<Ticket>,
    /// Those of them that were given up, of which the node has yet to be told.
    given_up: Vec<Ticket>,
    /// Something was posted that the node may have to be told of.
    pub(crate) unrung: bool,
}

impl Mail {
    pub(crate) fn new(writer: RingWriter, reader: RingReader) -> Self {
        Self {
            writer,
            reader,
            slots: Slots::default(),
            inbox: VecDeque::new(),
            receivers: Vec::new(),
            posters: Vec::new(),
            pushed: HashMap::new(),
            partial: HashSet::new(),
            given_up: Vec::new(),
            unrung: false,
        }
    }

    /// A piece of a reply, or of a message that the node sent by itself. Gives the ticket of a
    /// reply that is whole now, whether anybody waits for it or not. What is in `body` afterwards means
    /// nothing: an answer that came in one piece is not copied, its buffer is exchanged for another.
    pub(crate) fn arrived(
        &mut self,
        header: &MessageHeader,
        body: &mut Vec<u8>,
    ) -> Result<Option<Ticket>, Corrupt> {
        let (total, offset) = (header.total_bytes.get() as usize, header.piece_offset.get() as usize);
        if total > MESSAGE_BYTES_MAX || offset + body.len() > total {
            return Err(Corrupt);
        }
        let whole = offset + body.len() == total;
        let ticket = Ticket(header.id.get());
        match Kind::from_bits(header.kind) {
            Some(Kind::Reply) => {
                if let Some(into) = self.slots.partial(ticket) {
                    if into.len() != offset {
                        return Err(Corrupt);
                    }
                    if offset == 0 {
                        std::mem::swap(into, body);
                    } else {
                        into.extend_from_slice(body);
                    }
                    if whole {
                        self.slots.complete(ticket, header.status);
                    }
                }
                Ok(whole.then_some(ticket))
            }
            Some(Kind::OneWay) => {
                let into = self.pushed.entry(ticket.0).or_default();
                if into.len() != offset || self.inbox.len() >= INBOX_MAX {
                    return Err(Corrupt);
                }
                into.extend_from_slice(body);
                if whole && let Some(message) = self.pushed.remove(&ticket.0) {
                    self.inbox.push_back(message);
                    self.receivers.drain(..).for_each(Waker::wake);
                }
                Ok(None)
            }
            Some(Kind::Request | Kind::Abandoned) | None => Err(Corrupt),
        }
    }

    /// Puts as much of a message into the ring as fits, from where `wait` says; whether all of
    /// it is in.
    pub(crate) fn post(
        &mut self,
        wait: &mut Wait,
        header: MessageHeader,
        body: &[u8],
        ring_bytes: usize,
    ) -> bool {
        let piece_max = piece_bytes_max(ring_bytes);
        let ticket = Ticket(header.id.get());
        self.tell_given_up();
        loop {
            let piece = &body[wait.sent..body.len().min(wait.sent + piece_max)];
            let header = MessageHeader { piece_offset: (wait.sent as u32).into(), ..header };
            if self.writer.push(&header, piece).is_err() {
                return false;
            }
            self.unrung = true;
            wait.sent += piece.len();
            if wait.sent == body.len() {
                if wait.sent > piece.len() {
                    self.partial.remove(&ticket);
                }
                return true;
            }
            self.partial.insert(ticket);
        }
    }

    /// Whether nobody waits for room or for a message of the node's own, and the node need not be told of anything.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.posters.is_empty() && self.receivers.is_empty() && self.given_up.is_empty() && !self.unrung
    }

    /// Whether somebody sleeps until something comes.
    pub(crate) fn is_awaited(&self) -> bool {
        self.slots.sleeping() > 0 || !self.receivers.is_empty() || !self.posters.is_empty()
    }

    /// Gives up waiting for an answer, or sending: what is in the ring of it is taken back.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        self.slots.abandon(ticket);
        if self.partial.remove(&ticket) {
            self.given_up.push(ticket);
            self.tell_given_up();
        }
    }

    /// Whether the node is still to be told of some that were given up.
    #[cfg_attr(not(feature = "verbs"), expect(dead_code, reason = "only verbs asks"))]
    pub(crate) fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Tells the node of messages whose other pieces will not come.
    pub(crate) fn tell_given_up(&mut self) {
        while let Some(ticket) = self.given_up.last() {
            if self.writer.push(&header(Kind::Abandoned, *ticket, 0, 0), &[]).is_err() {
                return;
            }
            self.given_up.pop();
            self.unrung = true;
        }
    }
}

/// The header of a message that a client sends.
#[inline]
pub(crate) fn header(kind: Kind, ticket: Ticket, method: u16, bytes: usize) -> MessageHeader {
    MessageHeader {
        id: ticket.0.into(),
        total_bytes: (bytes as u32).into(),
        piece_offset: 0.into(),
        method: method.into(),
        kind: kind as u8,
        status: 0,
        reserved: 0.into(),
    }
}

/// The header of what a node says: a reply, or a message of its own.
#[inline]
pub(crate) fn said(kind: Kind, id: u64, status: u8, bytes: usize) -> MessageHeader {
    MessageHeader { status, id: id.into(), ..header(kind, Ticket(id), 0, bytes) }
}
