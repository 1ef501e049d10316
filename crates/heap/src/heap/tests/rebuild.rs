//! Restarts: what the memory says is all that a new owner knows.

use super::*;
use crate::error::HeapError;
use barn_fabric::seam::{Random, Seeded};
use barn_layout::heap::{FLOORS_AT, STATES_AT};

fn over(words: &Words) -> Result<(Heap, RegionScan), HeapError> {
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    let scan = heap.add_region(RegionId(1), words.clone())?;
    Ok((heap, scan))
}

#[test]
fn a_region_is_formatted_once() {
    let words = Words::private(4 << 20);
    let (mut heap, scan) = over(&words).unwrap();
    assert_eq!(scan, RegionScan { formatted: true, blocks: 4, ..RegionScan::default() });
    let one = create(&mut heap, b"kept", None).unwrap();
    let (heap, scan) = over(&words).unwrap();
    assert_eq!((scan.formatted, scan.objects, scan.object_bytes, scan.slab_blocks), (false, 1, 4, 1));
    let mut body = Vec::new();
    heap.read(one.address, &mut body).unwrap();
    assert_eq!(body, b"kept");
}

/// Given each state in which an owner can stop, expect what `Heap::add_region` promises.
#[test]
fn interrupted_changes_are_listed_or_undone() {
    let words = Words::private(4 << 20);
    let (mut heap, _) = over(&words).unwrap();
    let objects: Vec<_> = (0..6u8).map(|at| create(&mut heap, &[at; 64], None).unwrap()).collect();
    let reserved = heap.reserve(64, None, Purpose::Objects).unwrap();
    let [prepared, closed, half, half_free, ..] = objects[..] else { unreachable!() };
    for object in [prepared, closed, half, half_free] {
        heap.lock(object.address, 1, 0).unwrap();
    }
    [closed, half, half_free].iter().for_each(|object| heap.close(object.address).unwrap());
    let at = |object: Reserved| u64::from(object.address.offset());
    // Half written; freed, but not opened; half created.
    words.store_word(at(half) + 24, 99, Ordering::Relaxed).unwrap();
    words.store_word(at(half_free) + 8, 1, Ordering::Relaxed).unwrap();
    let half_created = heap.reserve(64, None, Purpose::Objects).unwrap();
    let exclusive = VersionWord::new(0, LockMode::Exclusive);
    words.store_word(at(half_created), exclusive.0, Ordering::Relaxed).unwrap();
    words.store_word(at(half_created) + 24, 99, Ordering::Relaxed).unwrap();

    let (mut heap, scan) = over(&words).unwrap();
    let listed: Vec<_> =
        scan.interrupted.iter().map(|one| (one.address, one.header.word.mode(), one.whole)).collect();
    let want = [
        (prepared.address, LockMode::Prepared, true),
        (closed.address, LockMode::Exclusive, true),
        (half.address, LockMode::Exclusive, false),
    ];
    assert_eq!(listed, want);
    assert_eq!(scan.objects, 5);
    assert_eq!(heap.lock(prepared.address, 1, 0), Err(ObjectError::Locked), "still locked");
    heap.unlock(closed.address).unwrap();
    assert_eq!(heap.write(half.address, &[5; 64]), Ok(2));
    for free in [half_free, half_created, reserved] {
        let header = heap.header(free.address).unwrap();
        assert!(!header.allocated && header.word.mode() == LockMode::Free);
        assert_eq!(heap.release(free.address), Err(ObjectError::NotReserved), "free again");
    }
    let again: Vec<_> = (0..3).map(|_| create(&mut heap, &[9; 64], None).unwrap().address).collect();
    assert_eq!(again, [half_free.address, reserved.address, half_created.address], "lowest first");
    assert_eq!(heap.header(half_free.address).unwrap().incarnation, 1);
    assert!(heap.header(half_created.address).unwrap().word.version() > 1);
    assert_exact(&heap);
}

#[test]
fn blocks_half_divided_are_free() {
    let words = Words::private(8 << 20);
    let (mut heap, _) = over(&words).unwrap();
    // A run of several blocks, whose first was not yet written when the owner stopped.
    let one = heap.reserve(700_000, None, Purpose::Objects).unwrap();
    let first = u64::from(one.address.offset() >> 20);
    assert!(heap.usage().slab_blocks > 1);
    words.store_word(STATES_AT + first * 8, 0, Ordering::Relaxed).unwrap();
    let (heap, scan) = over(&words).unwrap();
    assert_eq!((scan.slab_blocks, heap.usage().free_blocks), (0, 7));
    let (heap, _) = over(&words).unwrap();
    assert_eq!(heap.usage().free_blocks, 7);
}

#[test]
fn foreign_memory_is_refused() {
    let words = Words::private(4 << 20);
    over(&words).unwrap();
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    let other = heap.add_region(RegionId(2), words.clone());
    assert_eq!(other, Err(HeapError::Other { found: RegionId(1) }));
    heap.add_region(RegionId(1), words.clone()).unwrap();
    assert_eq!(heap.add_region(RegionId(1), words), Err(HeapError::Duplicate(RegionId(1))));
    let short = heap.add_region(RegionId(3), Words::private(1 << 20));
    assert_eq!(short, Err(HeapError::Length { bytes: 1 << 20 }));
    let dirty = Words::private(4 << 20);
    dirty.store_word(FLOORS_AT, 1, Ordering::Relaxed).unwrap();
    assert!(matches!(heap.add_region(RegionId(4), dirty), Err(HeapError::Format { .. })));
    assert_eq!(heap.usage().regions, 1, "what was refused left nothing behind");
}

/// Damage is refused or survived: nothing panics, and nothing overlaps afterwards.
#[test]
fn damaged_memory_does_no_harm() {
    let mut random = Seeded::new(5);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..400 {
        let words = Words::private(4 << 20);
        let (mut heap, _) = over(&words).unwrap();
        for _ in 0..40 {
            create(&mut heap, &vec![1; [40, 3000, 20_000][random.below(3) as usize]], None).unwrap();
        }
        for _ in 0..1 + random.below(3) {
            let at = match random.below(4) {
                0 => random.below(4),
                1 => FLOORS_AT / 8 + random.below(8),
                2 => STATES_AT / 8 + random.below(4),
                _ => (1 << 17) + random.below(3 << 17),
            };
            let bits = match random.chance(500_000) {
                true => 1 << random.below(64),
                false => random.next(),
            };
            let old = words.load_word(at * 8, Ordering::Relaxed).unwrap();
            words.store_word(at * 8, old ^ bits, Ordering::Relaxed).unwrap();
        }
        match over(&words) {
            Err(_) => refused += 1,
            Ok((mut heap, _)) => {
                taken += 1;
                while let Ok(one) = create(&mut heap, &[2; 3000], None) {
                    assert_eq!(heap.header(one.address).unwrap().bytes, 3000);
                }
                assert_exact(&heap);
            }
        }
    }
    assert!(refused > 20 && taken > 20, "{refused} refused, {taken} taken");
}
