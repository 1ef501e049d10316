//! Buckets and overflow blocks, as bytes: the bodies of heap objects.
//!
//! ```text
//! bucket    joint versions (2 x 2) | chain (8) | a control word for each slot (4) | slots
//! overflow                                       a control word for each slot (4) | slots
//! control   tag 8 | length of the key 7, expires 1 | length of the value 8 | age 8
//! slot      [when it expires 8] key value         what lies in the slot, or
//!           fat pointer 16, hash 8                what lies in an object of its own
//! outside   when it expires 8 | length of the key 4 | 0 4 | key | value
//! ```
//!
//! What always holds: a control word of 0 is a free slot; whatever the bytes are, reading them ends in
//! an entry within them or in none.

use super::shape::Shape;
use crate::hash::{hash, remix};
use barn_layout::{Address, planted};
use barn_transaction::Pointer;

/// Bytes of a bucket before its control words.
pub(super) const HEAD_BYTES: usize = 12;
/// Bytes of a control word.
pub(super) const CONTROL_BYTES: usize = 4;
/// Bytes of a slot whose entry lies elsewhere.
pub(super) const OUTSIDE_SLOT_BYTES: usize = 24;
/// The longest key in a slot.
pub(super) const INLINE_KEY_MAX: usize = 126;
/// The most slots of an overflow block: its pointer has four bits for their number.
pub(super) const CHAIN_SLOTS_MAX: usize = 15;

const KEY_OUTSIDE: u8 = 127;
const VALUE_OUTSIDE: u8 = 255;

/// The control word of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control(pub(super) u32);

impl Control {
    pub(super) const FREE: Self = Self(0);

    #[inline]
    pub(super) fn new(tag: u8, key_bytes: u8, expires: bool, value_bytes: u8, age: u8) -> Self {
        let key = key_bytes & 127 | u8::from(expires) << 7;
        Self(u32::from_le_bytes([tag, key, value_bytes, age]))
    }

    #[inline]
    pub(super) fn tag(self) -> u8 {
        self.0 as u8
    }

    #[inline]
    pub(super) fn is_free(self) -> bool {
        self.tag() == 0
    }

    #[inline]
    pub(super) fn key_bytes(self) -> usize {
        (self.0 >> 8 & 127) as usize
    }

    #[inline]
    pub(super) fn has_expiry(self) -> bool {
        self.0 >> 15 & 1 == 1
    }

    #[inline]
    pub(super) fn value_bytes(self) -> usize {
        (self.0 >> 16 & 255) as usize
    }

    #[inline]
    pub(super) fn is_outside(self) -> bool {
        self.value_bytes() == usize::from(VALUE_OUTSIDE)
    }

    /// Whether it is of an entry that lies in its slot, never expires, and has a key of so many bytes.
    #[inline(always)]
    pub(super) fn is_plain_of(self, key_bytes: usize) -> bool {
        // A longer key would be taken for a shorter one and a time.
        let fits = key_bytes <= INLINE_KEY_MAX || planted("long_key_for_a_time");
        fits && (self.0 >> 8 & 255) as usize == key_bytes && !self.is_outside()
    }

    #[inline]
    pub(super) fn age(self) -> u8 {
        (self.0 >> 24) as u8
    }

    #[inline]
    pub(super) fn with_age(self, age: u8) -> Self {
        Self(self.0 & 0x00ff_ffff | u32::from(age) << 24)
    }

    /// How many bytes of its slot an entry has.
    #[inline]
    pub(super) fn slot_bytes(self) -> usize {
        match self.is_outside() {
            true => OUTSIDE_SLOT_BYTES,
            false => self.key_at() + self.key_bytes() + self.value_bytes(),
        }
    }

    /// Where the key of an entry starts that lies in its slot: when it expires comes first.
    #[inline]
    pub(super) fn key_at(self) -> usize {
        usize::from(self.has_expiry()) * 8
    }
}

/// The tag of a hash: never that of a free slot. Not from the bits that choose segment and bucket.
#[inline]
pub(super) fn tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// An entry as it lies in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry<'a> {
    /// All of it.
    Inline {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When it expires; 0 for never.
        expires: u64,
    },
    /// Where it is.
    Outside {
        /// The object.
        pointer: Pointer,
        /// The key's hash.
        hash: u64,
    },
}

impl<'a> Entry<'a> {
    /// The entry that a control word and its slot hold; none if they do not fit together.
    #[inline]
    pub(super) fn parse(control: Control, slot: &'a [u8]) -> Option<Self> {
        let bytes = slot.get(..control.slot_bytes())?;
        if control.is_outside() {
            let (address, rest) = bytes.split_first_chunk::<8>()?;
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let (incarnation, rest) = rest.split_first_chunk::<4>()?;
            let pointer = Pointer {
                address: Address::from_bits(u64::from_le_bytes(*address)),
                bytes: u32::from_le_bytes(*length),
                incarnation: u32::from_le_bytes(*incarnation),
            };
            return Some(Self::Outside { pointer, hash: u64::from_le_bytes(*rest.first_chunk()?) });
        }
        let (expires, rest) = bytes.split_at_checked(control.key_at())?;
        let expires = expires.first_chunk().map_or(0, |expires| u64::from_le_bytes(*expires));
        let (key, value) = rest.split_at_checked(control.key_bytes())?;
        Some(Self::Inline { key, value, expires })
    }

    /// The hash of the entry's key.
    #[inline]
    pub(super) fn hash(&self, seed: u64) -> u64 {
        match self {
            Self::Inline { key, .. } => hash(seed, key),
            Self::Outside { hash, .. } => *hash,
        }
    }
}

/// A pointer to an overflow block: in the region of its bucket, and of so many slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) offset: u32,
    pub(super) slots: usize,
    pub(super) incarnation: u32,
}

impl Chain {
    #[inline]
    pub(super) fn from_bits(bits: u64) -> Option<Self> {
        let low = bits as u32;
        let slots = (low >> 28) as usize;
        (slots > 0).then_some(Self { offset: low << 4 >> 1, slots, incarnation: (bits >> 32) as u32 })
    }

    pub(super) fn to_bits(self) -> u64 {
        u64::from((self.offset / 8) | ((self.slots as u32) << 28)) | (u64::from(self.incarnation) << 32)
    }

    /// The pointer, for a bucket that lies there.
    pub(super) fn pointer(self, bucket: Address, shape: &Shape) -> Pointer {
        Pointer {
            address: Address::new(bucket.region(), self.offset),
            bytes: shape.chain_bytes(self.slots) as u32,
            incarnation: self.incarnation,
        }
    }
}

/// The slots of a bucket or of an overflow block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots<'a> {
    bytes: &'a [u8],
    /// Where the control words start.
    start: usize,
    count: usize,
    slot_bytes: usize,
}

/// Where the slots of an object start whose control words start at `start`: at a whole word.
#[inline]
pub(super) const fn slots_at(start: usize, count: usize) -> usize {
    (start + count * CONTROL_BYTES).next_multiple_of(8)
}

impl<'a> Slots<'a> {
    /// Those of a bucket's body.
    #[inline]
    pub(super) fn of_bucket(body: &'a [u8], shape: &Shape) -> Self {
        Self { bytes: body, start: HEAD_BYTES, count: shape.slots, slot_bytes: shape.slot_bytes }
    }

    /// Those of an overflow block's body.
    pub(super) fn of_chain(body: &'a [u8], shape: &Shape) -> Self {
        let count = shape.chain_slots(body.len());
        Self { bytes: body, start: 0, count, slot_bytes: shape.slot_bytes }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn control(&self, at: usize) -> Control {
        let bytes = &self.bytes[self.start + at * CONTROL_BYTES..][..CONTROL_BYTES];
        Control(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> &'a [u8] {
        let start = slots_at(self.start, self.count) + at * self.slot_bytes;
        &self.bytes[start..start + self.slot_bytes]
    }

    /// A slot's entry; none if the slot is free.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<(Control, Entry<'a>)> {
        let control = self.control(at);
        if control.is_free() {
            return None;
        }
        Some((control, Entry::parse(control, self.slot(at))?))
    }

    pub(super) fn free(&self) -> Option<usize> {
        (0..self.count).find(|at| self.control(*at).is_free())
    }
}

/// The joint version with the bucket before.
pub(super) fn joint_back(body: &[u8]) -> u16 {
    u16::from_le_bytes([body[0], body[1]])
}

/// The joint version with the bucket after.
pub(super) fn joint_forward(body: &[u8]) -> u16 {
    u16::from_le_bytes([body[2], body[3]])
}

pub(super) fn bump_joint_back(body: &mut [u8]) {
    let next = joint_back(body).wrapping_add(1).to_le_bytes();
    body[..2].copy_from_slice(&next);
}

pub(super) fn bump_joint_forward(body: &mut [u8]) {
    let next = joint_forward(body).wrapping_add(1).to_le_bytes();
    body[2..4].copy_from_slice(&next);
}

/// A bucket's overflow block.
pub(super) fn chain(body: &[u8]) -> Option<Chain> {
    Chain::from_bits(u64::from_le_bytes(*body[4..].first_chunk()?))
}

pub(super) fn set_chain(body: &mut [u8], chain: Option<Chain>) {
    let bits = chain.map_or(0, Chain::to_bits);
    body[4..12].copy_from_slice(&bits.to_le_bytes());
}

/// Puts an entry into a slot. `start` is where the control words start.
pub(super) fn put(
    body: &mut [u8],
    start: usize,
    count: usize,
    shape: &Shape,
    at: usize,
    control: Control,
    entry: &[u8],
) {
    let control_at = start + at * CONTROL_BYTES;
    body[control_at..control_at + CONTROL_BYTES].copy_from_slice(&control.0.to_le_bytes());
    let slot = slots_at(start, count) + at * shape.slot_bytes;
    body[slot..slot + entry.len()].copy_from_slice(entry);
    // What was there before is nobody's business.
    body[slot + entry.len()..slot + shape.slot_bytes].fill(0);
}

/// Entries whose version's low byte is 256 or more behind the object's next version would be taken for
/// newer ones: they are brought to 255 behind, which gives them another version for nothing.
pub(super) fn refresh_ages(body: &mut [u8], start: usize, count: usize, next_version: u64) {
    for at in 0..count {
        let control_at = start + at * CONTROL_BYTES;
        let word = &mut body[control_at..control_at + CONTROL_BYTES];
        let control = Control(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        if !control.is_free() && control.age() == next_version as u8 {
            let oldest = (next_version as u8).wrapping_add(1);
            word.copy_from_slice(&control.with_age(oldest).0.to_le_bytes());
        }
    }
}

/// The version of an entry: it follows from where its object is and which of the object's versions
/// changed it last, so that it never comes back, wherever the entry is moved.
#[inline]
pub(super) fn entry_version(object: Address, object_version: u64, control: Control) -> u64 {
    let behind = (object_version as u8).wrapping_sub(control.age());
    let changed = object_version.wrapping_sub(u64::from(behind));
    remix(changed, object.to_bits()) | 1
}

/// The control word, but for the age, of an entry that fits a slot.
#[inline]
pub(super) fn inline_control(
    tag: u8,
    key: &[u8],
    value: &[u8],
    expires: u64,
    shape: &Shape,
) -> Option<Control> {
    let bytes = key.len() + value.len() + if expires == 0 { 0 } else { 8 };
    let fits = key.len() <= INLINE_KEY_MAX && value.len() <= shape.inline_bytes && bytes <= shape.slot_bytes;
    fits.then(|| Control::new(tag, key.len() as u8, expires != 0, value.len() as u8, 0))
}

/// An entry, ready to be put into a slot: its control word, but for the age, and its bytes.
pub(super) fn inline(
    tag: u8,
    key: &[u8],
    value: &[u8],
    expires: u64,
    shape: &Shape,
) -> Option<(Control, Vec<u8>)> {
    let control = inline_control(tag, key, value, expires, shape)?;
    let mut entry = Vec::with_capacity(control.slot_bytes());
    if expires != 0 {
        entry.extend_from_slice(&expires.to_le_bytes());
    }
    entry.extend_from_slice(key);
    entry.extend_from_slice(value);
    Some((control, entry))
}

/// The slot of an entry that lies elsewhere.
pub(super) fn outside(tag: u8, pointer: Pointer, hash: u64) -> (Control, [u8; OUTSIDE_SLOT_BYTES]) {
    let mut entry = [0; OUTSIDE_SLOT_BYTES];
    entry[..8].copy_from_slice(&pointer.address.to_bits().to_le_bytes());
    entry[8..12].copy_from_slice(&pointer.bytes.to_le_bytes());
    entry[12..16].copy_from_slice(&pointer.incarnation.to_le_bytes());
    entry[16..].copy_from_slice(&hash.to_le_bytes());
    (Control::new(tag, KEY_OUTSIDE, false, VALUE_OUTSIDE, 0), entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_plain_of_a_key_of_its_length_alone() {
        for stored in 0..=KEY_OUTSIDE {
            for (expires, value) in [(false, 0), (false, 32), (false, VALUE_OUTSIDE), (true, 0), (true, 254)]
            {
                let control = Control::new(7, stored, expires, value, 9);
                for wanted in 0..600 {
                    let plain = !expires && value != VALUE_OUTSIDE && wanted <= INLINE_KEY_MAX;
                    let is = plain && usize::from(stored) == wanted;
                    assert_eq!(control.is_plain_of(wanted), is, "{stored} {expires} {value}: {wanted}");
                }
            }
        }
    }
}
