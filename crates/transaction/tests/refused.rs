//! A node that refuses to prepare a transaction keeps nothing of it.

use barn_cluster::{Directory, MemberId};
use barn_fabric::seam::SystemClock;
use barn_fabric::{PeerId, RegionId, Registry, Rights, simulated};
use barn_heap::{Heap, HeapOptions, Purpose};
use barn_layout::transaction::{
    Change, Hello, PREPARE_LAST, Prepare, Reserve, ReservedPlace, TransactionId, Verdict, Vote, WriteEntry,
};
use barn_transaction::participant::{Functions, Participant, ParticipantOptions};
use barn_transaction::wire::Method;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

const PEER: PeerId = PeerId(1);

fn entry(address: u64, version: u64, change: Change) -> WriteEntry {
    WriteEntry {
        address: address.into(),
        version: version.into(),
        incarnation: 0.into(),
        change: (change as u32).into(),
        bytes: 8.into(),
        reserved: 0.into(),
    }
}

#[test]
fn places_for_new_objects_are_free_again_when_prepare_is_refused() {
    let region = simulated::region(4 << 20, Rights::READ);
    let mut heap = Heap::new(HeapOptions { budget_bytes: 4 << 20 });
    heap.add_region(RegionId(1), region.words().clone()).unwrap();
    let object = heap.reserve(8, None, Purpose::Objects).unwrap().address;
    let version = heap.create(object, &[0; 8]).unwrap();
    let registry = Registry::default();
    registry.register(RegionId(1), region, Rights::NONE).unwrap();
    let mut participant = Participant::new(ParticipantOptions {
        member: MemberId(0),
        heap,
        registry,
        regions: vec![RegionId(1)],
        directory: Arc::new(Directory::new()),
        lease: Duration::from_secs(60),
        clock: Arc::new(SystemClock::default()),
        functions: Functions::default(),
        standing: None,
    });
    let mut ask = |method, body: &[u8]| {
        let mut answer = Vec::new();
        participant.handle(PEER, method, body, &mut answer).unwrap();
        (answer, participant.heap().usage().total().reserved)
    };
    ask(Method::Hello, Hello { session: 9.into(), role: 0.into(), reserved: 0.into() }.as_bytes());
    let reserve = Reserve {
        hint: 0.into(),
        bytes: 8.into(),
        count: 2.into(),
        purpose: 0.into(),
        array: 0.into(),
        reserved: 0.into(),
    };
    let (answer, reserved) = ask(Method::Reserve, reserve.as_bytes());
    assert_eq!(reserved, 2);
    let places = <[ReservedPlace]>::ref_from_bytes(&answer).unwrap();
    let header = Prepare {
        transaction: TransactionId { session: 9.into(), number: 1.into() },
        configuration: 0.into(),
        participants: 0.into(),
        reads: 0.into(),
        writes: 3.into(),
        flags: PREPARE_LAST.into(),
        frame: 0.into(),
        reserved: 0.into(),
    };
    let mut message = header.as_bytes().to_vec();
    // One place before the object that has changed meanwhile, and one after it.
    for write in [
        entry(places[0].address.get(), places[0].version.get(), Change::Create),
        entry(object.to_bits(), version + 5, Change::Update),
        entry(places[1].address.get(), places[1].version.get(), Change::Create),
    ] {
        message.extend_from_slice(write.as_bytes());
        message.extend_from_slice(&[1; 8]);
    }
    let (answer, reserved) = ask(Method::Prepare, &message);
    assert_eq!(Vote::ref_from_bytes(&answer).unwrap().verdict.get(), Verdict::Changed as u32);
    assert_eq!(reserved, 0, "the places are nobody's");
}
