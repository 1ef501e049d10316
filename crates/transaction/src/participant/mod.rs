//! A node's side of transactions: it holds objects, locks them for others, and carries changes out.
//!
//! Everything here runs on the node's poll loop, one message at a time; strangers read the memory
//! meanwhile. A transaction that touches one node is one message: locked, validated and changed in
//! one go. One that touches several goes through three steps here:
//!
//! ```text
//! Prepare   objects locked (what they hold may still be read), changes kept     -> Prepared
//! Decide    every node has prepared and the reads are still true: nobody reads
//!           the objects from here on                                            -> Decided
//! Apply     every node has decided: changes carried out, objects unlocked       -> forgotten
//! ```
//!
//! What always holds:
//! - nothing of a transaction can be seen before every node that it changes has decided, and the
//!   client is told only then: so whoever survives knows what the client may have been told;
//! - a transaction whose client is lost is decided by the nodes ([`crate::resolver`]): *if any of
//!   them has decided, it is carried out, otherwise not*. Asking a node for its state freezes it
//!   there, so that every resolver comes to the same answer;
//! - a session that has ended never comes back: what it sends later is refused;
//! - a node that has been without its own lease, for however short a time, has no session from
//!   before, and nobody reads what a transaction from before is about to change: the others may
//!   have carried that out without it;
//! - a place that a client has reserved and not used is free again when its session ends.

mod durable;
#[cfg(test)]
mod durable_tests;
mod prepare;
mod recover;
mod session;
mod ship;
mod step;

pub use durable::{Asked, NOTE};
pub use ship::{Function, FunctionError, Functions, Local};

use crate::wire::{Malformed, Method, vote};
use barn_cluster::{Directory, HeldLease, MemberId};
use barn_fabric::seam::Clock;
use barn_fabric::{PeerId, Registry, Reply, Request};
use barn_heap::{Heap, ObjectError};
use barn_layout::transaction::{State, TransactionId, Verdict};
use barn_layout::{Address, Durability, RegionId, planted};
use recover::Outcomes;
use session::Sessions;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Whether a function's refusal says that it may simply be called again.
pub(crate) fn ship_busy(why: &str) -> bool {
    why.starts_with(ship::BUSY)
}

/// Bytes of changes that one transaction may hold at one node.
pub const TRANSACTION_BYTES_MAX: usize = 256 << 20;

/// Says which lease the node holds now, on the participant's clock.
pub type Standing = Box<dyn Fn() -> HeldLease + Send>;

/// How a participant is made.
pub struct ParticipantOptions {
    /// The node's number in its cluster.
    pub member: MemberId,
    /// Its objects.
    pub heap: Heap,
    /// Where its regions are registered: a session is let into them, and out again.
    pub registry: Registry,
    /// The regions that it holds.
    pub regions: Vec<RegionId>,
    /// Who holds what, as far as the node knows.
    pub directory: Arc<Directory>,
    /// How long a session lives without renewal.
    pub lease: Duration,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What can be called by name.
    pub functions: Functions,
    /// The node's own lease in its cluster; none for a node that is on its own.
    pub standing: Option<Standing>,
}

/// A transaction that waits for its decision here.
#[derive(Debug)]
struct Held {
    participants: Vec<MemberId>,
    /// Its changes, as they came.
    writes: Vec<u8>,
    count: usize,
    /// What its client asked for.
    durability: Option<Durability>,
    decided: bool,
    /// Only resolvers may change it from here on.
    frozen: bool,
    /// Its client is gone, or has left it.
    orphan: bool,
}

/// What happened, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParticipantStats {
    /// Transactions carried out that touched no other node.
    pub alone: u64,
    /// Transactions prepared.
    pub prepared: u64,
    /// Of those, carried out.
    pub applied: u64,
    /// Transactions refused or aborted.
    pub aborted: u64,
    /// Transactions that resolvers ended.
    pub resolved: u64,
    /// Sessions that ended by their lease.
    pub expired: u64,
    /// Functions run.
    pub shipped: u64,
}

/// A node's side of transactions.
pub struct Participant {
    member: MemberId,
    heap: Heap,
    registry: Registry,
    regions: BTreeSet<RegionId>,
    directory: Arc<Directory>,
    lease: Duration,
    clock: Arc<dyn Clock>,
    functions: Functions,
    standing: Option<Standing>,
    /// The node has no lease, as far as was seen last.
    fenced: bool,
    /// When the lease ends that was seen last.
    stands_until: Duration,
    sessions: Sessions,
    /// When the heap's epoch began.
    epoch_began: Duration,
    held: HashMap<TransactionId, Held>,
    outcomes: Outcomes,
    stats: ParticipantStats,
    /// Objects of tables that transactions have changed, for whoever keeps count of tables.
    changed_tables: Vec<Address>,
    /// What the answer to the last request has to wait for.
    asked: Asked,
    /// The strongest durability that the node offers.
    strongest: Durability,
    /// An answer in the making.
    answer: Vec<u8>,
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant").field("member", &self.member).field("held", &self.held.len()).finish()
    }
}

/// A step that did not go through, and the object that stood in the way.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    verdict: Verdict,
    address: u64,
}

impl From<Verdict> for Refusal {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, address: 0 }
    }
}

impl From<Malformed> for Refusal {
    fn from(_: Malformed) -> Self {
        Verdict::Unknown.into()
    }
}

impl Participant {
    /// A participant over a heap, with nobody connected.
    pub fn new(options: ParticipantOptions) -> Self {
        Self {
            member: options.member,
            heap: options.heap,
            registry: options.registry,
            regions: options.regions.into_iter().collect(),
            directory: options.directory,
            lease: options.lease,
            clock: options.clock,
            functions: options.functions,
            standing: options.standing,
            fenced: false,
            stands_until: Duration::ZERO,
            sessions: Sessions::default(),
            epoch_began: Duration::ZERO,
            held: HashMap::new(),
            outcomes: Outcomes::default(),
            stats: ParticipantStats::default(),
            changed_tables: Vec::new(),
            asked: Asked::default(),
            strongest: Durability::Memory,
            answer: Vec::new(),
        }
    }

    /// The node's number in its cluster.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// The node's objects.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The node's objects, for other layers to change; nothing while the node has lost its place and
    /// must not change anything.
    pub fn heap_mut(&mut self) -> Option<&mut Heap> {
        (!self.fenced).then_some(&mut self.heap)
    }

    /// The objects of tables that transactions have changed since this was last asked.
    pub fn take_changed_tables(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.changed_tables)
    }

    /// What happened, counted.
    pub fn stats(&self) -> ParticipantStats {
        self.stats
    }

    /// How many clients have a session.
    pub fn clients(&self) -> usize {
        self.sessions.clients()
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the node has no lease, as far as was seen last.
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    /// How many transactions wait for their decision.
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// Answers a request of the transaction layer.
    pub fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let Some(method) = Method::from_bits(request.method) else { return reply.unknown_method() };
        let mut answer = std::mem::take(&mut self.answer);
        answer.clear();
        match self.handle(request.peer, method, request.body, &mut answer) {
            Ok(()) => reply.done(&answer),
            Err(why) => reply.refuse(&why),
        }
        self.answer = answer;
    }

    /// Carries a request out; the answer, or why there is none.
    pub fn handle(
        &mut self,
        peer: PeerId,
        method: Method,
        body: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<(), String> {
        // These give a client leave to believe what it reads, for a lease: only a node may that is
        // sure of its own at this very moment. Whatever else slips in before the next look finds
        // the objects of transactions that others may have ended locked.
        if matches!(method, Method::Hello | Method::Renew) {
            self.look_at_lease();
        }
        if self.fenced && method != Method::Orphans && method != Method::Freeze {
            return Err(format!("{} and serves nobody until it is back", crate::error::FENCED));
        }
        match method {
            Method::Prepare => {
                if let Some(why) = self.asks_too_much(body) {
                    return Err(why);
                }
                let voted = self.prepare(peer, body);
                self.vote_into(answer, voted)
            }
            Method::Step => {
                let voted = self.step(peer, body);
                self.vote_into(answer, voted)
            }
            Method::Validate => {
                let voted = self.validate_message(body);
                self.vote_into(answer, voted)
            }
            Method::Hello => self.hello(peer, body, answer),
            Method::Renew => self.renew(peer, body, answer),
            Method::Reserve => self.reserve(peer, body, answer),
            Method::Release => self.release(peer, body),
            Method::Freeze => self.freeze(body, answer),
            Method::Orphans => self.orphans(answer),
            Method::Ship => self.ship(body, answer),
            Method::Usage => {
                answer.extend_from_slice(format!("{:?}", self.heap.usage()).as_bytes());
                Ok(())
            }
        }
    }

    /// Takes a message that expects no answer: a step that nobody waits for.
    pub fn message(&mut self, peer: PeerId, body: &[u8]) {
        if !self.fenced {
            // Whoever sent garbage, or a step that came too late, has nothing to be told.
            let _ = self.step(peer, body);
        }
    }

    /// A peer is gone: its session ends.
    pub fn gone(&mut self, peer: PeerId) {
        if !planted("session_end_forgotten") {
            self.end_session(peer);
        }
    }

    fn vote_into(&self, answer: &mut Vec<u8>, voted: Result<(), Refusal>) -> Result<(), String> {
        let (verdict, address) = match voted {
            Ok(()) => (Verdict::Yes, 0),
            Err(refusal) => (refusal.verdict, refusal.address),
        };
        answer.extend_from_slice(vote(verdict, address, self.directory.version()).as_bytes());
        Ok(())
    }

    /// What to tell a client whose object is not as it thought.
    fn refusal(&self, address: Address, error: ObjectError) -> Refusal {
        let verdict = match error {
            ObjectError::Locked => Verdict::Locked,
            ObjectError::Changed { .. } => Verdict::Changed,
            ObjectError::Freed => Verdict::Freed,
            ObjectError::Length { .. } => Verdict::Length,
            _ if !self.regions.contains(&address.region()) => Verdict::NotHere,
            _ => Verdict::NotAnObject,
        };
        Refusal { verdict, address: address.to_bits() }
    }

    /// The state of a transaction that is not held here any more, as far as it is remembered.
    fn remembered(&self, id: TransactionId) -> State {
        match self.outcomes.get(id) {
            Some(state) => state,
            None if self.sessions.has_committed(id) => State::Committed,
            None => State::Unknown,
        }
    }
}
