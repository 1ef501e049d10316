//! Doors for the fuzzers; compiled for them alone (`cfg(fuzzing)`), used by `fuzz/src/bin`.

use crate::participant::{Functions, Participant, ParticipantOptions};
use crate::wire::Method;
use barn_cluster::{Directory, MemberId};
use barn_fabric::seam::SystemClock;
use barn_fabric::{PeerId, Region, RegionId, Registry, Rights};
use barn_heap::{Heap, HeapOptions, Purpose};
use barn_layout::object::LockMode;
use barn_layout::transaction::{Hello, METHODS_START};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

const BYTES: usize = 4 << 20;
/// Objects that are there before anybody says anything.
const OBJECTS: usize = 4;
/// Inputs that share a node: making one touches megabytes.
const INPUTS_PER_NODE: u64 = 256;

struct Fuzzed {
    participant: Participant,
    inputs: u64,
}

thread_local! {
    static NODE: RefCell<Option<Fuzzed>> = const { RefCell::new(None) };
}

fn fresh() -> Fuzzed {
    let (id, region) = (RegionId(1), Region::on_heap(BYTES, Rights::READ));
    let mut heap = Heap::new(HeapOptions { budget_bytes: BYTES as u64 });
    assert!(heap.add_region(id, region.words().clone()).is_ok());
    for _ in 0..OBJECTS {
        let place = heap.reserve(16, None, Purpose::Objects);
        let made = place.map(|place| heap.create(place.address, &[1; 16]));
        assert!(matches!(made, Ok(Ok(1))));
    }
    let registry = Registry::default();
    assert!(registry.register(id, region, Rights::NONE).is_ok());
    let participant = Participant::new(ParticipantOptions {
        member: MemberId(0),
        heap,
        registry,
        regions: vec![id],
        directory: Arc::new(Directory::new()),
        lease: Duration::from_secs(3600),
        clock: Arc::new(SystemClock::default()),
        functions: Functions::default(),
        standing: None,
    });
    Fuzzed { participant, inputs: 0 }
}

/// A client and a resolver that say anything: the input is a list of messages, each a method, who
/// says it, a length, and its bytes.
///
/// What must hold: no panic; every lock belongs to a transaction that is held; when both are gone
/// and what they left was ended, nothing is locked and nothing reserved.
pub fn participant(mut data: &[u8]) {
    let mut node = NODE.take().filter(|node| node.inputs < INPUTS_PER_NODE).unwrap_or_else(fresh);
    node.inputs += 1;
    let (this, mut answer) = (&mut node.participant, Vec::new());
    let from = (1 << 40) + 4 * node.inputs;
    let sessions = [open(this, PeerId(1), 0, from), open(this, PeerId(2), 1, from)];
    while let [method, who, length, rest @ ..] = data {
        let (body, after) = rest.split_at(usize::from(*length).min(rest.len()));
        data = after;
        let peer = PeerId(1 + u64::from(who % 3));
        // A session's number is not for the fuzzer to guess: it is filled in where 0xff stands.
        let mut body = body.to_vec();
        if let Some((session, [])) = body.get_mut(..8).map(|bytes| bytes.as_chunks_mut::<8>())
            && let [session] = session
            && session[0] == 0xff
        {
            *session = sessions[usize::from(session[1]) % 2].to_le_bytes();
        }
        answer.clear();
        match Method::from_bits(METHODS_START + u16::from(method % 12)) {
            Some(method) => {
                let _ = this.handle(peer, method, &body, &mut answer);
            }
            None => this.message(peer, &body),
        }
        let locked = locked(this);
        assert!(locked == 0 || this.waiting() > 0, "{locked} objects are locked by nobody");
    }
    for peer in 1..=3 {
        this.gone(PeerId(peer));
    }
    end_all(this, from);
    assert_eq!((this.waiting(), locked(this)), (0, 0));
    let reserved: u64 = this.heap().usage().purposes.iter().map(|purpose| purpose.reserved as u64).sum();
    assert_eq!(reserved, 0, "places are reserved by nobody");
    NODE.set(Some(node));
}

fn locked(participant: &Participant) -> usize {
    let heap = participant.heap();
    heap.regions()
        .flat_map(|region| heap.objects(region))
        .filter(|(_, header)| header.word.mode() != LockMode::Free)
        .count()
}

/// What a resolver does about everything that was left.
fn end_all(participant: &mut Participant, from: u64) {
    use barn_layout::transaction::{Orphan, ParticipantEntry, Step, StepKind};
    let (peer, mut answer, mut list) = (PeerId(4), Vec::new(), Vec::new());
    open(participant, peer, 1, from);
    assert_eq!(participant.handle(peer, Method::Orphans, &[], &mut list), Ok(()));
    let mut rest = &list[..];
    while let Ok((orphan, after)) = crate::wire::split::<Orphan>(rest) {
        let members = orphan.participants.get() as usize * ParticipantEntry::BYTES;
        rest = &after[members..];
        let id = orphan.transaction;
        assert_eq!(participant.handle(peer, Method::Freeze, id.as_bytes(), &mut answer), Ok(()));
        let step = Step { transaction: id, kind: (StepKind::Abort as u32).into(), reserved: 0u32.into() };
        assert_eq!(participant.handle(peer, Method::Step, step.as_bytes(), &mut answer), Ok(()));
    }
    participant.gone(peer);
}

/// Opens a session with the first number that nobody has used.
fn open(participant: &mut Participant, peer: PeerId, role: u32, from: u64) -> u64 {
    let mut answer = Vec::new();
    let mut welcome = |session: &u64| {
        let hello = Hello { session: (*session).into(), role: role.into(), reserved: 0.into() };
        participant.handle(peer, Method::Hello, hello.as_bytes(), &mut answer).is_ok()
    };
    (from..).find(&mut welcome).unwrap_or(0)
}
