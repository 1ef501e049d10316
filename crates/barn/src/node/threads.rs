//! The threads of a node.
//!
//! What always holds: the poll loop is on one thread at a time, its own or that of whoever took it over.

use super::CLOCK_METHOD;
use super::service::NodeService;
use crate::error::Error;
use barn_cluster::Membership;
use barn_fabric::{ConnectError, Connection, Node, block_on};
use barn_layout::planted;
use barn_space::keeper::Keeper;
use barn_transaction::resolver::{Resolver, ResolverOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the clock ticks until the node has started, at least.
const STARTING: Duration = Duration::from_millis(5);

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(format!("barn-{name}"))
        .spawn(run)
        .map_err(|error| Error::Node(format!("no thread for the node's {name}: {error}")))
}

/// Where a poll loop that has been stopped is put for whoever wants to go on with it.
#[derive(Default)]
pub(super) struct HandOver {
    pub(super) wanted: AtomicBool,
    pub(super) given: Mutex<Option<ByHand>>,
}

/// A node's poll loop, driven by hand: see [`super::Node::by_hand`].
pub struct ByHand {
    node: Node,
    service: NodeService,
}

impl std::fmt::Debug for ByHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ByHand").field(&self.node).finish()
    }
}

impl ByHand {
    /// One round: serves what has come. Says how much that was.
    pub fn turn(&mut self) -> Result<usize, Error> {
        self.node.turn(&mut self.service).map_err(|error| Error::Node(error.to_string()))
    }
}

/// The poll loop, which alone changes the node's memory.
pub(super) fn poll_loop(
    mut node: Node,
    mut service: NodeService,
    failed: Arc<Mutex<Option<String>>>,
    hand_over: Arc<HandOver>,
) -> Result<JoinHandle<()>, Error> {
    spawn("node", move || {
        if let Err(error) = node.run(&mut service) {
            *failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error.to_string());
        }
        // ORDER: Relaxed: said before the loop was stopped, which orders it.
        if hand_over.wanted.load(Ordering::Relaxed) {
            let given = ByHand { node, service };
            *hand_over.given.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(given);
        }
    })
}

/// The membership: joins, renews, learns, leaves.
pub(super) fn membership<F>(
    membership: Membership,
    connect: impl Fn() -> F + Send + Sync + 'static,
) -> Result<JoinHandle<()>, Error>
where
    F: Future<Output = Result<Connection, ConnectError>> + Send + 'static,
{
    spawn("member", move || block_on(membership.run(connect)))
}

/// The keeper: makes and scrubs the chunks of spaces.
pub(super) fn keeper<F>(
    keeper: Keeper,
    connect: impl Fn() -> F + Send + 'static,
) -> Result<JoinHandle<()>, Error>
where
    F: Future<Output = Result<Connection, ConnectError>> + Send + 'static,
{
    spawn("keeper", move || block_on(keeper.run(connect)))
}

/// The clock: tells the poll loop that time has passed, which sleeps while nobody asks for anything. It waits for
/// nobody but the node itself. Whoever waits for other nodes, as the resolver does, cannot be the clock: while it
/// waited for one that stands still, the coordinator would be asked too seldom to see that one's lease end.
pub(super) fn clock<F>(
    connect: impl Fn() -> F + Send + 'static,
    interval: Duration,
    started: Arc<AtomicBool>,
    stopping: Arc<AtomicBool>,
) -> Result<JoinHandle<()>, Error>
where
    F: Future<Output = Result<Connection, ConnectError>> + Send + 'static,
{
    let limit = interval * 10;
    let interval = if planted("clock_too_slow") { limit } else { interval };
    let mut own: Option<Connection> = None;
    spawn("clock", move || {
        // ORDER: Relaxed, both: flags that stand alone.
        while !stopping.load(Ordering::Relaxed) {
            // Looked at first: after the node has started it is told so once more, and soon.
            let rest = if started.load(Ordering::Relaxed) { interval } else { interval.min(STARTING) };
            if !own.as_ref().is_some_and(Connection::is_open) {
                own = block_on(connect()).ok().map(|own| own.with_deadline(limit));
            }
            if let Some(own) = &own {
                // What comes too late is as good: it has been told that time has passed.
                let _ = block_on(own.call(CLOCK_METHOD, &[], &mut Vec::new()));
            }
            std::thread::park_timeout(rest);
        }
    })
}

/// The resolver.
pub(super) fn resolver(options: ResolverOptions, stopping: Arc<AtomicBool>) -> Result<JoinHandle<()>, Error> {
    let interval = options.lease / 10;
    let mut resolver = Resolver::new(options);
    spawn("resolver", move || {
        // ORDER: Relaxed: a flag that stands alone.
        while !stopping.load(Ordering::Relaxed) {
            block_on(resolver.round());
            std::thread::park_timeout(interval);
        }
    })
}
