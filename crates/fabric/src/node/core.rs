//! What the ports of a node share.

use super::{NodeError, NodeOptions, NodeStats, Transport, count};
use crate::registry::{Grant, PeerId, Registry};
use crate::service::{Outbox, Outgoing, Service};
use barn_layout::frame::{MemoryBody, Outcome, QueuePairsBody, RenewBody};
use barn_layout::handshake::Refusal;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A newcomer was refused.
pub(crate) type Refused = Refusal;

/// What the ports of a node share.
pub(crate) struct Core {
    pub(crate) options: NodeOptions,
    pub(crate) registry: Registry,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) stats: Arc<NodeStats>,
    /// The node's own number: unpredictable, so that a restarted node is another one.
    pub(crate) node: u64,
    pub(super) epoll: OwnedFd,
    pub(super) bell: OwnedFd,
    next_peer: u64,
    peers: usize,
    /// Carries tcp peers' operations and messages by other means, if they ask for it.
    pub(crate) carrier: Option<Box<dyn Carrier>>,
    /// Peers that their carrier wants gone.
    pub(crate) unwanted: Vec<PeerId>,
}

impl Core {
    pub(super) fn new(
        options: NodeOptions,
        registry: Registry,
        epoll: OwnedFd,
        bell: OwnedFd,
        outbox: Arc<Outbox>,
    ) -> Result<Self, NodeError> {
        let mut node = [0; 8];
        crate::seam::system_random(&mut node)?;
        Ok(Self {
            options,
            registry,
            outbox,
            stats: Arc::default(),
            node: u64::from_le_bytes(node),
            epoll,
            bell,
            next_peer: 0,
            peers: 0,
            carrier: None,
            unwanted: Vec::new(),
        })
    }

    /// Asks for events of a descriptor: they come to [`Port::event`] of `port` with `token`,
    /// which has 56 bits.
    pub(crate) fn watch(
        &self,
        descriptor: impl AsFd,
        port: u8,
        token: u64,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, EventData::new_u64((u64::from(port) << 56) | token), flags)
    }

    /// Changes what events are asked for.
    pub(crate) fn rewatch(
        &self,
        descriptor: impl AsFd,
        port: u8,
        token: u64,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        epoll::modify(&self.epoll, descriptor, EventData::new_u64((u64::from(port) << 56) | token), flags)
    }

    /// Stops asking.
    pub(crate) fn unwatch(&self, descriptor: impl AsFd) {
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// A number for a newcomer, if there is room for it.
    pub(crate) fn admit(&mut self, transport: Transport) -> Result<PeerId, Refused> {
        if self.peers >= self.options.peers_max {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refusal::TooManyPeers);
        }
        self.peers += 1;
        self.next_peer += 1;
        self.stats.peers.store(self.peers as u64, Ordering::Relaxed);
        self.stats.accepted.fetch_add(1, Ordering::Relaxed);
        count(&self.stats.of(transport).peers, 1);
        Ok(PeerId(self.next_peer))
    }

    /// Runs `with` with the carrier, if there is one, and with everything else beside it.
    pub(crate) fn with_carrier<T>(
        &mut self,
        with: impl FnOnce(&mut dyn Carrier, &mut Self) -> T,
    ) -> Option<T> {
        let mut carrier = self.carrier.take()?;
        let done = with(&mut *carrier, self);
        self.carrier = Some(carrier);
        Some(done)
    }

    /// A peer is gone: its grants end and its place is free.
    pub(crate) fn dismiss(&mut self, transport: Transport, peer: PeerId) {
        self.peers -= 1;
        count(&self.stats.of(transport).peers, 1u64.wrapping_neg());
        self.stats.peers.store(self.peers as u64, Ordering::Relaxed);
        self.registry.forget(peer);
    }
}

/// Takes over what a stream's peer does, and leaves the stream as its control path. Lives in
/// [`Core`], where the stream's port finds it; bodies are those of `barn_layout::frame`.
#[cfg_attr(not(feature = "verbs"), expect(dead_code, reason = "only verbs carries"))]
pub(crate) trait Carrier: Send {
    /// A peer asks for queue pairs; `local` is the address of its stream at this end.
    fn attach(
        &mut self,
        core: &mut Core,
        peer: PeerId,
        local: IpAddr,
        body: &QueuePairsBody,
    ) -> Result<QueuePairsBody, Outcome>;

    /// A peer asks for a new queue pair of one-sided operations.
    fn renew(&mut self, peer: PeerId, body: &RenewBody) -> Result<RenewBody, Outcome>;

    /// Whether the peer has asked.
    fn has(&self, peer: PeerId) -> bool;

    /// Lets an attached peer's device into a region that it was granted; the grant holds that.
    fn register(&mut self, peer: PeerId, grant: &Grant) -> Result<MemoryBody, Outcome>;

    /// A peer's stream has ended: takes what it had sent before, and frees all it had.
    fn dismiss(&mut self, core: &mut Core, service: &mut dyn Service, peer: PeerId);

    /// An event on a descriptor that it watches.
    fn event(&mut self, token: u64);

    /// As [`Port::sweep`].
    fn sweep(&mut self, core: &mut Core, service: &mut dyn Service) -> usize;

    /// As [`Port::before_sleep`].
    fn before_sleep(&mut self);

    /// As [`Port::after_sleep`].
    fn after_sleep(&mut self);

    /// As [`Port::send`].
    fn send(&mut self, core: &mut Core, outgoing: &Outgoing) -> bool;
}

/// A transport's serving side.
pub(crate) trait Port {
    /// An event on a descriptor that this port watches.
    fn event(&mut self, core: &mut Core, service: &mut dyn Service, token: u64, flags: EventFlags);

    /// Looks at the connections that need no event (shm), or that have lately been busy (tcp);
    /// says how much there was to do.
    fn sweep(&mut self, core: &mut Core, service: &mut dyn Service) -> usize;

    /// Whether something that a busy loop must not leave waiting comes by events alone.
    fn needs_events(&self) -> bool;

    /// The loop is about to sleep: from now on whoever has something must ring.
    fn before_sleep(&mut self, core: &mut Core);

    /// The loop is awake again.
    fn after_sleep(&mut self, core: &mut Core);

    /// Sends something to a peer of this port; false if it is none of this port's.
    fn send(&mut self, core: &mut Core, outgoing: &Outgoing) -> bool;
}
