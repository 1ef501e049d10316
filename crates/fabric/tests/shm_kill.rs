//! Processes that die or stand still, at any instant: whoever is left notices, frees what they
//! had, and is not disturbed.

mod common;

use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{
    CallError, ConnectError, ConnectOptions, Connection, Node, NodeError, NodeOptions, OpenError,
    OperationError, Registry, Rights,
};
use common::{
    Dir, ECHO, Ending, HOLD, Process, READABLE, REGION_BYTES, WRITABLE, address, client, counts, echo,
    in_slots, options, told_socket, until,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds of killing; each kills [`VICTIMS`] processes of four threads each.
const ROUNDS: u64 = 40;
const VICTIMS: usize = 2;
/// What a dead node's clients may take to notice.
const NOTICED: Duration = Duration::from_secs(5);

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

/// Uses everything at once, until killed or until there is no node.
#[test]
#[ignore = "a process of the other tests"]
fn role_hammer() {
    let Some(socket) = told_socket() else { return };
    let socket = &socket;
    std::thread::scope(|scope| {
        for options in [options(), in_slots()] {
            scope.spawn(move || {
                let Some(client) = try_connect(socket, options) else { return };
                // The node counts these.
                while client.send(b"alive").wait() != Err(CallError::PeerGone) && call(&client, 40) {}
            });
        }
        scope.spawn(move || {
            let Some(client) = try_connect(socket, options()) else { return };
            while call(&client, 1 << 20) {}
        });
        scope.spawn(move || {
            // Comes and goes: dies in the handshake, too.
            while let Some(client) = try_connect(socket, in_slots()) {
                let mut held = Vec::new();
                for id in [READABLE, WRITABLE, READABLE] {
                    let Ok(region) = client.open(id, Rights::READ).wait() else { return };
                    held.push(region);
                }
            }
        });
    });
}

fn try_connect(socket: &Path, options: ConnectOptions) -> Option<Connection> {
    Connection::connect(&address(socket), options).wait().ok()
}

/// Calls once; false when the node is gone. A deadline that passed while this process stood still
/// is no end.
fn call(client: &Connection, bytes: usize) -> bool {
    let mut reply = Vec::new();
    match client.call(ECHO, &vec![7; bytes], &mut reply).wait() {
        Ok(()) => reply.len() == bytes,
        Err(error) => error == CallError::Deadline,
    }
}

/// A client that calls all the time and must never be disturbed.
struct Survivor {
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Survivor {
    fn start(client: Connection) -> Self {
        let (calls, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, told) = (calls.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut random = Seeded::new(1);
            while !told.load(Ordering::Relaxed) {
                let body = vec![random.next() as u8; random.below(2000) as usize];
                let mut reply = Vec::new();
                client.call(ECHO, &body, &mut reply).wait().expect("a survivor's call succeeds");
                assert_eq!(reply, body);
                counted.fetch_add(1, Ordering::Relaxed);
                // Both ways of waiting, and a core for the others now and then.
                if random.chance(20_000) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });
        Self { calls, stop, thread: Some(thread) }
    }

    /// Waits until it has got so many more answers.
    fn goes_on(&self, calls: u64) {
        let goal = self.calls.load(Ordering::Relaxed) + calls;
        until("the survivor is served", || self.calls.load(Ordering::Relaxed) >= goal);
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("not yet ended").join().expect("the survivor was never disturbed");
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[test]
fn clients_killed_at_any_instant_leave_nothing_behind() {
    let dir = Dir::new();
    let node = Process::start_node(&dir.socket());
    let watcher = client(&dir.socket(), options());
    let survivors = [options(), in_slots()].map(|options| Survivor::start(client(&dir.socket(), options)));
    let mut random = Seeded::new(0xdead);
    until("only the survivors are connected", || counts(&watcher).peers == 3);
    let descriptors = node.descriptors();

    for round in 0..ROUNDS {
        let before = counts(&watcher);
        let mut victims: Vec<Process> =
            (0..VICTIMS).map(|_| Process::start("role_hammer", &dir.socket())).collect();
        if round % 4 != 0 {
            // All of them are at work; else they may die before they begin.
            let all = before.accepted + 4 * VICTIMS as u64;
            until("the victims are connected", || counts(&watcher).accepted >= all);
        }
        for victim in &mut victims {
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
            victim.kill();
        }
        until("their connections are freed", || counts(&watcher).peers == before.peers);
        until("their descriptors are freed", || node.descriptors() == descriptors);
        survivors.iter().for_each(|survivor| survivor.goes_on(10));
    }
    assert_eq!(counts(&watcher).expelled, 0, "a death was taken for an attack");
    survivors.into_iter().for_each(Survivor::end);
}

#[test]
fn clients_of_a_killed_node_are_told() {
    for options in [options, in_slots] {
        let dir = Dir::new();
        let mut node = Process::start_node(&dir.socket());
        let socket = dir.socket();
        let region = client(&socket, options()).open(READABLE, Rights::READ).wait().expect("it opens");
        let connection = client(&socket, options());

        let caller = connection.clone();
        let calling = Ending::start(move || {
            let mut reply = Vec::new();
            loop {
                if let Err(error) = caller.call(ECHO, b"again", &mut reply).wait() {
                    return error;
                }
            }
        });
        // One whose answer never comes, and one that waits for a message: both asleep.
        let waiter = connection.clone();
        let waiting = Ending::start(move || waiter.call(HOLD, b"for ever", &mut Vec::new()).wait());
        let receiver = connection.clone();
        let receiving = Ending::start(move || receiver.receive(&mut Vec::new()).wait());
        let long = client(&socket, options());
        let sending = Ending::start(move || {
            let message = vec![1; 1 << 20];
            loop {
                if let Err(error) = long.send(&message).wait() {
                    return error;
                }
            }
        });
        let reader = region.clone();
        let reading = Ending::start(move || {
            let mut bytes = [0; 64];
            for offset in (0..REGION_BYTES - 64).cycle() {
                if let Err(error) = reader.read(offset, &mut bytes).wait() {
                    return error;
                }
            }
            unreachable!("a cycle has no end")
        });
        std::thread::sleep(Duration::from_millis(100));
        node.kill();

        assert_eq!(calling.within(NOTICED), CallError::PeerGone);
        assert_eq!(waiting.within(NOTICED), Err(CallError::PeerGone));
        assert_eq!(receiving.within(NOTICED), Err(CallError::PeerGone));
        assert_eq!(sending.within(NOTICED), CallError::PeerGone);
        assert_eq!(reading.within(NOTICED), OperationError::PeerGone);
        let opened = connection.open(READABLE, Rights::READ).wait();
        assert!(matches!(opened, Err(OpenError::PeerGone)), "{opened:?}");
        assert!(!connection.is_open());
        let again = Connection::connect(&address(&socket), options()).wait();
        assert!(matches!(again, Err(ConnectError::NoNode { .. })), "{again:?}");
    }
}

#[test]
fn calls_to_a_node_that_stands_still_end_by_their_deadline() {
    let limit = Duration::from_millis(300);
    // What ends by its deadline ends long before this, on a loaded machine too.
    let bound = Duration::from_secs(10);
    for options in [options, in_slots] {
        let dir = Dir::new();
        let node = Process::start_node(&dir.socket());
        let connection = client(&dir.socket(), options());
        let region = connection.open(READABLE, Rights::READ).wait().expect("it opens");
        assert!(echo(&connection, b"before"));
        let peers = counts(&connection).peers;
        node.stop();

        let hurried = connection.with_deadline(limit);
        let since = Instant::now();
        let called = hurried.call(ECHO, b"anybody?", &mut Vec::new()).wait();
        assert_eq!(called, Err(CallError::Deadline));
        let long = vec![3; 1 << 20];
        assert_eq!(hurried.call(ECHO, &long, &mut Vec::new()).wait(), Err(CallError::Deadline));
        assert_eq!(hurried.receive(&mut Vec::new()).wait(), Err(CallError::Deadline));
        let opened = hurried.open(WRITABLE, Rights::READ).wait();
        assert!(matches!(opened, Err(OpenError::Deadline)), "{opened:?}");
        let newcomer =
            Connection::connect(&address(&dir.socket()), ConnectOptions { deadline: limit, ..options() });
        let newcomer = newcomer.wait();
        assert!(matches!(newcomer, Err(ConnectError::Deadline)), "{newcomer:?}");
        assert!(since.elapsed() < bound, "five deadlines of {limit:?} took {:?}", since.elapsed());
        // Nobody is asked for a READ.
        region.read(0, &mut [0; 64]).wait().expect("a READ needs no node");

        node.go_on();
        assert!(echo(&connection, b"after"), "a later call works");
        assert!(echo(&connection, &long), "a later long call works");
        connection.open(WRITABLE, Rights::READ).wait().expect("a later open works");
        until("the newcomer that gave up is freed", || counts(&connection).peers == peers);
    }
}

#[test]
fn a_client_that_stands_still_disturbs_nobody_and_goes_on() {
    let dir = Dir::new();
    let _node = Process::start_node(&dir.socket());
    let watcher = client(&dir.socket(), options());
    let survivor = Survivor::start(client(&dir.socket(), options()));
    let sleeper = Process::start("role_hammer", &dir.socket());
    let heard = || counts(&watcher).messages;
    let mut random = Seeded::new(5);
    for _ in 0..10 {
        let before = heard();
        until("the client is at work", || heard() > before + 20);
        std::thread::sleep(Duration::from_micros(random.below(5_000)));
        sleeper.stop();
        // What it has sent is taken; then there is silence, and the others do not mind.
        survivor.goes_on(200);
        let still = heard();
        survivor.goes_on(200);
        assert_eq!(heard(), still, "a process that stands still has sent something");
        sleeper.go_on();
    }
    let before = heard();
    until("the client goes on", || heard() > before + 20);
    assert_eq!(counts(&watcher).expelled, 0, "standing still was taken for an attack");
    survivor.end();
}

#[test]
fn a_dead_nodes_socket_is_taken_over_and_a_live_ones_is_not() {
    let dir = Dir::new();
    let socket = dir.socket();
    let bind = || {
        let options = NodeOptions { shm: Some(socket.clone()), ..NodeOptions::default() };
        Node::bind(options, Registry::default())
    };
    let mut first = Process::start_node(&socket);
    assert!(matches!(bind(), Err(NodeError::InUse { .. })), "a live node's socket was taken");
    first.stop();
    assert!(matches!(bind(), Err(NodeError::InUse { .. })), "a stopped node's socket was taken");
    first.go_on();
    assert!(echo(&client(&socket, options()), b"still there"), "the refused node harmed the live one");
    first.kill();
    assert!(socket.exists(), "a killed node leaves its socket");

    let second = Process::start_node(&socket);
    assert!(echo(&client(&socket, options()), b"taken over"));
    assert!(matches!(bind(), Err(NodeError::InUse { .. })), "the second node's socket was taken");
    drop(second);
    let third = bind().expect("the second node's socket is stale, too");
    drop(third);
    assert!(!socket.exists(), "a node that ends takes its socket with it");
    let nobody = Connection::connect(&address(&socket), options()).wait();
    assert!(matches!(nobody, Err(ConnectError::NoNode { .. })), "{nobody:?}");
}

/// One of those that start at once on one path gets it; the others are told, and harm it not.
#[test]
fn of_nodes_that_start_at_once_one_gets_the_socket() {
    const NODES: usize = 4;
    for round in 0..100 {
        let dir = Dir::new();
        let socket = dir.socket();
        if round % 2 == 0 {
            // What a killed node leaves.
            let kind = rustix::net::SocketType::SEQPACKET;
            let stale = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).expect("a socket");
            let at = rustix::net::SocketAddrUnix::new(&socket).expect("an address");
            rustix::net::bind(&stale, &at).expect("it binds");
        }
        let start = std::sync::Barrier::new(NODES);
        let bind = || {
            start.wait();
            let options = NodeOptions { shm: Some(socket.clone()), ..NodeOptions::default() };
            Node::bind(options, Registry::default())
        };
        let nodes: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..NODES).map(|_| scope.spawn(bind)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let live = nodes.iter().filter(|node| node.is_ok()).count();
        let told = nodes.iter().filter(|node| matches!(node, Err(NodeError::InUse { .. }))).count();
        assert_eq!((live, told), (1, NODES - 1), "round {round}: {nodes:?}");
    }
}
