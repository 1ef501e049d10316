//! HERD's request region: a slot for each outstanding request, and one for its reply.
//!
//! Request `r` goes to slot `r mod W`, and its reply to reply slot `r mod W`. A client uses a slot
//! again only when it has the reply of the last request in it, so the window is the only flow
//! control, and replies may come in any order. The arrival word of a slot is at a fixed place
//! and carries the slot's *lap*, so nothing need ever be zeroed.
//!
//! On verbs the requests are UC WRITEs and the replies UD SENDs (HERD sections 4.2, 4.3); in
//! shared memory both are stores, the arrival word last.
//!
//! What always holds: a slot is written by one side only; a lap is read once; a lap that comes
//! out of turn is garbage.

use super::{Corrupt, load_message, store_message};
use crate::region::{Ordering, Words};
use barn_layout::channel::SLOT_BYTES;
use barn_layout::message::{ARRIVAL_BYTES, Arrival, MessageHeader};
use barn_layout::planted;

/// The longest body that fits a slot.
pub const SLOT_BODY_BYTES_MAX: usize = SLOT_BYTES - ARRIVAL_BYTES - MessageHeader::BYTES;

/// Writes a message into the slot that starts at `at`, as its lap number `lap` (from 1).
pub fn write_slot(words: &Words, at: u64, lap: u32, header: &MessageHeader, body: &[u8]) {
    debug_assert!(body.len() <= SLOT_BODY_BYTES_MAX);
    words.owns_to_write(at, ARRIVAL_BYTES + MessageHeader::BYTES + body.len());
    // Slots lie inside their memory by construction.
    let _ = store_message(words, at + ARRIVAL_BYTES as u64, header, body);
    let arrival = Arrival { bytes: (MessageHeader::BYTES + body.len()) as u32, number: lap };
    // SYNC: Release, pairs with the Acquire load in `read_slot`: whoever sees the arrival word
    // sees the message.
    let order = if planted("slot_publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
    let _ = words.store_word(at, arrival.to_bits(), order);
}

/// Takes the message of lap `lap` from the slot at `at`, if it has arrived: its header, and its
/// body onto the end of `into`.
pub fn read_slot(
    words: &Words,
    at: u64,
    lap: u32,
    into: &mut Vec<u8>,
) -> Result<Option<MessageHeader>, Corrupt> {
    // SYNC: Acquire, pairs with the Release store in `write_slot`.
    let order = if planted("slot_read_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
    let arrival = Arrival::from_bits(words.load_word(at, order)?);
    let last = if lap == 1 { 0 } else { lap - 1 };
    if arrival.number != lap {
        // Before a lap arrives its slot holds an earlier one: a client that got an answer
        // through the ring, because it was long, leaves its reply slot as it was.
        return if arrival.number <= last || lap == 1 && arrival.number == u32::MAX {
            Ok(None)
        } else {
            Err(Corrupt)
        };
    }
    if arrival.bytes as usize > MessageHeader::BYTES + SLOT_BODY_BYTES_MAX {
        return Err(Corrupt);
    }
    words.owns_to_read(at, ARRIVAL_BYTES + arrival.bytes as usize);
    load_message(words, at + ARRIVAL_BYTES as u64, arrival.bytes as usize, into).map(Some)
}

/// The writing side's count of the requests: which slot and which lap come next.
#[derive(Debug)]
pub struct Window {
    slots: usize,
    next: u64,
}

impl Window {
    /// A window of `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self { slots: slots.max(1), next: 0 }
    }

    /// The slot and lap of the next request.
    pub fn current(&self) -> (usize, u32) {
        let (slot, lap) = (self.next % self.slots as u64, self.next / self.slots as u64);
        // Laps run from 1 and skip 0, as arrival numbers do.
        (slot as usize, (lap % u64::from(u32::MAX)) as u32 + 1)
    }

    /// Goes on to the next.
    pub fn advance(&mut self) {
        self.next += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::ring::header;
    use super::*;

    #[test]
    fn slots_carry_laps() {
        let words = Words::private(4 * SLOT_BYTES);
        let (mut client, mut node) = (Window::new(4), Window::new(4));
        let mut body = Vec::new();
        for id in 0..100u64 {
            let (slot, lap) = client.current();
            let at = (slot * SLOT_BYTES) as u64;
            assert_eq!(read_slot(&words, at, lap, &mut body), Ok(None), "read before it was written");
            write_slot(&words, at, lap, &header(id), &[id as u8; 100]);
            client.advance();
            let (slot, lap) = node.current();
            body.clear();
            let taken = read_slot(&words, (slot * SLOT_BYTES) as u64, lap, &mut body).unwrap().unwrap();
            assert_eq!((taken.id.get(), body.as_slice()), (id, [id as u8; 100].as_slice()));
            node.advance();
        }
    }

    #[test]
    fn garbage_in_a_slot_is_corrupt() {
        let words = Words::private(SLOT_BYTES);
        for (bytes, number) in [(5u32, 1u32), (u32::MAX, 1), (2000, 1), (24, 7)] {
            words.store_word(0, Arrival { bytes, number }.to_bits(), Ordering::Relaxed).unwrap();
            assert_eq!(read_slot(&words, 0, 1, &mut Vec::new()), Err(Corrupt), "{bytes} {number}");
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::ring::header;
    use super::*;

    #[test]
    fn loom_a_request_that_arrived_is_whole() {
        loom::model(|| {
            let words = Words::private(128);
            let client = {
                let words = words.clone();
                loom::thread::spawn(move || write_slot(&words, 0, 1, &header(9), &[9; 8]))
            };
            let mut body = Vec::new();
            if let Some(header) = read_slot(&words, 0, 1, &mut body).unwrap() {
                assert_eq!(header.id.get(), 9);
                assert_eq!(body, [9; 8]);
            }
            client.join().unwrap();
        });
    }
}
