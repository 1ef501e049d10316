//! Spaces: made, joined, deleted, looked at.

use super::Master;
use super::chunks::{Place, Stock};
use super::range::RangeState;
use crate::message::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Keys, NAME_BYTES_MAX, RangeInfo, Refusal, Response, Role, SessionId,
    SpaceId, SpaceInfo,
};
use crate::pass::to_hex;
use std::collections::BTreeMap;

/// A space.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) name: String,
    pub(super) chunk_bytes: u64,
    everyone: Role,
    keys: Keys,
    creator: SessionId,
    /// Chunks that are reserved and bound to nothing.
    pub(super) free: Stock,
    /// How many are bound: in ranges, in old versions, with writers.
    pub(super) used: u64,
    /// How many were retired and are to be replaced: what is reserved stays reserved.
    pub(super) owed: u64,
    pub(super) ranges: BTreeMap<u64, RangeState>,
    /// Addresses below were given out. They are not given out again, so that an address that somebody kept
    /// never means something else.
    pub(super) next_address: u64,
    pub(super) sessions: u64,
}

impl Space {
    pub(super) fn reserved_chunks(&self) -> u64 {
        self.free.len() + self.used + self.owed
    }

    pub(super) fn reserved(&self) -> Response {
        Response::Reserved {
            reserved_bytes: self.reserved_chunks() * self.chunk_bytes,
            free_bytes: self.free.len() * self.chunk_bytes,
        }
    }

    /// Why so many chunks cannot be had, if they cannot.
    pub(super) fn check_free(&self, chunks: u64) -> Result<(), Refusal> {
        let (free, coming) = (self.free.len(), self.owed);
        if chunks <= free {
            return Ok(());
        }
        if chunks <= free + coming {
            let bytes = coming * self.chunk_bytes;
            let why = format!("{bytes} bytes of the space are being cleared for another use: try again");
            return Err(Refusal::Unavailable { why });
        }
        let wanted_bytes = chunks.saturating_mul(self.chunk_bytes);
        Err(Refusal::NotReserved { wanted_bytes, free_bytes: free * self.chunk_bytes })
    }
}

/// Names are typed and printed.
fn check_name(name: &str) -> Result<(), Refusal> {
    let bad = |why: String| Err(Refusal::BadName { why });
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return bad(format!("a space's name has from 1 to {NAME_BYTES_MAX} bytes, not {}", name.len()));
    }
    match name.chars().find(|c| !(c.is_alphanumeric() || "_-.:/".contains(*c))) {
        Some(odd) => bad(format!("a space's name has letters, digits and _-.:/ only, not {odd:?}")),
        None => Ok(()),
    }
}

fn check_chunk_bytes(chunk_bytes: u64) -> Result<(), Refusal> {
    let within = (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes);
    if within && chunk_bytes.is_power_of_two() {
        return Ok(());
    }
    let why = format!(
        "chunks of {chunk_bytes} bytes: choose a power of two from {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}"
    );
    Err(Refusal::BadSize { why })
}

impl Master {
    pub(super) fn create(
        &mut self,
        session: SessionId,
        name: String,
        chunk_bytes: u64,
        everyone: Role,
    ) -> Result<Response, Refusal> {
        self.session(session)?;
        check_name(&name)?;
        check_chunk_bytes(chunk_bytes)?;
        if let Some((id, known)) = self.named(&name) {
            let again =
                (known.creator, known.chunk_bytes, known.everyone) == (session, chunk_bytes, everyone);
            // The first answer was lost.
            return match again {
                true => Ok(Response::Created { space: id, keys: known.keys.clone() }),
                false => Err(Refusal::SpaceExists { name }),
            };
        }
        if self.spaces.len() >= self.options.spaces_max {
            let why = format!("there are {} spaces, and no more can be: delete some", self.spaces.len());
            return Err(Refusal::Unavailable { why });
        }
        let id = SpaceId(self.number());
        let keys = Keys { owner: self.draw_key(), writer: self.draw_key(), reader: self.draw_key() };
        let space = Space {
            name: name.clone(),
            chunk_bytes,
            everyone,
            keys: keys.clone(),
            creator: session,
            free: Stock::default(),
            used: 0,
            owed: 0,
            ranges: BTreeMap::new(),
            // Address 0 is nobody's, so that it can mean "nothing" in what is stored in a space.
            next_address: chunk_bytes,
            sessions: 1,
        };
        self.spaces.insert(id, space);
        self.names.insert(name, id);
        self.session(session)?.joined.insert(id, Role::Owner);
        Ok(Response::Created { space: id, keys })
    }

    pub(super) fn join(
        &mut self,
        session: SessionId,
        name: &str,
        key: Option<&str>,
    ) -> Result<Response, Refusal> {
        self.session(session)?;
        let (id, space) = self.named(name).ok_or(Refusal::NoSpace { name: name.into() })?;
        let Keys { owner, writer, reader } = &space.keys;
        let (everyone, chunk_bytes) = (space.everyone, space.chunk_bytes);
        let shown = match key {
            None => Role::Nobody,
            // All three are compared, whichever it is.
            Some(key) => [(owner, Role::Owner), (writer, Role::Writer), (reader, Role::Reader)]
                .map(|(kept, role)| self.secret.same_key(key, kept).then_some(role))
                .into_iter()
                .flatten()
                .max()
                .ok_or(Refusal::BadKey)?,
        };
        let before = self.session(session)?.joined.get(&id).copied();
        let role = shown.max(everyone).max(before.unwrap_or(Role::Nobody));
        if role == Role::Nobody {
            return Err(Refusal::NotAllowed { role, needed: Role::Reader });
        }
        self.session(session)?.joined.insert(id, role);
        if before.is_none()
            && let Some(space) = self.spaces.get_mut(&id)
        {
            space.sessions += 1;
        }
        Ok(Response::Joined { space: id, role, chunk_bytes })
    }

    /// All of the space's chunks are retired, whoever holds them; holders find their keys revoked.
    pub(super) fn delete(&mut self, session: SessionId, id: SpaceId) -> Result<Response, Refusal> {
        self.check_role(session, id, Role::Owner)?;
        let held: Vec<_> =
            self.holds.iter().filter(|(_, hold)| hold.space == id).map(|(id, _)| *id).collect();
        for hold in held {
            if let Some(hold) = self.holds.remove(&hold)
                && let Some(holder) = self.sessions.get_mut(&hold.session)
            {
                holder.holds.retain(|one| self.holds.contains_key(one));
            }
        }
        let chunks: Vec<_> = self.pool.iter().map(|(chunk, record)| (chunk, record.place)).collect();
        for (chunk, place) in chunks {
            match place {
                Place::Free(space) if space == id => self.pool.recache(chunk),
                Place::Bound(space) | Place::Old(space) | Place::Fresh(space) if space == id => {
                    if let Some(record) = self.pool.get_mut(chunk) {
                        record.suspect |= record.holds > 0 || matches!(place, Place::Fresh(_));
                        record.holds = 0;
                    }
                    self.retire(chunk);
                }
                _ => {}
            }
        }
        if let Some(space) = self.spaces.remove(&id) {
            self.refuse_pending(|one| one.space == id, &Refusal::NoSpace { name: space.name.clone() });
            self.names.remove(&space.name);
        }
        for session in self.sessions.values_mut() {
            session.joined.remove(&id);
        }
        Ok(Response::Done)
    }

    pub(super) fn list(&self) -> Response {
        Response::Spaces(self.names.values().filter_map(|id| self.info(*id)).collect())
    }

    pub(super) fn stat(&self, name: &str) -> Result<Response, Refusal> {
        let id = self.names.get(name).copied();
        let info = id.and_then(|id| self.info(id)).ok_or(Refusal::NoSpace { name: name.into() })?;
        Ok(Response::Spaces(vec![info]))
    }

    fn named(&self, name: &str) -> Option<(SpaceId, &Space)> {
        let id = *self.names.get(name)?;
        Some((id, self.spaces.get(&id)?))
    }

    fn draw_key(&mut self) -> String {
        let words = [self.random.next(), self.random.next()];
        to_hex(&words.map(u64::to_le_bytes).concat())
    }

    fn info(&self, id: SpaceId) -> Option<SpaceInfo> {
        let space = self.spaces.get(&id)?;
        let ranges = space.ranges.iter().map(|(address, range)| RangeInfo {
            address: *address,
            bytes: range.bytes,
            copy_on_write: range.copy_on_write,
            version: range.version,
            holds: range.holds,
            writer: range.writer.is_some(),
            lost: range.slots.iter().any(|slot| self.pool.get(slot.id).is_none()),
        });
        Some(SpaceInfo {
            space: id,
            name: space.name.clone(),
            chunk_bytes: space.chunk_bytes,
            everyone: space.everyone,
            reserved_bytes: space.reserved_chunks() * space.chunk_bytes,
            used_bytes: (space.used + space.owed) * space.chunk_bytes,
            ranges: ranges.collect(),
            sessions: space.sessions,
        })
    }
}
