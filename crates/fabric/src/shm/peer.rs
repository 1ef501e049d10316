//! The node's side of a shm connection.

use super::taking::{GROUP, Source, Taken};
use super::{ring_if_asleep, silence};
use crate::messaging::Corrupt;
use crate::messaging::assembly::Assembly;
use crate::messaging::backlog::Backlog;
use crate::messaging::mail::said;
use crate::messaging::request_region::{SLOT_BODY_BYTES_MAX, Window, has_arrived, write_slot};
use crate::messaging::ring::{Place, Progress, RingReader, RingWriter};
use crate::region::{Region, Rights, Words};
use crate::registry::{Grant, PeerId, Registry};
use crate::service::{Outbox, ReplySink, Service};
use barn_layout::RegionId;
use barn_layout::channel::ChannelShape;
use barn_layout::frame::Outcome;
use barn_layout::handshake::ShmOpened;
use barn_layout::limits::{REGIONS_PER_PEER_MAX, WORD_BYTES};
use barn_layout::message::{Kind, Status};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Answers that wait for room past this stop the peer's requests from being taken.
pub(super) const BACKLOG_BYTES_HIGH: usize = 1 << 20;

/// Where the client says that it sleeps: `InboundControl::asleep`.
const CLIENT_ASLEEP: u64 = 64;

/// Why a peer is sent away.
#[derive(Debug)]
pub(super) enum Expelled {
    /// Its memory holds garbage.
    Garbage,
    /// It does not take its answers.
    Slow,
}

impl From<Corrupt> for Expelled {
    fn from(_: Corrupt) -> Self {
        Self::Garbage
    }
}

/// A connected client.
pub(super) struct ShmPeer {
    pub(super) id: PeerId,
    pub(super) socket: OwnedFd,
    /// Our end: the client rings it when the node sleeps, and the node when the client does.
    pub(super) bell: OwnedFd,
    /// An answer that found no room in the client's socket, with its descriptor. While it waits,
    /// no further packet is taken: a client that does not read its answers waits for itself.
    pub(super) unsent: Option<(ShmOpened, Option<OwnedFd>)>,
    pub(super) inbound: Words,
    pub(super) reader: RingReader,
    pub(super) lane: Option<Lane>,
    pub(super) answers: Answers,
    /// Sweeps in which it had nothing to say.
    pub(super) quiet: u32,
    /// Whether the socket is watched for room, because of `unsent`.
    pub(super) blocked: bool,
    grants: BTreeMap<u32, Grant>,
    pub(super) assembly: Assembly,
    /// Bytes of messages that came, since they were last counted.
    pub(super) bytes_in: u64,
    /// How often its bell was rung, since that was last counted.
    rings: u64,
    /// Whether messages came together when some last came.
    pub(super) together: bool,
    /// What was taken together: private bytes, used again.
    pub(super) group: [Taken; GROUP],
}

/// The node's end of the request region.
pub(super) struct Lane {
    pub(super) window: Window,
}

/// The way back to the client.
pub(super) struct Answers {
    pub(super) shape: ChannelShape,
    outbound: Words,
    /// For each request slot, the request in it that has no answer yet, and its lap.
    pub(super) slots: Vec<Option<(u64, u32)>>,
    /// The slot whose answer is likely the next.
    next: usize,
    ring: Backlog,
}

impl Answers {
    /// The slot that a request came in, if it came in one: mostly the one after that of the last answer.
    #[inline]
    fn slot_of(&mut self, id: u64) -> Option<usize> {
        let is = |out: &Option<(u64, u32)>| out.is_some_and(|(out, _)| out == id);
        let slot = match self.slots.get(self.next) {
            Some(out) if is(out) => self.next,
            _ => self.slots.iter().position(is)?,
        };
        self.next = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
        Some(slot)
    }
}

impl ReplySink for Answers {
    fn reply(&mut self, id: u64, status: Status, body: &[u8]) {
        // A request that came in a slot is answered in its reply slot, if the answer fits.
        if let Some(slot) = self.slot_of(id)
            && let Some((_, lap)) = self.slots[slot].take()
            && body.len() <= SLOT_BODY_BYTES_MAX
        {
            let header = said(Kind::Reply, id, status as u8, body.len());
            write_slot(&self.outbound, self.shape.reply_slot(slot) as u64, lap, &header, body);
            self.ring.written = true;
            self.ring.bytes_out += body.len() as u64;
            return;
        }
        self.ring.push(said(Kind::Reply, id, status as u8, body.len()), body);
    }
}

impl ShmPeer {
    /// A new peer, with the two halves of its channel.
    pub(super) fn new(
        id: PeerId,
        socket: OwnedFd,
        shape: ChannelShape,
        halves: (&Region, &Region),
        bell: OwnedFd,
    ) -> Self {
        let (inbound, outbound) = (halves.0.words().clone(), halves.1.words().clone());
        let request_ring =
            Place { words: inbound.clone(), base: shape.inbound_ring() as u64, bytes: shape.ring_bytes };
        let reply_ring =
            Place { words: outbound.clone(), base: shape.outbound_ring() as u64, bytes: shape.ring_bytes };
        Self {
            id,
            socket,
            bell,
            unsent: None,
            quiet: 0,
            blocked: false,
            reader: RingReader::new(request_ring, Progress { words: outbound.clone(), at: 0 }),
            lane: (shape.window > 0).then(|| Lane { window: Window::new(shape.window) }),
            answers: Answers {
                shape,
                ring: Backlog::new(
                    RingWriter::new(reply_ring, Progress { words: inbound.clone(), at: 0 }),
                    shape.ring_bytes,
                ),
                outbound,
                slots: vec![None; shape.window],
                next: 0,
            },
            inbound,
            grants: BTreeMap::new(),
            assembly: Assembly::default(),
            bytes_in: 0,
            rings: 0,
            together: false,
            group: std::array::from_fn(|_| Taken::nothing()),
        }
    }

    /// Whether there may be something to do for it.
    #[inline]
    fn has_news(&self) -> bool {
        let in_lane = |lane: &Lane| {
            let (slot, lap) = lane.window.current();
            has_arrived(&self.inbound, self.answers.shape.request_slot(slot) as u64, lap)
        };
        self.reader.has_next()
            || self.lane.as_ref().is_some_and(in_lane)
            || self.answers.ring.bytes() > 0
            || self.answers.ring.written
    }

    /// Takes what the peer has sent, a turn's worth; says how much there was to do.
    pub(super) fn serve(
        &mut self,
        service: &mut dyn Service,
        outbox: &Arc<Outbox>,
        backlog_bytes_max: usize,
    ) -> Result<usize, Expelled> {
        // Most looks find nothing, and how soon the next one comes decides how long a request waits.
        if !self.has_news() {
            return Ok(0);
        }
        let mut work = 0;
        if self.answers.ring.bytes() > 0 {
            work += self.answers.ring.push_waiting();
        }
        let mut messages = 0;
        if self.answers.ring.bytes() < BACKLOG_BYTES_HIGH {
            let reported = self.reader.reported();
            if self.lane.is_some() {
                messages += self.serve_from(Source::Lane, service, outbox)?;
            }
            messages += self.serve_from(Source::Ring, service, outbox)?;
            // The client may be waiting for the room that has just been reported.
            self.answers.ring.written |= self.reader.reported() != reported;
        }
        if self.answers.ring.bytes() > backlog_bytes_max {
            return Err(Expelled::Slow);
        }
        self.wake_client();
        Ok(work + messages)
    }

    /// Bytes of messages that came and went since this was last asked, and how often the client's bell was rung.
    pub(super) fn take_counts(&mut self) -> (u64, u64, u64) {
        let bytes_out = std::mem::take(&mut self.answers.ring.bytes_out);
        (std::mem::take(&mut self.bytes_in), bytes_out, std::mem::take(&mut self.rings))
    }

    /// Rings the client's bell if something was written for it and it sleeps.
    pub(super) fn wake_client(&mut self) {
        if std::mem::take(&mut self.answers.ring.written) {
            self.rings += u64::from(ring_if_asleep(&self.inbound, CLIENT_ASLEEP, &self.bell));
        }
    }

    /// Answers a request that was deferred.
    pub(super) fn reply(&mut self, id: u64, status: Status, body: &[u8]) {
        self.answers.reply(id, status, body);
    }

    /// Sends a message that expects no answer.
    pub(super) fn push(&mut self, id: u64, body: &[u8]) {
        let header = said(Kind::OneWay, id, 0, body.len());
        self.answers.ring.push(header, body);
    }

    /// Grants a region: its place in the grants table, and the grant.
    pub(super) fn open(
        &mut self,
        registry: &Registry,
        region: RegionId,
        rights: Rights,
    ) -> Result<(u32, &Grant), Outcome> {
        let slot = (0..REGIONS_PER_PEER_MAX as u32)
            .find(|slot| !self.grants.contains_key(slot))
            .ok_or(Outcome::TooManyRegions)?;
        let at = (self.answers.shape.grants() + slot as usize * WORD_BYTES) as u64;
        let word = Some((self.answers.outbound.clone(), at));
        let grant = registry.grant(region, self.id, rights, word)?;
        Ok((slot, self.grants.entry(slot).or_insert(grant)))
    }

    /// Takes a grant back that the client no longer needs.
    pub(super) fn close(&mut self, slot: u32) {
        if let Some(grant) = self.grants.remove(&slot) {
            grant.standing.end();
        }
    }

    /// The client rang; false if it has closed its bell and never will again.
    pub(super) fn rung(&self) -> bool {
        silence(&self.bell)
    }
}
