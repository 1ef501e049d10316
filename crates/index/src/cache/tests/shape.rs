//! What a shard takes, gives, refuses and tells.

use super::*;
use crate::cache::index::SLOTS;
use barn_heap::Purpose;

#[test]
fn a_key_comes_and_goes() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    assert_eq!(cache.both(b"key"), None);
    let first = cache.put(b"key", b"value", 0).unwrap();
    assert_eq!(cache.both(b"key"), Some(Found { value: b"value".to_vec(), version: first, expires: 0 }));
    let (seen, second) = cache.update(b"key", Decision::Store { value: b"other"[..].into(), expires: 9 });
    assert_eq!(seen.map(|found| found.value), Some(b"value".to_vec()));
    let second = second.unwrap();
    assert!(second > first);
    assert_eq!(cache.update(b"key", Decision::Keep).1, Ok(second));
    assert_eq!(cache.both(b"key").unwrap(), Found { value: b"other".to_vec(), version: second, expires: 9 });
    let stats = cache.owner.stats();
    assert_eq!((stats.keys, stats.payload_bytes, stats.updates, stats.expired), (1, 8, 2, 0));
    assert_eq!(cache.update(b"key", Decision::Remove).1, Ok(0));
    assert_eq!(cache.update(b"key", Decision::Remove).1, Ok(0));
    assert_eq!((cache.both(b"key"), cache.update(b"key", Decision::Keep)), (None, (None, Ok(0))));
    let stats = cache.owner.stats();
    assert_eq!((stats.keys, stats.payload_bytes, stats.updates, stats.expired), (0, 0, 3, 1));
    assert_eq!((stats.gets, stats.hits), (4, 2));
}

#[test]
fn memory_is_taken_once_and_given_back() {
    for (regions, region_mib, memory_mib) in [(1, 200, 130), (3, 12, 30), (5, 4, 15)] {
        let (mut heap, memory) = heap(regions, region_mib);
        let before = heap.usage();
        let memory_bytes = (memory_mib << 20) + 4321;
        let owner = Owner::new(&mut heap, &options(memory_bytes), PART).unwrap();
        let stats = owner.stats();
        let tables = *heap.usage().of(Purpose::Volatile);
        assert_eq!((stats.memory_bytes, tables.reserved_bytes), (memory_mib << 20, memory_mib << 20));
        assert!(stats.slots >= stats.memory_bytes / 64 - 1000, "{stats:?}");
        let roots = Roots::parse(&owner.roots(&heap, &[]), &options(memory_bytes), PART).unwrap();
        let mut cache = Cache { heap, owner, memory, roots };
        for key in 0..20_000u32 {
            cache.put(&key.to_le_bytes(), &[7; 1000], 0).unwrap();
        }
        assert_eq!(cache.owner.stats().memory_bytes, memory_mib << 20);
        cache.owner.clear(&mut cache.heap);
        assert_eq!((cache.get(b"key"), cache.scan()), (None, Vec::new()));
        assert_eq!(cache.look_up(&19_999u32.to_le_bytes()), None, "the memory is zero");
        assert!(matches!(cache.put(b"key", b"", 0), Err(Refused::Invalid(_))));
        let epoch = cache.heap.next_epoch();
        cache.heap.readers_left(epoch);
        assert_eq!(cache.heap.usage(), before);
    }
}

/// The heap keeps one empty block of a size that it divides blocks into; nothing else stays.
#[test]
fn of_a_cache_of_one_block_the_heap_keeps_a_spare() {
    let (mut heap, _) = heap(1, 8);
    let before = heap.usage();
    let mut owner = Owner::new(&mut heap, &options(1 << 20), PART).unwrap();
    owner.clear(&mut heap);
    let epoch = heap.next_epoch();
    heap.readers_left(epoch);
    let after = heap.usage();
    assert_eq!(after.of(Purpose::Volatile).reserved_bytes, 0);
    assert_eq!((after.slab_blocks, after.free_blocks + 1), (1, before.free_blocks));
}

#[test]
fn memory_that_is_not_there_is_said_to_be_missing() {
    let (mut heap, _) = heap(2, 4);
    let before = heap.usage();
    let refused = Owner::new(&mut heap, &options(8 << 20), PART).unwrap_err();
    assert!(matches!(refused, Refused::Full(_)), "{refused:?}");
    assert_eq!(
        heap.usage().of(Purpose::Volatile).reserved_bytes,
        before.of(Purpose::Volatile).reserved_bytes
    );
}

#[test]
fn only_what_is_longer_than_the_log_is_refused() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    cache.put(b"small", b"1", 0).unwrap();
    let refused = cache.put(b"large", &vec![0; 1 << 20], 0).unwrap_err().to_string();
    assert!(refused.contains("1048576") && refused.contains("make one with more memory"), "{refused}");
    assert!(cache.both(b"small").is_some(), "nothing has changed");
    let log_bytes = cache.roots.space.log_words() as usize * 8;
    let longest = vec![5; log_bytes - 40];
    for round in 0..4u8 {
        cache.put(&[round], &longest, 0).unwrap();
        assert_eq!(cache.both(&[round]).unwrap().value, longest);
        cache.put(b"small", b"1", 0).unwrap();
        assert_eq!((cache.both(&[round]), cache.owner.stats().keys), (None, 1));
    }
    assert!(cache.put(b"k", &vec![5; log_bytes - 39], 0).is_err());
}

#[test]
fn what_is_longer_than_a_chunk_lies_in_several() {
    // Three blocks in each region are free.
    let mut cache = Cache::new(heap(5, 4), 15 << 20);
    assert_eq!(cache.roots.space.chunks().len(), 5);
    let mut random = Random(1);
    for round in 0..60u64 {
        let bytes = [100, 900_000, 3_000_000, 5_000_001, 12_000_000][random.below(5) as usize];
        let value: Vec<u8> = (0..bytes).map(|at: u64| (at * 31 / 7 + round) as u8).collect();
        let key = vec![round as u8; 1 + random.below(65_536) as usize];
        cache.put(&key, &value, 0).unwrap();
        assert!(cache.both(&key).unwrap().value == value, "{round}: {bytes}");
    }
    assert!(cache.owner.stats().evicted > 10);
}

#[test]
fn the_longest_key_and_value_fit() {
    let mut cache = Cache::new(heap(2, 72), 100 << 20);
    let (key, value) = (vec![1; 64 << 10], vec![2; 64 << 20]);
    for _ in 0..3 {
        cache.put(&key, &value, 0).unwrap();
        assert!(cache.both(&key).unwrap().value == value);
    }
}

#[test]
fn a_bucket_forgets_its_oldest() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    let spot = |cache: &Cache, key: &[u8]| cache.roots.space.spot(Key::new(SEED, key).hash);
    let bucket = spot(&cache, b"0").bucket;
    let mates: Vec<Vec<u8>> = (0..1_000_000u32)
        .map(|key| key.to_string().into_bytes())
        .filter(|key| spot(&cache, key).bucket == bucket)
        .take(SLOTS + 3)
        .collect();
    for key in &mates {
        cache.put(key, key, 0).unwrap();
    }
    let there: Vec<bool> = mates.iter().map(|key| cache.both(key).is_some()).collect();
    assert_eq!(there.iter().position(|there| *there), Some(3), "{there:?}");
    assert!(there[3..].iter().all(|there| *there), "{there:?}");
    let stats = cache.owner.stats();
    assert_eq!((stats.keys, stats.evicted), (SLOTS as u64, 3));
}

#[test]
fn of_two_keys_with_one_tag_the_newer_stays() {
    let mut cache = Cache::new(heap(1, 8), 1 << 20);
    let mut spots = std::collections::HashMap::new();
    // 2,048 buckets and 65,535 tags: among 60,000 keys there are some pairs.
    let (one, two) = (0..60_000u32)
        .find_map(|key| {
            let spot = cache.roots.space.spot(Key::new(SEED, &key.to_le_bytes()).hash);
            spots.insert((spot.bucket, spot.tag), key).map(|other| (other, key))
        })
        .unwrap();
    cache.put(&one.to_le_bytes(), b"one", 0).unwrap();
    assert_eq!(cache.both(&two.to_le_bytes()), None);
    assert_eq!(cache.update(&two.to_le_bytes(), Decision::Remove), (None, Ok(0)));
    assert!(cache.both(&one.to_le_bytes()).is_some());
    cache.put(&two.to_le_bytes(), b"two", 0).unwrap();
    assert_eq!(cache.both(&one.to_le_bytes()), None);
    assert_eq!(cache.both(&two.to_le_bytes()).unwrap().value, b"two");
    assert_eq!((cache.owner.stats().keys, cache.owner.stats().evicted), (1, 1));
}

#[test]
fn roots_of_any_bytes_are_roots_or_malformed() {
    let cache = Cache::new(heap(5, 4), 15 << 20);
    let good = cache.owner.roots(&cache.heap, &[]);
    let parse = |bytes: &[u8]| Roots::parse(bytes, &options(15 << 20), PART);
    assert_eq!(parse(&good).unwrap().regions(), (1..=5).map(RegionId).collect::<Vec<_>>());
    for bytes in 0..good.len() {
        let cut = parse(&good[..bytes]);
        assert!(bytes % 16 == 8 || cut.is_err(), "{bytes}");
    }
    let mut random = Random(5);
    let mut parsed = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        // Memory that is somewhere else: nothing is found there, and nothing panics.
        if let Ok(roots) = parse(&bytes) {
            parsed += 1;
            let key = random.below(1000).to_le_bytes();
            let (mut found, mut reads) = (Found::default(), 0);
            let lookup = roots.lookup(&cache.memory, Key::new(SEED, &key), &mut found, &mut reads);
            assert!(!matches!(block_on(lookup), Ok(Looked::Found)));
        }
    }
    assert!(parsed > 100);
}
