//! Whatever is done to a tree, it holds what an ordered map would.

use super::*;
use barn_transaction::Pointer;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// Keys that share beginnings, of many lengths, the longest among them.
fn any_key(chance: &mut Chance) -> Vec<u8> {
    let number = chance.below(400);
    match number % 4 {
        0 => number.to_be_bytes()[6..].to_vec(),
        1 => format!("user:{number:05}").into_bytes(),
        2 => [&b"user:"[..], &vec![b'x'; (number % 100) as usize]].concat(),
        _ => vec![(number / 4) as u8; KEY_BYTES_MAX - (number % 3) as usize],
    }
}

fn check(world: &mut World, model: &Model, chance: &mut Chance, roots: &Roots) {
    for _ in 0..40 {
        let key = any_key(chance);
        let expected = model.get(&key);
        let found = world.get(&key);
        assert_eq!(found.as_ref().map(|found| &found.value), expected.map(|(value, _)| value), "{key:?}");
        assert_eq!(found.as_ref().map(|found| found.expires), expected.map(|(_, expires)| *expires));
        let hashed = world.key(&key);
        assert_eq!(look(roots, &world.memory, hashed).0, found, "by loads: {key:?}");
        assert_eq!(look(roots, &Afar(&world.memory), hashed).0, found, "by READs: {key:?}");
    }
    let (from, to) = (any_key(chance), any_key(chance));
    let most = 1 + chance.below(60) as usize;
    let bounds = (Bound::Included(from.clone()), Bound::Excluded(to.clone().max(from.clone())));
    let expected: Vec<_> =
        model.range(bounds).take(most).map(|(key, (value, _))| (key.clone(), value.clone())).collect();
    assert_eq!(world.range(&from, Some(&to), most), expected, "from {from:?} to {to:?}");
    let counted = world.owner.count(&world.heap).unwrap();
    let stats = world.owner.stats();
    assert_eq!((counted.keys, counted.payload_bytes), (stats.keys, stats.payload_bytes));
    assert_eq!((counted.memory_bytes, counted.nodes), (stats.memory_bytes, stats.nodes));
    assert_eq!(stats.keys, model.len() as u64);
}

#[test]
fn a_tree_holds_what_an_ordered_map_would() {
    for seed in 0..6 {
        let (mut world, mut model, mut chance) = (World::new(16), Model::new(), Chance(seed));
        let roots = world.roots();
        let mut versions = std::collections::HashSet::new();
        for step in 0..6000 {
            // First it grows, then it shrinks, then it is emptied.
            let removes = [2, 6, 10][step / 2000];
            let key = any_key(&mut chance);
            if chance.below(10) < removes {
                world.remove(&key);
                model.remove(&key);
            } else {
                let value = vec![step as u8; [8, 30, 128, 129, 240, 3000][chance.below(6) as usize]];
                let expires = [0, 0, u64::MAX - 7][chance.below(3) as usize];
                let version = world.put(&key, &value, expires).unwrap();
                assert!(versions.insert(version), "a version came back");
                model.insert(key, (value, expires));
            }
            if step % 200 == 199 {
                check(&mut world, &model, &mut chance, &roots);
            }
        }
        for key in model.keys() {
            world.remove(key);
        }
        let stats = world.owner.stats();
        assert_eq!((stats.keys, stats.payload_bytes, stats.nodes), (0, 0, 1), "one leaf is left: the root");
        world.owner.clear(&mut world.heap);
        assert_eq!(world.used_bytes(), 0, "all memory is given back");
    }
}

#[test]
fn keys_that_come_in_order_and_go_in_order_leave_nothing() {
    let mut world = World::new(16);
    let key = |number: u64| number.to_be_bytes();
    for number in 0..5000 {
        world.put(&key(number), b"value", 0).unwrap();
        if number >= 500 {
            world.remove(&key(number - 500));
        }
    }
    let stats = world.owner.stats();
    assert_eq!(stats.keys, 500);
    assert!(stats.nodes < 80, "{} nodes for 500 keys", stats.nodes);
    let all = world.range(&[], None, usize::MAX);
    assert!(
        all.iter().map(|(key, _)| &key[..]).eq((4500..5000)
            .map(key)
            .collect::<Vec<_>>()
            .iter()
            .map(|key| &key[..]))
    );
}

#[test]
fn a_client_that_remembers_needs_one_read_and_notices_what_it_has_missed() {
    let mut world = World::new(32);
    let key = |number: u64| (number * 7919 % 20_000).to_be_bytes();
    (0..10_000).for_each(|number| _ = world.put(&key(number), &number.to_le_bytes(), 0).unwrap());
    let roots = world.roots();
    let ask = |world: &World, number: u64| {
        let bytes = key(number);
        look(&roots, &Afar(&world.memory), world.key(&bytes))
    };
    for number in 0..10_000 {
        ask(&world, number);
    }
    let reads: u32 = (0..10_000).map(|number| ask(&world, number).1).sum();
    assert_eq!(reads, 10_000, "inner nodes are remembered");
    // Leaves are divided, and put together, behind the client's back.
    (10_000..20_000).for_each(|number| _ = world.put(&key(number), &number.to_le_bytes(), 0).unwrap());
    for number in 0..20_000 {
        assert_eq!(ask(&world, number).0.map(|found| found.value), Some(number.to_le_bytes().to_vec()));
    }
    (0..19_000).for_each(|number| world.remove(&key(number)));
    for number in 0..20_000 {
        assert_eq!(ask(&world, number).0.is_some(), number >= 19_000, "{number}");
    }
    let reads: u32 = (19_000..20_000).map(|number| ask(&world, number).1).sum();
    assert_eq!(reads, 1000);
}

#[test]
fn a_client_goes_through_leaves_by_itself() {
    let mut world = World::new(16);
    for number in 0..1000u64 {
        let value = vec![number as u8; if number % 100 == 0 { 1000 } else { 20 }];
        world.put(&(number * 3).to_be_bytes(), &value, 0).unwrap();
    }
    let roots = world.roots();
    for most in [usize::MAX, 3] {
        let (mut reads, mut pages, mut keys) = (0, 0, Vec::new());
        let (mut from, mut right) = (Some(100u64.to_be_bytes().to_vec()), None);
        while let Some(start) = from {
            let afar = Afar(&world.memory);
            let page = roots.page(&afar, &start, right, most, &mut reads);
            let page = block_on(page).unwrap().unwrap();
            assert!(page.keys.len() <= most);
            keys.extend(page.keys);
            (from, right) = (page.next, page.right);
            pages += 1;
        }
        let expected: Vec<u64> = (34..1000).map(|number| number * 3).collect();
        let seen: Vec<u64> =
            keys.iter().map(|(key, _)| u64::from_be_bytes(key[..].try_into().unwrap())).collect();
        assert_eq!(seen, expected);
        assert!(keys.iter().zip(34..).all(|((_, found), number)| found.is_none() == (number % 100 == 0)));
        assert!(reads < pages + 4, "{reads} READs for {pages} pages: one each, and the first goes down");
    }
}

/// What a page says of the next one is a hint, and may be out of date in every way.
#[test]
fn a_hint_that_leads_nowhere_is_no_more_than_a_longer_way() {
    let mut world = World::new(16);
    (0..1000u64).for_each(|number| _ = world.put(&number.to_be_bytes(), &[7; 20], 0).unwrap());
    let (roots, from) = (world.roots(), 500u64.to_be_bytes());
    let plain = block_on(roots.page(&Afar(&world.memory), &from, None, 10, &mut 0)).unwrap().unwrap();
    assert!(!plain.keys.is_empty());
    let root = Owner::parse_root(&world.owner.roots(&world.heap, &[])).unwrap();
    let at = |region, offset| Pointer { address: Address::new(region, offset), ..root };
    let beyond = at(root.address.region(), u32::MAX - 63);
    let elsewhere = at(RegionId(987), 64);
    for hint in [root, beyond, elsewhere] {
        let page = block_on(roots.page(&Afar(&world.memory), &from, Some(hint), 10, &mut 0));
        assert_eq!(page.expect("goes down").as_ref(), Ok(&plain), "{hint:?}");
    }
}

/// Leaves are divided, put together and given to others between two pages.
#[test]
fn a_client_that_goes_to_the_right_misses_nothing_that_stays() {
    let mut world = World::new(16);
    let stays = |number: u64| number.is_multiple_of(40);
    let key = |number: u64| number.to_be_bytes();
    (0..4000u64).for_each(|number| _ = world.put(&key(number), &[7; 20], 0).unwrap());
    let (roots, mut reads) = (world.roots(), 0);
    let mut are_there = true;
    for step in 1..30 {
        let (mut from, mut right, mut seen) = (Some(Vec::new()), None, Vec::new());
        let mut pages = 0;
        while let Some(start) = from {
            let afar = Afar(&world.memory);
            let page = roots.page(&afar, &start, right, usize::MAX, &mut reads);
            // What was remembered is forgotten, and the way is found at the second go.
            let Ok(page) = block_on(page).unwrap() else {
                from = Some(start);
                continue;
            };
            seen.extend(
                page.keys.into_iter().map(|(key, _)| u64::from_be_bytes(key[..].try_into().unwrap())),
            );
            (from, right) = (page.next, page.right);
            pages += 1;
            if pages % step == 0 {
                for number in (0..4000).filter(|number| !stays(*number)) {
                    match are_there {
                        true => world.remove(&key(number)),
                        false => _ = world.put(&key(number), &[8; 20], 0).unwrap(),
                    }
                }
                are_there = !are_there;
            }
        }
        assert!(seen.is_sorted_by(|one, other| one < other), "{step}: {seen:?}");
        assert_eq!(seen.iter().filter(|number| stays(**number)).count(), 100, "{step}: {seen:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_lost() {
    let mut world = World::new(2);
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    let refused = world.put(&long, b"value", 0);
    assert!(matches!(&refused, Err(Refused::Invalid(why)) if why.contains("128 at the most")), "{refused:?}");
    assert_eq!(world.get(&long), None);
    let hashed = world.key(&long);
    assert_eq!(look(&world.roots(), &world.memory, hashed), (None, 0));
    let mut put = 0u64;
    let full = loop {
        match world.put(&put.to_be_bytes(), &[7; 100], 0) {
            Ok(_) => put += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(full, Refused::Full(_)), "{full:?}");
    assert!(put > 5000, "{put}");
    assert!((0..put).all(|number| world.get(&number.to_be_bytes()).is_some()));
    // What is taken out makes room.
    (0..put / 2).for_each(|number| world.remove(&number.to_be_bytes()));
    assert!(world.put(&u64::MAX.to_be_bytes(), &[7; 100], 0).is_ok());
    assert_eq!(world.owner.count(&world.heap).unwrap().keys, world.owner.stats().keys);
}
