//! An object at hand: brought once, looked at and changed as plain bytes, and put back.
//!
//! What always holds:
//! - what is put back is what was brought but for the ranges that were asked for to be changed: only
//!   they are stored and recorded, and nothing has to be compared to find out what they are;
//! - an object that has changed, was locked or was freed since it was brought is not put back.

use super::{Heap, Slot};
use crate::error::ObjectError;
use crate::object::{HEADER_BYTES, Header, PREFIX_BYTES, publish};
use barn_layout::limits::WORD_BYTES;
use barn_layout::object::LockMode;
use barn_layout::{Address, planted};
use std::ops::Range;

/// Changes that begin before this are recorded together with the object's header, in one piece: what
/// lies between costs less than an entry of its own.
const HEAD_BYTES_MAX: usize = 64;

/// A copy of an object. It keeps its memory for the next.
#[derive(Debug, Default)]
pub struct Image {
    of: Option<(Address, Slot, Header)>,
    /// Room for what the checksum covers besides, then the body in whole words.
    bytes: Vec<u8>,
    /// How much of the body's beginning has changed.
    head: usize,
    /// What else has: whole words.
    rest: Range<usize>,
}

impl Image {
    /// The object's bytes.
    #[inline]
    pub fn body(&self) -> &[u8] {
        let bytes = self.of.map_or(0, |(_, _, header)| header.bytes);
        self.bytes.get(PREFIX_BYTES..PREFIX_BYTES + bytes).unwrap_or_default()
    }

    /// The object's bytes, of which `range` is about to be changed, and nothing else.
    #[inline]
    pub fn change(&mut self, range: Range<usize>) -> &mut [u8] {
        let bytes = self.of.map_or(0, |(_, _, header)| header.bytes);
        let (start, end) = (range.start / WORD_BYTES * WORD_BYTES, range.end.next_multiple_of(WORD_BYTES));
        if start < HEAD_BYTES_MAX {
            self.head = self.head.max(end);
        } else if self.rest.is_empty() {
            self.rest = start..end;
        } else {
            self.rest = start.min(self.rest.start)..end.max(self.rest.end);
        }
        &mut self.bytes[PREFIX_BYTES..][..bytes]
    }

    /// The ranges that have changed.
    #[inline]
    fn changed(&self) -> [&[u8]; 2] {
        let body = &self.bytes[PREFIX_BYTES..];
        [&body[..self.head], &body[self.rest.clone()]]
    }
}

impl Heap {
    /// Brings an object, as its owner may without looking twice.
    #[inline]
    pub fn bring(&self, address: Address, image: &mut Image) -> Result<Header, ObjectError> {
        image.of = None;
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        if !header.allocated {
            return Err(ObjectError::Freed);
        }
        let end = PREFIX_BYTES + header.bytes.next_multiple_of(WORD_BYTES);
        if image.bytes.len() != end {
            image.bytes.resize(end, 0);
        }
        let into = &mut image.bytes[PREFIX_BYTES..];
        self.regions[slot.region].words.load(slot.offset + HEADER_BYTES as u64, into)?;
        (image.head, image.rest) = (0, 0..0);
        image.of = Some((address, slot, header));
        Ok(header)
    }

    /// Gives the object that was brought the bytes that the image has now; gives its new version.
    pub fn put_back(&mut self, image: &mut Image) -> Result<u64, ObjectError> {
        let (address, slot, header) = image.of.take().ok_or(ObjectError::NotAnObject)?;
        let now = self.header_at(slot)?;
        if now.word.mode() != LockMode::Free && !planted("heap_replaces_held") {
            return Err(ObjectError::Locked);
        }
        if !now.allocated || now.incarnation != header.incarnation {
            return Err(ObjectError::Freed);
        }
        let version = now.word.version();
        if version != header.word.version() {
            return Err(ObjectError::Changed { version });
        }
        let bytes = &mut image.bytes[..PREFIX_BYTES + header.bytes];
        let head = publish::Head::behind_prefix(address, version + 1, header.incarnation, bytes);
        let rest = image.rest.start as u64;
        let [first, second] = image.changed();
        let words = &self.regions[slot.region].words;
        publish::put_parts(words, address, &head, [(0, first), (rest, second)])?;
        self.recorded_parts(slot, &head, first, (rest, second));
        Ok(version + 1)
    }
}
