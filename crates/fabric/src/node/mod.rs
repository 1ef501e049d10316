//! A node: listens on its transports, lets peers into its regions, and serves their requests.
//!
//! One thread runs [`Node::run`]: it sweeps over the connections while there is work, and
//! sleeps in epoll when there is none. On tcp the same thread also plays the NIC (executes
//! READ, WRITE and atomics on registered memory); on shm clients need nobody for that.
//!
//! What always holds: a request is copied to private memory before it is looked at; a peer
//! that misbehaves (garbage, half a frame, a full backlog) is disconnected, and no other peer
//! notices; everything a peer had is freed when it goes.

mod core;
mod poll_loop;
mod stats;

#[cfg(feature = "verbs")]
pub(crate) use self::core::Carrier;
pub(crate) use self::core::{Core, Port};
pub use poll_loop::Stopper;
pub use stats::{NodeStats, TransportStats};
pub(crate) use stats::{Transport, count};

use crate::registry::Registry;
use crate::service::{Outbox, Outgoing, Sender, Service};
use crate::{VerbsError, VerbsOption};
use barn_layout::channel::{RING_BYTES_MAX, WINDOW_MAX};
use barn_layout::limits::PEERS_MAX;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a node should be.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The Unix socket where shm clients connect.
    pub shm: Option<PathBuf>,
    /// The address where tcp clients connect; port 0 for any.
    pub tcp: Option<SocketAddr>,
    /// Whether tcp clients may go over to RDMA verbs, and by which device.
    pub verbs: VerbsOption,
    /// The token that tcp clients must prove to know.
    pub token: Option<String>,
    /// Lets tcp clients of other hosts in without a token. Loopback needs none.
    pub allow_unauthenticated: bool,
    /// The most peers at a time.
    pub peers_max: usize,
    /// The largest ring that a shm client may ask for.
    pub ring_bytes_max: usize,
    /// The largest window that a shm client may ask for.
    pub window_max: usize,
    /// Bytes that wait for a peer that does not take its answers; past that it is disconnected.
    pub backlog_bytes_max: usize,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            shm: None,
            tcp: None,
            verbs: VerbsOption::Off,
            token: None,
            allow_unauthenticated: false,
            peers_max: PEERS_MAX,
            ring_bytes_max: RING_BYTES_MAX,
            window_max: WINDOW_MAX,
            // Two of the longest messages: one on its way and one behind it.
            backlog_bytes_max: 2 * barn_layout::limits::MESSAGE_BYTES_MAX,
        }
    }
}

/// Why a node did not start, or stopped.
#[derive(Debug)]
pub enum NodeError {
    /// Another node listens on the socket.
    InUse {
        /// Where.
        address: String,
    },
    /// The socket could not be made.
    Listen {
        /// Where.
        address: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The node was to offer verbs, and cannot.
    Verbs(VerbsError),
    /// The system refused a step.
    System(std::io::Error),
}

impl From<VerbsError> for NodeError {
    fn from(cause: VerbsError) -> Self {
        Self::Verbs(cause)
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { address } => {
                write!(f, "another node listens on {address}: stop it, or choose another address")
            }
            Self::Listen { address, cause } => write!(f, "cannot listen on {address}: {cause}"),
            Self::Verbs(cause) => write!(f, "the node cannot offer verbs: {cause}"),
            Self::System(cause) => write!(f, "the node cannot run: {cause}"),
        }
    }
}

impl std::error::Error for NodeError {}

impl From<rustix::io::Errno> for NodeError {
    fn from(cause: rustix::io::Errno) -> Self {
        Self::System(cause.into())
    }
}

/// A node's listeners and connections.
pub struct Node {
    core: Core,
    ports: Vec<Box<dyn Port + Send>>,
    shm_path: Option<PathBuf>,
    tcp_address: Option<SocketAddr>,
    stopper: Stopper,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("shm", &self.shm_path).field("tcp", &self.tcp_address).finish()
    }
}

const BELL: u64 = u64::MAX;

impl Node {
    /// Listens where the options say. Nothing is served until [`Node::run`].
    pub fn bind(options: NodeOptions, registry: Registry) -> Result<Self, NodeError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ring = rustix::io::fcntl_dupfd_cloexec(&bell, 0)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        let outbox = Arc::new(Outbox::new(Some(ring)));
        let stopper = Stopper::new(outbox.clone());
        let mut core = Core::new(options, registry, epoll, bell, outbox)?;
        let mut ports: Vec<Box<dyn Port + Send>> = Vec::new();
        let shm_path = core.options.shm.clone();
        if let Some(path) = &shm_path {
            ports.push(Box::new(crate::shm::ShmPort::listen(&mut core, path, ports.len() as u8)?));
        }
        if core.options.verbs != VerbsOption::Off {
            // Before tcp: what is for a peer that went over goes that way.
            ports.push(offer_verbs(&mut core, ports.len() as u8)?);
        }
        let mut tcp_address = None;
        if let Some(address) = core.options.tcp {
            let (port, bound) = crate::tcp::TcpPort::listen(&mut core, address, ports.len() as u8)?;
            tcp_address = Some(bound);
            ports.push(Box::new(port));
        }
        Ok(Self { core, ports, shm_path, tcp_address, stopper })
    }

    /// The regions that peers are let into.
    pub fn registry(&self) -> &Registry {
        &self.core.registry
    }

    /// The Unix socket, if there is one.
    pub fn shm_path(&self) -> Option<&Path> {
        self.shm_path.as_deref()
    }

    /// The tcp address with the port that was bound, if there is one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp_address
    }

    /// Stops [`Node::run`], from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Sends messages to peers, from any thread.
    pub fn sender(&self) -> Sender {
        Sender { outbox: self.core.outbox.clone() }
    }

    /// Counts of what the node has done, readable from any thread.
    pub fn stats(&self) -> Arc<NodeStats> {
        self.core.stats.clone()
    }

    /// Sends what other threads have left.
    fn send_outgoing(&mut self) -> usize {
        let outgoing = self.core.outbox.drain();
        let count = outgoing.len();
        for message in outgoing {
            self.send(&message);
        }
        count
    }

    fn send(&mut self, outgoing: &Outgoing) {
        for port in &mut self.ports {
            if port.send(&mut self.core, outgoing) {
                return;
            }
        }
    }

    /// One look at everything that is busy.
    fn sweep(&mut self, service: &mut dyn Service) -> usize {
        let sent = if self.core.outbox.is_filled() { self.send_outgoing() } else { 0 };
        sent + self.ports.iter_mut().map(|port| port.sweep(&mut self.core, service)).sum::<usize>()
    }
}

#[cfg(feature = "verbs")]
fn offer_verbs(core: &mut Core, number: u8) -> Result<Box<dyn Port + Send>, NodeError> {
    Ok(Box::new(crate::verbs::VerbsPort::offer(core, number)?))
}

#[cfg(not(feature = "verbs"))]
fn offer_verbs(_core: &mut Core, _number: u8) -> Result<Box<dyn Port + Send>, NodeError> {
    Err(VerbsError::NotBuilt.into())
}
