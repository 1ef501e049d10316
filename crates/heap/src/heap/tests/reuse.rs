//! When memory may be used again, and for what.

use super::*;
use crate::size_class::SLOT_BYTES_MAX;

/// Fills a region with objects of one size; gives them.
fn fill(heap: &mut Heap, bytes: usize) -> Vec<Reserved> {
    std::iter::from_fn(|| create(heap, &vec![7; bytes], None).ok()).collect()
}

#[test]
fn empty_blocks_wait_for_their_readers() {
    let mut heap = heap(1, 6);
    let objects = fill(&mut heap, 1000);
    objects.iter().for_each(|object| free(&mut heap, *object));
    assert_eq!((heap.usage().slab_blocks, heap.usage().waiting_blocks), (1, 4), "one is kept for its class");
    let other = create(&mut heap, &[1; 2000], None);
    assert_eq!(other, Err(AllocError::Full { blocks: 1 }), "a reader may still look for old headers");
    assert_eq!(heap.usage().waiting_blocks, 5, "the spare is given up when memory is short");
    heap.readers_left(heap.epoch());
    assert!(create(&mut heap, &[1; 2000], None).is_err(), "readers of this epoch have not left");
    let epoch = heap.next_epoch();
    heap.readers_left(epoch);
    assert_eq!(heap.usage().free_blocks, 5);
    create(&mut heap, &[1; 2000], None).unwrap();
    assert_exact(&heap);
}

#[test]
fn an_epoch_begins_when_more_waits_than_is_left() {
    let mut heap = heap(1, 11);
    let a_block = vec![7; SLOT_BYTES_MAX - HEADER_BYTES];
    let objects: Vec<_> = (0..6).map(|_| create(&mut heap, &a_block, None).unwrap()).collect();
    assert_eq!((heap.usage().slab_blocks, heap.usage().free_blocks), (6, 4));
    for (freed, object) in objects.iter().enumerate() {
        assert_eq!(heap.wants_epoch(), heap.usage().waiting_blocks > 4, "{freed} freed");
        free(&mut heap, *object);
    }
    assert_eq!(heap.usage().waiting_blocks, 5, "one is kept for its size");
    assert!(heap.wants_epoch());
}

#[test]
fn a_waiting_block_serves_its_own_size_at_once() {
    let mut heap = heap(1, 3);
    let objects = fill(&mut heap, 1000);
    objects.iter().for_each(|object| free(&mut heap, *object));
    let trees = heap.reserve(1000, None, Purpose::Trees).unwrap();
    assert_eq!(heap.usage().of(Purpose::Trees).block_bytes, 1 << 20);
    assert_eq!(trees.incarnation, 1);
    assert_exact(&heap);
}

#[test]
fn reservations_that_nobody_saw_need_not_wait() {
    let mut heap = heap(1, 3);
    let long = heap.reserve(2 * BLOCK_BYTES - HEADER_BYTES, None, Purpose::Objects).unwrap();
    heap.release(long.address).unwrap();
    assert_eq!(heap.usage().free_blocks, 2);
    create(&mut heap, &[1; 100], None).unwrap();
}

/// Whatever a place was used for: neither version nor incarnation goes back.
#[test]
fn a_block_divided_anew_counts_on() {
    let mut heap = heap(1, 2);
    let mut highest = (0, 0);
    for (round, bytes) in [1000, 40, 333, 5000, 40, 1000].into_iter().enumerate() {
        let objects = fill(&mut heap, bytes);
        assert!(!objects.is_empty());
        let lowest = objects.iter().map(|object| object.incarnation).min().unwrap();
        assert!(round == 0 || lowest > highest.1, "round {round}: an old pointer would match");
        let mut top = highest;
        for (at, object) in objects.iter().enumerate() {
            let version = heap.header(object.address).unwrap().word.version();
            assert!(version > highest.0, "round {round}: an old version would match");
            for write in 0..at as u64 % 5 {
                heap.lock(object.address, version + write, object.incarnation).unwrap();
                heap.write(object.address, &vec![8; bytes]).unwrap();
            }
            let header = heap.header(object.address).unwrap();
            top = (top.0.max(header.word.version() + 1), top.1.max(header.incarnation));
            free(&mut heap, *object);
        }
        highest = top;
        heap.slabs.spares().into_iter().for_each(|run| heap.retire(run));
        let epoch = heap.next_epoch();
        heap.readers_left(epoch);
        assert_eq!(heap.usage().free_blocks, 1);
    }
}

/// The floor is in the region: it outlives its owner.
#[test]
fn a_block_counts_on_after_a_restart() {
    let words = Words::private(2 << 20);
    let mut versions = Vec::new();
    for bytes in [1000, 40, 1000] {
        let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
        heap.add_region(RegionId(1), words.clone()).unwrap();
        let one = create(&mut heap, &vec![1; bytes], None).unwrap();
        versions.push((heap.header(one.address).unwrap().word.version(), one.incarnation));
        free(&mut heap, one);
        heap.slabs.spares().into_iter().for_each(|run| heap.retire(run));
        let epoch = heap.next_epoch();
        heap.readers_left(epoch);
        assert_eq!(heap.usage().free_blocks, 1);
    }
    assert!(versions.is_sorted_by(|a, b| a.0 + 1 < b.0 && a.1 < b.1), "{versions:?}");
}

/// 2^32 incarnations later, a place is taken out of use rather than begun again.
#[test]
fn incarnations_never_begin_again() {
    let words = Words::private(3 << 20);
    let slot_bytes = Size::for_object(1000).unwrap().slot_bytes as u64;
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    heap.add_region(RegionId(1), words.clone()).unwrap();
    let one = create(&mut heap, &[1; 1000], None).unwrap();
    let set_incarnation = |value: u32| {
        let at = one.address.offset() as u64 + 8;
        let meta = words.load_word(at, Ordering::Relaxed).unwrap() >> 32 << 32;
        words.store_word(at, meta | u64::from(value), Ordering::Relaxed).unwrap();
    };
    set_incarnation(u32::MAX - 1);
    free(&mut heap, Reserved { incarnation: u32::MAX - 1, ..one });
    assert_eq!(heap.usage().worn_bytes, slot_bytes);
    let two = create(&mut heap, &[1; 1000], None).unwrap();
    assert_ne!(one.address, two.address);
    // So it is after a restart.
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    heap.add_region(RegionId(1), words.clone()).unwrap();
    assert_eq!(heap.usage().worn_bytes, slot_bytes);
    // A block whose next slots would begin at the last incarnation is of no use either.
    let long = create(&mut heap, &vec![1; SLOT_BYTES_MAX - HEADER_BYTES], None).unwrap();
    let at = long.address.offset() as u64 + 8;
    let meta = words.load_word(at, Ordering::Relaxed).unwrap() >> 32 << 32;
    words.store_word(at, meta | u64::from(u32::MAX - 2), Ordering::Relaxed).unwrap();
    free(&mut heap, Reserved { incarnation: u32::MAX - 2, ..long });
    heap.slabs.spares().into_iter().for_each(|run| heap.retire(run));
    let epoch = heap.next_epoch();
    heap.readers_left(epoch);
    assert_eq!(heap.usage().worn_blocks, 1);
    assert_eq!(heap.usage().free_blocks, 0);
    assert_exact(&heap);
}
