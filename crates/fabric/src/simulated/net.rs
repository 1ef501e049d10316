//! The state of a world that links and tasks share: time, chance, the queue of events, nodes
//! and connections.
//!
//! What always holds: events are carried out in the order of their times, ties broken by the
//! seed; nothing here depends on a hash map's order, a real clock or an address; nobody else's
//! code (a service, a task, a drop) runs while this is locked.

use super::NodeId;
use super::connection::{Channel, Side};
use super::disk::SimulatedDisk;
use super::fault::Fault;
use super::options::{Span, WorldOptions};
use super::trace::Trace;
use crate::registry::{PeerId, Registry};
use crate::seam::{Random, Seeded, Task};
use crate::service::Outbox;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// When, a tie's order, and a number that makes it unique.
pub(super) type Key = (u64, u64, u64);

/// Something that will happen.
#[derive(Debug)]
pub(super) enum Event {
    /// A task that was woken gets a CPU.
    Poll(u64),
    /// A timer is over.
    Wake(Waker),
    /// A frame reaches one end of a connection.
    Deliver { channel: u64, at: Side },
    /// A node's process takes a frame that has arrived.
    Serve { channel: u64 },
    /// A one-sided operation goes on.
    Step { channel: u64 },
    /// A wait is over.
    Deadline { channel: u64, ticket: u64 },
    /// One end notices that the other does not answer; `sure` when it is gone for good.
    Break { channel: u64, side: Side, sure: bool },
    /// A node's process has nothing to do.
    Idle(NodeId),
    /// Something is made to fail, or heals.
    Fault(Fault),
    /// Time to draw the next fault.
    Chance,
}

/// What is left to do outside the lock, with services and tasks.
#[derive(Debug)]
pub(super) enum Effect {
    Nothing,
    Poll(u64),
    Joined { node: NodeId, peer: PeerId },
    Gone { node: NodeId, peer: PeerId },
    Call { node: NodeId, peer: PeerId, id: u64, method: u16, body: Vec<u8> },
    Message { node: NodeId, peer: PeerId, body: Vec<u8> },
    Idle(NodeId),
    Crashed(NodeId),
    Restart(NodeId),
}

/// What has happened so far, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events carried out.
    pub events: u64,
    /// READs carried out.
    pub reads: u64,
    /// READs whose words were never all there at one moment.
    pub torn_reads: u64,
    /// Calls that reached a service.
    pub calls: u64,
    /// Faults injected, by plan or by chance.
    pub faults: u64,
    /// Crashes among them.
    pub crashes: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.reads += other.reads;
        self.torn_reads += other.torn_reads;
        self.calls += other.calls;
        self.faults += other.faults;
        self.crashes += other.crashes;
    }
}

/// One process.
pub(super) struct NodeState {
    pub(super) name: String,
    /// Counts the lives of this node, from 1.
    pub(super) incarnation: u32,
    pub(super) up: bool,
    /// Whether it has a service to connect to.
    pub(super) serves: bool,
    /// Whether it can be started again after a crash.
    pub(super) restartable: bool,
    pub(super) registry: Registry,
    pub(super) outbox: Arc<Outbox>,
    pub(super) peers: BTreeMap<PeerId, u64>,
    pub(super) next_peer: u64,
    pub(super) paused: Option<Pause>,
    pub(super) paused_ns: u64,
    pub(super) pauses: u32,
    pub(super) idle_scheduled: bool,
    pub(super) stalled_polls: Vec<u64>,
    pub(super) disk: SimulatedDisk,
}

/// A process that has been stopped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    pub(super) since: u64,
    /// Whether its memory can be read meanwhile, as with a NIC and on shm; or not, as on tcp.
    pub(super) reachable: bool,
}

/// The seed's numbers, a stream for each purpose, so that one more draw here leaves the
/// others as they were.
pub(super) struct Streams {
    pub(super) schedule: Seeded,
    pub(super) network: Seeded,
    pub(super) tear: Seeded,
    pub(super) fault: Seeded,
}

/// See the module's head.
pub(super) struct Net {
    pub(super) seed: u64,
    pub(super) now: u64,
    pub(super) options: WorldOptions,
    events: BTreeMap<Key, Event>,
    serial: u64,
    pub(super) streams: Streams,
    pub(super) handed_out: u64,
    pub(super) trace: Trace,
    pub(super) stats: Stats,
    pub(super) nodes: Vec<NodeState>,
    pub(super) channels: BTreeMap<u64, Channel>,
    pub(super) next_channel: u64,
    /// Directions in which nothing gets through.
    pub(super) cuts: BTreeSet<(NodeId, NodeId)>,
    /// Pairs between which everything takes far longer, by how often they were struck.
    pub(super) storms: BTreeMap<(NodeId, NodeId), u32>,
    /// Tasks that were started through the scheduling seam, and in which life of the node.
    pub(super) spawned: Vec<(NodeId, u32, Task)>,
}

pub(super) type Shared = Arc<Mutex<Net>>;

/// Locks the world. A panic elsewhere is reported by whoever panicked.
pub(super) fn lock(shared: &Mutex<Net>) -> MutexGuard<'_, Net> {
    shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A seed for one purpose.
pub(super) fn derive(seed: u64, purpose: &str) -> u64 {
    let mut trace = Trace::new(seed);
    trace.note_bytes(purpose.as_bytes());
    Seeded::new(trace.hash()).next()
}

/// A number of a span, both ends included.
pub(super) fn within(random: &mut Seeded, (from, to): Span) -> u64 {
    from + random.below(to.saturating_sub(from) + 1)
}

impl Net {
    pub(super) fn new(seed: u64, options: WorldOptions) -> Self {
        let stream = |purpose| Seeded::new(derive(seed, purpose));
        let mut net = Self {
            seed,
            now: 0,
            options,
            events: BTreeMap::new(),
            serial: 0,
            streams: Streams {
                schedule: stream("schedule"),
                network: stream("network"),
                tear: stream("tear"),
                fault: stream("fault"),
            },
            handed_out: 0,
            trace: Trace::new(seed),
            stats: Stats::default(),
            nodes: Vec::new(),
            channels: BTreeMap::new(),
            next_channel: 0,
            cuts: BTreeSet::new(),
            storms: BTreeMap::new(),
            spawned: Vec::new(),
        };
        net.schedule_chance();
        net
    }

    /// Something will happen in so many nanoseconds.
    pub(super) fn after(&mut self, delay: u64, event: Event) -> Key {
        self.at(self.now.saturating_add(delay), event)
    }

    /// Something will happen at a time.
    pub(super) fn at(&mut self, time: u64, event: Event) -> Key {
        self.serial += 1;
        let key = (time.max(self.now), self.streams.schedule.next(), self.serial);
        self.events.insert(key, event);
        key
    }

    /// It will not happen after all.
    pub(super) fn cancel(&mut self, key: Key) {
        self.events.remove(&key);
    }

    /// A task that was woken will be polled when it gets a CPU.
    pub(super) fn schedule_poll(&mut self, task: u64) {
        let delay = within(&mut self.streams.schedule, self.options.scheduling);
        self.after(delay, Event::Poll(task));
    }

    /// Carries out the next event, if there is one no later than `limit`.
    pub(super) fn step(&mut self, limit: u64) -> Step {
        let Some((key, _)) = self.events.first_key_value() else { return Step::Empty };
        if key.0 > limit {
            self.now = limit;
            return Step::Later;
        }
        let Some((key, event)) = self.events.pop_first() else { return Step::Empty };
        self.now = key.0;
        self.stats.events += 1;
        self.trace.note(self.now);
        Step::Done(self.carry_out(event))
    }

    fn carry_out(&mut self, event: Event) -> Effect {
        match event {
            Event::Poll(task) => {
                self.trace.note_all(&[1, task]);
                return Effect::Poll(task);
            }
            Event::Wake(waker) => {
                self.trace.note(2);
                waker.wake();
            }
            Event::Deliver { channel, at } => {
                self.trace.note_all(&[3, channel, at as u64]);
                return self.deliver(channel, at);
            }
            Event::Serve { channel } => {
                self.trace.note_all(&[4, channel]);
                return self.serve(channel);
            }
            Event::Step { channel } => {
                self.trace.note_all(&[5, channel]);
                self.step_operation(channel);
            }
            Event::Deadline { channel, ticket } => {
                self.trace.note_all(&[6, channel, ticket]);
                self.expire(channel, ticket);
            }
            Event::Break { channel, side, sure } => {
                self.trace.note_all(&[7, channel, side as u64, u64::from(sure)]);
                self.notice_break(channel, side, sure);
            }
            Event::Idle(node) => {
                self.trace.note_all(&[8, u64::from(node.0)]);
                let state = self.node(node);
                state.idle_scheduled = false;
                if state.up && state.paused.is_none() {
                    return Effect::Idle(node);
                }
            }
            Event::Fault(fault) => return self.strike(fault),
            Event::Chance => {
                self.trace.note(10);
                self.draw_fault();
            }
        }
        Effect::Nothing
    }

    pub(super) fn node(&mut self, node: NodeId) -> &mut NodeState {
        &mut self.nodes[node.0 as usize]
    }

    /// Whether nothing gets from one node to the other.
    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// How long a message takes.
    pub(super) fn latency(&mut self, from: NodeId, to: NodeId) -> u64 {
        let random = &mut self.streams.network;
        let mut latency = within(random, self.options.latency);
        if random.chance(self.options.late_per_million) {
            latency += within(random, self.options.late);
        }
        if self.storms.contains_key(&(from.min(to), from.max(to))) {
            // A factor of 2 to 40: a congested switch.
            latency *= 2 + random.below(39);
        }
        latency
    }

    /// The process of a node will look whether it is idle.
    pub(super) fn schedule_idle(&mut self, node: NodeId) {
        let delay = within(&mut self.streams.schedule, self.options.scheduling);
        if !std::mem::replace(&mut self.node(node).idle_scheduled, true) {
            self.after(delay, Event::Idle(node));
        }
    }
}

/// How a step went.
pub(super) enum Step {
    /// An event was carried out, and this is left to do.
    Done(Effect),
    /// The next event is past the limit.
    Later,
    /// Nothing will happen any more.
    Empty,
}
