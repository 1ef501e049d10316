//! Hostile shm clients: every attack through the socket and the mapped memory gets a clear error
//! or ends the attacker's connection, and nobody else notices.

mod shm_support;

use barn_fabric::messaging::ring::Full;
use barn_fabric::region::map_shared;
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{Connection, Rights};
use barn_layout::handshake::{Refusal, ShmWelcome};
use barn_layout::limits::{MESSAGE_BYTES_MAX, REGIONS_PER_PEER_MAX};
use barn_layout::message::{ARRIVAL_BYTES, Arrival, Kind, MessageHeader};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use shm_support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

const RING: u32 = 4 << 10;

/// An honest client that calls all the while on a thread of its own.
struct Bystander {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Bystander {
    fn of(node: &TestNode) -> Self {
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (client, stopped, called) = (node.client(), stop.clone(), calls.clone());
        let thread = std::thread::spawn(move || {
            let region = client.open(barn_fabric::RegionId(2), Rights::ALL).wait().unwrap();
            let mut round = 0u64;
            while !stopped.load(Ordering::Relaxed) {
                echo(&client, &round.to_le_bytes());
                if round.is_multiple_of(64) {
                    echo(&client, &vec![round as u8; 20_000]);
                    assert_eq!(region.fetch_add(8, 1).wait(), Ok(round / 64));
                    std::thread::sleep(Duration::from_micros(200));
                }
                round += 1;
                called.store(round, Ordering::Relaxed);
            }
        });
        Self { stop, calls, thread: Some(thread) }
    }

    /// Waits until it has been served some more.
    fn is_served(&self) {
        let before = self.calls.load(Ordering::Relaxed);
        until("the bystander's calls", || {
            self.calls.load(Ordering::Relaxed) > before + 100
                || self.thread.as_ref().is_some_and(std::thread::JoinHandle::is_finished)
        });
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("started").expect("the bystander was served all the time");
        }
    }
}

/// A word that is more likely than chance to be taken for something.
fn forged_word(random: &mut Seeded, raw: &Raw) -> u64 {
    let ring = raw.shape.ring_bytes as u64;
    match random.below(9) {
        0 => random.next(),
        1 => Arrival { bytes: random.next() as u32, number: 1 + random.below(40) as u32 }.to_bits(),
        2 => Arrival { bytes: Arrival::WRAP, number: 1 + random.below(40) as u32 }.to_bits(),
        3 => Arrival { bytes: 24 + random.below(1200) as u32, number: 1 + random.below(40) as u32 }.to_bits(),
        4 => random.below(4),
        5 => random.below(2 * ring) & !7,
        6 => u64::MAX - random.below(64),
        7 => (random.below(MESSAGE_BYTES_MAX as u64 + 2) << 32) | random.below(1 << 20),
        // Method, kind and status of a header.
        _ => random.below(4) | random.below(6) << 16 | random.below(5) << 24,
    }
}

#[test]
fn scribbling_over_its_own_memory_harms_only_the_scribbler() {
    let node = TestNode::start("scribble");
    let bystander = Bystander::of(&node);
    let (mut random, mut mutations) = (Seeded::new(2024), 0u64);
    let mut round = 0u64;
    while mutations < 1_100_000 {
        let window = [0, 4, 16][round as usize % 3];
        let raw = Raw::connect(&node.path, RING, window);
        let mut writer = raw.writer();
        let words = raw.inbound.bytes() as u64 / 8;
        for _ in 0..1 + random.below(8) {
            for id in 0..random.below(4) {
                let body = vec![7; random.below(600) as usize];
                let kind = [Kind::Request, Kind::OneWay][id as usize % 2];
                let _ = writer.push(&header(kind, id, 1, body.len() as u32, 0), &body);
            }
            for _ in 0..random.below(400) {
                // Often where the node looks: the control words, the lines' first words, the slots.
                let at = match random.below(4) {
                    0 => random.below(16) * 8,
                    1 => 4096 + random.below(u64::from(RING) / 64) * 64,
                    2 if window > 0 => 4096 + u64::from(RING) + random.below(u64::from(window)) * 1024,
                    _ => random.below(words) * 8,
                };
                raw.inbound.store_word(at, forged_word(&mut random, &raw), Ordering::Relaxed).unwrap();
                mutations += 1;
            }
            raw.ring();
        }
        round += 1;
    }
    bystander.is_served();
    drop(bystander);
    assert!(node.expelled() > 100, "hardly any of {round} scribblers was found out: {}", node.expelled());
    until("the scribblers to be freed", || node.peers() == 0);
    println!("{mutations} mutations by {round} clients, {} sent away", node.expelled());
}

/// Writes one message whose every field is given, with its arrival word.
fn forge(raw: &Raw, at: u64, arrival: Arrival, header: &MessageHeader) {
    let base = raw.shape.inbound_ring() as u64 + at;
    raw.inbound.store(base + ARRIVAL_BYTES as u64, header.as_bytes()).unwrap();
    raw.inbound.store_word(base, arrival.to_bits(), Ordering::Release).unwrap();
}

#[test]
fn forged_messages_end_the_connection() {
    let node = TestNode::start("forged");
    let bystander = Bystander::of(&node);
    let fine = header(Kind::Request, 1, 1, 8, 0);
    let first = |bytes| Arrival { bytes, number: 1 };
    let with = |change: fn(&mut MessageHeader)| {
        let mut header = fine;
        change(&mut header);
        header
    };
    let forgeries: Vec<(&str, Arrival, MessageHeader)> = vec![
        ("no room for a header", first(23), fine),
        ("no bytes", first(0), fine),
        ("longer than a piece", first(2_000), fine),
        ("longer than the ring", first(1 << 30), fine),
        ("the longest that can be said", first(u32::MAX - 1), fine),
        ("a wrap at the start", first(Arrival::WRAP), fine),
        ("another number", Arrival { bytes: 32, number: 2 }, fine),
        ("a number far ahead", Arrival { bytes: 32, number: 1 << 30 }, fine),
        ("no kind", first(32), with(|header| header.kind = 0)),
        ("an unknown kind", first(32), with(|header| header.kind = 77)),
        ("a reply", first(32), with(|header| header.kind = Kind::Reply as u8)),
        ("nothing to abandon", first(32), with(|header| header.kind = Kind::Abandoned as u8)),
        ("a total below the piece", first(32), with(|header| header.total_bytes = 4.into())),
        ("too large a total", first(32), with(|header| header.total_bytes = u32::MAX.into())),
        ("an offset past the total", first(32), with(|header| header.piece_offset = 4.into())),
        ("an offset that wraps", first(32), with(|header| header.piece_offset = u32::MAX.into())),
        (
            "a second piece first",
            first(32),
            with(|header| {
                header.total_bytes = 100.into();
                header.piece_offset = 50.into();
            }),
        ),
        ("an empty piece", first(24), with(|header| header.total_bytes = 100.into())),
    ];
    for (what, arrival, header) in &forgeries {
        let (raw, before) = (Raw::connect(&node.path, RING, 0), node.expelled());
        forge(&raw, 0, *arrival, header);
        raw.until_sent_away();
        assert!(node.expelled() > before, "{what}: the client was not sent away");
    }
    bystander.is_served();
}

#[test]
fn forged_slots_end_the_connection() {
    let node = TestNode::start("slots");
    let bystander = Bystander::of(&node);
    let slot_of = |raw: &Raw| raw.shape.request_slot(0) as u64;
    let forgeries: [(&str, u64, u8); 6] = [
        ("no room for a header", Arrival { bytes: 8, number: 1 }.to_bits(), Kind::Request as u8),
        ("longer than a slot", Arrival { bytes: 1_017, number: 1 }.to_bits(), Kind::Request as u8),
        ("a lap out of turn", Arrival { bytes: 32, number: 3 }.to_bits(), Kind::Request as u8),
        ("a message that is no request", Arrival { bytes: 32, number: 1 }.to_bits(), Kind::OneWay as u8),
        ("no kind", Arrival { bytes: 32, number: 1 }.to_bits(), 0),
        ("an unknown kind", Arrival { bytes: 32, number: 1 }.to_bits(), 200),
    ];
    for (what, arrival, kind) in forgeries {
        let (raw, before) = (Raw::connect(&node.path, RING, 4), node.expelled());
        let mut header = header(Kind::Request, 1, 1, 8, 0);
        header.kind = kind;
        raw.inbound.store(slot_of(&raw) + 8, header.as_bytes()).unwrap();
        raw.inbound.store_word(slot_of(&raw), arrival, Ordering::Release).unwrap();
        raw.until_sent_away();
        assert!(node.expelled() > before, "{what}: the client was not sent away");
    }
    // A slot used again before its request was answered (method 2 never is).
    let (raw, before) = (Raw::connect(&node.path, RING, 1), node.expelled());
    for lap in 1..=2u32 {
        raw.inbound.store(slot_of(&raw) + 8, header(Kind::Request, 1, 2, 0, 0).as_bytes()).unwrap();
        let arrival = Arrival { bytes: 24, number: lap }.to_bits();
        raw.inbound.store_word(slot_of(&raw), arrival, Ordering::Release).unwrap();
        raw.ring();
        if lap == 1 {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    raw.until_sent_away();
    assert!(node.expelled() > before);
    bystander.is_served();
}

#[test]
fn halves_of_messages_are_bounded_and_freed() {
    let node = TestNode::start("halves");
    let bystander = Bystander::of(&node);
    // Half a message and then silence: nothing happens, and it is freed with the client.
    let silent = Raw::connect(&node.path, RING, 0);
    silent.writer().push(&header(Kind::Request, 1, 1, MESSAGE_BYTES_MAX as u32, 0), &[1; 500]).unwrap();
    silent.ring();
    // Too many of them: the client is sent away.
    let many = Raw::connect(&node.path, 64 << 10, 0);
    let (mut writer, before) = (many.writer(), node.expelled());
    for id in 0..65 {
        let _ = writer.push(&header(Kind::OneWay, id, 0, 1 << 20, 0), &[1; 100]);
    }
    many.until_sent_away();
    assert_eq!(node.expelled(), before + 1);
    bystander.is_served();
    assert_eq!(node.peers(), 2, "silence alone sends nobody away");
    drop(silent);
    until("the silent client to be freed", || node.peers() == 1);
}

#[test]
fn a_lying_reader_hurts_only_itself() {
    let node = TestNode::start("lying");
    let bystander = Bystander::of(&node);
    for lie in [0, 1, 8, 63, 1 << 20, 1 << 40, u64::MAX, u64::MAX - 4095] {
        let raw = Raw::connect(&node.path, RING, 0);
        let mut writer = raw.writer();
        let since = Instant::now();
        let mut sent = 0u64;
        while sent < 2_000 && since.elapsed() < Duration::from_millis(60) {
            raw.inbound.store_word(0, lie, Ordering::Relaxed).unwrap();
            match writer.push(&header(Kind::Request, sent, 1, 64, 0), &[3; 64]) {
                Ok(()) => sent += 1,
                Err(Full) => raw.ring(),
            }
        }
    }
    bystander.is_served();
}

/// Empty requests whose empty answers nobody takes: the node must not collect them for ever.
#[test]
fn answers_that_nobody_takes_are_bounded() {
    let node = TestNode::start("untaken");
    let bystander = Bystander::of(&node);
    let raw = Raw::connect(&node.path, 64 << 10, 0);
    let mut writer = raw.writer();
    let (mut sent, mut last) = (0u64, Instant::now());
    // Either the node takes no more of them, or it sends the client away; not millions of them.
    while last.elapsed() < Duration::from_millis(500) {
        match writer.push(&header(Kind::Request, sent, 1, 0, 0), &[]) {
            Ok(()) => (sent, last) = (sent + 1, Instant::now()),
            Err(Full) => raw.ring(),
        }
        assert!(sent < 100_000, "the node took {sent} requests and holds their answers");
    }
    println!("{sent} requests taken, then no more");
    bystander.is_served();
}

#[test]
fn wrong_hellos_are_refused_in_words() {
    let node = TestNode::start("hello");
    let bystander = Bystander::of(&node);
    let answer = |packet: &[u8]| {
        let socket = raw_socket(&node.path).unwrap();
        send_packet(&socket, packet, &[]).unwrap();
        let (bytes, files) = receive_packet(&socket)?;
        assert!(files.is_empty(), "a refusal came with descriptors");
        let welcome = ShmWelcome::read_from_bytes(&bytes).expect("a welcome");
        Refusal::from_bits(welcome.status.get())
    };
    for bytes in [1, 8, 16, 23, 25, 40, 63, 64] {
        assert_eq!(answer(&vec![0x42; bytes]), Some(Refusal::NotBarn), "{bytes} bytes");
    }
    // Longer than any packet: not even looked at.
    for bytes in [65, 1_000, 60_000] {
        assert_eq!(answer(&vec![0x42; bytes]), None, "{bytes} bytes");
    }
    let mut wrong = hello(RING, 0);
    wrong.magic[0] ^= 1;
    assert_eq!(answer(wrong.as_bytes()), Some(Refusal::NotBarn));
    for version in [0u16, 2, u16::MAX] {
        let mut wrong = hello(RING, 0);
        wrong.version = version.into();
        assert_eq!(answer(wrong.as_bytes()), Some(Refusal::Version), "version {version}");
    }
    let shapes =
        [(1, 0), (4095, 0), (6 << 10, 0), (32 << 20, 0), (u32::MAX, 0), (RING, 1025), (RING, u32::MAX)];
    for (ring, window) in shapes {
        assert_eq!(answer(hello(ring, window).as_bytes()), Some(Refusal::Shape), "{ring} {window}");
    }
    bystander.is_served();
}

/// How many descriptors of this process, in which the node runs, are of a memory file.
fn descriptors_of(name: &str) -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().contains(name)).count()
}

#[test]
fn descriptors_sent_along_are_not_kept() {
    let node = TestNode::start("descriptors");
    let witness = node.client();
    echo(&witness, b"before");
    let file = rustix::fs::memfd_create("barn-gift", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    for count in [1, 4, 5, 30, 200] {
        let gifts = vec![file.as_fd(); count];
        // With the hello, and with a packet to open a region.
        let socket = raw_socket(&node.path).unwrap();
        send_packet(&socket, hello(RING, 0).as_bytes(), &gifts).unwrap();
        drop(receive_packet(&socket));
        drop(socket);
        let raw = Raw::connect(&node.path, RING, 0);
        let open = barn_layout::handshake::ShmOpen { id: 7.into(), region: 1.into(), rights: 1.into() };
        send_packet(&raw.socket, open.as_bytes(), &gifts).unwrap();
        drop(raw.opened());
    }
    assert!(descriptors_of("barn-gift") > 0);
    drop(file);
    until("the givers to be freed", || node.peers() == 1);
    echo(&witness, b"after");
    until("the descriptors to be closed", || descriptors_of("barn-gift") == 0);
}

#[test]
fn a_client_that_reads_no_answers_waits_for_itself() {
    let node = TestNode::start("unread");
    let bystander = Bystander::of(&node);
    let raw = Raw::connect(&node.path, RING, 0);
    // Until the client's own packets find no room: the node has stopped taking them.
    let (mut sent, mut last) = (0u64, Instant::now());
    while last.elapsed() < Duration::from_millis(300) {
        match raw.open(sent + 1, 99, 1) {
            Ok(()) => (sent, last) = (sent + 1, Instant::now()),
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("after {sent}: {error}"),
        }
        assert!(sent < 50_000, "the node takes packets without end");
    }
    bystander.is_served();
    // As soon as it reads, everything goes on, and nothing was lost.
    for id in 1..=sent {
        let (answer, _) = raw.opened().expect("an answer for each");
        assert_eq!(answer.id.get(), id);
    }
    bystander.is_served();
}

#[test]
fn a_storm_of_opens_and_closes_is_weathered() {
    let node = TestNode::start("opens");
    let bystander = Bystander::of(&node);
    let mut random = Seeded::new(7);
    for _ in 0..4 {
        let raw = Raw::connect(&node.path, RING, 0);
        let (mut asked, mut answered) = (0u64, 0u64);
        while asked < 3_000 {
            let packet = match random.below(3) {
                // Closes, of places that it has and that it has not.
                0 => raw.open(0, random.below(2 * REGIONS_PER_PEER_MAX as u64) as u32, 0),
                1 => raw.open(0, random.next() as u32, 0),
                _ => raw.open(asked + 1, random.below(4) as u32, random.below(16) as u32),
            };
            match packet {
                Ok(()) => asked += 1,
                Err(Errno::AGAIN) => std::thread::sleep(Duration::from_micros(20)),
                Err(error) => panic!("{error}"),
            }
            // Reads about as fast as it asks.
            let mut watched =
                [rustix::event::PollFd::from_borrowed_fd(raw.socket.as_fd(), rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            if rustix::event::poll(&mut watched, Some(&now)).unwrap() > 0 {
                answered += u64::from(raw.opened().is_some());
            }
        }
        assert!(answered > 100, "{answered} of {asked}");
    }
    bystander.is_served();
    drop(bystander);
    until("the stormers to be freed", || node.peers() == 0);
}

#[test]
fn a_storm_of_connections_is_weathered() {
    // Both ends of each are in this process.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let more = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, more);
    let count = if limit.maximum.is_none_or(|most| most >= 8_192) { 1_000 } else { 200 };
    let node = TestNode::start("storm");
    let bystander = Bystander::of(&node);
    let storm: Vec<_> = (0..8)
        .map(|thread| {
            let path = node.path.clone();
            std::thread::spawn(move || {
                let mut held: Vec<OwnedFd> = Vec::new();
                for number in 0..count / 8 {
                    let Ok(socket) = raw_socket(&path) else { continue };
                    match (thread + number) % 4 {
                        // Silent; half a hello; garbage; a proper one, whose answer nobody reads.
                        0 => {}
                        1 => drop(send_packet(&socket, &hello(RING, 0).as_bytes()[..12], &[])),
                        2 => drop(send_packet(&socket, &[0xff; 24], &[])),
                        _ => drop(send_packet(&socket, hello(RING, 0).as_bytes(), &[])),
                    }
                    held.push(socket);
                }
                held
            })
        })
        .collect();
    let held: Vec<Vec<OwnedFd>> = storm.into_iter().map(|thread| thread.join().unwrap()).collect();
    bystander.is_served();
    // With all of them still there, a newcomer gets in.
    echo(&node.client(), b"a newcomer");
    drop(held);
    until("the storm to pass", || node.peers() == 1);
    echo(&node.client(), b"after the storm");
}

/// What a process can try with a memory file that it may only read.
fn attack_read_only(file: &OwnedFd, what: &str) {
    assert!(map_shared(file.as_fd(), 4096, true).is_err(), "{what}: mapped writable");
    assert!(rustix::io::write(file, b"x").is_err(), "{what}: written");
    assert!(rustix::fs::ftruncate(file, 0).is_err(), "{what}: shrunk");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Ok(again) = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        assert!(map_shared(again.as_fd(), 4096, true).is_err(), "{what}: reopened and mapped writable");
        assert!(rustix::io::pwrite(&again, b"x", 0).is_err(), "{what}: reopened and written");
        attack_length(&again, what);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&again, punch, 0, 4096).is_err(), "{what}: a hole was punched");
        assert!(
            rustix::fs::fallocate(&again, FallocateFlags::ZERO_RANGE, 0, 4096).is_err(),
            "{what}: zeroed"
        );
    }
}

/// What nobody may do with any memory file.
fn attack_length(file: &OwnedFd, what: &str) {
    let bytes = rustix::fs::fstat(file).unwrap().st_size as u64;
    for length in [0, 1, bytes - 1, bytes / 2, bytes + 1, 1 << 30] {
        assert!(rustix::fs::ftruncate(file, length).is_err(), "{what}: {length} bytes long now");
    }
    assert!(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes + 4096).is_err(), "{what}: grown");
    assert!(rustix::fs::fcntl_add_seals(file, SealFlags::WRITE).is_err(), "{what}: sealed by a stranger");
}

#[test]
fn memory_files_resist_their_holders() {
    let node = TestNode::start("files");
    let bystander = Bystander::of(&node);
    let raw = Raw::connect(&node.path, RING, 4);
    attack_read_only(&raw.files[1], "the outbound half");
    attack_read_only(&raw.files[2], "the node page");
    attack_length(&raw.files[0], "the inbound half");
    raw.open(1, 1, Rights::READ.to_bits()).unwrap();
    let (answer, files) = raw.opened().unwrap();
    assert_eq!((answer.outcome.get(), files.len()), (0, 1));
    attack_read_only(&files[0], "a region that may be read");
    raw.open(2, 2, Rights::ALL.to_bits()).unwrap();
    let (_, files) = raw.opened().unwrap();
    attack_length(&files[0], "a region that may be written");
    // Its own inbound half it may punch holes into: the node reads zeros there, and goes on.
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let mut writer = raw.writer();
    for round in 0..200u64 {
        let _ = writer.push(&header(Kind::Request, round, 1, 64, 0), &[1; 64]);
        rustix::fs::fallocate(&raw.files[0], punch, 0, raw.shape.inbound_bytes() as u64).unwrap();
        raw.ring();
    }
    bystander.is_served();
}

/// A client that changes the flags of what it shares with the node must not make it block.
#[test]
fn a_bell_cannot_hold_the_node_up() {
    let node = TestNode::start("bell");
    let bystander = Bystander::of(&node);
    let raw = Raw::connect(&node.path, RING, 0);
    rustix::io::ioctl_fionbio(&raw.bell, false).unwrap();
    let mut writer = raw.writer();
    let mut reader = raw.reader();
    // It says all the time that it sleeps, is rung for each answer, and never listens.
    for round in 0..5_000u64 {
        raw.inbound.store_word(64, 1, Ordering::Relaxed).unwrap();
        while writer.push(&header(Kind::Request, round, 1, 8, 0), &[1; 8]).is_err() {
            raw.ring();
            while reader.pop(&mut Vec::new()).unwrap().is_some() {}
        }
        raw.ring();
        while reader.pop(&mut Vec::new()).unwrap().is_some() {}
    }
    // And rings without end, whether the node sleeps or not.
    for _ in 0..100_000 {
        raw.ring();
    }
    bystander.is_served();
    let _: &Connection = &node.client();
}
