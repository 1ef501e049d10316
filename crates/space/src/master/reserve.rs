//! Reserving and releasing memory, and where it comes from (RStore section III-E).
//!
//! Chunks come from the cache, or else keepers are asked to prepare some, each as many as its share of the
//! free memory. What spaces are owed for chunks that were retired comes first, then who asked first.
//!
//! What always holds: whatever is wanted is on its way, or somebody is refused; a refusal says what is
//! missing, and at whom.

use super::chunks::{ChunkId, Place};
use super::range::whole_chunks;
use super::{Master, Ticket};
use crate::message::{Refusal, Response, Role, SessionId, SpaceId};
use barn_cluster::MemberId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// A `Reserve` that waits for keepers.
#[derive(Debug)]
pub(super) struct Pending {
    ticket: Ticket,
    pub(super) peer: u64,
    pub(super) session: SessionId,
    pub(super) space: SpaceId,
    bytes: u64,
    wanted: u64,
    pub(super) promised: Vec<ChunkId>,
    until: Duration,
}

impl Pending {
    fn missing(&self) -> u64 {
        self.wanted - self.promised.len() as u64
    }
}

impl Master {
    pub(super) fn reserve(
        &mut self,
        now: Duration,
        peer: u64,
        session: SessionId,
        id: SpaceId,
        bytes: u64,
    ) -> Result<Ticket, Refusal> {
        self.check_role(session, id, Role::Writer)?;
        let chunk_bytes = self.space(id)?.chunk_bytes;
        let wanted = whole_chunks(bytes, chunk_bytes)?;
        let pending: u64 = self.pending.iter().map(Pending::missing).sum();
        let most = self.options.chunks_max;
        if self.pool.len() - self.pool.cached(chunk_bytes) + pending + wanted > most {
            let why = format!("{wanted} chunks more are past {most}, the most in all: use larger chunks");
            return Err(Refusal::NoMemory { why });
        }
        let ticket = Ticket(self.number());
        let until = now + self.options.reserve_wait;
        let (space, bytes, promised) = (id, chunk_bytes, Vec::new());
        self.pending.push_back(Pending { ticket, peer, session, space, bytes, wanted, promised, until });
        Ok(ticket)
    }

    pub(super) fn release(
        &mut self,
        session: SessionId,
        id: SpaceId,
        bytes: u64,
    ) -> Result<Response, Refusal> {
        self.check_role(session, id, Role::Writer)?;
        if bytes == 0 {
            return Err(Refusal::BadSize { why: "no bytes: release some".into() });
        }
        let Some(space) = self.spaces.get_mut(&id) else { return Err(Refusal::NoSession) };
        let (chunks, free) = (bytes / space.chunk_bytes, space.free.len() + space.owed);
        if chunks > free {
            let (wanted_bytes, free_bytes) = (bytes, free * space.chunk_bytes);
            return Err(Refusal::NotReserved { wanted_bytes, free_bytes });
        }
        // What is not there yet need not come.
        let owed = chunks.min(space.owed);
        space.owed -= owed;
        // Nobody was let into these: they need no scrubbing.
        for slot in self.pool.take_free(chunks - owed, Place::Cached, &mut space.free) {
            self.pool.recache(slot.id);
        }
        Ok(space.reserved())
    }

    /// Whoever waits gets what is there; what is not there is asked for; keepers get their work.
    pub(super) fn settle(&mut self, now: Duration) {
        let pending = self.pending.iter().map(|pending| pending.bytes);
        let owed = self.spaces.values().filter(|space| space.owed > 0).map(|space| space.chunk_bytes);
        let sizes: BTreeSet<u64> = pending.chain(owed).collect();
        for bytes in sizes {
            self.serve(bytes);
            while !self.plan(now, bytes) {
                self.serve(bytes);
            }
        }
        self.trim_cache();
        self.hand_out(now);
    }

    /// Gives chunks of the cache to those who want that size.
    fn serve(&mut self, bytes: u64) {
        for (id, space) in self.spaces.iter_mut().filter(|(_, space)| space.chunk_bytes == bytes) {
            for chunk in self.pool.uncache(bytes, space.owed, Place::Cached) {
                self.pool.set_free(chunk, *id, &mut space.free);
                space.owed -= 1;
            }
        }
        for pending in self.pending.iter_mut().filter(|pending| pending.bytes == bytes) {
            let promised = Place::Promised(pending.ticket);
            pending.promised.extend(self.pool.uncache(bytes, pending.missing(), promised));
        }
        while let Some(at) = self.pending.iter().position(|pending| pending.missing() == 0)
            && let Some(pending) = self.pending.remove(at)
        {
            let Some(space) = self.spaces.get_mut(&pending.space) else { continue };
            for chunk in pending.promised {
                self.pool.set_free(chunk, pending.space, &mut space.free);
            }
            self.answers.push((pending.ticket, space.reserved()));
        }
    }

    /// How many chunks of a size are wanted and not there.
    fn wanted(&self, bytes: u64) -> u64 {
        let owed = self.spaces.values().filter(|space| space.chunk_bytes == bytes).map(|space| space.owed);
        let pending = self.pending.iter().filter(|pending| pending.bytes == bytes).map(Pending::missing);
        owed.chain(pending).sum()
    }

    /// Sees to it that as many chunks of a size are on their way as are wanted. Where that cannot be, somebody
    /// is refused; false, if there is more to refuse.
    fn plan(&mut self, now: Duration, bytes: u64) -> bool {
        let coming: u64 = self.keepers.values().map(|keeper| keeper.coming(bytes)).sum();
        let Some(lack) = self.wanted(bytes).checked_sub(coming).filter(|lack| *lack > 0) else { return true };
        let room: BTreeMap<MemberId, u64> =
            self.keepers.iter().map(|(member, keeper)| (*member, keeper.room(now, bytes))).collect();
        if room.values().sum::<u64>() >= lack {
            for (member, count) in shares(&room, lack) {
                self.prepare(member, bytes, count);
            }
            return true;
        }
        // Memory may be on its way back; what is cached in other sizes can be.
        if self.evict(bytes, lack) || self.keepers.values().any(|keeper| keeper.is_returning()) {
            return true;
        }
        let Some(youngest) = self.pending.iter().rposition(|pending| pending.bytes == bytes) else {
            self.owe_less(bytes, lack);
            return true;
        };
        let missing = format!("{} bytes are missing", lack.saturating_mul(bytes));
        let refusal = match self.keepers.is_empty() {
            true => Refusal::Unavailable { why: "no member keeps chunks yet: try again".into() },
            false => Refusal::NoMemory { why: format!("{missing}: {}", self.shortage(now, bytes)) },
        };
        if let Some(pending) = self.pending.remove(youngest) {
            self.refuse(&pending, refusal);
        }
        false
    }

    /// What each member has left, for whoever reads a refusal.
    fn shortage(&self, now: Duration, bytes: u64) -> String {
        let mut why = String::new();
        for (member, keeper) in &self.keepers {
            let separator = if why.is_empty() { "" } else { ", " };
            let _ = write!(why, "{separator}{member} {}", keeper.shortage(now, bytes));
        }
        why
    }

    /// Lets cached chunks of other sizes go, so that their memory can become what is wanted.
    fn evict(&mut self, wanted: u64, count: u64) -> bool {
        let mut lack = count.saturating_mul(wanted);
        let mut evicted = false;
        for bytes in self.pool.cached_sizes().into_iter().filter(|bytes| *bytes != wanted) {
            for chunk in self.pool.uncache(bytes, lack.div_ceil(bytes), Place::Cached) {
                self.discard(chunk);
                lack = lack.saturating_sub(bytes);
                evicted = true;
            }
        }
        evicted
    }

    /// Nobody has memory for what spaces are owed: they have so much less.
    fn owe_less(&mut self, bytes: u64, mut lack: u64) {
        for (id, space) in self.spaces.iter_mut().rev().filter(|(_, space)| space.chunk_bytes == bytes) {
            let less = lack.min(space.owed);
            if less > 0 {
                let name = space.name.as_str();
                tracing::warn!(
                    space = id.0,
                    name,
                    chunks = less,
                    "no memory to replace lost chunks of a space"
                );
            }
            space.owed -= less;
            lack -= less;
        }
    }

    fn trim_cache(&mut self) {
        for bytes in self.pool.cached_sizes() {
            let above = self.pool.cached_bytes().saturating_sub(self.options.cached_bytes_max);
            for chunk in self.pool.uncache(bytes, above.div_ceil(bytes), Place::Cached) {
                self.discard(chunk);
            }
        }
    }

    /// Refuses whoever has waited for too long, and says for whom.
    pub(super) fn end_waits(&mut self, now: Duration) {
        while let Some(at) = self.pending.iter().position(|pending| pending.until <= now)
            && let Some(pending) = self.pending.remove(at)
        {
            let missing = pending.missing() * pending.bytes;
            let why = format!("{missing} bytes did not come: {}", self.shortage(now, pending.bytes));
            self.refuse(&pending, Refusal::NoMemory { why });
        }
    }

    pub(super) fn refuse_pending(&mut self, whose: impl Fn(&Pending) -> bool, refusal: &Refusal) {
        while let Some(at) = self.pending.iter().position(&whose)
            && let Some(pending) = self.pending.remove(at)
        {
            self.refuse(&pending, refusal.clone());
        }
    }

    fn refuse(&mut self, pending: &Pending, refusal: Refusal) {
        self.give_up(pending);
        self.answers.push((pending.ticket, Response::Refused(refusal)));
    }

    /// What was set aside for somebody who does not wait any more stays in the cache.
    pub(super) fn give_up(&mut self, pending: &Pending) {
        for chunk in &pending.promised {
            self.pool.recache(*chunk);
        }
    }

    /// A chunk that was promised is lost.
    pub(super) fn unpromise(&mut self, ticket: Ticket, chunk: ChunkId) {
        for pending in self.pending.iter_mut().filter(|pending| pending.ticket == ticket) {
            pending.promised.retain(|promised| *promised != chunk);
        }
    }
}

/// Divides `count` among members by the room that they have: each next one goes to whoever then has the most
/// room for each of its own (so members with equal room take turns, as in RStore).
fn shares(room: &BTreeMap<MemberId, u64>, count: u64) -> BTreeMap<MemberId, u64> {
    let mut shares: BTreeMap<MemberId, u64> = BTreeMap::new();
    for _ in 0..count {
        let share = |member: &MemberId| shares.get(member).copied().unwrap_or(0);
        let open = room.iter().filter(|(member, room)| share(member) < **room);
        let next = open.max_by(|(one, one_room), (other, other_room)| {
            // one_room / (share + 1) against the other's, without fractions.
            let one_weight = u128::from(**one_room) * u128::from(share(other) + 1);
            let other_weight = u128::from(**other_room) * u128::from(share(one) + 1);
            one_weight.cmp(&other_weight).then(other.cmp(one))
        });
        let Some((member, _)) = next else { break };
        *shares.entry(*member).or_default() += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_shares_by_what_they_have() {
        let room = |of: &[u64]| (1..).map(MemberId).zip(of.iter().copied()).collect::<BTreeMap<_, _>>();
        let of =
            |room: &BTreeMap<MemberId, u64>, count| shares(room, count).into_values().collect::<Vec<_>>();
        assert_eq!(of(&room(&[9, 9, 9]), 7), [3, 2, 2]);
        assert_eq!(of(&room(&[10, 20, 30]), 6), [1, 2, 3]);
        assert_eq!(of(&room(&[1, 0, 2]), 9), [1, 2]);
    }
}
