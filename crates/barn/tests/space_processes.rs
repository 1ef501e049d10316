//! Spaces between processes: bytes that cross, clients that are killed with all that they hold, writers
//! that are killed at any instant under readers, nodes that are lost.

mod common;

use barn::space::{AccessError, MapError, Refusal, Role, Space, SpaceError, SpaceInfo, WriteError};
use barn::{Barn, Error};
use barn_fabric::seam::{Random, Seeded};
use common::{Cluster, PATIENCE, Process, end_with_parent, tell, told, until};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CHUNK: u64 = 64 << 10;
/// Long enough that a machine with much to do loses no node by it, and its chunks with it.
const LEASE: Duration = Duration::from_secs(4);
const NODE: &str = "BARN_TEST_NODE";
const KEY: &str = "BARN_TEST_KEY";
const ROLE: &str = "BARN_TEST_ROLE";
const ADDRESS: &str = "BARN_TEST_ADDRESS";
const STAMP: &str = "BARN_TEST_STAMP";

#[test]
#[ignore = "a process of the tests"]
fn role_node() {
    common::serve();
}

/// Starts a client of a space in a process of its own.
fn client(node: &str, key: &str, role: &str, address: u64, stamp: u64) -> Process {
    Process::start(
        "role_client",
        &[
            (NODE, node.to_string()),
            (KEY, key.to_string()),
            (ROLE, role.to_string()),
            (ADDRESS, address.to_string()),
            (STAMP, stamp.to_string()),
        ],
    )
}

#[test]
#[ignore = "a process of the tests"]
fn role_client() {
    let Some(role) = told(ROLE) else { return };
    end_with_parent();
    let number = |name| told(name).unwrap().parse::<u64>().unwrap();
    let barn = Barn::connect(&told(NODE).unwrap()).unwrap();
    let space = barn.spaces().join("shared", told(KEY).as_deref()).unwrap();
    match role.as_str() {
        "holder" => hold(&space, number(ADDRESS)),
        "passer" => {
            let mapping = space.init_to_write(number(ADDRESS), CHUNK).unwrap().map().unwrap();
            mapping.write(0, b"passed by").unwrap();
        }
        "reserver" => reserve(&space),
        "writer" => write(&space, number(ADDRESS), number(STAMP)),
        other => panic!("{other}?"),
    }
}

/// Holds everything that there is to hold, and says so.
fn hold(space: &Space, shared: u64) {
    space.reserve(3 * CHUNK).unwrap();
    let own = space.alloc(CHUNK).unwrap();
    let mapping = own.map().unwrap();
    mapping.write(5, b"from another process").unwrap();
    let mut versions = space.init(shared, 2 * CHUNK).unwrap();
    let old = versions.map().unwrap();
    let mut writer = versions.lease(Some(Duration::from_secs(600))).unwrap();
    writer.write(0, b"never committed").unwrap();
    tell(&format!("{}", own.address()));
    std::thread::sleep(PATIENCE * 10);
    drop((mapping, old, writer));
}

/// Reserves and releases until it is killed.
fn reserve(space: &Space) {
    tell("begun");
    loop {
        if space.reserve(4 * CHUNK).is_ok() {
            let _ = space.alloc(CHUNK).map(|range| space.free(range.address()));
            let _ = space.release(4 * CHUNK);
        }
    }
}

/// Commits version after version, each of one word throughout, until it is killed.
fn write(space: &Space, address: u64, stamp: u64) {
    let mut range = space.init(address, VERSION_BYTES).unwrap();
    let mut commits = 0u64;
    loop {
        commits += 1;
        match commit(&mut range, stamp << 32 | commits) {
            Ok(()) => tell("committed"),
            // Another is the writer, or was, or the lease has ended under the writing: look again.
            Err(Error::Write(
                WriteError::Access(AccessError::Ended { .. })
                | WriteError::Map(MapError::Ended { .. })
                | WriteError::Space(SpaceError::Refused(
                    Refusal::HasWriter { .. }
                    | Refusal::WrongKind { .. }
                    | Refusal::LeaseOver
                    | Refusal::NotReserved { .. },
                )),
            )) => {
                std::thread::sleep(Duration::from_millis(5));
                range.refresh().unwrap();
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn commit(range: &mut barn::space::Range, word: u64) -> Result<(), Error> {
    let bytes: Vec<u8> = word.to_le_bytes().repeat(VERSION_BYTES as usize / 8);
    let mut writer = range.lease(Some(Duration::from_millis(300)))?;
    // In odd pieces, the last of them first: every chunk is filled, then written in part, and again.
    let cut = [0, 3 * 8 + 1, CHUNK as usize - 5, 2 * CHUNK as usize + 77, VERSION_BYTES as usize];
    for piece in cut.windows(2).rev() {
        writer.write(piece[0] as u64, &bytes[piece[0]..piece[1]])?;
    }
    writer.commit()
}

const VERSION_BYTES: u64 = 4 * CHUNK;

fn shared(cluster: &Cluster, chunks: u64) -> (Barn, Space, String) {
    let barn = cluster.connect();
    let (space, keys) = barn.spaces().create_with("shared", CHUNK, Role::Nobody).unwrap();
    space.reserve(chunks * CHUNK).unwrap();
    (barn, space, keys.writer)
}

fn in_chunks(info: &SpaceInfo) -> (u64, u64) {
    (info.reserved_bytes / CHUNK, info.used_bytes / CHUNK)
}

#[test]
fn clients_that_are_killed_with_all_that_they_hold_leave_only_what_they_allocated() {
    for nodes in [1, 2] {
        let cluster = Cluster::start_with_lease(nodes, LEASE);
        let (_barn, space, key) = shared(&cluster, 8);
        let versions: Vec<u64> =
            (0..2).map(|_| space.alloc_copy_on_write(2 * CHUNK).unwrap().address()).collect();
        until("nothing is held", || space.stat().unwrap().ranges.iter().all(|range| range.holds == 0));
        let first = &cluster.nodes[0];
        let mut holders: Vec<Process> = [&first.shm, &first.tcp]
            .into_iter()
            .zip(&versions)
            .map(|(node, address)| client(node, &key, "holder", *address, 0))
            .collect();
        let addresses: Vec<u64> = holders.iter().map(|holder| holder.line().parse().unwrap()).collect();
        for address in &addresses {
            let mut read = [0; 20];
            space.init(*address, CHUNK).unwrap().map().unwrap().read(5, &mut read).unwrap();
            assert_eq!(&read, b"from another process");
        }
        let info = space.stat().unwrap();
        // Two ranges of two chunks, two of one, and a fresh chunk for each writer.
        assert_eq!((in_chunks(&info), info.sessions), ((14, 8), 3));
        assert_eq!(info.ranges.iter().filter(|range| range.writer).count(), 2);
        holders.iter_mut().for_each(Process::kill);
        until("their sessions have ended", || space.stat().unwrap().sessions == 1);
        until("nothing is held", || space.stat().unwrap().ranges.iter().all(|range| range.holds == 0));
        // A chunk that a dead writer was let into is used until its keeper has let it go.
        until("the writers' chunks are bound to nothing", || in_chunks(&space.stat().unwrap()).1 == 6);
        let info = space.stat().unwrap();
        assert!(info.ranges.iter().all(|range| !range.writer && range.version == 0));
        assert_eq!(info.ranges.len(), 4, "what was allocated stays until it is freed");
        // Their bytes are there; nothing of what was not committed is.
        for (address, version) in addresses.into_iter().zip(versions) {
            let mut read = [0; 20];
            space.init(address, CHUNK).unwrap().map().unwrap().read(5, &mut read).unwrap();
            assert_eq!(&read, b"from another process");
            space.init(version, CHUNK).unwrap().map().unwrap().read(0, &mut read).unwrap();
            assert_eq!(read, [0; 20]);
        }
    }
}

#[test]
fn a_client_that_ends_in_order_leaves_nothing_held_by_then() {
    // A lease longer than the test: what is let go was let go by word.
    let cluster = Cluster::start_with_lease(1, Duration::from_secs(600));
    let (_barn, space, key) = shared(&cluster, 2);
    let range = space.alloc(CHUNK).unwrap();
    for node in [&cluster.nodes[0].shm, &cluster.nodes[0].tcp] {
        let mut passer = client(node, &key, "passer", range.address(), 0);
        until("it has ended", || passer.has_ended());
        let info = space.stat().unwrap();
        assert_eq!((info.sessions, info.ranges[0].holds), (1, 1));
        let mut read = [0; 9];
        range.map().unwrap().read(0, &mut read).unwrap();
        assert_eq!(&read, b"passed by");
        range.map().unwrap().write(0, &[0; 9]).unwrap();
    }
}

#[test]
fn clients_that_are_killed_while_they_reserve_leave_nothing_that_cannot_be_released() {
    let cluster = Cluster::start_with_lease(2, LEASE);
    let (_barn, space, key) = shared(&cluster, 2);
    let mut random = Seeded::new(5);
    for round in 0..6 {
        let node = &cluster.nodes[0];
        let mut reserver = client(if round % 2 == 0 { &node.shm } else { &node.tcp }, &key, "reserver", 0, 0);
        reserver.line();
        std::thread::sleep(Duration::from_millis(random.below(60)));
        reserver.kill();
    }
    until("their sessions have ended", || space.stat().unwrap().sessions == 1);
    // A range that was allocated and not yet freed stays, as any does.
    for range in space.stat().unwrap().ranges {
        space.free(range.address).unwrap();
    }
    until("all of it can be released", || {
        let info = space.stat().unwrap();
        let _ = space.release(info.reserved_bytes - info.used_bytes);
        let info = space.stat().unwrap();
        info.reserved_bytes == info.used_bytes
    });
}

#[test]
fn readers_never_see_two_versions_at_once_though_writers_are_killed_at_any_instant() {
    for nodes in [1, 2] {
        let cluster = Cluster::start_with_lease(nodes, LEASE);
        let (_barn, space, key) = shared(&cluster, 60);
        let address = space.alloc_copy_on_write(VERSION_BYTES).unwrap().address();
        let (over, reads, versions) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let mut commits = 0;
        std::thread::scope(|scope| {
            for node in [&cluster.nodes[0].shm, &cluster.nodes[0].tcp] {
                let (key, over, reads, versions) = (&key, &over, &reads, &versions);
                scope.spawn(move || {
                    let seen = read_versions(node, key, address, over, reads);
                    // ORDER: Relaxed: a counter.
                    versions.fetch_add(seen, Ordering::Relaxed);
                });
            }
            let mut random = Seeded::new(nodes as u64);
            for number in 0..10 {
                let node = &cluster.nodes[0];
                let node = if number % 2 == 0 { &node.shm } else { &node.tcp };
                let mut writer = client(node, &key, "writer", address, number + 1);
                writer.line();
                std::thread::sleep(Duration::from_millis(random.below(80)));
                writer.kill();
                commits += 1 + std::iter::from_fn(|| writer.line_now()).count();
            }
            // ORDER: Relaxed: a flag that stands alone.
            over.store(true, Ordering::Relaxed);
        });
        // ORDER: Relaxed: counters, and all threads have ended.
        let (reads, versions) = (reads.load(Ordering::Relaxed), versions.load(Ordering::Relaxed));
        println!(
            "{nodes} nodes: 10 writers killed, {commits} commits heard of, {reads} reads, {versions} versions seen"
        );
        assert!(versions > 1 && reads > versions);
        until("the killed are forgotten", || space.stat().unwrap().sessions == 1);
        until("one version is left", || space.stat().unwrap().used_bytes == VERSION_BYTES);
    }
}

/// Reads whole versions until it is over; each must be of one word throughout, and newer than the last.
fn read_versions(node: &str, key: &str, address: u64, over: &AtomicBool, reads: &AtomicU64) -> u64 {
    let barn = Barn::connect(node).unwrap();
    let space = barn.spaces().join("shared", Some(key)).unwrap();
    let mut range = space.init(address, VERSION_BYTES).unwrap();
    let mut bytes = vec![0; VERSION_BYTES as usize];
    let (mut seen, mut last) = (0, None);
    // ORDER: Relaxed: a flag that stands alone.
    while !over.load(Ordering::Relaxed) {
        let mapping = range.map().unwrap();
        loop {
            mapping.read(0, &mut bytes).unwrap();
            let word = &bytes[..8];
            let mixed = bytes.chunks(8).position(|other| other != word);
            assert_eq!(mixed, None, "version {} is mixed", mapping.version());
            // ORDER: Relaxed: a counter, and a flag that stands alone.
            reads.fetch_add(1, Ordering::Relaxed);
            if !mapping.is_current() || over.load(Ordering::Relaxed) {
                break;
            }
        }
        if last != Some(mapping.version()) {
            assert!(last.is_none_or(|last| last < mapping.version()), "versions went back");
            (seen, last) = (seen + 1, Some(mapping.version()));
        }
        drop(mapping);
        range.refresh().unwrap();
    }
    seen
}

#[test]
fn a_chunk_that_is_lost_with_its_node_says_whose_it_was() {
    for by_tcp in [false, true] {
        let mut cluster = Cluster::start_with_lease(2, LEASE);
        let node = if by_tcp { &cluster.nodes[0].tcp } else { &cluster.nodes[0].shm };
        let barn = Barn::connect(node).unwrap();
        let (space, _) = barn.spaces().create_with("shared", CHUNK, Role::Nobody).unwrap();
        // All that both nodes have: half of 16 MiB each.
        until("both nodes have chunks", || space.reserve(16 << 20).is_ok());
        let range = space.alloc(4 * CHUNK).unwrap();
        assert_eq!(range.nodes(), 2);
        let mapping = range.map().unwrap();
        let member = cluster.nodes[1].member;
        cluster.nodes[1].process.kill();
        let mut bytes = vec![0; 4 * CHUNK as usize];
        until("the node is missed", || mapping.read(0, &mut bytes).is_err());
        let error = mapping.read(0, &mut bytes).unwrap_err();
        assert!(
            matches!(error, Error::Access(AccessError::Lost { member: lost }) if lost.0 == member),
            "{error}"
        );
        until("the master knows", || space.stat().unwrap().ranges[0].lost);
        match space.init(range.address(), range.bytes()) {
            Err(Error::Space(SpaceError::Refused(Refusal::Lost { member: lost }))) => {
                assert_eq!(lost.0, member)
            }
            other => panic!("{other:?}"),
        }
        // What is left is of use.
        space.free(range.address()).unwrap();
        drop((mapping, range));
        until("the rest serves", || space.alloc(CHUNK).is_ok());
    }
}

#[test]
fn a_cluster_that_begins_anew_knows_nothing_and_clients_go_on_there() {
    let mut cluster = Cluster::start(1);
    let barn = cluster.connect();
    let (space, keys) = barn.spaces().create_with("shared", CHUNK, Role::Nobody).unwrap();
    space.reserve(4 * CHUNK).unwrap();
    let range = space.alloc(2 * CHUNK).unwrap();
    let mapping = range.map().unwrap();
    cluster.begin_anew();
    let mut byte = [0];
    until("the node is missed", || mapping.read(0, &mut byte).is_err());
    let error = mapping.read(0, &mut byte).unwrap_err();
    assert!(matches!(error, Error::Access(AccessError::Lost { .. })), "{error}");
    // Old passes and old keys open nothing in the new life.
    assert!(range.map().is_err());
    let begun = Instant::now();
    let made = loop {
        match barn.spaces().create_with("shared", CHUNK, Role::Nobody) {
            Ok(made) => break made,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_ne!(made.1, keys);
    assert!(matches!(barn.spaces().join("shared", Some(&keys.reader)), Err(Error::Space(_))));
    made.0.reserve(CHUNK).unwrap();
    made.0.alloc(CHUNK).unwrap().map().unwrap().write(0, b"anew").unwrap();
    let error = space.alloc(CHUNK).unwrap_err();
    assert!(
        matches!(error, Error::Space(SpaceError::SessionLost | SpaceError::Refused(Refusal::NoSpace { .. }))),
        "{error}"
    );
}
