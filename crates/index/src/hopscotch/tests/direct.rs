//! The direct ways: one key without a future, and many step by step. What they find is what a lookup finds,
//! and what they are not sure of they leave to it.

use super::super::bucket::tag;
use super::super::in_place::{FEW_WORDS, Likely, Place, Shut, Taken};
use super::*;
use barn_layout::object::LockMode;

/// Looks keys up in mapped memory, all at once.
fn look_many(roots: &Roots, memory: &HeapMemory, keys: &[Key<'_>]) -> Vec<(Looked, Found)> {
    let mut found = vec![Found::default(); keys.len()];
    let mut looked = vec![Looked::Unsettled; keys.len()];
    let mut reads = 0;
    roots.lookup_batch_mapped(memory, keys, &mut found, &mut looked, &mut reads).unwrap();
    assert_eq!(reads, keys.len() as u64);
    looked.into_iter().zip(found).collect()
}

/// Every key is found, with what it has, or not found, as by a lookup; what lies elsewhere is left to it.
pub(super) fn compare(world: &World, roots: &Roots, keys: &[Vec<u8>]) {
    let hashed: Vec<Key<'_>> = keys.iter().map(|key| world.key(key)).collect();
    let mut left = 0;
    for (key, (looked, found)) in hashed.iter().zip(look_many(roots, &world.memory, &hashed)) {
        let mut one = Found { value: vec![7; 3], version: 1, expires: 1 };
        let aim = roots.aim(*key).unwrap();
        let (single, region) =
            roots.look_mapped(&aim, |region| world.memory.mapped(region), *key, &mut one).unwrap();
        assert_eq!((single, region), (looked, RegionId(1)));
        let (wanted, there) = world.look(roots, key.bytes, &mut 0);
        match looked {
            Looked::Unsettled => left += 1,
            Looked::Found => assert_eq!((wanted, &there, &there), (Looked::Found, &found, &one)),
            looked => assert_eq!(looked, wanted),
        }
    }
    assert!(left < keys.len() / 4, "{left} of {} were left", keys.len());
}

/// Looks up many keys at once, and gives what it found one by one.
#[derive(Default)]
pub(super) struct Batch {
    answers: Vec<(Looked, Found)>,
    from: usize,
}

impl Batch {
    pub(super) fn next(
        &mut self,
        roots: &Roots,
        memory: &HeapMemory,
        seed: u64,
        keys: &[Vec<u8>],
        found: &mut Found,
    ) -> Looked {
        if self.answers.is_empty() {
            self.from = (self.from + 29) % (keys.len() - 32);
            let keys = &keys[self.from..self.from + 32];
            let keys: Vec<Key<'_>> = keys.iter().map(|key| Key::new(seed, key)).collect();
            self.answers = look_many(roots, memory, &keys);
        }
        let (looked, there) = self.answers.pop().expect("they were just looked up");
        *found = there;
        looked
    }
}

/// The bucket in which a key is, and its slot.
fn opened<'a>(words: &'a Words, roots: &Roots, key: Key<'_>) -> (Place<'a>, Likely<'a>) {
    let segment = roots.segment(key).unwrap();
    let home = roots.shape().home(key.hash, segment.seed);
    let home = Place::new(words, segment, home, roots.shape());
    [home, home.next(roots.shape())]
        .into_iter()
        .find_map(|place| Some((place, place.seek::<FEW_WORDS>(roots.shape(), tag(key.hash)).ok()??)))
        .expect("the key is in one of the two")
}

#[test]
fn what_changed_since_it_was_opened_is_not_taken() {
    let mut world = World::new(small(), 64);
    world.put(b"key", &[1; 32], 0).unwrap();
    let words = world.memory.0[0].1.clone();
    let (roots, key) = (world.roots(), Key::new(world.options.seed, b"key"));
    let mut found = Found::default();
    let take = |likely: &Likely<'_>, place: Place<'_>, found: &mut Found| {
        likely.take(place.address(), (key.bytes, roots.shape().slot_bytes), || key.hash, found)
    };
    let is_found = |taken| matches!(taken, Ok(Taken::Found { .. }));
    // Nothing has: it is taken.
    let (place, likely) = opened(&words, &roots, key);
    assert_eq!(take(&likely, place, &mut found), Ok(Taken::Found { timed: false }));
    assert_eq!((&found.value[..], found.expires), (&[1; 32][..], 0));
    // Another value, and then one with a time, which comes before the key.
    let at = u64::from(place.address().offset());
    world.put(b"key", &[2; 32], 0).unwrap();
    let (place, newer) = opened(&words, &roots, key);
    assert_eq!(take(&likely, place, &mut found), Err(Shut::Unsettled));
    world.put(b"key", &[2; 20], 99).unwrap();
    assert!(!is_found(take(&newer, opened(&words, &roots, key).0, &mut found)));
    let (place, newer) = opened(&words, &roots, key);
    assert_eq!(take(&newer, place, &mut found), Ok(Taken::Found { timed: true }));
    assert_eq!((&found.value[..], found.expires), (&[2; 20][..], 99));
    // The bucket locked by somebody, and free again.
    // ORDER: Relaxed: nobody else is there.
    let word = words.load_word(at, Ordering::Relaxed).unwrap();
    let version = barn_layout::object::VersionWord(word).version();
    let locked = |mode| barn_layout::object::VersionWord::new(version, mode).0;
    for (mode, taken) in [
        (LockMode::Prepared, Ok(Taken::Found { timed: true })),
        (LockMode::Exclusive, Err(Shut::Unsettled)),
        (LockMode::Free, Ok(Taken::Found { timed: true })),
    ] {
        // ORDER: Relaxed: as above.
        words.store_word(at, locked(mode), Ordering::Relaxed).unwrap();
        assert_eq!(take(&newer, place, &mut found), taken, "{mode:?}");
        let (looked, _) = look_many(&roots, &world.memory, &[key])[0].clone();
        let settled = if taken.is_ok() { Looked::Found } else { Looked::Unsettled };
        assert_eq!(looked, settled, "{mode:?}");
    }
    // It is gone.
    let (_, newest) = opened(&words, &roots, key);
    assert!(world.remove(b"key"));
    let place = Place::new(
        &words,
        roots.segment(key).unwrap(),
        roots.shape().home(key.hash, roots.segment(key).unwrap().seed),
        roots.shape(),
    );
    assert!(!is_found(take(&newest, place, &mut found)));
    assert_eq!(look_many(&roots, &world.memory, &[key])[0].0, Looked::Absent);
}

#[test]
fn roots_that_are_out_of_date_are_noticed_in_a_batch() {
    let mut world = World::new(small(), 64);
    let names: Vec<[u8; 4]> = (0..20_000u32).map(u32::to_le_bytes).collect();
    world.put(&names[0], b"value", 0).unwrap();
    let old = world.roots();
    for name in &names {
        world.put(name, b"value", 0).unwrap();
    }
    let keys: Vec<Key<'_>> = names.iter().map(|name| Key::new(world.options.seed, name)).collect();
    let looked = look_many(&old, &world.memory, &keys[..100]);
    assert!(looked.iter().all(|(looked, _)| *looked == Looked::Stale));
    let looked = look_many(&world.roots(), &world.memory, &keys);
    assert!(looked.iter().all(|(looked, found)| *looked == Looked::Found && found.value == b"value"));
}
