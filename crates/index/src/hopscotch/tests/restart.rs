//! What a transaction has changed, after a restart.

use super::*;
use crate::hopscotch::change::Work;
use crate::hopscotch::local::finish;
use crate::replay::Replica;

impl World {
    /// Changes a key as a transaction does: its objects, and nothing of what the owner knows. Gives the
    /// bucket that was its home; nothing if there was no room.
    fn put_within(&mut self, bytes: &[u8], value: &[u8]) -> Option<Address> {
        let key = self.key(bytes);
        let segment = self.owner.segments[self.owner.directory.get(key.hash) as usize];
        let shape = self.owner.shape;
        let mut local = crate::objects::Objects::new(&mut self.heap, shape.purpose);
        let work = Work::new(&mut local, segment, &shape, self.options.seed);
        let store = |_: Option<&Found>| Decision::Store { value: Cow::Borrowed(value), expires: 0 };
        match finish(work.change(key, &mut { store })) {
            Ok(_) => local.commit().unwrap(),
            Err(_) => {
                local.abandon();
                return None;
            }
        };
        Some(segment.bucket(shape.home(key.hash, segment.seed), &shape).address)
    }
}

#[test]
fn what_transactions_have_put_is_there_and_counted_after_a_restart() {
    let options = TableOptions { seed: 77, ..small() };
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    heap.record_changes();
    let words = Words::private(32 << 20);
    heap.add_region(RegionId(1), words.clone()).unwrap();
    let owner = Owner::new(&mut heap, &options, PART).unwrap();
    let mut world = World { heap, memory: HeapMemory(vec![(RegionId(1), words)]), options, owner };
    let mut values = vec![world.owner.remember(&world.heap)];
    let mut replica = Replica::default();
    let mut put = 0;
    for number in 0..8000u32 {
        let value = vec![number as u8; [20, 200][number as usize % 2]];
        let touched = world.put_within(&number.to_le_bytes(), &value);
        put += u64::from(touched.is_some());
        // Now and then the owner hears of it, and splits what is full.
        if let Some(address) = touched.filter(|_| number % 100 == 0) {
            assert!(world.owner.touched(address));
            world.owner.recount(&mut world.heap);
        }
    }
    assert!(world.owner.stats().keys < put && world.owner.stats().grown > 0, "{:?}", world.owner.stats());
    replica.apply(world.heap.changes().unwrap());
    values.extend(replica.notes.values().flatten().cloned());
    let mut heap = Heap::new(HeapOptions { budget_bytes: u64::MAX });
    for (id, words) in replica.restored() {
        heap.add_region(id, words).unwrap();
    }
    world.owner = Owner::reopen(&mut heap, &world.options, PART, &values).unwrap();
    world.heap = heap;
    let stats = world.owner.stats();
    let tables = world.heap.usage().purposes[Purpose::Tables as usize];
    assert_eq!((stats.keys, stats.memory_bytes), (put, tables.slot_bytes + tables.reserved_bytes));
    let there = (0..8000u32).filter(|number| world.get(&number.to_le_bytes()).is_some()).count();
    assert_eq!(there as u64, put);
}
