//! The client's end of HERD's mode: requests that may be lost, and their repetition.
//!
//! A request is an unreliable WRITE into its slot at the node, inline if it fits; its reply is a
//! datagram (HERD sections 4.2, 4.3). Both may be lost. A request that has no answer after a while
//! is written again, unchanged, under its slot's lap; the node knows the lap and answers from what
//! it keeps, so that nothing is done twice (`window.rs`).
//!
//! What always holds: a slot is used again only after its answer came, by whichever way; a
//! datagram counts only from the node's own queue pair, and for a request that is out.

use super::channel::slots_at;
use super::connect;
use super::faults::is_lost;
use super::id::{Role, pack};
use super::sys::{
    Access, CompletionQueue, Kind, Local, MemoryRegion, ProtectionDomain, QueuePair, Receive, Remote, Room,
    Verb, Work,
};
use crate::VerbsError;
use crate::messaging::request_region::{SLOT_BODY_BYTES_MAX, Window, write_checked};
use crate::node::SPIN;
use crate::region::Words;
use crate::slots::Ticket;
use barn_layout::channel::SLOT_BYTES;
use barn_layout::frame::QueuePairsBody;
use barn_layout::message::MessageHeader;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// A datagram's payload is behind the header of the network.
const GRH_BYTES: usize = 40;
/// Bytes of a place for a datagram: a reply of a slot's length.
const PLACE_BYTES: usize = (GRH_BYTES + SLOT_BYTES).next_multiple_of(64);
/// One in so many requests is signalled.
const SIGNAL_EVERY: u32 = 16;
const INLINE_BYTES: usize = 512;
/// The first pause before a request is repeated: far longer than an answer takes where nothing is
/// lost. Each is twice the last, up to the longest.
const REPEAT_AFTER: Duration = Duration::from_millis(20);
const REPEAT_AFTER_MAX: Duration = Duration::from_millis(320);

/// A request that is out.
struct Out {
    ticket: Ticket,
    bytes: usize,
    since: Instant,
    due: Instant,
    pause: Duration,
}

/// The requests of a connection.
pub(super) struct Lane {
    requests: QueuePair,
    datagrams: QueuePair,
    /// The slots, as they are at the node.
    mirror: MemoryRegion,
    /// Places for datagrams.
    places: MemoryRegion,
    /// Places that are to be posted again.
    empty: Vec<u32>,
    slots: (u64, u32),
    node: u32,
    window: Window,
    out: Vec<Option<Out>>,
    outstanding: usize,
    /// Slots that are to be written, and whether the node is to be told.
    waiting: Vec<(usize, bool)>,
    posted: u32,
    done: u32,
    unsignalled: u32,
    /// When an answer came last, and how long it had taken.
    heard: Option<Instant>,
    round_trip: Duration,
    /// The earliest repetition, or sooner.
    due: Option<Instant>,
}

/// Requests that fit the queue pair: each slot's own, and repetitions.
fn requests_max(window: usize) -> usize {
    2 * window + 2 * SIGNAL_EVERY as usize
}

/// Completion entries that a lane can fill.
pub(super) fn entries(window: usize) -> usize {
    requests_max(window) + 2 * window
}

impl Lane {
    /// A lane of `window` slots, not connected yet.
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        path: (u8, u8),
        window: usize,
        key: u32,
    ) -> Result<Self, VerbsError> {
        // Twice as many places as requests: repetitions are answered, too.
        let places = 2 * window;
        let room = Room { requests: requests_max(window), receives: 0, inline_bytes: INLINE_BYTES };
        let requests = QueuePair::new(domain, queue, Kind::Unreliable, path, room)?;
        let room = Room { requests: 0, receives: places, inline_bytes: 0 };
        let datagrams = QueuePair::new(domain, queue, Kind::Datagram, path, room)?;
        requests.initialise(0)?;
        datagrams.initialise(key)?;
        datagrams.connect(None, 0)?;
        let mirror = Words::private(window * SLOT_BYTES);
        let memory = Words::private(places * PLACE_BYTES);
        let mut lane = Self {
            requests,
            datagrams,
            mirror: MemoryRegion::register(domain, &mirror, Access::LOCAL)?,
            places: MemoryRegion::register(domain, &memory, Access::LOCAL)?,
            empty: (0..places as u32).collect(),
            slots: (0, 0),
            node: 0,
            window: Window::new(window),
            out: (0..window).map(|_| None).collect(),
            outstanding: 0,
            waiting: Vec::new(),
            posted: 0,
            done: 0,
            unsignalled: 0,
            heard: None,
            round_trip: Duration::ZERO,
            due: None,
        };
        lane.replenish()?;
        Ok(lane)
    }

    /// What the node has to know of it.
    pub(super) fn tell(&self, packet: u32, key: u32, body: &mut QueuePairsBody) {
        body.window = (self.out.len() as u32).into();
        body.requests_pair = self.requests.number().into();
        body.requests_packet = packet.into();
        body.datagrams_pair = self.datagrams.number().into();
        body.datagrams_key = key.into();
    }

    /// Connects it to the node's end.
    pub(super) fn connect(
        &mut self,
        ours: &QueuePairsBody,
        theirs: &QueuePairsBody,
        ring_bytes: usize,
    ) -> Result<(), VerbsError> {
        let (pair, packet) = (theirs.requests_pair.get(), theirs.requests_packet.get());
        let remote: Remote = connect::remote(ours, theirs, pair, packet);
        self.requests.connect(Some(&remote), ours.requests_packet.get())?;
        self.slots =
            (theirs.memory_address.get().wrapping_add(slots_at(ring_bytes)), theirs.memory_key.get());
        self.node = theirs.datagrams_pair.get();
        Ok(())
    }

    /// Takes a request, if it fits a slot and the next slot is free.
    pub(super) fn post(&mut self, ticket: Ticket, header: &MessageHeader, body: &[u8]) -> bool {
        let (slot, lap) = self.window.current();
        if body.len() > SLOT_BODY_BYTES_MAX || self.out[slot].is_some() {
            return false;
        }
        let bytes = write_checked(self.mirror.words(), (slot * SLOT_BYTES) as u64, lap, header, body);
        let now = Instant::now();
        // A node that answers looks by itself for some time; a request that is sure to arrive before
        // that is over need not ring. Each way takes no longer than the last round trip.
        let awake = self.heard.is_some_and(|heard| now - heard + self.round_trip < SPIN * 4 / 5);
        let due = now + REPEAT_AFTER;
        self.out[slot] = Some(Out { ticket, bytes, since: now, due, pause: REPEAT_AFTER });
        self.outstanding += 1;
        self.due = Some(self.due.map_or(due, |earliest| earliest.min(due)));
        self.window.advance();
        self.waiting.push((slot, !awake));
        true
    }

    /// Whether nothing is out and nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.has_left()
    }

    /// Whether nothing waits to be posted.
    pub(super) fn has_left(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When the next repetition is due, if anything is out.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| self.outstanding > 0)
    }

    /// Writes again what has had no answer for too long.
    pub(super) fn repeat(&mut self, now: Instant) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let mut earliest = None;
        for (slot, out) in self.out.iter_mut().enumerate() {
            let Some(out) = out else { continue };
            if out.due <= now {
                out.pause = (out.pause * 2).min(REPEAT_AFTER_MAX);
                out.due = now + out.pause;
                // One that waits for room is to be told, too.
                match self.waiting.iter_mut().find(|(waiting, _)| *waiting == slot) {
                    Some(waiting) => waiting.1 = true,
                    None => self.waiting.push((slot, true)),
                }
            }
            earliest = Some(earliest.map_or(out.due, |earliest: Instant| earliest.min(out.due)));
        }
        self.due = earliest;
    }

    /// Posts what waits, as far as there is room, as one list.
    pub(super) fn flush(&mut self) -> Result<(), VerbsError> {
        let room = requests_max(self.out.len()) - self.posted.wrapping_sub(self.done) as usize;
        let count = self.waiting.len().min(room);
        if count == 0 {
            return Ok(());
        }
        let Self { requests, mirror, slots, out, waiting, posted, unsignalled, .. } = self;
        let list = waiting.drain(..count).filter_map(|(slot, rings)| {
            // Answered meanwhile, because an earlier one was only late; or lost on purpose.
            let bytes = out[slot].as_ref()?.bytes;
            if is_lost() {
                return None;
            }
            let at = (slot * SLOT_BYTES) as u64;
            *unsignalled += 1;
            let signalled = *unsignalled >= SIGNAL_EVERY;
            if signalled {
                *unsignalled = 0;
            }
            let id = pack(Role::Request, 0, *posted);
            *posted = posted.wrapping_add(1);
            Some(Work {
                id,
                verb: if rings { Verb::WriteTelling { immediate: slot as u32 } } else { Verb::Write },
                local: Local::of(mirror, at, bytes),
                address: slots.0.wrapping_add(at),
                key: slots.1,
                signalled,
                inline: bytes <= requests.inline_bytes,
            })
        });
        requests.post(list)
    }

    /// A signalled request has left, and with it all before it.
    pub(super) fn is_done(&mut self, number: u32) {
        self.done = number.wrapping_add(1);
    }

    /// A datagram came; gives its header, and its body in `body`, if it answers a request that is
    /// out.
    pub(super) fn came(
        &mut self,
        place: u32,
        bytes: usize,
        from: u32,
        body: &mut Vec<u8>,
    ) -> Option<(Ticket, MessageHeader)> {
        self.empty.push(place);
        if from != self.node {
            return None;
        }
        let body_bytes = bytes.checked_sub(GRH_BYTES + MessageHeader::BYTES)?;
        let (at, words) = ((place as usize * PLACE_BYTES + GRH_BYTES) as u64, self.places.words());
        let mut header = [0; MessageHeader::BYTES];
        words.load(at, &mut header).ok()?;
        body.clear();
        body.resize(body_bytes.min(SLOT_BYTES), 0);
        words.load(at + MessageHeader::BYTES as u64, body).ok()?;
        let header = MessageHeader::read_from_bytes(&header).ok()?;
        let ticket = Ticket(header.id.get());
        // A second answer to a request that was repeated is for nobody.
        let since = self.answered(ticket)?;
        let now = Instant::now();
        (self.heard, self.round_trip) = (Some(now), now - since);
        Some((ticket, header))
    }

    /// An answer came, by whichever way: its slot is free again. Says since when it was out, if it
    /// was.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<Instant> {
        let is_its = |out: &&mut Option<Out>| out.as_ref().is_some_and(|out| out.ticket == ticket);
        let out = self.out.iter_mut().find(is_its)?.take()?;
        self.outstanding -= 1;
        Some(out.since)
    }

    /// Posts the places of datagrams that were taken again.
    pub(super) fn replenish(&mut self) -> Result<(), VerbsError> {
        let Self { empty, places, datagrams, .. } = self;
        datagrams.post_receives(empty.drain(..).map(|place| Receive {
            id: pack(Role::Came, 0, place),
            local: Local::of(places, u64::from(place) * PLACE_BYTES as u64, PLACE_BYTES),
        }))
    }
}
