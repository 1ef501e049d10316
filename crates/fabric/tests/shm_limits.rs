//! What a shm client can make others hold for it, and how long it can be made to wait.

mod common;

use barn_fabric::{ConnectError, ConnectOptions, Connection};
use barn_layout::message::Kind;
use common::raw::{Raw, whole};
use common::{Dir, ECHO, Process, address, client, connect, echo, options, until};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::time::{Duration, Instant};

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

/// Empty requests whose empty answers nobody takes: the node must not collect them for ever.
#[test]
fn answers_that_nobody_takes_are_bounded() {
    let dir = Dir::new();
    let _node = Process::start_node(&dir.socket());
    let honest = client(&dir.socket(), options());
    let mut raw = Raw::join(&dir.socket());
    let (mut sent, mut last) = (0u64, Instant::now());
    // The node takes no more of them after a while; had it counted bytes alone, it would go on.
    while last.elapsed() < Duration::from_millis(500) {
        if raw.push(whole(sent, Kind::Request, ECHO, 0), &[]) {
            (sent, last) = (sent + 1, Instant::now());
        }
        assert!(sent < 200_000, "the node took {sent} requests and holds their answers");
    }
    assert!(sent > 0 && echo(&honest, b"undisturbed"));
}

#[test]
fn connecting_to_a_node_that_takes_nobody_in_ends() {
    let dir = Dir::new();
    let node = Process::start_node(&dir.socket());
    node.stop();
    // Until the listening socket holds as many as it may.
    let mut queued = Vec::new();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    while let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None) {
        match rustix::net::connect(&socket, &SocketAddrUnix::new(dir.socket()).unwrap()) {
            Ok(()) => queued.push(socket),
            Err(_) => break,
        }
    }
    // Descriptors for the attempts, should those of this process have ended first.
    let spare = queued.len().saturating_sub(2);
    queued.truncate(spare.max(1));
    let options = ConnectOptions { deadline: Duration::from_millis(200), ..ConnectOptions::default() };
    for _ in 0..4 {
        let refused = Connection::connect(&address(&dir.socket()), options.clone()).wait();
        assert!(matches!(refused, Err(ConnectError::Deadline)), "{refused:?}");
    }
    drop(queued);
    node.go_on();
    until("the node lets somebody in again", || connect(&dir.socket()).is_some());
}
