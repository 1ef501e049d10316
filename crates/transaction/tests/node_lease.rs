//! A node lets clients believe what they read only while it holds its own lease, and not on from
//! before a time when it had none.
#![forbid(unsafe_code)]

use barn_cluster::{Directory, HeldLease, MemberId};
use barn_fabric::seam::Clock;
use barn_fabric::{PeerId, Registry};
use barn_heap::{Heap, HeapOptions};
use barn_layout::transaction::{Hello, Renew};
use barn_transaction::participant::{Functions, Participant, ParticipantOptions};
use barn_transaction::wire::Method;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::IntoBytes;

const LEASE: Duration = Duration::from_millis(1000);

/// A clock that stands where it is put.
#[derive(Clone, Default)]
struct Put(Arc<Mutex<Duration>>);

impl Clock for Put {
    fn now(&self) -> Duration {
        *self.0.lock().expect("nobody panics with it")
    }
}

/// A node whose lease and time are what a test says.
struct World {
    time: Put,
    lease: Arc<Mutex<HeldLease>>,
    participant: Participant,
}

impl World {
    fn new() -> Self {
        let (time, lease) = (Put::default(), Arc::new(Mutex::new(HeldLease::none())));
        let held = lease.clone();
        let participant = Participant::new(ParticipantOptions {
            member: MemberId(1),
            heap: Heap::new(HeapOptions { budget_bytes: 1 }),
            registry: Registry::default(),
            regions: Vec::new(),
            directory: Arc::new(Directory::new()),
            lease: LEASE,
            clock: Arc::new(time.clone()),
            functions: Functions::default(),
            standing: Some(Box::new(move || *held.lock().expect("nobody panics with it"))),
        });
        Self { time, lease, participant }
    }

    fn at(&mut self, millis: u64) -> &mut Self {
        *self.time.0.lock().expect("nobody panics with it") = Duration::from_millis(millis);
        self
    }

    /// The cluster grants the node its lease, asked for at this time.
    fn granted(&mut self, millis: u64) {
        let asked = HeldLease::asked(Duration::from_millis(millis));
        *self.lease.lock().expect("nobody panics with it") = HeldLease::granted(asked, LEASE);
    }

    fn hello(&mut self, session: u64) -> Result<(), String> {
        let hello = Hello { session: session.into(), role: 0.into(), reserved: 0.into() };
        self.participant.handle(PeerId(session), Method::Hello, hello.as_bytes(), &mut Vec::new())
    }

    fn renew(&mut self, session: u64) -> Result<(), String> {
        let renew = Renew { session: session.into(), epoch: 0.into() };
        self.participant.handle(PeerId(session), Method::Renew, renew.as_bytes(), &mut Vec::new())
    }
}

#[test]
fn a_node_without_a_lease_renews_nobodys_and_says_so_at_once() {
    let mut world = World::new();
    world.granted(0);
    world.at(1).hello(7).expect("the node has its lease");
    world.at(900).renew(7).expect("it still has");
    // Nobody has told the participant: it stood still, and this is the first that it hears.
    world.at(1100).renew(7).expect_err("the lease is over");
    world.hello(8).expect_err("the lease is over for newcomers, too");
}

#[test]
fn sessions_do_not_outlive_a_break_of_the_nodes_lease() {
    let mut world = World::new();
    world.granted(0);
    world.at(1).hello(7).expect("the node has its lease");
    // It is back before it has heard anything.
    world.granted(1100);
    world.at(1200).renew(7).expect_err("the cluster may have done without the node meanwhile");
    world.hello(8).expect("it has a lease again");
    // Renewed in time: no break.
    world.granted(1500);
    world.at(2200).renew(8).expect("the node has had a lease all the time");
}
