//! Changes that one bucket is enough for come to the same as those that go the long way.

use super::super::change::Work;
use super::super::local::finish;
use super::*;

/// As [`World::put`], by what is there for changes of several buckets.
fn put_the_long_way(world: &mut World, key: &[u8], value: &[u8], expires: u64) -> u64 {
    let key = world.key(key);
    let Owner { shape, directory, segments, .. } = &world.owner;
    let segment = segments[directory.get(key.hash) as usize];
    let mut local = crate::objects::Objects::new(&mut world.heap, shape.purpose);
    let work = Work::new(&mut local, segment, shape, world.options.seed);
    let mut store = |_: Option<&Found>| Decision::Store { value: Cow::Borrowed(value), expires };
    let effect = finish(work.change(key, &mut store)).unwrap();
    local.commit().unwrap();
    effect.version
}

fn memory(world: &World) -> Vec<u8> {
    let words = world.heap.words(RegionId(1)).unwrap();
    let mut bytes = vec![0; words.bytes()];
    words.load(0, &mut bytes).unwrap();
    bytes
}

/// Given the same changes: every byte of the memory is the same, headers, versions and what lies behind
/// short entries among them.
#[test]
fn one_bucket_and_the_long_way_leave_the_same_bytes() {
    for (seed, neighbourhood) in [(1, 8), (2, 2), (3, 16)] {
        let options = TableOptions { neighbourhood, ..small() };
        let (mut short, mut long) = (World::new(options.clone(), 16), World::new(options, 16));
        let mut random = Seeded::new(seed);
        for round in 0..6000 {
            // Few enough that no segment is split or built anew, and most have been there before.
            let key = random.below(400).to_be_bytes();
            let key = &key[random.below(2) as usize..];
            let bytes = [0, 1, 7, 20, 32, 33, 200, 700][random.below(8) as usize];
            // Now and then one that is too long to go the short way.
            let bytes = if random.chance(10_000) { 70_000 } else { bytes };
            let value = vec![random.next() as u8; bytes];
            let expires = if random.chance(200_000) { 1 + random.below(9) } else { 0 };
            if random.chance(50_000) {
                assert_eq!(short.remove(key), long.remove(key));
            } else {
                let version = short.put(key, &value, expires).unwrap();
                assert_eq!(version, put_the_long_way(&mut long, key, &value, expires), "round {round}");
                let found = short.get(key).unwrap();
                assert_eq!((found.value, found.version, found.expires), (value, version, expires));
            }
            if round % 500 == 499 {
                assert!(memory(&short) == memory(&long), "seed {seed}, round {round}");
                assert_eq!(short.heap.usage(), long.heap.usage());
            }
        }
    }
}
