//! Copy-on-write ranges (RStore section III-G): one writer by lease, fresh chunks, and a switch.
//!
//! What always holds: a range has one writer at most; readers see all of a commit or nothing of it; a lease
//! that has ended commits nothing and is not renewed, whether or not somebody else has it by then; what is said
//! of an earlier lease of the same hold does nothing to a later one; chunks that a writer lost with its lease
//! are not used again, for it may still be writing to them.

use super::Master;
use super::chunks::{Place, Slot};
use crate::message::{Chunk, HoldId, Refusal, Response, Role, SessionId, SpaceId, WRITER_LEASE_MS_DEFAULT};
use barn_cluster::{GrantedLease, MemberId};
use barn_layout::planted;
use barn_layout::space::WRITER_LEASE_MS_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The writer of a range.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) hold: HoldId,
    turn: u64,
    lease: GrantedLease,
    /// The version that its commit will make.
    version: u64,
    /// What it writes to, by the chunk's number in the range.
    pub(super) fresh: BTreeMap<u64, Slot>,
}

impl Master {
    pub(super) fn lease(
        &mut self,
        now: Duration,
        session: SessionId,
        (hold, turn): (HoldId, u64),
        chunks: &[u64],
        lease_ms: u64,
    ) -> Result<Response, Refusal> {
        let wanted: BTreeSet<u64> = chunks.iter().copied().collect();
        let (id, address) = self.check_lease(now, session, hold, &wanted)?;
        let goes_on = self.goes_on(id, address, (hold, turn))?;
        let lease_ms = match lease_ms {
            0 => WRITER_LEASE_MS_DEFAULT,
            asked => asked.min(WRITER_LEASE_MS_MAX),
        };
        let lease = Duration::from_millis(lease_ms);
        let pool = &self.pool;
        let Some(space) = self.spaces.get_mut(&id) else { return Err(Refusal::NoHold) };
        let Some(range) = space.ranges.get_mut(&address) else { return Err(Refusal::NoHold) };
        let fresh = range.writer.as_ref().filter(|_| goes_on).map(|writer| &writer.fresh);
        let has = |number: &u64| {
            fresh.and_then(|fresh| fresh.get(number)).is_some_and(|s| pool.get(s.id).is_some())
        };
        let missing: Vec<u64> = wanted.iter().copied().filter(|number| !has(number)).collect();
        let count = missing.len() as u64;
        space.check_free(count)?;
        if !goes_on && !planted("space_turns_share_chunks") {
            self.end_writer(id, address, true);
        }
        if let Some(hold) = self.holds.get_mut(&hold) {
            hold.turn = turn;
        }
        let Some(space) = self.spaces.get_mut(&id) else { return Err(Refusal::NoHold) };
        let Some(range) = space.ranges.get_mut(&address) else { return Err(Refusal::NoHold) };
        let version = range.version + 1;
        let writer = range.writer.get_or_insert_with(|| Writer {
            hold,
            turn,
            lease: GrantedLease::new(now, lease),
            version,
            fresh: BTreeMap::new(),
        });
        writer.lease.extend(now, lease);
        let slots = self.pool.take_free(count, Place::Fresh(id), &mut space.free);
        space.used += slots.len() as u64;
        writer.fresh.extend(missing.into_iter().zip(slots));
        let given = |number: u64| Some((number, writer.fresh.get(&number)?.chunk));
        let chunks: Vec<(u64, Chunk)> = wanted.into_iter().filter_map(given).collect();
        self.next_end = self.next_end.min(now + lease);
        let places: Vec<Chunk> = chunks.iter().map(|(_, chunk)| *chunk).collect();
        let passes = self.passes(session, &places, true);
        Ok(Response::Leased { version, lease_ms, chunks, passes })
    }

    /// Whether the session may be the range's writer now, and which range that is.
    fn check_lease(
        &mut self,
        now: Duration,
        session: SessionId,
        id: HoldId,
        chunks: &BTreeSet<u64>,
    ) -> Result<(SpaceId, u64), Refusal> {
        let hold = self.held_by(session, id)?;
        let (space, address) = (hold.space, hold.address);
        self.check_role(session, space, Role::Writer)?;
        let (hold, space_state) = (self.held_by(session, id)?, self.space(space)?);
        let chunk_bytes = space_state.chunk_bytes;
        let bytes = hold.slots.len() as u64 * chunk_bytes;
        let range = space_state.ranges.get(&address).ok_or(Refusal::BadRange { address, bytes })?;
        if !range.copy_on_write {
            let why = "the range is not copy-on-write: write to it directly, or allocate one that is".into();
            return Err(Refusal::WrongKind { why });
        }
        let held = hold.first..hold.first + hold.slots.len() as u64;
        if let Some(number) = chunks.iter().find(|number| !held.contains(number)) {
            let address = address.saturating_add(number.saturating_mul(chunk_bytes));
            return Err(Refusal::BadRange { address, bytes: chunk_bytes });
        }
        if let Some(writer) = range.writer.as_ref().filter(|writer| writer.hold != id)
            && !planted("space_two_writers")
        {
            let left = writer.lease.ends_at().saturating_sub(now);
            return Err(Refusal::HasWriter { left_ms: left.as_millis() as u64 + 1 });
        }
        // Whoever wrote on from an old version would undo what others have committed since.
        if hold.version != range.version {
            let (held, newest) = (hold.version, range.version);
            let why = format!("the hold is of version {held} and the range of {newest}: refresh it first");
            return Err(Refusal::WrongKind { why });
        }
        Ok((space, address))
    }

    /// Whether this is the lease that the hold has; a later one begins anew. One that was over is refused: its
    /// chunks are gone, and its commit would miss what was written to them.
    fn goes_on(&self, id: SpaceId, address: u64, (hold, turn): (HoldId, u64)) -> Result<bool, Refusal> {
        let last = self.holds.get(&hold).ok_or(Refusal::NoHold)?.turn;
        let range = self.space(id)?.ranges.get(&address).ok_or(Refusal::NoHold)?;
        let goes_on = range.writer.as_ref().is_some_and(|writer| writer.turn == turn);
        if goes_on || turn > last || planted("space_lease_over_renewed") {
            return Ok(goes_on);
        }
        Err(Refusal::LeaseOver)
    }

    pub(super) fn commit(
        &mut self,
        session: SessionId,
        (id, turn): (HoldId, u64),
        version: u64,
    ) -> Result<Response, Refusal> {
        let hold = self.held_by(session, id)?;
        let (space, address, first) = (hold.space, hold.address, hold.first);
        // The first answer was lost.
        if hold.committed && (hold.turn, hold.version) == (turn, version) {
            return self.held(id);
        }
        let range = self.space(space)?.ranges.get(&address).ok_or(Refusal::LeaseOver)?;
        let writer = range
            .writer
            .as_ref()
            .filter(|writer| (writer.hold, writer.turn, writer.version) == (id, turn, version));
        let writer = writer.ok_or(Refusal::LeaseOver)?;
        let after =
            (first..).zip(&hold.slots).map(|(number, slot)| writer.fresh.get(&number).unwrap_or(slot));
        for slot in after {
            if self.pool.get(slot.id).is_none() {
                return Err(Refusal::Lost { member: slot.chunk.member });
            }
        }
        self.switch(space, address, id);
        self.held(id)
    }

    /// Puts what was written in the place of what was there, for everybody who looks from now on.
    fn switch(&mut self, id: SpaceId, address: u64, hold: HoldId) {
        let range = self.spaces.get_mut(&id).and_then(|space| space.ranges.get_mut(&address));
        let (Some(range), Some(held)) = (range, self.holds.get_mut(&hold)) else { return };
        let Some(writer) = range.writer.take() else { return };
        range.version = writer.version;
        held.version = writer.version;
        held.committed = true;
        let mut replaced = Vec::new();
        for (number, slot) in writer.fresh {
            let Some(bound) = range.slots.get_mut(number as usize) else { continue };
            let Some(mine) = held.slots.get_mut((number - held.first) as usize) else { continue };
            if planted("space_switch_loses_chunk") && number > held.first {
                continue;
            }
            *bound = slot;
            replaced.push(std::mem::replace(mine, slot));
            if let Some(record) = self.pool.get_mut(slot.id) {
                record.place = Place::Bound(id);
                record.holds += 1;
            }
        }
        let mut tainted: BTreeMap<MemberId, Vec<u32>> = BTreeMap::new();
        for slot in replaced {
            // This hold is off it; readers of old versions may be on it still.
            if let Some(record) = self.pool.get_mut(slot.id) {
                record.holds -= 1;
            }
            if self.outdate(slot.id, id) {
                tainted.entry(slot.chunk.member).or_default().push(slot.chunk.mark);
            }
        }
        for (member, marks) in tainted {
            self.taint(member, marks);
        }
    }

    pub(super) fn abandon(
        &mut self,
        session: SessionId,
        (id, turn): (HoldId, u64),
    ) -> Result<Response, Refusal> {
        let hold = self.held_by(session, id)?;
        let (space, address) = (hold.space, hold.address);
        let range = self.space(space)?.ranges.get(&address);
        let writer = range.and_then(|range| range.writer.as_ref());
        let same =
            |writer: &Writer| writer.hold == id && (writer.turn == turn || planted("space_abandon_any_turn"));
        if writer.is_some_and(same) {
            self.end_writer(space, address, true);
        }
        Ok(Response::Done)
    }

    /// Ends a writer's lease without a switch: `willingly`, if it said so itself. What it had goes.
    pub(super) fn end_writer(&mut self, id: SpaceId, address: u64, willingly: bool) {
        let range = self.spaces.get_mut(&id).and_then(|space| space.ranges.get_mut(&address));
        let Some(writer) = range.and_then(|range| range.writer.take()) else { return };
        for slot in writer.fresh.into_values() {
            if let Some(record) = self.pool.get_mut(slot.id) {
                record.suspect |= !willingly && !planted("space_zombie_writer_kept");
                self.retire(slot.id);
            }
        }
    }

    pub(super) fn end_writers(&mut self, now: Duration) {
        let mut over = Vec::new();
        for (id, space) in &self.spaces {
            for (address, range) in &space.ranges {
                if range.writer.as_ref().is_some_and(|writer| writer.lease.has_ended(now)) {
                    over.push((*id, *address));
                }
            }
        }
        for (id, address) in over {
            tracing::warn!(space = id.0, address, "a writer's lease has ended: its range stays as it was");
            if !planted("space_writer_lease_not_ended") {
                self.end_writer(id, address, false);
            }
        }
    }

    /// When writers' leases end.
    pub(super) fn writers_end(&self) -> impl Iterator<Item = Duration> {
        let ranges = self.spaces.values().flat_map(|space| space.ranges.values());
        ranges.filter_map(|range| range.writer.as_ref()).map(|writer| writer.lease.ends_at())
    }
}
