//! What would be missed without the joint version: keys that go from one bucket to the other while a
//! READ is half through. Fails with `joint_version_skipped` and with `joint_version_ignored`.

use super::*;
use std::sync::Mutex;

/// Memory of which a READ takes one half, and then the other; the owner works in between.
struct Halved<'a> {
    world: &'a Mutex<World>,
    memory: HeapMemory,
    random: Mutex<Seeded>,
}

impl Halved<'_> {
    /// Others come and go.
    fn meanwhile(&self) {
        let (mut world, mut random) = (self.world.lock().unwrap(), self.random.lock().unwrap());
        for _ in 0..random.below(24) {
            let key = format!("other-{}", random.below(1700));
            match random.below(2) {
                0 => drop(world.put(key.as_bytes(), &[9; 32], 0)),
                _ => drop(world.remove(key.as_bytes())),
            }
        }
    }
}

impl Memory for Halved<'_> {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let middle = into.len() / 2;
        let (first, second) = into.split_at_mut(middle);
        let later = Address::new(at.region(), at.offset() + middle as u32);
        // A READ may take its words in any order.
        let is_in_order = self.random.lock().unwrap().below(2) == 0;
        match is_in_order {
            true => {
                self.memory.read(at, first).await?;
                self.meanwhile();
                self.memory.read(later, second).await
            }
            false => {
                self.memory.read(later, second).await?;
                self.meanwhile();
                self.memory.read(at, first).await
            }
        }
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        self.memory.read(at, into).await.map(|()| Confirmation::Unordered)
    }

    fn mapped(&self, _: RegionId) -> Option<&Words> {
        None
    }

    fn believe(&self, _: RegionId) -> Result<(), Unreadable> {
        Ok(())
    }
}

#[test]
fn a_key_that_moves_under_a_read_is_not_missed() {
    let mut world = World::new(TableOptions { neighbourhood: 4, ..small() }, 64);
    let steady: Vec<Vec<u8>> = (0..512u32).map(|number| format!("steady-{number}").into_bytes()).collect();
    for key in &steady {
        world.put(key, &[1; 32], 0).unwrap();
    }
    // As many as will ever be there: the table has grown to its size.
    for number in 0..1700 {
        world.put(format!("other-{number}").as_bytes(), &[9; 32], 0).unwrap();
    }
    let (memory, seed) = (HeapMemory(world.memory.0.clone()), world.options.seed);
    let world = Mutex::new(world);
    let halved = Halved { world: &world, memory, random: Mutex::new(Seeded::new(5)) };
    let mut roots = world.lock().unwrap().roots();
    let (mut found, mut unsettled) = (0, 0);
    for round in 0..60_000 {
        let key = Key::new(seed, &steady[round % steady.len()]);
        match block_on(roots.lookup(&halved, key, &mut Found::default(), &mut 0)).unwrap() {
            Looked::Found => found += 1,
            Looked::Unsettled => unsettled += 1,
            Looked::Stale => roots = world.lock().unwrap().roots(),
            Looked::Absent => panic!("a key that is always there was missed, in round {round}"),
        }
    }
    let moves = world.lock().unwrap().owner.stats().moves;
    assert!(found > 10_000 && unsettled > 100 && moves > 1000, "{found} {unsettled} {moves}");
}
