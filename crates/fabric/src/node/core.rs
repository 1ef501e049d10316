//! What the ports of a node share.

use super::{NodeError, NodeOptions, NodeStats, Transport, count};
use crate::registry::{PeerId, Registry};
use crate::service::{Outbox, Outgoing, Service};
use barn_layout::handshake::Refusal;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
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

    /// A peer is gone: its grants end and its place is free.
    pub(crate) fn dismiss(&mut self, transport: Transport, peer: PeerId) {
        self.peers -= 1;
        count(&self.stats.of(transport).peers, 1u64.wrapping_neg());
        self.stats.peers.store(self.peers as u64, Ordering::Relaxed);
        self.registry.forget(peer);
    }
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
    fn before_sleep(&mut self);

    /// The loop is awake again.
    fn after_sleep(&mut self);

    /// Sends something to a peer of this port; false if it is none of this port's.
    fn send(&mut self, core: &mut Core, outgoing: &Outgoing) -> bool;
}
