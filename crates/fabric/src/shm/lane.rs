//! The client's end of HERD's request region.

use crate::messaging::Corrupt;
use crate::messaging::request_region::{SLOT_BODY_BYTES_MAX, Window, read_slot, write_slot};
use crate::region::Words;
use crate::slots::Ticket;
use barn_layout::channel::ChannelShape;
use barn_layout::message::MessageHeader;

/// Looks past a request that has no answer yet once in so many times: answers mostly come in
/// order, and looking at every slot costs a cache line each.
const LOOKS_PER_FULL_SCAN: u32 = 8;

/// Which requests are out, and in which slots.
pub(super) struct RequestLane {
    shape: ChannelShape,
    window: Window,
    /// For each slot, the request that is out in it.
    out: Vec<Option<(Ticket, u32)>>,
    /// The slot of the oldest request that is out.
    oldest: usize,
    outstanding: usize,
    looks: u32,
}

impl RequestLane {
    pub(super) fn new(shape: ChannelShape) -> Self {
        Self {
            shape,
            window: Window::new(shape.window),
            out: vec![None; shape.window],
            oldest: 0,
            outstanding: 0,
            looks: 0,
        }
    }

    /// Whether a request of this length may go this way at all.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        bytes <= SLOT_BODY_BYTES_MAX
    }

    /// Writes a request, if its slot is free.
    pub(super) fn post(
        &mut self,
        inbound: &Words,
        ticket: Ticket,
        header: &MessageHeader,
        body: &[u8],
    ) -> bool {
        let (slot, lap) = self.window.current();
        if self.out[slot].is_some() {
            return false;
        }
        write_slot(inbound, self.shape.request_slot(slot) as u64, lap, header, body);
        self.out[slot] = Some((ticket, lap));
        self.outstanding += 1;
        self.window.advance();
        true
    }

    /// Takes every answer that has come; if not `thorough`, now and then only those before the
    /// first that has not.
    pub(super) fn collect(
        &mut self,
        outbound: &Words,
        thorough: bool,
        buffer: &mut Vec<u8>,
        mut answer: impl FnMut(&MessageHeader, &mut Vec<u8>),
    ) -> Result<usize, Corrupt> {
        let mut taken = 0;
        self.looks = self.looks.wrapping_add(1);
        let thorough = thorough || self.looks.is_multiple_of(LOOKS_PER_FULL_SCAN);
        let (mut slot, mut left) = (self.oldest, self.outstanding);
        while left > 0 {
            if let Some((_, lap)) = self.out[slot] {
                left -= 1;
                buffer.clear();
                match read_slot(outbound, self.shape.reply_slot(slot) as u64, lap, buffer)? {
                    Some(header) => {
                        self.free(slot);
                        answer(&header, buffer);
                        taken += 1;
                    }
                    None if thorough => {}
                    None => break,
                }
            }
            slot = (slot + 1) % self.out.len();
        }
        Ok(taken)
    }

    /// Where the arrival word of the oldest request's answer will be, and its number.
    pub(super) fn next(&self) -> Option<(u64, u32)> {
        let (_, lap) = self.out[self.oldest]?;
        Some((self.shape.reply_slot(self.oldest) as u64, lap))
    }

    /// An answer came through the ring, because it was long: its slot is free again.
    pub(super) fn answered_elsewhere(&mut self, ticket: Ticket) {
        if let Some(slot) = self.out.iter().position(|out| out.is_some_and(|(out, _)| out == ticket)) {
            self.free(slot);
        }
    }

    fn free(&mut self, slot: usize) {
        self.out[slot] = None;
        self.outstanding -= 1;
        while self.outstanding > 0 && self.out[self.oldest].is_none() {
            self.oldest = (self.oldest + 1) % self.out.len();
        }
        if self.outstanding == 0 {
            self.oldest = self.window.current().0;
        }
    }
}
