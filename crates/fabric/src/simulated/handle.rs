//! What can be done in a world: start nodes and tasks, connect, sleep, break things.

use super::NodeId;
use super::connection::Frame;
use super::disk::SimulatedDisk;
use super::fault::Fault;
use super::link::{SimulatedLink, Unanswered, nanos};
use super::net::{Event, Key, NodeState, Shared, Stats, derive, lock};
use super::world::{Boot, Local};
use crate::connection::Connection;
use crate::error::ConnectError;
use crate::link::Wait;
use crate::region::journal::Journal;
use crate::region::{Region, Rights};
use crate::registry::Registry;
use crate::seam::{Clock, Schedule, Seeded, Task};
use crate::service::{Outbox, Sender, Service};
use barn_layout::frame::Outcome;
use barn_layout::handshake::{Refusal, VERSION};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

/// A way into a world, for tasks and services to hold. Clones are the same world.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Shared,
    pub(super) local: Rc<Local>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net = lock(&self.shared);
        write!(f, "seed {}, {:?}, {} events", net.seed, Duration::from_nanos(net.now), net.stats.events)
    }
}

/// Memory that only the simulated transport serves, and whose READs it tears.
pub fn region(bytes: usize, remote: Rights) -> Region {
    Region::on_heap(bytes, remote).journaled(Arc::new(Journal::default()))
}

impl Handle {
    /// The seed.
    pub fn seed(&self) -> u64 {
        lock(&self.shared).seed
    }

    /// Virtual time since the world began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(lock(&self.shared).now)
    }

    /// The hash of everything that has happened: the same seed gives the same.
    pub fn trace(&self) -> u64 {
        lock(&self.shared).trace.hash()
    }

    /// What has happened, counted.
    pub fn stats(&self) -> Stats {
        lock(&self.shared).stats
    }

    /// Numbers for one purpose, which follow from the seed.
    pub fn random(&self, purpose: &str) -> Seeded {
        Seeded::new(derive(lock(&self.shared).seed, purpose))
    }

    /// An empty registry whose keys follow from the seed.
    pub fn registry(&self) -> Registry {
        lock(&self.shared).fresh_registry()
    }

    /// Memory for a node to register: see [`region()`].
    pub fn region(&self, bytes: usize, remote: Rights) -> Region {
        region(bytes, remote)
    }

    fn add_node(&self, name: &str, registry: Option<Registry>, restartable: bool) -> NodeId {
        let mut net = lock(&self.shared);
        let node = NodeId(net.nodes.len() as u32);
        let serves = registry.is_some() || restartable;
        let registry = registry.unwrap_or_else(|| net.fresh_registry());
        let disk = SimulatedDisk::new(derive(net.seed ^ u64::from(node.0), "disk"));
        net.nodes.push(NodeState {
            name: name.to_string(),
            incarnation: 1,
            up: true,
            serves,
            restartable,
            registry,
            outbox: Arc::new(Outbox::new(None)),
            peers: BTreeMap::new(),
            next_peer: 0,
            paused: None,
            paused_ns: 0,
            pauses: 0,
            idle_scheduled: false,
            stalled_polls: Vec::new(),
            disk,
        });
        node
    }

    /// Starts a node that serves nobody: a client.
    pub fn start_client(&self, name: &str) -> NodeId {
        self.add_node(name, None, false)
    }

    /// Starts a node. If it dies, it stays dead; see [`Self::start_restartable`].
    pub fn start_node(&self, name: &str, registry: Registry, service: Box<dyn Service>) -> NodeId {
        let node = self.add_node(name, Some(registry), false);
        self.local.services.borrow_mut().insert(node, service);
        node
    }

    /// Starts a node that can be started again after a crash: `factory` makes its service,
    /// registers its regions and starts its tasks, each time.
    pub fn start_restartable(
        &self,
        name: &str,
        factory: impl FnMut(Boot) -> Box<dyn Service> + 'static,
    ) -> NodeId {
        let node = self.add_node(name, None, true);
        self.local.factories.borrow_mut().insert(node, Box::new(factory));
        self.boot(node);
        node
    }

    /// Runs a node's factory.
    pub(super) fn boot(&self, node: NodeId) {
        let Some(mut factory) = self.local.factories.borrow_mut().remove(&node) else { return };
        let boot = {
            let mut net = lock(&self.shared);
            let state = net.node(node);
            state.up = true;
            Boot {
                world: self.clone(),
                node,
                incarnation: state.incarnation,
                registry: state.registry.clone(),
                sender: Sender { outbox: state.outbox.clone() },
            }
        };
        let service = factory(boot);
        self.local.services.borrow_mut().insert(node, service);
        self.local.factories.borrow_mut().insert(node, factory);
    }

    /// The regions of a node, in its present life.
    pub fn registry_of(&self, node: NodeId) -> Registry {
        lock(&self.shared).node(node).registry.clone()
    }

    /// Sends messages to a node's peers, in its present life.
    pub fn sender(&self, node: NodeId) -> Sender {
        Sender { outbox: lock(&self.shared).node(node).outbox.clone() }
    }

    /// How many peers a node has now.
    pub fn peers(&self, node: NodeId) -> usize {
        lock(&self.shared).node(node).peers.len()
    }

    /// A node's disk, which outlives its crashes.
    pub fn disk(&self, node: NodeId) -> SimulatedDisk {
        lock(&self.shared).node(node).disk.clone()
    }

    /// Whether a node is up, and which of its lives this is.
    pub fn life(&self, node: NodeId) -> (bool, u32) {
        let mut net = lock(&self.shared);
        let state = net.node(node);
        (state.up, state.incarnation)
    }

    /// How long a node has been stopped, all in all, and how often.
    pub fn paused(&self, node: NodeId) -> (Duration, u32) {
        let mut net = lock(&self.shared);
        let now = net.now;
        let state = net.node(node);
        let current = state.paused.map_or(0, |pause| now - pause.since);
        (Duration::from_nanos(state.paused_ns + current), state.pauses)
    }

    /// Starts a task on a node; [`World::run`](super::World::run) waits for its end.
    pub fn spawn(&self, node: NodeId, task: impl Future<Output = ()> + 'static) {
        self.local.add_task(node, false, Box::pin(task));
    }

    /// Starts a task on a node whose end nobody waits for.
    pub fn spawn_background(&self, node: NodeId, task: impl Future<Output = ()> + 'static) {
        self.local.add_task(node, true, Box::pin(task));
    }

    /// A wait.
    pub fn sleep(&self, time: Duration) -> Sleep {
        let until = lock(&self.shared).now.saturating_add(nanos(time));
        Sleep { shared: self.shared.clone(), until, key: None }
    }

    /// The virtual clock, for code that takes one.
    pub fn clock(&self) -> VirtualClock {
        VirtualClock(self.shared.clone())
    }

    /// Starts and delays tasks on a node, for code that takes a scheduler.
    pub fn scheduler(&self, node: NodeId) -> Scheduler {
        let incarnation = lock(&self.shared).node(node).incarnation;
        Scheduler { shared: self.shared.clone(), node, incarnation }
    }

    /// Connects a node to another.
    pub fn connect(
        &self,
        from: NodeId,
        to: NodeId,
    ) -> impl Future<Output = Result<Connection, ConnectError>> + use<> {
        let deadline = lock(&self.shared).options.deadline;
        self.connect_within(from, to, deadline)
    }

    /// Connects a node to another, with a deadline for this and every operation.
    pub fn connect_within(
        &self,
        from: NodeId,
        to: NodeId,
        deadline: Duration,
    ) -> impl Future<Output = Result<Connection, ConnectError>> + use<> {
        connect(self.shared.clone(), from, to, deadline)
    }

    /// Connects a node to others, for code that must be able to go from thread to thread.
    pub fn dialer(&self, from: NodeId) -> Dialer {
        Dialer { shared: self.shared.clone(), from }
    }

    fn strike(&self, fault: Fault) {
        lock(&self.shared).after(0, Event::Fault(fault));
    }

    /// The power of a node fails: its tasks, its memory and what its disk had not synced are
    /// lost, and its peers find out in their own time.
    pub fn crash(&self, node: NodeId) {
        self.strike(Fault::Crash { node, power: true });
    }

    /// A node's process dies; its disk keeps what was written.
    pub fn kill(&self, node: NodeId) {
        self.strike(Fault::Crash { node, power: false });
    }

    /// Starts a restartable node again.
    pub fn restart(&self, node: NodeId) {
        self.strike(Fault::Restart(node));
    }

    /// Stops a node's process. Its memory can be reached meanwhile if `reachable`, as by a NIC.
    pub fn pause(&self, node: NodeId, reachable: bool) {
        self.strike(Fault::Pause { node, reachable });
    }

    /// Lets it go on.
    pub fn resume(&self, node: NodeId) {
        self.strike(Fault::Resume(node));
    }

    /// Cuts two nodes off from each other.
    pub fn partition(&self, one: NodeId, other: NodeId) {
        self.strike(Fault::Cut { from: one, to: other });
        self.strike(Fault::Cut { from: other, to: one });
    }

    /// Lets nothing through from one node to the other.
    pub fn partition_one_way(&self, from: NodeId, to: NodeId) {
        self.strike(Fault::Cut { from, to });
    }

    /// Lets everything through again.
    pub fn heal(&self, one: NodeId, other: NodeId) {
        self.strike(Fault::Heal { from: one, to: other });
        self.strike(Fault::Heal { from: other, to: one });
    }

    /// No more faults by chance; whatever is cut, paused or down comes back.
    pub fn calm(&self) {
        lock(&self.shared).calm();
    }
}

async fn connect(
    shared: Shared,
    from: NodeId,
    to: NodeId,
    deadline: Duration,
) -> Result<Connection, ConnectError> {
    let channel = lock(&shared).new_channel(from, to);
    let link = SimulatedLink { shared: shared.clone(), channel, peer: OnceLock::new() };
    let mut wait = Wait::new(deadline);
    let hello = |cx: &mut Context<'_>| link.poll_posted(cx, &mut wait, |ticket| Frame::Hello { ticket });
    let answer = std::future::poll_fn(hello).await;
    let (address, peer) = {
        let mut net = lock(&shared);
        let address = format!("simulated:{}", net.node(to).name);
        (address, net.channels.get(&channel).map(|channel| channel.peer))
    };
    let refused = |kind: std::io::ErrorKind| ConnectError::NoNode { address, cause: kind.into() };
    match answer.map(|answer| Outcome::from_bits(answer.status)) {
        Ok(Some(Outcome::Done)) => {
            let _ = link.peer.set(peer.unwrap_or(crate::PeerId(0)));
            Ok(Connection { link: Arc::new(link), deadline })
        }
        Ok(Some(Outcome::TooManyRegions)) => {
            Err(ConnectError::Refused { refusal: Refusal::TooManyPeers, version: VERSION })
        }
        Ok(Some(Outcome::NoSuchRegion)) => Err(refused(std::io::ErrorKind::ConnectionRefused)),
        Ok(_) => Err(ConnectError::Protocol),
        Err(Unanswered::Deadline) => Err(ConnectError::Deadline),
        Err(Unanswered::Gone) => Err(refused(std::io::ErrorKind::ConnectionReset)),
    }
}

/// Connects a node to others by their names.
#[derive(Clone)]
pub struct Dialer {
    shared: Shared,
    from: NodeId,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dialer({:?})", self.from)
    }
}

impl Dialer {
    /// Connects to the node of that name, with a deadline for this and every operation.
    pub async fn connect(&self, name: &str, deadline: Duration) -> Result<Connection, ConnectError> {
        let to = lock(&self.shared).nodes.iter().position(|node| node.name == name);
        match to {
            Some(to) => connect(self.shared.clone(), self.from, NodeId(to as u32), deadline).await,
            None => Err(ConnectError::Address { address: format!("simulated:{name}") }),
        }
    }
}

/// A wait of virtual time.
pub struct Sleep {
    shared: Shared,
    until: u64,
    key: Option<Key>,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sleep(until {:?})", Duration::from_nanos(self.until))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = self.shared.clone();
        let mut net = lock(&shared);
        if let Some(key) = self.key.take() {
            net.cancel(key);
        }
        if net.now >= self.until {
            return Poll::Ready(());
        }
        self.key = Some(net.at(self.until, Event::Wake(cx.waker().clone())));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.shared).cancel(key);
        }
    }
}

/// Virtual time, as a [`Clock`].
#[derive(Clone)]
pub struct VirtualClock(Shared);

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VirtualClock({:?})", self.now())
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(lock(&self.0).now)
    }
}

/// A node's tasks, as a [`Schedule`]. They are in the background, and end with the node's life.
#[derive(Clone)]
pub struct Scheduler {
    shared: Shared,
    node: NodeId,
    incarnation: u32,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scheduler({:?})", self.node)
    }
}

impl Schedule for Scheduler {
    fn spawn(&self, task: Task) {
        lock(&self.shared).spawned.push((self.node, self.incarnation, task));
    }

    fn sleep(&self, time: Duration) -> Task {
        let until = lock(&self.shared).now.saturating_add(nanos(time));
        Box::pin(Sleep { shared: self.shared.clone(), until, key: None })
    }
}
