//! Processes die at any instant, or stop: everybody else notices, and nothing is left behind.

mod shm_support;

use barn_fabric::seam::{Random, Seeded};
use barn_fabric::*;
use rustix::process::Signal;
use shm_support::process::{Process, peers_of, play};
use shm_support::*;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Not a test: what this program does when it is run in a role.
#[test]
fn role() {
    play();
}

#[test]
fn killed_clients_leave_nothing_behind() {
    let path = socket_path("kill");
    let mut node = Process::node("node", &path);
    let witness = connect(&path).unwrap();
    let region = witness.open(RegionId(1), Rights::READ).wait().unwrap();
    // Once around, so that what is made at the first use is there.
    drop(connect(&path).unwrap());
    until("the first to go", || peers_of(&witness) == 1);
    let before = (node.descriptors(), node.mappings());
    let mut random = Seeded::new(11);
    let mut rounds = 0;
    for _ in 0..15 {
        let mut clients: Vec<Process> = (0..3).map(|_| Process::start("client", &path)).collect();
        if random.chance(700_000) {
            until("one to get in", || peers_of(&witness) > 1);
        }
        for client in &mut clients {
            std::thread::sleep(Duration::from_micros(random.below(15_000)));
            client.kill();
            rounds += 1;
            echo(&witness, &vec![1; 5_000]);
            region.read(0, &mut [0; 64]).wait().expect("undisturbed");
        }
    }
    until("the killed to be freed", || peers_of(&witness) == 1);
    until("their memory and descriptors to be freed", || (node.descriptors(), node.mappings()) == before);
    assert!(!node.has_ended());
    println!("{rounds} clients killed; descriptors and mappings as before: {before:?}");
}

#[test]
fn a_killed_node_is_noticed_by_everyone_who_waits() {
    let path = socket_path("node-dies");
    for round in 0..5 {
        let mut node = Process::node("node", &path);
        let client = connect(&path).unwrap();
        let other = connect(&path).unwrap();
        let region = client.open(RegionId(2), Rights::ALL).wait().unwrap();
        let waiting: Vec<_> = (0..4)
            .map(|what| {
                let (client, region) = (client.clone(), region.clone());
                std::thread::spawn(move || match what {
                    0 => client.call(2, b"never answered", &mut Vec::new()).wait().unwrap_err(),
                    1 => client.receive(&mut Vec::new()).wait().unwrap_err(),
                    2 => loop {
                        // Reads on, as if nothing had happened, until it is told.
                        if let Err(error) = region.read(0, &mut [0; 64]).wait() {
                            assert_eq!(error, OperationError::PeerGone);
                            break CallError::PeerGone;
                        }
                    },
                    _ => loop {
                        if let Err(error) = client.call(1, &[5; 100_000], &mut Vec::new()).wait() {
                            break error;
                        }
                    },
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(5 * round));
        node.kill();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), CallError::PeerGone);
        }
        // One that did nothing at the time hears of it, too.
        until("the other to notice", || !other.is_open());
        assert_eq!(other.call(1, b"?", &mut Vec::new()).wait(), Err(CallError::PeerGone));
        assert_eq!(region.fetch_add(0, 1).wait(), Err(OperationError::PeerGone));
        assert!(matches!(client.open(RegionId(1), Rights::READ).wait(), Err(OpenError::PeerGone)));
    }
}

#[test]
fn a_stopped_node_costs_a_deadline_and_no_more() {
    let path = socket_path("stopped");
    let node = Process::node("node", &path);
    let client = connect(&path).unwrap();
    let hasty = client.with_deadline(Duration::from_millis(100));
    let region = hasty.open(RegionId(1), Rights::READ).wait().unwrap();
    for _ in 0..2 {
        node.stop();
        assert_eq!(hasty.call(1, b"?", &mut Vec::new()).wait(), Err(CallError::Deadline));
        let long = vec![1; 3 << 20];
        assert_eq!(hasty.call(1, &long, &mut Vec::new()).wait(), Err(CallError::Deadline));
        assert_eq!(hasty.send(&long).wait(), Err(CallError::Deadline));
        assert_eq!(hasty.receive(&mut Vec::new()).wait(), Err(CallError::Deadline));
        // More than the socket takes: those that cannot even be asked for end, too.
        let brief = client.with_deadline(Duration::from_millis(1));
        for _ in 0..600 {
            let open = brief.open(RegionId(1), Rights::READ).wait();
            assert!(matches!(open, Err(OpenError::Deadline)), "{open:?}");
        }
        region.read(0, &mut [0; 64]).wait().expect("a READ asks nobody");
        let options = ConnectOptions { deadline: Duration::from_millis(100), ..ConnectOptions::default() };
        let address = format!("shm:{}", path.display());
        let refused = Connection::connect(&address, options.clone()).wait().unwrap_err();
        assert!(matches!(refused, ConnectError::Deadline), "{refused:?}");
        node.signal(Signal::CONT);
        echo(&client, b"as if nothing had happened");
        let again = client.open(RegionId(1), Rights::READ).wait().expect("regions open again");
        again.read(0, &mut [0; 8]).wait().unwrap();
    }
}

#[test]
fn connecting_to_a_node_that_takes_nobody_in_ends() {
    let path = socket_path("backlog");
    let node = Process::node("node", &path);
    node.stop();
    // Until the listening socket holds as many as it may.
    let mut queued = Vec::new();
    while queued.len() < 20_000 {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK,
            None,
        );
        // This process's own descriptors may end first; then there is nothing to be shown.
        let Ok(socket) = socket else { break };
        match rustix::net::connect(&socket, &rustix::net::SocketAddrUnix::new(&path).unwrap()) {
            Ok(()) => queued.push(socket),
            Err(_) => break,
        }
    }
    queued.pop();
    queued.pop();
    let options = ConnectOptions { deadline: Duration::from_millis(200), ..ConnectOptions::default() };
    for _ in 0..4 {
        let refused = Connection::connect(&format!("shm:{}", path.display()), options.clone()).wait();
        assert!(matches!(refused, Err(ConnectError::Deadline)), "{refused:?}");
    }
    drop(queued);
    node.signal(Signal::CONT);
    until("the node to let somebody in again", || connect(&path).is_ok());
}

#[test]
fn a_dead_nodes_socket_is_taken_over_and_a_living_ones_is_not() {
    let path = socket_path("stale");
    let mut node = Process::node("node", &path);
    let bind = |path: &std::path::Path| {
        let options = NodeOptions { shm: Some(path.to_path_buf()), ..NodeOptions::default() };
        Node::bind(options, Registry::default())
    };
    let refused = bind(&path).unwrap_err();
    assert!(matches!(refused, NodeError::InUse { .. }), "{refused:?}");
    echo(&connect(&path).unwrap(), b"the first still serves");
    node.kill();
    assert!(path.exists(), "a killed node leaves its socket");
    assert!(matches!(connect(&path), Err(ConnectError::NoNode { .. })));
    let next = Process::node("node", &path);
    echo(&connect(&path).unwrap(), b"the second serves");
    drop(next);
    let taken = bind(&path).expect("taken over in this process, too");
    drop(taken);
    assert!(!path.exists(), "a node that ends takes its socket along");
    // Somebody's file is no socket of ours.
    std::fs::write(&path, b"precious").unwrap();
    let refused = bind(&path).unwrap_err();
    assert!(matches!(refused, NodeError::Listen { .. }), "{refused:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_node_without_descriptors_says_so_and_recovers() {
    let path = socket_path("few");
    let node = Process::node("node-with-few-descriptors", &path);
    let witness = connect(&path).unwrap();
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        match connect(&path) {
            Ok(client) => held.push(client),
            Err(ConnectError::Refused { refusal, .. }) => {
                assert_eq!(refusal, barn_layout::handshake::Refusal::NoMemory);
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
        echo(&witness, b"undisturbed");
    }
    assert!(held.len() > 5 && refused > 20, "{} let in, {refused} refused", held.len());
    // Silent newcomers, too, until it has none left for them.
    let silent: Vec<_> = (0..100).filter_map(|_| raw_socket(&path).ok()).collect();
    for socket in &silent {
        let _ = send_packet(socket, &hello(4096, 0).as_bytes()[..4], &[]);
    }
    echo(&witness, b"undisturbed");
    drop((held, silent));
    until("the node to let somebody in again", || connect(&path).is_ok());
    drop(node);
}
