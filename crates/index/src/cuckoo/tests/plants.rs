//! What would go wrong unseen: each of these fails if its bug is planted.

use super::*;
use std::sync::Arc;

/// Fails with `cuckoo_moves_from_the_front`.
///
/// The readers' count of moves hides a key that is nowhere for a moment, at the price of their
/// looking again; so the table is looked at between any two entries that a path writes.
#[test]
fn a_key_on_its_way_is_never_nowhere() {
    let mut world = World::new(16, 1000);
    let slots = world.owner.stats().slots;
    let keys: Vec<u64> = (0..slots * 7 / 8).collect();
    let placed = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (roots, words) = (world.roots(), world.memory.0.clone());
    let (watched, seed) = (placed.clone(), world.options.seed);
    world.owner.table.watch.0 = Some(Box::new(move || {
        let memory = HeapMemory(words.clone());
        for number in watched.lock().unwrap().iter() {
            let key = u64::to_le_bytes(*number);
            let looked = look(&roots, &memory, Key::new(seed, &key)).0;
            assert_eq!(looked, Looked::Found, "key {number}");
        }
    }));
    for number in keys {
        // Only towards the end are there paths; each look is at all keys.
        if number == slots * 3 / 4 {
            *placed.lock().unwrap() = (0..number).collect();
        }
        world.put(&number.to_le_bytes(), b"v", 0).unwrap();
        if number >= slots * 3 / 4 {
            placed.lock().unwrap().push(number);
        }
    }
    let stats = world.owner.stats();
    assert!(stats.moves > 50 && stats.grown == 0, "{stats:?}");
}

/// Fails with `cuckoo_unverified`.
#[test]
fn an_extent_that_is_not_what_its_entry_says_is_not_taken() {
    let mut world = World::new(16, 100);
    world.put(b"key", &[1; 100], 0).unwrap();
    let roots = world.roots();
    assert_eq!(look(&roots, &world.memory, world.key(b"key")).0, Looked::Found);
    let words = world.memory.0[0].1.clone();
    let entry = world.owner.table.entry_at(place_of(&world, b"key")).unwrap();
    // A byte of the value, as a writer who is half through would leave it.
    words.store(u64::from(entry.address.offset()) + 16 + 3 + 50, &[2]).unwrap();
    assert_eq!(look(&roots, &world.memory, world.key(b"key")).0, Looked::Unsettled);
    let (mut found, mut looked) = ([Found::default()], [Looked::Absent]);
    let keys = [world.key(b"key")];
    roots.lookup_batch_mapped(&world.memory, &keys, &mut found, &mut looked, &mut 0).unwrap();
    assert_eq!(looked[0], Looked::Unsettled);
}

fn place_of(world: &World, key: &[u8]) -> u64 {
    use crate::cuckoo::table::{hash_of, places};
    let hash = hash_of(world.key(key));
    let table = &world.owner.table;
    places(hash, table.slots).into_iter().find(|slot| table.hash_at(*slot).unwrap() == hash).unwrap()
}
