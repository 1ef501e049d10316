//! What a node costs that has nothing to do, or whose clients read for themselves.
//!
//! CPU time is counted, not timed: a loaded machine changes when things happen, not how much a
//! node runs.

mod shm_support;

use barn_fabric::*;
use shm_support::process::{Process, peers_of, play};
use shm_support::*;
use std::time::Duration;

/// Not a test: what this program does when it is run in a role.
#[test]
fn role() {
    play();
}

/// What all threads of a process have run so far.
fn cpu_time(node: &Process) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.pid())).expect("it runs").flatten();
    let nanos = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

#[test]
fn an_idle_node_with_a_hundred_clients_sleeps() {
    let path = socket_path("idle");
    let node = Process::node("node", &path);
    let clients: Vec<Connection> = (0..100).map(|_| connect(&path).unwrap()).collect();
    clients.iter().for_each(|client| echo(client, b"here"));
    until("all to be in", || peers_of(&clients[0]) == 100);
    // Let it come to rest.
    std::thread::sleep(Duration::from_millis(300));
    let before = cpu_time(&node);
    assert!(before > Duration::ZERO, "the system counts CPU time");
    std::thread::sleep(Duration::from_secs(3));
    let used = cpu_time(&node) - before;
    println!("an idle node with 100 clients ran {used:?} in 3 s");
    assert!(used < Duration::from_millis(30), "1 % of a core is 30 ms in 3 s; it used {used:?}");
    clients.iter().for_each(|client| echo(client, b"still here"));
}

#[test]
fn ten_million_reads_cost_the_node_nothing() {
    let path = socket_path("reads");
    let node = Process::node("node", &path);
    let client = connect(&path).unwrap();
    let region = client.open(RegionId(1), Rights::READ).wait().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let before = cpu_time(&node);
    let mut into = [0; 64];
    for round in 0..10_000_000u64 {
        region.read(round * 64 % ((1 << 20) - 64), &mut into).wait().unwrap();
    }
    let used = cpu_time(&node) - before;
    println!("while its client read ten million times, the node ran {used:?}");
    assert!(used < Duration::from_millis(10), "the node ran {used:?}");
}
