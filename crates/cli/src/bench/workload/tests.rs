//! The two loops on a clock that is moved by hand; every store for what it was told; no update lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barn::node::NodeConfig;
use barn::{Barn, Kind as TableKind, Table, Way};

use super::choose::Law;
use super::clock::Clock;
use super::drive::{Arrivals, Done, Lane, Pace, Plan};
use super::mix::{Kind, Mix};
use super::shape::{Shape, Span};
use super::site;
use super::store::{BarnStore, LockedBTree, MapStore, MemcachedStore, RedisStore, Store, Tally};
use super::trace::{Inserts, Trace};
use crate::bench::peer::{PeerError, memcached, redis};

const SHAPE: Shape = Shape { key: Span::of(16), value: Span::of(32) };
const RECORDS: u64 = 1000;
const US: u64 = 1000;
const MS: u64 = 1_000_000;

/// A clock that goes on only by waiting, and by what a store says that it took.
#[derive(Clone, Default)]
struct ByHand(Arc<AtomicU64>);

impl ByHand {
    fn pass(&self, nanoseconds: u64) {
        // ORDER: Relaxed: one thread has it.
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Clock for ByHand {
    fn now(&self) -> u64 {
        // ORDER: Relaxed: as above.
        self.0.load(Ordering::Relaxed)
    }

    fn wait_until(&self, nanoseconds: u64) {
        // ORDER: Relaxed: as above.
        self.0.fetch_max(nanoseconds, Ordering::Relaxed);
    }
}

/// A store whose groups take as long as it is told, and one of them longer.
struct Fake {
    clock: ByHand,
    group_ns: u64,
    stalls_at: u64,
    stall_ns: u64,
    groups: u64,
}

impl Store for Fake {
    fn carry_out(&mut self, _group: &[(Kind, u64)], _tally: &mut Tally) -> io::Result<()> {
        self.groups += 1;
        self.clock.pass(if self.groups == self.stalls_at { self.stall_ns } else { self.group_ns });
        Ok(())
    }
}

/// What a window of 100 ms sees of a store that takes `group_ns`, and 50 ms once where `stalls`.
fn window(mix: Mix, depth: usize, pace: Pace, group_ns: u64, stalls: bool, inserts_max: u64) -> Done {
    let clock = ByHand::default();
    let stalls_at = if stalls { 100 } else { 0 };
    let mut store = Fake { clock: clock.clone(), group_ns, stalls_at, stall_ns: 50 * MS, groups: 0 };
    let mut trace = Trace::draw(mix, mix.law(), RECORDS, 4096, 1);
    let mut inserts = Inserts::none(RECORDS, 0, 1);
    let mut lane = Lane { store: &mut store, trace: &mut trace, inserts: &mut inserts };
    let plan = Plan { slice_ns: 100 * MS, depth, pace, inserts_max, seed: 3 };
    lane.run(&plan, &clock).expect("nothing fails")
}

const CLOSED: Pace = Pace::Closed { time_every: 1 };

fn open(rate: f64) -> Pace {
    Pace::Open { rate, arrivals: Arrivals::Fixed }
}

fn rate(done: &Done) -> f64 {
    done.operations as f64 * 1e9 / done.nanoseconds as f64
}

#[test]
fn an_open_loop_counts_everybody_who_waited_for_a_stalled_store() {
    let done = window(Mix::C, 1, open(10_000.0), US, true, u64::MAX);
    assert_eq!((done.operations, done.latencies.len(), done.unserved), (999, 999, 0));
    // 500 turns came during the stall, and as they are served at 1 µs each, the last waited least. A
    // quarter of all waited for 25 ms and more.
    let (p75, p50) = (done.latencies.percentile(75.0), done.latencies.percentile(50.0));
    assert!((20e6..30e6).contains(&p75), "{p75}");
    assert!(p50 < 5e6, "{p50}");
    assert!(done.latencies.max() >= 49e6);
}

#[test]
fn a_closed_loop_sees_a_stall_once() {
    let done = window(Mix::C, 1, CLOSED, US, true, u64::MAX);
    assert!(done.latencies.percentile(99.9) < 2e3 && done.latencies.max() >= 50e6 * 0.999);
    assert_eq!(done.operations, 50_001, "half of the window was the stall");
}

#[test]
fn an_open_loop_at_its_ease_has_the_rate_that_was_asked_for() {
    let done = window(Mix::A, 1, open(20_000.0), US, false, u64::MAX);
    assert!((rate(&done) / 20_000.0 - 1.0).abs() < 0.001, "{}", rate(&done));
    assert_eq!((done.latencies.max(), done.unserved), (1000.0, 0));
}

#[test]
fn an_overloaded_store_is_given_up_and_who_it_did_not_serve_is_counted() {
    let done = window(Mix::C, 1, open(10_000.0), MS, false, u64::MAX);
    assert_eq!(done.operations + done.unserved, 999, "every turn of the window is accounted for");
    assert_eq!(done.latencies.len(), 999);
    assert!((rate(&done) / 1000.0 - 1.0).abs() < 0.02, "{}", rate(&done));
    assert!(done.latencies.percentile(90.0) > 100e6, "most waited until the end");
}

#[test]
fn many_at_once_catch_up_where_one_at_a_time_cannot() {
    let done = window(Mix::C, 16, open(10_000.0), MS, false, u64::MAX);
    assert_eq!((done.operations, done.unserved), (999, 0));
    // A group takes 1 ms, and who comes while one is under way waits for that one, too.
    assert!(done.latencies.max() <= 2.01e6, "{}", done.latencies.max());
}

#[test]
fn poisson_turns_have_the_rate_and_come_in_bunches() {
    let poisson = Pace::Open { rate: 10_000.0, arrivals: Arrivals::Poisson };
    let done = window(Mix::C, 1, poisson, 50 * US, false, u64::MAX);
    // Five standard deviations of 1000 turns are 158.
    assert!((842..1158).contains(&done.operations), "{}", done.operations);
    let fixed = window(Mix::C, 1, open(10_000.0), 50 * US, false, u64::MAX);
    assert!(fixed.latencies.max() < 50_100.0, "evenly spaced, nobody waits at half the load");
    assert!(done.latencies.percentile(90.0) > 75_000.0, "some wait for others");
}

#[test]
fn a_closed_loop_counts_untimed_operations_too() {
    let done = window(Mix::C, 1, Pace::Closed { time_every: 16 }, US, false, u64::MAX);
    assert!((rate(&done) / 1e6 - 1.0).abs() < 0.001, "{}", rate(&done));
    assert!(done.latencies.len() == done.operations / 16 && done.latencies.max() <= 1001.0);
    let groups = window(Mix::C, 16, CLOSED, US, false, u64::MAX);
    assert!((rate(&groups) / 16e6 - 1.0).abs() < 0.001, "{}", rate(&groups));
}

#[test]
fn a_window_ends_when_the_table_may_not_grow_further() {
    for pace in [CLOSED, open(1_000_000.0)] {
        let done = window(Mix::D, 1, pace, US, false, 50);
        assert!((500..2000).contains(&done.operations), "50 inserts in {} operations", done.operations);
        assert!(done.nanoseconds < 10 * MS && done.unserved == 0);
    }
}

/// A store that refuses to read what the same group inserts, or what was never inserted.
struct Strict {
    there: std::collections::HashSet<u64>,
    clock: ByHand,
}

impl Store for Strict {
    fn carry_out(&mut self, group: &[(Kind, u64)], _tally: &mut Tally) -> io::Result<()> {
        self.clock.pass(US);
        let gone = group.iter().find(|(kind, number)| *kind == Kind::Read && !self.there.contains(number));
        self.there.extend(group.iter().filter(|(kind, _)| *kind == Kind::Insert).map(|(_, number)| number));
        gone.map_or(Ok(()), |(_, number)| Err(super::store::missing(*number)))
    }
}

#[test]
fn nothing_is_read_before_its_insert_has_ended() {
    for (pace, depth) in [(CLOSED, 1), (CLOSED, 16), (open(5_000_000.0), 16)] {
        let clock = ByHand::default();
        let mut store = Strict { there: (0..RECORDS).collect(), clock: clock.clone() };
        let mut trace = Trace::draw(Mix::D, Law::Latest, RECORDS, 4096, 1);
        let mut inserts = Inserts::none(RECORDS, 0, 1);
        let mut lane = Lane { store: &mut store, trace: &mut trace, inserts: &mut inserts };
        let plan = Plan { slice_ns: MS, depth, pace, inserts_max: u64::MAX, seed: 0 };
        let done = lane.run(&plan, &clock).expect("all that is read is there");
        assert!(done.operations >= 1000 && store.there.len() as u64 > RECORDS);
    }
}

#[test]
fn a_trace_without_operations_is_an_error_and_no_endless_loop() {
    let clock = ByHand::default();
    let mut store = Fake { clock: clock.clone(), group_ns: 1, stalls_at: 0, stall_ns: 0, groups: 0 };
    let mut trace = Trace::draw(Mix::E, Law::Zipfian, RECORDS, 0, 1);
    let mut inserts = Inserts::none(RECORDS, 0, 1);
    let mut lane = Lane { store: &mut store, trace: &mut trace, inserts: &mut inserts };
    let plan = Plan { slice_ns: MS, depth: 1, pace: CLOSED, inserts_max: 0, seed: 0 };
    assert!(lane.run(&plan, &clock).is_err());
}

fn embedded(kind: TableKind, shape: Shape) -> (Barn, Table) {
    let barn = Barn::embedded_with(NodeConfig::embedded().memory(256 << 20)).expect("starts");
    let table = site::load(&barn, kind, shape, RECORDS).expect("loads");
    (barn, table)
}

/// Reads, changes and reads again, one at a time and many at once; what was inserted is read as well.
fn does_as_told(name: &str, store: &mut dyn Store, modifies: bool) {
    let mut tally = Tally::default();
    let mut all: Vec<(Kind, u64)> = (0..RECORDS).map(|number| (Kind::Read, number)).collect();
    all.extend((0..100).map(|number| (Kind::Update, number * 7)));
    if modifies {
        all.extend((0..100).map(|number| (Kind::ReadModifyWrite, number * 3)));
    }
    for depth in [1, 7, 64] {
        let new = RECORDS + 100 * depth as u64;
        let inserts: Vec<_> = (new..new + 20).map(|number| (Kind::Insert, number)).collect();
        let reads: Vec<_> = (new..new + 20).map(|number| (Kind::Read, number)).collect();
        for group in
            all.chunks(depth).chain(inserts.chunks(depth)).chain(reads.chunks(depth)).chain(all.chunks(depth))
        {
            store.carry_out(group, &mut tally).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    assert_eq!(tally.misses, 0, "{name}");
    let gone = store.carry_out(&[(Kind::Read, 99_999_999)], &mut tally);
    assert!(gone.is_err() || tally.misses == 1, "{name}: a record that was never put is not read");
}

#[test]
fn every_kind_of_table_does_as_told_in_every_way_and_length() {
    for kind in TableKind::ALL {
        for value_bytes in [32, 256] {
            let shape = Shape { key: Span::of(23), value: Span::of(value_bytes) };
            let (_barn, table) = embedded(kind, shape);
            for way in [Way::OneSided, Way::Request, Way::Auto] {
                let mut store = BarnStore::of(table.read_by(way), shape, 1);
                does_as_told(&format!("{kind}, {way}, {value_bytes}"), &mut store, true);
            }
        }
    }
}

#[test]
fn maps_do_as_told() {
    let mut tree = MapStore::<LockedBTree>::of(MapStore::load(SHAPE, RECORDS), SHAPE, 1);
    does_as_told("BTreeMap", &mut tree, false);
    #[cfg(feature = "peers")]
    {
        use super::store::Dashmap;
        let mut map = MapStore::<Dashmap>::of(MapStore::load(SHAPE, RECORDS), SHAPE, 1);
        does_as_told("dashmap", &mut map, false);
    }
}

#[test]
fn redis_and_memcached_do_as_told() {
    let absent = |error: PeerError| match error {
        PeerError::Absent { peer, fix } => eprintln!("{peer} is not there: {fix}"),
        error => panic!("{error}"),
    };
    let load = |store: &mut dyn Store| {
        let inserts: Vec<_> = (0..RECORDS).map(|number| (Kind::Insert, number)).collect();
        inserts.chunks(50).for_each(|group| store.carry_out(group, &mut Tally::default()).expect("loads"));
    };
    match redis::Server::start() {
        Ok(server) => {
            for place in [&server.unix, &server.tcp] {
                let mut store = RedisStore::connect(place, false, SHAPE, 1).expect("connects");
                load(&mut store);
                does_as_told("Redis", &mut store, false);
            }
        }
        Err(error) => absent(error),
    }
    for unix in [true, false] {
        match memcached::Server::start(10_000, unix) {
            Ok(server) => {
                let mut store = MemcachedStore::connect(&server.place, false, SHAPE, 1).expect("connects");
                load(&mut store);
                does_as_told("memcached", &mut store, false);
            }
            Err(error) => absent(error),
        }
    }
}

/// Every record in the order of the keys, from some on, one scan at a time and many at once.
fn scans_as_told(name: &str, shape: Shape, store: &mut dyn Store) {
    let mut tally = Tally::default();
    let wanted = |number: u64| 1 + (number % 100) as u8;
    let scans: Vec<_> = (0..RECORDS).map(|number| (Kind::Scan(wanted(number)), number)).collect();
    let mut keys: Vec<Vec<u8>> = site::batches(shape, RECORDS).flatten().map(|(key, _)| key).collect();
    keys.sort();
    let left = keys.iter().rev().zip(1..).map(|(key, left)| (shape.number(key).expect("is one"), left));
    let short = left.filter(|(number, left)| u64::from(wanted(*number)) > *left).count() as u64;
    assert!(short > 0, "no scan comes to the end");
    for depth in [1, 16] {
        for group in scans.chunks(depth) {
            store.carry_out(group, &mut tally).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    assert_eq!(tally.short, 2 * short, "{name}: only those that come to the last key have too few");
    for group in [&[(Kind::Scan(3), 99_999)][..], &[(Kind::Scan(1), 5), (Kind::Scan(3), 99_999)]] {
        let error = store.carry_out(group, &mut tally).expect_err("begins at a key that is not there");
        assert!(error.to_string().contains("does not begin where it was to"), "{name}: {error}");
    }
}

#[test]
fn trees_and_the_ordered_map_scan_as_told_and_the_others_refuse() {
    let shape = Shape { key: Span { least: 8, most: 64 }, value: Span { least: 8, most: 256 } };
    let (_barn, table) = embedded(TableKind::Tree, shape);
    for way in [Way::OneSided, Way::Request, Way::Auto] {
        scans_as_told(&format!("tree, {way}"), shape, &mut BarnStore::of(table.read_by(way), shape, 1));
    }
    scans_as_told("map", shape, &mut MapStore::of(MapStore::<LockedBTree>::load(shape, RECORDS), shape, 1));
    let (_barn, table) = embedded(TableKind::Hopscotch, shape);
    let mut store = BarnStore::of(table, shape, 1);
    let error = store.carry_out(&[(Kind::Scan(3), 5)], &mut Tally::default()).expect_err("has no order");
    assert!(error.to_string().contains("order"), "{error}");
}

#[test]
fn a_scan_that_skips_or_mixes_up_its_records_is_an_error() {
    use super::store::Scanned;
    let mut records: Vec<(Vec<u8>, Vec<u8>)> = site::batches(SHAPE, 100).flatten().collect();
    records.sort();
    let scan = |records: &[(Vec<u8>, Vec<u8>)], wanted: u8| -> io::Result<u64> {
        let mut tally = Tally::default();
        let mut scanned = Scanned::from(SHAPE, records.first().map_or(&b""[..], |(key, _)| key));
        records.iter().try_for_each(|(key, value)| scanned.take(key, value))?;
        scanned.end(wanted, &mut tally)?;
        Ok(tally.short)
    };
    assert_eq!(scan(&records[3..8], 5).ok(), Some(0));
    assert_eq!(scan(&records[95..], 10).ok(), Some(1), "the last keys");
    assert!(scan(&records[3..8], 4).is_err(), "one too many");
    assert!(scan(&[], 4).is_err(), "nothing, although it begins at a key that is there");
    let mut mixed = records[3..8].to_vec();
    mixed.swap(2, 3);
    assert!(scan(&mixed, 5).is_err(), "in no order");
    let mut twice = records[3..8].to_vec();
    twice[3] = twice[2].clone();
    assert!(scan(&twice, 5).is_err(), "one twice");
    let mut wrong = records[3..8].to_vec();
    wrong[4].1 = wrong[3].1.clone();
    assert!(scan(&wrong, 5).is_err(), "another's value");
}

#[test]
fn a_value_that_is_another_keys_is_an_error_however_it_is_read() {
    let (_barn, table) = embedded(TableKind::Hopscotch, SHAPE);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    SHAPE.key(5, &mut key);
    SHAPE.value(6, 0, &mut value);
    table.put(&key, &value).expect("puts");
    for way in [Way::OneSided, Way::Request] {
        let mut store = BarnStore::of(table.read_by(way), SHAPE, 1);
        for group in
            [&[(Kind::Read, 5)][..], &[(Kind::Read, 4), (Kind::Read, 5)], &[(Kind::ReadModifyWrite, 5)]]
        {
            let error = store.carry_out(group, &mut Tally::default()).expect_err("is not its own");
            assert!(error.to_string().contains("record 5"), "{error}");
        }
    }
}

#[test]
fn clients_that_modify_the_same_records_lose_no_update() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 400;
    let (barn, table) = embedded(TableKind::Hopscotch, SHAPE);
    for depth in [1, 4] {
        let address = barn.address().expect("listens");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let address = &address;
                scope.spawn(move || {
                    let table = Barn::connect(address).and_then(|barn| barn.open_table(site::TABLE));
                    let mut store = BarnStore::of(table.expect("opens"), SHAPE, thread);
                    let group: Vec<_> = (0..depth).map(|at| (Kind::ReadModifyWrite, at as u64 % 2)).collect();
                    for _ in 0..ROUNDS {
                        store.carry_out(&group, &mut Tally::default()).expect("modifies");
                    }
                });
            }
        });
    }
    let mut key = Vec::new();
    let stamps = [0, 1].map(|number| {
        SHAPE.key(number, &mut key);
        let value = table.get(&key).expect("reads").expect("is there");
        u64::from(SHAPE.stamp(number, &value).expect("is its own"))
    });
    // One of a thread's rounds at depth 1, and two for each of two records at depth 4.
    assert_eq!(stamps, [THREADS * ROUNDS * 3, THREADS * ROUNDS * 2]);
}
