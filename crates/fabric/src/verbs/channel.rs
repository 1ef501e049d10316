//! One end's half of the message rings: what is written here, pushed to the peer's memory.
//!
//! FaRM's ring (its section 3.1), over a reliable queue pair: the sender writes into a mirror of
//! the receiver's ring, and pushes what is new by one or two WRITEs to the same place there. The
//! last WRITE of a burst carries immediate data: the number of the next message. So the receiver
//! is told by a completion, which can wake it, and looks at the ring only as far as it was told:
//! what is being placed beyond that it never sees, in whatever order a device places bytes.
//!
//! What always holds:
//! - what was pushed is not written over before the peer has reported that it consumed it;
//! - of [`REQUESTS`] requests one in [`SIGNAL_EVERY`] is signalled, so that room is always found
//!   again; what finds no room leaves later, together with what was written meanwhile.

use super::id::{Role, pack};
use super::sys::{
    Access, CompletionQueue, Kind, Local, MemoryRegion, ProtectionDomain, QueuePair, Receive, Room, Verb,
    Work,
};
use crate::VerbsError;
use crate::messaging::ring::{Place, Progress, RingReader, RingWriter};
use crate::region::Words;
use barn_layout::limits::WORD_BYTES;
use std::sync::Arc;

/// Requests under way at a time: bursts coalesce when there are more.
pub(super) const REQUESTS: usize = 64;
/// Bursts that may arrive before the receiver has looked; past that the sender's device waits.
pub(super) const RECEIVES: usize = 128;
/// A burst is at most so many requests: a report, the ring's end and its start.
const BURST_MAX: usize = 3;
const SIGNAL_EVERY: u32 = 16;
/// Bytes that may be carried in a request itself, if the device can: most messages.
const INLINE_BYTES: usize = 512;

/// Where the peer's report stands in the memory of an end...
const REPORT_AT: u64 = 0;
/// ...and where its ring begins.
const RING_AT: u64 = 64;

/// Bytes of the memory that a peer writes to.
pub(super) fn inbound_bytes(ring_bytes: usize, slots_bytes: usize) -> usize {
    RING_AT as usize + ring_bytes + slots_bytes
}

/// Where request slots begin in it.
pub(super) fn slots_at(ring_bytes: usize) -> u64 {
    RING_AT + ring_bytes as u64
}

/// One end of the rings.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) pair: QueuePair,
    /// What the peer writes: its report, its ring, its request slots.
    pub(super) inbound: MemoryRegion,
    /// What we push: our report, our ring.
    outbound: MemoryRegion,
    ring_bytes: usize,
    /// The peer's inbound memory.
    remote: (u64, u32),
    owner: u32,
    /// Bytes of our ring that were pushed, since the start.
    pushed: u64,
    /// What of the peer's ring was reported to it as consumed.
    reported: u64,
    /// Requests that were posted, those known to be done, and those since one was signalled.
    posted: u32,
    done: u32,
    unsignalled: u32,
    /// Receives that were used up.
    used: usize,
    /// The number up to which the peer's messages are whole.
    pub(super) announced: u32,
}

impl Channel {
    /// An end with rings of `ring_bytes`, whose peer may also write `slots_bytes` of slots.
    pub(super) fn new(
        domain: &Arc<ProtectionDomain>,
        queue: &Arc<CompletionQueue>,
        path: (u8, u8),
        owner: u32,
        ring_bytes: usize,
        slots_bytes: usize,
    ) -> Result<Self, VerbsError> {
        let room = Room { requests: REQUESTS, receives: RECEIVES, inline_bytes: INLINE_BYTES };
        let pair = QueuePair::new(domain, queue, Kind::Reliable, path, room)?;
        let inbound = Words::private(inbound_bytes(ring_bytes, slots_bytes));
        let outbound = Words::private(inbound_bytes(ring_bytes, 0));
        let mut channel = Self {
            pair,
            inbound: MemoryRegion::register(domain, &inbound, Access::WRITTEN_BY_PEER)?,
            outbound: MemoryRegion::register(domain, &outbound, Access::LOCAL)?,
            ring_bytes,
            remote: (0, 0),
            owner,
            pushed: 0,
            reported: 0,
            posted: 0,
            done: 0,
            unsignalled: 0,
            used: RECEIVES,
            announced: 1,
        };
        channel.pair.initialise(0)?;
        channel.replenish()?;
        Ok(channel)
    }

    /// Where the peer has its inbound memory.
    pub(super) fn set_remote(&mut self, address: u64, key: u32) {
        self.remote = (address, key);
    }

    /// The writer to the peer's ring, and the reader of ours.
    pub(super) fn rings(&self) -> (RingWriter, RingReader) {
        let place = |memory: &MemoryRegion| Place {
            words: memory.words().clone(),
            base: RING_AT,
            bytes: self.ring_bytes,
        };
        let progress = |memory: &MemoryRegion| Progress { words: memory.words().clone(), at: REPORT_AT };
        (
            RingWriter::new(place(&self.outbound), progress(&self.inbound)),
            RingReader::new(place(&self.inbound), progress(&self.outbound)),
        )
    }

    /// Posts receives again, once half of them are used up.
    pub(super) fn replenish(&mut self) -> Result<(), VerbsError> {
        if self.used < RECEIVES / 2 {
            return Ok(());
        }
        let receive = Receive { id: pack(Role::Pushed, self.owner, 0), local: None };
        self.pair.post_receives(std::iter::repeat_n(receive, self.used))?;
        self.used = 0;
        Ok(())
    }

    /// The peer has pushed: its messages before this number are whole.
    pub(super) fn was_pushed(&mut self, number: u32) {
        self.used += 1;
        self.announced = number;
    }

    /// A signalled request is done, and with it all before it.
    pub(super) fn is_done(&mut self, number: u32) {
        self.done = number.wrapping_add(1);
    }

    fn under_way(&self) -> usize {
        self.posted.wrapping_sub(self.done) as usize
    }

    /// Whether everything that was written is on its way.
    pub(super) fn is_flushed(&self, writer: &RingWriter, reader: &RingReader) -> bool {
        self.pushed == writer.tail().0 && self.reported == reader.reported()
    }

    /// How many bytes of our ring are on their way.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Pushes what is new, as one burst on one doorbell, if there is room for it.
    pub(super) fn flush(&mut self, writer: &RingWriter, reader: &RingReader) -> Result<bool, VerbsError> {
        if self.is_flushed(writer, reader) || self.under_way() + BURST_MAX > REQUESTS {
            return Ok(false);
        }
        let (tail, next) = writer.tail();
        let ring = self.ring_bytes as u64;
        let (from, bytes) = (self.pushed % ring, tail - self.pushed);
        let first = bytes.min(ring - from);
        let report = if self.reported == reader.reported() { 0 } else { WORD_BYTES as u64 };
        let parts = [(REPORT_AT, report), (RING_AT + from, first), (RING_AT, bytes - first)];
        let count = parts.iter().filter(|(_, bytes)| *bytes > 0).count() as u32;
        let signalled = self.unsignalled + count >= SIGNAL_EVERY;
        let (mut list, mut length) = ([None; BURST_MAX], 0);
        for (at, bytes) in parts {
            if bytes == 0 {
                continue;
            }
            let last = length as u32 + 1 == count;
            let number = self.posted.wrapping_add(length as u32);
            list[length] = Some(Work {
                id: pack(Role::Push, self.owner, number),
                verb: if last { Verb::WriteTelling { immediate: next } } else { Verb::Write },
                local: Local::of(&self.outbound, at, bytes as usize),
                address: self.remote.0.wrapping_add(at),
                key: self.remote.1,
                signalled: last && signalled,
                inline: bytes as usize <= self.pair.inline_bytes,
            });
            length += 1;
        }
        self.pair.post(list.into_iter().flatten())?;
        self.posted = self.posted.wrapping_add(count);
        self.unsignalled = if signalled { 0 } else { self.unsignalled + count };
        (self.pushed, self.reported) = (tail, reader.reported());
        Ok(true)
    }

    /// Posts a request that does nothing but complete, after all before it; true once there is
    /// nothing under way.
    pub(super) fn mark(&mut self) -> Result<bool, VerbsError> {
        if self.under_way() == 0 {
            return Ok(true);
        }
        if self.unsignalled > 0 && self.under_way() < REQUESTS {
            self.pair.post([Work {
                id: pack(Role::Push, self.owner, self.posted),
                verb: Verb::Write,
                local: None,
                address: self.remote.0,
                key: self.remote.1,
                signalled: true,
                inline: false,
            }])?;
            self.posted = self.posted.wrapping_add(1);
            self.unsignalled = 0;
        }
        Ok(false)
    }
}
