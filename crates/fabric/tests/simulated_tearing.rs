//! That READs are torn in every way in which a CPU on another core could tear them.

use barn_fabric::region::Ordering;
use barn_fabric::simulated::{RunEnd, World, WorldOptions};
use barn_fabric::{RegionId, Reply, Request, Rights, Service};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

struct Silent;

impl Service for Silent {
    fn call(&mut self, _: Request<'_>, _: Reply<'_>) {}
}

const WORDS: u64 = 4;

/// An owner stores a round's number into four words, one after another and without a pause; a
/// reader reads all four by one READ. Every mixture of two rounds' words is to be seen.
#[test]
fn every_pattern_of_old_and_new_words_is_seen() {
    let patterns: Rc<RefCell<BTreeMap<u64, u32>>> = Rc::default();
    for seed in 0..150 {
        let world = World::new(seed, WorldOptions::default());
        let (registry, region) = (world.registry(), world.region(WORDS as usize * 8, Rights::READ));
        registry.register(RegionId(1), region.clone(), Rights::READ).unwrap();
        let node = world.start_node("owner", registry, Box::new(Silent));
        let me = world.start_client("reader");
        let (owner, reader, seen) = (world.handle(), world.handle(), patterns.clone());
        world.spawn_background(node, async move {
            for round in 1.. {
                for word in 0..WORDS {
                    region.words().store_word(word * 8, round, Ordering::Relaxed).unwrap();
                }
                owner.sleep(Duration::from_micros(8)).await;
            }
        });
        world.spawn(me, async move {
            let connection = reader.connect(me, node).await.unwrap();
            let region = connection.open(RegionId(1), Rights::READ).await.unwrap();
            for _ in 0..50 {
                let mut bytes = [0; WORDS as usize * 8];
                region.read(0, &mut bytes).await.unwrap();
                let rounds: Vec<u64> =
                    bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
                let oldest = rounds.iter().min().copied().unwrap_or_default();
                if rounds.iter().all(|round| *round <= oldest + 1) {
                    let mask = rounds.iter().enumerate().map(|(at, round)| (round - oldest) << at).sum();
                    *seen.borrow_mut().entry(mask).or_default() += 1;
                }
            }
        });
        assert_eq!(world.run(Duration::from_secs(1)), RunEnd::Done);
    }
    let patterns = patterns.borrow();
    // All but "every word is new", which is "every word is old" of the next round.
    assert_eq!(patterns.len(), (1 << WORDS) - 1, "patterns seen: {patterns:?}");
}
