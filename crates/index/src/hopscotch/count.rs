//! Counts what a segment holds, where it lies: at start-up over all of a node's memory.
//!
//! The lengths of keys and values are in the control words, so that of each bucket only its head is read,
//! one or two cache lines, and those that come next are asked for ahead. What lies in objects of its own
//! is counted by its pointer, and not looked at.

use super::bucket::{
    CHAIN_SLOTS_MAX, CONTROL_BYTES, Chain, Control, Entry, HEAD_BYTES, OUTSIDE_SLOT_BYTES, slots_at,
};
use super::directory::Segment;
use super::owner::Counted;
use super::rebuild::{entry_bytes, slot_bytes};
use super::shape::Shape;
use barn_fabric::Words;
use barn_heap::object::Header;
use barn_heap::{HEADER_BYTES, Heap};

/// Buckets that are asked for ahead: as many misses as a core has under way.
const AHEAD: usize = 8;
const HEADER_WORDS: usize = HEADER_BYTES / 8;
/// Words of a header and of the control words of a bucket or an overflow block.
const WORDS_MAX: usize = HEADER_WORDS + slots_at(HEAD_BYTES, CHAIN_SLOTS_MAX) / 8;

/// Counts what a segment holds; `None` if any of it is not what it should be.
pub(super) fn count(heap: &Heap, segment: &Segment, shape: &Shape) -> Option<Counted> {
    let words = heap.words(segment.address.region())?;
    let head_bytes = HEADER_BYTES + slots_at(HEAD_BYTES, shape.slots);
    let mut counted = Counted { memory: shape.segment_bytes() as u64, ..Counted::default() };
    for index in 0..=shape.homes {
        if index + AHEAD <= shape.homes {
            words.prefetch(segment.offset(index + AHEAD, shape), head_bytes);
        }
        let bucket = Object {
            words,
            at: segment.offset(index, shape),
            incarnation: segment.incarnation,
            start: HEAD_BYTES,
            slots: shape.slots,
            bytes: shape.bucket_bytes,
        };
        let chain = bucket.count(heap, shape, &mut counted)?;
        if let Some(chain) = Chain::from_bits(chain) {
            let pointer = chain.pointer(segment.address, shape);
            // Not every place is an object's.
            heap.header(pointer.address).ok()?;
            let block = Object {
                words,
                at: u64::from(chain.offset),
                incarnation: chain.incarnation,
                start: 0,
                slots: chain.slots,
                bytes: pointer.bytes as usize,
            };
            let before = counted.keys;
            block.count(heap, shape, &mut counted)?;
            counted.overflowed += counted.keys - before;
            counted.memory += slot_bytes(heap, pointer);
        }
    }
    Some(counted)
}

/// A bucket or an overflow block.
struct Object<'a> {
    words: &'a Words,
    at: u64,
    incarnation: u32,
    /// Where its control words start, after the header.
    start: usize,
    slots: usize,
    bytes: usize,
}

impl Object<'_> {
    /// Adds what it holds; gives the pointer to its overflow block, if it is a bucket.
    fn count(&self, heap: &Heap, shape: &Shape, counted: &mut Counted) -> Option<u64> {
        let mut head = [0u64; WORDS_MAX];
        let head = &mut head[..HEADER_WORDS + slots_at(self.start, self.slots) / 8];
        self.words.load_words(self.at, head).ok()?;
        let header = Header::from_words(head[0], head[1]);
        if !header.allocated || header.incarnation != self.incarnation || header.bytes != self.bytes {
            return None;
        }
        let body = &head[HEADER_WORDS..];
        for slot in 0..self.slots {
            let at = self.start + slot * CONTROL_BYTES;
            let control = Control((body[at / 8] >> (at % 8 * 8)) as u32);
            if control.is_free() || control.slot_bytes() > shape.slot_bytes {
                continue;
            }
            counted.keys += 1;
            if !control.is_outside() {
                counted.payload += (control.key_bytes() + control.value_bytes()) as u64;
                continue;
            }
            let slots_at = HEADER_BYTES + slots_at(self.start, self.slots);
            let mut pointer = [0; OUTSIDE_SLOT_BYTES];
            self.words.load(self.at + (slots_at + slot * shape.slot_bytes) as u64, &mut pointer).ok()?;
            let (payload, memory) = entry_bytes(heap, Entry::parse(control, &pointer)?);
            counted.payload += payload;
            counted.memory += memory;
        }
        match self.start {
            HEAD_BYTES => Some(body[0] >> 32 | body[1] << 32),
            _ => Some(0),
        }
    }
}
