//! Nodes, whatever their bytes are.

use super::super::edit;
use super::super::node::{Content, Entry, NODE_BYTES, Node, Plan, Whose};
use super::*;

const WHOSE: Whose = Whose { table: 7, shard: 1 };

fn inline<'a>(key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
    Entry { key, content: Content::Inline { version: 9, expires: 0, value } }
}

#[test]
fn a_node_comes_back_from_its_bytes_and_is_nobody_elses() {
    let right = Some(super::super::node::node_at(Address::from_bits(0x1000), 4));
    let entries = vec![inline(b"b", b"1"), inline(b"bb", b""), inline(b"c", &[3; 100])];
    let plan = Plan { whose: WHOSE, level: 0, low: b"b", high: Some(b"d"), right, entries };
    let body = plan.to_bytes().unwrap();
    let node = Node::parse(&body, WHOSE).unwrap();
    assert_eq!(Plan::of(node, WHOSE).unwrap().to_bytes().unwrap(), body);
    assert_eq!((node.low(), node.high(), node.right(), node.level()), (&b"b"[..], Some(&b"d"[..]), right, 0));
    assert_eq!(node.search(b"bb"), Some(Ok(1)));
    assert_eq!(node.search(b"bc"), Some(Err(2)));
    let places = [&b"a"[..], b"b", b"czzz", b"d"].map(|key| node.place(key) as i8);
    assert_eq!(places, [-1, 0, 0, 1]);
    assert!(Node::parse(&body, Whose { table: 8, shard: 1 }).is_none());
    assert!(Node::parse(&body, Whose { table: 7, shard: 2 }).is_none());
    assert!(Node::parse(&body[1..], WHOSE).is_none());
}

#[test]
fn edits_in_place_come_to_what_a_new_node_would_be() {
    let mut chance = Chance(3);
    let empty = Plan { whose: WHOSE, level: 0, low: b"", high: None, right: None, entries: Vec::new() };
    let mut body = empty.to_bytes().unwrap();
    let mut model: std::collections::BTreeMap<Vec<u8>, Vec<u8>> = Default::default();
    for step in 0..20_000 {
        let key = vec![chance.below(26) as u8 + b'a'; 1 + chance.below(12) as usize];
        let value = vec![step as u8; chance.below(90) as usize];
        let at = Node::parse(&body, WHOSE).unwrap().search(&key).unwrap();
        let before = body.clone();
        let done = match (at, chance.below(3)) {
            (Ok(at), 0) => {
                model.remove(&key);
                edit::remove(&mut body, WHOSE, at)
            }
            (Ok(at), _) => edit::replace(&mut body, WHOSE, at, &inline(&key, &value)),
            (Err(at), _) => edit::insert(&mut body, WHOSE, at, &inline(&key, &value)),
        };
        let removed = at.is_ok() && !model.contains_key(&key);
        match done {
            true if !removed => _ = model.insert(key, value),
            true => {}
            false => {
                assert_eq!(body, before, "what finds no room changes nothing");
                let node = Node::parse(&body, WHOSE).unwrap();
                let old = model.get(&key).map_or(0, |old| 12 + key.len() + old.len());
                let new = 12 + key.len() + value.len() + if at.is_ok() { 0 } else { 2 };
                assert!(node.used() - old + new > node.capacity(), "there was room");
            }
        }
        let node = Node::parse(&body, WHOSE).unwrap();
        let held = node.entries().map(|entry| match entry.unwrap() {
            Entry { key, content: Content::Inline { value, .. } } => (key, value),
            other => panic!("{other:?}"),
        });
        assert!(held.eq(model.iter().map(|(key, value)| (&key[..], &value[..]))));
    }
}

#[test]
fn halves_have_a_short_key_between_them() {
    let keys: Vec<Vec<u8>> = (0..40).map(|number| format!("user:{number:04}").into_bytes()).collect();
    let entries: Vec<Entry<'_>> = keys.iter().map(|key| inline(key, b"value")).collect();
    let halves = edit::halve(&entries, false).unwrap();
    assert_eq!((halves.low.len(), halves.high.len()), (20, 20));
    assert_eq!(halves.between, b"user:002");
    assert!(halves.low.iter().all(|entry| entry.key < halves.between));
    assert!(halves.high.iter().all(|entry| entry.key >= halves.between));
    assert!(edit::halve(&entries[..1], false).is_none());
    let halves = edit::halve(&entries, true).unwrap();
    assert_eq!((halves.low.len(), halves.high.len()), (39, 1));
}

#[test]
fn bytes_that_make_no_sense_end_in_nothing() {
    let entries = vec![inline(b"b", b"1"), inline(b"bb", &[5; 300]), inline(b"c", &[3; 100])];
    let plan = Plan { whose: WHOSE, level: 0, low: b"b", high: Some(b"d"), right: None, entries };
    let good = plan.to_bytes().unwrap();
    let mut chance = Chance(8);
    for _ in 0..200_000 {
        let mut body = good.clone();
        for _ in 0..1 + chance.below(3) {
            let at = match chance.below(2) {
                0 => chance.below(60),
                _ => chance.below(NODE_BYTES as u64),
            };
            body[at as usize] = chance.below(256) as u8;
        }
        let Some(node) = Node::parse(&body, WHOSE) else { continue };
        let _ = (node.low(), node.high(), node.right(), node.search(b"bb"), node.child(b"c"), node.used());
        let _ = node.entries().filter(Option::is_some).count();
        let (mut one, mut other) = (body.clone(), body);
        edit::insert(&mut one, WHOSE, 1, &inline(b"ba", b"x"));
        edit::remove(&mut other, WHOSE, 0);
    }
}
