//! Readers in other threads while the owner changes the table.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long each race lasts: long enough for a million lookups, on a busy machine too.
const RACE: Duration = Duration::from_millis(800);

/// A value that tells whether it is whole: its length and all its bytes follow from one number.
fn value_of(number: u64) -> Vec<u8> {
    let mut value = vec![number as u8; 200 + (number % 8) as usize * 500];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

fn assert_whole(value: &[u8]) {
    let number = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert!(value == value_of(number), "a torn value");
}

/// Lets two readers look up `keys`, which are always there, while `write` changes the world.
fn race(mut world: World, keys: u64, mut write: impl FnMut(&mut World, u64)) -> (u64, World) {
    let (over, lookups) = (AtomicBool::new(false), AtomicU64::new(0));
    let newest = Mutex::new(world.roots());
    let words = world.memory.0.clone();
    let seed = world.options.seed;
    thread::scope(|scope| {
        for reader in 0..2 {
            let (words, newest, over, lookups) = (words.clone(), &newest, &over, &lookups);
            scope.spawn(move || {
                let (memory, mut chance) = (HeapMemory(words), Chance(reader));
                let mut roots = newest.lock().unwrap().clone();
                let mut versions = vec![0; keys as usize];
                // ORDER: Relaxed: a flag and a count, with nothing behind them.
                while !over.load(Ordering::Relaxed) {
                    let number = chance.below(keys);
                    let bytes = number.to_le_bytes();
                    let (looked, found, _) = look(&roots, &memory, Key::new(seed, &bytes));
                    match looked {
                        Looked::Found => {
                            assert_whole(&found.value);
                            let before = &mut versions[number as usize];
                            assert!(found.version >= *before, "key {number} went back");
                            *before = found.version;
                        }
                        Looked::Absent => panic!("key {number} is always there"),
                        Looked::Stale => roots = newest.lock().unwrap().clone(),
                        Looked::Unsettled => {}
                    }
                    // ORDER: Relaxed, as above.
                    lookups.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let started = Instant::now();
        let mut step = 0;
        while started.elapsed() < RACE {
            for _ in 0..100 {
                let generation = world.owner.table.generation;
                write(&mut world, step);
                if world.owner.table.generation != generation {
                    *newest.lock().unwrap() = world.roots();
                }
                step += 1;
            }
        }
        // ORDER: Relaxed: the flag says all.
        over.store(true, Ordering::Relaxed);
    });
    (lookups.into_inner(), world)
}

/// Fails with `cuckoo_unverified` as well.
#[test]
fn readers_never_see_a_torn_value() {
    let mut world = World::new(32, 100);
    (0..8u64).for_each(|number| _ = world.put(&number.to_le_bytes(), &value_of(0), 0).unwrap());
    let (lookups, _) = race(world, 8, |world, step| {
        world.put(&(step % 8).to_le_bytes(), &value_of(step), 0).unwrap();
    });
    assert!(lookups > 1000, "{lookups} lookups");
}

#[test]
fn readers_never_miss_a_key_that_moves() {
    let mut world = World::new(32, 1000);
    let always = world.owner.stats().slots * 8 / 10;
    (0..always).for_each(|number| _ = world.put(&number.to_le_bytes(), &value_of(0), 0).unwrap());
    let room = world.owner.stats().slots / 20;
    let (lookups, world) = race(world, always, |world, step| {
        // Others come and go, and push those that stay from place to place.
        world.put(&(always + step).to_le_bytes(), &value_of(step), 0).unwrap();
        if step >= room {
            world.remove(&(always + step - room).to_le_bytes());
        }
    });
    let stats = world.owner.stats();
    assert!(lookups > 1000 && stats.moves > 1000 && stats.grown == 0, "{lookups} lookups, {stats:?}");
}

#[test]
fn readers_never_miss_a_key_while_the_table_grows() {
    let mut world = World::new(256, 10);
    (0..50u64).for_each(|number| _ = world.put(&number.to_le_bytes(), &value_of(0), 0).unwrap());
    let (lookups, world) = race(world, 50, |world, step| {
        let number = 50 + step;
        if number < 100_000 {
            world.put(&number.to_le_bytes(), b"few", 0).unwrap();
        } else {
            world.put(&(step % 50).to_le_bytes(), &value_of(step), 0).unwrap();
        }
    });
    let stats = world.owner.stats();
    assert!(lookups > 1000 && stats.grown > 5, "{lookups} lookups, {stats:?}");
}
