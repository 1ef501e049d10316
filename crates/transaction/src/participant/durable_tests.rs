//! Transactions that were held when a node stopped.

use super::*;
use crate::replay::Replica;
use crate::wire::push_write;
use barn_fabric::seam::SystemClock;
use barn_fabric::{Region, RegionId, Registry, Rights};
use barn_heap::{Heap, HeapOptions, Purpose};
use barn_layout::object::LockMode;
use barn_layout::transaction::{Change, ParticipantEntry};
use barn_layout::transaction::{
    Hello, Known, PREPARE_LAST, Prepare, State, Step, StepKind, TransactionId, WriteEntry,
};
use barn_log::Record;
use std::time::Duration;
use zerocopy::FromBytes;

const BYTES: usize = 4 << 20;
const REGION: RegionId = RegionId(1);
const CLIENT: PeerId = PeerId(1);
const RESOLVER: PeerId = PeerId(2);
const ID: TransactionId = TransactionId {
    session: zerocopy::little_endian::U64::new(11),
    number: zerocopy::little_endian::U64::new(1),
};

/// A node whose changes are recorded, and a copy of it that hears of nothing else.
struct Logged {
    this: Participant,
    replica: Replica,
}

fn participant(heap: Heap) -> Participant {
    let registry = Registry::default();
    registry.register(REGION, Region::on_heap(BYTES, Rights::READ), Rights::NONE).unwrap();
    Participant::new(ParticipantOptions {
        member: MemberId(0),
        heap,
        registry,
        regions: vec![REGION],
        directory: Arc::new(Directory::new()),
        lease: Duration::from_secs(3600),
        clock: Arc::new(SystemClock::default()),
        functions: Functions::default(),
        standing: None,
    })
}

impl Logged {
    fn new() -> Self {
        let mut heap = Heap::new(HeapOptions { budget_bytes: BYTES as u64 });
        heap.record_changes();
        heap.add_region(REGION, Region::on_heap(BYTES, Rights::READ).words().clone()).unwrap();
        Self { this: participant(heap), replica: Replica::default() }
    }

    fn object(&mut self, body: &[u8]) -> Address {
        let place = self.this.heap.reserve(body.len(), None, Purpose::Objects).unwrap();
        self.this.heap.create(place.address, body).unwrap();
        place.address
    }

    fn say(&mut self, peer: PeerId, method: Method, body: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        self.this.handle(peer, method, body, &mut answer).unwrap();
        self.replica.apply(self.this.changes().unwrap());
        answer
    }

    fn hello(&mut self, peer: PeerId, session: u64, role: u32) {
        let hello = Hello { session: session.into(), role: role.into(), reserved: 0.into() };
        self.say(peer, Method::Hello, hello.as_bytes());
    }

    /// Prepares one update, one free and one new object, together with another node.
    fn prepare(&mut self) -> [Address; 3] {
        let (changed, freed) = (self.object(b"old, old"), self.object(b"to go"));
        self.hello(CLIENT, ID.session.get(), 0);
        let created = self.this.heap.reserve(24, None, Purpose::Objects).unwrap();
        self.this.sessions.of(CLIENT).unwrap().reserved.insert(created.address);
        let header = Prepare {
            transaction: ID,
            configuration: 1.into(),
            participants: 2.into(),
            reads: 0.into(),
            writes: 3.into(),
            flags: PREPARE_LAST.into(),
            frame: 0.into(),
            reserved: 0.into(),
        };
        let mut message = header.as_bytes().to_vec();
        for member in [0, 7u32] {
            message.extend(ParticipantEntry { member: member.into(), reserved: 0.into() }.as_bytes());
        }
        let writes: [(Address, Change, &[u8]); 3] = [
            (changed, Change::Update, b"new, new"),
            (freed, Change::Free, b""),
            (created.address, Change::Create, b"made by the transaction"),
        ];
        for (address, change, body) in writes {
            let header = self.this.heap.header(address).unwrap();
            let entry = WriteEntry {
                address: address.to_bits().into(),
                version: header.word.version().into(),
                incarnation: header.incarnation.into(),
                change: (change as u32).into(),
                bytes: (body.len() as u32).into(),
                reserved: 0.into(),
            };
            push_write(&mut message, &entry, body);
        }
        self.say(CLIENT, Method::Prepare, &message);
        assert_eq!(self.this.take_asked(), Asked { durability: None, together: true });
        assert_eq!(self.this.waiting(), 1);
        [changed, freed, created.address]
    }

    fn step(&mut self, peer: PeerId, kind: StepKind) {
        let step = Step { transaction: ID, kind: (kind as u32).into(), reserved: 0u32.into() };
        self.say(peer, Method::Step, step.as_bytes());
    }

    /// The node stops, and comes back with what the records tell.
    fn restart(&mut self) {
        self.replica.apply(self.this.changes().unwrap());
        let mut heap = Heap::new(HeapOptions { budget_bytes: BYTES as u64 });
        heap.record_changes();
        for (id, words) in self.replica.restored() {
            let found = heap.add_region(id, words).unwrap();
            heap.unlock_interrupted(&found.interrupted).unwrap();
        }
        self.this = participant(heap);
        for (key, values) in self.replica.notes.clone() {
            self.this.restore(&key, &values).unwrap();
        }
        self.hello(RESOLVER, 99, 1);
    }

    /// How far the transaction has come, as a resolver hears.
    fn state(&mut self) -> u32 {
        let answer = self.say(RESOLVER, Method::Freeze, ID.as_bytes());
        Known::read_from_bytes(&answer).unwrap().state.get()
    }

    fn mode(&self, address: Address) -> LockMode {
        self.this.heap.header(address).unwrap().word.mode()
    }

    fn body(&self, address: Address) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        self.this.heap.read(address, &mut body).ok().map(|_| body)
    }
}

#[test]
fn what_was_prepared_is_held_again_and_can_be_aborted() {
    let mut node = Logged::new();
    let [changed, freed, created] = node.prepare();
    node.restart();
    assert_eq!(node.state(), State::Prepared as u32);
    assert_ne!(node.mode(changed), LockMode::Free, "others could change it meanwhile");
    node.step(RESOLVER, StepKind::Abort);
    node.restart();
    assert_eq!(node.this.waiting(), 0);
    assert_eq!((node.body(changed), node.body(freed)), (Some(b"old, old".to_vec()), Some(b"to go".to_vec())));
    assert_eq!((node.mode(changed), node.body(created)), (LockMode::Free, None));
}

#[test]
fn what_was_decided_is_decided_after_a_restart_and_is_carried_out_once() {
    let mut node = Logged::new();
    let [changed, freed, created] = node.prepare();
    node.step(CLIENT, StepKind::Decide);
    assert!(node.this.take_asked().together, "others go by the answer");
    node.restart();
    assert_eq!(node.state(), State::Decided as u32);
    node.step(RESOLVER, StepKind::Apply);
    for _ in 0..2 {
        assert_eq!(node.body(changed), Some(b"new, new".to_vec()));
        assert_eq!(node.body(freed), None);
        assert_eq!(node.body(created), Some(b"made by the transaction".to_vec()));
        assert_eq!(node.this.waiting(), 0);
        node.restart();
    }
}

#[test]
fn a_checkpoint_remembers_what_is_held() {
    let mut node = Logged::new();
    node.prepare();
    node.step(CLIENT, StepKind::Decide);
    let mut notes = Record::default();
    node.this.remember(&mut notes);
    node.replica.notes.clear();
    node.replica.apply(&mut notes);
    node.restart();
    assert_eq!(node.state(), State::Decided as u32);
}

#[test]
fn damaged_notes_are_refused() {
    let mut node = Logged::new();
    node.prepare();
    let notes = node.replica.notes.clone();
    let (key, values) = notes.iter().next().unwrap();
    node.this = Logged::new().this;
    for end in 0..values[0].len() {
        assert!(node.this.restore(key, &[values[0][..end].to_vec()]).is_err(), "cut at {end}");
    }
    assert!(node.this.restore(key, &[]).is_err());
    assert!(node.this.restore(&key[..key.len() - 1], values).is_err());
}

#[test]
fn a_node_without_a_log_refuses_what_must_survive() {
    let mut node = Logged::new();
    let mut header = Prepare {
        transaction: ID,
        configuration: 1.into(),
        participants: 0.into(),
        reads: 0.into(),
        writes: 0.into(),
        flags: (PREPARE_LAST | (Durability::Synced as u32) << 8).into(),
        frame: 0.into(),
        reserved: 0.into(),
    };
    let mut answer = Vec::new();
    let refused = node.this.handle(CLIENT, Method::Prepare, header.as_bytes(), &mut answer);
    assert!(refused.is_err_and(|why| why.contains("data directory")));
    node.this.offer(Durability::Synced);
    assert!(node.this.handle(CLIENT, Method::Prepare, header.as_bytes(), &mut answer).is_ok());
    header.flags = PREPARE_LAST.into();
    assert!(node.this.handle(CLIENT, Method::Prepare, header.as_bytes(), &mut answer).is_ok());
}
