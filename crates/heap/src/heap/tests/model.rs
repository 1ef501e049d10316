//! Random sequences against a plain model: no two slots overlap, nothing is lost or counted twice.

use super::*;
use barn_fabric::seam::{Random, Seeded};
use std::collections::BTreeMap;

/// What a plain allocator would know.
#[derive(Default)]
struct Model {
    /// By address: the slot's length, its purpose, and the body, once there is one.
    slots: BTreeMap<u64, (u64, Purpose, Option<Vec<u8>>)>,
}

impl Model {
    fn add(&mut self, slot: Reserved, slot_bytes: u64, purpose: Purpose) {
        let at = slot.address.to_bits();
        let before = self.slots.range(..=at).next_back().map(|(start, (bytes, ..))| start + bytes);
        let after = self.slots.range(at..).next().map(|(start, _)| *start);
        assert!(before.is_none_or(|end| end <= at), "{slot:?} overlaps the one before");
        assert!(after.is_none_or(|start| at + slot_bytes <= start), "{slot:?} overlaps the one after");
        self.slots.insert(at, (slot_bytes, purpose, None));
    }

    fn any(&self, random: &mut Seeded) -> Option<Address> {
        let from = self.slots.keys().nth(random.below(self.slots.len().max(1) as u64) as usize)?;
        Some(Address::from_bits(*from))
    }

    fn assert_same(&self, heap: &Heap) {
        assert_exact(heap);
        for purpose in Purpose::ALL {
            let mut want =
                PurposeUsage { block_bytes: heap.usage().of(purpose).block_bytes, ..Default::default() };
            for (slot_bytes, _, body) in self.slots.values().filter(|slot| slot.1 == purpose) {
                match body {
                    Some(body) => {
                        want.objects += 1;
                        want.object_bytes += body.len() as u64;
                        want.slot_bytes += slot_bytes;
                    }
                    None => {
                        want.reserved += 1;
                        want.reserved_bytes += slot_bytes;
                    }
                }
            }
            assert_eq!(*heap.usage().of(purpose), want, "{purpose:?}");
        }
        let mut read = Vec::new();
        for (at, (_, _, body)) in &self.slots {
            let address = Address::from_bits(*at);
            match body {
                Some(body) => {
                    heap.read(address, &mut read).unwrap();
                    assert!(read == *body, "{address:?} has other bytes");
                }
                None => assert!(!heap.header(address).unwrap().allocated),
            }
        }
    }
}

/// Lengths of every kind: mostly short, some of classes with long runs, some with blocks of their own.
fn length(random: &mut Seeded) -> usize {
    match random.below(100) {
        0 => random.below(3 << 20) as usize,
        1..5 => random.below(600_000) as usize,
        5..30 => random.below(20_000) as usize,
        _ => random.below(300) as usize,
    }
}

fn step(heap: &mut Heap, model: &mut Model, random: &mut Seeded, purposes: &[Purpose]) {
    let purpose = purposes[random.below(purposes.len() as u64) as usize];
    let hint = model.any(random).filter(|_| random.chance(300_000));
    match random.below(100) {
        0..45 => {
            let bytes = length(random);
            if let Ok(slot) = heap.reserve(bytes, hint, purpose) {
                let size = heap.runs[heap.locate(slot.address).unwrap().run].size;
                assert!(size.slot_bytes >= bytes + HEADER_BYTES);
                model.add(slot, size.slot_bytes as u64, purpose);
            }
        }
        45..48 => {
            let (bytes, count) = (length(random) % 2000, 1 + random.below(20) as usize);
            if let Ok(array) = heap.reserve_array(bytes, count, hint, purpose) {
                assert_eq!(array.slots.len(), count);
                array.slots.iter().for_each(|slot| model.add(*slot, array.slot_bytes as u64, purpose));
            }
        }
        48..55 => {
            let epoch = heap.next_epoch();
            if random.chance(500_000) {
                heap.readers_left(epoch);
            }
        }
        _ => {
            let Some(address) = model.any(random) else { return };
            let slot = model.slots.get_mut(&address.to_bits()).unwrap();
            let header = heap.header(address).unwrap();
            match &mut slot.2 {
                None if random.chance(200_000) => {
                    heap.release(address).unwrap();
                    model.slots.remove(&address.to_bits());
                }
                None => {
                    let most = slot.0 as usize - HEADER_BYTES;
                    let body = vec![random.next() as u8; most - random.below(8.min(most as u64)) as usize];
                    heap.create(address, &body).unwrap();
                    slot.2 = Some(body);
                }
                Some(body) => {
                    heap.lock(address, header.word.version(), header.incarnation).unwrap();
                    match random.below(3) {
                        0 => {
                            body.fill(random.next() as u8);
                            heap.write(address, body).unwrap();
                        }
                        1 => heap.unlock(address).unwrap(),
                        _ => {
                            heap.free(address).unwrap();
                            model.slots.remove(&address.to_bits());
                        }
                    }
                }
            }
        }
    }
}

fn run(seed: u64, steps: usize) {
    let mut random = Seeded::new(seed);
    let mut heap = Heap::new(HeapOptions { budget_bytes: 40 << 20 });
    let memory: Vec<_> = (1..=3).map(|id| (RegionId(id), Words::private(20 << 20))).collect();
    for (id, words) in &memory {
        heap.add_region(*id, words.clone()).unwrap();
    }
    let mut model = Model::default();
    for at in 0..steps {
        step(&mut heap, &mut model, &mut random, &[Purpose::Objects, Purpose::Tables]);
        assert!(heap.usage().held_bytes <= 40 << 20);
        if at % (steps / 4) == steps / 4 - 1 {
            model.assert_same(&heap);
            // The owner restarts: reservations are gone, everything else is as it was.
            heap = Heap::new(HeapOptions { budget_bytes: 40 << 20 });
            memory.iter().for_each(|(id, words)| drop(heap.add_region(*id, words.clone()).unwrap()));
            model.slots.retain(|_, slot| slot.2.is_some());
            model.assert_same(&heap);
        }
    }
    for (at, (_, _, body)) in std::mem::take(&mut model.slots) {
        let address = Address::from_bits(at);
        let incarnation = heap.header(address).unwrap().incarnation;
        match body {
            None => heap.release(address).unwrap(),
            Some(_) => free(&mut heap, Reserved { address, incarnation }),
        }
    }
    heap.slabs.spares().into_iter().for_each(|run| heap.retire(run));
    let epoch = heap.next_epoch();
    heap.readers_left(epoch);
    assert_eq!((heap.usage().free_blocks, heap.usage().held_bytes), (57, 3 << 20), "all memory comes back");
    assert_eq!(heap.usage().total(), PurposeUsage::default());
}

#[test]
fn random_sequences_agree_with_a_plain_model() {
    (1..=12).for_each(|seed| run(seed, 4000));
}
