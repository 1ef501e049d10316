//! Tables through the API that programs use, on nodes in this process, over shm and tcp.

use barn::node::{Node, NodeConfig};
use barn::{
    Answers, Barn, Connect, Error, Found, Kind, Put, Swapped, TableError, TableOptions, Way, Write, Written,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WAYS: [Way; 3] = [Way::OneSided, Way::Request, Way::Auto];
const KINDS: [Kind; 4] = Kind::ALL;

/// With a seed of their own: a `cache` forgets a key whose tag and bucket another comes to have, which among
/// 5,000 keys happens with one seed in some hundred.
fn options(kind: Kind) -> TableOptions {
    TableOptions { kind, memory_bytes: 16 << 20, seed: 7, ..TableOptions::default() }
}

fn config() -> NodeConfig {
    NodeConfig { memory_bytes: 256 << 20, ..NodeConfig::embedded() }
}

#[test]
fn as_many_keys_as_are_asked_for_have_each_its_own_value() {
    let barn = Barn::embedded_with(config()).unwrap();
    let keys: Vec<Vec<u8>> = (0..140).map(|at| format!("key {at}").into_bytes()).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    for kind in KINDS {
        let table = barn.create_table(&format!("{kind}"), options(kind), 0).unwrap();
        // Every seventh is not there, and some are too long for a slot.
        let value = |at: usize| {
            let bytes = if at.is_multiple_of(5) { 300 } else { 9 };
            (at % 7 != 3).then(|| vec![at as u8; bytes])
        };
        for (at, key) in keys.iter().enumerate() {
            value(at).map(|value| table.put(key, &value).unwrap());
        }
        for way in WAYS {
            let table = table.read_by(way);
            // Groups at the node have 32 keys, so that some end with a group of one.
            for count in (0..=keys.len()).filter(|count| count % 32 < 4 || count.is_multiple_of(31)) {
                for first in [0, keys.len() - count] {
                    let wanted: Vec<_> = (first..first + count).map(value).collect();
                    let found = table.get_many(&keys[first..first + count]).unwrap();
                    assert_eq!(found, wanted, "{kind} {way}: {count} keys from {first} on");
                }
            }
        }
    }
}

#[test]
fn several_questions_under_way_together_have_each_its_own_answer() {
    let node = Node::start(config()).unwrap();
    let barn = Barn::connect(&node.address().unwrap()).unwrap();
    for kind in KINDS {
        let table = barn.create_table(&format!("{kind}"), options(kind), 0).unwrap();
        let keys: Vec<Vec<u8>> = (0..1000u32).map(|at| format!("key {at}").into_bytes()).collect();
        // Brief answers come at once; long ones in pieces, which takes longer.
        for (batch, bytes) in [(300, 3), (1000, 40), (200, 900), (1000, 300)] {
            let value = |at: usize| (at % 9 != 4).then(|| vec![(at % 251) as u8; bytes + at % 2]);
            for (at, key) in keys[..batch].iter().enumerate() {
                match value(at) {
                    Some(value) => drop(table.put(key, &value).unwrap()),
                    None => drop(table.delete(key).unwrap()),
                }
            }
            let wanted: Vec<&[u8]> = keys[..batch].iter().map(|key| &key[..]).collect();
            // One connection for all of them: some take the answers of others.
            std::thread::scope(|threads| {
                for thread in 0..3 {
                    let asking = table.read_by(Way::Request);
                    let (wanted, value) = (&wanted, &value);
                    threads.spawn(move || {
                        let mut answers = Answers::new();
                        for first in (0..30).map(|round| round * (thread + 1)) {
                            asking.find_many(&wanted[first..], &mut answers).unwrap();
                            for (at, found) in answers.iter().enumerate() {
                                let found = found.map(|found| found.value.clone());
                                // A cache may have forgotten it for another of its bucket.
                                let forgotten = kind == Kind::Cache && found.is_none();
                                assert!(
                                    found == value(first + at) || forgotten,
                                    "{kind}, {bytes} bytes: {}",
                                    first + at
                                );
                            }
                        }
                    });
                }
            });
        }
        let (before, lookups) = (barn.stats().messages, table.stats().unwrap().request_gets);
        let asking = table.read_by(Way::Request);
        let wanted: Vec<&[u8]> = keys[..256].iter().map(|key| &key[..]).collect();
        let mut answers = Answers::new();
        asking.find_many(&wanted, &mut answers).unwrap();
        let (after, looked_up) = (barn.stats().messages, table.stats().unwrap().request_gets);
        assert_eq!(looked_up - lookups, 256, "{kind}: each is counted");
        assert!((4..8).contains(&(after - before)), "{kind}: {} messages", after - before);
        asking.find_many(&[], &mut answers).unwrap();
        assert!(answers.is_empty());
        let too_long = [0; barn::KEY_BYTES_MAX + 1];
        assert!(matches!(
            asking.find_many(&[b"key 1", &too_long], &mut answers),
            Err(Error::Table(TableError::KeyTooLong { .. }))
        ));
    }
    let hasty = Connect::new().deadline(Duration::from_millis(300)).to(&node.address().unwrap()).unwrap();
    let asking = hasty.open_table("hopscotch").unwrap().read_by(Way::Request);
    let mut answers = Answers::new();
    asking.find_many(&[b"key 1", b"key 2"], &mut answers).unwrap();
    drop(node);
    assert!(asking.find_many(&[b"key 1", b"key 2"], &mut answers).is_err());
}

#[test]
fn every_kind_does_what_the_interface_says() {
    let barn = Barn::embedded_with(config()).unwrap();
    for kind in KINDS {
        let table = barn.create_table(&format!("{kind}"), options(kind), 0).unwrap();
        for way in WAYS {
            let table = table.read_by(way);
            assert_eq!(table.get(b"nobody").unwrap(), None);
            let first = table.put(b"key", b"one").unwrap();
            assert_eq!(table.get(b"key").unwrap().unwrap(), b"one", "{kind} {way}");
            let found = table.find(b"key").unwrap().unwrap();
            assert_eq!((found.version, found.expires), (first, 0));
            assert!(!table.insert(b"key", b"two").unwrap());
            assert_eq!(table.swap(b"key", first + 1, b"two").unwrap(), Swapped::Different(first));
            let Swapped::Done(second) = table.swap(b"key", first, b"two").unwrap() else {
                panic!("{kind} {way}: the version was right");
            };
            assert_ne!(second, first);
            assert_eq!(table.swap(b"nobody", 1, b"two").unwrap(), Swapped::Absent);
            assert_eq!(table.find(b"key").unwrap().unwrap().version, second);
            assert!(table.contains(b"key").unwrap());
            assert!(table.delete(b"key").unwrap() && !table.delete(b"key").unwrap());
            assert!(!table.contains(b"key").unwrap());
            assert!(table.insert(b"key", b"three").unwrap());
            assert!(table.delete(b"key").unwrap());

            assert_eq!(table.increment(b"count", 5).unwrap(), 5);
            assert_eq!(table.increment(b"count", -7).unwrap(), -2);
            assert_eq!(table.get(b"count").unwrap().unwrap(), b"-2");
            table.put(b"count", b"many").unwrap();
            assert!(matches!(
                table.increment(b"count", 1),
                Err(Error::Table(TableError::NotANumber { why })) if why.contains("many")
            ));
            table.delete(b"count").unwrap();

            table.put_for(b"brief", b"x", Duration::from_millis(30)).unwrap();
            assert!(table.find(b"brief").unwrap().is_none_or(|found| found.expires > 0));
            std::thread::sleep(Duration::from_millis(40));
            assert_eq!(table.get(b"brief").unwrap(), None, "{kind} {way}: it has expired");
            assert!(table.insert(b"brief", b"y").unwrap(), "what has expired is not in the way");
            table.delete(b"brief").unwrap();
        }
    }
}

#[test]
fn many_keys_at_once_and_all_of_them() {
    let barn = Barn::embedded_with(config()).unwrap();
    for kind in KINDS {
        let table = barn.create_table(&format!("{kind}"), options(kind), 0).unwrap();
        let keys: Vec<Vec<u8>> = (0..5000u32).map(|number| format!("key {number}").into_bytes()).collect();
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[4..])).collect();
        table.put_many(&pairs).unwrap();
        let mut wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        wanted.push(b"nobody");
        for way in WAYS {
            let mut answers = Answers::new();
            table.read_by(way).find_many(&wanted, &mut answers).unwrap();
            assert_eq!(answers.len(), wanted.len());
            for (at, key) in keys.iter().enumerate() {
                let found = answers.get(at).unwrap_or_else(|| panic!("{kind} {way}: no {key:?}"));
                assert_eq!(found.value, key[4..]);
            }
            assert!(answers.get(keys.len()).is_none());
        }
        let mut scanned: Vec<Vec<u8>> = table.scan().map(|next| next.unwrap().0).collect();
        scanned.sort();
        scanned.dedup();
        let mut all = keys.clone();
        all.sort();
        assert_eq!(scanned, all, "{kind}");
        let stats = table.stats().unwrap().shards;
        assert_eq!(stats.keys, 5000);
        assert!(stats.memory_bytes > stats.payload_bytes);
    }
}

#[test]
fn of_many_puts_each_has_its_expiry_and_its_outcome() {
    let barn = Barn::embedded_with(config()).unwrap();
    for kind in KINDS {
        let table = barn.create_table(&format!("{kind}"), options(kind), 3).unwrap();
        table.put(b"there", b"before").unwrap();
        let too_long = vec![0; (64 << 10) + 1];
        let write = |key, value, expires, if_absent| Write { key, value, put: Put { expires }, if_absent };
        let writes = [
            write(b"plain", b"1", 0, false),
            write(b"brief", b"2", 4_000_000_000_000, false),
            write(&too_long, b"3", 0, false),
            write(b"there", b"4", 0, true),
            write(b"absent", b"5", 0, true),
            write(b"absent", b"6", 0, true),
            write(b"twice", b"7", 0, false),
            write(b"twice", b"8", 0, false),
        ];
        let mut outcomes = vec![Ok(Written::Kept)];
        table.write_many(&writes, &mut outcomes).unwrap();
        let stored = Ok(Written::Stored);
        let kept = Ok(Written::Kept);
        let refused = Err(TableError::KeyTooLong { bytes: too_long.len() });
        let wanted = [&stored, &stored, &refused, &kept, &stored, &kept, &stored, &stored];
        assert_eq!(outcomes.iter().collect::<Vec<_>>(), wanted, "{kind}");
        let values: Vec<Option<Vec<u8>>> =
            table.get_many(&[b"plain", b"there", b"absent", b"twice"]).unwrap();
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_deref().unwrap()).collect();
        assert_eq!(values, [&b"1"[..], b"before", b"5", b"8"], "{kind}");
        assert_eq!(table.find(b"brief").unwrap().unwrap().expires, 4_000_000_000_000);
        assert_eq!(table.find(b"plain").unwrap().unwrap().expires, 0);
        table.write_many(&[], &mut outcomes).unwrap();
        assert!(outcomes.is_empty());
    }
}

#[test]
fn long_keys_and_values_are_taken_up_to_the_bounds_and_refused_beyond() {
    let barn = Barn::embedded_with(NodeConfig { memory_bytes: 1 << 30, ..NodeConfig::embedded() }).unwrap();
    for kind in [Kind::Hopscotch, Kind::Cuckoo] {
        let table = barn.create_table(&format!("{kind}"), options(kind), 0).unwrap();
        let key = vec![7; 64 << 10];
        let value: Vec<u8> = (0..64 << 20).map(|at: u32| (at % 251) as u8).collect();
        for way in WAYS {
            let table = table.read_by(way);
            table.put(&key, &value).unwrap();
            assert!(table.get(&key).unwrap().unwrap() == value, "{kind} {way}");
            table.put(&key, b"short").unwrap();
            assert_eq!(table.get(&key).unwrap().unwrap(), b"short");
            table.put(b"", b"").unwrap();
            assert_eq!(table.get(b"").unwrap().unwrap(), b"");
            table.delete(&key).unwrap();
        }
        let longer = vec![7; (64 << 10) + 1];
        let error = table.put(&longer, b"").unwrap_err().to_string();
        assert!(error.contains("65537") && error.contains("65536"), "{error}");
        assert!(matches!(table.get(&longer), Err(Error::Table(TableError::KeyTooLong { .. }))));
        let longer = vec![7; (64 << 20) + 1];
        assert!(matches!(table.put(b"k", &longer), Err(Error::Table(TableError::ValueTooLong { .. }))));
        barn.drop_table(&format!("{kind}")).unwrap();
    }
}

#[test]
fn tables_are_made_listed_and_dropped() {
    let barn = Barn::embedded_with(config()).unwrap();
    assert!(barn.tables().unwrap().is_empty());
    let error = barn.open_table("users").unwrap_err().to_string();
    assert!(error.contains("barn table create users"), "{error}");
    let users = barn.table("users").unwrap();
    users.put(b"ada", b"1815").unwrap();
    barn.create_table("cuckoos", options(Kind::Cuckoo), 0).unwrap();
    let listed = barn.tables().unwrap();
    let names: Vec<&str> = listed.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["cuckoos", "users"]);
    let taken = barn.create_table("users", options(Kind::Cache), 0);
    assert!(matches!(&taken, Err(Error::Table(TableError::Exists(name))) if name == "users"), "{taken:?}");
    assert_eq!(barn.table("users").unwrap().get(b"ada").unwrap().unwrap(), b"1815");
    barn.drop_table("users").unwrap();
    assert!(matches!(barn.drop_table("users"), Err(Error::Table(TableError::NoTable(_)))));
    assert!(matches!(users.put(b"ada", b"1815"), Err(Error::Table(TableError::NoTable(_)))));
    // The name is free, and what comes is empty.
    assert_eq!(barn.table("users").unwrap().get(b"ada").unwrap(), None);
    assert!(barn.table("no good name").is_err());
}

#[test]
fn a_transaction_spans_tables_and_objects() {
    let barn = Barn::embedded_with(config()).unwrap();
    let stock = barn.table("stock").unwrap();
    let orders = barn.table("orders").unwrap();
    let total = barn.new(&0i64).unwrap();
    stock.put(b"apples", b"10").unwrap();
    for order in 0..20 {
        let done = barn.transaction(|tx| {
            let left: i64 = String::from_utf8(tx.get(&stock, b"apples")?.unwrap()).unwrap().parse().unwrap();
            if left == 0 {
                return Err(Error::own("sold out"));
            }
            tx.put(&stock, b"apples", (left - 1).to_string().as_bytes())?;
            assert_eq!(tx.get(&stock, b"apples")?.unwrap(), (left - 1).to_string().as_bytes());
            tx.put(&orders, format!("order {order}").as_bytes(), &vec![order as u8; 1000])?;
            let sum = tx.load(total)?;
            tx.store(total, &(sum + 1))
        });
        assert_eq!(done.is_ok(), order < 10, "{done:?}");
    }
    assert_eq!(stock.get(b"apples").unwrap().unwrap(), b"0");
    assert_eq!(barn.load(total).unwrap(), 10);
    assert_eq!(orders.scan().count(), 10);
    assert_eq!(orders.get(b"order 3").unwrap().unwrap(), vec![3; 1000]);
    barn.transaction(|tx| {
        assert!(tx.delete(&orders, b"order 3")?);
        assert!(!tx.delete(&orders, b"order 3")?);
        tx.put(&orders, b"order 4", b"short")
    })
    .unwrap();
    assert_eq!(orders.get(b"order 3").unwrap(), None);
    assert_eq!(orders.get(b"order 4").unwrap().unwrap(), b"short");
    let cache = barn.create_table("cache", options(Kind::Cache), 0).unwrap();
    let refused = barn.transaction(|tx| tx.get(&cache, b"key"));
    assert!(matches!(refused, Err(Error::Table(TableError::Unsupported { .. }))), "{refused:?}");
}

/// A long value lies in an object of its own, and one that is as long takes its place there: whoever replaces it, it
/// has another version, and whoever has read it before finds out.
#[test]
fn a_long_value_that_is_replaced_where_it_is_has_another_version() {
    let barn = Barn::embedded_with(config()).unwrap();
    let table =
        barn.create_table("long", TableOptions { inline_bytes: 8, ..TableOptions::default() }, 0).unwrap();
    let value = |byte: u8| vec![byte; 1000];
    let first = table.put(b"key", &value(1)).unwrap();
    let memory = table.stats().unwrap().shards.memory_bytes;
    let second = table.put(b"key", &value(2)).unwrap();
    assert_ne!(first, second);
    assert_eq!(table.stats().unwrap().shards.memory_bytes, memory);
    for way in [Way::OneSided, Way::Request] {
        let found = table.read_by(way).find(b"key").unwrap().unwrap();
        assert_eq!((found.version, found.value), (second, value(2)), "{way:?}");
    }
    assert_eq!(table.swap(b"key", first, &value(9)).unwrap(), Swapped::Different(second));
    let Swapped::Done(third) = table.swap(b"key", second, &value(3)).unwrap() else {
        panic!("it had that version")
    };
    assert_eq!(table.find(b"key").unwrap().unwrap().version, third);

    // In a transaction: one that was there, and one that the transaction has made itself.
    barn.transaction(|tx| {
        for round in 4..7 {
            tx.put(&table, b"key", &value(round))?;
            tx.put(&table, b"made", &value(round))?;
            assert_eq!(tx.get(&table, b"key")?.unwrap(), value(round));
            assert_eq!(tx.get(&table, b"made")?.unwrap(), value(round));
        }
        Ok(())
    })
    .unwrap();
    for key in [&b"key"[..], b"made"] {
        let found = table.find(key).unwrap().unwrap();
        assert_eq!(found.value, value(6));
        assert!(matches!(table.swap(key, found.version, &value(7)).unwrap(), Swapped::Done(_)));
    }
    assert_ne!(table.find(b"key").unwrap().unwrap().version, third);

    // Whoever has read what was replaced since does not commit.
    let mut tx = barn.begin();
    assert_eq!(tx.get(&table, b"key").unwrap().unwrap(), value(7));
    tx.put(&table, b"other", b"short").unwrap();
    table.put(b"key", &value(8)).unwrap();
    assert!(tx.commit().is_err(), "what it has read is not true any more");
    assert_eq!(table.get(b"other").unwrap(), None);
    assert_eq!(table.get(b"key").unwrap().unwrap(), value(8));
}

/// Many inserts in transactions: chains, growth and everything.
#[test]
fn transactions_fill_a_table_until_it_grows() {
    let barn = Barn::embedded_with(config()).unwrap();
    let small = TableOptions { capacity: 1, inline_bytes: 8, ..TableOptions::default() };
    let table = barn.create_table("small", small, 0).unwrap();
    for group in 0..900u32 {
        barn.transaction(|tx| {
            for number in 0..10 {
                let key = (group * 10 + number).to_le_bytes();
                tx.put(&table, &key, &number.to_le_bytes())?;
            }
            Ok(())
        })
        .unwrap();
    }
    for number in 0..9000u32 {
        assert_eq!(table.get(&number.to_le_bytes()).unwrap().unwrap(), (number % 10).to_le_bytes());
    }
    let stats = table.stats().unwrap().shards;
    assert_eq!(stats.keys, 9000, "transactions' keys are counted");
    assert!(stats.grown > 0);
}

#[test]
fn tables_are_spread_over_nodes_and_reached_over_tcp() {
    let with_tcp = || NodeConfig { tcp: Some("127.0.0.1:0".parse().unwrap()), ..config() };
    let first = Node::start(with_tcp()).unwrap();
    let join = first.address();
    let _second = Node::start(NodeConfig { join, ..with_tcp() }).unwrap();
    let address = format!("tcp://{}", first.tcp_address().unwrap());
    for barn in [Connect::new().to(&first.address().unwrap()).unwrap(), Connect::new().to(&address).unwrap()]
    {
        for kind in KINDS {
            let table = barn.table_with(&format!("{kind}"), options(kind)).unwrap();
            for way in WAYS {
                let table = table.read_by(way);
                let keys: Vec<[u8; 4]> = (0..300u32).map(u32::to_le_bytes).collect();
                let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..])).collect();
                table.put_many(&pairs).unwrap();
                let wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                for (found, key) in table.get_many(&wanted).unwrap().iter().zip(&keys) {
                    assert_eq!(found.as_deref(), Some(&key[..]), "{kind} {way}");
                }
                for key in &keys {
                    assert_eq!(table.get(key).unwrap().as_deref(), Some(&key[..]), "{kind} {way}");
                }
            }
        }
        let one = barn.table("hopscotch").unwrap();
        barn.transaction(|tx| {
            for number in 0..20u32 {
                tx.put(&one, &number.to_le_bytes(), b"both nodes")?;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(one.get(&3u32.to_le_bytes()).unwrap().unwrap(), b"both nodes");
    }
    let _ = Put::default();
}

#[test]
fn lookups_of_mapped_memory_are_done_at_once_and_what_is_not_plain_goes_the_long_way() {
    let node = Node::start(NodeConfig { tcp: Some("127.0.0.1:0".parse().unwrap()), ..config() }).unwrap();
    let barn = Barn::connect(&node.address().unwrap()).unwrap();
    let long = [7; 5000];
    for kind in KINDS {
        let table = barn.create_table(&format!("{kind}"), options(kind), 0).unwrap().read_by(Way::OneSided);
        let (mut found, name) = (Found::default(), format!("{kind}"));
        table.put(b"short", b"1").unwrap();
        table.put(b"long", &long).unwrap();
        table.put_for(b"brief", b"x", Duration::from_millis(1)).unwrap();
        assert_eq!(table.futures().find_at_once(b"short", &mut found), None, "{kind}: nothing is known yet");
        assert_eq!(table.get(b"short").unwrap().unwrap(), b"1");
        std::thread::sleep(Duration::from_millis(5));
        let before = table.stats().unwrap();
        assert_eq!(table.futures().find_at_once(b"short", &mut found), Some(true), "{kind}");
        assert_eq!(found.value, b"1");
        assert_eq!(table.futures().find_at_once(b"nobody", &mut found), Some(false), "{kind}");
        assert_eq!(table.futures().find_at_once(b"brief", &mut found), Some(false), "{kind}: it has expired");
        let after = table.stats().unwrap();
        assert_eq!(after.one_sided_gets - before.one_sided_gets, 3, "{kind}: each is counted");
        assert!(after.reads - before.reads >= 3, "{kind}");
        // In an object of its own, or in place: either way it is there.
        assert_ne!(table.futures().find_at_once(b"long", &mut found), Some(false), "{kind}");
        assert_eq!(table.get(b"long").unwrap().unwrap(), long, "{kind}");
        let too_long = [0; barn::KEY_BYTES_MAX + 1];
        assert!(matches!(table.get(&too_long), Err(Error::Table(TableError::KeyTooLong { .. }))));
        // The same of many keys: what needs the long way goes it, and the others are not looked up again.
        let (mut answers, before) = (Answers::new(), table.stats().unwrap());
        table.find_many(&[b"short", b"nobody", b"brief", b"long"], &mut answers).unwrap();
        let values: Vec<Option<&[u8]>> = answers.iter().map(|found| found.map(|it| &it.value[..])).collect();
        assert_eq!(values, [Some(&b"1"[..]), None, None, Some(&long[..])], "{kind}");
        assert_eq!(
            table.stats().unwrap().one_sided_gets - before.one_sided_gets,
            4,
            "{kind}: each is counted"
        );
        assert!(matches!(
            table.find_many(&[b"short", &too_long], &mut answers),
            Err(Error::Table(TableError::KeyTooLong { .. }))
        ));
        let (asked, before) = (table.read_by(Way::Request), table.stats().unwrap());
        let asking = |key: &[u8], found: &mut Found| asked.futures().find_waiting(key, found).unwrap();
        assert_eq!(asked.futures().find_at_once(b"short", &mut found), None, "{kind}: an answer takes time");
        assert_eq!(asking(b"nobody", &mut found), Some(false), "{kind}: a thread can wait for an answer");
        assert_eq!(asking(b"brief", &mut found), Some(false), "{kind}: it has expired");
        assert_eq!(asking(&too_long, &mut found), None, "{kind}");
        assert_eq!(asking(b"long", &mut found), Some(true), "{kind}");
        assert_eq!(found.value, long, "{kind}");
        assert_eq!(asking(b"short", &mut found), Some(true), "{kind}");
        assert_eq!(found, asked.find(b"short").unwrap().unwrap(), "{kind}: version and time, too");
        let after = asked.stats().unwrap();
        assert_eq!(after.request_gets - before.request_gets, 5, "{kind}: each is counted");
        assert_eq!(after.one_sided_gets, before.one_sided_gets, "{kind}");
        let far = Barn::connect(&format!("tcp://{}", node.tcp_address().unwrap())).unwrap();
        let far = far.open_table(&name).unwrap().read_by(Way::OneSided);
        assert_eq!(far.get(b"short").unwrap().unwrap(), b"1");
        assert_eq!(far.futures().find_at_once(b"short", &mut found), None, "{kind}: nothing is mapped");
        let before = far.stats().unwrap();
        let waiting = |key: &[u8], found: &mut Found| far.futures().find_waiting(key, found).unwrap();
        assert_eq!(waiting(b"short", &mut found), Some(true), "{kind}: a thread can wait for its READs");
        assert_eq!(waiting(b"nobody", &mut found), Some(false), "{kind}");
        assert_eq!(waiting(b"brief", &mut found), Some(false), "{kind}: it has expired");
        assert_eq!(waiting(&[0; barn::KEY_BYTES_MAX + 1], &mut found), None, "{kind}");
        assert_eq!(waiting(b"short", &mut found), Some(true), "{kind}");
        assert_eq!(found.value, b"1", "{kind}");
        let after = far.stats().unwrap();
        assert_eq!(after.one_sided_gets - before.one_sided_gets, 4, "{kind}: each is counted");
        assert_eq!(far.get(b"long").unwrap().unwrap(), long, "{kind}");
    }
}

/// A writer changes some keys all the time and adds others, so that segments are split, while readers look
/// for those that are always there, one at a time and many at once.
#[test]
fn keys_are_found_whole_and_none_is_missed_while_their_table_changes_and_grows() {
    let node = Node::start(config()).unwrap();
    let barn = Barn::connect(&node.address().unwrap()).unwrap();
    let options = TableOptions { capacity: 100, inline_bytes: 32, ..options(Kind::Hopscotch) };
    let table = barn.create_table("growing", options, 1).unwrap();
    let steady: Vec<Vec<u8>> = (0..256).map(|number| format!("steady {number}").into_bytes()).collect();
    let pairs = |value: &'static [u8]| -> Vec<(&[u8], &[u8])> {
        steady.iter().map(|key| (&key[..], value)).collect()
    };
    // Of other lengths, too: an entry that grows may move.
    let values: [&[u8]; 4] = [&[1; 32], &[2; 7], &[3; 24], &[4; 32]];
    table.put_many(&pairs(values[0])).unwrap();
    let done = AtomicBool::new(false);
    let check = |key: &[u8], found: Option<&Found>| {
        let found = found.unwrap_or_else(|| panic!("{} was missed", key.escape_ascii()));
        assert!(values.contains(&&found.value[..]), "torn: {:?}", found.value);
    };
    std::thread::scope(|scope| {
        for way in [Way::OneSided, Way::Auto] {
            let (table, steady, done, check) = (table.read_by(way), &steady, &done, &check);
            scope.spawn(move || {
                let (mut answers, mut found, mut round) = (Answers::new(), Found::default(), 0);
                // ORDER: Relaxed: a flag that stands alone.
                while !done.load(Ordering::Relaxed) {
                    round += 1;
                    let keys: Vec<&[u8]> = (0..40).map(|at| &steady[(round * 7 + at) % 256][..]).collect();
                    table.find_many(&keys, &mut answers).unwrap();
                    keys.iter().zip(answers.iter()).for_each(|(key, found)| check(key, found));
                    let key = &steady[round % 256][..];
                    let there = table.find_into(key, &mut found).unwrap();
                    check(key, there.then_some(&found));
                    assert!(!table.find_into(b"nobody", &mut found).unwrap());
                }
            });
        }
        for round in 0..40 {
            table.put_many(&pairs(values[round % 4])).unwrap();
            let others: Vec<Vec<u8>> =
                (0..500).map(|at| format!("other {round} {at}").into_bytes()).collect();
            let others: Vec<(&[u8], &[u8])> = others.iter().map(|key| (&key[..], &[9u8; 32][..])).collect();
            table.put_many(&others).unwrap();
        }
        // ORDER: Relaxed: as above.
        done.store(true, Ordering::Relaxed);
    });
    let stats = table.stats().unwrap();
    assert!(stats.shards.grown > 0, "it never grew");
}
