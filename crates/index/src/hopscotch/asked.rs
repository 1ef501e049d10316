//! Keys that a node is asked for, all of a message at once: where their buckets are, in the owner's own lists.

use super::directory::{Directory, Segment};
use super::group::Sought;
use super::in_place::Place;
use super::shape::Shape;
use crate::key::Key;
use barn_fabric::Words;
use barn_heap::Heap;
use barn_layout::RegionId;
use std::cell::Cell;

/// A segment, and where in its region a bucket is: eight bytes, which stay in registers on their way. More would go
/// through memory, and be loaded again before they are there.
#[derive(Clone, Copy, Default)]
pub(super) struct Spot {
    number: u32,
    at: u32,
}

/// Keys that a request asks for.
pub(super) struct Asked<'a> {
    heap: &'a Heap,
    directory: &'a Directory<u32>,
    segments: &'a [Segment],
    shape: &'a Shape,
    seed: u64,
    keys: &'a [&'a [u8]],
    /// The region that the last key was in.
    last: Cell<Option<(RegionId, &'a Words)>>,
}

impl<'a> Asked<'a> {
    /// Keys of a table with this seed, in segments that the directory has by number.
    #[inline(always)]
    pub(super) fn of(
        heap: &'a Heap,
        (directory, segments, shape): (&'a Directory<u32>, &'a [Segment], &'a Shape),
        (seed, keys): (u64, &'a [&'a [u8]]),
    ) -> Self {
        Self { heap, directory, segments, shape, seed, keys, last: Cell::new(None) }
    }

    #[inline(always)]
    fn words(&self, region: RegionId) -> Option<&'a Words> {
        match self.last.get() {
            Some((last, words)) if last == region => Some(words),
            _ => {
                let words = self.heap.words(region)?;
                self.last.set(Some((region, words)));
                Some(words)
            }
        }
    }
}

impl<'m> Sought<'m> for Asked<'m> {
    type Aim = Spot;
    type Error = ();

    #[inline(always)]
    fn key(&self, at: usize) -> Key<'_> {
        Key::new(self.seed, self.keys[at])
    }

    #[inline(always)]
    fn aim(&self, key: &Key<'_>) -> Spot {
        let number = self.directory.get(key.hash);
        let Some(segment) = self.segments.get(number as usize) else { return Spot { number, at: 0 } };
        let at = segment.offset(self.shape.home(key.hash, segment.seed), self.shape);
        if let Some(words) = self.words(segment.address.region()) {
            words.whereabouts().prefetch_head(at);
        }
        Spot { number, at: at as u32 }
    }

    #[inline(always)]
    fn place(&self, Spot { number, at }: Spot) -> Result<Option<Place<'m>>, ()> {
        let Some(segment) = self.segments.get(number as usize) else { return Ok(None) };
        let region = segment.address.region();
        Ok(self.words(region).map(|words| Place::at(words, region, at, segment.incarnation)))
    }

    fn nowhere(&self) {}
}
