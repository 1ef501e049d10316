//! What would be missed without the joint version: keys that go from one bucket to the other while a
//! READ is half through. Fails with `joint_version_skipped` and with `joint_version_ignored`.

use super::*;
use std::sync::Mutex;

/// Memory of which a READ takes one half, and then the other; the owner works in between.
struct Halved<'a> {
    world: &'a Mutex<World>,
    memory: HeapMemory,
    random: Mutex<Seeded>,
    /// Keys that want the same buckets as the one that is looked up.
    near: Mutex<Vec<Vec<u8>>>,
}

impl Halved<'_> {
    /// Neighbours come and go.
    fn meanwhile(&self) {
        let (mut world, mut random) = (self.world.lock().unwrap(), self.random.lock().unwrap());
        let near = self.near.lock().unwrap();
        for _ in 0..random.below(12) {
            let key = &near[random.below(near.len() as u64) as usize];
            match random.below(2) {
                0 => drop(world.put(key, &[9; 32], 0)),
                _ => drop(world.remove(key)),
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

/// Where a key is at home.
fn home(roots: &Roots, key: Key<'_>) -> (u64, usize) {
    let segment = roots.segment(key).unwrap();
    (segment.address.to_bits(), roots.shape().home(key.hash, segment.seed))
}

#[test]
fn a_key_that_moves_under_a_read_is_not_missed() {
    let mut world = World::new(TableOptions { neighbourhood: 4, ..small() }, 64);
    let named = |name: &str, count: u32| -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("{name}-{number}").into_bytes()).collect()
    };
    let (steady, others) = (named("steady", 64), named("other", 4000));
    for key in &steady {
        world.put(key, &[1; 32], 0).unwrap();
    }
    let (memory, seed) = (HeapMemory(world.memory.0.clone()), world.options.seed);
    let mut roots = world.roots();
    let world = Mutex::new(world);
    let halved = Halved { world: &world, memory, random: Mutex::new(Seeded::new(5)), near: Mutex::default() };
    let (mut found, mut unsettled) = (0, 0);
    for key in &steady {
        let key = Key::new(seed, key);
        let (segment, at) = home(&roots, key);
        let is_near = |other: &&Vec<u8>| {
            let (other_segment, other) = home(&roots, Key::new(seed, other));
            segment == other_segment && at.abs_diff(other) <= 2
        };
        *halved.near.lock().unwrap() = others.iter().filter(is_near).cloned().collect();
        for round in 0..1000 {
            match block_on(roots.lookup(&halved, key, &mut Found::default(), &mut 0)).unwrap() {
                Looked::Found => found += 1,
                Looked::Unsettled => unsettled += 1,
                Looked::Absent => panic!("a key that is always there was missed, in round {round}"),
                Looked::Stale => {
                    roots = world.lock().unwrap().roots();
                    break;
                }
            }
        }
    }
    let moves = world.lock().unwrap().owner.stats().moves;
    assert!(found > 10_000 && unsettled > 20 && moves > 1000, "{found} {unsettled} {moves}");
}
