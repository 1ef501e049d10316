//! What a crash, a partition, a pause and a deadline mean, each by itself.

use barn_fabric::region::Ordering;
use barn_fabric::seam::{Clock, Disk, Schedule};
use barn_fabric::simulated::{Handle, NodeId, RunEnd, World, WorldOptions};
use barn_fabric::{
    CallError, ConnectError, Connection, OpenError, OperationError, PeerId, RegionId, Reply, Request, Rights,
    Service,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const MEMORY: RegionId = RegionId(1);
const MILLI: Duration = Duration::from_millis(1);

type Log = Rc<RefCell<Vec<String>>>;

/// Echoes, and notes who comes and goes.
struct Echo(Log);

impl Service for Echo {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        match request.method {
            1 => reply.done(request.body),
            2 => reply.refuse("no"),
            3 => reply.busy(),
            4 => drop(reply),
            _ => reply.unknown_method(),
        }
    }
    fn message(&mut self, _: PeerId, body: &[u8]) {
        self.0.borrow_mut().push(String::from_utf8_lossy(body).into_owned());
    }
    fn joined(&mut self, peer: PeerId) {
        self.0.borrow_mut().push(format!("{peer} joined"));
    }
    fn gone(&mut self, peer: PeerId) {
        self.0.borrow_mut().push(format!("{peer} gone"));
    }
}

/// A world with a node that can be restarted and a client.
fn world(seed: u64) -> (World, NodeId, NodeId, Log) {
    let world = World::new(seed, WorldOptions::default());
    let log = Log::default();
    let noted = log.clone();
    let node = world.start_restartable("node", move |boot| {
        let region = boot.world.region(4096, Rights::ALL);
        // ORDER: Relaxed: a world has one thread.
        region.words().store_word(0, u64::from(boot.incarnation), Ordering::Relaxed).unwrap();
        boot.registry.register(MEMORY, region, Rights::ALL).unwrap();
        Box::new(Echo(noted.clone()))
    });
    let client = world.start_client("client");
    (world, node, client, log)
}

/// Tells a story on the client, under several seeds.
fn story<F: Future<Output = ()> + 'static>(tell: impl Fn(Handle, NodeId, NodeId, Log) -> F) {
    for seed in 0..40 {
        let (world, node, client, log) = world(seed);
        world.spawn(client, tell(world.handle(), client, node, log));
        assert_eq!(world.run(Duration::from_secs(10)), RunEnd::Done, "seed {seed}");
    }
}

async fn first_word(connection: &Connection) -> u64 {
    let region = connection.open(MEMORY, Rights::READ).await.unwrap();
    let mut word = [0; 8];
    region.read(0, &mut word).await.unwrap();
    u64::from_le_bytes(word)
}

#[test]
fn a_crash_loses_memory_and_peers_find_out() {
    story(|world, client, node, _| async move {
        let connection = world.connect(client, node).await.unwrap();
        let region = connection.open(MEMORY, Rights::ALL).await.unwrap();
        assert_eq!(region.fetch_add(0, 100).await, Ok(1));
        world.crash(node);
        let error = region.fetch_add(0, 1).await.unwrap_err();
        assert!(matches!(error, OperationError::PeerGone), "{error}");
        assert!(!connection.is_open());
        assert_eq!(connection.call(1, b"x", &mut Vec::new()).await, Err(CallError::PeerGone));
        let refused = world.connect(client, node).await.unwrap_err();
        assert!(matches!(refused, ConnectError::NoNode { .. }), "{refused}");
        world.restart(node);
        world.sleep(MILLI).await;
        let again = world.connect(client, node).await.unwrap();
        assert_eq!(first_word(&again).await, 2, "the memory is that of another life");
        assert_eq!(region.read(0, &mut [0; 8]).await, Err(OperationError::PeerGone));
    });
}

#[test]
fn a_node_notices_that_a_client_left_or_died() {
    for seed in 0..40 {
        let (world, node, client, log) = world(seed);
        let other = world.start_client("other");
        for me in [client, other] {
            let handle = world.handle();
            world.spawn_background(me, async move {
                let connection = handle.connect(me, node).await.unwrap();
                if me == client {
                    handle.sleep(MILLI).await;
                    drop(connection);
                } else {
                    std::future::pending::<()>().await;
                }
            });
        }
        world.pass(5 * MILLI);
        world.kill(other);
        world.pass(50 * MILLI);
        let mut noted = log.borrow().clone();
        noted.sort_unstable();
        assert_eq!(noted, ["peer 1 gone", "peer 1 joined", "peer 2 gone", "peer 2 joined"], "seed {seed}");
    }
}

#[test]
fn a_partition_stalls_and_what_was_sent_arrives_when_it_heals() {
    story(|world, client, node, log| async move {
        let connection = world.connect_within(client, node, 100 * MILLI).await.unwrap();
        world.partition(client, node);
        world.sleep(Duration::from_nanos(1)).await;
        for number in 0..5 {
            connection.send(format!("{number}").as_bytes()).await.unwrap();
        }
        // Healed before anybody can have noticed.
        world.sleep(Duration::from_micros(40)).await;
        assert_eq!(log.borrow().len(), 1, "something got through: {:?}", log.borrow());
        world.heal(client, node);
        let mut reply = Vec::new();
        connection.call(1, b"there?", &mut reply).await.unwrap();
        assert_eq!(reply, b"there?");
        assert_eq!(log.borrow()[1..], ["0", "1", "2", "3", "4"], "lost or out of order");
    });
}

#[test]
fn a_partition_that_lasts_ends_calls_by_deadline_or_break() {
    let outcomes: Rc<RefCell<Vec<CallError>>> = Rc::default();
    let seen = outcomes.clone();
    story(move |world, client, node, _| {
        let seen = seen.clone();
        async move {
            let connection = world.connect_within(client, node, 5 * MILLI).await.unwrap();
            world.partition_one_way(node, client);
            let start = world.now();
            let error = connection.call(1, b"x", &mut Vec::new()).await.unwrap_err();
            assert!(error.outcome_is_unknown(), "{error}");
            assert!(world.now() - start <= 6 * MILLI, "it took {:?}", world.now() - start);
            seen.borrow_mut().push(error);
            assert!(matches!(world.connect_within(client, node, MILLI).await, Err(ConnectError::Deadline)));
        }
    });
    assert!(outcomes.borrow().contains(&CallError::Deadline));
    assert!(outcomes.borrow().contains(&CallError::PeerGone));
}

#[test]
fn a_paused_process_answers_later_while_its_memory_may_be_read() {
    story(|world, client, node, _| async move {
        let connection = world.connect_within(client, node, 200 * MILLI).await.unwrap();
        let region = connection.open(MEMORY, Rights::READ).await.unwrap();
        for reachable in [true, false] {
            world.pause(node, reachable);
            let start = world.now();
            region.read(0, &mut [0; 8]).await.map(|()| assert!(reachable)).unwrap_or_else(|error| {
                assert_eq!((error, reachable), (OperationError::Deadline, false));
            });
            if reachable {
                assert!(world.now() - start < 20 * MILLI, "a READ waited for a paused process");
                let impatient = connection.with_deadline(3 * MILLI);
                assert_eq!(impatient.call(1, b"", &mut Vec::new()).await, Err(CallError::Deadline));
            }
            world.resume(node);
            let mut reply = Vec::new();
            connection.call(1, b"awake", &mut reply).await.unwrap();
            assert_eq!(reply, b"awake");
        }
        assert!(world.paused(node).0 >= 3 * MILLI);
    });
}

#[test]
fn a_paused_client_runs_nothing() {
    let (world, _, client, _) = world(3);
    let handle = world.handle();
    let ticks = Rc::new(RefCell::new(0));
    let count = ticks.clone();
    world.spawn_background(client, async move {
        loop {
            handle.sleep(MILLI).await;
            *count.borrow_mut() += 1;
        }
    });
    world.pass(10 * MILLI);
    world.pause(client, true);
    world.pass(MILLI);
    let before = *ticks.borrow();
    world.pass(100 * MILLI);
    assert_eq!(*ticks.borrow(), before);
    world.resume(client);
    world.pass(10 * MILLI);
    assert!(*ticks.borrow() > before + 5);
}

#[test]
fn every_answer_and_every_refusal_has_its_error() {
    story(|world, client, node, _| async move {
        let connection = world.connect(client, node).await.unwrap();
        assert_eq!((connection.transport(), connection.peer()), ("simulated", PeerId(1)));
        let mut reply = Vec::new();
        assert_eq!(connection.call(2, b"", &mut reply).await, Err(CallError::Refused("no".into())));
        assert_eq!(connection.call(3, b"", &mut reply).await, Err(CallError::Busy));
        assert!(matches!(connection.call(4, b"", &mut reply).await, Err(CallError::Refused(_))));
        assert_eq!(connection.call(9, b"", &mut reply).await, Err(CallError::UnknownMethod { method: 9 }));
        let missing = connection.open(RegionId(9), Rights::READ).await.unwrap_err();
        assert!(matches!(missing, OpenError::NoSuchRegion(RegionId(9))));
        let region = connection.open(MEMORY, Rights::READ).await.unwrap();
        assert!(matches!(region.write(0, b"x").await, Err(OperationError::NoRight { .. })));
        assert!(matches!(region.read(4090, &mut [0; 8]).await, Err(OperationError::OutOfBounds { .. })));
        world.registry_of(node).revoke(MEMORY, connection.peer());
        assert_eq!(region.read(0, &mut [0; 8]).await, Err(OperationError::Revoked));
        let quick = connection.with_deadline(MILLI);
        assert_eq!(quick.receive(&mut Vec::new()).await, Err(CallError::Deadline));
        world.sender(node).send(connection.peer(), b"news".to_vec());
        quick.receive(&mut reply).await.unwrap();
        assert_eq!(reply, b"news");
    });
}

#[test]
fn a_write_is_seen_half_done_and_two_reads_of_one_connection_in_order() {
    let mut torn = 0;
    for seed in 0..60 {
        let (world, node, client, _) = world(seed);
        let reader = world.start_client("reader");
        let (writes, reads) = (world.handle(), world.handle());
        world.spawn(client, async move {
            let connection = writes.connect(client, node).await.unwrap();
            let region = connection.open(MEMORY, Rights::ALL).await.unwrap();
            for round in 1..=20u8 {
                // Not at a word's edge: parts of words are merged, never lost.
                region.write(67, &[round; 250]).await.unwrap();
                let mut back = [0; 250];
                region.read(67, &mut back).await.unwrap();
                assert_eq!(back, [round; 250], "a connection does not see its own WRITE");
            }
        });
        world.spawn(reader, async move {
            let connection = reads.connect(reader, node).await.unwrap();
            let region = connection.open(MEMORY, Rights::READ).await.unwrap();
            let mut newest = [0; 250];
            for _ in 0..40 {
                let mut seen = [0; 250];
                region.read(67, &mut seen).await.unwrap();
                assert!(seen.iter().zip(&newest).all(|(now, before)| now >= before), "a byte went back");
                newest = seen;
            }
        });
        assert_eq!(world.run(Duration::from_secs(10)), RunEnd::Done);
        torn += world.stats().torn_reads;
    }
    assert!(torn > 20, "only {torn} READs saw a WRITE half done");
}

#[test]
fn many_at_once_are_bounded_and_all_answered() {
    let (world, node, client, _) = world(5);
    let handle = world.handle();
    let answered = Rc::new(RefCell::new(0));
    let count = answered.clone();
    world.spawn(client, async move {
        let connection = handle.connect_within(client, node, Duration::from_secs(5)).await.unwrap();
        for number in 0..3_000u32 {
            let (connection, count) = (connection.clone(), count.clone());
            handle.spawn(client, async move {
                let mut reply = Vec::new();
                connection.call(1, &number.to_le_bytes(), &mut reply).await.unwrap();
                assert_eq!(reply, number.to_le_bytes());
                *count.borrow_mut() += 1;
            });
        }
    });
    assert_eq!(world.run(Duration::from_secs(10)), RunEnd::Done);
    assert_eq!(*answered.borrow(), 3_000);
}

#[test]
fn the_seams_of_a_node_are_the_worlds() {
    let (world, node, _, _) = world(1);
    let (clock, scheduler) = (world.clock(), world.scheduler(node));
    let (disk, seen) = (world.disk(node), std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
    let (inner, noted, told) = (scheduler.clone(), seen.clone(), clock.clone());
    scheduler.spawn(Box::pin(async move {
        inner.sleep(3 * MILLI).await;
        noted.lock().unwrap().push(told.now());
    }));
    let file = disk.create("log").unwrap();
    file.append(b"unsynced").unwrap();
    world.pass(10 * MILLI);
    let woke = seen.lock().unwrap()[0];
    assert!((3 * MILLI..4 * MILLI).contains(&woke), "{woke:?}");
    assert_eq!(clock.now(), 10 * MILLI);
    // A process's death leaves the disk's cache; a power failure does not.
    world.kill(node);
    world.pass(MILLI);
    assert_eq!(disk.list().unwrap(), ["log"]);
    scheduler.spawn(Box::pin(async { unreachable!("a dead node runs nothing") }));
    world.restart(node);
    world.pass(MILLI);
    assert_eq!(world.life(node), (true, 2));
    world.crash(node);
    world.pass(MILLI);
    let left = disk.open("log").map(|file| file.len().unwrap()).unwrap_or_default();
    assert!(left == 0 || left == 8, "{left}");
    assert_eq!(world.life(node), (false, 3));
}
