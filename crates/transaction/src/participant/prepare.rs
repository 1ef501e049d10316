//! The first step: lock what a transaction changes; for one that touches only this node, the whole.

use super::{Asked, Held, Participant, Refusal, TRANSACTION_BYTES_MAX};
use crate::wire::{Frame, Malformed, Writes, many};
use barn_cluster::MemberId;
use barn_fabric::PeerId;
use barn_layout::object::LockMode;
use barn_layout::transaction::{
    Change, PREPARE_ALONE, PREPARE_CLOSED, PREPARE_DURABILITY_SHIFT, PREPARE_LAST, ReadEntry, State,
    TransactionId, Verdict, WriteEntry,
};
use barn_layout::{Address, Durability, planted};

/// A transaction of which only some frames have come.
#[derive(Debug)]
pub(super) struct Assembling {
    id: TransactionId,
    frames: u32,
    participants: Vec<MemberId>,
    reads: Vec<ReadEntry>,
    writes: Vec<u8>,
    count: usize,
}

impl Participant {
    pub(super) fn prepare(&mut self, peer: PeerId, body: &[u8]) -> Result<(), Refusal> {
        let frame = Frame::parse(body)?;
        let id = frame.header.transaction;
        let session = self.sessions.of(peer).filter(|session| session.id == id.session.get());
        let Some(session) = session else { return Err(Verdict::SessionEnded.into()) };
        if !self.outcomes.is_empty() && self.outcomes.get(id).is_some()
            || !self.held.is_empty() && self.held.contains_key(&id)
        {
            session.assembling = None;
            return Err(Verdict::InRecovery.into());
        }
        let flags = frame.header.flags.get();
        if flags & PREPARE_LAST != 0 && frame.header.frame.get() == 0 {
            // Nearly all come whole.
            return self.prepare_whole(
                peer,
                id,
                flags,
                frame.participants.iter().map(|entry| MemberId(entry.member.get())),
                frame.reads,
                frame.writes,
            );
        }
        let parts = match session.assembling.take() {
            Some(parts) if parts.id == id && parts.frames == frame.header.frame.get() => parts,
            None if frame.header.frame.get() == 0 => Assembling {
                id,
                frames: 0,
                participants: frame.participants.iter().map(|entry| MemberId(entry.member.get())).collect(),
                reads: Vec::new(),
                writes: Vec::new(),
                count: 0,
            },
            _ => return Err(Verdict::Unknown.into()),
        };
        let mut parts = parts;
        if parts.writes.len() + parts.reads.len() * ReadEntry::BYTES + body.len() > TRANSACTION_BYTES_MAX {
            return Err(Verdict::TooLarge.into());
        }
        parts.frames += 1;
        parts.reads.extend_from_slice(frame.reads);
        parts.writes.extend_from_slice(frame.writes.bytes);
        parts.count += frame.writes.count;
        if flags & PREPARE_LAST == 0 {
            session.assembling = Some(parts);
            return Ok(());
        }
        let writes = Writes { bytes: &parts.writes, count: parts.count };
        self.prepare_whole(peer, id, flags, parts.participants.iter().copied(), &parts.reads, writes)
    }

    fn prepare_whole(
        &mut self,
        peer: PeerId,
        id: TransactionId,
        flags: u32,
        participants: impl Iterator<Item = MemberId>,
        reads: &[ReadEntry],
        writes: Writes<'_>,
    ) -> Result<(), Refusal> {
        let durability =
            Durability::from_bits(flags >> PREPARE_DURABILITY_SHIFT).map_err(|_| Verdict::Unknown)?;
        self.asked = Asked { durability, together: flags & PREPARE_ALONE == 0 };
        let locked = self.lock(peer, writes);
        if let Err(refusal) = locked {
            if flags & PREPARE_ALONE == 0 {
                // The client has handed its places over with the question, and asks no more.
                self.release_places(peer, writes);
            }
            self.stats.aborted += 1;
            return Err(refusal);
        }
        if flags & PREPARE_ALONE != 0 {
            if let Err(refusal) = self.validate(reads) {
                self.unlock(peer, writes);
                self.stats.aborted += 1;
                return Err(refusal);
            }
            if writes.count > 1 && !planted("alone_without_close") {
                self.close(writes);
            }
            self.carry_out(writes);
            if let Some(session) = self.sessions.of(peer) {
                session.committed(id);
            }
            self.stats.alone += 1;
            return Ok(());
        }
        if flags & PREPARE_CLOSED != 0 && !planted("validated_while_read") {
            self.close(writes);
        }
        self.held.insert(
            id,
            Held {
                participants: participants.collect(),
                writes: writes.bytes.to_vec(),
                count: writes.count,
                durability,
                decided: false,
                frozen: false,
                orphan: false,
            },
        );
        self.note_held(id);
        self.stats.prepared += 1;
        Ok(())
    }

    /// Frees the places that were reserved for a transaction's new objects.
    fn release_places(&mut self, peer: PeerId, writes: Writes<'_>) {
        for (entry, _) in writes.each() {
            let address = Address::from_bits(entry.address.get());
            if self.sessions.of(peer).is_some_and(|session| session.reserved.remove(&address)) {
                // It was reserved by this session.
                let _ = self.heap.release(address);
            }
        }
    }

    /// Locks every object, or none.
    fn lock(&mut self, peer: PeerId, writes: Writes<'_>) -> Result<(), Refusal> {
        for (entry, body) in writes.each() {
            self.heap.prefetch(Address::from_bits(entry.address.get()), body.len());
        }
        for (done, (entry, body)) in writes.each().enumerate() {
            if let Err(refusal) = self.lock_one(peer, entry, body) {
                for (entry, _) in writes.each().take(done) {
                    self.unlock_one(peer, entry);
                }
                return Err(refusal);
            }
        }
        Ok(())
    }

    fn lock_one(&mut self, peer: PeerId, entry: &WriteEntry, body: &[u8]) -> Result<(), Refusal> {
        let address = Address::from_bits(entry.address.get());
        let refused = |verdict| Refusal { verdict, address: address.to_bits() };
        match Change::from_bits(entry.change.get()) {
            None => Err(refused(Verdict::Unknown)),
            Some(Change::Create) => {
                if self.heap.capacity(address).is_ok_and(|capacity| capacity < body.len()) {
                    return Err(refused(Verdict::Length));
                }
                // Only a place that this very session has reserved, and only once: from here on it is
                // the transaction's, and the session's end does not release it.
                let mine = self.sessions.of(peer).is_some_and(|session| session.reserved.remove(&address));
                if mine { Ok(()) } else { Err(refused(Verdict::NotAnObject)) }
            }
            Some(change) => {
                let bytes = (change == Change::Update).then_some(body.len());
                let mut version = entry.version.get();
                if planted("version_not_checked") {
                    version = self.heap.header(address).map_or(version, |header| header.word.version());
                }
                self.heap
                    .lock_to_write(address, version, entry.incarnation.get(), bytes)
                    .map_err(|error| self.refusal(address, error))
            }
        }
    }

    /// Takes a lock back; a place for a new object is the session's again.
    fn unlock_one(&mut self, peer: PeerId, entry: &WriteEntry) {
        let address = Address::from_bits(entry.address.get());
        if Change::from_bits(entry.change.get()) != Some(Change::Create) {
            // It was locked by `lock_one`.
            let _ = self.heap.unlock(address);
        } else if let Some(session) = self.sessions.of(peer) {
            session.reserved.insert(address);
        }
    }

    /// Takes every lock back.
    pub(super) fn unlock(&mut self, peer: PeerId, writes: Writes<'_>) {
        writes.each().for_each(|(entry, _)| self.unlock_one(peer, entry));
    }

    /// Lets nobody read the objects any more. All of them, before any is changed: a reader of
    /// several must never see one that has changed beside one that is about to, nor follow a pointer to one that is
    /// not there yet.
    pub(super) fn close(&mut self, writes: Writes<'_>) {
        for (entry, _) in writes.each() {
            let address = Address::from_bits(entry.address.get());
            // It is locked, so it closes; or reserved, so it can be announced.
            let _ = match Change::from_bits(entry.change.get()) {
                Some(Change::Create) if planted("created_unannounced") => Ok(()),
                Some(Change::Create) => self.heap.announce(address),
                _ => self.heap.close(address),
            };
        }
    }

    /// Carries the changes of a transaction out, and unlocks what they change.
    pub(super) fn carry_out(&mut self, writes: Writes<'_>) {
        for (entry, body) in writes.each() {
            let address = Address::from_bits(entry.address.get());
            // All of them were checked and locked.
            let done = match Change::from_bits(entry.change.get()) {
                Some(Change::Create) => self.heap.create(address, body).map(|_| ()),
                Some(Change::Free) => self.heap.free(address),
                _ => self.heap.write_and_tell(address, body).map(|(_, purpose)| {
                    if purpose.is_table() {
                        self.changed_tables.push(address);
                    }
                }),
            };
            debug_assert!(done.is_ok(), "a change that was locked: {done:?}");
        }
    }

    /// Whether every version is as it was read and nobody is about to change one.
    pub(super) fn validate(&self, reads: &[ReadEntry]) -> Result<(), Refusal> {
        let reads = if planted("validation_skipped") { &[] } else { reads };
        for read in reads {
            let address = Address::from_bits(read.address.get());
            let header = self.heap.header(address).map_err(|error| self.refusal(address, error))?;
            let refused = |verdict| Err(Refusal { verdict, address: address.to_bits() });
            if header.word.version() != read.version.get() {
                return refused(Verdict::Changed);
            }
            if header.word.mode() != LockMode::Free {
                return refused(Verdict::Locked);
            }
        }
        Ok(())
    }

    pub(super) fn validate_message(&self, body: &[u8]) -> Result<(), Refusal> {
        self.validate(many(body).map_err(|Malformed| Verdict::Unknown)?)
    }

    /// The state of a transaction here.
    pub(super) fn state(&self, id: TransactionId) -> State {
        match self.held.get(&id) {
            Some(held) if held.decided => State::Decided,
            Some(_) => State::Prepared,
            None => self.remembered(id),
        }
    }
}
