//! Which segment holds a hash: extendible hashing over a number of first segments.
//!
//! A shard begins with `base` segments, any number; each covers an equal part of all hashes. One that
//! is full is split in two, each with half of its part. The directory has `base << depth` places, as
//! many as the deepest segment needs; one that is less deep has several.

use super::shape::Shape;
use crate::hash::scale;
use crate::wire::{Malformed, split};
use barn_heap::HEADER_BYTES;
use barn_layout::Address;
use barn_transaction::Pointer;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The deepest that a segment can be.
pub(super) const DEPTH_MAX: u8 = 24;
/// The most places of a directory: 2^24 segments of 64 KiB are 1 TiB.
pub(super) const PLACES_MAX: u64 = 1 << 24;

/// A segment: an array of buckets that were all made at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The first bucket.
    pub(super) address: Address,
    /// The incarnation of all of its buckets.
    pub(super) incarnation: u32,
    /// What the homes of hashes follow from.
    pub(super) seed: u16,
    /// How often it has been split off.
    pub(super) depth: u8,
}

impl Segment {
    /// A bucket.
    #[inline]
    pub(super) fn bucket(&self, index: usize, shape: &Shape) -> Pointer {
        let offset = self.address.offset() + (index * shape.stride) as u32;
        Pointer {
            address: Address::new(self.address.region(), offset),
            bytes: shape.bucket_bytes as u32,
            incarnation: self.incarnation,
        }
    }

    /// Where a bucket's header is.
    #[inline(always)]
    pub(super) fn address_of(&self, index: usize, shape: &Shape) -> Address {
        // Of what is sane all of it lies within the region.
        Address::from_bits(self.address.to_bits() + (index * shape.stride) as u64)
    }

    /// Where a bucket's header starts, in its region.
    #[inline]
    pub(super) fn offset(&self, index: usize, shape: &Shape) -> u64 {
        u64::from(self.address.offset()) + (index * shape.stride) as u64
    }
}

/// The directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory<T> {
    base: u32,
    depth: u8,
    places: Vec<T>,
}

impl<T: Copy> Directory<T> {
    pub(super) fn new(segments: Vec<T>) -> Self {
        Self { base: segments.len() as u32, depth: 0, places: segments }
    }

    /// The place of a hash.
    #[inline]
    pub(super) fn place(&self, hash: u64) -> usize {
        scale(hash, self.places.len() as u64) as usize
    }

    #[inline]
    pub(super) fn get(&self, hash: u64) -> T {
        self.places[self.place(hash)]
    }

    pub(super) fn depth(&self) -> u8 {
        self.depth
    }

    pub(super) fn base(&self) -> u32 {
        self.base
    }

    pub(super) fn places(&self) -> &[T] {
        &self.places
    }

    /// The places of a segment of `depth` that covers the hash at `place`.
    pub(super) fn span(&self, place: usize, depth: u8) -> std::ops::Range<usize> {
        let wide = 1usize << (self.depth - depth.min(self.depth));
        let first = place / wide * wide;
        first..first + wide
    }

    /// Puts a segment at all places of a span.
    pub(super) fn set(&mut self, span: std::ops::Range<usize>, segment: T) {
        self.places[span].fill(segment);
    }

    /// A directory of the same form, of whatever `of` makes of its places, in their order.
    pub(super) fn map<U>(&self, of: impl FnMut(&T) -> U) -> Directory<U> {
        Directory { base: self.base, depth: self.depth, places: self.places.iter().map(of).collect() }
    }

    /// Whether it can be twice as long.
    pub(super) fn can_double(&self) -> bool {
        self.depth < DEPTH_MAX && (self.places.len() as u64) * 2 <= PLACES_MAX
    }

    /// Makes it twice as long.
    pub(super) fn double(&mut self) {
        self.places = self.places.iter().flat_map(|segment| [*segment, *segment]).collect();
        self.depth += 1;
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct DirectoryHeader {
    base: U32,
    depth: U32,
    /// The place of the first segment that follows.
    first: U32,
    /// How many segments follow.
    count: U32,
}

/// A segment as a node sends it, and as its log keeps it.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct SegmentBytes {
    pub(super) address: U64,
    pub(super) incarnation: U32,
    seed: U16,
    depth: u8,
    reserved: u8,
}

impl From<Segment> for SegmentBytes {
    fn from(segment: Segment) -> Self {
        Self {
            address: segment.address.to_bits().into(),
            incarnation: segment.incarnation.into(),
            seed: segment.seed.into(),
            depth: segment.depth,
            reserved: 0,
        }
    }
}

impl From<SegmentBytes> for Segment {
    fn from(bytes: SegmentBytes) -> Self {
        Self {
            address: Address::from_bits(bytes.address.get()),
            incarnation: bytes.incarnation.get(),
            seed: bytes.seed.get(),
            depth: bytes.depth,
        }
    }
}

impl Segment {
    /// Whether there can be one there, whatever the memory holds.
    pub(super) fn is_sane(&self, shape: &Shape) -> bool {
        let end = u64::from(self.address.offset()) + (shape.segment_bytes() + HEADER_BYTES) as u64;
        self.address.offset().is_multiple_of(8) && end <= u64::from(u32::MAX)
    }
}

/// A part of a directory, as a node sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    base: u32,
    depth: u8,
    first: usize,
    segments: Vec<Segment>,
}

impl Excerpt {
    /// The segments from the one at `first` on, one after the other.
    pub(super) fn new(base: u32, depth: u8, first: usize, segments: Vec<Segment>) -> Self {
        Self { base, depth, first, segments }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let header = DirectoryHeader {
            base: self.base.into(),
            depth: u32::from(self.depth).into(),
            first: (self.first as u32).into(),
            count: (self.segments.len() as u32).into(),
        };
        let mut bytes = header.as_bytes().to_vec();
        for segment in &self.segments {
            bytes.extend_from_slice(SegmentBytes::from(*segment).as_bytes());
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8], shape: &Shape) -> Result<Self, Malformed> {
        let (header, rest) = split::<DirectoryHeader>(bytes)?;
        let segments = <[SegmentBytes]>::ref_from_bytes(rest).map_err(|_| Malformed)?;
        let (base, depth) = (header.base.get(), header.depth.get());
        let places = u64::from(base).checked_shl(depth).filter(|_| depth <= u32::from(DEPTH_MAX));
        if segments.len() != header.count.get() as usize
            || base == 0
            || places.is_none_or(|it| it > PLACES_MAX)
        {
            return Err(Malformed);
        }
        let mut place = u64::from(header.first.get());
        for segment in segments {
            if u32::from(segment.depth) > depth || !Segment::from(*segment).is_sane(shape) {
                return Err(Malformed);
            }
            place += 1 << (depth - u32::from(segment.depth));
        }
        if places.is_none_or(|places| place > places) {
            return Err(Malformed);
        }
        let segments = segments.iter().map(|segment| Segment::from(*segment));
        Ok(Self {
            base,
            depth: depth as u8,
            first: header.first.get() as usize,
            segments: segments.collect(),
        })
    }

    /// The whole directory, if this is all of it.
    pub(super) fn whole(&self) -> Option<Directory<Segment>> {
        let mut places = Vec::new();
        for segment in &self.segments {
            places.resize(places.len() + (1usize << (self.depth - segment.depth)), *segment);
        }
        let all = self.first == 0 && places.len() as u64 == u64::from(self.base) << self.depth;
        all.then_some(Directory { base: self.base, depth: self.depth, places })
    }

    /// Brings a directory up to date; false if it has another length by now.
    pub(super) fn patch(&self, directory: &mut Directory<Segment>) -> bool {
        if directory.base != self.base || directory.depth != self.depth {
            return false;
        }
        let mut place = self.first;
        for segment in &self.segments {
            let end = place + (1usize << (self.depth - segment.depth));
            let Some(places) = directory.places.get_mut(place..end) else { return false };
            places.fill(*segment);
            place = end;
        }
        true
    }
}
