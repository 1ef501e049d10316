//! Owner and reader together, over a heap's own memory.

mod direct;
mod joint;
mod one_bucket;
mod restart;

use super::{Owner, Roots};
use crate::client::memory::{HeapMemory, Memory, Unreadable};
use crate::error::Refused;
use crate::key::{Found, Key, Looked};
use crate::node::{Decision, Part, Shard};
use crate::options::TableOptions;
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{Confirmation, Words, block_on};
use barn_heap::{Heap, HeapOptions, Purpose};
use barn_layout::{Address, RegionId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const PART: Part = Part { table: 1, shard: 0, shards: 1 };

/// A node's memory, and a shard in it.
struct World {
    heap: Heap,
    memory: HeapMemory,
    options: TableOptions,
    owner: Owner,
}

impl World {
    fn new(options: TableOptions, megabytes: usize) -> Self {
        let options = TableOptions { seed: 77, ..options };
        let words = Words::private(megabytes << 20);
        let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
        heap.add_region(RegionId(1), words.clone()).unwrap();
        let owner = Owner::new(&mut heap, &options, PART).unwrap();
        Self { heap, memory: HeapMemory(vec![(RegionId(1), words)]), options, owner }
    }

    fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key::new(self.options.seed, bytes)
    }

    fn put(&mut self, key: &[u8], value: &[u8], expires: u64) -> Result<u64, Refused> {
        let key = self.key(key);
        let store = |_: Option<&Found>| Decision::Store { value: Cow::Borrowed(value), expires };
        self.owner.update(&mut self.heap, key, &mut { store })
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let key = self.key(key);
        let mut there = false;
        let mut decide = |found: Option<&Found>| {
            there = found.is_some();
            Decision::Remove
        };
        self.owner.update(&mut self.heap, key, &mut decide).unwrap();
        there
    }

    fn get(&mut self, key: &[u8]) -> Option<Found> {
        let key = self.key(key);
        let mut found = Found::default();
        self.owner.get(&self.heap, key, &mut found).unwrap().then_some(found)
    }

    fn roots(&self) -> Roots {
        Roots::parse(&self.owner.roots(&self.heap, &[]), &self.options, PART).unwrap()
    }

    fn look(&self, roots: &Roots, key: &[u8], reads: &mut u32) -> (Looked, Found) {
        let mut found = Found::default();
        let looked = block_on(roots.lookup(&self.memory, self.key(key), &mut found, reads)).unwrap();
        (looked, found)
    }
}

/// The same memory, as if it were far away: READs are of words in any order.
struct Far<'a>(&'a HeapMemory);

impl Memory for Far<'_> {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        self.0.read(at, into).await
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        self.0.read(at, into).await.map(|()| Confirmation::Unordered)
    }

    fn mapped(&self, _: RegionId) -> Option<&Words> {
        None
    }

    fn believe(&self, _: RegionId) -> Result<(), Unreadable> {
        Ok(())
    }
}

fn small() -> TableOptions {
    TableOptions { capacity: 10, inline_bytes: 32, ..TableOptions::default() }
}

#[test]
fn a_table_does_what_a_map_does() {
    for (seed, neighbourhood) in [(1, 8), (2, 6), (3, 2), (4, 16)] {
        let mut world = World::new(TableOptions { neighbourhood, ..small() }, 256);
        let mut random = Seeded::new(seed);
        let mut model: HashMap<Vec<u8>, (Vec<u8>, u64)> = HashMap::new();
        let mut versions: HashMap<Vec<u8>, Vec<u64>> = HashMap::new();
        for step in 0..40_000u64 {
            let number = random.below(6000);
            let key = match number % 50 {
                0 => vec![number as u8; 300 + number as usize % 100],
                _ => format!("key-{number}").into_bytes(),
            };
            match random.below(10) {
                0..=5 => {
                    let length = if random.below(20) == 0 { random.below(5000) } else { random.below(40) };
                    let value = vec![step as u8; length as usize];
                    let expires = if random.below(4) == 0 { step + 1 } else { 0 };
                    let version = world.put(&key, &value, expires).unwrap();
                    let known = versions.entry(key.clone()).or_default();
                    assert!(!known.contains(&version), "a version came back");
                    known.push(version);
                    model.insert(key, (value, expires));
                }
                6..=7 => assert_eq!(world.remove(&key), model.remove(&key).is_some()),
                _ => {
                    let got = world.get(&key).map(|found| (found.value, found.expires));
                    assert_eq!(got.as_ref(), model.get(&key));
                }
            }
        }
        let stats = world.owner.stats();
        assert_eq!(stats.keys, model.len() as u64);
        let payload: usize = model.iter().map(|(key, (value, _))| key.len() + value.len()).sum();
        assert_eq!(stats.payload_bytes, payload as u64);
        assert!(stats.grown > 0, "it never grew");
        let usage = world.heap.usage();
        let tables = usage.purposes[Purpose::Tables as usize];
        assert_eq!(stats.memory_bytes, tables.slot_bytes + tables.reserved_bytes, "memory is accounted for");

        let roots = world.roots();
        let keys = (0..6000u64).map(|number| format!("key-{number}").into_bytes());
        direct::compare(&world, &roots, &keys.collect::<Vec<_>>());
        let far = Far(&world.memory);
        for number in 0..6000u64 {
            let key = match number % 50 {
                0 => vec![number as u8; 300 + number as usize % 100],
                _ => format!("key-{number}").into_bytes(),
            };
            let wanted = model.get(&key);
            let (looked, found) = world.look(&roots, &key, &mut 0);
            assert_eq!(looked == Looked::Found, wanted.is_some(), "{looked:?}");
            let mut far_found = Found::default();
            let far_looked = block_on(roots.lookup(&far, world.key(&key), &mut far_found, &mut 0)).unwrap();
            assert_eq!(far_looked, looked);
            if let Some((value, expires)) = wanted {
                assert_eq!((&found.value, found.expires), (value, *expires));
                assert_eq!(far_found, found);
            }
        }
        let mut scanned = HashMap::new();
        let mut cursor = 0;
        while let Some(next) = world
            .owner
            .scan(&world.heap, cursor, &mut |key, found| {
                scanned.insert(key.to_vec(), (found.value.clone(), found.expires));
                scanned.len() % 100 != 0
            })
            .unwrap()
        {
            assert!(next > cursor);
            cursor = next;
        }
        assert_eq!(scanned, model);
        world.owner.clear(&mut world.heap);
        let tables = world.heap.usage().purposes[Purpose::Tables as usize];
        assert_eq!((tables.objects, tables.reserved), (0, 0));
    }
}

/// Segments are split between a scan's pages, and pages end within segments.
#[test]
fn a_scan_meets_what_stays_once_however_the_table_grows() {
    let mut world = World::new(small(), 256);
    let value = |number: u32| vec![7; if number.is_multiple_of(20) { 200 } else { 20 }];
    for number in 0..3000u32 {
        world.put(&number.to_le_bytes(), &value(number), 0).unwrap();
    }
    let (mut met, mut newest, mut cursor) = (HashMap::new(), 3000u32, 0);
    loop {
        let mut page = 0;
        let scanned = world.owner.scan(&world.heap, cursor, &mut |key, _| {
            *met.entry(key.to_vec()).or_insert(0) += 1;
            page += 1;
            page < 100
        });
        let Some(next) = scanned.unwrap() else { break };
        assert!(next > cursor, "it gets on");
        cursor = next;
        for number in newest..newest + 150 {
            world.put(&number.to_le_bytes(), &value(number), 0).unwrap();
        }
        newest += 150;
    }
    assert!(world.owner.stats().grown > 1, "it grew meanwhile");
    for number in 0..3000u32 {
        assert_eq!(met.get(&number.to_le_bytes()[..]), Some(&1), "{number}");
    }
}

#[test]
fn an_entry_keeps_its_version_while_its_neighbours_change() {
    let mut world = World::new(small(), 64);
    let version = world.put(b"still", b"1", 0).unwrap();
    for number in 0..200u64 {
        world.put(format!("other-{}", number % 7).as_bytes(), &number.to_le_bytes(), 0).unwrap();
    }
    assert_eq!(world.get(b"still").unwrap().version, version);
    // Past 255 changes of its bucket it may have another, but never one that it had before.
    let mut seen = vec![version];
    for number in 0..5000u64 {
        world.put(format!("other-{}", number % 7).as_bytes(), &number.to_le_bytes(), 0).unwrap();
        let now = world.get(b"still").unwrap().version;
        if seen.last() != Some(&now) {
            assert!(!seen.contains(&now));
            seen.push(now);
        }
    }
}

#[test]
fn stale_roots_are_noticed() {
    let mut world = World::new(small(), 64);
    let old = world.roots();
    for number in 0..20_000u32 {
        world.put(&number.to_le_bytes(), b"value", 0).unwrap();
    }
    let mut patched = old.clone();
    let key = 7u32.to_le_bytes();
    assert_eq!(world.look(&old, &key, &mut 0).0, Looked::Stale);
    let excerpt = world.owner.roots(&world.heap, &Roots::query(world.key(&key)));
    assert!(!patched.patch(&excerpt), "the directory has grown");
    let mut fresh = world.roots();
    assert!(fresh.patch(&excerpt));
    assert_eq!(world.look(&fresh, &key, &mut 0).0, Looked::Found);
}

#[test]
fn a_budget_that_is_used_up_is_said_and_nothing_breaks() {
    let mut world = World::new(small(), 64);
    let mut put = 0u32;
    let why = loop {
        match world.put(&put.to_le_bytes(), &[7; 32], 0) {
            Ok(_) => put += 1,
            // Nobody else reads: what was freed may be used again.
            Err(Refused::Full(_)) if world.heap.wants_epoch() => {
                let epoch = world.heap.next_epoch();
                world.heap.readers_left(epoch);
            }
            Err(Refused::Full(why)) => break why,
            Err(other) => panic!("{other}"),
        }
    };
    assert!(!why.is_empty() && put > 100_000, "{put} {why}");
    for number in 0..put {
        assert!(world.get(&number.to_le_bytes()).is_some(), "{number} of {put}");
    }
    for number in 0..put / 2 {
        assert!(world.remove(&number.to_le_bytes()));
    }
    world.put(b"again", b"there is room", 0).unwrap();
}

/// Given a table that could not grow, expect that it grows as soon as others have given memory back.
#[test]
fn memory_that_was_given_back_is_used_at_once() {
    let mut world = World::new(small(), 64);
    let other = world.heap.reserve_raw(900 << 10, Purpose::Objects).unwrap();
    world.heap.set_budget(world.heap.usage().held_bytes);
    let hash = world.key(b"a key").hash.to_le_bytes();
    let mut grow = || {
        world.owner.grow(&mut world.heap, &hash);
        world.owner.stats().grown
    };
    let mut grown = 0;
    while grow() > grown {
        grown += 1;
    }
    // It was refused, and is not tried again at once.
    assert_eq!(grow(), grown);
    world.heap.release_raw(&other).unwrap();
    for _ in 0..2 {
        // Whoever needs it has it given up, and has it when its readers have left.
        world.owner.grow(&mut world.heap, &hash);
        let epoch = world.heap.next_epoch();
        world.heap.readers_left(epoch);
    }
    assert_eq!(world.owner.stats().grown, grown + 1);
}

/// FaRM's figures: READs per lookup at 90 % full with H = 8, and space at H = 6.
#[test]
fn the_papers_figures_are_met() {
    let figures = crate::hopscotch::figures(8, 200_000);
    assert!(figures.reads_per_lookup <= 1.04, "{figures:?}");
    let figures = crate::hopscotch::figures(6, 200_000);
    assert!(figures.space >= 0.62, "{figures:?}");
}

/// Writers move keys about while readers look for one that is always there, and for ones whose values
/// must not be torn.
#[test]
fn racing_readers_miss_nothing_and_see_nothing_torn() {
    let mut world = World::new(TableOptions { neighbourhood: 4, ..small() }, 64);
    let steady: Vec<Vec<u8>> = (0..256u32).map(|number| format!("steady-{number}").into_bytes()).collect();
    for key in &steady {
        world.put(key, &[1; 32], 0).unwrap();
    }
    let done = Arc::new(AtomicBool::new(false));
    let looks = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for way in 0..4 {
            let (done, looks) = (done.clone(), looks.clone());
            let (roots, seed) = (world.roots(), world.options.seed);
            let memory = HeapMemory(world.memory.0.clone());
            let steady = &steady;
            scope.spawn(move || {
                let (mut at, mut found) = (0, Found::default());
                let mut batch = direct::Batch::default();
                // ORDER: Relaxed: a flag and a counter that stand alone.
                while !done.load(Ordering::Relaxed) {
                    at = (at + 1) % steady.len();
                    let key = Key::new(seed, &steady[at]);
                    let looked = match way {
                        0 => block_on(roots.lookup(&Far(&memory), key, &mut found, &mut 0)),
                        1 => block_on(roots.lookup(&memory, key, &mut found, &mut 0)),
                        2 => {
                            let aim = roots.aim(key).unwrap();
                            let mapped = |region| memory.mapped(region);
                            Ok(roots.look_mapped(&aim, mapped, key, &mut found).unwrap().0)
                        }
                        _ => Ok(batch.next(&roots, &memory, seed, steady, &mut found)),
                    };
                    match looked.unwrap() {
                        Looked::Found => {
                            let first = found.value[0];
                            assert!(found.value.iter().all(|byte| *byte == first), "torn: {:?}", found.value);
                            looks.fetch_add(1, Ordering::Relaxed);
                        }
                        Looked::Absent => panic!("a key that is always there was missed"),
                        Looked::Unsettled => {}
                        Looked::Stale => panic!("the table grew, which the test does not want"),
                    }
                }
            });
        }
        let mut random = Seeded::new(5);
        let mut round = 0u64;
        // ORDER: Relaxed: as above.
        while looks.load(Ordering::Relaxed) < 300_000 {
            round += 1;
            for key in &steady {
                if random.below(4) == 0 {
                    world.put(key, &[round as u8; 32], 0).unwrap();
                }
            }
            // About as many others as make the buckets overflow here and there.
            for number in 0..1000u64 {
                let key = format!("other-{}", random.below(1700) + number / 1000);
                match random.below(2) {
                    0 => drop(world.put(key.as_bytes(), &[9; 32], 0)),
                    _ => drop(world.remove(key.as_bytes())),
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(world.owner.stats().moves > 0, "nothing was moved");
    });
}

#[test]
fn roots_of_any_bytes_are_taken_or_refused() {
    let world = World::new(small(), 64);
    let good = world.owner.roots(&world.heap, &[]);
    let mut random = Seeded::new(3);
    let mut taken = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        if let Ok(roots) = Roots::parse(&bytes, &world.options, PART) {
            // Whatever they say, a lookup ends.
            let mut found = Found::default();
            let key = world.key(b"key");
            let _ = block_on(roots.lookup(&world.memory, key, &mut found, &mut 0));
            // Twice: the second time what is looked for is fetched ahead.
            for _ in 0..2 {
                let aim = roots.aim(key);
                let mapped = |region| world.memory.mapped(region);
                let _ = aim.and_then(|aim| roots.look_mapped(&aim, mapped, key, &mut found));
            }
            taken += 1;
        }
    }
    assert!((1..20_000).contains(&taken), "{taken} of 20,000 were taken: not both ways were tried");
}
