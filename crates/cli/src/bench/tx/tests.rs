//! The runner with a subject that only counts, and every peer for its sums.

use std::io;
use std::time::Duration;

use super::peer::{ALL, Peer, PeerError, Store};
use super::runner::{Contender, Measured, in_turn};
use super::subject::{Counters, Subject};
use super::workload::{Case, Contention, Workload};
use super::*;

const EFFORT: Effort = Effort { slice: Duration::from_millis(2), repeats: 3 };

/// Every transaction needs two READs and one message, and every fourth a second attempt.
#[derive(Default)]
struct Fake {
    done: u64,
    fail_at: Option<u64>,
}

impl Subject for Fake {
    fn rmw_2(&mut self, i: u32, j: u32) -> io::Result<()> {
        assert!(i != j && i < 1000 && j < 1000);
        self.done += 1;
        if Some(self.done) == self.fail_at { Err(io::Error::other("planted")) } else { Ok(()) }
    }

    fn read_4(&mut self, at: [u32; 4]) -> io::Result<u64> {
        self.rmw_2(at[0], at[1])?;
        Ok(u64::from(at[2]))
    }

    fn counters(&self) -> Counters {
        Counters { aborts: self.done / 4, messages: self.done, reads: 2 * self.done, version_reads: 0 }
    }
}

fn contender(name: &str, clients: usize) -> Contender {
    let clients = (0..clients).map(|_| Box::new(Fake::default()) as Box<dyn Subject>).collect();
    Contender { name: name.into(), clients }
}

#[test]
fn a_row_has_the_promised_fields() {
    let mut contenders = [contender("ours", 1), contender("first", 1), contender("second", 2)];
    for case in Case::ALL {
        let measured = in_turn(EFFORT, &mut contenders, case, 1000, 1).expect("measures");
        let peers = [("first", &measured[1]), ("second", &measured[2])];
        let row = rows::ours("shm/two-node", case, 16, &measured[0], &peers);
        assert!(row.name == format!("shm/two-node/{}", case.name()) && row.unit == "ops/s");
        assert_eq!((&row.extra["reads_per_op"], &row.extra["messages_per_op"]), (&2.0.into(), &1.0.into()));
        let aborts = row.extra["abort_rate"].as_f64().expect("a number");
        assert!((aborts - 0.2).abs() < 0.01, "{aborts}");
        let p50 = row.extra["p50_ns"].as_u64().expect("a number");
        assert!(row.extra["p99_ns"].as_u64().expect("a number") >= p50);
        assert!(
            row.value > 0.0
                && row.beside_value.expect("a peer")
                    >= row.extra["peers"]["first"].as_f64().expect("a number")
        );
    }
}

#[test]
fn the_best_peer_stands_beside_it() {
    let measured = |rate: f64| Measured { rates: vec![rate; 3], ..Measured::default() };
    let (ours, slow, quick) = (measured(30.0), measured(10.0), measured(20.0));
    let row =
        rows::ours("embedded/single-node", Case::ALL[0], 16, &ours, &[("quick", &quick), ("slow", &slow)]);
    assert_eq!(row.name, "embedded/single-node/rmw-2/low");
    assert_eq!((row.beside.as_deref(), row.ratio), (Some("quick"), Some(1.5)));
}

#[test]
fn a_failure_names_who_failed() {
    let mut contenders = [contender("fine", 1), contender("broken", 1)];
    contenders[1].clients = vec![Box::new(Fake { done: 0, fail_at: Some(40) })];
    let error = in_turn(EFFORT, &mut contenders, Case::ALL[0], 1000, 1).expect_err("fails");
    assert_eq!(error.to_string(), "broken: planted");
}

#[test]
fn the_workload_is_seeded_and_chooses_different_objects() {
    let sequence = |seed| {
        let mut workload = Workload::new(Contention::High, 1000, seed);
        (0..100).map(|_| workload.four()).collect::<Vec<_>>()
    };
    assert_eq!(sequence(7), sequence(7));
    assert_ne!(sequence(7), sequence(8));
    for four in sequence(7) {
        assert!(four.iter().all(|&id| id < 16));
        assert!((0..4).all(|at| !four[..at].contains(&four[at])), "{four:?}");
    }
    let mut low = Workload::new(Contention::Low, 1000, 7);
    let seen: std::collections::HashSet<u32> = (0..5000).map(|_| low.pair().0).collect();
    assert!(seen.len() > 900, "{}", seen.len());
}

/// Two clients at once raise counters; the sum must be twice what they committed.
fn sums_are_right(store: &dyn Store, name: &str, objects: u32) -> Result<(), PeerError> {
    const EACH: u64 = 300;
    let mut clients: Vec<Box<dyn Peer>> = vec![store.client()?, store.client()?];
    std::thread::scope(|scope| {
        let raise = |(seed, client): (usize, &mut Box<dyn Peer>)| {
            assert_eq!(client.name(), name);
            let mut workload = Workload::new(Contention::High, objects, seed as u64);
            (0..EACH).try_for_each(|_| {
                let (i, j) = workload.pair();
                client.rmw_2(i, j)
            })
        };
        let threads: Vec<_> =
            clients.iter_mut().enumerate().map(|each| scope.spawn(move || raise(each))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("ends"))
    })?;
    let mut sum = 0;
    for first in (0..objects).step_by(4) {
        sum += clients[0].read_4([first, first + 1, first + 2, first + 3])?;
    }
    assert_eq!(sum, 2 * 2 * EACH, "{name}");
    if name != "redis-watch" {
        assert_eq!(clients[0].conflicts() + clients[1].conflicts(), 0, "{name}");
    }
    Ok(())
}

#[test]
fn every_peer_adds_up() {
    for (name, open) in ALL {
        match open(256, false) {
            Ok(store) => sums_are_right(store.as_ref(), name, 256).expect("no failure"),
            Err(PeerError::Absent { fix, .. }) => eprintln!("{name} is not there: {fix}"),
            Err(error) => panic!("{error}"),
        }
    }
}
