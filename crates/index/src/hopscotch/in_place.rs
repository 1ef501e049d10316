//! Looks at buckets where they are, in memory that is mapped here: the client's way over shm, and the
//! node's own. Nothing is copied but the one slot whose tag is right.

use super::bucket::{
    self, CHAIN_SLOTS_MAX, CONTROL_BYTES, Chain, Control, Entry, HEAD_BYTES, OUTSIDE_SLOT_BYTES,
    entry_version, slots_at, tag,
};
use super::directory::Segment;
use super::shape::Shape;
use crate::key::{Found, Key, Looked};
use barn_fabric::Words;
use barn_fabric::region::{AccessError, Ordering, fence};
use barn_heap::HEADER_BYTES;
use barn_heap::object::Header;
use barn_layout::Address;
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};
use barn_layout::object::{LockMode, VersionWord};
use barn_transaction::Pointer;

/// The most slots of a bucket: H = 16.
pub(super) const SLOTS_MAX: usize = 8;
/// The longest slot.
pub(super) const SLOT_BYTES_MAX: usize = 384;
/// Slots of a bucket that is looked at by the shorter of two loads.
const FEW_SLOTS: usize = 4;
/// Words of a bucket's head and its control words, if it has few slots, or more: loads of a fixed number
/// need no loop. What is too much is bytes of its first slots; every bucket is that long.
const FEW_WORDS: usize = slots_at(HEAD_BYTES, FEW_SLOTS) / 8;
const MORE_WORDS: usize = slots_at(HEAD_BYTES, SLOTS_MAX) / 8;
/// Words before the slots of an overflow block, at the most.
const CHAIN_WORDS: usize = slots_at(0, CHAIN_SLOTS_MAX) / 8;

const fn bucket_bytes_min(slots: usize) -> usize {
    slots_at(HEAD_BYTES, slots) + slots * OUTSIDE_SLOT_BYTES
}
const _: () = assert!(bucket_bytes_min(1) >= FEW_WORDS * 8);
const _: () = assert!(bucket_bytes_min(FEW_SLOTS + 1) >= MORE_WORDS * 8);

/// What a look at one bucket found.
pub(super) enum Bucket {
    /// The key, whose value is in `found`.
    Found,
    /// The key may be there, in an object of its own; with the entry's version.
    Outside(Pointer, u64),
    /// Not the key.
    Not {
        /// The joint version with the bucket before.
        back: u16,
        /// The joint version with the bucket after.
        forward: u16,
        /// The overflow block.
        chain: Option<Chain>,
    },
    /// A writer was there.
    Unsettled,
    /// The bucket is not there any more.
    Stale,
}

/// A bucket in mapped memory.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) words: &'a Words,
    pub(super) segment: Segment,
    pub(super) index: usize,
}

impl Place<'_> {
    /// The bucket after it.
    #[inline]
    pub(super) fn next(self) -> Self {
        Self { index: self.index + 1, ..self }
    }

    #[inline]
    fn at(&self, shape: &Shape) -> u64 {
        self.segment.offset(self.index, shape)
    }

    /// Asks the CPU for the line with the version and the control words.
    #[inline]
    pub(super) fn prefetch(&self, shape: &Shape) {
        self.words.prefetch(self.at(shape), LINE_BYTES);
    }

    /// Asks the CPU for all of the bucket, and for the head of the next: misses that overlap cost as
    /// much as one.
    #[inline]
    pub(super) fn prefetch_all(&self, shape: &Shape) {
        self.words.prefetch(self.at(shape), shape.stride + LINE_BYTES);
    }

    /// Asks for the slot that probably holds the key; false if none does.
    #[inline]
    pub(super) fn prefetch_slot(&self, shape: &Shape, key: Key<'_>) -> bool {
        match shape.slots <= FEW_SLOTS {
            true => self.prefetch_slot_by::<FEW_WORDS>(shape, key),
            false => self.prefetch_slot_by::<MORE_WORDS>(shape, key),
        }
    }

    #[inline]
    fn prefetch_slot_by<const WORDS: usize>(&self, shape: &Shape, key: Key<'_>) -> bool {
        let at = self.at(shape) + HEADER_BYTES as u64;
        let mut head = [0u64; WORDS];
        if self.words.load_words(at, &mut head).is_err() {
            return false;
        }
        let tag = tag(key.hash);
        let slot = (0..shape.slots).find(|slot| control_of(&head, HEAD_BYTES, *slot).tag() == tag);
        if let Some(slot) = slot {
            let from = at + (slots_at(HEAD_BYTES, shape.slots) + slot * shape.slot_bytes) as u64;
            self.words.prefetch(from, shape.slot_bytes);
        }
        slot.is_some()
    }

    /// Looks for a key in the bucket.
    #[inline]
    pub(super) fn look(&self, shape: &Shape, key: Key<'_>, found: &mut Found) -> Result<Bucket, AccessError> {
        let bucket = Object {
            words: self.words,
            at: self.at(shape),
            address: self.segment.bucket(self.index, shape).address,
            incarnation: self.segment.incarnation,
            start: HEAD_BYTES,
            slots: shape.slots,
        };
        match shape.slots <= FEW_SLOTS {
            true => bucket.look::<FEW_WORDS>(shape, key, found),
            false => bucket.look::<MORE_WORDS>(shape, key, found),
        }
    }

    /// Looks for a key in the bucket's overflow block.
    fn look_in_chain(
        &self,
        chain: Chain,
        shape: &Shape,
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<Bucket, AccessError> {
        let pointer = chain.pointer(self.segment.address, shape);
        let block = Object {
            words: self.words,
            at: u64::from(chain.offset),
            address: pointer.address,
            incarnation: chain.incarnation,
            start: 0,
            slots: chain.slots,
        };
        block.look::<CHAIN_WORDS>(shape, key, found)
    }

    /// Looks for a key in its home, which this is, in the next bucket, and in the overflow block. What
    /// needs more than that is `Unsettled`.
    #[inline]
    pub(super) fn look_around(
        &self,
        shape: &Shape,
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<Looked, AccessError> {
        let (joint, chained) = match self.look(shape, key, found)? {
            Bucket::Found => return Ok(Looked::Found),
            Bucket::Stale => return Ok(Looked::Stale),
            Bucket::Not { forward, chain, .. } => (forward, chain),
            Bucket::Outside(..) | Bucket::Unsettled => return Ok(Looked::Unsettled),
        };
        match self.next().look(shape, key, found)? {
            Bucket::Found => return Ok(Looked::Found),
            Bucket::Stale => return Ok(Looked::Stale),
            Bucket::Not { back, .. } if back == joint => {}
            _ => return Ok(Looked::Unsettled),
        }
        let Some(chain) = chained else { return Ok(Looked::Absent) };
        Ok(match self.look_in_chain(chain, shape, key, found)? {
            Bucket::Found => Looked::Found,
            Bucket::Not { .. } => Looked::Absent,
            // A block that is not there any more means that the bucket has changed.
            _ => Looked::Unsettled,
        })
    }
}

/// A bucket or an overflow block.
struct Object<'a> {
    words: &'a Words,
    /// Where its header is.
    at: u64,
    address: Address,
    incarnation: u32,
    /// Where its control words start, after the header.
    start: usize,
    slots: usize,
}

impl Object<'_> {
    /// Looks for a key in its slots; `WORDS` are at least all between its header and them.
    #[inline]
    fn look<const WORDS: usize>(
        &self,
        shape: &Shape,
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<Bucket, AccessError> {
        let Self { words, at, start, slots, .. } = *self;
        // SYNC: Acquire, pairs with the Release store of an object's version: whoever sees the version
        // sees all of its bytes.
        let before = words.load_word(at, Ordering::Acquire)?;
        // ORDER: Relaxed: the fence below orders it.
        let meta = words.load_word(at + WORD_BYTES as u64, Ordering::Relaxed)?;
        let mut head = [0u64; WORDS];
        if WORDS == CHAIN_WORDS {
            // Of any length: it may be the last thing in its region.
            let long = (slots_at(start, slots) / 8).min(WORDS);
            words.load_words(at + HEADER_BYTES as u64, &mut head[..long])?;
        } else {
            words.load_words(at + HEADER_BYTES as u64, &mut head)?;
        }
        let header = Header::from_words(before, meta);
        if !header.allocated || header.incarnation != self.incarnation {
            return Ok(Bucket::Stale);
        }
        if header.word.mode() == LockMode::Exclusive {
            return Ok(Bucket::Unsettled);
        }
        let version = header.word.version();
        // SYNC: Acquire, pairs with the Release fence after an object is closed: whoever saw a new byte
        // sees, when it looks at the version again, that it is closed or newer.
        let settled = || -> Result<bool, AccessError> {
            fence(Ordering::Acquire);
            // ORDER: Relaxed: the fence orders it.
            let after = VersionWord(words.load_word(at, Ordering::Relaxed)?);
            Ok(after.version() == version && after.mode() != LockMode::Exclusive)
        };
        let tag = tag(key.hash);
        for slot in 0..slots {
            let control = control_of(&head, start, slot);
            if control.tag() != tag || control.slot_bytes() > shape.slot_bytes {
                continue;
            }
            let from = at + (HEADER_BYTES + slots_at(start, slots) + slot * shape.slot_bytes) as u64;
            let bytes = control.slot_bytes().next_multiple_of(8);
            // Most slots are short, and clearing what is not needed takes time.
            let (mut short, mut long);
            let into = if bytes <= LINE_BYTES {
                short = [0; LINE_BYTES];
                &mut short[..bytes]
            } else {
                long = [0; SLOT_BYTES_MAX];
                &mut long[..bytes]
            };
            words.load(from, into)?;
            match Entry::parse(control, into) {
                Some(Entry::Inline { key: stored, value, expires }) if stored == key.bytes => {
                    if !settled()? {
                        return Ok(Bucket::Unsettled);
                    }
                    found.value.clear();
                    found.value.extend_from_slice(value);
                    found.expires = expires;
                    found.version = entry_version(self.address, version, control);
                    return Ok(Bucket::Found);
                }
                Some(Entry::Outside { pointer, hash }) if hash == key.hash => {
                    return Ok(match settled()? {
                        true => Bucket::Outside(pointer, entry_version(self.address, version, control)),
                        false => Bucket::Unsettled,
                    });
                }
                _ => {}
            }
        }
        if !settled()? {
            return Ok(Bucket::Unsettled);
        }
        // An overflow block has neither.
        let (joints, rest) = match start {
            HEAD_BYTES => (head[0], head[1]),
            _ => (0, 0),
        };
        let chain = joints >> 32 | rest << 32;
        Ok(Bucket::Not {
            back: joints as u16,
            forward: (joints >> 16) as u16,
            chain: bucket::Chain::from_bits(chain),
        })
    }
}

/// The control word of a slot, out of the words of a bucket's body.
#[inline]
pub(super) fn control_of(body: &[u64], start: usize, slot: usize) -> Control {
    let at = start + slot * CONTROL_BYTES;
    Control((body[at / 8] >> (at % 8 * 8)) as u32)
}
