//! Changes as a log hears of them: what is replayed from records is what was there.

use super::replay::Replica;
use super::*;
use barn_fabric::seam::{Random, Seeded};
use barn_log::{Entry, Record};
use std::collections::BTreeMap;

/// A heap whose changes are recorded, and what came of the records.
struct Logged {
    heap: Heap,
    replica: Replica,
}

impl Logged {
    fn new(regions: u32, region_mib: usize) -> Self {
        let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
        heap.record_changes();
        for id in 1..=regions {
            heap.add_region(RegionId(id), Words::private(region_mib << 20)).unwrap();
        }
        Self { heap, replica: Replica::default() }
    }

    fn log(&mut self) {
        self.replica.apply(self.heap.changes().unwrap());
    }

    fn restart(&mut self) {
        self.log();
        self.heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
        self.heap.record_changes();
        for (id, words) in self.replica.restored() {
            let scan = self.heap.add_region(id, words).unwrap();
            assert!(!scan.formatted && scan.interrupted.is_empty(), "{scan:?}");
        }
        self.log();
    }

    fn write(&mut self, address: Address, body: &[u8]) {
        let header = self.heap.header(address).unwrap();
        self.heap.lock(address, header.word.version(), header.incarnation).unwrap();
        self.heap.write(address, body).unwrap();
    }

    fn make(&mut self, body: &[u8], purpose: Purpose) -> Reserved {
        let place = self.heap.reserve(body.len(), None, purpose).unwrap();
        self.heap.create(place.address, body).unwrap();
        place
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    body: Vec<u8>,
    version: u64,
    incarnation: u32,
    purpose: Purpose,
}

fn known(heap: &Heap, address: Address) -> Known {
    let mut body = Vec::new();
    let header = heap.read(address, &mut body).unwrap();
    let purpose = heap.purpose(address).unwrap();
    Known { body, version: header.word.version(), incarnation: header.incarnation, purpose }
}

/// Fails with `vacated_slot_not_recorded`.
/// Where a record's words are, and how many bytes.
fn places(record: &Record) -> Vec<(u32, usize)> {
    let place = |entry| match entry {
        Entry::Words { offset, bytes, .. } => Some((offset, bytes.len())),
        _ => None,
    };
    record.each().filter_map(place).collect()
}

#[test]
fn objects_are_back_with_their_bytes_and_versions_and_freed_ones_are_not() {
    const PURPOSES: [Purpose; 3] = [Purpose::Objects, Purpose::Tables, Purpose::Trees];
    for seed in 1..6 {
        let mut random = Seeded::new(seed);
        let mut logged = Logged::new(2, 12);
        let mut model: BTreeMap<u64, Known> = BTreeMap::new();
        // The greatest version and incarnation of each place: neither may ever come back.
        let mut past: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        for _ in 0..1500 {
            let any = model.keys().nth(random.below(model.len().max(1) as u64) as usize).copied();
            match (random.below(10), any.map(Address::from_bits)) {
                (0..5, _) | (_, None) => {
                    let longest = [100, 300, 5000, 200_000][random.below(4) as usize];
                    let body = vec![random.next() as u8; random.below(longest) as usize];
                    let purpose = PURPOSES[random.below(3) as usize];
                    let Ok(place) = logged.heap.reserve(body.len(), None, purpose) else { continue };
                    logged.heap.create(place.address, &body).unwrap();
                    let (at, made) = (place.address.to_bits(), known(&logged.heap, place.address));
                    if let Some((version, incarnation)) = past.get(&at) {
                        assert!(made.version > *version && made.incarnation > *incarnation, "{made:?}");
                    }
                    assert_eq!(made.purpose, purpose);
                    model.insert(at, made);
                }
                (5..7, Some(address)) => {
                    let mut body = model[&address.to_bits()].body.clone();
                    for _ in 0..random.below(4) {
                        let at = random.below(body.len().max(1) as u64) as usize;
                        body.iter_mut().skip(at).take(1).for_each(|byte| *byte = byte.wrapping_add(1));
                    }
                    logged.write(address, &body);
                    model.insert(address.to_bits(), known(&logged.heap, address));
                }
                (7..9, Some(address)) => {
                    let old = model.remove(&address.to_bits()).unwrap();
                    past.insert(address.to_bits(), (old.version, old.incarnation));
                    free(&mut logged.heap, Reserved { address, incarnation: old.incarnation });
                }
                _ => {
                    let epoch = logged.heap.next_epoch();
                    logged.heap.readers_left(epoch);
                }
            }
            logged.log();
            if random.chance(10_000) {
                logged.restart();
                let there: BTreeMap<u64, Known> = logged
                    .heap
                    .regions()
                    .flat_map(|region| logged.heap.objects(region))
                    .map(|(address, _)| (address.to_bits(), known(&logged.heap, address)))
                    .collect();
                assert!(there == model, "seed {seed}: {} objects, {} wanted", there.len(), model.len());
                assert_exact(&logged.heap);
            }
        }
        assert!(past.len() > 50);
    }
}

#[test]
fn what_is_kept_in_memory_only_is_gone_and_its_blocks_are_free() {
    let mut logged = Logged::new(1, 8);
    let kept = logged.make(&[1; 100], Purpose::Tables);
    logged.log();
    let before = logged.replica.bytes;
    let lost = logged.make(&[2; 100], Purpose::Volatile);
    let raw = logged.heap.reserve_raw(1000, Purpose::Volatile).unwrap();
    raw.words.store(u64::from(raw.start.offset()), &[3; 1000]).unwrap();
    logged.heap.changed_raw(&raw, u64::from(raw.start.offset()), 1000);
    logged.write(lost.address, &[4; 100]);
    logged.log();
    assert!(logged.replica.bytes - before < 200, "only the block table: {}", logged.replica.bytes - before);
    logged.restart();
    assert_eq!(known(&logged.heap, kept.address).body, [1; 100]);
    assert_eq!(logged.heap.header(lost.address), Err(ObjectError::NotAnObject));
    assert!(logged.heap.retake_raw(raw.start).is_err());
    assert_eq!((logged.heap.usage().slab_blocks, logged.heap.usage().free_blocks), (1, 6));
    assert_eq!(*logged.heap.usage().of(Purpose::Volatile), PurposeUsage::default());
}

/// Given several runs with nothing but raw memory, of which all but one wait after the scan. Fails with
/// `retaken_run_still_waits`.
#[test]
fn raw_memory_is_taken_again_where_it_was() {
    let mut logged = Logged::new(1, 48);
    let lengths = [1000, 1 << 19, 1 << 20, 1 << 20, 3 << 20, 9 << 20];
    let raws = lengths.map(|bytes| logged.heap.reserve_raw(bytes, Purpose::Tables).unwrap());
    for (fill, raw) in raws.iter().enumerate() {
        let (at, bytes) = (u64::from(raw.start.offset()), raw.bytes / 8 * 8);
        raw.words.store(at, &vec![fill as u8 + 1; bytes]).unwrap();
        logged.heap.changed_raw(raw, at, bytes);
    }
    let usage = logged.heap.usage();
    logged.restart();
    for (fill, raw) in raws.iter().enumerate() {
        let again = logged.heap.retake_raw(raw.start).unwrap();
        assert_eq!((again.start, again.bytes), (raw.start, raw.bytes));
        let mut bytes = vec![0; raw.bytes / 8 * 8];
        again.words.load(u64::from(again.start.offset()), &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == fill as u8 + 1));
        assert_eq!(logged.heap.retake_raw(raw.start).unwrap_err(), ObjectError::NotReserved, "taken once");
    }
    assert_eq!(logged.heap.usage(), usage);
    assert_exact(&logged.heap);
    let odd = Address::new(RegionId(1), raws[0].start.offset() + 8);
    assert!(logged.heap.retake_raw(odd).is_err());
    assert!(logged.heap.retake_raw(Address::new(RegionId(1), 3)).is_err());
    assert!(logged.heap.retake_raw(Address::new(RegionId(9), 1 << 20)).is_err());
    // What is given back is anybody's, and what was there does not look like an object.
    for raw in &raws {
        logged.heap.release_raw(raw).unwrap();
    }
    let epoch = logged.heap.next_epoch();
    logged.heap.readers_left(epoch);
    logged.restart();
    assert_eq!(logged.heap.usage().total().objects, 0);
    while let Ok(place) = logged.heap.reserve(3000, None, Purpose::Objects) {
        assert!(!logged.heap.header(place.address).unwrap().allocated);
        logged.heap.create(place.address, &[5; 3000]).unwrap();
    }
    assert_exact(&logged.heap);
}

#[test]
fn a_write_is_recorded_as_the_words_that_differ() {
    let mut random = Seeded::new(3);
    for bytes in [192usize, 199, 200, 500, 513, 1024] {
        let mut logged = Logged::new(1, 2);
        let mut old: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
        let place = logged.make(&old, Purpose::Objects);
        for round in 0..200 {
            logged.log();
            let mut new = old.clone();
            for _ in 0..random.below(3) {
                let at = random.below(bytes as u64) as usize;
                new[at] = new[at].wrapping_add(1 + random.below(255) as u8);
            }
            logged.write(place.address, &new);
            let differ = |word: &usize| old.chunks(8).nth(*word) != new.chunks(8).nth(*word);
            let first = (0..bytes.div_ceil(8)).find(differ);
            let last = (0..bytes.div_ceil(8)).rfind(differ);
            // A last word that is not whole always counts.
            let part = (!bytes.is_multiple_of(8)).then_some(bytes / 8);
            let want = match (first.or(part), last.max(part)) {
                (Some(first), Some(last)) => Some((first * 8, (last + 1 - first) * 8)),
                _ => None,
            };
            let recorded = places(logged.heap.changes().unwrap());
            let at = place.address.offset();
            assert_eq!(recorded[0], (at, HEADER_BYTES));
            let start = at + HEADER_BYTES as u32;
            let got = recorded.get(1).map(|(offset, bytes)| ((offset - start) as usize, *bytes));
            assert_eq!(got, want);
            if round % 20 == 0 {
                logged.restart();
                assert_eq!(known(&logged.heap, place.address).body, new);
            }
            old = new;
        }
    }
    // Short and very long ones are recorded whole.
    for bytes in [40usize, 184, 5000] {
        let mut logged = Logged::new(1, 2);
        let place = logged.make(&vec![1; bytes], Purpose::Objects);
        logged.log();
        logged.write(place.address, &vec![2; bytes]);
        let recorded = places(logged.heap.changes().unwrap());
        assert_eq!(recorded.len(), 1);
        assert_eq!(recorded[0].1, HEADER_BYTES + bytes);
    }
}

#[test]
fn a_copy_has_what_is_durable_and_nothing_else() {
    let mut logged = Logged::new(1, 16);
    let kept = logged.make(&[1; 100], Purpose::Objects);
    let lost = logged.make(&[2; 100], Purpose::Volatile);
    let ranges = crate::used_ranges(logged.heap.words(RegionId(1)).unwrap());
    let has = |address: Address| ranges.iter().any(|range| range.contains(&u64::from(address.offset())));
    assert!(has(kept.address) && !has(lost.address) && has(Address::new(RegionId(1), 0)));
    let blocks: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    assert!(blocks < 3 << 20, "{ranges:?}");
}
