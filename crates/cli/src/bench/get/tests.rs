//! The rows of made-up measurements, the choice of keys, and every server for what it was loaded with.

use super::cell::{Cell, Choice, Subject};
use super::crew::Measured;
use super::rows::Results;
use super::worker::{Order, Window};
use super::workload::{Pool, VALUE_BYTES, key, value};
use super::*;
use crate::bench::client::Said;
use crate::bench::peer::{PeerError, memcached, redis};

fn measured(rate: f64, server_seconds: f64) -> Measured {
    Measured { rates: vec![rate; 3], server_seconds: vec![server_seconds; 3] }
}

/// Ours get 60, peers 2 and 1 (memcached), the bare loads 100.
fn made_up(there: impl Fn(Subject) -> bool) -> Vec<(Cell, Measured)> {
    let figure = |cell: Cell| match cell.subject {
        Subject::Bare | Subject::BarePrefetched => measured(100.0, 0.0),
        Subject::Flat => measured(75.0, 0.0),
        Subject::Dashmap => measured(80.0, 0.0),
        Subject::RedisUnix | Subject::RedisTcp => measured(2.0, 4.0),
        Subject::MemcachedUnix | Subject::MemcachedTcp => measured(1.0, 3.0),
        _ => measured(60.0, 1.5),
    };
    Cell::all(Choice::Uniform, there).into_iter().map(|cell| (cell, figure(cell))).collect()
}

#[test]
fn rows_have_the_promised_names_and_stand_beside_the_best() {
    let rows = Results { clients: 1, measured: &made_up(|_| true) }.rows();
    let row = |name: &str| rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name}"));
    let is = |name: &str, beside: &str, ratio: f64, aim: Option<f64>| {
        let row = row(name);
        assert_eq!((row.beside.as_deref(), row.ratio), (Some(beside), Some(ratio)), "{name}");
        assert_eq!(row.extra.get("aim").and_then(serde_json::Value::as_f64), aim, "{name}");
    };
    is("shm/one-sided/uniform/batch-32", "bare prefetched loads", 0.6, Some(0.5));
    is("shm/one-sided/uniform/batch-1", "bare loads", 0.6, None);
    is("shm/one-sided/uniform/batch-1/against-best-peer", "redis-unix", 30.0, Some(30.0));
    is("shm/one-sided/uniform/batch-32/against-best-peer", "redis-unix", 30.0, Some(10.0));
    is("shm/one-sided/uniform/batch-1/against-dashmap", "dashmap", 0.75, Some(0.5));
    is("shm/one-sided/uniform/batch-32/against-dashmap", "dashmap", 0.75, Some(1.0));
    is("shm/one-sided/uniform/batch-32/against-flat", "flat", 0.8, None);
    is("flat/uniform/batch-32", "bare prefetched loads", 0.75, None);
    is("shm/request/uniform/batch-1/against-best-peer", "redis-unix", 30.0, Some(15.0));
    is("shm/request/uniform/batch-32/against-best-peer", "redis-unix", 30.0, Some(8.0));
    for (depth, aim) in [(1, 1.0), (16, 1.5), (64, 3.0)] {
        is(&format!("tcp/auto/uniform/depth-{depth}/against-best-peer"), "redis-tcp", 30.0, Some(aim));
        is(&format!("tcp/auto/uniform/depth-{depth}/server-cpu"), "memcached-tcp", 0.5, None);
    }
    assert_eq!(row("shm/one-sided/uniform/batch-32/against-dashmap").extra["reached"], false);
    assert_eq!(row("peer/redis-unix/uniform/batch-32").value, 2.0);
    assert_eq!(row("peer/dashmap/uniform").value, 80.0);
}

#[test]
fn rows_of_several_clients_say_so_and_have_no_aims() {
    let rows = Results { clients: 2, measured: &made_up(|_| true) }.rows();
    assert!(rows.iter().all(|row| row.name.contains("/clients-2") && !row.extra.contains_key("aim")));
}

#[test]
fn only_what_a_row_needs_is_measured() {
    let cells = Cell::all(Choice::Uniform, |_| true);
    assert_eq!(rows::needed(1, &cells, ""), cells);
    assert!(rows::needed(1, &cells, "clients-2").is_empty());
    let subjects =
        |text| rows::needed(1, &cells, text).into_iter().map(|cell| cell.subject.name()).collect::<Vec<_>>();
    assert_eq!(subjects("batch-32/against-dashmap"), ["shm/one-sided", "dashmap"]);
    let three = ["tcp/auto", "redis-tcp", "memcached-tcp"];
    assert_eq!(subjects("tcp/auto/uniform/depth-16/against"), three);
    assert_eq!(subjects("depth-16/server-cpu"), three);
}

#[test]
fn without_peers_ours_stand_alone() {
    let ours = |subject: Subject| matches!(subject, Subject::ShmOneSided | Subject::TcpAuto);
    let rows = Results { clients: 1, measured: &made_up(ours) }.rows();
    assert!(rows.iter().all(|row| row.beside.is_none()), "{rows:?}");
    assert!(rows.iter().any(|row| row.name == "shm/one-sided/uniform/batch-1/against-best-peer"));
}

#[test]
fn orders_and_answers_come_back_from_their_lines() {
    let cell = Cell { subject: Subject::ShmOneSided, choice: Choice::Zipf, batch: 32 };
    let order = Order { cell, slice: Duration::from_millis(50), round: 3, core: None };
    let line = serde_json::to_string(&order).expect("serializes");
    let back: Order = serde_json::from_str(&line).expect("reads back");
    assert_eq!((back.cell, back.slice, back.round, back.core), (cell, order.slice, 3, None));
    for answer in [Said::Ready, Said::Done(Window { keys: 7, seconds: 0.5 }), Said::Failed("why".into())] {
        let line = serde_json::to_string(&answer).expect("serializes");
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Said<Window>>(&line).expect("reads back"), answer);
    }
}

#[test]
fn keys_differ_and_are_chosen_as_the_law_says() {
    let all: std::collections::HashSet<_> = (0..10_000).map(key).collect();
    assert_eq!(all.len(), 10_000);
    assert!(all.iter().flatten().all(u8::is_ascii_hexdigit));
    let counts = |choice| {
        let pool = Pool::new(choice, 1000, 100_000, 1, 1 << 20);
        assert!(pool.offsets.iter().all(|offset| offset % 64 == 0 && *offset < 1 << 20));
        let mut counts = std::collections::HashMap::<[u8; 16], u32>::new();
        pool.keys.into_iter().for_each(|key| *counts.entry(key).or_default() += 1);
        assert!(counts.keys().all(|chosen| (0..1000).any(|number| key(number) == *chosen)));
        counts.into_values().max().expect("some")
    };
    assert!(counts(Choice::Uniform) < 200);
    // The first rank of a thousand has a chance of 1 in 7.7.
    assert!((11_000..16_000).contains(&counts(Choice::Zipf)), "{}", counts(Choice::Zipf));
}

#[test]
fn memcached_and_redis_give_what_was_set() {
    let (one, other) = (key(1), key(2));
    let absent = |error: PeerError| match error {
        PeerError::Absent { peer, fix } => eprintln!("{peer} is not there: {fix}"),
        error => panic!("{error}"),
    };
    for unix in [true, false] {
        let server = match memcached::Server::start(1000, unix) {
            Ok(server) => server,
            Err(error) => return absent(error),
        };
        let mut wire = memcached::Wire::connect(&server.place, false).expect("connects");
        wire.set(&one, &value(&one));
        wire.flush().expect("sets");
        let mut came = Vec::new();
        wire.get([&other[..], &one[..]].into_iter(), |key, value| came.push((key.to_vec(), value.to_vec())))
            .expect("gets");
        assert_eq!(came, [(one.to_vec(), value(&one).to_vec())]);
    }
    let server = match redis::Server::start() {
        Ok(server) => server,
        Err(error) => return absent(error),
    };
    for place in [&server.unix, &server.tcp] {
        let mut wire = redis::Wire::connect(place, false).expect("connects");
        wire.command(&[b"SET", &one, &value(&one)]);
        wire.command(&[b"GET", &one]);
        let mut length = 0;
        wire.exchange(2, |_, reply| {
            length = reply.bulk().map_or(0, <[u8]>::len);
            Ok(())
        })
        .expect("answers");
        assert_eq!(length, VALUE_BYTES);
    }
}
