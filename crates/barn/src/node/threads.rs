//! The threads of a node.

use super::service::NodeService;
use crate::error::Error;
use barn_cluster::Membership;
use barn_fabric::{ConnectError, Connection, Node, block_on};
use barn_space::keeper::Keeper;
use barn_transaction::resolver::{Resolver, ResolverOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(format!("barn-{name}"))
        .spawn(run)
        .map_err(|error| Error::Node(format!("no thread for the node's {name}: {error}")))
}

/// The poll loop, which alone changes the node's memory.
pub(super) fn poll_loop(
    mut node: Node,
    mut service: NodeService,
    failed: Arc<Mutex<Option<String>>>,
) -> Result<JoinHandle<()>, Error> {
    spawn("node", move || {
        if let Err(error) = node.run(&mut service) {
            *failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error.to_string());
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

/// The resolver.
pub(super) fn resolver(options: ResolverOptions, stopping: Arc<AtomicBool>) -> Result<JoinHandle<()>, Error> {
    // A tenth: the coordinator wants to be reminded of its leases so often.
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
