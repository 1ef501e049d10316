//! A node's replies in HERD's mode: datagrams to all its clients, from one queue pair.
//!
//! What always holds: replies of one sweep leave on one doorbell; a reply's bytes stay where they
//! are until the device has taken them; what finds no room is refused, and its caller finds
//! another way.

use super::faults::is_lost;
use super::id::{Role, pack};
use super::sys::{
    Access, AddressHandle, CompletionQueue, Device, Kind, Local, MemoryRegion, ProtectionDomain, QueuePair,
    Room, Verb, Work,
};
use crate::VerbsError;
use crate::region::Words;
use barn_layout::channel::SLOT_BYTES;
use barn_layout::message::MessageHeader;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Replies that may be under way.
pub(super) const REQUESTS: usize = 256;
/// One in so many is signalled.
const SIGNAL_EVERY: u32 = 32;
const INLINE_BYTES: usize = 512;

/// A reply that is to leave.
struct Reply {
    place: usize,
    bytes: usize,
    to: Arc<AddressHandle>,
    datagrams: (u32, u32),
}

/// The queue pair, and room for what it sends.
pub(super) struct Datagrams {
    pub(super) pair: QueuePair,
    memory: MemoryRegion,
    waiting: Vec<Reply>,
    posted: u32,
    done: u32,
    unsignalled: u32,
    group: u32,
}

impl Datagrams {
    /// `group` is what its completions are known by.
    pub(super) fn new(
        device: &Arc<Device>,
        queue: &Arc<CompletionQueue>,
        path: (u8, u8),
        group: u32,
    ) -> Result<Self, VerbsError> {
        // A domain of its own: no client's key means anything in it.
        let domain = ProtectionDomain::new(device)?;
        let room = Room { requests: REQUESTS, receives: 0, inline_bytes: INLINE_BYTES };
        let pair = QueuePair::new(&domain, queue, Kind::Datagram, path, room)?;
        pair.initialise(0)?;
        pair.connect(None, 0)?;
        let words = Words::private(REQUESTS * SLOT_BYTES);
        let memory = MemoryRegion::register(&domain, &words, Access::LOCAL)?;
        Ok(Self { pair, memory, waiting: Vec::new(), posted: 0, done: 0, unsignalled: 0, group })
    }

    /// Takes a reply that is to leave with the next flush; false if there is no room.
    pub(super) fn push(
        &mut self,
        header: &MessageHeader,
        body: &[u8],
        to: &Arc<AddressHandle>,
        datagrams: (u32, u32),
    ) -> bool {
        let under_way = self.posted.wrapping_sub(self.done) as usize + self.waiting.len();
        let bytes = MessageHeader::BYTES + body.len();
        if under_way >= REQUESTS || bytes > SLOT_BYTES {
            return false;
        }
        let place = (self.posted as usize + self.waiting.len()) % REQUESTS;
        let at = (place * SLOT_BYTES) as u64;
        let words = self.memory.words();
        let stored = words.store(at, header.as_bytes()).is_ok()
            && words.store(at + MessageHeader::BYTES as u64, body).is_ok();
        if stored {
            self.waiting.push(Reply { place, bytes, to: to.clone(), datagrams });
        }
        stored
    }

    /// Sends what waits, as one list.
    pub(super) fn flush(&mut self) -> Result<(), VerbsError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let Self { pair, memory, waiting, posted, unsignalled, group, .. } = self;
        let list = waiting.iter().map(|reply| {
            *unsignalled += 1;
            let signalled = *unsignalled >= SIGNAL_EVERY;
            if signalled {
                *unsignalled = 0;
            }
            let id = pack(Role::Datagram, *group, *posted);
            *posted = posted.wrapping_add(1);
            // One that is lost on purpose goes to a queue pair that nobody has, with no key.
            let (queue_pair, key) =
                if is_lost() { (reply.datagrams.0, !reply.datagrams.1) } else { reply.datagrams };
            Work {
                id,
                verb: Verb::Send { to: &reply.to, queue_pair, key },
                local: Local::of(memory, (reply.place * SLOT_BYTES) as u64, reply.bytes),
                address: 0,
                key: 0,
                signalled,
                inline: reply.bytes <= pair.inline_bytes,
            }
        });
        let sent = pair.post(list);
        self.waiting.clear();
        sent
    }

    /// A signalled reply has left, and with it all before it.
    pub(super) fn is_done(&mut self, number: u32) {
        self.done = number.wrapping_add(1);
    }
}
