//! The node's end of HERD's mode: the queue pair of a client's requests, and the way to answer it.
//!
//! A client writes its requests into slots of memory that the node looks at by itself (HERD section
//! 4.2; `messaging/repeated.rs`); replies go out as datagrams from one queue pair for all clients
//! (`datagrams.rs`). A client that gets no answer writes the same request again and rings.

use super::channel::slots_at;
use super::id::{Role, pack};
use super::sys::{AddressHandle, CompletionQueue, Kind, ProtectionDomain, QueuePair, Receive, Room};
use crate::VerbsError;
use crate::messaging::repeated::{Kept, Scan};
use crate::region::Words;
use std::sync::Arc;

/// Rings that may come before the node has looked; past that they are lost, and come again.
pub(super) const RECEIVES: usize = 64;

/// One client's request region.
pub(super) struct RequestWindow {
    /// Where the client's requests come from, and rings come to.
    pub(super) requests: QueuePair,
    used: usize,
    owner: u32,
    pub(super) scan: Scan,
    pub(super) to: Arc<AddressHandle>,
    /// The client's queue pair of datagrams, and its key.
    pub(super) datagrams: (u32, u32),
}

impl RequestWindow {
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        path: (u8, u8),
        owner: u32,
        (words, ring_bytes): (&Words, usize),
        to: AddressHandle,
        datagrams: (u32, u32),
    ) -> Result<Self, VerbsError> {
        let room = Room { requests: 0, receives: RECEIVES, inline_bytes: 0 };
        let requests = QueuePair::new(domain, queue, Kind::Unreliable, path, room)?;
        requests.initialise(0)?;
        let scan = Scan::new(words, slots_at(ring_bytes));
        let mut window = Self { requests, used: RECEIVES, owner, scan, to: Arc::new(to), datagrams };
        window.replenish()?;
        Ok(window)
    }

    /// The client rang about a slot.
    pub(super) fn ring(&mut self, slot: u32, kept: &mut Kept) -> Result<(), VerbsError> {
        self.used += 1;
        self.scan.ring(slot, kept);
        self.replenish()
    }

    fn replenish(&mut self) -> Result<(), VerbsError> {
        if self.used >= RECEIVES / 2 {
            let receive = Receive { id: pack(Role::Rung, self.owner, 0), local: None };
            self.requests.post_receives(std::iter::repeat_n(receive, self.used))?;
            self.used = 0;
        }
        Ok(())
    }
}
