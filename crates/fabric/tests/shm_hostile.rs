//! Clients that attack: each ends in a clear error or is sent away, what it had is freed, and
//! the node serves the others.

mod common;

use barn_fabric::region::{Ordering, map_shared};
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{ConnectError, Connection, OpenError, Rights};
use barn_layout::frame::Outcome;
use barn_layout::handshake::{Refusal, ShmHello, ShmOpened, ShmWelcome, VERSION};
use barn_layout::limits::{LINE_BYTES, MESSAGE_BYTES_MAX, REGIONS_PER_PEER_MAX};
use barn_layout::message::{Arrival, Kind, MessageHeader, cell_bytes};
use common::raw::{DESCRIPTORS_MAX, Raw, dial, hello, is_gone, piece, receive, send, until_gone, whole};
use common::{
    Dir, ECHO, HOLD, Process, READABLE, REGION_BYTES, WRITABLE, client, counts, echo, in_slots, options,
    until,
};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Order};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

/// A node under attack, with an honest client that calls all the time.
struct Siege {
    dir: Dir,
    node: Process,
    honest: Connection,
    descriptors: usize,
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    caller: Option<std::thread::JoinHandle<()>>,
    _turn: Turn,
}

/// Descriptors on their way are counted by user: a node with few must not run beside a test that
/// leaves many unread.
static TURNS: RwLock<()> = RwLock::new(());

enum Turn {
    Together { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

impl Turn {
    fn together() -> Self {
        Self::Together { _guard: TURNS.read().unwrap_or_else(|failed| failed.into_inner()) }
    }

    fn alone() -> Self {
        Self::Alone { _guard: TURNS.write().unwrap_or_else(|failed| failed.into_inner()) }
    }
}

impl Siege {
    fn start() -> Self {
        Self::start_as("role_node", Turn::together())
    }

    fn start_as(role: &str, turn: Turn) -> Self {
        let dir = Dir::new();
        let node = Process::start_node_as(role, &dir.socket());
        let honest = client(&dir.socket(), options());
        let other = client(&dir.socket(), in_slots());
        until("only the honest are connected", || counts(&honest).peers == 2);
        let descriptors = node.descriptors();
        let (calls, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, told) = (calls.clone(), stop.clone());
        let caller = std::thread::spawn(move || {
            let mut random = Seeded::new(2);
            while !told.load(Order::Relaxed) {
                let body = vec![random.next() as u8; random.below(1500) as usize];
                assert!(echo(&other, &body), "an honest client was disturbed");
                counted.fetch_add(1, Order::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self { dir, node, honest, descriptors, calls, stop, caller: Some(caller), _turn: turn }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.dir.socket()
    }

    /// The others are served, as ever.
    fn serves(&self) {
        let goal = self.calls.load(Order::Relaxed) + 3;
        until("the honest are served", || self.calls.load(Order::Relaxed) >= goal);
        assert!(echo(&self.honest, &[5; 3000]), "an honest client was disturbed");
    }

    /// The attackers are gone, and nothing of theirs is left.
    fn end(mut self) {
        self.serves();
        self.honest.open(READABLE, Rights::READ).wait().expect("an honest client opens a region");
        until("the attackers are freed", || counts(&self.honest).peers == 2);
        until("their descriptors are freed", || self.node.descriptors() == self.descriptors);
        self.stop.store(true, Order::Relaxed);
        self.caller.take().expect("not yet ended").join().expect("the honest were never disturbed");
    }
}

impl Drop for Siege {
    fn drop(&mut self) {
        self.stop.store(true, Order::Relaxed);
    }
}

/// What a node says to a first packet; `None` if it only hangs up.
fn refusal(socket: &Path, packet: &[u8]) -> Option<Refusal> {
    let socket = dial(socket);
    send(&socket, packet, &[]).expect("the node listens");
    let (answer, files) = receive(&socket)?;
    assert!(files.is_empty(), "a refused client was handed descriptors");
    let welcome = ShmWelcome::read_from_bytes(&answer).expect("a welcome");
    until_gone("was refused", &socket);
    Some(Refusal::from_bits(welcome.status.get()).expect("a refusal"))
}

#[test]
fn first_packets_that_are_no_hello_are_refused() {
    let siege = Siege::start();
    let socket = siege.socket();
    let good = hello();
    for bytes in (1..=64).filter(|bytes| *bytes != ShmHello::BYTES) {
        let mut packet = good.as_bytes().to_vec();
        packet.resize(bytes, 0);
        assert_eq!(refusal(&socket, &packet), Some(Refusal::NotBarn), "{bytes} bytes");
    }
    // Nothing at all, and more than any packet has: no answer is owed.
    assert_eq!(refusal(&socket, &[]), None);
    assert_eq!(refusal(&socket, &[1; 65]), None);
    assert_eq!(refusal(&socket, &[1; 60_000]), None);
    for at in 0..8 {
        let mut forged = good;
        forged.magic[at] ^= 0x20;
        assert_eq!(refusal(&socket, forged.as_bytes()), Some(Refusal::NotBarn));
    }
    for version in [0, VERSION - 1, VERSION + 1, u16::MAX] {
        let forged = ShmHello { version: version.into(), ..good };
        assert_eq!(refusal(&socket, forged.as_bytes()), Some(Refusal::Version));
    }
    for ring_bytes in [1, 64, 2048, 4095, 4097, 12 << 10, 32 << 20, 1 << 31, u32::MAX] {
        let forged = ShmHello { ring_bytes: ring_bytes.into(), ..good };
        assert_eq!(refusal(&socket, forged.as_bytes()), Some(Refusal::Shape), "{ring_bytes}");
    }
    for window in [1025, 1 << 20, u32::MAX] {
        let forged = ShmHello { window: window.into(), ..good };
        assert_eq!(refusal(&socket, forged.as_bytes()), Some(Refusal::Shape), "{window}");
    }
    siege.end();
}

/// A hostile deed, in words, and the deed.
type Deed = (&'static str, fn(&mut Raw));

/// Every one of these is garbage for certain: whoever does it is expelled.
const DEEDS: &[Deed] = &[
    ("sends less than a header", |raw| raw.arrive(raw.shape.inbound_ring(), 5, 1)),
    ("sends nothing", |raw| raw.arrive(raw.shape.inbound_ring(), 0, 1)),
    ("sends more than a piece", |raw| raw.arrive(raw.shape.inbound_ring(), 1024, 1)),
    ("claims a huge length", |raw| raw.arrive(raw.shape.inbound_ring(), u32::MAX - 1, 1)),
    ("wraps at the start", |raw| raw.arrive(raw.shape.inbound_ring(), Arrival::WRAP, 1)),
    ("wraps twice", |raw| {
        raw.push(whole(1, Kind::OneWay, 0, 0), &[]);
        raw.inbound
            .store_word(
                raw.shape.inbound_ring() as u64,
                Arrival { bytes: Arrival::WRAP, number: 3 }.to_bits(),
                Ordering::Relaxed,
            )
            .expect("in bounds");
        raw.arrive(raw.shape.inbound_ring() + LINE_BYTES, Arrival::WRAP, 2);
    }),
    ("leaves a number out", |raw| raw.arrive(raw.shape.inbound_ring(), 24, 2)),
    ("is far ahead", |raw| raw.arrive(raw.shape.inbound_ring(), 24, 1 << 30)),
    ("crosses the end of the ring", |raw| {
        let lines = raw.shape.ring_bytes / LINE_BYTES;
        for id in 1..lines {
            until("there is room", || raw.push(whole(id as u64, Kind::OneWay, 0, 0), &[]));
        }
        raw.arrive(raw.shape.inbound_ring() + raw.shape.ring_bytes - LINE_BYTES, 100, lines as u32);
    }),
    ("sends kind 0", |raw| forge(raw, |header| header.kind = 0)),
    ("sends a reply", |raw| forge(raw, |header| header.kind = Kind::Reply as u8)),
    ("sends kind 99", |raw| forge(raw, |header| header.kind = 99)),
    ("sends a brief reply", |raw| raw.arrive(raw.shape.inbound_ring(), 16 | Arrival::BRIEF, 1)),
    ("sends less than a brief header", |raw| raw.arrive(raw.shape.inbound_ring(), 7 | Arrival::BRIEF, 1)),
    ("sends a long brief message", |raw| raw.arrive(raw.shape.inbound_ring(), 57 | Arrival::BRIEF, 1)),
    ("is brief in a slot", |raw| raw.arrive(raw.shape.request_slot(0), 24 | Arrival::BRIEF, 1)),
    ("abandons what it never began", |raw| forge(raw, |header| header.kind = Kind::Abandoned as u8)),
    ("claims more than the longest message", |raw| {
        forge(raw, |header| header.total_bytes = (MESSAGE_BYTES_MAX as u32 + 1).into())
    }),
    ("claims the largest number", |raw| forge(raw, |header| header.total_bytes = u32::MAX.into())),
    ("sends more than the whole", |raw| forge(raw, |header| header.total_bytes = 3.into())),
    ("begins in the middle", |raw| {
        forge(raw, |header| *header = piece(9, 100, 8));
    }),
    ("begins past the end", |raw| {
        forge(raw, |header| *header = piece(9, 100, u32::MAX));
    }),
    ("sends an empty piece", |raw| {
        raw.push(piece(9, 100, 0), &[]);
    }),
    ("leaves a piece out", |raw| {
        raw.push(piece(9, 100, 0), &[0; 8]);
        raw.push(piece(9, 100, 16), &[0; 8]);
    }),
    ("sends a piece twice", |raw| {
        raw.push(piece(9, 100, 0), &[0; 8]);
        raw.push(piece(9, 100, 0), &[0; 8]);
    }),
    ("shortens what it began", |raw| {
        raw.push(piece(9, 100, 0), &[0; 32]);
        raw.push(piece(9, 20, 32), &[0; 8]);
    }),
    ("begins 65 messages", |raw| {
        for id in 0..65 {
            until("there is room", || raw.push(piece(id, 1000, 0), &[0; 8]) || is_gone(&raw.socket));
        }
    }),
    ("puts a short request into a slot", |raw| raw.arrive(raw.shape.request_slot(0), 5, 1)),
    ("puts a long request into a slot", |raw| raw.arrive(raw.shape.request_slot(0), 1017, 1)),
    ("wraps in a slot", |raw| raw.arrive(raw.shape.request_slot(0), Arrival::WRAP, 1)),
    ("skips a lap of a slot", |raw| raw.arrive(raw.shape.request_slot(0), 24, 7)),
    ("puts a message into a slot", |raw| {
        raw.head(raw.shape.request_slot(0), &whole(1, Kind::OneWay, 0, 0));
        raw.arrive(raw.shape.request_slot(0), 24, 1);
    }),
    ("uses a slot before its answer", |raw| {
        for lap in 1..=2 {
            for slot in 0..raw.shape.window {
                let at = raw.shape.request_slot(slot);
                raw.head(at, &whole(slot as u64, Kind::Request, HOLD, 0));
                raw.arrive(at, 24, lap);
            }
            // The first lap must have been taken, or the second would only replace it.
            std::thread::sleep(Duration::from_millis(20));
        }
    }),
    ("sends half a control packet", |raw| send(&raw.socket, &[0; 8], &[]).expect("sent")),
    ("sends a control packet too long", |raw| send(&raw.socket, &[0; 17], &[]).expect("sent")),
    ("sends a huge control packet", |raw| send(&raw.socket, &[0; 4096], &[]).expect("sent")),
    ("sends an empty control packet", |raw| send(&raw.socket, &[], &[]).expect("sent")),
    ("attaches many descriptors", |raw| {
        let files = vec![raw.files[0].as_fd(); DESCRIPTORS_MAX];
        send(&raw.socket, &[0; 16], &files).expect("sent");
    }),
    ("closes its bell", |raw| raw.bell = None),
    ("half-closes its bell", |raw| {
        let bell = raw.bell.as_ref().expect("a bell");
        rustix::net::shutdown(bell, Shutdown::Write).expect("shut");
    }),
    ("half-closes its socket", |raw| rustix::net::shutdown(&raw.socket, Shutdown::Write).expect("shut")),
];

/// Sends a message of 8 bytes with a forged header.
fn forge(raw: &mut Raw, forge: fn(&mut MessageHeader)) {
    let mut header = whole(1, Kind::OneWay, 0, 8);
    forge(&mut header);
    raw.push(header, &[0; 8]);
}

#[test]
fn forged_messages_and_packets_expel_their_sender() {
    let siege = Siege::start();
    for (what, deed) in DEEDS {
        let mut raw = Raw::join(&siege.socket());
        deed(&mut raw);
        until_gone(what, &raw.socket);
        siege.serves();
    }
    siege.end();
}

/// What is wrong but harms only its sender is let be: it waits for itself.
#[test]
fn lying_counters_hold_up_only_the_liar() {
    let siege = Siege::start();
    for lie in [u64::MAX, 1, 63, 64, 4096, 1 << 40] {
        let mut raw = Raw::join(&siege.socket());
        raw.inbound.store_word(0, lie, Ordering::Relaxed).expect("in bounds");
        raw.inbound.store_word(64, u64::MAX, Ordering::Relaxed).expect("in bounds");
        // Far more answers than the ring holds: none is ever consumed for real.
        for id in 0..500 {
            raw.push(whole(id, Kind::Request, ECHO, 800), &[1; 800]);
            if id % 50 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        siege.serves();
    }
    // An old number where the next is awaited is no message.
    let raw = Raw::join(&siege.socket());
    raw.arrive(raw.shape.inbound_ring(), 24, u32::MAX);
    siege.serves();
    assert!(!is_gone(&raw.socket));
    drop(raw);
    siege.end();
}

#[test]
fn descriptors_on_packets_are_thrown_away() {
    let siege = Siege::start();
    let file = std::fs::File::open("/dev/null").expect("a file");
    for count in [1, 4, DESCRIPTORS_MAX] {
        let files: Vec<BorrowedFd<'_>> = vec![file.as_fd(); count];
        let newcomer = dial(&siege.socket());
        send(&newcomer, hello().as_bytes(), &files).expect("sent");
        // With no more than a packet may carry it is a hello like any other.
        assert_eq!(receive(&newcomer).is_some(), count <= 4, "{count}");
        let raw = Raw::join(&siege.socket());
        for id in 1..=100 {
            let open = barn_layout::handshake::ShmOpen {
                id: id.into(),
                region: READABLE.0.into(),
                rights: Rights::READ.to_bits().into(),
            };
            if send(&raw.socket, open.as_bytes(), &files).is_err() {
                break;
            }
        }
        siege.serves();
    }
    siege.end();
}

#[test]
fn a_client_that_reads_no_answers_waits_for_itself() {
    let siege = Siege::start();
    let greedy = Raw::join(&siege.socket());
    let mut asked = 0u64;
    let full = loop {
        match greedy.ask(asked + 1, READABLE.0, Rights::READ.to_bits()) {
            Ok(()) => asked += 1,
            // Full for long: the node has stopped taking packets.
            Err(Errno::AGAIN) => {
                std::thread::sleep(Duration::from_millis(20));
                if greedy.ask(asked + 1, READABLE.0, Rights::READ.to_bits()).is_err() {
                    break asked;
                }
                asked += 1;
            }
            Err(error) => panic!("the node hung up: {error}"),
        }
        assert!(asked < 100_000, "the node takes packets whose answers nobody reads");
    };
    siege.serves();
    siege.honest.open(READABLE, Rights::READ).wait().expect("others open regions meanwhile");
    // Every answer comes, in order, once it is read.
    for id in 1..=full {
        let (opened, files) = greedy.opened();
        assert_eq!(opened.id.get(), id);
        let granted = id <= REGIONS_PER_PEER_MAX as u64;
        let expected = if granted { Outcome::Done } else { Outcome::TooManyRegions };
        assert_eq!((opened.outcome.get(), files.len()), (expected as u32, usize::from(granted)));
    }
    drop(greedy);
    // The same, and gone in the middle of it.
    let greedy = Raw::join(&siege.socket());
    while greedy.ask(1, READABLE.0, Rights::READ.to_bits()).is_ok() {}
    drop(greedy);
    siege.end();
}

#[test]
fn regions_opened_and_closed_in_a_storm_disturb_nobody() {
    let siege = Siege::start();
    let raw = Raw::join(&siege.socket());
    let close = |slot: u32| {
        until("the node takes packets", || raw.ask(0, slot, 0) != Err(Errno::AGAIN));
    };
    // Places that were never given, and some that cannot be.
    for slot in [0, 1, 1023, 1024, 1 << 20, u32::MAX] {
        close(slot);
    }
    for id in 1..=5_000u64 {
        raw.ask(id, READABLE.0 + (id % 2) as u32, Rights::READ.to_bits()).expect("the node reads packets");
        let (opened, files) = raw.opened();
        assert_eq!((opened.outcome.get(), files.len()), (Outcome::Done as u32, 1));
        close(opened.slot.get());
    }
    // Rights that mean nothing, regions that do not exist, rights that are not granted.
    let outcome = |region, rights| {
        raw.ask(7, region, rights).expect("the node reads packets");
        let (opened, files): (ShmOpened, Vec<OwnedFd>) = raw.opened();
        (opened.outcome.get(), files.len())
    };
    assert_eq!(outcome(99, 1), (Outcome::NoSuchRegion as u32, 0));
    assert_eq!(outcome(u32::MAX, 1), (Outcome::NoSuchRegion as u32, 0));
    assert_eq!(outcome(READABLE.0, Rights::ALL.to_bits()), (Outcome::NoRight as u32, 0));
    assert_eq!(outcome(READABLE.0, Rights::WRITE.to_bits()), (Outcome::NoRight as u32, 0));
    drop(raw);
    siege.end();
}

#[test]
fn a_storm_of_connections_leaves_the_node_serving() {
    let siege = Siege::start();
    let socket = siege.socket();
    let mut held = Vec::new();
    for number in 0..1000 {
        let newcomer = dial(&socket);
        match number % 4 {
            // Silent, for as long as it may.
            0 | 1 => {}
            2 => send(&newcomer, hello().as_bytes(), &[]).expect("sent"),
            _ => send(&newcomer, b"GET / HTTP/1.1\r\n\r\n", &[]).expect("sent"),
        }
        held.push(newcomer);
    }
    siege.serves();
    let late = client(&socket, options());
    assert!(echo(&late, b"let in during the storm"));
    drop(held);
    // And a storm that comes and goes.
    for number in 0..1000 {
        let newcomer = dial(&socket);
        if number % 2 == 0 {
            send(&newcomer, hello().as_bytes(), &[]).expect("sent");
        }
    }
    siege.serves();
    drop(late);
    siege.end();
}

/// Descriptors of the node below: a few for itself, and two for each of some clients.
const DESCRIPTORS_FEW: u64 = 48;

#[test]
#[ignore = "a process of the other tests"]
fn role_poor_node() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let few = Rlimit { current: Some(DESCRIPTORS_FEW), maximum: Some(DESCRIPTORS_FEW) };
    if std::env::var_os(common::SOCKET).is_some() {
        setrlimit(Resource::Nofile, few).expect("a limit may be lowered");
        // The system holds root to fewer limits, and counts by user: it becomes one of its own. Who
        // is not root cannot, and need not.
        let own = rustix::process::Uid::from_raw(100_000 + std::process::id());
        let _ = rustix::thread::set_thread_uid(own);
    }
    common::serve();
}

#[test]
fn a_node_without_a_descriptor_left_says_so_and_recovers() {
    let siege = Siege::start_as("role_poor_node", Turn::alone());
    let socket = siege.socket();
    for _ in 0..3 {
        let (mut inside, mut handed) = (Vec::new(), Vec::new());
        // As many as fit, half of them silent; from then on every newcomer is turned away.
        let refused = loop {
            assert!(inside.len() < DESCRIPTORS_FEW as usize, "more clients than descriptors");
            inside.push(dial(&socket));
            let newcomer = dial(&socket);
            // Turned away on the doorstep, perhaps before it can say hello.
            let _ = send(&newcomer, hello().as_bytes(), &[]);
            let (answer, files) = receive(&newcomer).expect("the node answers");
            let welcome = ShmWelcome::read_from_bytes(&answer).expect("a welcome");
            match Refusal::from_bits(welcome.status.get()) {
                None => assert_eq!(files.len(), 4),
                Some(refusal) => break refusal,
            }
            inside.push(newcomer);
            // A client that drops its bell is gone.
            handed.push(files);
        };
        assert_eq!(refused, Refusal::NoMemory);
        siege.serves();
        drop((inside, handed));
        until("the attackers are freed", || counts(&siege.honest).peers == 2);
    }
    assert!(echo(&client(&socket, options()), b"there is room again"));
    siege.end();
}

/// Descriptors that were sent and not read count against the node's user.
#[test]
fn descriptors_that_nobody_reads_cost_others_no_connection() {
    let siege = Siege::start_as("role_poor_node", Turn::alone());
    let greedy: Vec<Raw> = (0..4).map(|_| Raw::join(&siege.socket())).collect();
    for raw in &greedy {
        while raw.ask(1, READABLE.0, Rights::READ.to_bits()).is_ok() {}
    }
    for _ in 0..10 {
        // Refused or not, it is still connected.
        let opened = siege.honest.open(READABLE, Rights::READ).wait();
        assert!(!matches!(opened, Err(OpenError::PeerGone)), "an honest client was sent away");
        siege.serves();
        let newcomer = Connection::connect(&common::address(&siege.socket()), options()).wait();
        match newcomer {
            Ok(_) | Err(ConnectError::Refused { refusal: Refusal::NoMemory, .. }) => {}
            Err(other) => panic!("a newcomer was not told: {other}"),
        }
    }
    drop(greedy);
    siege.end();
}

#[test]
fn a_flooded_bell_is_silenced() {
    let siege = Siege::start();
    let raw = Raw::join(&siege.socket());
    let bell = raw.bell.as_ref().expect("a bell");
    for _ in 0..200_000 {
        let _ = rustix::net::send(bell, &[1; 64], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
    siege.serves();
    // The node sleeps again: what was rung is heard once, not for ever.
    until("the node sleeps", || {
        let asleep = |_| raw.node_page.load_word(0, Ordering::Relaxed) == Ok(1);
        (0..1000).all(asleep)
    });
    assert!(!is_gone(&raw.socket));
    drop(raw);
    siege.end();
}

/// Words that are scribbled over while the node still looks at them, in all.
const MUTATIONS: u64 = 1_200_000;
/// And at most on one connection.
const MUTATIONS_PER_CONNECTION: u64 = 6_000;

#[test]
fn a_million_scribbled_words_harm_only_the_scribblers() {
    let siege = Siege::start();
    let (done, answers) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (socket, done, answers) = (siege.socket(), &done, &answers);
            scope.spawn(move || {
                let mut random = Seeded::new(seed);
                while done.load(Order::Relaxed) < MUTATIONS {
                    let (scribbled, answered) = scribble(&socket, &mut random);
                    done.fetch_add(scribbled, Order::Relaxed);
                    answers.fetch_add(answered, Order::Relaxed);
                }
            });
        }
    });
    let (counts, answers) = (counts(&siege.honest), answers.into_inner());
    println!("{} words, {answers} answers, {counts:?}", done.into_inner());
    assert!(counts.expelled > 50 && answers > 1000, "the scribbling went nowhere: {answers}, {counts:?}");
    siege.end();
}

/// One connection: messages as they should be, with scribbling before, over and beside them, until
/// the node has had enough. Gives how many words were scribbled while it had not, and its answers.
fn scribble(socket: &Path, random: &mut Seeded) -> (u64, u64) {
    let window = random.below(5) as u32;
    let mut raw = Raw::join_as(socket, &ShmHello { window: window.into(), ..hello() });
    let words = raw.inbound.bytes() as u64 / 8;
    let (ring_at, ring) = (raw.shape.inbound_ring() as u64, raw.shape.ring_bytes as u64);
    let (mut mutations, mut counted, mut answered) = (0, 0, 0);
    let (mut tail, mut number) = (0, 1);
    while mutations < MUTATIONS_PER_CONNECTION {
        let next = ring_at + tail % ring;
        // Mostly everywhere but where the node looks for arrivals; there, a word ends it all.
        let reckless = random.chance(20_000);
        for _ in 0..100 {
            let at = random.below(words) * 8;
            let awaited = if at < ring_at { at < 128 } else { at.is_multiple_of(LINE_BYTES as u64) };
            if reckless || !awaited || random.chance(1_000) {
                raw.inbound.store_word(at, wild(random, number), Ordering::Relaxed).expect("in bounds");
                mutations += 1;
            }
        }
        let body = vec![random.next() as u8; random.below(200) as usize];
        let mut header = whole(random.below(4), Kind::Request, ECHO, body.len());
        if random.chance(20_000) {
            header = MessageHeader::from_words([random.next(), random.next(), random.next()]);
        }
        let cell = cell_bytes(MessageHeader::BYTES + body.len()) as u64;
        let skip = if tail % ring + cell > ring { ring - tail % ring } else { 0 };
        if raw.push(header, &body) {
            tail += skip + cell;
            number += 1 + u32::from(skip > 0);
        }
        // Half of the time over the message while it is being taken.
        if random.chance(500_000) {
            for _ in 0..10 {
                let at = next + 8 * (1 + random.below(cell / 8 - 1));
                if !at.is_multiple_of(LINE_BYTES as u64) && at / 8 < words && !random.chance(100_000) {
                    // Its payload, and seldom its header.
                    let at = if at < next + 32 && !random.chance(20_000) { at + 32 } else { at };
                    let _ = raw.inbound.store_word(at, wild(random, number), Ordering::Relaxed);
                    mutations += 1;
                }
            }
        }
        // Its answer shows that the node has taken it; without one it may have been spoilt.
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(2) {
            if let Ok(Some(_)) = raw.reader.pop(&mut Vec::new()) {
                answered += 1;
                break;
            }
            std::thread::yield_now();
        }
        if is_gone(&raw.socket) {
            break;
        }
        counted = mutations;
    }
    (counted, answered)
}

/// A word that may be taken for something.
fn wild(random: &mut Seeded, number: u32) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => random.below(4096),
        2 => u64::MAX,
        3 => Arrival { bytes: random.below(1200) as u32, number: number + random.below(4) as u32 }.to_bits(),
        4 => Arrival { bytes: Arrival::WRAP, number: number + random.below(3) as u32 }.to_bits(),
        _ => random.next(),
    }
}

/// Everything that changes a file's bytes or its length, by a descriptor or by opening it anew.
fn attack(what: &str, file: &OwnedFd, bytes: u64, writable: bool) {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for file in [Some(file), again.as_ref().ok()].into_iter().flatten() {
        for length in [0, 8, bytes / 2, bytes * 2, 1 << 40] {
            assert!(rustix::fs::ftruncate(file, length).is_err(), "{what}: its length became {length}");
        }
        assert!(
            rustix::fs::fallocate(file, FallocateFlags::empty(), bytes, 4096).is_err(),
            "{what}: it was made longer"
        );
        for seals in [SealFlags::WRITE, SealFlags::FUTURE_WRITE, SealFlags::GROW] {
            assert!(rustix::fs::fcntl_add_seals(file, seals).is_err(), "{what}: it was sealed");
        }
        if !writable {
            assert!(rustix::io::write(file, b"x").is_err(), "{what}: it was written");
            assert!(rustix::io::pwrite(file, b"x", 64).is_err(), "{what}: it was written");
            assert!(rustix::fs::fallocate(file, punch, 0, 4096).is_err(), "{what}: a hole was punched");
            let zero = FallocateFlags::ZERO_RANGE;
            assert!(rustix::fs::fallocate(file, zero, 0, 4096).is_err(), "{what}: it was zeroed");
            assert!(map_shared(file.as_fd(), bytes, true).is_err(), "{what}: it was mapped writable");
        }
    }
}

#[test]
fn the_descriptors_that_are_handed_out_resist() {
    let siege = Siege::start();
    let mut raw = Raw::join(&siege.socket());
    let open = |raw: &Raw, region: u32, rights: Rights| {
        raw.ask(1, region, rights.to_bits()).expect("the node reads packets");
        let (opened, mut files) = raw.opened();
        assert_eq!(opened.outcome.get(), Outcome::Done as u32);
        files.pop().expect("a descriptor")
    };
    let (inbound_bytes, outbound_bytes) = (raw.shape.inbound_bytes(), raw.shape.outbound_bytes());
    attack("the outbound half", &raw.files[1], outbound_bytes as u64, false);
    attack("the node page", &raw.files[2], 4096, false);
    attack("a readable region", &open(&raw, READABLE.0, Rights::READ), REGION_BYTES, false);
    // Here the client may write, and no more.
    attack("the inbound half", &raw.files[0], inbound_bytes as u64, true);
    attack("a writable region", &open(&raw, WRITABLE.0, Rights::ALL), REGION_BYTES, true);
    siege.serves();
    // Nothing of that kept the channel from working.
    assert!(raw.push(whole(1, Kind::OneWay, 0, 0), &[]));
    until("the node heard it", || counts(&siege.honest).messages == 1);
    // A hole under the node's own eyes reads as zeros: no message, no fault.
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for _ in 0..100 {
        rustix::fs::fallocate(&raw.files[0], punch, 0, inbound_bytes as u64 / 4096 * 4096).expect("a hole");
        raw.ring();
    }
    siege.serves();
    assert!(!is_gone(&raw.socket));
    drop(raw);
    siege.end();
}
