//! A node of the tree, as bytes: what is in it, and where.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | level: 0 for a leaf |
//! | 2 | how many entries |
//! | 4 | where the first of them begins: they lie at the end, in no order |
//! | 6 | bytes among them that nobody uses any more |
//! | 8, 10 | the lengths of the two fences |
//! | 12, 28 | which table it is of, and which shard |
//! | 16, 24 | the next node of the level: address and incarnation |
//! | 32 | the fences, then where each entry is, in the order of the keys |
//!
//! What always holds: keys are at least the low fence and less than the high one, and ascend; an inner node's
//! first key is its low fence. Whatever the bytes are, looking at them ends in a value or in nothing.

use barn_heap::HEADER_BYTES;
use barn_layout::Address;
use barn_transaction::Pointer;

/// The length of a node: 1 KiB with the object's header, as in Cell (section 3.1).
pub(super) const NODE_BYTES: usize = 1024 - HEADER_BYTES;
/// The longest key: of the longest a node still has four.
pub const KEY_BYTES_MAX: usize = 128;
/// The longest entry, so that a node has room for two of them whatever its fences are.
pub(super) const ENTRY_BYTES_MAX: usize = 300;

pub(super) const HEAD_BYTES: usize = 32;
pub(super) const SLOT_BYTES: usize = 2;
/// The length of a high fence that is none: there is no greater node.
const NO_FENCE: u16 = u16::MAX;

const _: () =
    assert!(HEAD_BYTES + 2 * KEY_BYTES_MAX + 2 * (ENTRY_BYTES_MAX + SLOT_BYTES) + SLOT_BYTES <= NODE_BYTES);

/// What an entry's first byte says: it has a time at which it expires.
const EXPIRES: u8 = 1;
/// Its value lies in an object of its own.
const OUTSIDE: u8 = 2;
/// It is an inner node's.
const CHILD: u8 = 4;

const POINTER_BYTES: usize = 16;

pub(super) fn u16_at(body: &[u8], at: usize) -> Option<u16> {
    body.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(body: &[u8], at: usize) -> Option<u32> {
    body.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(body: &[u8], at: usize) -> Option<u64> {
    body.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Which shard a node is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) table: u32,
    pub(super) shard: u16,
}

/// A pointer to a node: all are as long as each other.
pub(super) fn node_at(address: Address, incarnation: u32) -> Pointer {
    Pointer { address, bytes: NODE_BYTES as u32, incarnation }
}

fn pointer_bytes(pointer: Pointer) -> [u8; POINTER_BYTES] {
    let mut bytes = [0; POINTER_BYTES];
    bytes[..8].copy_from_slice(&pointer.address.to_bits().to_le_bytes());
    bytes[8..12].copy_from_slice(&pointer.bytes.to_le_bytes());
    bytes[12..].copy_from_slice(&pointer.incarnation.to_le_bytes());
    bytes
}

fn parse_pointer(bytes: &[u8]) -> Option<Pointer> {
    if bytes.len() != POINTER_BYTES {
        return None;
    }
    let address = Address::from_bits(u64_at(bytes, 0)?);
    Some(Pointer { address, bytes: u32_at(bytes, 8)?, incarnation: u32_at(bytes, 12)? })
}

/// What an entry holds besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// A value.
    Inline { version: u64, expires: u64, value: &'a [u8] },
    /// Where the value is, with its expiry.
    Outside { version: u64, pointer: Pointer },
    /// The node below: for keys from this one to the next.
    Child(Pointer),
}

/// An entry of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    pub(super) content: Content<'a>,
}

impl<'a> Entry<'a> {
    /// How long it is as bytes.
    pub(super) fn bytes(&self) -> usize {
        4 + self.key.len()
            + match self.content {
                Content::Inline { expires: 0, value, .. } => 8 + value.len(),
                Content::Inline { value, .. } => 16 + value.len(),
                Content::Outside { .. } => 8 + POINTER_BYTES,
                Content::Child(_) => POINTER_BYTES,
            }
    }

    /// As it lies in a node.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let pointer;
        let (flags, version, expires, value) = match self.content {
            Content::Inline { version, expires, value } => {
                (if expires == 0 { 0 } else { EXPIRES }, Some(version), expires, value)
            }
            Content::Outside { version, pointer: there } => {
                pointer = pointer_bytes(there);
                (OUTSIDE, Some(version), 0, &pointer[..])
            }
            Content::Child(there) => {
                pointer = pointer_bytes(there);
                (CHILD, None, 0, &pointer[..])
            }
        };
        to.extend_from_slice(&[flags, self.key.len() as u8]);
        to.extend_from_slice(&(value.len() as u16).to_le_bytes());
        if let Some(version) = version {
            to.extend_from_slice(&version.to_le_bytes());
        }
        if flags & EXPIRES != 0 {
            to.extend_from_slice(&expires.to_le_bytes());
        }
        to.extend_from_slice(self.key);
        to.extend_from_slice(value);
    }

    /// The entry that begins here.
    #[inline]
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (flags, key_bytes) = (head[0], usize::from(head[1]));
        let value_bytes = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let ahead = head_bytes(flags) - 4;
        let (numbers, rest) = rest.split_at_checked(ahead)?;
        let (key, rest) = rest.split_at_checked(key_bytes)?;
        let value = rest.get(..value_bytes)?;
        let content = match flags {
            CHILD => Content::Child(parse_pointer(value)?),
            OUTSIDE => Content::Outside { version: u64_at(numbers, 0)?, pointer: parse_pointer(value)? },
            0 | EXPIRES => {
                let expires = if flags == EXPIRES { u64_at(numbers, 8)? } else { 0 };
                Content::Inline { version: u64_at(numbers, 0)?, expires, value }
            }
            _ => return None,
        };
        Some(Self { key, content })
    }

    /// Bytes of its key and value.
    pub(super) fn payload(&self) -> u64 {
        match self.content {
            Content::Inline { value, .. } => (self.key.len() + value.len()) as u64,
            Content::Outside { pointer, .. } => {
                u64::from(pointer.bytes).saturating_sub(crate::outside::OUTSIDE_HEAD_BYTES as u64)
            }
            Content::Child(_) => 0,
        }
    }
}

/// Bytes of an entry before its key.
fn head_bytes(flags: u8) -> usize {
    match (flags & CHILD != 0, flags & EXPIRES != 0) {
        (true, _) => 4,
        (false, false) => 12,
        (false, true) => 20,
    }
}

/// A node to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) body: &'a [u8],
    pub(super) count: usize,
    /// Where the slots begin.
    pub(super) slots: usize,
}

impl<'a> Node<'a> {
    /// A node of a shard; none if these are not the bytes of one.
    #[inline]
    pub(super) fn parse(body: &'a [u8], whose: Whose) -> Option<Self> {
        let is_ours =
            body.len() == NODE_BYTES && u32_at(body, 12)? == whose.table && u16_at(body, 28)? == whose.shard;
        if !is_ours {
            return None;
        }
        let (count, slots) = (usize::from(u16_at(body, 2)?), slots_at(body)?);
        (slots + count * SLOT_BYTES <= NODE_BYTES).then_some(Self { body, count, slots })
    }

    #[inline]
    pub(super) fn level(&self) -> u8 {
        self.body[0]
    }

    /// The least key that it may have.
    #[inline]
    pub(super) fn low(&self) -> &'a [u8] {
        let bytes = usize::from(u16_at(self.body, 8).unwrap_or(0));
        self.body.get(HEAD_BYTES..HEAD_BYTES + bytes).unwrap_or_default()
    }

    /// The least key that it may not have, unless it is the last of its level.
    #[inline]
    pub(super) fn high(&self) -> Option<&'a [u8]> {
        let bytes = u16_at(self.body, 10).filter(|bytes| *bytes != NO_FENCE)?;
        let from = HEAD_BYTES + self.low().len();
        self.body.get(from..from + usize::from(bytes))
    }

    /// The next node of its level.
    #[inline]
    pub(super) fn right(&self) -> Option<Pointer> {
        let address = u64_at(self.body, 16).filter(|address| *address != 0)?;
        Some(node_at(Address::from_bits(address), u32_at(self.body, 24)?))
    }

    /// Whether a key is less than all that it may have, one of them, or greater.
    #[inline]
    pub(super) fn place(&self, key: &[u8]) -> std::cmp::Ordering {
        if key < self.low() {
            return std::cmp::Ordering::Less;
        }
        match self.high() {
            Some(high) if key >= high => std::cmp::Ordering::Greater,
            _ => std::cmp::Ordering::Equal,
        }
    }

    /// Where an entry begins.
    #[inline]
    pub(super) fn offset(&self, at: usize) -> Option<usize> {
        u16_at(self.body, self.slots + at * SLOT_BYTES).map(usize::from)
    }

    /// An entry.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Option<Entry<'a>> {
        if at >= self.count {
            return None;
        }
        Entry::parse(self.body.get(self.offset(at)?..)?)
    }

    /// All of them; nothing in the place of one that makes no sense.
    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = Option<Entry<'a>>> + use<'a> {
        let node = *self;
        (0..self.count).map(move |at| node.entry(at))
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> Option<&'a [u8]> {
        let bytes = self.body.get(self.offset(at)?..)?;
        let (flags, key_bytes) = (*bytes.first()?, usize::from(*bytes.get(1)?));
        bytes.get(head_bytes(flags)..head_bytes(flags) + key_bytes)
    }

    /// Where a key is, or where it would be.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> Option<Result<usize, usize>> {
        let (mut from, mut to) = (0, self.count);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.key(middle)?.cmp(key) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Some(Ok(middle)),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Some(Err(from))
    }

    /// The node below for a key, and which entry says so.
    #[inline]
    pub(super) fn child(&self, key: &[u8]) -> Option<(usize, Pointer)> {
        let at = match self.search(key)? {
            Ok(at) => at,
            Err(at) => at.checked_sub(1)?,
        };
        match self.entry(at)?.content {
            Content::Child(pointer) => Some((at, pointer)),
            _ => None,
        }
    }

    /// Bytes of its entries, with their slots.
    pub(super) fn used(&self) -> usize {
        let start = usize::from(u16_at(self.body, 4).unwrap_or(0));
        let dead = usize::from(u16_at(self.body, 6).unwrap_or(0));
        NODE_BYTES.saturating_sub(start + dead) + self.count * SLOT_BYTES
    }

    /// Bytes for entries and their slots, used or not.
    pub(super) fn capacity(&self) -> usize {
        NODE_BYTES - self.slots
    }
}

/// Where the slots of a node begin.
fn slots_at(body: &[u8]) -> Option<usize> {
    let low = usize::from(u16_at(body, 8)?);
    let high = match u16_at(body, 10)? {
        NO_FENCE => 0,
        bytes => usize::from(bytes),
    };
    Some((HEAD_BYTES + low + high).next_multiple_of(SLOT_BYTES))
}

/// A node to be made.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) whose: Whose,
    pub(super) level: u8,
    pub(super) low: &'a [u8],
    pub(super) high: Option<&'a [u8]>,
    pub(super) right: Option<Pointer>,
    pub(super) entries: Vec<Entry<'a>>,
}

impl<'a> Plan<'a> {
    /// As a node is; none if any of it makes no sense.
    pub(super) fn of(node: Node<'a>, whose: Whose) -> Option<Self> {
        Some(Self {
            whose,
            level: node.level(),
            low: node.low(),
            high: node.high(),
            right: node.right(),
            entries: node.entries().collect::<Option<Vec<_>>>()?,
        })
    }

    /// The bytes; none if they are too many.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut body = vec![0; NODE_BYTES];
        body[0] = self.level;
        let high = self.high.map_or(NO_FENCE, |high| high.len() as u16);
        body[2..4].copy_from_slice(&(self.entries.len() as u16).to_le_bytes());
        body[8..10].copy_from_slice(&(self.low.len() as u16).to_le_bytes());
        body[10..12].copy_from_slice(&high.to_le_bytes());
        body[12..16].copy_from_slice(&self.whose.table.to_le_bytes());
        body[28..30].copy_from_slice(&self.whose.shard.to_le_bytes());
        if let Some(right) = self.right {
            body[16..24].copy_from_slice(&right.address.to_bits().to_le_bytes());
            body[24..28].copy_from_slice(&right.incarnation.to_le_bytes());
        }
        let fences = [self.low, self.high.unwrap_or_default()].concat();
        body.get_mut(HEAD_BYTES..HEAD_BYTES + fences.len())?.copy_from_slice(&fences);
        let slots = slots_at(&body)?;
        let (mut start, mut entry) = (NODE_BYTES, Vec::new());
        for (at, planned) in self.entries.iter().enumerate() {
            entry.clear();
            planned.write(&mut entry);
            start = start.checked_sub(entry.len())?;
            let slot = slots + at * SLOT_BYTES;
            if slot + SLOT_BYTES > start {
                return None;
            }
            body[start..start + entry.len()].copy_from_slice(&entry);
            body[slot..slot + SLOT_BYTES].copy_from_slice(&(start as u16).to_le_bytes());
        }
        body[4..6].copy_from_slice(&(start as u16).to_le_bytes());
        Some(body)
    }
}
