//! Properties of the allocator, and what its callers rely on.

mod durable;
mod image;
mod model;
mod placement;
mod rebuild;
pub(crate) mod replay;
mod reuse;

use super::*;
use crate::error::AllocError;
use crate::object::{Confirmation, HEADER_BYTES, Seen, inspect};
use crate::size_class::Size;
use barn_fabric::region::Ordering;
use barn_layout::object::{LockMode, VersionWord};

/// A heap over regions of its own, without a budget to speak of.
fn heap(regions: u32, region_mib: usize) -> Heap {
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    for id in 1..=regions {
        heap.add_region(RegionId(id), Words::private(region_mib << 20)).unwrap();
    }
    heap
}

fn create(heap: &mut Heap, body: &[u8], hint: Option<Address>) -> Result<Reserved, AllocError> {
    let reserved = heap.reserve(body.len(), hint, Purpose::Objects)?;
    heap.create(reserved.address, body).unwrap();
    Ok(reserved)
}

/// Asserts that every byte is counted once.
fn assert_exact(heap: &Heap) {
    let usage = heap.usage();
    let (mut objects, mut object_bytes, mut blocks) = (0, 0, 0);
    for region in heap.regions() {
        for (_, header) in heap.objects(region) {
            objects += 1;
            object_bytes += header.bytes as u64;
        }
        blocks += heap.regions[heap.by_id[&region] as usize].blocks();
    }
    let total = usage.total();
    assert_eq!((total.objects, total.object_bytes), (objects, object_bytes));
    assert_eq!(total.block_bytes, (usage.slab_blocks * BLOCK_BYTES) as u64);
    let held = usage.table_blocks + usage.slab_blocks + usage.waiting_blocks + usage.worn_blocks;
    assert_eq!(held + usage.free_blocks, blocks);
    assert_eq!(usage.held_bytes, (held * BLOCK_BYTES) as u64);
}

fn free(heap: &mut Heap, object: Reserved) {
    let version = heap.header(object.address).unwrap().word.version();
    heap.lock(object.address, version, object.incarnation).unwrap();
    heap.free(object.address).unwrap();
}

#[test]
fn an_object_lives_and_dies() {
    let mut heap = heap(1, 4);
    let one = create(&mut heap, b"hello", None).unwrap();
    let mut body = Vec::new();
    let header = heap.read(one.address, &mut body).unwrap();
    assert_eq!((body.as_slice(), header.word.version(), header.allocated), (&b"hello"[..], 1, true));
    heap.lock(one.address, 1, one.incarnation).unwrap();
    assert_eq!(heap.lock(one.address, 1, one.incarnation), Err(ObjectError::Locked));
    assert_eq!(
        heap.write(one.address, b"other!").unwrap_err(),
        ObjectError::Length { bytes: 6, expected: 5 }
    );
    assert_eq!(heap.write(one.address, b"world"), Ok(2));
    assert_eq!(heap.lock(one.address, 1, one.incarnation), Err(ObjectError::Changed { version: 2 }));
    free(&mut heap, one);
    assert_eq!(heap.lock(one.address, 3, one.incarnation), Err(ObjectError::Freed));
    assert_eq!(heap.read(one.address, &mut body), Err(ObjectError::Freed));
    let two = create(&mut heap, b"again", None).unwrap();
    assert_eq!((two.address, two.incarnation), (one.address, one.incarnation + 1));
}

/// Given a place that will hold an object, expect that whoever has its pointer waits, and nobody else; until it is
/// there, or is given back, or its owner starts again.
#[test]
fn an_object_that_was_announced_is_waited_for() {
    let words = Words::private(4 << 20);
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    heap.add_region(RegionId(1), words.clone()).unwrap();
    let seen = |place: Reserved, incarnation| {
        let mut bytes = [0; HEADER_BYTES + 8];
        words.load(u64::from(place.address.offset()), &mut bytes).unwrap();
        inspect(place.address, incarnation, &bytes, Confirmation::Unordered)
    };
    let worn = create(&mut heap, b"it was", None).unwrap();
    free(&mut heap, worn);
    let place = heap.reserve(8, None, Purpose::Objects).unwrap();
    assert_eq!(seen(place, Some(1)), Seen::Freed);
    heap.announce(place.address).unwrap();
    heap.announce(place.address).unwrap();
    assert_eq!(
        [Some(0), Some(1), Some(2), None].map(|incarnation| seen(place, incarnation)),
        [Seen::Freed, Seen::Locked, Seen::Freed, Seen::Locked]
    );
    let header = heap.header(place.address).unwrap();
    assert_eq!((header.bytes, header.allocated, header.coming, header.incarnation), (0, false, true, 1));
    assert_eq!(heap.lock(place.address, header.word.version(), 1), Err(ObjectError::Freed));
    heap.release(place.address).unwrap();
    assert_eq!(seen(place, Some(1)), Seen::Freed);
    assert_eq!(heap.announce(place.address), Err(ObjectError::NotReserved));

    let again = heap.reserve(8, None, Purpose::Objects).unwrap();
    assert_eq!(again, place);
    heap.announce(again.address).unwrap();
    heap.create(again.address, b"is there").unwrap();
    assert!(matches!(seen(again, Some(1)), Seen::Whole(view) if view.bytes == 8));
    assert_eq!(heap.announce(again.address), Err(ObjectError::NotReserved));
    assert_exact(&heap);

    let never = heap.reserve(8, None, Purpose::Objects).unwrap();
    heap.announce(never.address).unwrap();
    let promised = heap.header(never.address).unwrap().word.version();
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    let scan = heap.add_region(RegionId(1), words.clone()).unwrap();
    assert_eq!((scan.objects, scan.interrupted.len()), (1, 0));
    assert_eq!(seen(never, Some(never.incarnation)), Seen::Freed);
    assert_eq!(heap.release(never.address), Err(ObjectError::NotReserved), "free again");
    // Whoever made it was told its version: a log may say yet that it is to be.
    assert_eq!(heap.header(never.address).unwrap().word.version(), promised);
}

#[test]
fn only_starts_of_slots_are_objects() {
    let mut heap = heap(1, 4);
    let one = create(&mut heap, &[1; 100], None).unwrap();
    let slot = Size::for_object(100).unwrap();
    for offset in (0..4 << 20).step_by(8) {
        let address = Address::new(RegionId(1), offset);
        let (block, within) = (offset as usize / BLOCK_BYTES, offset as usize % BLOCK_BYTES);
        let is_slot = block == one.address.offset() as usize / BLOCK_BYTES
            && within % slot.slot_bytes == 0
            && within / slot.slot_bytes < slot.slots();
        assert_eq!(heap.header(address).is_ok(), is_slot, "{address:?}");
    }
    for foreign in [
        Address::new(RegionId(1), 4 << 20),
        Address::new(RegionId(1), u32::MAX),
        Address::new(RegionId(2), 0),
    ] {
        assert_eq!(heap.header(foreign), Err(ObjectError::NotAnObject));
        assert_eq!(heap.create(foreign, &[]), Err(ObjectError::NotAnObject));
        assert_eq!(heap.release(foreign), Err(ObjectError::NotAnObject));
        assert_eq!(heap.lock(foreign, 0, 0), Err(ObjectError::NotAnObject));
    }
}

#[test]
fn a_slot_is_created_once_and_released_once() {
    let mut heap = heap(1, 4);
    let one = heap.reserve(40, None, Purpose::Objects).unwrap();
    assert_eq!(heap.create(one.address, &[0; 41]), Err(ObjectError::Length { bytes: 41, expected: 40 }));
    assert_eq!(heap.create(one.address, &[0; 40]), Ok(1));
    assert_eq!(heap.create(one.address, &[0; 40]), Err(ObjectError::NotReserved));
    assert_eq!(heap.release(one.address), Err(ObjectError::NotReserved));
    let two = heap.reserve(40, None, Purpose::Objects).unwrap();
    heap.release(two.address).unwrap();
    assert_eq!(heap.release(two.address), Err(ObjectError::NotReserved));
    assert_eq!(heap.create(two.address, &[]), Err(ObjectError::NotReserved));
    assert_eq!(heap.free(one.address), Err(ObjectError::NotLocked));
    assert_eq!(heap.write(one.address, &[0; 40]), Err(ObjectError::NotLocked));
    assert_eq!(heap.unlock(one.address), Err(ObjectError::NotLocked));
    assert_eq!(heap.close(two.address), Err(ObjectError::Freed));
}

#[test]
fn a_lock_closes_and_opens() {
    let mut heap = heap(1, 4);
    let one = create(&mut heap, &[1; 8], None).unwrap();
    let mode = |heap: &Heap| heap.header(one.address).unwrap().word;
    heap.lock(one.address, 1, 0).unwrap();
    assert_eq!(mode(&heap), VersionWord::new(1, LockMode::Prepared));
    heap.close(one.address).unwrap();
    assert_eq!(mode(&heap), VersionWord::new(1, LockMode::Exclusive));
    heap.unlock(one.address).unwrap();
    assert_eq!(mode(&heap), VersionWord::new(1, LockMode::Free));
    assert_eq!(heap.lock(one.address, 1, 1), Err(ObjectError::Freed));
}

#[test]
fn an_object_is_discarded_unless_it_is_held_changed_or_gone() {
    let mut heap = heap(1, 2);
    let object = create(&mut heap, &[1; 40], None).unwrap();
    let discard = |heap: &mut Heap, version| heap.discard(object.address, version, object.incarnation);
    assert_eq!(discard(&mut heap, 2), Err(ObjectError::Changed { version: 1 }));
    heap.lock(object.address, 1, object.incarnation).unwrap();
    assert_eq!(discard(&mut heap, 1), Err(ObjectError::Locked));
    heap.unlock(object.address).unwrap();
    assert_eq!(discard(&mut heap, 1), Ok(()));
    assert_eq!(discard(&mut heap, 1), Err(ObjectError::Freed));
    assert_exact(&heap);
}

#[test]
fn an_object_is_replaced_in_one_go_unless_it_is_held_gone_or_of_another_length() {
    let mut heap = heap(1, 2);
    let object = create(&mut heap, &[1; 40], None).unwrap();
    let before = heap.header(object.address).unwrap().word.version();
    let after = heap.replace(object.address, object.incarnation, &[2; 40]).unwrap();
    assert_eq!(after, before + 1);
    let mut body = Vec::new();
    let header = heap.read(object.address, &mut body).unwrap();
    assert_eq!((header.word, &body[..]), (VersionWord::new(after, LockMode::Free), &[2; 40][..]));
    let other = heap.replace(object.address, object.incarnation, &[3; 41]);
    assert_eq!(other, Err(ObjectError::Length { bytes: 41, expected: 40 }));
    assert_eq!(heap.replace(object.address, object.incarnation + 1, &[3; 40]), Err(ObjectError::Freed));
    heap.lock(object.address, after, object.incarnation).unwrap();
    assert_eq!(heap.replace(object.address, object.incarnation, &[3; 40]), Err(ObjectError::Locked));
    heap.unlock(object.address).unwrap();
    free(&mut heap, object);
    assert_eq!(heap.replace(object.address, object.incarnation, &[3; 40]), Err(ObjectError::Freed));
    assert_exact(&heap);
}
