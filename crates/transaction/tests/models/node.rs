//! A node without a transport: the real participant over the smallest heap, and its memory as a
//! stranger sees it. It is used again by schedule after schedule, for making one touches megabytes.

use barn_cluster::{Directory, MemberId};
use barn_fabric::region::Ordering;
use barn_fabric::seam::Clock;
use barn_fabric::{PeerId, Region, RegionId, Registry, Rights, Words};
use barn_heap::{Heap, HeapOptions, Seen, inspect};
use barn_layout::Address;
use barn_layout::object::{ObjectHeader, VersionWord};
use barn_layout::transaction::{
    Change, Hello, PREPARE_LAST, ParticipantEntry, Prepare, Reserve, ReservedPlace, Step, StepKind,
    TransactionId, Verdict, Vote, WriteEntry,
};
use barn_transaction::participant::{Functions, Participant, ParticipantOptions};
use barn_transaction::wire::Method;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// The lease of sessions, in the models' time.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// The smallest region: a table, and one block.
const BYTES: usize = 2 << 20;

/// Time that passes when a model says so.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Ticks {
    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        // ORDER: Relaxed: one thread at a time runs.
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for Ticks {
    fn now(&self) -> Duration {
        // ORDER: Relaxed: one thread at a time runs.
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A node. Between two points at which the scheduler chooses, only one thread runs: the lock is
/// never waited for.
pub(crate) struct Node {
    participant: Mutex<Participant>,
    pub(crate) words: Words,
    pub(crate) clock: Arc<Ticks>,
}

/// An object of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: Address,
    pub(crate) incarnation: u32,
}

/// A change of an object that has this version.
pub(crate) struct Update<'a> {
    pub(crate) place: Place,
    pub(crate) version: u64,
    pub(crate) change: Change,
    pub(crate) body: &'a [u8],
}

impl Node {
    pub(crate) fn new(member: u32) -> Self {
        let (id, region) = (RegionId(member + 1), Region::on_heap(BYTES, Rights::READ));
        let words = region.words().clone();
        let mut heap = Heap::new(HeapOptions { budget_bytes: BYTES as u64 });
        heap.add_region(id, words.clone()).expect("fresh memory is formatted");
        let (registry, clock) = (Registry::default(), Arc::new(Ticks::default()));
        registry.register(id, region, Rights::NONE).expect("a number is used once");
        let participant = Participant::new(ParticipantOptions {
            member: MemberId(member),
            heap,
            registry,
            regions: vec![id],
            directory: Arc::new(Directory::new()),
            lease: LEASE,
            clock: clock.clone(),
            functions: Functions::default(),
            standing: None,
        });
        Self { participant: Mutex::new(participant), words, clock }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Participant> {
        self.participant.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn ask(&self, peer: u64, method: Method, body: &[u8]) -> Result<Vec<u8>, String> {
        let mut answer = Vec::new();
        self.lock().handle(PeerId(peer), method, body, &mut answer).map(|()| answer)
    }

    /// Opens a session whose number is its peer's.
    pub(crate) fn hello(&self, peer: u64, role: u32) {
        let hello = Hello { session: peer.into(), role: role.into(), reserved: 0.into() };
        self.ask(peer, Method::Hello, hello.as_bytes()).expect("a new session is welcome");
    }

    fn vote(&self, peer: u64, method: Method, body: &[u8]) -> Verdict {
        let answer = self.ask(peer, method, body).expect("a vote");
        let vote = Vote::ref_from_bytes(&answer).expect("a vote");
        Verdict::from_bits(vote.verdict.get()).expect("a verdict")
    }

    pub(crate) fn prepare(
        &self,
        id: TransactionId,
        participants: &[u32],
        flags: u32,
        updates: &[Update<'_>],
    ) -> Verdict {
        let header = Prepare {
            transaction: id,
            configuration: 0.into(),
            participants: (participants.len() as u32).into(),
            reads: 0.into(),
            writes: (updates.len() as u32).into(),
            flags: (flags | PREPARE_LAST).into(),
            frame: 0.into(),
            reserved: 0.into(),
        };
        let mut message = header.as_bytes().to_vec();
        for member in participants {
            let entry = ParticipantEntry { member: (*member).into(), reserved: 0.into() };
            message.extend_from_slice(entry.as_bytes());
        }
        for update in updates {
            let entry = WriteEntry {
                address: update.place.address.to_bits().into(),
                version: update.version.into(),
                incarnation: update.place.incarnation.into(),
                change: (update.change as u32).into(),
                bytes: (update.body.len() as u32).into(),
                reserved: 0.into(),
            };
            message.extend_from_slice(entry.as_bytes());
            message.extend_from_slice(update.body);
        }
        self.vote(id.session.get(), Method::Prepare, &message)
    }

    /// A step that is answered.
    pub(crate) fn step(&self, peer: u64, id: TransactionId, kind: StepKind) -> Verdict {
        self.vote(peer, Method::Step, step(id, kind).as_bytes())
    }

    /// A step that is not.
    pub(crate) fn tell(&self, peer: u64, id: TransactionId, kind: StepKind) {
        self.lock().message(PeerId(peer), step(id, kind).as_bytes());
    }

    /// A place for a new object of up to `bytes`, where there is room for `count` side by side.
    pub(crate) fn reserve(&self, peer: u64, bytes: u32, count: u32) -> Option<Place> {
        let reserve = Reserve {
            hint: 0.into(),
            bytes: bytes.into(),
            count: count.into(),
            purpose: 0.into(),
            array: 1.into(),
            reserved: 0.into(),
        };
        let answer = self.ask(peer, Method::Reserve, reserve.as_bytes()).ok()?;
        let (place, others) = ReservedPlace::ref_from_prefix(&answer).expect("a place");
        for other in <[ReservedPlace]>::ref_from_bytes(others).expect("places") {
            self.ask(peer, Method::Release, other.address.as_bytes()).expect("given back");
        }
        let address = Address::from_bits(place.address.get());
        Some(Place { address, incarnation: place.incarnation.get() })
    }

    /// The version word of an object.
    pub(crate) fn word(&self, place: Place) -> VersionWord {
        // SYNC: Acquire, pairs with the heap's stores of version words.
        let word = self.words.load_word(u64::from(place.address.offset()), Ordering::Acquire);
        VersionWord(word.expect("within the region"))
    }

    /// A READ of an object with a body of two words; `point` comes before each word. With
    /// confirmation the version comes first and last, otherwise the words come as `order` says.
    pub(crate) fn read(&self, place: Place, order: Option<[u8; 5]>, point: impl Fn()) -> (Seen, [u64; 2]) {
        let mut words = [0u64; 5];
        for at in order.unwrap_or([0, 1, 2, 3, 4]) {
            point();
            let offset = u64::from(place.address.offset()) + 8 * u64::from(at);
            // ORDER: Acquire: only one thread at a time runs, so any will do.
            words[usize::from(at)] =
                self.words.load_word(offset, Ordering::Acquire).expect("within the region");
        }
        let confirmation = match order {
            Some(_) => barn_fabric::Confirmation::Unordered,
            None => {
                point();
                barn_fabric::Confirmation::Again(self.word(place).0)
            }
        };
        let seen = inspect(place.address, Some(place.incarnation), words.as_bytes(), confirmation);
        (seen, [words[3], words[4]])
    }
}

fn step(transaction: TransactionId, kind: StepKind) -> Step {
    Step { transaction, kind: (kind as u32).into(), reserved: 0.into() }
}

const _: () = assert!(ObjectHeader::BYTES == 24, "three words before an object's own");
