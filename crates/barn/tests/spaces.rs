//! Spaces through the API that programs use, on 1, 2 and 4 nodes in this process, over shm and tcp.

mod common;

use barn::node::{Node, NodeConfig};
use barn::space::{
    AccessError, BarrierError, CHUNK_BYTES_MAX, Coordinator, Keys, MapError, Mapping, Outcome, Refusal, Role,
    Space, SpaceError, Spaces, Worker, WriteError, barrier_bytes,
};
use barn::{Barn, Error};
use barn_fabric::seam::{Random, Seeded};
use common::{Dir, PATIENCE, until};
use std::time::Duration;

const CHUNK: u64 = 64 << 10;

/// Nodes in this process; the first begins the cluster.
struct Nodes {
    nodes: Vec<Node>,
    _dir: Dir,
}

impl Nodes {
    fn start(count: usize, space_bytes: u64) -> Self {
        let dir = Dir::new();
        let mut nodes: Vec<Node> = Vec::new();
        for number in 0..count {
            nodes.push(
                Node::start(NodeConfig {
                    shm: Some(dir.path(&format!("node-{number}"))),
                    tcp: Some(([127, 0, 0, 1], 0).into()),
                    memory_bytes: 4 << 20,
                    space_bytes_max: Some(space_bytes),
                    join: nodes.first().and_then(Node::address),
                    ..NodeConfig::default()
                })
                .unwrap(),
            );
        }
        Self { nodes, _dir: dir }
    }

    fn shm(&self) -> Barn {
        Barn::connect(&self.nodes[0].address().unwrap()).unwrap()
    }

    fn tcp(&self) -> Barn {
        Barn::connect(&format!("tcp://{}", self.nodes[0].tcp_address().unwrap())).unwrap()
    }

    /// A client over each transport.
    fn clients(&self) -> [Barn; 2] {
        [self.shm(), self.tcp()]
    }
}

/// A space with so much reserved, over all nodes: a node that has just joined may not have attended yet.
fn space(spaces: &Spaces, name: &str, bytes: u64) -> (Space, Keys) {
    let (space, keys) = spaces.create_with(name, CHUNK, Role::Nobody).unwrap();
    space.reserve(bytes).unwrap();
    (space, keys)
}

fn noise(random: &mut Seeded, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.next() as u8).collect()
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result.unwrap_err() {
        Error::Space(SpaceError::Refused(refusal))
        | Error::Write(WriteError::Space(SpaceError::Refused(refusal))) => refusal,
        other => panic!("not refused by the master: {other:?}"),
    }
}

fn barrier<T: std::fmt::Debug>(result: Result<T, Error>) -> BarrierError {
    match result.unwrap_err() {
        Error::Barrier(error) => error,
        other => panic!("not an error of a barrier: {other:?}"),
    }
}

fn access<T: std::fmt::Debug>(result: Result<T, Error>) -> AccessError {
    match result.unwrap_err() {
        Error::Access(error) => error,
        other => panic!("not an error of the data path: {other:?}"),
    }
}

/// Random reads and writes at odd places and lengths, against plain memory.
fn move_bytes(writer: &Mapping, reader: &Mapping, seed: u64, rounds: usize) {
    let bytes = writer.bytes() as usize;
    let (mut model, mut random) = (vec![0; bytes], Seeded::new(seed));
    for round in 0..rounds {
        // Mostly short; now and then over several chunks.
        let longest = if round % 4 == 0 { bytes } else { 300 };
        let length = random.below(longest as u64 + 1) as usize;
        let at = random.below((bytes - length) as u64 + 1) as usize;
        if round % 2 == 0 {
            let data = noise(&mut random, length);
            writer.write(at as u64, &data).unwrap();
            model[at..at + length].copy_from_slice(&data);
        } else {
            let mut data = vec![0; length];
            reader.read(at as u64, &mut data).unwrap();
            assert!(data == model[at..at + length], "{length} bytes at {at}, round {round}");
        }
    }
    let mut all = vec![0; bytes];
    reader.read(0, &mut all).unwrap();
    assert!(all == model, "seed {seed}");
}

#[test]
fn what_one_client_writes_over_chunk_boundaries_another_reads_on_every_transport() {
    for count in [1, 2, 4] {
        let nodes = Nodes::start(count, 8 * CHUNK);
        let [shm, tcp] = nodes.clients();
        let (space, keys) = shm.spaces().create_with("bytes", CHUNK, Role::Nobody).unwrap();
        // All that all nodes have: it is not there before every keeper has come.
        until("all nodes have chunks", || space.reserve(count as u64 * 8 * CHUNK).is_ok());
        // An odd length: the last chunk is used in part.
        let range = space.alloc(6 * CHUNK + 12_345).unwrap();
        assert_eq!((range.bytes(), range.address() % CHUNK), (6 * CHUNK + 12_345, 0));
        assert_eq!(range.nodes(), count.min(7), "chunks of neighbours are at different nodes");
        let theirs = tcp.spaces().join("bytes", Some(&keys.writer)).unwrap();
        let their_range = theirs.init_to_write(range.address(), range.bytes()).unwrap();
        let (ours, theirs) = (range.map().unwrap(), their_range.map().unwrap());
        assert!(ours.is_local() && !theirs.is_local());
        move_bytes(&ours, &theirs, count as u64, 120);
        ours.write(0, &vec![0; ours.bytes() as usize]).unwrap();
        move_bytes(&theirs, &ours, count as u64 + 10, 120);
    }
}

#[test]
fn a_part_is_mapped_by_itself_and_mapped_again_from_what_is_open() {
    let nodes = Nodes::start(1, 2 << 20);
    for barn in nodes.clients() {
        let (space, _) = space(barn.spaces(), "parts", 8 * CHUNK);
        let range = space.alloc(8 * CHUNK).unwrap();
        let whole = range.map().unwrap();
        let part = range.map_part(CHUNK - 3, 2 * CHUNK).unwrap();
        assert_eq!(part.bytes(), 2 * CHUNK);
        part.write(0, b"abcdef").unwrap();
        let mut read = [0; 6];
        whole.read(CHUNK - 3, &mut read).unwrap();
        assert_eq!(&read, b"abcdef");
        // Held by its middle, as another client would.
        let middle = space.init(range.address() + CHUNK - 1, 3).unwrap();
        assert_eq!((middle.address(), middle.bytes()), (range.address() + CHUNK - 1, 3));
        let mut read = [0; 3];
        middle.map().unwrap().read(0, &mut read).unwrap();
        assert_eq!(&read, b"cde");
        let empty = range.map_part(8 * CHUNK, 0).unwrap();
        empty.read(0, &mut []).unwrap();
        assert!(matches!(access(empty.read(0, &mut [0])), AccessError::OutOfBounds { mapped_bytes: 0, .. }));
        assert!(matches!(
            range.map_part(1, 8 * CHUNK),
            Err(Error::Map(MapError::OutOfBounds { held_bytes, .. })) if held_bytes == 8 * CHUNK
        ));
        assert!(matches!(range.map_part(u64::MAX, 2), Err(Error::Map(MapError::OutOfBounds { .. }))));
        space.delete().unwrap();
    }
}

#[test]
fn a_mapping_refuses_what_leaves_it_and_atomics_between_words() {
    let nodes = Nodes::start(1, 1 << 20);
    for barn in nodes.clients() {
        let (space, keys) = space(barn.spaces(), "bounds", 2 * CHUNK);
        let range = space.alloc(CHUNK + 100).unwrap();
        let mapping = range.map().unwrap();
        for (offset, bytes) in [(CHUNK + 100, 1), (CHUNK + 99, 2), (u64::MAX, 1), (0, CHUNK as usize + 101)] {
            let mut buffer = vec![0; bytes];
            assert!(matches!(access(mapping.read(offset, &mut buffer)), AccessError::OutOfBounds { .. }));
            assert!(matches!(access(mapping.write(offset, &buffer)), AccessError::OutOfBounds { .. }));
        }
        assert_eq!(mapping.fetch_add(8, 5).unwrap(), 0);
        assert_eq!(mapping.fetch_add(8, 5).unwrap(), 5);
        assert_eq!(mapping.compare_swap(8, 10, 77).unwrap(), 10);
        assert_eq!(mapping.compare_swap(8, 10, 78).unwrap(), 77);
        assert_eq!(access(mapping.fetch_add(9, 1)), AccessError::Misaligned { offset: 9 });
        assert!(matches!(access(mapping.fetch_add(CHUNK + 96, 1)), AccessError::OutOfBounds { .. }));
        let reader = barn.spaces().join("bounds", Some(&keys.reader)).unwrap();
        let reading = reader.init(range.address(), 8).unwrap().map().unwrap();
        assert_eq!(access(reading.write(0, &[1])), AccessError::ReadOnly);
        assert_eq!(access(reading.fetch_add(0, 1)), AccessError::ReadOnly);
        space.delete().unwrap();
    }
}

#[test]
fn keys_decide_who_may_do_what() {
    let nodes = Nodes::start(1, 1 << 20);
    let [owner, other] = nodes.clients();
    let (space, keys) = space(owner.spaces(), "private", 2 * CHUNK);
    let range = space.alloc(CHUNK).unwrap();
    let (at, bytes) = (range.address(), range.bytes());
    let join = |key: Option<&str>| other.spaces().join("private", key);
    assert_eq!(refused(join(Some("00"))), Refusal::BadKey);
    assert!(matches!(refused(join(None)), Refusal::NotAllowed { role: Role::Nobody, .. }));
    let reader = join(Some(&keys.reader)).unwrap();
    assert_eq!(reader.role(), Role::Reader);
    let not_allowed = |refusal| matches!(refusal, Refusal::NotAllowed { role: Role::Reader, .. });
    assert!(not_allowed(refused(reader.reserve(CHUNK))));
    assert!(not_allowed(refused(reader.alloc(CHUNK))));
    assert!(not_allowed(refused(reader.init_to_write(at, bytes))));
    assert!(not_allowed(refused(reader.free(at))));
    assert!(not_allowed(refused(reader.delete())));
    assert!(!reader.init(at, bytes).unwrap().map().unwrap().is_writable());
    let writer = join(Some(&keys.writer)).unwrap();
    writer.init_to_write(at, bytes).unwrap().map().unwrap().write(0, b"x").unwrap();
    assert!(matches!(refused(writer.free(at)), Refusal::NotAllowed { role: Role::Writer, .. }));
    assert!(matches!(refused(writer.delete()), Refusal::NotAllowed { .. }));
    join(Some(&keys.owner)).unwrap().delete().unwrap();

    let (public, _) = owner.spaces().create_with("public", CHUNK, Role::Reader).unwrap();
    assert_eq!(other.spaces().join("public", None).unwrap().role(), Role::Reader);
    public.delete().unwrap();
}

#[test]
fn bad_input_of_every_kind_is_refused_with_what_to_do() {
    let nodes = Nodes::start(1, 1 << 20);
    let barn = nodes.shm();
    let spaces = barn.spaces();
    let create = |name: &str, chunk| spaces.create_with(name, chunk, Role::Nobody);
    for name in ["", "a\nb", &"x".repeat(256)] {
        assert!(matches!(refused(create(name, CHUNK)), Refusal::BadName { .. }), "{name:?}");
    }
    for chunk in [0, 1, CHUNK - 1, CHUNK + 1, CHUNK / 2, CHUNK_BYTES_MAX * 2, u64::MAX] {
        assert!(matches!(refused(create("sizes", chunk)), Refusal::BadSize { .. }), "{chunk}");
    }
    assert!(matches!(refused(spaces.join("nobody", None)), Refusal::NoSpace { .. }));
    assert!(matches!(refused(spaces.stat("nobody")), Refusal::NoSpace { .. }));
    let (space, _) = space(spaces, "input", 2 * CHUNK);
    assert!(matches!(refused(create("input", CHUNK * 2)), Refusal::SpaceExists { .. }));
    for bytes in [0, u64::MAX] {
        assert!(matches!(refused(space.reserve(bytes)), Refusal::BadSize { .. } | Refusal::NoMemory { .. }));
        assert!(matches!(refused(space.alloc(bytes)), Refusal::BadSize { .. } | Refusal::NotReserved { .. }));
    }
    let refusal = refused(space.reserve(64 << 20));
    assert!(matches!(&refusal, Refusal::NoMemory { .. }), "{refusal:?}");
    let said = SpaceError::Refused(refusal).to_string();
    assert!(said.contains("space_memory"), "{said}");
    assert!(matches!(refused(space.alloc(3 * CHUNK)), Refusal::NotReserved { .. }));
    let range = space.alloc(CHUNK).unwrap();
    for (at, bytes) in
        [(range.address() + CHUNK, 1), (range.address(), CHUNK + 1), (u64::MAX, 1), (1 << 60, 1)]
    {
        assert!(matches!(refused(space.init(at, bytes)), Refusal::BadRange { .. } | Refusal::BadSize { .. }));
    }
    assert!(matches!(refused(space.free(range.address() + 1)), Refusal::BadRange { .. }));
    let mut plain = space.init_to_write(range.address(), 8).unwrap();
    assert!(matches!(refused(plain.lease(None)), Refusal::WrongKind { .. }));
}

#[test]
fn what_is_dropped_is_let_go_and_what_is_freed_comes_back_empty() {
    let nodes = Nodes::start(1, 1 << 20);
    for barn in nodes.clients() {
        let (space, _) = space(barn.spaces(), "counts", 4 * CHUNK);
        let used = || {
            let info = space.stat().unwrap();
            (info.reserved_bytes / CHUNK, info.used_bytes / CHUNK)
        };
        let range = space.alloc(3 * CHUNK).unwrap();
        assert_eq!(used(), (4, 3));
        let mapping = range.map().unwrap();
        mapping.write(0, b"secret").unwrap();
        space.free(range.address()).unwrap();
        // Freed, and held: the bytes stay, and nobody else gets them.
        assert!(matches!(refused(space.init(range.address(), 1)), Refusal::BadRange { .. }));
        assert!(matches!(refused(space.alloc(2 * CHUNK)), Refusal::NotReserved { .. }));
        drop(range);
        let mut read = [0; 6];
        mapping.read(0, &mut read).unwrap();
        assert_eq!(&read, b"secret");
        drop(mapping);
        until("nothing is used any more", || used() == (4, 0));
        until("the chunks are back", || space.alloc(4 * CHUNK).is_ok());
        let info = space.stat().unwrap();
        let again = space.init(info.ranges[0].address, 4 * CHUNK).unwrap().map().unwrap();
        let mut all = vec![1; 4 * CHUNK as usize];
        again.read(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 0), "a chunk came back with what was in it");
        drop(again);
        space.delete().unwrap();
    }
}

#[test]
fn a_space_that_is_deleted_under_its_mappers_gives_them_errors_and_its_memory_back() {
    let nodes = Nodes::start(2, 1 << 20);
    for barn in nodes.clients() {
        let (space, keys) = space(barn.spaces(), "doomed", 4 * CHUNK);
        let range = space.alloc(4 * CHUNK).unwrap();
        let mapping = range.map().unwrap();
        let other = nodes.shm();
        let theirs = other.spaces().join("doomed", Some(&keys.reader)).unwrap();
        let reading = theirs.init(range.address(), range.bytes()).unwrap().map().unwrap();
        space.delete().unwrap();
        let mut all = vec![0; 4 * CHUNK as usize];
        until("the mappings have ended", || {
            reading.read(0, &mut all).is_err() && mapping.write(0, &all).is_err()
        });
        assert!(matches!(access(reading.read(0, &mut all)), AccessError::Ended { .. }));
        assert!(matches!(access(mapping.write(0, &all)), AccessError::Ended { .. }));
        assert!(matches!(refused(space.alloc(1)), Refusal::NoSpace { .. }));
        assert!(matches!(refused(theirs.init(0, 1)), Refusal::NoSpace { .. }));
        assert!(barn.spaces().list().unwrap().is_empty());
    }
}

#[test]
fn readers_keep_their_version_and_learn_of_the_next_by_its_mark() {
    let nodes = Nodes::start(2, 2 << 20);
    for (barn, reader) in [(nodes.shm(), nodes.tcp()), (nodes.tcp(), nodes.shm())] {
        let (space, keys) = space(barn.spaces(), "versions", 12 * CHUNK);
        let mut range = space.alloc_copy_on_write(3 * CHUNK).unwrap();
        assert!(!range.map().unwrap().is_writable(), "it is written through a lease");
        let mut writer = range.lease(None).unwrap();
        writer.write(0, &vec![1; 3 * CHUNK as usize]).unwrap();
        writer.commit().unwrap();
        assert_eq!(range.version(), 1);

        let theirs = reader.spaces().join("versions", Some(&keys.reader)).unwrap();
        let mut their_range = theirs.init(range.address(), range.bytes()).unwrap();
        let first = their_range.map().unwrap();
        let mut all = vec![0; 3 * CHUNK as usize];
        first.read(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 1) && first.is_current());

        // A few bytes over a boundary: the rest of both chunks is the version before.
        let mut writer = range.lease(None).unwrap();
        writer.write(CHUNK - 2, b"2222").unwrap();
        let mut now = [0; 6];
        writer.read(CHUNK - 3, &mut now).unwrap();
        assert_eq!(&now, b"\x012222\x01");
        first.read(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 1) && first.is_current(), "nothing is seen before the commit");
        writer.commit().unwrap();

        until("the mark says so", || !first.check().unwrap());
        first.read(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 1) && !first.is_current(), "the version that is held stays");
        their_range.refresh().unwrap();
        assert_eq!(their_range.version(), 2);
        let second = their_range.map().unwrap();
        second.read(0, &mut all).unwrap();
        let expected =
            |at: usize| if (CHUNK as usize - 2..CHUNK as usize + 2).contains(&at) { b'2' } else { 1 };
        assert!(all.iter().enumerate().all(|(at, byte)| *byte == expected(at)) && second.is_current());
        first.read(0, &mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 1), "the mapping of the first version holds it");
        drop((first, second, their_range));
        until("the first version's chunks are back", || space.stat().unwrap().used_bytes == 3 * CHUNK);
        space.delete().unwrap();
    }
}

#[test]
fn one_writer_at_a_time_and_only_what_it_commits_counts() {
    let nodes = Nodes::start(1, 2 << 20);
    for barn in nodes.clients() {
        let (space, keys) = space(barn.spaces(), "writers", 8 * CHUNK);
        let mut range = space.alloc_copy_on_write(2 * CHUNK).unwrap();
        let other = nodes.shm();
        let theirs = other.spaces().join("writers", Some(&keys.writer)).unwrap();
        let mut their_range = theirs.init(range.address(), range.bytes()).unwrap();
        let value = |range: &barn::space::Range| {
            let mut byte = [0];
            range.map().unwrap().read(7, &mut byte).unwrap();
            byte[0]
        };

        let mut writer = range.lease(None).unwrap();
        writer.write(7, b"a").unwrap();
        assert!(matches!(refused(their_range.lease(None)), Refusal::HasWriter { left_ms } if left_ms > 0));
        drop(writer);
        assert_eq!(value(&range), 0, "a writer that is dropped changes nothing");
        until("the lease is given back", || their_range.lease(None).is_ok());

        // Leased again at once: what was dropped ends by itself, and takes nothing of the next with it.
        for _ in 0..20 {
            let mut writer = their_range.lease(None).unwrap();
            writer.write(CHUNK, b"never").unwrap();
        }
        let mut writer = their_range.lease(None).unwrap();
        writer.write(7, b"b").unwrap();
        writer.abandon().unwrap();
        let mut writer = their_range.lease(None).unwrap();
        writer.write(7, b"c").unwrap();
        writer.commit().unwrap();
        assert_eq!((value(&their_range), value(&range)), (b'c', 0));
        let mut untouched = [1; 5];
        their_range.map().unwrap().read(CHUNK, &mut untouched).unwrap();
        assert_eq!(untouched, [0; 5], "nothing of the writers that were dropped");
        let refusal = refused(range.lease(None));
        assert!(matches!(&refusal, Refusal::WrongKind { why } if why.contains("refresh")), "{refusal:?}");
        range.refresh().unwrap();

        // A lease that has ended commits nothing, and its chunks are gone under the writer.
        let mut writer = range.lease(Some(Duration::from_millis(50))).unwrap();
        writer.write(7, b"d").unwrap();
        until("another may write", || their_range.lease(None).is_ok());
        let error = writer.commit().unwrap_err();
        assert!(
            matches!(&error, Error::Write(WriteError::Space(SpaceError::Refused(Refusal::LeaseOver)))),
            "{error:?}"
        );
        assert_eq!(value(&range), b'c');

        // What does not fit is refused, and so is a commit after a write that failed.
        until("the other has given it back", || range.lease(None).is_ok());
        let mut writer = range.lease(None).unwrap();
        assert!(matches!(
            writer.write(2 * CHUNK - 1, b"xy"),
            Err(Error::Write(WriteError::Access(AccessError::OutOfBounds { .. })))
        ));
        writer.write(2 * CHUNK - 1, b"x").unwrap();
        let third = nodes.tcp();
        let reader = third.spaces().join("writers", Some(&keys.reader)).unwrap();
        drop(writer);
        let mut reading = reader.init(range.address(), 1).unwrap();
        assert!(matches!(refused(reading.lease(None)), Refusal::NotAllowed { .. }));
        space.delete().unwrap();
    }
}

#[test]
fn a_writer_whose_write_failed_cannot_commit() {
    let nodes = Nodes::start(1, 1 << 20);
    let barn = nodes.shm();
    // One chunk too few for a whole version: the second write gets no fresh chunk.
    let (space, _) = space(barn.spaces(), "short", 3 * CHUNK);
    let mut range = space.alloc_copy_on_write(2 * CHUNK).unwrap();
    let mut writer = range.lease(None).unwrap();
    writer.write(0, b"one").unwrap();
    assert!(matches!(refused(writer.write(CHUNK, b"two")), Refusal::NotReserved { .. }));
    let error = writer.commit().unwrap_err();
    assert!(matches!(error, Error::Write(WriteError::Broken)), "{error:?}");
    assert_eq!(range.version(), 0);
}

#[test]
fn numbers_are_read_and_written_by_value_with_their_bounds_checked() {
    let nodes = Nodes::start(2, 1 << 20);
    for barn in nodes.clients() {
        let (space, _) = space(barn.spaces(), "numbers", 4 * CHUNK);
        let mapping = space.alloc(4 * CHUNK - 5).unwrap().map().unwrap();
        let reals = mapping.slice::<f64>();
        assert_eq!(reals.len(), (4 * CHUNK - 5) / 8);
        reals.fill(0..reals.len(), 0.5).unwrap();
        assert_eq!(
            reals.fold(0..reals.len(), 0.0, |sum, value| sum + value).unwrap(),
            reals.len() as f64 / 2.0
        );
        reals.set(CHUNK / 8, -1.25).unwrap();
        assert_eq!(reals.get(CHUNK / 8).unwrap(), -1.25);
        assert_eq!(reals.get(CHUNK / 8 - 1).unwrap(), 0.5);
        let small = mapping.slice::<i16>();
        let numbers: Vec<i16> = (-300..300).collect();
        small.write(CHUNK / 2 - 300, &numbers).unwrap();
        let mut read = vec![0i16; 600];
        small.read(CHUNK / 2 - 300, &mut read).unwrap();
        assert_eq!(read, numbers);
        assert_eq!(small.fold(0..0, 3, |_, _| 4).unwrap(), 3);
        assert!(matches!(access(reals.get(reals.len())), AccessError::OutOfBounds { .. }));
        assert!(matches!(access(reals.set(u64::MAX, 1.0)), AccessError::OutOfBounds { .. }));
        assert!(matches!(access(reals.fill(1..reals.len() + 1, 1.0)), AccessError::OutOfBounds { .. }));
        assert!(matches!(
            access(reals.read(reals.len() - 1, &mut [0.0; 2])),
            AccessError::OutOfBounds { .. }
        ));
        space.delete().unwrap();
    }
}

#[test]
fn a_session_that_was_closed_holds_nothing_and_its_handles_say_so() {
    let nodes = Nodes::start(1, 1 << 20);
    let (barn, other) = (nodes.shm(), nodes.tcp());
    let (space, keys) = space(barn.spaces(), "sessions", 4 * CHUNK);
    let range = space.alloc(2 * CHUNK).unwrap();
    let session = barn.spaces().session();
    assert_eq!(other.spaces().alive(&[session]).unwrap(), [session]);
    assert_eq!(space.stat().unwrap().ranges[0].holds, 1);
    barn.spaces().close().unwrap();
    assert_eq!(other.spaces().alive(&[session]).unwrap(), []);
    let info = other.spaces().stat("sessions").unwrap();
    assert_eq!((info.ranges[0].holds, info.sessions, info.used_bytes), (0, 0, 2 * CHUNK));
    assert!(matches!(space.alloc(CHUNK), Err(Error::Space(SpaceError::SessionLost))));
    assert!(matches!(range.map(), Err(Error::Map(MapError::SessionLost))));
    // Another session begins by itself, and finds the range.
    let again = barn.spaces().join("sessions", Some(&keys.owner)).unwrap();
    assert_ne!(barn.spaces().session(), session);
    again.init(range.address(), range.bytes()).unwrap().map().unwrap();
}

#[test]
fn a_session_that_is_closed_while_somebody_can_write_is_left_to_its_lease() {
    // Longer than the test: a lease that runs out is not what ends the session here.
    let barn = Barn::embedded_with(NodeConfig {
        lease: Duration::from_secs(600),
        ..NodeConfig::embedded().space_memory(1 << 20)
    })
    .unwrap();
    let (space, keys) = space(barn.spaces(), "zombie", 4 * CHUNK);
    let mapping = space.alloc(CHUNK).unwrap().map().unwrap();
    let mut versions = space.alloc_copy_on_write(CHUNK).unwrap();
    let session = barn.spaces().session();
    barn.spaces().close().unwrap();
    // Its chunks are nobody else's: what it still writes harms nobody.
    assert_eq!(barn.spaces().alive(&[session]).unwrap(), [session]);
    mapping.write(0, b"still mine").unwrap();
    assert!(matches!(versions.lease(None), Err(Error::Write(WriteError::Space(SpaceError::SessionLost)))));

    let again = barn.spaces().join("zombie", Some(&keys.writer)).unwrap();
    let reading = again.init(mapping_address(&again), CHUNK).unwrap().map().unwrap();
    let session = barn.spaces().session();
    drop(reading);
    barn.spaces().close().unwrap();
    assert_eq!(barn.spaces().alive(&[session]).unwrap(), [], "who can only read is let go at once");
}

/// Where the first range of a space is.
fn mapping_address(space: &Space) -> u64 {
    space.stat().unwrap().ranges[0].address
}

/// A coordinator's mapping for a barrier of so many workers, and a way for others to map the same.
fn meeting(barn: &Barn, workers: usize) -> (Mapping, impl Fn(&Barn) -> Mapping + use<>) {
    let bytes = barrier_bytes(workers, 16);
    let (space, keys) = space(barn.spaces(), "barrier", bytes.next_multiple_of(CHUNK));
    let range = space.alloc(bytes).unwrap();
    let address = range.address();
    let mapping = range.map().unwrap();
    let theirs = move |barn: &Barn| {
        let space = barn.spaces().join("barrier", Some(&keys.writer)).unwrap();
        space.init_to_write(address, bytes).unwrap().map().unwrap()
    };
    (mapping, theirs)
}

#[test]
fn workers_do_phase_after_phase_and_say_what_came_of_each() {
    const WORKERS: usize = 3;
    let nodes = Nodes::start(2, 1 << 20);
    let barn = nodes.shm();
    let (mapping, theirs) = meeting(&barn, WORKERS);
    let mut coordinator = Coordinator::new(barn.spaces(), &mapping, WORKERS, 16).unwrap();
    let work = |barn: &Barn, number: usize| {
        let mut worker = Worker::join(barn.spaces(), &theirs(barn), number, PATIENCE).unwrap();
        let mut phases = 0;
        while let Some(assignment) = worker.next(PATIENCE).unwrap() {
            phases += 1;
            assert_eq!(assignment.phase, phases);
            let told = u64::from_le_bytes(assignment.task.try_into().unwrap());
            match told % 7 {
                0 => worker.fail(b"a seven").unwrap(),
                _ => worker.finish(&(told * 2).to_le_bytes()).unwrap(),
            }
        }
        phases
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (nodes, work) = (&nodes, &work);
                scope.spawn(move || work(&if number % 2 == 0 { nodes.shm() } else { nodes.tcp() }, number))
            })
            .collect();
        coordinator.gather(PATIENCE).unwrap();
        for phase in 0..20u64 {
            let tasks: Vec<[u8; 8]> = (0..3).map(|worker| (phase * 3 + worker).to_le_bytes()).collect();
            coordinator.start(&tasks).unwrap();
            for (worker, outcome) in coordinator.finish(PATIENCE).unwrap().into_iter().enumerate() {
                let told = phase * 3 + worker as u64;
                match told % 7 {
                    0 => assert_eq!(outcome, Outcome::Error(b"a seven".to_vec())),
                    _ => assert_eq!(outcome, Outcome::Finished((told * 2).to_le_bytes().to_vec())),
                }
            }
        }
        coordinator.end().unwrap();
        assert!(workers.into_iter().all(|worker| worker.join().unwrap() == 20));
    });
}

#[test]
fn the_dead_are_noticed_at_a_barrier_and_no_wait_is_past_its_deadline() {
    let nodes = Nodes::start(1, 1 << 20);
    let (barn, one, two) = (nodes.shm(), nodes.shm(), nodes.tcp());
    let (mapping, theirs) = meeting(&barn, 2);
    let soon = Duration::from_millis(20);
    assert_eq!(
        barrier(Worker::join(one.spaces(), &theirs(&one), 0, soon)),
        BarrierError::Deadline { missing: vec![] }
    );
    assert!(matches!(barrier(Coordinator::new(barn.spaces(), &mapping, 3, 16)), BarrierError::Size { .. }));
    let mut coordinator = Coordinator::new(barn.spaces(), &mapping, 2, 16).unwrap();
    assert_eq!(barrier(coordinator.gather(soon)), BarrierError::Deadline { missing: vec![0, 1] });
    let mut first = Worker::join(one.spaces(), &theirs(&one), 0, soon).unwrap();
    let second = Worker::join(two.spaces(), &theirs(&two), 1, soon).unwrap();
    assert!(matches!(
        barrier(Worker::join(two.spaces(), &theirs(&two), 2, soon)),
        BarrierError::Worker { worker: 2, .. }
    ));
    coordinator.gather(PATIENCE).unwrap();
    assert!(matches!(barrier(coordinator.start(&[b"x"])), BarrierError::Worker { worker: 1, .. }));
    assert!(matches!(barrier(coordinator.start(&[[0; 17], [0; 17]])), BarrierError::Worker { .. }));
    coordinator.start(&[b"a", b"b"]).unwrap();
    assert_eq!(first.next(PATIENCE).unwrap().unwrap().task, b"a");
    first.finish(b"done").unwrap();
    assert_eq!(barrier(first.next(soon)), BarrierError::Deadline { missing: vec![] });
    assert_eq!(barrier(coordinator.finish(soon)), BarrierError::Deadline { missing: vec![1] });
    drop(second);
    two.spaces().close().unwrap();
    assert_eq!(barrier(coordinator.finish(PATIENCE)), BarrierError::WorkerLost { worker: 1 });
    barn.spaces().close().unwrap();
    assert_eq!(barrier(first.next(PATIENCE)), BarrierError::CoordinatorLost);
}

#[test]
fn more_chunks_than_one_connection_may_have_open_are_mapped_over_several() {
    const CHUNKS: u64 = 1_100;
    let nodes = Nodes::start(1, CHUNKS * CHUNK);
    for barn in nodes.clients() {
        let (space, _) = space(barn.spaces(), "many", CHUNKS * CHUNK);
        let range = space.alloc(CHUNKS * CHUNK).unwrap();
        let mapping = range.map().unwrap();
        for chunk in 0..CHUNKS {
            mapping.write(chunk * CHUNK, &chunk.to_le_bytes()).unwrap();
        }
        let again = range.map().unwrap();
        for chunk in (0..CHUNKS).rev() {
            let mut read = [0; 8];
            again.read(chunk * CHUNK, &mut read).unwrap();
            assert_eq!(u64::from_le_bytes(read), chunk);
        }
        drop((mapping, again, range));
        space.delete().unwrap();
    }
}

#[test]
fn reads_and_writes_run_under_a_runtime_too() {
    // A runtime of the smallest kind: wakers that unpark this thread.
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    fn run<F: Future>(future: F) -> F::Output {
        let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
        let mut future = std::pin::pin!(future);
        loop {
            match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
                std::task::Poll::Ready(output) => return output,
                std::task::Poll::Pending => std::thread::park(),
            }
        }
    }
    let nodes = Nodes::start(2, 2 << 20);
    for barn in nodes.clients() {
        let spaces = barn.spaces().futures();
        run(async {
            let made = spaces.create("async", CHUNK, Role::Nobody).await.unwrap();
            made.space.reserve(6 * CHUNK).await.unwrap();
            let mut range = made.space.alloc_copy_on_write(3 * CHUNK).await.unwrap();
            let data = noise(&mut Seeded::new(3), 3 * CHUNK as usize);
            let mut writer = range.lease(None).await.unwrap();
            writer.write(0, &data).await.unwrap();
            writer.commit().await.unwrap();
            let mapping = range.map().await.unwrap();
            let mut read = vec![0; data.len()];
            mapping.read(0, &mut read).await.unwrap();
            assert!(read == data);
            drop((mapping, range));
            made.space.delete().await.unwrap();
        });
    }
}
