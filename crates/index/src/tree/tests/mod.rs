//! Tests of owner and readers together.

mod model;
mod nodes;
mod race;

use super::{KEY_BYTES_MAX, Owner, Roots};
use crate::client::memory::{HeapMemory, Memory, Unreadable};
use crate::error::Refused;
use crate::key::{Found, Key, Looked};
use crate::node::{Decision, Part, Shard};
use crate::options::{Kind, TableOptions};
use barn_fabric::{Confirmation, Words, block_on};
use barn_heap::{Heap, HeapOptions, Purpose};
use barn_layout::{Address, RegionId};
use std::borrow::Cow;

const PART: Part = Part { table: 7, shard: 1, shards: 2 };

/// A shard in a heap of its own, with what a client needs.
struct World {
    heap: Heap,
    memory: HeapMemory,
    options: TableOptions,
    owner: Owner,
}

/// The same memory, as if it were far away.
struct Afar<'a>(&'a HeapMemory);

impl Memory for Afar<'_> {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        self.0.read(at, into).await
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        self.0.read(at, into).await?;
        Ok(Confirmation::Unordered)
    }

    fn mapped(&self, _: RegionId) -> Option<&Words> {
        None
    }

    fn believe(&self, _: RegionId) -> Result<(), Unreadable> {
        Ok(())
    }
}

impl World {
    fn new(megabytes: usize) -> Self {
        let options = TableOptions { kind: Kind::Tree, seed: 5, ..TableOptions::default() };
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

    fn range(&mut self, from: &[u8], to: Option<&[u8]>, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut keys = Vec::new();
        let each = &mut |key: &[u8], found: &Found| {
            keys.push((key.to_vec(), found.value.clone()));
            keys.len() < most
        };
        self.owner.range(&self.heap, from, to, each).unwrap();
        keys
    }

    fn roots(&self) -> Roots {
        Roots::parse(&self.owner.roots(&self.heap, &[]), &self.options, PART).unwrap()
    }

    fn used_bytes(&self) -> u64 {
        self.heap.usage().of(Purpose::Tables).slot_bytes
    }
}

/// As a client looks a key up, until it knows; with the READs that it took.
fn look(roots: &Roots, memory: &(impl Memory + Sync), key: Key<'_>) -> (Option<Found>, u32) {
    let (mut found, mut reads) = (Found::default(), 0);
    for _ in 0..100 {
        match block_on(roots.lookup(memory, key, &mut found, &mut reads)).unwrap() {
            Looked::Found => return (Some(found), reads),
            Looked::Absent => return (None, reads),
            Looked::Unsettled => {}
            Looked::Stale => panic!("the root does not move"),
        }
    }
    panic!("never settled");
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
