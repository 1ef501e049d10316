//! What a shard takes of the heap, and gives back.

use super::*;

#[test]
fn all_memory_is_given_back() {
    let mut world = World::new(128, 1);
    let bare = world.owner.stats().memory_bytes;
    assert_eq!(bare, world.reserved_bytes());
    for round in 0..3u64 {
        for number in 0..3000u64 {
            let value = vec![1; (number * 37 % 5000) as usize];
            world.put(&(round * 3000 + number).to_le_bytes(), &value, 0).unwrap();
        }
        world.put(b"long", &vec![2; 3 << 20], 0).unwrap();
        assert_eq!(world.owner.stats().memory_bytes, world.reserved_bytes());
        (0..3000u64).for_each(|number| world.remove(&(round * 3000 + number).to_le_bytes()));
        world.remove(b"long");
        assert_eq!(world.owner.stats().memory_bytes, world.reserved_bytes());
    }
    let stats = world.owner.stats();
    assert_eq!((stats.keys, stats.payload_bytes), (0, 0));
    world.owner.clear(&mut world.heap);
    let usage = *world.heap.usage().of(Purpose::Tables);
    assert_eq!((usage.reserved, usage.reserved_bytes, usage.objects), (0, 0, 0));
}

#[test]
fn without_memory_a_put_is_refused_and_nothing_has_changed() {
    let mut world = World::new(8, 1);
    let mut count = 0u64;
    let refused = loop {
        match world.put(&count.to_le_bytes(), &[count as u8; 600], 0) {
            Ok(_) => count += 1,
            // Once the readers of arrays outgrown have left, there is more.
            Err(_) if world.heap.usage().waiting_blocks > 0 => world.readers_leave(),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(&refused, Refused::Full(why) if !why.is_empty()), "{refused:?}");
    assert!(count > 3000, "{count} keys of 600 bytes in 8 MiB");
    let before = world.owner.stats();
    assert_eq!(before.memory_bytes, world.reserved_bytes());
    // Neither a new key nor a longer value, and what is there stays there.
    assert!(world.put(b"another", &[0; 600], 0).is_err());
    assert!(world.put(&7u64.to_le_bytes(), &[0; 100_000], 0).is_err() || before.memory_bytes < 7 << 20);
    let roots = world.roots();
    for number in 0..count {
        let key = number.to_le_bytes();
        let found = world.get(&key).unwrap();
        assert!(number == 7 || found.value == [number as u8; 600]);
        assert_eq!(look(&roots, &world.memory, world.key(&key)).1, found);
    }
    // What was removed makes room.
    (0..64u64).for_each(|number| world.remove(&number.to_le_bytes()));
    world.put(b"another", &[0; 600], 0).unwrap();
}

#[test]
fn entries_that_find_no_memory_leave_the_table_as_it_was() {
    // The region's own block, one of extents, one of entries: then there is none for the next array.
    let mut world = World::new(4, 1);
    let mut count = 0u64;
    while world.put(&count.to_le_bytes(), b"", 0).is_ok() {
        count += 1;
    }
    let roots = world.roots();
    assert!(count * 100 >= world.owner.stats().slots * 90, "{count}");
    for number in 0..count {
        assert_eq!(look(&roots, &world.memory, world.key(&number.to_le_bytes())).0, Looked::Found);
    }
    assert_eq!(world.owner.stats().memory_bytes, world.reserved_bytes());
}
