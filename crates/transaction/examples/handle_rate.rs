//! What a node's CPU spends on one single-node commit of two objects, without any fabric.

use barn_cluster::{Directory, MemberId};
use barn_fabric::seam::SystemClock;
use barn_fabric::{PeerId, Region, RegionId, RegionOptions, Registry, Rights};
use barn_heap::{Heap, HeapOptions, Purpose};
use barn_layout::Address;
use barn_layout::transaction::{
    Change, Hello, PREPARE_ALONE, PREPARE_LAST, ParticipantEntry, Prepare, TransactionId, WriteEntry,
};
use barn_transaction::participant::{Functions, Participant, ParticipantOptions};
use barn_transaction::wire::Method;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

const BODY: [u8; 64] = [7; 64];

fn main() {
    let options = RegionOptions { bytes: 16 << 20, remote: Rights::READ, huge: false };
    let region = Region::allocate(&options).expect("16 MiB");
    let mut heap = Heap::new(HeapOptions { budget_bytes: 16 << 20 });
    heap.add_region(RegionId(1), region.words().clone()).expect("fresh memory");
    let objects: Vec<(Address, u32)> = (0..16)
        .map(|_| {
            let place = heap.reserve(64, None, Purpose::Objects).expect("room");
            heap.create(place.address, &BODY).expect("reserved");
            (place.address, place.incarnation)
        })
        .collect();
    let mut versions: Vec<u64> =
        objects.iter().map(|(address, _)| heap.header(*address).expect("made").word.version()).collect();
    let mut participant = Participant::new(ParticipantOptions {
        member: MemberId(0),
        heap,
        registry: Registry::default(),
        regions: vec![RegionId(1)],
        directory: Arc::new(Directory::new()),
        lease: Duration::from_secs(1),
        clock: Arc::new(SystemClock::default()),
        functions: Functions::default(),
        standing: None,
    });
    let (peer, mut answer) = (PeerId(1), Vec::new());
    let hello = Hello { session: 9.into(), role: 0.into(), reserved: 0.into() };
    participant.handle(peer, Method::Hello, hello.as_bytes(), &mut answer).expect("welcome");
    let count = 2_000_000;
    let mut message = Vec::new();
    let start = Instant::now();
    for number in 0..count {
        let two = [number as usize % 16, (number as usize + 5) % 16];
        message.clear();
        let header = Prepare {
            transaction: TransactionId { session: 9.into(), number: number.into() },
            configuration: 1.into(),
            participants: 1.into(),
            reads: 0.into(),
            writes: 2.into(),
            flags: (PREPARE_LAST | PREPARE_ALONE).into(),
            frame: 0.into(),
            reserved: 0.into(),
        };
        message.extend_from_slice(header.as_bytes());
        message.extend_from_slice(ParticipantEntry { member: 0.into(), reserved: 0.into() }.as_bytes());
        for at in two {
            let entry = WriteEntry {
                address: objects[at].0.to_bits().into(),
                version: versions[at].into(),
                incarnation: objects[at].1.into(),
                change: (Change::Update as u32).into(),
                bytes: 64.into(),
                reserved: 0.into(),
            };
            message.extend_from_slice(entry.as_bytes());
            message.extend_from_slice(&BODY);
            versions[at] += 1;
        }
        answer.clear();
        participant.handle(peer, Method::Prepare, &message, &mut answer).expect("an answer");
        assert_eq!(answer[0], 0, "committed");
    }
    println!("{:.0} ns each", start.elapsed().as_secs_f64() * 1e9 / count as f64);
}
