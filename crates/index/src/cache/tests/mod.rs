//! Properties of the cache, and what its callers rely on.

mod model;
mod race;
mod shape;
mod skew;

use super::{Owner, Roots};
use crate::client::memory::HeapMemory;
use crate::error::Refused;
use crate::key::{Found, Key, Looked};
use crate::node::{Decision, Part, Shard};
use crate::options::TableOptions;
use barn_fabric::{Words, block_on};
use barn_heap::{Heap, HeapOptions};
use barn_layout::RegionId;
use std::borrow::Cow;

const PART: Part = Part { table: 3, shard: 1, shards: 2 };
const SEED: u64 = 0x5eed;

fn options(memory_bytes: u64) -> TableOptions {
    TableOptions { memory_bytes, seed: SEED, ..TableOptions::default() }
}

/// Regions of a heap, and the same memory for readers.
fn heap(regions: u32, region_mib: usize) -> (Heap, HeapMemory) {
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    let mut memory = HeapMemory(Vec::new());
    for id in 1..=regions {
        let words = Words::private(region_mib << 20);
        heap.add_region(RegionId(id), words.clone()).unwrap();
        memory.0.push((RegionId(id), words));
    }
    (heap, memory)
}

/// A shard, and what a client knows of it.
struct Cache {
    heap: Heap,
    owner: Owner,
    memory: HeapMemory,
    roots: Roots,
}

impl Cache {
    fn new((mut heap, memory): (Heap, HeapMemory), memory_bytes: u64) -> Self {
        let options = options(memory_bytes);
        let owner = Owner::new(&mut heap, &options, PART).unwrap();
        let roots = Roots::parse(&owner.roots(&heap, &[]), &options, PART).unwrap();
        Self { heap, owner, memory, roots }
    }

    fn update(&mut self, key: &[u8], decision: Decision<'_>) -> (Option<Found>, Result<u64, Refused>) {
        let (mut seen, mut decision) = (None, Some(decision));
        let version = self.owner.update(&mut self.heap, Key::new(SEED, key), &mut |found| {
            seen = found.cloned();
            decision.take().unwrap()
        });
        (seen, version)
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires: u64) -> Result<u64, Refused> {
        self.update(key, Decision::Store { value: Cow::Borrowed(value), expires }).1
    }

    fn get(&mut self, key: &[u8]) -> Option<Found> {
        let mut found = Found::default();
        self.owner.get(&self.heap, Key::new(SEED, key), &mut found).unwrap().then_some(found)
    }

    /// Looks a key up as a client does, one by one and as a batch.
    fn look_up(&self, key: &[u8]) -> Option<Found> {
        let key = Key::new(SEED, key);
        let (mut found, mut reads) = (Found::default(), 0);
        let looked = block_on(self.roots.lookup(&self.memory, key, &mut found, &mut reads)).unwrap();
        let (mut batched, mut how, mut batch_reads) = ([Found::default()], [Looked::Stale], 0);
        let batch =
            self.roots.lookup_batch_mapped(&self.memory, &[key], &mut batched, &mut how, &mut batch_reads);
        assert_eq!((batch, how), (Ok(()), [looked]));
        match looked {
            Looked::Found => {
                assert_eq!(batched[0], found);
                assert!(reads >= 2 && batch_reads >= 2);
                Some(found)
            }
            Looked::Absent => None,
            looked => panic!("{looked:?}"),
        }
    }

    /// What the owner and a client find, which must be the same.
    fn both(&mut self, key: &[u8]) -> Option<Found> {
        self.owner.prefetch(&self.heap, Key::new(SEED, key));
        let (owner, client) = (self.get(key), self.look_up(key));
        assert_eq!(owner, client);
        owner
    }

    fn scan(&mut self) -> Vec<(Vec<u8>, Found)> {
        let (mut all, mut cursor) = (Vec::new(), Some(0));
        while let Some(from) = cursor {
            cursor = self
                .owner
                .scan(&self.heap, from, &mut |key, found| {
                    all.push((key.to_vec(), found.clone()));
                    false
                })
                .unwrap();
        }
        all
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::hash::scale(crate::hash::remix(self.0, 77), bound)
    }
}
