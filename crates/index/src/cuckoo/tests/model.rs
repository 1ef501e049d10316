//! The table against a map, through the owner's eyes and a client's.

use super::*;
use crate::node::{Now, apply};
use crate::wire::Update;
use barn_layout::table::{Operation, Outcome};
use std::collections::{HashMap, HashSet};

type Model = HashMap<Vec<u8>, Found>;

fn key_of(number: u64) -> Vec<u8> {
    let mut key = format!("key {number}").into_bytes();
    // Some are long, one in each hundred very.
    match number % 100 {
        7 => key.resize(60_000, b'k'),
        8..12 => key.resize(300, b'k'),
        _ => {}
    }
    key
}

fn check(world: &mut World, model: &Model, number: u64, roots: &mut Roots) {
    let key = key_of(number);
    let there = model.get(&key);
    assert_eq!(world.get(&key).as_ref(), there, "owner, key {number}");
    let mut looked = look(roots, &world.memory, world.key(&key));
    if looked.0 == Looked::Stale {
        *roots = world.roots();
        looked = look(roots, &world.memory, world.key(&key));
    }
    match there {
        Some(found) => assert_eq!((looked.0, &looked.1), (Looked::Found, found), "key {number}"),
        None => assert_eq!(looked.0, Looked::Absent, "key {number}"),
    }
    let (mut found, mut batch) = ([Found::default()], [Looked::Unsettled]);
    let keys = [world.key(&key)];
    roots.lookup_batch_mapped(&world.memory, &keys, &mut found, &mut batch, &mut 0).unwrap();
    match there {
        Some(expected) => assert_eq!((batch[0], &found[0]), (Looked::Found, expected)),
        None => assert_ne!(batch[0], Looked::Found),
    }
}

#[test]
fn it_holds_what_a_map_holds() {
    for seed in 1..4 {
        let (mut world, mut model, mut chance) = (World::new(64, 1), Model::new(), Chance(seed));
        let (mut versions, mut payload) = (HashSet::new(), 0);
        let mut roots = world.roots();
        for step in 0..20_000 {
            let number = chance.below(2000);
            let key = key_of(number);
            match chance.below(10) {
                0..6 => {
                    let longest = [40, 40, 40, 2000, 50_000][chance.below(5) as usize];
                    let value = vec![step as u8; chance.below(longest) as usize];
                    let expires = chance.below(2) * (1000 + step);
                    let version = world.put(&key, &value, expires).unwrap();
                    assert!(versions.insert(version), "version {version} comes back");
                    payload += key.len() + value.len();
                    if let Some(old) = model.insert(key.clone(), Found { value, version, expires }) {
                        payload -= key.len() + old.value.len();
                    }
                }
                6..9 => {
                    world.remove(&key);
                    if let Some(old) = model.remove(&key) {
                        payload -= key.len() + old.value.len();
                    }
                }
                _ => {
                    // Nothing changes, and the answer says what is there.
                    let at = world.key(&key);
                    let kept = world.owner.update(&mut world.heap, at, &mut |found| {
                        assert_eq!(found, model.get(&key));
                        Decision::Keep
                    });
                    assert_eq!(kept, Ok(model.get(&key).map_or(0, |found| found.version)));
                }
            }
            check(&mut world, &model, number, &mut roots);
            check(&mut world, &model, chance.below(2000), &mut roots);
        }
        let stats = world.owner.stats();
        assert_eq!((stats.keys, stats.payload_bytes), (model.len() as u64, payload as u64));
        assert_eq!(stats.memory_bytes, world.reserved_bytes());
        assert!(stats.grown > 2 && stats.moves > 0, "{stats:?}");
        (0..2000).for_each(|number| check(&mut world, &model, number, &mut roots));
    }
}

#[test]
fn the_longest_key_and_value_are_served() {
    let mut world = World::new(256, 1);
    let (key, value) = (vec![b'k'; crate::KEY_BYTES_MAX], vec![b'v'; crate::VALUE_BYTES_MAX]);
    world.put(&key, &value, 9).unwrap();
    let (looked, found, reads) = look(&world.roots(), &world.memory, world.key(&key));
    assert_eq!((looked, found.value == value, found.expires), (Looked::Found, true, 9));
    assert_eq!(reads, 1 + 5, "an entry, and five pieces of at most 16 MiB");
    let longer = vec![0; crate::VALUE_BYTES_MAX + 1];
    assert!(matches!(world.put(&key, &longer, 0), Err(Refused::Invalid(_))));
    world.put(&key, b"short", 0).unwrap();
    assert_eq!(world.get(&key).unwrap().value, b"short");
}

#[test]
fn a_get_takes_one_read_for_each_place_and_one_for_the_extent() {
    let mut world = World::new(32, 10_000);
    (0..10_000).for_each(|number| _ = world.put(&key_of(number * 100), b"v", 0).unwrap());
    let (roots, mut total) = (world.roots(), 0);
    for number in 0..10_000 {
        let (looked, _, reads) = look(&roots, &world.memory, world.key(&key_of(number * 100)));
        assert!(looked == Looked::Found && (2..=4).contains(&reads), "{looked:?} after {reads}");
        total += reads;
    }
    assert!(total < 26_500, "{total} READs for 10000 keys");
    let (looked, _, reads) = look(&roots, &world.memory, world.key(b"nobody"));
    assert_eq!((looked, reads), (Looked::Absent, 4));
}

#[test]
fn a_scan_gives_every_key_though_the_table_grows_under_it() {
    let mut world = World::new(64, 200);
    (0..200u64).for_each(|number| _ = world.put(&key_of(number * 100), b"old", 0).unwrap());
    let (mut cursor, mut seen, mut added, mut pages) = (0, HashMap::new(), 1_000_000, 0);
    loop {
        let mut left = 7;
        let next = world.owner.scan(&world.heap, cursor, &mut |key, found| {
            if found.value == b"old" {
                *seen.entry(key.to_vec()).or_insert(0) += 1;
            }
            left -= 1;
            left > 0
        });
        pages += 1;
        let Some(next) = next.unwrap() else { break };
        assert!(next > cursor);
        cursor = next;
        for _ in 0..20 {
            added += 100;
            world.put(&key_of(added), b"new", 0).unwrap();
        }
    }
    assert!(pages > 20 && world.owner.stats().grown >= 2);
    assert_eq!(seen.len(), 200);
    assert!(seen.values().all(|count| *count == 1));
}

#[test]
fn whoever_has_old_roots_learns_it() {
    let mut world = World::new(64, 10);
    let old = world.roots();
    world.put(b"here", b"v", 0).unwrap();
    assert_eq!(look(&old, &world.memory, world.key(b"here")).0, Looked::Found);
    (0..5000u64).for_each(|number| _ = world.put(&key_of(number * 100), b"v", 0).unwrap());
    for number in 0..5000 {
        let looked = look(&old, &world.memory, world.key(&key_of(number * 100))).0;
        assert_eq!(looked, Looked::Stale);
    }
    let (mut found, mut looked) = ([Found::default()], [Looked::Absent]);
    let keys = [world.key(b"here")];
    old.lookup_batch_mapped(&world.memory, &keys, &mut found, &mut looked, &mut 0).unwrap();
    assert!(matches!(looked[0], Looked::Stale | Looked::Unsettled));
}

#[test]
fn roots_may_be_anything() {
    let world = World::new(32, 1000);
    let bytes = world.owner.roots(&world.heap, &[]);
    let mut chance = Chance(1);
    for _ in 0..20_000 {
        let mut bytes = bytes.clone();
        for _ in 0..chance.below(4) {
            let at = chance.below(bytes.len() as u64) as usize;
            bytes[at] = [0, 255, chance.below(256) as u8][chance.below(3) as usize];
        }
        bytes.truncate(chance.below(2 * bytes.len() as u64) as usize);
        if let Ok(roots) = Roots::parse(&bytes, &world.options, PART) {
            let (mut found, mut reads) = (Found::default(), 0);
            // Whatever comes of it: it ends, and nothing is found.
            let looked = block_on(roots.lookup(&world.memory, world.key(b"k"), &mut found, &mut reads));
            assert_ne!(looked, Ok(Looked::Found));
        }
    }
}

#[test]
fn operations_see_versions_and_ends() {
    let mut world = World::new(32, 10);
    let mut done = |operation, value: &[u8], operand, expires, now_ms| {
        let key = world.key(b"k");
        let update = Update { operation, key: b"k", value, operand, expires, durability: None };
        let mut told = None;
        apply(&mut world.owner, &mut world.heap, key, &update, &Now::at(now_ms), |outcome, version, _, _| {
            told = Some((outcome, version));
        });
        told.unwrap()
    };
    assert_eq!(done(Operation::Swap, b"a", 1, 0, 0), (Outcome::Absent, 0));
    let (_, first) = done(Operation::Put, b"a", 0, 10, 0);
    assert_eq!(done(Operation::Swap, b"b", first + 1, 0, 0), (Outcome::Different, first));
    let (outcome, second) = done(Operation::Swap, b"b", first, 10, 0);
    assert!(outcome == Outcome::Done && second != first);
    assert_eq!(done(Operation::Insert, b"c", 0, 0, 9), (Outcome::Different, second));
    let (outcome, third) = done(Operation::Insert, b"5", 0, 0, 10);
    assert!(outcome == Outcome::Done && third > second, "what has expired is as good as gone");
    assert_eq!(done(Operation::Delete, b"", 0, 0, 10).0, Outcome::Done);
    let (outcome, fourth) = done(Operation::Add, b"", 3, 0, 10);
    assert!(outcome == Outcome::Done && fourth > third, "a version never comes back");
    assert_eq!(world.get(b"k").unwrap().value, b"3");
}
