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

/// Whether a slot still holds an earlier lap than `lap`. A client that got an answer through the ring, because it
/// was long, leaves its reply slot as it was, so that it may be much earlier.
#[inline]
fn is_earlier(number: u32, lap: u32) -> bool {
    number < lap || lap == 1 && number == u32::MAX
}

/// Whether there is something to take from a slot with [`read_slot`], as far as a glance can tell.
#[inline]
pub fn has_arrived(words: &Words, at: u64, lap: u32) -> bool {
    // What cannot be loaded is for `read_slot` to complain of.
    let arrival = words.load_word(at, Ordering::Relaxed).map(Arrival::from_bits);
    !arrival.is_ok_and(|arrival| is_earlier(arrival.number, lap))
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
    if arrival.number != lap {
        return if is_earlier(arrival.number, lap) { Ok(None) } else { Err(Corrupt) };
    }
    if arrival.bytes as usize > MessageHeader::BYTES + SLOT_BODY_BYTES_MAX {
        return Err(Corrupt);
    }
    words.owns_to_read(at, ARRIVAL_BYTES + arrival.bytes as usize);
    load_message(words, at + ARRIVAL_BYTES as u64, arrival.bytes as usize, into).map(Some)
}

/// Writes a message into a slot of a mirror that is sent as one WRITE which may be lost, or arrive
/// in part or late: as [`write_slot`], with a checksum in the header's spare word. Says how many
/// bytes of the slot are to be sent, in whole words.
#[cfg(all(any(feature = "verbs", test), not(loom)))]
pub(crate) fn write_checked(words: &Words, at: u64, lap: u32, header: &MessageHeader, body: &[u8]) -> usize {
    let header = MessageHeader { reserved: checksum(lap, header, body).into(), ..*header };
    write_slot(words, at, lap, &header, body);
    (ARRIVAL_BYTES + MessageHeader::BYTES + body.len()).next_multiple_of(barn_layout::limits::WORD_BYTES)
}

/// Takes the message of lap `lap` from a slot that [`write_checked`] was sent to, if all of it has
/// arrived. Another lap, or a message that is not whole, is none: it is sent again.
#[cfg(all(any(feature = "verbs", test), not(loom)))]
pub(crate) fn read_checked(words: &Words, at: u64, lap: u32, into: &mut Vec<u8>) -> Option<MessageHeader> {
    // SYNC: Acquire: as in `read_slot`; a device is no partner, which is why the checksum decides.
    let arrival = Arrival::from_bits(words.load_word(at, Ordering::Acquire).ok()?);
    if arrival.number != lap || arrival.bytes as usize > MessageHeader::BYTES + SLOT_BODY_BYTES_MAX {
        return None;
    }
    let start = into.len();
    let header = load_message(words, at + ARRIVAL_BYTES as u64, arrival.bytes as usize, into).ok()?;
    let whole = checksum(lap, &header, &into[start..]) == header.reserved.get();
    if whole || planted("verbs_slot_unchecked") {
        return Some(header);
    }
    into.truncate(start);
    None
}

/// The lap that a slot holds now.
#[cfg(all(any(feature = "verbs", test), not(loom)))]
pub(crate) fn lap_of(words: &Words, at: u64) -> u32 {
    Arrival::from_bits(words.load_word(at, Ordering::Relaxed).unwrap_or(0)).number
}

/// Tells a message from a mix of two: every word goes into it, and its place with it. Not against
/// forgery: a slot is its client's own.
#[cfg(all(any(feature = "verbs", test), not(loom)))]
fn checksum(lap: u32, header: &MessageHeader, body: &[u8]) -> u32 {
    // The odd constants of splitmix64's finish: each bit of a word reaches half of the sum's.
    let mix = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(23)
    };
    let [id, lengths, kinds] = header.to_words();
    let start = [u64::from(lap) << 32 | body.len() as u64, id, lengths, kinds & u64::from(u32::MAX)];
    let (words, rest) = body.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let body = words.iter().chain(std::iter::once(&last)).map(|word| u64::from_le_bytes(*word));
    let sum = start.into_iter().chain(body).fold(0x9e37_79b9_7f4a_7c15, mix);
    (sum ^ (sum >> 32)) as u32
}

/// The writing side's count of the requests: which slot and which lap come next.
#[derive(Debug)]
pub struct Window {
    slots: usize,
    slot: usize,
    lap: u32,
}

impl Window {
    /// A window of `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self { slots: slots.max(1), slot: 0, lap: 1 }
    }

    /// The slot and lap of the next request.
    #[inline]
    pub fn current(&self) -> (usize, u32) {
        (self.slot, self.lap)
    }

    /// Goes on to the next.
    #[inline]
    pub fn advance(&mut self) {
        self.slot += 1;
        if self.slot == self.slots {
            // Laps run from 1 and skip 0, as arrival numbers do.
            (self.slot, self.lap) = (0, Arrival::next(self.lap));
        }
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
    fn a_request_that_arrived_in_part_is_none() {
        // Every mix of an older message's words and a newer one's, but for all of the newer.
        let (old, new) = (Words::private(SLOT_BYTES), Words::private(SLOT_BYTES));
        let (older, newer) = ([7u8; 21], [9u8; 29]);
        write_checked(&old, 0, 4, &header(1), &older);
        let bytes = write_checked(&new, 0, 5, &header(2), &newer);
        let words = bytes / 8;
        for mix in 0..1u32 << words {
            let slot = Words::private(SLOT_BYTES);
            for word in 0..words {
                let from = if mix >> word & 1 == 1 { &new } else { &old };
                let value = from.load_word(word as u64 * 8, Ordering::Relaxed).unwrap();
                slot.store_word(word as u64 * 8, value, Ordering::Relaxed).unwrap();
            }
            let mut body = Vec::new();
            let taken = read_checked(&slot, 0, 5, &mut body);
            // A word that is the same in both may come from either.
            let whole = (0..words).all(|word| {
                let load = |from: &Words| from.load_word(word as u64 * 8, Ordering::Relaxed);
                load(&slot) == load(&new)
            });
            assert_eq!(taken.is_some(), whole, "mix {mix:b}");
            assert_eq!(body.as_slice(), if whole { &newer[..] } else { &[] });
        }
        let mut body = Vec::new();
        assert!(read_checked(&new, 0, 6, &mut body).is_none(), "an old lap was taken");
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
