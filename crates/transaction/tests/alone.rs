//! A transaction that touches one node is one message; a reader on another core must still never
//! see half of it.

use barn_cluster::{Directory, MemberId};
use barn_fabric::region::{Ordering, fence};
use barn_fabric::seam::SystemClock;
use barn_fabric::{Confirmation, PeerId, Region, RegionId, Registry, Rights, Words};
use barn_heap::{HEADER_BYTES, Heap, HeapOptions, Purpose, Seen, inspect};
use barn_layout::object::VersionWord;
use barn_layout::transaction::{
    Change, Hello, PREPARE_ALONE, PREPARE_LAST, Prepare, TransactionId, Verdict, Vote, WriteEntry,
};
use barn_layout::{Address, planted};
use barn_transaction::participant::{Functions, Participant, ParticipantOptions};
use barn_transaction::rule::{Lock, is_unchanged};
use barn_transaction::wire::Method;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

const BYTES: usize = 4 << 20;
/// Between the first and the last object one that takes long to write.
const LENGTHS: [usize; 3] = [8, 515_000, 8];

/// How long it is tried: of the planted bug, until the reader has seen it.
fn time() -> Duration {
    Duration::from_millis(if planted("alone_without_close") { 100_000 } else { 800 })
}

/// A READ with confirmation, as of mapped memory: version and body, if it is whole.
fn read(words: &Words, address: Address) -> Option<(u64, u64)> {
    let (at, mut bytes) = (u64::from(address.offset()), [0; HEADER_BYTES + 8]);
    // SYNC: Acquire, pairs with the heap's stores of version words.
    let before = words.load_word(at, Ordering::Acquire).ok()?;
    bytes[..8].copy_from_slice(&before.to_le_bytes());
    words.load(at + 8, &mut bytes[8..]).ok()?;
    // SYNC: Acquire, pairs with the heap's fence after it has closed an object.
    fence(Ordering::Acquire);
    let after = words.load_word(at, Ordering::Relaxed).ok()?;
    match inspect(address, Some(0), &bytes, Confirmation::Again(after)) {
        Seen::Whole(view) => Some((view.version, u64::from_le_bytes(bytes[HEADER_BYTES..].try_into().ok()?))),
        _ => None,
    }
}

/// Reads the first and the last object as a read-only transaction does; what they held, if it may.
fn snapshot(words: &Words, [first, _, last]: [Address; 3]) -> Option<(u64, u64)> {
    let (version, one) = read(words, first)?;
    let (_, other) = read(words, last)?;
    // SYNC: Acquire, as in `read`.
    fence(Ordering::Acquire);
    let word = words.load_word(u64::from(first.offset()), Ordering::Acquire).ok()?;
    is_unchanged(VersionWord(word), version, Lock::MayBePrepared).then_some((one, other))
}

#[test]
fn a_reader_of_several_objects_sees_all_of_a_transaction_or_nothing() {
    let (id, region) = (RegionId(1), Region::on_heap(BYTES, Rights::READ));
    let words = region.words().clone();
    let mut heap = Heap::new(HeapOptions { budget_bytes: BYTES as u64 });
    heap.add_region(id, words.clone()).expect("fresh memory is formatted");
    let objects = LENGTHS.map(|bytes| {
        let place = heap.reserve(bytes, None, Purpose::Objects).expect("room");
        heap.create(place.address, &vec![0; bytes]).expect("a reserved place");
        place.address
    });
    let registry = Registry::default();
    registry.register(id, region, Rights::NONE).expect("a number is used once");
    let mut participant = Participant::new(ParticipantOptions {
        member: MemberId(0),
        heap,
        registry,
        regions: vec![id],
        directory: Arc::new(Directory::new()),
        lease: Duration::from_secs(60),
        clock: Arc::new(SystemClock::default()),
        functions: Functions::default(),
        standing: None,
    });
    let (peer, mut answer) = (PeerId(1), Vec::new());
    let hello = Hello { session: 1.into(), role: 0.into(), reserved: 0.into() };
    participant.handle(peer, Method::Hello, hello.as_bytes(), &mut answer).expect("welcome");

    let done = Arc::new(AtomicBool::new(false));
    let reader_done = done.clone();
    let reader = thread::spawn(move || {
        let mut read = 0;
        // ORDER: Relaxed: a flag that stands alone.
        while !reader_done.load(Ordering::Relaxed) {
            if let Some((one, other)) = snapshot(&words, objects) {
                assert_eq!(one, other, "half of a transaction was seen");
                read += 1;
            }
        }
        read
    });
    let (started, mut number) = (Instant::now(), 0u64);
    while started.elapsed() < time() && !reader.is_finished() {
        number += 1;
        let header = Prepare {
            transaction: TransactionId { session: 1.into(), number: number.into() },
            configuration: 0.into(),
            participants: 0.into(),
            reads: 0.into(),
            writes: 3.into(),
            flags: (PREPARE_ALONE | PREPARE_LAST).into(),
            frame: 0.into(),
            reserved: 0.into(),
        };
        let mut message = header.as_bytes().to_vec();
        for (address, bytes) in objects.into_iter().zip(LENGTHS) {
            let entry = WriteEntry {
                address: address.to_bits().into(),
                version: number.into(),
                incarnation: 0.into(),
                change: (Change::Update as u32).into(),
                bytes: (bytes as u32).into(),
                reserved: 0.into(),
            };
            message.extend_from_slice(entry.as_bytes());
            message.extend(number.to_le_bytes().iter().cycle().take(bytes));
        }
        answer.clear();
        participant.handle(peer, Method::Prepare, &message, &mut answer).expect("a vote");
        let vote = Vote::ref_from_bytes(&answer).expect("a vote");
        assert_eq!(vote.verdict.get(), Verdict::Yes as u32);
        // A moment in which everything can be read.
        thread::sleep(Duration::from_micros(20));
    }
    // ORDER: Relaxed: as above.
    done.store(true, Ordering::Relaxed);
    let read = reader.join().expect("the reader saw no half");
    assert!(read > 0 && number > 0, "{read} snapshots of {number} transactions: nothing was tried");
}
