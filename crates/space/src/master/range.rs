//! Ranges: bound to addresses, held by sessions, freed (RStore section III-E).
//!
//! What always holds: a range begins at a multiple of the chunk size, above all that were there before, and
//! is one version; a hold has the chunks of one version of a part of it, and counts in each of them.

use super::Master;
use super::chunks::{ChunkId, Place, Slot};
use super::writer::Writer;
use crate::message::{Chunk, HoldId, Pass, Range, Refusal, Response, Role, SessionId, SpaceId};
use barn_cluster::MemberId;
use barn_layout::planted;
use barn_layout::space::RANGE_CHUNKS_MAX;
use std::collections::BTreeMap;

/// A range.
#[derive(Debug)]
pub(super) struct RangeState {
    pub(super) bytes: u64,
    pub(super) copy_on_write: bool,
    pub(super) version: u64,
    /// The chunks of the newest version.
    pub(super) slots: Vec<Slot>,
    allocator: SessionId,
    pub(super) writer: Option<Writer>,
    pub(super) holds: u64,
}

/// What a session holds of a range.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) session: SessionId,
    pub(super) space: SpaceId,
    /// Where the range begins: addresses are not used again, so that this names it for ever.
    pub(super) address: u64,
    range_bytes: u64,
    copy_on_write: bool,
    pub(super) version: u64,
    pub(super) first: u64,
    pub(super) slots: Vec<Slot>,
    write: bool,
    /// The last of its leases that has begun.
    pub(super) turn: u64,
    /// Whether its version is one that it has committed itself.
    pub(super) committed: bool,
}

/// So many bytes, in whole chunks; a refusal if that is none, or more than one range may have.
pub(super) fn whole_chunks(bytes: u64, chunk_bytes: u64) -> Result<u64, Refusal> {
    let chunks = bytes.div_ceil(chunk_bytes);
    let why = match chunks {
        0 => "no bytes: ask for some".into(),
        1..=RANGE_CHUNKS_MAX => return Ok(chunks),
        _ => format!(
            "{bytes} bytes are {chunks} chunks, and {RANGE_CHUNKS_MAX} at once are the most: make a space with larger chunks"
        ),
    };
    Err(Refusal::BadSize { why })
}

/// Checks that a stretch of addresses is one.
fn check_stretch(address: u64, bytes: u64) -> Result<(), Refusal> {
    let why = match (bytes, address.checked_add(bytes)) {
        (0, _) => "no bytes: ask for some".into(),
        (_, None) => format!("{bytes} bytes from address {address} end past 64 bits"),
        (_, Some(_)) => return Ok(()),
    };
    Err(Refusal::BadSize { why })
}

impl Master {
    pub(super) fn alloc(
        &mut self,
        session: SessionId,
        id: SpaceId,
        bytes: u64,
        copy_on_write: bool,
    ) -> Result<Response, Refusal> {
        self.check_role(session, id, Role::Writer)?;
        let ranges: usize = self.spaces.values().map(|space| space.ranges.len()).sum();
        let space = self.space(id)?;
        let chunks = whole_chunks(bytes, space.chunk_bytes)?;
        let address = space.next_address;
        let Some(next_address) = address.checked_add(chunks * space.chunk_bytes) else {
            let why = format!("the space's addresses end at 64 bits and {address} were used: make another");
            return Err(Refusal::BadSize { why });
        };
        space.check_free(chunks)?;
        if ranges >= self.options.ranges_max {
            let why = format!("there are {ranges} ranges, and no more can be: free some");
            return Err(Refusal::Unavailable { why });
        }
        let Some(space) = self.spaces.get_mut(&id) else { return Err(Refusal::NoSession) };
        let slots = self.pool.take_free(chunks, Place::Bound(id), &mut space.free);
        space.used += slots.len() as u64;
        space.next_address = next_address;
        let allocator = session;
        let range = RangeState { bytes, copy_on_write, version: 0, slots, allocator, writer: None, holds: 0 };
        space.ranges.insert(address, range);
        self.hold(session, id, address, 0..chunks, true)
    }

    pub(super) fn init(
        &mut self,
        session: SessionId,
        id: SpaceId,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Result<Response, Refusal> {
        let needed = if write { Role::Writer } else { Role::Reader };
        self.check_role(session, id, needed)?;
        check_stretch(address, bytes)?;
        let space = self.space(id)?;
        let (start, range) =
            space.ranges.range(..=address).next_back().ok_or(Refusal::BadRange { address, bytes })?;
        let (from, to) = (address - start, address - start + bytes);
        if to > range.bytes && !planted("space_init_past_end") {
            return Err(Refusal::BadRange { address, bytes });
        }
        let chunks = from / space.chunk_bytes..to.div_ceil(space.chunk_bytes);
        let start = *start;
        self.hold(session, id, start, chunks, write)
    }

    pub(super) fn drop_hold(&mut self, session: SessionId, hold: HoldId) -> Result<Response, Refusal> {
        self.held_by(session, hold)?;
        self.let_go(hold, true);
        Ok(Response::Done)
    }

    /// The range is not seen any more; its chunks go back once nobody holds them.
    pub(super) fn free(
        &mut self,
        session: SessionId,
        id: SpaceId,
        address: u64,
    ) -> Result<Response, Refusal> {
        let role = self.check_role(session, id, Role::Writer)?;
        let space = self.space(id)?;
        let range = space.ranges.get(&address).ok_or(Refusal::BadRange { address, bytes: 0 })?;
        if range.allocator != session && role < Role::Owner {
            return Err(Refusal::NotAllowed { role, needed: Role::Owner });
        }
        // Its writer has not said that it stops.
        self.end_writer(id, address, false);
        let range = self.spaces.get_mut(&id).and_then(|space| space.ranges.remove(&address));
        for slot in range.map(|range| range.slots).unwrap_or_default() {
            self.outdate(slot.id, id);
        }
        Ok(Response::Done)
    }

    pub(super) fn refresh(&mut self, session: SessionId, hold: HoldId) -> Result<Response, Refusal> {
        let old = self.held_by(session, hold)?;
        let (space, address, write) = (old.space, old.address, old.write);
        let chunks = old.first..old.first + old.slots.len() as u64;
        let response = self.hold(session, space, address, chunks, write)?;
        self.let_go(hold, true);
        Ok(response)
    }

    /// Gives a session a hold on some chunks of a range's newest version.
    fn hold(
        &mut self,
        session: SessionId,
        id: SpaceId,
        address: u64,
        chunks: std::ops::Range<u64>,
        write: bool,
    ) -> Result<Response, Refusal> {
        let hold = HoldId(self.number());
        let space = self.spaces.get_mut(&id).ok_or(Refusal::NoSpace { name: id.0.to_string() })?;
        let bytes = (chunks.end - chunks.start) * space.chunk_bytes;
        let range = space.ranges.get_mut(&address).ok_or(Refusal::BadRange { address, bytes })?;
        let part = range.slots.get(chunks.start as usize..chunks.end as usize);
        let slots = part.ok_or(Refusal::BadRange { address, bytes })?.to_vec();
        for slot in &slots {
            if self.pool.get(slot.id).is_none() {
                return Err(Refusal::Lost { member: slot.chunk.member });
            }
        }
        range.holds += 1;
        for slot in &slots {
            if let Some(record) = self.pool.get_mut(slot.id) {
                record.holds += 1;
            }
        }
        let held = Hold {
            session,
            space: id,
            address,
            range_bytes: range.bytes,
            copy_on_write: range.copy_on_write,
            version: range.version,
            first: chunks.start,
            slots,
            write,
            turn: 0,
            committed: false,
        };
        self.holds.insert(hold, held);
        self.session(session)?.holds.insert(hold);
        self.held(hold)
    }

    /// The answer that tells of a hold.
    pub(super) fn held(&self, id: HoldId) -> Result<Response, Refusal> {
        let hold = self.holds.get(&id).ok_or(Refusal::NoHold)?;
        let chunks: Vec<Chunk> = hold.slots.iter().map(|slot| slot.chunk).collect();
        let passes = self.passes(hold.session, &chunks, hold.write && !hold.copy_on_write);
        let range = Range {
            address: hold.address,
            bytes: hold.range_bytes,
            copy_on_write: hold.copy_on_write,
            version: hold.version,
            chunks,
            first_chunk: hold.first,
            chunk_bytes: self.space(hold.space)?.chunk_bytes,
        };
        Ok(Response::Held { hold: id, range, passes })
    }

    /// A pass for each member that has some of the chunks.
    pub(super) fn passes(&self, session: SessionId, chunks: &[Chunk], write: bool) -> Vec<Pass> {
        let mut regions: BTreeMap<MemberId, Vec<u32>> = BTreeMap::new();
        for chunk in chunks {
            regions.entry(chunk.member).or_default().push(chunk.region);
        }
        let known = regions
            .into_iter()
            .filter_map(|(member, regions)| Some((member, self.keepers.get(&member)?.life, regions)));
        known.map(|(member, life, regions)| self.secret.pass(member, life, session, regions, write)).collect()
    }

    /// The hold, if it is this session's.
    pub(super) fn held_by(&self, session: SessionId, hold: HoldId) -> Result<&Hold, Refusal> {
        if !self.sessions.contains_key(&session) {
            return Err(Refusal::NoSession);
        }
        self.holds.get(&hold).filter(|hold| hold.session == session).ok_or(Refusal::NoHold)
    }

    pub(super) fn space(&self, id: SpaceId) -> Result<&super::Space, Refusal> {
        self.spaces.get(&id).ok_or(Refusal::NoSpace { name: id.0.to_string() })
    }

    /// Ends a hold: `willingly`, if whoever had it said so itself.
    pub(super) fn let_go(&mut self, id: HoldId, willingly: bool) {
        let Some(hold) = self.holds.remove(&id) else { return };
        if let Some(session) = self.sessions.get_mut(&hold.session) {
            session.holds.remove(&id);
        }
        let range = self.spaces.get_mut(&hold.space).and_then(|space| space.ranges.get_mut(&hold.address));
        if let Some(range) = range {
            range.holds -= 1;
            if range.writer.as_ref().is_some_and(|writer| writer.hold == id) {
                self.end_writer(hold.space, hold.address, willingly);
            }
        }
        for slot in hold.slots {
            self.unhold(slot.id, willingly);
        }
    }

    /// One hold less on a chunk. One that only holds kept, and that nobody holds any more, goes.
    pub(super) fn unhold(&mut self, id: ChunkId, willingly: bool) {
        let Some(record) = self.pool.get_mut(id) else { return };
        record.holds -= 1;
        record.suspect |= !willingly && !planted("space_zombie_kept");
        if record.holds == 0 && matches!(record.place, Place::Old(_)) {
            self.retire(id);
        }
    }

    /// A chunk that is not in its range any more: kept for those who hold it. Says whether somebody does.
    pub(super) fn outdate(&mut self, id: ChunkId, space: SpaceId) -> bool {
        let Some(record) = self.pool.get_mut(id) else { return false };
        record.place = Place::Old(space);
        let held = record.holds > 0 && !planted("space_freed_under_holders");
        if !held {
            self.retire(id);
        }
        held
    }
}
