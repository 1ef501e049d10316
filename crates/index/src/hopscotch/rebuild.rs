//! Building segments anew: split in two when they are full, or with another seed when too many of
//! their entries lie in overflow blocks.
//!
//! All entries of a segment are known here, so that they are placed as well as they can be: in each
//! bucket those from the bucket before come first, then its own; what is left goes to the next bucket,
//! and only what finds no room there either overflows. Of several seeds the one is taken that makes
//! the fewest do.

use super::bucket::{self, CHAIN_SLOTS_MAX, Chain, Control, HEAD_BYTES, Slots};
use super::directory::Segment;
use super::owner::Counted;
use super::shape::Shape;
use crate::outside::OUTSIDE_HEAD_BYTES;
use barn_heap::{AllocError, HEADER_BYTES, Heap, ObjectError};
use barn_layout::object::LockMode;
use barn_transaction::Pointer;

/// How many seeds are tried.
const SEEDS_TRIED: u16 = 16;

/// An entry on its way from one segment to another.
#[derive(Clone, Debug)]
pub(super) struct Moving {
    pub(super) hash: u64,
    control: Control,
    slot: Vec<u8>,
}

impl Moving {
    /// Bytes of its key and value, and of the object that they lie in, if they do.
    fn bytes(&self, heap: &Heap, shape: &Shape) -> (u64, u64) {
        let mut slot = self.slot.clone();
        slot.resize(shape.slot_bytes, 0);
        match bucket::Entry::parse(self.control, &slot) {
            Some(entry) => entry_bytes(heap, entry),
            None => (0, 0),
        }
    }
}

/// Bytes of memory of an object.
pub(super) fn slot_bytes(heap: &Heap, pointer: Pointer) -> u64 {
    heap.capacity(pointer.address).map_or(0, |bytes| (bytes + HEADER_BYTES) as u64)
}

/// Bytes of an entry's key and value, and of the object that they lie in, if they do.
pub(super) fn entry_bytes(heap: &Heap, entry: bucket::Entry<'_>) -> (u64, u64) {
    match entry {
        bucket::Entry::Inline { key, value, .. } => ((key.len() + value.len()) as u64, 0),
        bucket::Entry::Outside { pointer, .. } => {
            let payload = (pointer.bytes as usize).saturating_sub(OUTSIDE_HEAD_BYTES);
            (payload as u64, slot_bytes(heap, pointer))
        }
    }
}

/// What a segment holds: its entries, and the objects that they lie in.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Moving>,
    objects: Vec<Pointer>,
}

/// A segment's contents; `None` if a transaction holds any of it.
pub(super) fn gather(heap: &Heap, segment: &Segment, shape: &Shape, seed: u64) -> Option<Contents> {
    let mut contents = Contents::default();
    let mut body = Vec::new();
    for index in 0..=shape.homes {
        let pointer = segment.bucket(index, shape);
        contents.take(heap, pointer, &mut body)?;
        contents.add(Slots::of_bucket(&body, shape), seed);
        if let Some(chain) = bucket::chain(&body) {
            contents.take(heap, chain.pointer(pointer.address, shape), &mut body)?;
            contents.add(Slots::of_chain(&body, shape), seed);
        }
    }
    Some(contents)
}

impl Contents {
    fn take(&mut self, heap: &Heap, pointer: Pointer, body: &mut Vec<u8>) -> Option<()> {
        let header = heap.read(pointer.address, body).ok()?;
        if header.incarnation != pointer.incarnation || header.word.mode() != LockMode::Free {
            return None;
        }
        self.objects.push(pointer);
        Some(())
    }

    fn add(&mut self, slots: Slots<'_>, seed: u64) {
        for at in 0..slots.count() {
            if let Some((control, entry)) = slots.entry(at) {
                let slot = slots.slot(at)[..control.slot_bytes()].to_vec();
                self.entries.push(Moving { hash: entry.hash(seed), control, slot });
            }
        }
    }

    /// Frees the objects of entries that lie outside of the segment, when all of it goes.
    pub(super) fn free_outside(&self, heap: &mut Heap, shape: &Shape) {
        for entry in &self.entries {
            let mut slot = entry.slot.clone();
            slot.resize(shape.slot_bytes, 0);
            if let Some(bucket::Entry::Outside { pointer, .. }) = bucket::Entry::parse(entry.control, &slot) {
                // A transaction that holds it finds the table gone, and the object with it.
                let _ = free(heap, pointer);
            }
        }
    }

    /// Frees the objects of a segment that has been replaced.
    pub(super) fn free(&self, heap: &mut Heap) -> Result<(), ObjectError> {
        for pointer in &self.objects {
            let header = heap.header(pointer.address)?;
            heap.lock(pointer.address, header.word.version(), pointer.incarnation)?;
            heap.free(pointer.address)?;
        }
        Ok(())
    }
}

/// How many of these hashes would overflow with a seed.
fn overflow(entries: &[Moving], shape: &Shape, seed: u16) -> usize {
    let mut homes = vec![0usize; shape.homes];
    for entry in entries {
        homes[shape.home(entry.hash, seed)] += 1;
    }
    let (mut forwarded, mut overflowed) = (0, 0);
    for own in homes {
        let left = (own + forwarded).saturating_sub(shape.slots);
        forwarded = left.min(shape.slots);
        overflowed += left - forwarded;
    }
    overflowed
}

/// The best of several seeds from `first` on, and how many entries overflow with it.
pub(super) fn best_seed(entries: &[Moving], shape: &Shape, first: u16) -> (u16, usize) {
    (0..SEEDS_TRIED)
        .map(|step| first.wrapping_add(step))
        .map(|seed| (seed, overflow(entries, shape, seed)))
        .min_by_key(|(_, overflowed)| *overflowed)
        .unwrap_or((first, 0))
}

/// A segment that was built, and what it cost.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) segment: Segment,
    pub(super) counted: Counted,
}

/// Builds a segment of these entries. Nobody knows of it yet.
pub(super) fn build(
    heap: &mut Heap,
    shape: &Shape,
    seed: u16,
    depth: u8,
    entries: &[Moving],
) -> Result<Built, AllocError> {
    let buckets = shape.homes + 1;
    let array = heap.reserve_uniform_array(shape.bucket_bytes, buckets, shape.purpose)?;
    let segment =
        Segment { address: array.slots[0].address, incarnation: array.slots[0].incarnation, seed, depth };
    let mut homes: Vec<Vec<&Moving>> = vec![Vec::new(); buckets];
    for entry in entries {
        homes[shape.home(entry.hash, seed)].push(entry);
    }
    let mut counted = Counted { keys: entries.len() as u32, ..Counted::default() };
    counted.memory = (buckets * shape.stride) as u64;
    for entry in entries {
        let (payload, memory) = entry.bytes(heap, shape);
        counted.payload += payload;
        counted.memory += memory;
    }
    let mut chains: Vec<Pointer> = Vec::new();
    let mut forwarded: Vec<&Moving> = Vec::new();
    for (index, mut own) in homes.into_iter().enumerate() {
        let mut body = vec![0; shape.bucket_bytes];
        let pointer = segment.bucket(index, shape);
        let next = version_after(heap, pointer);
        let room = shape.slots - forwarded.len();
        let stays = own.len().min(room);
        let placed = forwarded.iter().copied().chain(own.drain(..stays)).enumerate();
        for (slot, entry) in placed {
            let control = entry.control.with_age(next as u8);
            bucket::put(&mut body, HEAD_BYTES, shape.slots, shape, slot, control, &entry.slot);
        }
        forwarded = own.drain(..own.len().min(shape.slots)).collect();
        if !own.is_empty() {
            counted.overflowed += own.len() as u32;
            match build_chain(heap, shape, pointer, &own) {
                Ok((chain, block, memory)) => {
                    bucket::set_chain(&mut body, Some(chain));
                    chains.push(block);
                    counted.memory += memory;
                }
                Err(error) => {
                    give_up(heap, &segment, shape, index, &chains);
                    return Err(error);
                }
            }
        }
        heap.create(pointer.address, &body).map_err(|_| AllocError::Full { blocks: 1 })?;
    }
    Ok(Built { segment, counted })
}

fn version_after(heap: &Heap, pointer: Pointer) -> u64 {
    heap.header(pointer.address).map_or(1, |header| header.word.version() + 1)
}

fn build_chain(
    heap: &mut Heap,
    shape: &Shape,
    bucket: Pointer,
    entries: &[&Moving],
) -> Result<(Chain, Pointer, u64), AllocError> {
    if entries.len() > CHAIN_SLOTS_MAX {
        return Err(AllocError::TooLarge { bytes: shape.slot_bytes, count: entries.len() });
    }
    let bytes = shape.chain_bytes(entries.len());
    let place = heap.reserve(bytes, Some(bucket.address), shape.purpose)?;
    if place.address.region() != bucket.address.region() {
        let _ = heap.release(place.address);
        return Err(AllocError::Full { blocks: 1 });
    }
    let pointer = Pointer { address: place.address, bytes: bytes as u32, incarnation: place.incarnation };
    let next = version_after(heap, pointer);
    let mut body = vec![0; bytes];
    for (slot, entry) in entries.iter().enumerate() {
        let control = entry.control.with_age(next as u8);
        bucket::put(&mut body, 0, entries.len(), shape, slot, control, &entry.slot);
    }
    heap.create(place.address, &body).map_err(|_| AllocError::Full { blocks: 1 })?;
    let memory = slot_bytes(heap, pointer);
    let chain =
        Chain { offset: place.address.offset(), slots: entries.len(), incarnation: place.incarnation };
    Ok((chain, pointer, memory))
}

/// Gives back a segment of which the first `made` buckets have been made.
fn give_up(heap: &mut Heap, segment: &Segment, shape: &Shape, made: usize, chains: &[Pointer]) {
    let buckets = (0..=shape.homes).map(|index| (index < made, segment.bucket(index, shape)));
    let chains = chains.iter().map(|chain| (true, *chain));
    for (made, pointer) in buckets.chain(chains) {
        // What was just made or reserved here is nobody else's.
        let _ = match made {
            true => free(heap, pointer),
            false => heap.release(pointer.address),
        };
    }
}

fn free(heap: &mut Heap, pointer: Pointer) -> Result<(), ObjectError> {
    let header = heap.header(pointer.address)?;
    heap.lock(pointer.address, header.word.version(), pointer.incarnation)?;
    heap.free(pointer.address)
}

/// Frees a whole segment that was built and not used.
pub(super) fn unbuild(heap: &mut Heap, built: &Built, shape: &Shape, seed: u64) {
    if let Some(contents) = gather(heap, &built.segment, shape, seed) {
        let _ = contents.free(heap);
    }
}
