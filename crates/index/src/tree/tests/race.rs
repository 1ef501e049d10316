//! Readers in other threads while the owner changes the tree.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a race lasts: long enough for a million lookups, on a busy machine too.
const RACE: Duration = Duration::from_millis(800);
/// Keys that are always there.
const ALWAYS: u64 = 64;

/// A value that tells whether it is whole, short or in an object of its own.
fn value_of(number: u64) -> Vec<u8> {
    let mut value = vec![number as u8; [20, 100, 400][number as usize % 3]];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

fn key_of(number: u64) -> [u8; 8] {
    (number << 32).to_be_bytes()
}

fn read(roots: &Roots, memory: &(impl Memory + Sync), seed: u64, over: &AtomicBool, from: u64) -> u64 {
    let (mut chance, mut versions, mut lookups) = (Chance(from), vec![0; ALWAYS as usize], 0);
    // ORDER: Relaxed: a flag with nothing behind it.
    while !over.load(Ordering::Relaxed) {
        let number = chance.below(ALWAYS);
        let bytes = key_of(number);
        let (mut found, mut reads) = (Found::default(), 0);
        match block_on(roots.lookup(memory, Key::new(seed, &bytes), &mut found, &mut reads)).unwrap() {
            Looked::Found => {
                let stored = u64::from_le_bytes(found.value[..8].try_into().unwrap());
                assert!(found.value == value_of(stored), "a torn value");
                let before = &mut versions[number as usize];
                assert!(found.version >= *before, "key {number} went back");
                *before = found.version;
            }
            Looked::Absent => panic!("key {number} is always there"),
            Looked::Stale => panic!("the root does not move"),
            Looked::Unsettled => {}
        }
        lookups += 1;
    }
    lookups
}

#[test]
fn readers_never_miss_a_key_and_never_see_a_torn_one_while_nodes_come_and_go() {
    let mut world = World::new(64);
    (0..ALWAYS).for_each(|number| _ = world.put(&key_of(number), &value_of(number), 0).unwrap());
    let (over, lookups) = (AtomicBool::new(false), AtomicU64::new(0));
    let (words, roots, seed) = (world.memory.0.clone(), world.roots(), world.options.seed);
    thread::scope(|scope| {
        for reader in 0..2 {
            let (memory, roots, over, lookups) = (HeapMemory(words.clone()), &roots, &over, &lookups);
            scope.spawn(move || {
                let made = match reader {
                    0 => read(roots, &memory, seed, over, reader),
                    _ => read(roots, &Afar(&memory), seed, over, reader),
                };
                // ORDER: Relaxed: a count that is looked at after the threads have ended.
                lookups.fetch_add(made, Ordering::Relaxed);
            });
        }
        let (started, mut chance, mut step) = (Instant::now(), Chance(1), 0);
        while started.elapsed() < RACE {
            for _ in 0..100 {
                step += 1;
                world.put(&key_of(step % ALWAYS), &value_of(step), 0).unwrap();
                // Waves of neighbours, so that leaves are divided and put together all the time.
                let other = ((chance.below(ALWAYS) << 32) | (1 + chance.below(200))).to_be_bytes();
                match (step / 2000).is_multiple_of(2) {
                    true => _ = world.put(&other, &value_of(step), 0).unwrap(),
                    false => world.remove(&other),
                }
                if step % 50 == 0 {
                    let epoch = world.heap.next_epoch();
                    world.heap.readers_left(epoch.saturating_sub(2));
                }
            }
        }
        // ORDER: Relaxed: the flag says all.
        over.store(true, Ordering::Relaxed);
    });
    let stats = world.owner.stats();
    assert!(stats.grown > 100, "{stats:?}");
    assert!(lookups.into_inner() > 1000);
    assert_eq!(world.owner.count(&world.heap).unwrap().keys, stats.keys);
}
