//! Where slots come from: hints, arrays, budget.

use super::*;
use crate::size_class::SLOT_BYTES_MAX;

fn block(address: Address) -> (RegionId, u32) {
    (address.region(), address.offset() >> 20)
}

#[test]
fn a_hint_is_followed_to_block_and_region() {
    let mut heap = heap(3, 16);
    // Region 1 has room in block A for this class; the hint is in region 2.
    let there = loop {
        let one = create(&mut heap, &[1; 1000], None).unwrap();
        if one.address.region() == RegionId(2) {
            break one;
        }
    };
    // Make room in the first region again, where an allocation without a hint would go.
    let first = heap.objects(RegionId(1)).next().unwrap();
    free(&mut heap, Reserved { address: first.0, incarnation: first.1.incarnation });
    let near = create(&mut heap, &[1; 1000], Some(there.address)).unwrap();
    assert_eq!(block(near.address), block(there.address), "the same block");
    let other_size = create(&mut heap, &[1; 5000], Some(there.address)).unwrap();
    assert_eq!(other_size.address.region(), RegionId(2), "the same region, for another size");
    while let near = create(&mut heap, &[1; 1000], Some(there.address)).unwrap()
        && near.address.region() == RegionId(2)
    {}
    assert_eq!(heap.usage().free_blocks, 15, "only when its region is full is a hint left");
}

/// Many sizes in many regions: a block for each of each would be all there is.
#[test]
fn a_hint_takes_no_block_of_the_last_quarter_while_there_is_a_slot_elsewhere() {
    let mut heap = Heap::new(HeapOptions { budget_bytes: 16 << 20 });
    for id in 1..=2 {
        heap.add_region(RegionId(id), Words::private(8 << 20)).unwrap();
    }
    let hint = Address::new(RegionId(2), BLOCK_BYTES as u32);
    let first = create(&mut heap, &[1; 1000], None).unwrap();
    assert_eq!(first.address.region(), RegionId(1));
    let near = create(&mut heap, &[1; 1000], Some(hint)).unwrap();
    assert_eq!(near.address.region(), RegionId(2), "there is plenty");
    create(&mut heap, &[1; 2000], None).unwrap();
    while heap.usage().held_bytes <= 12 << 20 {
        heap.reserve(SLOT_BYTES_MAX - HEADER_BYTES, None, Purpose::Objects).unwrap();
    }
    let held = heap.usage().held_bytes;
    let far = create(&mut heap, &[1; 2000], Some(hint)).unwrap();
    assert_eq!(
        (far.address.region(), heap.usage().held_bytes),
        (RegionId(1), held),
        "not for nearness alone"
    );
    let other = create(&mut heap, &[1; 3000], Some(hint)).unwrap();
    assert_eq!(other.address.region(), RegionId(2), "a block that is needed anyhow is taken near");
}

#[test]
fn a_hint_to_nowhere_is_no_error() {
    let mut heap = heap(1, 4);
    for hint in [Address::new(RegionId(9), 0), Address::new(RegionId(1), u32::MAX), Address::from_bits(0)] {
        heap.reserve(100, Some(hint), Purpose::Objects).unwrap();
    }
}

#[test]
fn purposes_share_no_block() {
    let mut heap = heap(1, 8);
    let one = create(&mut heap, &[1; 100], None).unwrap();
    let two = heap.reserve(100, Some(one.address), Purpose::Trees).unwrap();
    assert_eq!(one.address.region(), two.address.region());
    assert_ne!(block(one.address), block(two.address));
    assert_eq!(heap.usage().of(Purpose::Trees).reserved_bytes, 128);
    assert_eq!(heap.usage().of(Purpose::Objects).slot_bytes, 128);
}

#[test]
fn an_array_lies_side_by_side() {
    let mut heap = heap(1, 8);
    let holes: Vec<_> = (0..300).map(|_| create(&mut heap, &[1; 40], None).unwrap()).collect();
    holes.iter().step_by(7).for_each(|hole| free(&mut heap, *hole));
    let array = heap.reserve_array(40, 50, Some(holes[0].address), Purpose::Objects).unwrap();
    for (at, slot) in array.slots.iter().enumerate() {
        let want = array.slots[0].address.checked_add((at * array.slot_bytes) as u32).unwrap();
        assert_eq!(slot.address, want);
        heap.create(slot.address, &[at as u8; 40]).unwrap();
    }
    assert_exact(&heap);
    let slots = Size::for_object(40).unwrap().slots();
    let whole = heap.reserve_array(40, slots, None, Purpose::Objects).unwrap();
    assert_eq!(whole.slots.len(), slots);
    let too_many = heap.reserve_array(40, slots + 1, None, Purpose::Objects);
    assert_eq!(too_many, Err(AllocError::TooLarge { bytes: 40, count: slots + 1 }));
    assert!(heap.reserve_array(40, 0, None, Purpose::Objects).is_err());
}

#[test]
fn the_longest_object_has_a_place() {
    use crate::object::OBJECT_BYTES_MAX;
    let mut heap = heap(1, 70);
    let body: Vec<u8> = (0..OBJECT_BYTES_MAX).map(|at| at as u8 ^ (at >> 8) as u8).collect();
    let one = create(&mut heap, &body, None).unwrap();
    let mut read = Vec::new();
    heap.read(one.address, &mut read).unwrap();
    assert!(read == body);
    assert_eq!(create(&mut heap, &body, None), Err(AllocError::Full { blocks: 65 }));
    let longer = heap.reserve(OBJECT_BYTES_MAX + 1, None, Purpose::Objects);
    assert!(matches!(longer, Err(AllocError::TooLarge { .. })));
    free(&mut heap, one);
    // Its own size may have it at once, for the header stays where it was.
    let two = create(&mut heap, &body[1..], None).unwrap();
    assert_eq!((two.address, two.incarnation), (one.address, 1));
    assert_exact(&heap);
}

#[test]
fn the_budget_is_kept_and_says_what_to_do() {
    let mut heap = Heap::new(HeapOptions { budget_bytes: 3 << 20 });
    heap.add_region(RegionId(1), Words::private(8 << 20)).unwrap();
    let a_block = SLOT_BYTES_MAX - HEADER_BYTES;
    let one = heap.reserve(a_block, None, Purpose::Objects).unwrap();
    heap.reserve(a_block, None, Purpose::Objects).unwrap();
    let error = heap.reserve(a_block, None, Purpose::Objects).unwrap_err();
    assert!(matches!(error, AllocError::Budget { waiting_bytes: 0, .. }));
    assert!(error.to_string().contains("delete something, raise the budget or add a node"), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("1 MiB more than the 3 MiB held would exceed the memory budget of 3 MiB")
    );
    assert!(!heap.wants_epoch(), "nothing waits");
    heap.create(one.address, &[]).unwrap();
    free(&mut heap, one);
    let error = heap.reserve(100, None, Purpose::Objects).unwrap_err();
    assert!(error.to_string().ends_with("1 MiB become free when their readers have left: try again"));
    assert!(heap.wants_epoch());
    let epoch = heap.next_epoch();
    heap.readers_left(epoch);
    heap.reserve(100, None, Purpose::Objects).unwrap();
    assert_eq!(heap.usage().held_bytes, 3 << 20);
    heap.set_budget(8 << 20);
    for _ in 0..5 {
        heap.reserve(a_block, None, Purpose::Objects).unwrap();
    }
    heap.set_budget(u64::MAX);
    let error = heap.reserve(a_block, None, Purpose::Objects).unwrap_err();
    assert_eq!(error, AllocError::Full { blocks: 1 });
    heap.add_region(RegionId(2), Words::private(2 << 20)).unwrap();
    heap.reserve(a_block, None, Purpose::Objects).unwrap();
}

#[test]
fn what_is_too_much_is_known_before_it_is_taken() {
    let mut heap = heap(1, 8);
    heap.set_budget(8 << 20);
    let held = heap.usage().held_bytes;
    let left = heap.usage().budget_bytes - held;
    assert_eq!(heap.check_budget(left), Ok(()));
    let error = heap.check_budget(100 << 30).unwrap_err();
    assert!(
        matches!(error, AllocError::Budget { needed_bytes, held_bytes, .. } if needed_bytes == 100 << 30 && held_bytes == held)
    );
    assert_eq!(heap.usage().held_bytes, held, "nothing was taken");
    // What waits is had soon, now that somebody needs it.
    let one = create(&mut heap, &[7; 100], None).unwrap();
    free(&mut heap, one);
    assert!(heap.check_budget(left).is_err());
    assert!(heap.wants_epoch());
    let epoch = heap.next_epoch();
    heap.readers_left(epoch);
    assert_eq!(heap.check_budget(left), Ok(()));
}

/// Given memory that is kept only to save work, or that waits for its readers, expect that what is asked for is told
/// from what can never be.
#[test]
fn what_can_be_had_is_told_from_what_can_never_be() {
    let mut heap = heap(1, 8);
    heap.set_budget(4 << 20);
    let left = (4 << 20) - heap.usage().held_bytes;
    let place = heap.reserve(100, None, Purpose::Objects).unwrap();
    heap.release(place.address).unwrap();
    assert_eq!(heap.check_budget(left), Ok(()), "what was kept is given up at once");
    let one = create(&mut heap, &[7; 100], None).unwrap();
    free(&mut heap, one);
    assert!(heap.check_budget(100 << 30).is_err() && !heap.will_have_room(), "never");
    assert!(heap.check_budget(left).is_err() && heap.will_have_room(), "when its readers have left");
    let epoch = heap.next_epoch();
    heap.readers_left(epoch);
    assert_eq!(heap.check_budget(left), Ok(()));
    assert!(!heap.will_have_room(), "nothing waits");
}

/// Slots that are longer than they should be are no array of buckets: what lacks is memory.
#[test]
fn an_array_that_finds_longer_slots_only_says_what_lacks() {
    let mut heap = heap(1, 4);
    let per_block = Size::for_object(600).unwrap().slots();
    let longer = Size::for_object(600).unwrap().larger().next().unwrap().slot_bytes - HEADER_BYTES;
    heap.reserve(longer, None, Purpose::Objects).unwrap();
    let error = loop {
        match heap.reserve_uniform_array(600, per_block / 4, Purpose::Objects) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AllocError::Full { blocks: 1 } | AllocError::Budget { .. }), "{error}");
}

/// A node with little memory and objects of many sizes: better a longer slot than none.
#[test]
fn a_longer_slot_is_used_when_memory_is_short() {
    let mut heap = heap(1, 3);
    create(&mut heap, &[1; 1000], None).unwrap();
    let trees = heap.reserve(2000, None, Purpose::Trees).unwrap();
    assert_eq!(heap.usage().free_blocks, 0);
    let short = heap.reserve(700, None, Purpose::Objects).unwrap();
    assert_eq!(short.address.offset() >> 20, 1, "in the slab of the longer class");
    let used = heap.usage().of(Purpose::Objects).reserved_bytes;
    assert_eq!(used, Size::for_object(1000).unwrap().slot_bytes as u64, "which is counted");
    let array = heap.reserve_array(900, 3, None, Purpose::Objects).unwrap();
    assert_eq!(array.slot_bytes, Size::for_object(1000).unwrap().slot_bytes);
    assert!(heap.reserve(400, None, Purpose::Objects).is_err(), "but at most twice as long");
    assert!(heap.reserve(1800, None, Purpose::Objects).is_err(), "and never another purpose's");
    heap.release(trees.address).unwrap();
    heap.reserve(400, None, Purpose::Objects).unwrap();
}
