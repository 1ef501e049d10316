//! Tests of owner and readers together.

mod memory;
mod model;
mod plants;
mod race;

use super::{Owner, Roots};
use crate::client::memory::HeapMemory;
use crate::error::Refused;
use crate::key::{Found, Key, Looked};
use crate::node::{Decision, Part, Shard};
use crate::options::{Kind, TableOptions};
use barn_fabric::{Words, block_on};
use barn_heap::{Heap, HeapOptions, Purpose};
use barn_layout::RegionId;
use std::borrow::Cow;

const PART: Part = Part { table: 7, shard: 0, shards: 1 };

/// A shard in a heap of its own, with what a client needs.
struct World {
    heap: Heap,
    memory: HeapMemory,
    options: TableOptions,
    owner: Owner,
}

impl World {
    fn new(megabytes: usize, capacity: u64) -> Self {
        let options = TableOptions { kind: Kind::Cuckoo, capacity, seed: 5, ..TableOptions::default() };
        let mut heap = Heap::new(HeapOptions { budget_bytes: (megabytes << 20) as u64 });
        let words = Words::private(megabytes << 20);
        heap.add_region(RegionId(3), words.clone()).unwrap();
        let owner = Owner::new(&mut heap, &options, PART).unwrap();
        Self { heap, memory: HeapMemory(vec![(RegionId(3), words)]), options, owner }
    }

    fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key::new(self.options.seed, bytes)
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires: u64) -> Result<u64, Refused> {
        let key = self.key(key);
        let store = || Decision::Store { value: Cow::Borrowed(value), expires };
        self.owner.update(&mut self.heap, key, &mut |_| store())
    }

    fn remove(&mut self, key: &[u8]) {
        let key = self.key(key);
        self.owner.update(&mut self.heap, key, &mut |_| Decision::Remove).unwrap();
    }

    fn get(&mut self, key: &[u8]) -> Option<Found> {
        let (key, mut found) = (self.key(key), Found::default());
        self.owner.get(&self.heap, key, &mut found).unwrap().then_some(found)
    }

    fn roots(&self) -> Roots {
        Roots::parse(&self.owner.roots(&self.heap, &[]), &self.options, PART).unwrap()
    }

    fn readers_leave(&mut self) {
        let epoch = self.heap.next_epoch();
        self.heap.readers_left(epoch);
    }

    fn reserved_bytes(&self) -> u64 {
        self.heap.usage().of(Purpose::Tables).reserved_bytes
    }
}

/// As a client looks a key up; with the READs that it took.
fn look(roots: &Roots, memory: &HeapMemory, key: Key<'_>) -> (Looked, Found, u32) {
    let (mut found, mut reads) = (Found::default(), 0);
    let looked = block_on(roots.lookup(memory, key, &mut found, &mut reads)).unwrap();
    (looked, found, reads)
}

/// A small generator: tests must come out the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}
