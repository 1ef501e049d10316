//! Changes of a key that touch one bucket, which nearly all do: the entry is replaced where it is, or put
//! into a free slot. What needs more (an overflow block, entries to be moved, a removal) is left to
//! [`super::change`], and so is everything that stands in the way.
//!
//! What always holds: the bucket is looked at and changed in one go, by words and bytes that are kept
//! from change to change, so that none is allocated; a long entry that stays as long as it is is replaced in
//! its object, and the bucket is not touched; another one's new object is there before the bucket says so,
//! and its old one is there until the bucket says otherwise.

use super::bucket::{
    self, CONTROL_BYTES, Chain, Control, Entry, HEAD_BYTES, Slots, entry_version, slots_at, tag,
};
use super::change::Effect;
use super::directory::Segment;
use super::in_place::{SLOTS_MAX, control};
use super::shape::Shape;
use crate::key::{Found, Key};
use crate::node::Decision;
use crate::outside::{Outside, outside_version};
use barn_fabric::Words;
use barn_heap::object::Header;
use barn_heap::{HEADER_BYTES, Heap, Image, Reserved};
use barn_layout::limits::WORD_BYTES;
use barn_layout::object::LockMode;
use barn_transaction::Pointer;

const HEADER_WORDS: usize = HEADER_BYTES / WORD_BYTES;
const HEAD_WORDS_MAX: usize = HEADER_WORDS + slots_at(HEAD_BYTES, SLOTS_MAX) / WORD_BYTES;

/// Longer entries go the long way: room that was kept for them would be kept for ever, and to allocate it is
/// nothing beside copying that much.
const OUTSIDE_BYTES_MAX: usize = 64 << 10;

/// What is kept from change to change.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    bucket: Image,
    /// The object of a long entry.
    outside: Image,
    /// What the key had.
    found: Found,
}

/// Where the entry of a key is, or could be: in the bucket that is at hand.
#[derive(Clone, Copy, Debug)]
struct Spot {
    pointer: Pointer,
    /// The bucket's version.
    version: u64,
    slot: usize,
    /// What the slot has; free if the key is not there.
    control: Control,
    /// The entry's object and its version, if it has one.
    outside: Option<(Pointer, u64)>,
}

impl Spot {
    fn is_there(&self) -> bool {
        !self.control.is_free()
    }
}

/// A bucket's header and control words.
struct Head([u64; HEAD_WORDS_MAX]);

impl Head {
    /// Loads those of a bucket; whether nobody holds it, not even to read it.
    #[inline]
    fn load(&mut self, words: &Words, segment: Segment, index: usize, shape: &Shape) -> bool {
        let count = HEADER_WORDS + slots_at(HEAD_BYTES, shape.slots) / WORD_BYTES;
        let Some(into) = self.0.get_mut(..count) else { return false };
        if words.load_words(segment.offset(index, shape), into).is_err() {
            return false;
        }
        let header = Header::from_words(self.0[0], self.0[1]);
        let ours = header.allocated && header.incarnation == segment.incarnation;
        ours && header.word.mode() == LockMode::Free
    }

    #[inline]
    fn version(&self) -> u64 {
        Header::from_words(self.0[0], self.0[1]).word.version()
    }

    #[inline]
    fn control(&self, slot: usize) -> Control {
        control::<HEAD_BYTES>(&self.0, slot as u32)
    }

    #[inline]
    fn chain(&self) -> Option<Chain> {
        Chain::from_bits(self.0[HEADER_WORDS] >> 32 | self.0[HEADER_WORDS + 1] << 32)
    }
}

/// Whether an entry is of the key that was asked for; if so, its object and that object's version, if it
/// has one.
type Matched = Option<Option<(Pointer, u64)>>;

impl Scratch {
    /// Looks whether an entry is of this key; if so, what it has is at hand. None if it cannot be told.
    #[inline]
    fn matches(&mut self, heap: &Heap, shape: &Shape, spot: Spot, key: &Key<'_>) -> Option<Matched> {
        let Self { bucket, outside, found, .. } = self;
        let header = heap.bring(spot.pointer.address, bucket).ok()?;
        if header.bytes != shape.bucket_bytes {
            return None;
        }
        let slots = Slots::of_bucket(bucket.body(), shape);
        let (value, expires, version, lies) = match Entry::parse(spot.control, slots.slot(spot.slot)) {
            Some(Entry::Inline { key: stored, value, expires }) if stored == key.bytes => {
                (value, expires, entry_version(spot.pointer.address, spot.version, spot.control), None)
            }
            Some(Entry::Outside { pointer, hash }) if hash == key.hash => {
                if pointer.bytes as usize > OUTSIDE_BYTES_MAX {
                    return None;
                }
                let header = heap.bring(pointer.address, outside).ok()?;
                let ours = header.incarnation == pointer.incarnation && header.word.mode() == LockMode::Free;
                match Outside::parse(outside.body()).filter(|_| ours)? {
                    Outside { expires, key: stored, value } if stored == key.bytes => {
                        let version = header.word.version();
                        let of_entry = outside_version(pointer.address, version);
                        (value, expires, of_entry, Some((pointer, version)))
                    }
                    _ => return Some(None),
                }
            }
            _ => return Some(None),
        };
        found.value.clear();
        found.value.extend_from_slice(value);
        found.expires = expires;
        found.version = version;
        Some(Some(lies))
    }
}

/// A change of one key of one segment.
pub(super) struct OneBucket<'a> {
    pub(super) heap: &'a mut Heap,
    pub(super) segment: Segment,
    pub(super) shape: &'a Shape,
    pub(super) scratch: &'a mut Scratch,
}

impl OneBucket<'_> {
    /// Looks a key up and changes it as `decide` says; gives its version, as [`Effect::version`]. None if one bucket is
    /// not enough: nothing has been changed then, and what was decided is in `decided`.
    ///
    /// What else it did is added to `effect`, which is not to be copied: to load two words at once that were just
    /// stored one by one waits for all stores before them, and those of the log are far away. For the same reason the
    /// key is borrowed, and a bucket's head loaded where it stays.
    pub(super) fn change<'v>(
        &mut self,
        key: &Key<'_>,
        decided: &mut Option<Decision<'v>>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
        effect: &mut Effect,
    ) -> Option<u64> {
        let spot = self.find(key)?;
        let found = &self.scratch.found;
        let decision = decided.get_or_insert_with(|| decide(spot.is_there().then_some(found)));
        match decision {
            Decision::Keep => Some(if spot.is_there() { found.version } else { 0 }),
            Decision::Remove if !spot.is_there() => Some(0),
            Decision::Remove => None,
            Decision::Store { value, expires } => self.store(spot, key, value, *expires, effect),
        }
    }

    /// Finds a key, or a free slot for it; the bucket and what the key has are at hand then.
    #[inline]
    fn find(&mut self, key: &Key<'_>) -> Option<Spot> {
        let Self { segment, shape, .. } = *self;
        let (heap, scratch) = (&*self.heap, &mut *self.scratch);
        let words = heap.words(segment.address.region())?;
        let home = shape.home(key.hash, segment.seed);
        let tag = tag(key.hash);
        let (mut free, mut chained) = (None, false);
        let mut head = Head([0; HEAD_WORDS_MAX]);
        for index in [home, home + 1] {
            if !head.load(words, segment, index, shape) {
                return None;
            }
            let pointer = segment.bucket(index, shape);
            let mut spot =
                Spot { pointer, version: head.version(), slot: 0, control: Control::FREE, outside: None };
            for slot in 0..shape.slots {
                let control = head.control(slot);
                if control.tag() == tag {
                    (spot.slot, spot.control) = (slot, control);
                    if let Some(outside) = scratch.matches(heap, shape, spot, key)? {
                        return Some(Spot { outside, ..spot });
                    }
                } else if control.is_free() && free.is_none() {
                    free = Some(Spot { slot, control, ..spot });
                }
            }
            chained |= index == home && head.chain().is_some();
        }
        let free = free.filter(|_| !chained)?;
        let header = heap.bring(free.pointer.address, &mut scratch.bucket).ok()?;
        (header.bytes == shape.bucket_bytes).then_some(free)
    }

    /// Gives the key a value; gives its version.
    fn store(
        &mut self,
        spot: Spot,
        key: &Key<'_>,
        value: &[u8],
        expires: u64,
        effect: &mut Effect,
    ) -> Option<u64> {
        let payload = match spot.is_there() {
            true => value.len() as i64 - self.scratch.found.value.len() as i64,
            false => (key.bytes.len() + value.len()) as i64,
        };
        let mut memory = 0;
        let version = match bucket::inline_control(tag(key.hash), key.bytes, value, expires, self.shape) {
            Some(control) => {
                let version = self.put_inline(spot, control, key.bytes, value, expires);
                self.heap.put_back(&mut self.scratch.bucket).ok()?;
                version
            }
            None => match self.replace_outside(spot, key.bytes, value, expires) {
                Some(version) => {
                    effect.stored = true;
                    return Some(version);
                }
                None => {
                    let place = self.make_outside(key.bytes, value, expires)?;
                    memory += self.memory_at(place.pointer());
                    self.put_outside(spot, key, place.pointer());
                    if self.heap.put_back(&mut self.scratch.bucket).is_err() {
                        self.drop_outside(place.pointer(), place.version);
                        return None;
                    }
                    outside_version(place.pointer().address, place.version)
                }
            },
        };
        if let Some((pointer, version)) = spot.outside {
            memory -= self.memory_at(pointer);
            self.drop_outside(pointer, version);
        }
        let keys = i64::from(!spot.is_there());
        *effect = Effect { keys, payload, memory, stored: true, ..Effect::default() };
        Some(version)
    }

    /// Bytes of memory that an object takes.
    fn memory_at(&self, pointer: Pointer) -> i64 {
        self.heap.capacity(pointer.address).map_or(0, |bytes| (bytes + HEADER_BYTES) as i64)
    }

    /// Puts the control word of the slot at hand; gives the entry's version.
    #[inline]
    fn put_control(&mut self, spot: Spot, control: Control) -> u64 {
        let (slots, next) = (self.shape.slots, spot.version + 1);
        let body = self.scratch.bucket.change(HEAD_BYTES..slots_at(HEAD_BYTES, slots));
        bucket::refresh_ages(body, HEAD_BYTES, slots, next);
        let control = control.with_age(next as u8);
        let at = HEAD_BYTES + spot.slot * CONTROL_BYTES;
        body[at..at + CONTROL_BYTES].copy_from_slice(&control.0.to_le_bytes());
        entry_version(spot.pointer.address, next, control)
    }

    /// The bytes of the slot at hand, of which so many stay as they are, and those that the old entry had
    /// beyond the new one are zero from now on.
    #[inline]
    fn slot(&mut self, spot: Spot, control: Control, same: usize) -> &mut [u8] {
        let start = slots_at(HEAD_BYTES, self.shape.slots) + spot.slot * self.shape.slot_bytes;
        let before = if spot.is_there() { spot.control.slot_bytes() } else { 0 };
        let (bytes, end) = (control.slot_bytes(), control.slot_bytes().max(before));
        let slot = &mut self.scratch.bucket.change(start + same..start + end)[start..start + end];
        // What was there before is nobody's business.
        slot[bytes..].fill(0);
        &mut slot[..bytes]
    }

    /// Puts an entry into the slot at hand; gives its version.
    fn put_inline(&mut self, spot: Spot, control: Control, key: &[u8], value: &[u8], expires: u64) -> u64 {
        let keeps_key = spot.is_there()
            && spot.outside.is_none()
            && spot.control.has_expiry() == control.has_expiry()
            && expires == self.scratch.found.expires;
        let value_at = control.slot_bytes() - value.len();
        let slot = self.slot(spot, control, if keeps_key { value_at } else { 0 });
        let (head, to_value) = slot.split_at_mut(value_at);
        to_value.copy_from_slice(value);
        if !keeps_key {
            let (to_expires, to_key) = head.split_at_mut(value_at - key.len());
            to_key.copy_from_slice(key);
            to_expires.copy_from_slice(&expires.to_le_bytes()[..to_expires.len()]);
        }
        self.put_control(spot, control)
    }

    /// Puts the place of a long entry into the slot at hand.
    fn put_outside(&mut self, spot: Spot, key: &Key<'_>, pointer: Pointer) {
        let (control, entry) = bucket::outside(tag(key.hash), pointer, key.hash);
        self.slot(spot, control, 0).copy_from_slice(&entry);
        self.put_control(spot, control);
    }

    /// Gives a long entry that stays as long as it is another value in its own object, of which the bucket
    /// need not know; gives its version. None if it is not one.
    fn replace_outside(&mut self, spot: Spot, key: &[u8], value: &[u8], expires: u64) -> Option<u64> {
        let (pointer, version) = spot.outside?;
        let outside = Outside { expires, key, value };
        if outside.len() != pointer.bytes as usize {
            return None;
        }
        let fill = |body: &mut [u8]| outside.write_to(body);
        let next = self.heap.replace_filled(pointer.address, version, pointer.incarnation, fill).ok()?;
        Some(outside_version(pointer.address, next))
    }

    /// Makes the object of a long entry.
    fn make_outside(&mut self, key: &[u8], value: &[u8], expires: u64) -> Option<Made> {
        if key.len() + value.len() > OUTSIDE_BYTES_MAX {
            return None;
        }
        let outside = Outside { expires, key, value };
        let bytes = outside.len();
        let place = self.heap.reserve(bytes, Some(self.segment.address), self.shape.purpose).ok()?;
        match self.heap.create_filled(place.address, bytes, |body| outside.write_to(body)) {
            Ok(version) => Some(Made { place, bytes, version }),
            Err(_) => {
                let _ = self.heap.release(place.address);
                None
            }
        }
    }

    /// Frees the object of a long entry that no bucket speaks of.
    fn drop_outside(&mut self, pointer: Pointer, version: u64) {
        // Nobody holds it: it was found so, or made, just now.
        let freed = self.heap.discard(pointer.address, version, pointer.incarnation);
        debug_assert!(freed.is_ok(), "an entry's object that nobody holds: {freed:?}");
    }
}

/// A long entry's new object.
struct Made {
    place: Reserved,
    bytes: usize,
    version: u64,
}

impl Made {
    fn pointer(&self) -> Pointer {
        let Reserved { address, incarnation, .. } = self.place;
        Pointer { address, bytes: self.bytes as u32, incarnation }
    }
}
