//! Opens a shard again after a restart, from its memory and from what was written down of it.
//!
//! The first value has the whole directory: a segment for each span, those not made yet as one number for
//! each row of them. A delta has the segments that a change has put in their places, and nothing else: 44
//! bytes for a split, however long the directory is. That the directory has doubled follows from how deep
//! a segment is.
//!
//! Everything is looked at before it is used: places, depths, and every bucket's header, which is where
//! the counts come from. Counts of what has happened (gets, moves, splits) begin anew.

use super::count::count;
use super::directory::{DEPTH_MAX, Directory, PLACES_MAX, Segment, SegmentBytes};
use super::owner::{Owner, UNMADE};
use super::rebuild::Built;
use super::shape::Shape;
use crate::error::ReopenError;
use crate::node::Part;
use crate::options::TableOptions;
use crate::wire::split;
use barn_heap::{HEADER_BYTES, Heap};
use barn_layout::Address;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const WHOLE: u32 = u32::from_le_bytes(*b"hop1");
const DELTA: u32 = u32::from_le_bytes(*b"hop+");

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct WholeBytes {
    format: U32,
    base: U32,
    depth: U16,
    next_seed: U16,
}

/// A segment, and its place in a directory that is as deep as the segment.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct PlacedBytes {
    place: U32,
    segment: SegmentBytes,
}

const _: () = assert!(size_of::<PlacedBytes>() == 20);

/// Segments that have been put into their places; where each starts in the directory as it is now.
pub(super) fn delta(directory: &Directory<u32>, placed: &[(usize, Segment)]) -> Vec<u8> {
    let mut bytes = DELTA.to_le_bytes().to_vec();
    for (start, segment) in placed {
        let place = (start >> (directory.depth() - segment.depth)) as u32;
        let one = PlacedBytes { place: place.into(), segment: (*segment).into() };
        bytes.extend_from_slice(one.as_bytes());
    }
    bytes
}

/// The whole directory.
pub(super) fn remember(owner: &Owner) -> Vec<u8> {
    let directory = &owner.directory;
    let header = WholeBytes {
        format: WHOLE.into(),
        base: directory.base().into(),
        depth: u16::from(directory.depth()).into(),
        next_seed: owner.next_seed.into(),
    };
    let mut bytes = header.as_bytes().to_vec();
    let (mut place, mut unmade) = (0, 0u32);
    let flush = |bytes: &mut Vec<u8>, unmade: &mut u32| {
        if *unmade > 0 {
            bytes.extend_from_slice(unmade_row(*unmade).as_bytes());
            *unmade = 0;
        }
    };
    while let Some(number) = directory.places().get(place) {
        match owner.segments.get(*number as usize) {
            Some(segment) => {
                flush(&mut bytes, &mut unmade);
                bytes.extend_from_slice(SegmentBytes::from(*segment).as_bytes());
                place = directory.span(place, segment.depth).end;
            }
            None => {
                unmade += 1;
                place = directory.span(place, 0).end;
            }
        }
    }
    flush(&mut bytes, &mut unmade);
    bytes
}

/// So many places of the first directory that have no segment yet: no segment is at address 0.
fn unmade_row(count: u32) -> SegmentBytes {
    Segment { address: Address::from_bits(0), incarnation: count, seed: 0, depth: 0 }.into()
}

/// A directory as it was written down.
struct Written {
    directory: Directory<Option<Segment>>,
    next_seed: u16,
}

impl Written {
    fn parse(values: &[Vec<u8>], shape: &Shape) -> Result<Self, ReopenError> {
        let (whole, deltas) = values.split_first().ok_or(ReopenError::Notes("there are none"))?;
        let mut written = Self::whole(whole, shape)?;
        for delta in deltas {
            written.change(delta, shape)?;
        }
        written.check()?;
        Ok(written)
    }

    fn whole(bytes: &[u8], shape: &Shape) -> Result<Self, ReopenError> {
        let malformed = ReopenError::Notes("the first is no directory");
        let (header, rest) = split::<WholeBytes>(bytes).map_err(|_| malformed.clone())?;
        let rows = <[SegmentBytes]>::ref_from_bytes(rest).map_err(|_| malformed.clone())?;
        let (base, depth) = (header.base.get(), header.depth.get());
        let fits = depth <= u16::from(DEPTH_MAX) && u64::from(base) << depth <= PLACES_MAX;
        if header.format.get() != WHOLE || base == 0 || !fits {
            return Err(malformed);
        }
        let mut directory = Directory::new(vec![None; base as usize]);
        for _ in 0..depth {
            directory.double();
        }
        let mut place = 0;
        for row in rows {
            let (spans, segment) = match row.address.get() {
                0 => (row.incarnation.get() as usize, None),
                _ => (1, Some(sane(Segment::from(*row), shape)?)),
            };
            let segment_depth = segment.map_or(0, |segment| segment.depth);
            if u16::from(segment_depth) > depth {
                return Err(malformed);
            }
            let end = (spans << (depth - u16::from(segment_depth))).checked_add(place);
            match end.filter(|end| *end <= directory.places().len()) {
                Some(end) => directory.set(place..end, segment),
                None => return Err(malformed),
            }
            place = end.unwrap_or(place);
        }
        match place == directory.places().len() {
            true => Ok(Self { directory, next_seed: header.next_seed.get() }),
            false => Err(malformed),
        }
    }

    fn change(&mut self, bytes: &[u8], shape: &Shape) -> Result<(), ReopenError> {
        let malformed = || ReopenError::Notes("a later one is no change of a directory");
        let (format, rest) = split::<U32>(bytes).map_err(|_| malformed())?;
        let placed = <[PlacedBytes]>::ref_from_bytes(rest).map_err(|_| malformed())?;
        if format.get() != DELTA {
            return Err(malformed());
        }
        for placed in placed {
            let segment = sane(Segment::from(placed.segment), shape)?;
            while self.directory.depth() < segment.depth {
                if !self.directory.can_double() {
                    return Err(malformed());
                }
                self.directory.double();
            }
            let start = (placed.place.get() as usize) << (self.directory.depth() - segment.depth);
            if start >= self.directory.places().len() {
                return Err(malformed());
            }
            let span = self.directory.span(start, segment.depth);
            self.directory.set(span, Some(segment));
            self.next_seed = segment.seed.max(1);
        }
        Ok(())
    }

    /// Every segment covers its own span, all of it and nothing else.
    fn check(&self) -> Result<(), ReopenError> {
        let places = self.directory.places();
        let mut place = 0;
        while place < places.len() {
            let depth = places[place].map_or(0, |segment| segment.depth);
            let span = self.directory.span(place, depth);
            if span.start != place || places[span.clone()].iter().any(|there| *there != places[place]) {
                return Err(ReopenError::Notes("segments overlap in the directory"));
            }
            place = span.end;
        }
        Ok(())
    }
}

fn sane(segment: Segment, shape: &Shape) -> Result<Segment, ReopenError> {
    let is_sane = segment.address.to_bits() != 0 && segment.depth <= DEPTH_MAX && segment.is_sane(shape);
    is_sane.then_some(segment).ok_or(ReopenError::Notes("a segment where none can be"))
}

/// Looks whether a segment is where it is said to be, and counts what it holds.
fn look(heap: &Heap, segment: Segment, shape: &Shape) -> Result<Built, ReopenError> {
    // The first and the last: all slots of a run have one length, and the headers tell the rest.
    let ends = [0, shape.homes].map(|index| heap.capacity(segment.bucket(index, shape).address));
    if ends.iter().any(|bytes| *bytes != Ok(shape.stride - HEADER_BYTES)) {
        return Err(ReopenError::Memory("a segment is not there"));
    }
    let counted = count(heap, &segment, shape).ok_or(ReopenError::Memory("a bucket is not there"))?;
    Ok(Built { segment, counted })
}

impl Owner {
    /// Opens a shard again: `values` are what [`crate::node::Shard::remember`] once said, and the deltas
    /// since then, in order.
    pub fn reopen(
        heap: &mut Heap,
        options: &TableOptions,
        part: Part,
        values: &[Vec<u8>],
    ) -> Result<Self, ReopenError> {
        let shape = Shape::new(options);
        let Written { directory, next_seed } = Written::parse(values, &shape)?;
        let mut owner = Self::over(shape, options.seed, directory.map(|_| UNMADE));
        let mut place = 0;
        while let Some(there) = directory.places().get(place) {
            let span = directory.span(place, there.map_or(0, |segment| segment.depth));
            place = span.end;
            if let Some(segment) = there {
                let number = owner.adopt(&look(heap, *segment, &shape)?);
                owner.directory.set(span, number);
            }
        }
        let starts = owner.by_address.keys().zip(owner.by_address.keys().skip(1));
        let apart = |(one, next): (&u64, &u64)| next - one >= shape.segment_bytes() as u64;
        if owner.by_address.len() != owner.segments.len() || !starts.into_iter().all(apart) {
            return Err(ReopenError::Notes("two segments have one memory"));
        }
        owner.next_seed = next_seed;
        owner.write_down(part);
        Ok(owner)
    }
}
