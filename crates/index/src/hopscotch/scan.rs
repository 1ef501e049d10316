//! Going through a segment's keys in the order of their hashes, for scans.
//!
//! Where a key lies in its segment changes with each split and each new seed; its hash does not. In this
//! order a page may end anywhere, and the next one goes on behind it whatever became of the segment
//! meanwhile: what is there all the time is met once. What it costs is that each page looks at the whole
//! segment, which is about as long as a page.

use super::bucket::{self, Control, Entry, Slots};
use super::directory::Segment;
use super::shape::Shape;
use barn_heap::{Heap, ObjectError};
use barn_layout::Address;
use std::ops::Range;

/// A bucket, or an overflow block.
#[derive(Debug)]
struct Object {
    address: Address,
    version: u64,
    /// Where its body is among all of them.
    body: Range<usize>,
    is_chain: bool,
}

/// An entry: its hash, and which slot of which object it is in.
type Place = (u64, usize, usize);

/// What a segment holds from some hash on.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    bodies: Vec<u8>,
    objects: Vec<Object>,
    places: Vec<Place>,
}

impl InOrder {
    /// Takes in what a segment holds whose hash is `from` or greater.
    pub(super) fn gather(
        &mut self,
        heap: &Heap,
        segment: &Segment,
        shape: &Shape,
        (seed, from): (u64, u64),
    ) -> Result<(), ObjectError> {
        let Self { bodies, objects, places } = self;
        bodies.clear();
        objects.clear();
        places.clear();
        let mut body = Vec::new();
        for index in 0..=shape.homes {
            let mut next = Some((segment.bucket(index, shape), false));
            while let Some((pointer, is_chain)) = next.take() {
                let header = heap.read(pointer.address, &mut body)?;
                let slots = slots_of(&body, shape, is_chain);
                let entries = (0..slots.count()).filter_map(|at| Some((slots.entry(at)?.1.hash(seed), at)));
                places.extend(
                    entries.filter(|(hash, _)| *hash >= from).map(|(hash, at)| (hash, objects.len(), at)),
                );
                if let Some(chain) = bucket::chain(&body).filter(|_| !is_chain) {
                    next = Some((chain.pointer(pointer.address, shape), true));
                }
                let version = header.word.version();
                let start = bodies.len();
                bodies.extend_from_slice(&body);
                objects.push(Object {
                    address: pointer.address,
                    version,
                    body: start..bodies.len(),
                    is_chain,
                });
            }
        }
        places.sort_unstable();
        Ok(())
    }

    /// The entries, in the order of their hashes: hash, address and version of their object, and themselves.
    pub(super) fn entries<'a>(
        &'a self,
        shape: &'a Shape,
    ) -> impl Iterator<Item = (u64, (Address, u64), Control, Entry<'a>)> {
        self.places.iter().filter_map(|&(hash, object, at)| {
            let Object { address, version, ref body, is_chain } = self.objects[object];
            let (control, entry) = slots_of(&self.bodies[body.clone()], shape, is_chain).entry(at)?;
            Some((hash, (address, version), control, entry))
        })
    }
}

fn slots_of<'a>(body: &'a [u8], shape: &'a Shape, is_chain: bool) -> Slots<'a> {
    match is_chain {
        true => Slots::of_chain(body, shape),
        false => Slots::of_bucket(body, shape),
    }
}
