//! A node's messages to one peer: into its ring, in pieces if they are long, and what finds no
//! room there waits.
//!
//! What always holds: messages enter the ring in the order in which they were said; what waits is
//! counted, an empty message too, so that whoever looks at the count bounds it.

use super::ring::{RingWriter, piece_bytes_max};
use barn_layout::message::MessageHeader;
use std::collections::VecDeque;

/// A message that waits for room.
#[derive(Debug)]
struct Waiting {
    header: MessageHeader,
    /// The part of the body that was not yet in the ring when it began to wait...
    rest: Vec<u8>,
    /// ...where that starts in the whole...
    start: usize,
    /// ...and how much of the whole is in the ring by now.
    sent: usize,
}

/// What a waiting message costs besides its body: a flood of empty ones is bounded, too.
const WAITING_BYTES: usize = size_of::<Waiting>();

/// The way back to a client.
#[derive(Debug)]
pub(crate) struct Backlog {
    ring_bytes: usize,
    pub(crate) writer: RingWriter,
    /// What found no room in the ring.
    waiting: VecDeque<Waiting>,
    /// Bytes that wait: bodies, and [`WAITING_BYTES`] for each of them.
    bytes: usize,
    /// Whether something was written since this was last cleared.
    pub(crate) written: bool,
    /// Bytes of messages that went, since they were last counted.
    pub(crate) bytes_out: u64,
}

impl Backlog {
    pub(crate) fn new(writer: RingWriter, ring_bytes: usize) -> Self {
        Self { ring_bytes, writer, waiting: VecDeque::new(), bytes: 0, written: false, bytes_out: 0 }
    }

    /// Bytes that wait for room.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts a message into the ring, in pieces if it is long; what finds no room waits.
    #[inline]
    pub(crate) fn push(&mut self, header: MessageHeader, body: &[u8]) {
        // Nearly all are short and find room: their headers are in registers until they are in the ring.
        let [id, lengths, what] = header.to_words();
        self.bytes_out += body.len() as u64;
        if self.waiting.is_empty()
            && body.len() <= piece_bytes_max(self.ring_bytes)
            && self.writer.push_words(id, lengths, what, body).is_ok()
        {
            self.written = true;
            return;
        }
        self.push_long(id, lengths, what, body);
    }

    /// The same for what is long, or has to wait.
    #[inline(never)]
    fn push_long(&mut self, id: u64, lengths: u64, what: u64, body: &[u8]) {
        let header = MessageHeader::from_words([id, lengths, what]);
        let mut sent = 0;
        if self.waiting.is_empty() && self.push_pieces(&header, body, 0, &mut sent) {
            return;
        }
        let rest = body[sent..].to_vec();
        self.bytes += rest.len() + WAITING_BYTES;
        self.waiting.push_back(Waiting { header, rest, start: sent, sent });
    }

    /// Pushes pieces from `*sent` on; `body` starts at `start` of the whole. Whether all is in.
    fn push_pieces(&mut self, header: &MessageHeader, body: &[u8], start: usize, sent: &mut usize) -> bool {
        let piece_max = piece_bytes_max(self.ring_bytes);
        loop {
            let from = *sent - start;
            let piece = &body[from..body.len().min(from + piece_max)];
            let header = MessageHeader { piece_offset: (*sent as u32).into(), ..*header };
            if self.writer.push(&header, piece).is_err() {
                return false;
            }
            self.written = true;
            *sent += piece.len();
            if *sent - start == body.len() {
                return true;
            }
        }
    }

    /// Tries again what found no room; says how many messages went on.
    pub(crate) fn push_waiting(&mut self) -> usize {
        let mut pushed = 0;
        while let Some(mut waiting) = self.waiting.pop_front() {
            let before = waiting.sent;
            let all = self.push_pieces(&waiting.header, &waiting.rest, waiting.start, &mut waiting.sent);
            self.bytes -= waiting.sent - before;
            pushed += usize::from(waiting.sent > before || all);
            if !all {
                self.waiting.push_front(waiting);
                break;
            }
            self.bytes -= WAITING_BYTES;
        }
        pushed
    }
}
