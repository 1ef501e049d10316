//! Two clients commit, two resolvers look after lost ones, a reader takes no lock: each message, and
//! each word that is read, in any order. The checker of histories judges every schedule.

use super::node::{Node, Place, Update};
use super::recover::round;
use barn_fabric::PeerId;
use barn_heap::Seen;
use barn_layout::object::LockMode;
use barn_layout::transaction::{
    Change, Known, PREPARE_ALONE, PREPARE_CLOSED, State, StepKind, TransactionId, Verdict,
};
use barn_transaction::history::{History, ObjectKey, Outcome, Record, Write, WriteKind, check};
use barn_transaction::rule::{Lock, is_unchanged};
use barn_transaction::wire::Method;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use zerocopy::{FromBytes, IntoBytes};

/// Schedules that share two nodes: making them costs as much as some fifty schedules.
const SCHEDULES_PER_CLUSTER: usize = 4096;
/// The resolvers' peers; clients' numbers follow.
const RESOLVERS: [u64; 2] = [1, 2];
/// Attempts of a read that meets a writer.
const ATTEMPTS: usize = 2;

/// Whether clients die, and nodes give up clients that live.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lives {
    Long,
    Short,
}

/// Which objects a transaction touches: object 0 is node 0's, object 1 is node 1's.
struct Shape {
    reads: &'static [usize],
    writes: &'static [usize],
}

const SHAPES: [Shape; 5] = [
    Shape { reads: &[], writes: &[0, 1] },
    Shape { reads: &[0], writes: &[1] },
    Shape { reads: &[1], writes: &[0] },
    Shape { reads: &[], writes: &[0] },
    Shape { reads: &[], writes: &[1] },
];

struct Cluster {
    nodes: [Node; 2],
    objects: [Place; 2],
    schedules: usize,
    next_client: u64,
}

impl Cluster {
    fn new() -> Self {
        let nodes = [Node::new(0), Node::new(1)];
        let objects = [0, 1].map(|at: usize| {
            let node = &nodes[at];
            RESOLVERS.iter().for_each(|resolver| node.hello(*resolver, 1));
            let peer = 3;
            node.hello(peer, 0);
            let place = node.reserve(peer, 16, 1).expect("an empty heap has room");
            let id = TransactionId { session: peer.into(), number: 1.into() };
            let create = Update { place, version: 0, change: Change::Create, body: &[0; 16] };
            assert_eq!(node.prepare(id, &[at as u32], PREPARE_ALONE, &[create]), Verdict::Yes);
            node.lock().gone(PeerId(peer));
            place
        });
        Self { nodes, objects, schedules: 0, next_client: 10 }
    }
}

/// What the threads of one schedule share.
struct Run {
    cluster: Cluster,
    /// Time, and where the scheduler chooses who is next.
    time: AtomicU64,
    clients: [u64; 2],
    dead: [std::sync::atomic::AtomicBool; 2],
    history: Mutex<History>,
}

fn key(place: Place) -> ObjectKey {
    ObjectKey { address: place.address.to_bits(), incarnation: place.incarnation }
}

impl Run {
    /// Anybody may go on before this returns; gives the time.
    fn now(&self) -> u64 {
        // ORDER: SeqCst: shuttle knows no other.
        self.time.fetch_add(1, Ordering::SeqCst)
    }

    fn point(&self) {
        self.now();
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A lock-free read, word by word if `torn`; the version, unless writers are in the way.
    fn read(&self, object: usize, torn: bool) -> Option<u64> {
        let place = self.cluster.objects[object];
        let mut order = None;
        if torn && thread_rng().gen_range(0..2u32) == 0 {
            // A transport that promises no order, and a checksum.
            let mut words = [0, 1, 2, 3, 4];
            let turn = thread_rng().gen_range(0..5usize);
            words.rotate_left(turn);
            order = Some(words);
        }
        for _ in 0..ATTEMPTS {
            let (seen, body) = self.cluster.nodes[object].read(place, order, || {
                if torn {
                    self.point();
                }
            });
            match seen {
                Seen::Whole(view) => {
                    assert_eq!(body[0], body[1], "a mix of two versions was accepted");
                    return Some(view.version);
                }
                Seen::Locked | Seen::Torn => self.point(),
                other => panic!("an object that nobody frees is {other:?}"),
            }
        }
        None
    }

    /// A snapshot of both objects.
    fn snapshot(&self, client: u32) {
        let start = self.now();
        let first = thread_rng().gen_range(0..2usize);
        let Some(before) = self.read(first, true) else { return };
        let Some(after) = self.read(1 - first, true) else { return };
        self.point();
        let word = self.cluster.nodes[first].word(self.cluster.objects[first]);
        if !is_unchanged(word, before, Lock::MayBePrepared) {
            return;
        }
        let end = self.now();
        let keys = [key(self.cluster.objects[first]), key(self.cluster.objects[1 - first])];
        self.history().push(Record {
            client,
            number: 1,
            start,
            end,
            outcome: Outcome::Committed,
            reads: vec![(keys[0], before), (keys[1], after)],
            writes: Vec::new(),
        });
    }

    /// A client with one transaction; it dies when it has sent `dies_after` messages.
    fn client(&self, at: usize, shape: &Shape, dies_after: usize) {
        let start = self.now();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for object in shape.reads {
            let Some(version) = self.read(*object, false) else { return };
            reads.push((*object, version));
        }
        for object in shape.writes {
            let Some(version) = self.read(*object, false) else { return };
            writes.push((*object, version));
        }
        let mut commit = Commit {
            run: self,
            id: TransactionId { session: self.clients[at].into(), number: 1.into() },
            reads,
            writes,
            left: dies_after,
        };
        let outcome = commit.run();
        let end = self.now();
        let keyed = |entry: &(usize, u64)| (key(self.cluster.objects[entry.0]), entry.1);
        let writes = commit.writes.iter().map(keyed).map(|(object, before)| Write {
            object,
            kind: WriteKind::Update,
            before,
            after: before + 1,
        });
        self.history().push(Record {
            client: at as u32,
            number: 1,
            start,
            end: if outcome == Outcome::Unknown { u64::MAX } else { end },
            outcome,
            reads: commit.reads.iter().chain(&commit.writes).map(keyed).collect(),
            writes: writes.collect(),
        });
        // Nobody waits for this.
        if outcome == Outcome::Committed && commit.writes.len() > 1 {
            let _ = commit.tell_all(StepKind::Apply);
        }
        if commit.left == 0 {
            // ORDER: Relaxed: one thread at a time runs.
            self.dead[at].store(true, Ordering::Relaxed);
        }
    }

    /// A node notices that clients are gone, or believes so, and looks after what they left.
    fn resolver(&self, at: usize, suspect: Option<usize>) {
        for _ in 0..2 {
            self.point();
            for client in 0..2 {
                // ORDER: Relaxed: one thread at a time runs.
                if suspect == Some(client) || self.dead[client].load(Ordering::Relaxed) {
                    self.cluster.nodes[at].lock().gone(PeerId(self.clients[client]));
                }
            }
            round(&self.cluster.nodes, at, RESOLVERS[at], || self.point());
        }
    }

    /// Everybody has ended: so does all that was left; then the schedule is judged.
    fn judge(&self) {
        let nodes = &self.cluster.nodes;
        for node in nodes {
            self.clients.iter().for_each(|client| node.lock().gone(PeerId(*client)));
        }
        for at in [0, 1, 0, 1] {
            round(nodes, at, RESOLVERS[at], || {});
        }
        let mut history = std::mem::take(&mut *self.history());
        for (node, object) in nodes.iter().zip(self.cluster.objects) {
            assert_eq!(node.lock().waiting(), 0, "a transaction is held after all have ended");
            assert_eq!(node.word(object).mode(), LockMode::Free, "an object is locked after all have ended");
            history.final_state(key(object), Some(node.word(object).version()));
        }
        if let Err(violation) = check(&history) {
            panic!("{violation}");
        }
    }
}

/// A transaction on its way.
struct Commit<'a> {
    run: &'a Run,
    id: TransactionId,
    reads: Vec<(usize, u64)>,
    writes: Vec<(usize, u64)>,
    /// Messages until death.
    left: usize,
}

/// The client is dead.
struct Died;

impl Commit<'_> {
    /// Before a message.
    fn send(&mut self, object: usize) -> Result<&Node, Died> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return Err(Died);
        }
        self.run.point();
        Ok(&self.run.cluster.nodes[object])
    }

    fn tell_all(&mut self, kind: StepKind) -> Result<(), Died> {
        for at in 0..self.writes.len() {
            let (id, object) = (self.id, self.writes[at].0);
            self.send(object)?.tell(id.session.get(), id, kind);
        }
        Ok(())
    }

    fn run(&mut self) -> Outcome {
        self.steps().unwrap_or(Outcome::Unknown)
    }

    fn steps(&mut self) -> Result<Outcome, Died> {
        // Sent at once, in truth: any order of arrival.
        if self.writes.len() > 1 && thread_rng().gen_range(0..2u32) == 0 {
            self.writes.reverse();
        }
        let (id, session) = (self.id, self.id.session.get());
        let alone = self.writes.len() == 1 && self.reads.is_empty();
        let flags = match (alone, self.reads.is_empty()) {
            (true, _) => PREPARE_ALONE,
            (false, false) => PREPARE_CLOSED,
            (false, true) => 0,
        };
        let members: Vec<u32> = self.writes.iter().map(|(object, _)| *object as u32).collect();
        let mut body = [0; 16];
        body[..8].copy_from_slice(&session.to_le_bytes());
        body[8..].copy_from_slice(&session.to_le_bytes());
        let mut refused = false;
        for at in 0..self.writes.len() {
            let (object, version) = self.writes[at];
            let place = self.run.cluster.objects[object];
            let update = Update { place, version, change: Change::Update, body: &body };
            refused |= self.send(object)?.prepare(id, &members, flags, &[update]) != Verdict::Yes;
        }
        if alone {
            return Ok(if refused { Outcome::Aborted } else { Outcome::Committed });
        }
        for at in 0..self.reads.len() {
            let (object, version) = self.reads[at];
            self.run.point();
            let word = self.run.cluster.nodes[object].word(self.run.cluster.objects[object]);
            refused |= !is_unchanged(word, version, Lock::MustBeFree);
        }
        if refused {
            self.tell_all(StepKind::Abort)?;
            return Ok(Outcome::Aborted);
        }
        let mut known = true;
        for at in 0..self.writes.len() {
            let object = self.writes[at].0;
            known &= self.send(object)?.step(session, id, StepKind::Decide) == Verdict::Yes;
        }
        if known {
            return Ok(Outcome::Committed);
        }
        self.tell_all(StepKind::Leave)?;
        for at in 0..self.writes.len() {
            let answer = self.send(self.writes[at].0)?.ask(session, Method::Freeze, id.as_bytes());
            let answer = answer.expect("a state");
            let known = Known::ref_from_bytes(&answer).expect("a state");
            match State::from_bits(known.state.get()) {
                Some(State::Committed) => return Ok(Outcome::Committed),
                Some(State::Aborted) => return Ok(Outcome::Aborted),
                Some(State::Unknown) if self.writes.len() == 1 => return Ok(Outcome::Aborted),
                _ => {}
            }
        }
        Ok(Outcome::Unknown)
    }
}

/// A model whose nodes are used again by its schedules.
pub(crate) fn model(lives: Lives) -> impl Fn() + Send + Sync + 'static {
    let kept: Mutex<Option<Cluster>> = Mutex::new(None);
    move || {
        let known = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let mut cluster =
            known.filter(|known| known.schedules < SCHEDULES_PER_CLUSTER).unwrap_or_else(Cluster::new);
        cluster.schedules += 1;
        let clients = [cluster.next_client, cluster.next_client + 1];
        cluster.next_client += 2;
        let mut history = History::new();
        for (node, object) in cluster.nodes.iter().zip(cluster.objects) {
            clients.iter().for_each(|client| node.hello(*client, 0));
            history.initial(key(object), node.word(object).version());
        }
        let (time, history) = (AtomicU64::new(1), Mutex::new(history));
        let run = Arc::new(Run { cluster, time, clients, dead: Default::default(), history });
        let mut threads = Vec::with_capacity(5);
        for at in 0..2 {
            let shape = &SHAPES[thread_rng().gen_range(0..SHAPES.len())];
            let dies_after = match lives {
                Lives::Long => usize::MAX,
                Lives::Short => thread_rng().gen_range(1..12usize),
            };
            let run = run.clone();
            threads.push(shuttle::thread::spawn(move || run.client(at, shape, dies_after)));
        }
        if lives == Lives::Short {
            for at in 0..2 {
                let suspect = Some(thread_rng().gen_range(0..4usize)).filter(|client| *client < 2);
                let run = run.clone();
                threads.push(shuttle::thread::spawn(move || run.resolver(at, suspect)));
            }
        }
        let reader = run.clone();
        threads.push(shuttle::thread::spawn(move || reader.snapshot(3)));
        for thread in threads {
            thread.join().expect("a thread that panics ends the schedule");
        }
        run.judge();
        if let Ok(run) = Arc::try_unwrap(run) {
            *kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(run.cluster);
        }
    }
}
