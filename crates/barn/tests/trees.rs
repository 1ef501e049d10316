//! Trees through the API that programs use: ranges of keys, over several shards and transports.

use barn::node::{Node, NodeConfig};
use barn::{Barn, Error, Kind, TableError, TableOptions, Way};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

const WAYS: [Way; 3] = [Way::OneSided, Way::Request, Way::Auto];

fn config() -> NodeConfig {
    NodeConfig { memory_bytes: 128 << 20, ..NodeConfig::embedded() }
}

fn tree() -> TableOptions {
    TableOptions { kind: Kind::Tree, ..TableOptions::default() }
}

/// A key, and a value of any length: some in the leaves, some in objects of their own, one too long for a page.
fn record(number: u64) -> (Vec<u8>, Vec<u8>) {
    let key = format!("key:{:07}", number * 7919 % 10_000_019).into_bytes();
    let bytes = match number % 50 {
        0 if number == 50 => 600_000,
        0 => 5000,
        1..5 => 300,
        rest => rest as usize,
    };
    (key, vec![number as u8; bytes])
}

#[test]
fn ranges_come_in_order_from_all_shards_whichever_way_they_are_read() {
    let with_tcp = || NodeConfig { tcp: Some("127.0.0.1:0".parse().unwrap()), ..config() };
    let first = Node::start(with_tcp()).unwrap();
    let second = Node::start(NodeConfig { join: first.address(), ..with_tcp() }).unwrap();
    let shm = Barn::connect(&first.address().unwrap()).unwrap();
    let tcp = Barn::connect(&format!("tcp://{}", second.tcp_address().unwrap())).unwrap();
    let table = shm.create_table("ordered", tree(), 3).unwrap();
    let model: BTreeMap<Vec<u8>, Vec<u8>> = (0..3000).map(record).collect();
    let pairs: Vec<(&[u8], &[u8])> = model.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    for some in pairs.chunks(500) {
        table.put_many(some).unwrap();
    }
    let other = tcp.open_table("ordered").unwrap();
    let ends: [(&[u8], Option<&[u8]>); 5] = [
        (b"", None),
        (b"key:3", Some(b"key:5")),
        (b"key:9999999", None),
        (b"key:5", Some(b"key:5")),
        (b"key:7", Some(b"key:2")),
    ];
    for (name, table) in [("shm", &table), ("tcp", &other)] {
        for way in WAYS {
            let table = table.read_by(way);
            for (from, to) in ends {
                let upper = to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.max(from)));
                let expected = model.range::<[u8], _>((Bound::Included(from), upper));
                let read: Vec<_> = table.range(from, to).map(Result::unwrap).collect();
                let same = read.iter().map(|(key, found)| (key, &found.value)).eq(expected.clone());
                assert!(same, "{name} {way}: {} keys, not {}", read.len(), expected.count());
            }
            let ten: Vec<_> = table.range(b"key:4", None).at_most(10).map(|next| next.unwrap().0).collect();
            assert!(
                ten.iter().eq(model.range(b"key:4".to_vec()..).take(10).map(|(key, _)| key)),
                "{name} {way}"
            );
            let all: Vec<_> = table.scan().map(|next| next.unwrap().0).collect();
            assert!(all.iter().eq(model.keys()), "{name} {way}: a scan is in order, too");
        }
    }
    let missing = other.range(b"key:", Some(b"key;")).map(Result::unwrap).next().unwrap().0;
    assert!(table.delete(&missing).unwrap());
    assert_ne!(other.range(b"key:", None).map(Result::unwrap).next().unwrap().0, missing);
}

#[test]
fn what_has_expired_is_in_no_range_and_tables_without_an_order_say_so() {
    let barn = Barn::embedded_with(config()).unwrap();
    let table = barn.create_table("ordered", tree(), 0).unwrap();
    table.put(b"a", b"1").unwrap();
    table.put_for(b"b", b"2", std::time::Duration::from_millis(20)).unwrap();
    table.put(b"c", b"3").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    for way in WAYS {
        let keys: Vec<_> = table.read_by(way).range(b"", None).map(|next| next.unwrap().0).collect();
        assert_eq!(keys, [b"a", b"c"], "{way}");
    }
    let long = [b'k'; 129];
    let refused = table.put(&long, b"value").unwrap_err().to_string();
    assert!(refused.contains("128 at the most"), "{refused}");
    assert_eq!(table.get(&long).unwrap(), None);
    for kind in [Kind::Hopscotch, Kind::Cuckoo, Kind::Cache] {
        let table = barn.create_table(&kind.to_string(), TableOptions { kind, ..tree() }, 0).unwrap();
        let refused = table.range(b"", None).next();
        assert!(
            matches!(&refused, Some(Err(Error::Table(TableError::Unsupported { kind: of, .. }))) if *of == kind),
            "{refused:?}"
        );
    }
}

#[test]
fn a_range_meets_every_key_that_stays_while_others_come_and_go_around_it() {
    let barn = Barn::embedded_with(config()).unwrap();
    let table = barn.create_table("ordered", tree(), 2).unwrap();
    let key = |number: u64| number.to_be_bytes();
    for number in (0..4000).step_by(4) {
        table.put(&key(number), &[1; 40]).unwrap();
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut rounds = 0u64;
            // ORDER: Relaxed: a flag that stands alone.
            while !over.load(Ordering::Relaxed) {
                let numbers = (0..4000).filter(|number| number % 4 != 0);
                match rounds % 2 {
                    0 => numbers.for_each(|number| _ = table.put(&key(number), &[2; 40]).unwrap()),
                    _ => numbers.for_each(|number| _ = table.delete(&key(number)).unwrap()),
                }
                rounds += 1;
            }
            rounds
        });
        for round in 0..60 {
            let table = table.read_by(WAYS[round % 3]);
            let mut last = None;
            let mut stayed = 0;
            for next in table.range(b"", None) {
                let (key, found) = next.unwrap();
                let number = u64::from_be_bytes(key[..].try_into().unwrap());
                assert!(last.is_none_or(|last| last < number), "{number} after {last:?}");
                assert_eq!(found.value, [if number % 4 == 0 { 1 } else { 2 }; 40]);
                last = Some(number);
                stayed += u64::from(number % 4 == 0);
            }
            assert_eq!(stayed, 1000, "round {round}");
        }
        // ORDER: Relaxed: as above.
        over.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0);
    });
}

/// Ranges that one thread has under way at once: their answers are longer together than what is sent at a time.
#[test]
fn many_ranges_at_once_all_come_to_their_end() {
    let with_tcp = NodeConfig { tcp: Some("127.0.0.1:0".parse().unwrap()), ..config() };
    let node = Node::start(with_tcp).unwrap();
    let shm = Barn::connect(&node.address().unwrap()).unwrap();
    let tcp = Barn::connect(&format!("tcp://{}", node.tcp_address().unwrap())).unwrap();
    let table = shm.create_table("ordered", tree(), 1).unwrap();
    let keys: Vec<Vec<u8>> = (0..3000u64).map(|number| format!("key:{number:05}").into_bytes()).collect();
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &[7; 200][..])).collect();
    for some in pairs.chunks(500) {
        table.put_many(some).unwrap();
    }
    let other = tcp.open_table("ordered").unwrap();
    for (name, table) in [("shm", &table), ("tcp", &other)] {
        for way in WAYS {
            let table = table.read_by(way);
            let table = table.futures();
            let each = keys.iter().enumerate().step_by(3).map(|(at, from)| async move {
                let mut range = table.range(from, None).at_most(at % 100);
                let mut met = 0;
                while let Some((key, _)) = range.next().await.unwrap() {
                    assert!(&key >= from);
                    met += 1;
                }
                assert_eq!(met, (at % 100).min(3000 - at), "{name} {way}");
            });
            let mut done = 0;
            barn_fabric::Pipeline::new(16).run(each, |()| done += 1);
            assert_eq!(done, 1000, "{name} {way}");
            eprintln!("{name} {way}");
        }
    }
}
