//! A call that a thread waits for and for nothing else, on a connection on which nothing else is under way: posted
//! where it is made, its answer taken where it is waited for. A future would be polled until the answer is there,
//! every time through all its layers, and what has come would be put by for whoever asks for it.
//!
//! What always holds: whatever is not plain (HERD's slots, somebody who sleeps, messages that wait for room, an
//! answer in pieces or to somebody else, a node that is gone) is left to the long way, which goes on from here: a
//! request that was posted is not posted again, and an answer that was taken for another is put by for him.

use super::client::{ShmClient, State, lock};
use super::ring_if_asleep;
use crate::link::{Link, Wait};
use crate::messaging::mail::header;
use crate::messaging::ring::piece_bytes_max;
use barn_layout::message::Kind;
use barn_layout::planted;
use std::sync::atomic::Ordering;

/// Looks for the answer, some 5 µs of them, before the long way takes over, which gives others the core and sleeps.
const LOOKS: usize = 1024;

impl State {
    /// Whether there is nothing but the ring to look after.
    #[inline]
    fn is_plain(&self) -> bool {
        self.lane.is_none() && !self.asleep && self.mail.is_plain()
    }
}

impl ShmClient {
    /// Posts a request, if that is all there is to do.
    #[inline]
    pub(super) fn post_at_once(&self, wait: &mut Wait, method: u16, request: &[u8]) {
        let mut state = lock(&self.state);
        if request.len() > piece_bytes_max(self.shape.ring_bytes) || !state.is_plain() || !self.is_open() {
            return;
        }
        let Some(ticket) = state.mail.slots.take() else { return };
        if state.mail.writer.push(&header(Kind::Request, ticket, method, request.len()), request).is_err() {
            state.mail.slots.abandon(ticket);
            return;
        }
        // ORDER: Relaxed: changes under the lock that we hold.
        wait.seen = self.brought.load(Ordering::Relaxed);
        (wait.ticket, wait.posted) = (Some(ticket), true);
        drop(state);
        ring_if_asleep(&self.node_page, 0, &self.bell);
    }

    /// Waits a little for the answer to a request that was posted, and takes it: its status.
    #[inline]
    pub(super) fn take_soon(&self, wait: &mut Wait, reply: &mut Vec<u8>) -> Option<u8> {
        for _ in 0..LOOKS {
            // ORDER: Relaxed: a hint, as in `is_in_vain`. Another thread may have taken the answer.
            if self.brought.load(Ordering::Relaxed) != wait.seen {
                break;
            }
            if self.has_news(true) {
                let status = self.take_first(wait, reply);
                if status.is_some() {
                    return status;
                }
                break;
            }
        }
        // The long way looks at everything.
        wait.seen = u64::MAX;
        None
    }

    /// Takes the next message; if it is the answer that is waited for, its status.
    #[inline]
    fn take_first(&self, wait: &mut Wait, reply: &mut Vec<u8>) -> Option<u8> {
        let ticket = wait.ticket?;
        let mut state = lock(&self.state);
        let state = &mut *state;
        if !state.is_plain() {
            return None;
        }
        let reported = state.mail.reader.reported();
        reply.clear();
        let header = match state.mail.reader.pop(reply) {
            Ok(Some(header)) => header,
            Ok(None) => return None,
            Err(_) => {
                self.close(state);
                return None;
            }
        };
        self.note_length(reply.len());
        let is_whole = header.total_bytes.get() as usize == reply.len() && header.piece_offset.get() == 0;
        let is_ours = (header.id.get() == ticket.0 || planted("any_answer_will_do"))
            && Kind::from_bits(header.kind) == Some(Kind::Reply);
        let status = (is_ours && is_whole).then_some(header.status);
        match status {
            Some(_) => state.mail.slots.abandon(ticket),
            None if state.mail.arrived(&header, reply).is_err() => self.close(state),
            None => {}
        }
        self.note_brought();
        self.note_next(state);
        // The node may be waiting for the room that has just been reported.
        if state.mail.reader.reported() != reported {
            ring_if_asleep(&self.node_page, 0, &self.bell);
        }
        status
    }
}
