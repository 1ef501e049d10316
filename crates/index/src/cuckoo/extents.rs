//! Extents: where keys and values lie, in chunks of the node's heap.
//!
//! Short ones are blocks of a buddy allocator; long ones have heap memory of their own. Readers find
//! an extent by its address alone, so chunks come and go without their knowing.
//!
//! After a restart it is written down where the chunks are; which parts of them are in use, and what has
//! memory of its own, follows from the entries.

use super::Trouble;
use super::buddy::{ATOM_BYTES, Buddy, ORDER_MAX, order_of};
use super::reopen::Delta;
use crate::error::ReopenError;
use crate::node::notes::Deltas;
use barn_fabric::Words;
use barn_heap::{HEADER_BYTES, Heap, OBJECT_BYTES_MAX, Purpose, Raw};
use barn_layout::heap::BLOCK_BYTES;
use barn_layout::{Address, RegionId, planted};
use std::collections::{BTreeMap, BTreeSet};

/// The first chunk: a table of a few keys should cost little.
/// 63 KiB and not 64, for which the heap takes two blocks at a time.
const CHUNK_BYTES_MIN: usize = 63 << 10;
/// From the time that the chunks have taken as much as this: whole blocks, of which the heap has any.
const CHUNK_BYTES_MAX: usize = BLOCK_BYTES;

const _: () = assert!((ATOM_BYTES << ORDER_MAX) + ATOM_BYTES + HEADER_BYTES <= CHUNK_BYTES_MIN);

#[derive(Debug)]
struct Chunk {
    raw: Raw,
    /// The offset of the first atom in the region.
    start: u32,
    buddy: Buddy,
    /// The orders under which it is among the open ones.
    open: u16,
}

/// The extents of a shard.
#[derive(Debug)]
pub(super) struct Extents {
    purpose: Purpose,
    /// Where it is written down which chunks there are.
    deltas: Deltas,
    chunks: BTreeMap<Address, Chunk>,
    /// Extents with memory of their own.
    own: BTreeMap<Address, Raw>,
    /// For each order, the chunks with a free block of it.
    open: [BTreeSet<Address>; ORDER_MAX + 1],
    /// The regions that have ever held an extent.
    regions: Vec<(RegionId, Words)>,
    memory_bytes: u64,
}

impl Extents {
    /// None yet. What comes and goes is written down to `deltas`.
    pub(super) fn new(purpose: Purpose, deltas: Deltas) -> Self {
        Self {
            purpose,
            deltas,
            chunks: BTreeMap::new(),
            own: BTreeMap::new(),
            open: Default::default(),
            regions: Vec::new(),
            memory_bytes: 0,
        }
    }

    /// The raw memory of the chunks.
    pub(super) fn raws(&self) -> impl Iterator<Item = &Raw> + '_ {
        self.chunks.values().map(|chunk| &chunk.raw)
    }

    /// Takes a chunk again that was there before a restart; all of it is free until it is claimed.
    pub(super) fn reopen_chunk(&mut self, heap: &mut Heap, start: Address) -> Result<(), ReopenError> {
        let taken = heap.retake_raw(start);
        let raw = taken.map_err(|_| ReopenError::Memory("a chunk of extents is not there"))?;
        if raw.bytes + HEADER_BYTES < CHUNK_BYTES_MIN {
            return Err(ReopenError::Memory("a chunk of extents is too short"));
        }
        self.put_chunk(raw);
        Ok(())
    }

    /// Says that an extent of `bytes` is in use since before a restart.
    pub(super) fn claim(
        &mut self,
        heap: &mut Heap,
        address: Address,
        bytes: usize,
    ) -> Result<(), ReopenError> {
        let nowhere = || ReopenError::Memory("an entry points to no extent");
        let Some(order) = order_of(bytes) else {
            let raw = heap.retake_raw(address).map_err(|_| nowhere())?;
            if raw.bytes < bytes.next_multiple_of(8) {
                return Err(nowhere());
            }
            self.add(&raw);
            self.own.insert(address, raw);
            return Ok(());
        };
        let (at, chunk) = self.chunks.range_mut(..=address).next_back().ok_or_else(nowhere)?;
        let within = address.offset().checked_sub(chunk.start).map(|within| within as usize);
        let atom = within
            .filter(|within| at.region() == address.region() && within.is_multiple_of(ATOM_BYTES))
            .ok_or_else(nowhere)?
            / ATOM_BYTES;
        match chunk.buddy.claim(atom, order) {
            true => Ok(()),
            false => Err(ReopenError::Memory("two entries point to one extent")),
        }
    }

    /// All extents that are in use have been claimed.
    pub(super) fn claimed(&mut self) {
        let chunks: Vec<Address> = self.chunks.keys().copied().collect();
        chunks.into_iter().for_each(|at| self.note_open(at));
    }

    /// Has an extent recorded that was written just now.
    pub(super) fn record(&self, heap: &mut Heap, address: Address, bytes: usize) {
        if heap.changes().is_none() || !self.purpose.is_durable() {
            return;
        }
        let chunk = || self.chunks.range(..=address).next_back().map(|(_, chunk)| &chunk.raw);
        let raw = match order_of(bytes) {
            None => self.own.get(&address),
            Some(_) => chunk(),
        };
        if let Some(raw) = raw.filter(|_| !planted("extent_not_recorded")) {
            heap.changed_raw(raw, u64::from(address.offset()), bytes.next_multiple_of(8));
        }
    }

    /// Takes an extent of `bytes`; nobody points to it yet.
    pub(super) fn take(&mut self, heap: &mut Heap, bytes: usize) -> Result<Address, Trouble> {
        let Some(order) = order_of(bytes) else { return self.take_own(heap, bytes) };
        let from = match (order..=ORDER_MAX).find(|from| !self.open[*from].is_empty()) {
            Some(from) => from,
            None => {
                self.add_chunk(heap)?;
                (order..=ORDER_MAX).find(|from| !self.open[*from].is_empty()).unwrap_or(ORDER_MAX)
            }
        };
        let full = || Trouble::Full("no chunk of memory has room".into());
        let at = *self.open[from].first().ok_or_else(full)?;
        let chunk = self.chunks.get_mut(&at).ok_or_else(full)?;
        let atom = chunk.buddy.take(order, from).ok_or_else(full)?;
        let offset = chunk.start + (atom * ATOM_BYTES) as u32;
        self.note_open(at);
        Ok(Address::new(at.region(), offset))
    }

    /// Gives an extent of `bytes` back.
    pub(super) fn give(&mut self, heap: &mut Heap, address: Address, bytes: usize) {
        let Some(order) = order_of(bytes) else {
            if let Some(raw) = self.own.remove(&address) {
                self.release(heap, &raw);
            }
            return;
        };
        let Some((at, chunk)) = self.chunks.range_mut(..=address).next_back() else { return };
        let at = *at;
        chunk.buddy.give((address.offset() - chunk.start) as usize / ATOM_BYTES, order);
        let is_empty = chunk.buddy.is_empty();
        self.note_open(at);
        // One empty chunk is kept, or a key that comes and goes would take one each time.
        if is_empty && self.chunks.values().filter(|chunk| chunk.buddy.is_empty()).count() > 1 {
            self.open.iter_mut().for_each(|open| _ = open.remove(&at));
            if let Some(chunk) = self.chunks.remove(&at) {
                self.release(heap, &chunk.raw);
                self.deltas.add(heap, || Delta::ChunkGiven(at).to_bytes());
            }
        }
    }

    /// The words of the region that an extent lies in.
    #[inline]
    pub(super) fn words(&self, address: Address) -> Result<&Words, Trouble> {
        let found = self.regions.iter().find(|(id, _)| *id == address.region());
        found.map(|(_, words)| words).ok_or(Trouble::Lost)
    }

    /// The regions in which extents lie or have lain.
    pub(super) fn regions(&self) -> impl Iterator<Item = RegionId> + '_ {
        self.regions.iter().map(|(id, _)| *id)
    }

    /// The heap's memory that is taken, with what the heap adds.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Gives everything back.
    pub(super) fn clear(&mut self, heap: &mut Heap) {
        let empty = Self::new(self.purpose, self.deltas);
        let Self { chunks, own, .. } = std::mem::replace(self, empty);
        for raw in chunks.values().map(|chunk| &chunk.raw).chain(own.values()) {
            // The heap knows what it gave: there is nothing to be done about a refusal.
            let _ = heap.release_raw(raw);
        }
    }

    fn take_own(&mut self, heap: &mut Heap, bytes: usize) -> Result<Address, Trouble> {
        // The longest key and value with their header are a little longer than the longest object;
        // memory of this length comes in whole blocks, which hold them all the same.
        let raw = heap.reserve_raw(bytes.next_multiple_of(8).min(OBJECT_BYTES_MAX), self.purpose)?;
        if raw.bytes < bytes.next_multiple_of(8) {
            let _ = heap.release_raw(&raw);
            return Err(Trouble::Full(format!("{bytes} bytes are too long for one piece of memory")));
        }
        self.add(&raw);
        let address = raw.start;
        self.own.insert(address, raw);
        Ok(address)
    }

    /// Takes a chunk, which has a free block of every order.
    fn add_chunk(&mut self, heap: &mut Heap) -> Result<(), Trouble> {
        // Two lengths only, for the heap gives every length blocks of its own.
        let is_large = self.memory_bytes >= CHUNK_BYTES_MAX as u64;
        let wanted = if is_large { CHUNK_BYTES_MAX } else { CHUNK_BYTES_MIN };
        let mut raw = heap.reserve_raw(wanted - HEADER_BYTES, self.purpose);
        if raw.is_err() && CHUNK_BYTES_MIN < wanted {
            raw = heap.reserve_raw(CHUNK_BYTES_MIN - HEADER_BYTES, self.purpose);
        }
        let raw = raw?;
        let at = raw.start;
        self.put_chunk(raw);
        self.note_open(at);
        self.deltas.add(heap, || Delta::ChunkTaken(at).to_bytes());
        Ok(())
    }

    fn put_chunk(&mut self, raw: Raw) {
        self.add(&raw);
        let start = raw.start.offset().next_multiple_of(ATOM_BYTES as u32);
        let atoms = (raw.bytes - (start - raw.start.offset()) as usize) / ATOM_BYTES;
        let at = raw.start;
        self.chunks.insert(at, Chunk { raw, start, buddy: Buddy::new(atoms), open: 0 });
    }

    fn add(&mut self, raw: &Raw) {
        self.memory_bytes += (raw.bytes + HEADER_BYTES) as u64;
        if self.regions.iter().all(|(id, _)| *id != raw.start.region()) {
            self.regions.push((raw.start.region(), raw.words.clone()));
        }
    }

    fn release(&mut self, heap: &mut Heap, raw: &Raw) {
        self.memory_bytes -= (raw.bytes + HEADER_BYTES) as u64;
        let _ = heap.release_raw(raw);
    }

    /// The free blocks of the chunk at `at` have changed.
    fn note_open(&mut self, at: Address) {
        let Some(chunk) = self.chunks.get_mut(&at) else { return };
        let now = chunk.buddy.open();
        let mut changed = now ^ std::mem::replace(&mut chunk.open, now);
        while changed != 0 {
            let order = changed.trailing_zeros() as usize;
            match now >> order & 1 == 1 {
                true => self.open[order].insert(at),
                false => self.open[order].remove(&at),
            };
            changed &= changed - 1;
        }
    }
}
