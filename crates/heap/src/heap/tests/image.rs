//! Objects that are brought, changed and put back: what readers and the log see of it.

use super::replay::Replica;
use super::*;
use crate::object::{Confirmation, Seen, inspect, read_bytes};
use barn_fabric::seam::{Random, Seeded};
use barn_log::Entry;

/// A recorded heap with one object of these bytes.
fn recorded(body: &[u8], purpose: Purpose) -> (Heap, Replica, Reserved) {
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    heap.record_changes();
    heap.add_region(RegionId(1), Words::private(2 << 20)).unwrap();
    let place = heap.reserve(body.len(), None, purpose).unwrap();
    heap.create(place.address, body).unwrap();
    let mut replica = Replica::default();
    replica.apply(heap.changes().unwrap());
    (heap, replica, place)
}

/// All bytes of an object's slot, as a reader from afar gets them.
fn raw(words: &Words, address: Address, bytes: usize) -> Vec<u8> {
    let mut raw = vec![0; read_bytes(bytes)];
    words.load(u64::from(address.offset()), &mut raw).unwrap();
    raw
}

/// Given changes of random ranges: the object has them and no other, readers find it whole, and what is
/// replayed from the record is the same to the last byte. Fails with `second_part_not_recorded`.
#[test]
fn what_is_put_back_is_what_was_changed_and_what_is_recorded() {
    let mut random = Seeded::new(11);
    for bytes in [1usize, 8, 40, 63, 64, 71, 224, 500, 608, 1500] {
        let mut model: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        let (mut heap, mut replica, place) = recorded(&model, Purpose::Tables);
        let mut image = Image::default();
        for round in 1..=200u64 {
            let header = heap.bring(place.address, &mut image).unwrap();
            assert_eq!((header.word.version(), image.body()), (round, &model[..]));
            for _ in 0..random.below(4) {
                let start = random.below(bytes as u64) as usize;
                let end = start + 1 + random.below((bytes - start) as u64) as usize;
                let body = image.change(start..end);
                body[start..end].iter_mut().for_each(|byte| *byte = random.next() as u8);
                model[start..end].copy_from_slice(&body[start..end]);
            }
            assert_eq!(heap.put_back(&mut image), Ok(round + 1));
            let there = raw(heap.words(RegionId(1)).unwrap(), place.address, bytes);
            match inspect(place.address, Some(place.incarnation), &there, Confirmation::Unordered) {
                Seen::Whole(view) => {
                    assert_eq!((view.version, &there[HEADER_BYTES..][..bytes]), (round + 1, &model[..]));
                }
                other => panic!("{bytes} bytes, round {round}: {other:?}"),
            }
            replica.apply(heap.changes().unwrap());
            if round % 20 == 0 {
                let restored = &replica.restored()[0].1;
                assert_eq!(raw(restored, place.address, bytes), there, "{bytes} bytes, round {round}");
            }
        }
    }
}

#[test]
fn only_what_was_changed_is_recorded() {
    let (mut heap, _, place) = recorded(&[0; 608], Purpose::Tables);
    let mut image = Image::default();
    heap.bring(place.address, &mut image).unwrap();
    image.change(340..372)[340..372].fill(7);
    image.change(12..28)[12..28].fill(9);
    heap.put_back(&mut image).unwrap();
    let lengths: Vec<usize> = heap
        .changes()
        .unwrap()
        .each()
        .map(|entry| match entry {
            Entry::Words { bytes, .. } => bytes.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lengths, [HEADER_BYTES + 32, 40], "the header with the first words, and the rest");
    // Of what does not outlive its node, nothing is.
    let (mut heap, _, place) = recorded(&[0; 608], Purpose::Volatile);
    heap.bring(place.address, &mut image).unwrap();
    image.change(0..608).fill(7);
    heap.put_back(&mut image).unwrap();
    assert!(heap.changes().unwrap().is_empty());
}

/// Fails with `heap_replaces_held`.
#[test]
fn what_was_locked_changed_or_freed_meanwhile_is_not_put_back() {
    let (mut heap, _, object) = recorded(&[1; 40], Purpose::Objects);
    let mut image = Image::default();
    let put = |heap: &mut Heap, image: &mut Image, meanwhile: &dyn Fn(&mut Heap)| {
        heap.bring(object.address, image).unwrap();
        image.change(0..40).fill(5);
        meanwhile(heap);
        heap.put_back(image)
    };
    let lock = |heap: &mut Heap| heap.lock(object.address, 1, object.incarnation).unwrap();
    assert_eq!(put(&mut heap, &mut image, &lock), Err(ObjectError::Locked), "as replaced_in_one_go");
    heap.unlock(object.address).unwrap();
    let change = |heap: &mut Heap| {
        heap.replace(object.address, object.incarnation, &[2; 40]).unwrap();
    };
    assert_eq!(put(&mut heap, &mut image, &change), Err(ObjectError::Changed { version: 2 }));
    let freed = put(&mut heap, &mut image, &|heap| free(heap, object));
    assert_eq!(freed, Err(ObjectError::Freed));
    assert_eq!(heap.put_back(&mut image), Err(ObjectError::NotAnObject), "it is put back once");
    assert_eq!(heap.bring(object.address, &mut image), Err(ObjectError::Freed));
    assert!(image.body().is_empty());
    assert_exact(&heap);
}
