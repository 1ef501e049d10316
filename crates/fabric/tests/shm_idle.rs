//! A node that has nothing to do uses no CPU, and READs over shm give it nothing to do.

mod common;

use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{ConnectOptions, Pipeline, Rights};
use common::{Dir, LATER, Process, READABLE, REGION_BYTES, client, counts, echo, in_slots, options, until};
use std::time::Duration;

const IDLE_CLIENTS: usize = 100;
const READS: u64 = 10_000_000;
const READ_BYTES: usize = 64;
/// A tick may fall due at any instant for what was used long before: tries before it counts.
const TRIES: usize = 3;

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

/// The ticks that the node uses while `work` is done: the least of [`TRIES`], or `enough`.
fn ticks_during(node: &Process, enough: u64, mut work: impl FnMut()) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        let before = node.cpu_ticks();
        work();
        least = least.min(node.cpu_ticks() - before);
        if least <= enough {
            break;
        }
    }
    least
}

#[test]
fn a_node_with_a_hundred_idle_clients_sleeps() {
    let dir = Dir::new();
    let node = Process::start_node(&dir.socket());
    let clients: Vec<_> = (0..IDLE_CLIENTS)
        .map(|number| client(&dir.socket(), if number % 2 == 0 { options() } else { in_slots() }))
        .collect();
    assert!(clients.iter().all(|client| echo(client, b"hello")));
    until("all are connected", || counts(&clients[0]).peers == IDLE_CLIENTS as u64);
    // Under 30 ms in 3 s is under 1 % of a core.
    let ticks = ticks_during(&node, 2, || std::thread::sleep(Duration::from_secs(3)));
    assert!(ticks < 3, "an idle node used {} ms in 3 s", ticks * 10);
    assert!(clients.iter().all(|client| echo(client, b"still there")), "the sleeping node wakes");
}

#[test]
fn ten_million_reads_cost_the_node_nothing() {
    let dir = Dir::new();
    let node = Process::start_node(&dir.socket());
    // Request and reply rings play no part: the smallest will do.
    let client = client(&dir.socket(), ConnectOptions { ring_bytes: 4096, ..options() });
    let region = client.open(READABLE, Rights::READ).wait().expect("it opens");
    let mut random = Seeded::new(7);
    let mut bytes = [0; READ_BYTES];
    let places = REGION_BYTES / READ_BYTES as u64;
    // Opening is over when the node sleeps again.
    std::thread::sleep(Duration::from_millis(50));
    let ticks = ticks_during(&node, 0, || {
        for _ in 0..READS {
            let offset = random.below(places) * READ_BYTES as u64;
            region.read(offset, &mut bytes).wait().expect("a READ of a live region succeeds");
        }
    });
    assert_eq!(ticks, 0, "{READS} READs cost the node {} ms", ticks * 10);
    assert!(echo(&client, b"still there"));
}

/// Operations of many READs, on a thread that gets to poll them so seldom that it thinks of sleeping: a READ that
/// is being fetched has nobody who would wake it.
#[test]
fn a_pipeline_of_many_reads_each_never_sleeps_on_them() {
    let dir = Dir::new();
    let _node = Process::start_node(&dir.socket());
    let client = client(&dir.socket(), options());
    let region = client.open(READABLE, Rights::READ).wait().expect("it opens");
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for confirmed in [false, true] {
            let region = &region;
            let operations = (0..2u64).map(|_| async move {
                for at in 0..100 {
                    let mut bytes = [0; READ_BYTES];
                    std::thread::sleep(Duration::from_micros(50));
                    match confirmed {
                        true => drop(region.read_confirmed(at * 64, &mut bytes).await.expect("is read")),
                        false => region.read(at * 64, &mut bytes).await.expect("is read"),
                    }
                }
            });
            Pipeline::new(2).run(operations, |()| {});
            let _ = ended.send(confirmed);
        }
    });
    for confirmed in [false, true] {
        let ended = end.recv_timeout(Duration::from_secs(30));
        assert_eq!(ended, Ok(confirmed), "a READ under way was slept on");
    }
}

/// A client that has slept once is awake afterwards, and costs the node no system call for each answer.
#[test]
fn a_client_that_slept_is_not_rung_for_good() {
    const CALLS: u64 = 100;
    let dir = Dir::new();
    let _node = Process::start_node(&dir.socket());
    for options in [options(), in_slots()] {
        let client = client(&dir.socket(), options);
        client.call(LATER, &[], &mut Vec::new()).wait().expect("the node answers");
        assert!(counts(&client).rings > 0, "it slept, and was rung");
        // On a busy machine it may have to sleep again now and then, but not for most answers, round after round.
        until("most calls need no bell", || {
            let before = counts(&client).rings;
            assert!((0..CALLS).all(|_| echo(&client, b"awake")));
            counts(&client).rings - before < CALLS / 2
        });
    }
}
