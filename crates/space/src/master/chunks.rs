//! Every chunk that there is, and where it belongs; stocks of free ones.
//!
//! What always holds: a region of a member is one chunk at most; a chunk is in a stock exactly if its place
//! says so.

use crate::master::Ticket;
use crate::message::{Chunk, SpaceId};
use barn_cluster::MemberId;
use std::collections::BTreeMap;

/// Names a chunk here; never used twice, as regions of a member are in its next life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChunkId(u64);

/// Where a chunk belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To nobody: in the cache.
    Cached,
    /// Set aside for a `Reserve` that is not complete yet.
    Promised(Ticket),
    /// To a space, bound to nothing.
    Free(SpaceId),
    /// To the newest version of a range.
    Bound(SpaceId),
    /// To a writer, who has not committed it yet.
    Fresh(SpaceId),
    /// To those who hold it still: an old version, or a range that was freed.
    Old(SpaceId),
    /// To its keeper, who is to retire it.
    Retiring,
}

/// A chunk.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) chunk: Chunk,
    pub(super) bytes: u64,
    pub(super) place: Place,
    /// How many holds it is in.
    pub(super) holds: u64,
    /// Somebody was let in and has not let go: its memory must not be used again.
    pub(super) suspect: bool,
}

/// A chunk's place in a range or a hold. It stays when the chunk is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) id: ChunkId,
    pub(super) chunk: Chunk,
}

/// Free chunks of one size, by member.
#[derive(Debug, Default)]
pub(super) struct Stock {
    members: BTreeMap<MemberId, Vec<ChunkId>>,
    count: u64,
}

impl Stock {
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    fn add(&mut self, member: MemberId, id: ChunkId) {
        self.members.entry(member).or_default().push(id);
        self.count += 1;
    }

    fn remove(&mut self, member: MemberId, id: ChunkId) {
        let Some(chunks) = self.members.get_mut(&member) else { return };
        if let Some(at) = chunks.iter().position(|one| *one == id) {
            chunks.swap_remove(at);
            self.count -= 1;
        }
        if chunks.is_empty() {
            self.members.remove(&member);
        }
    }

    /// The next chunk of the member that has most, but not of the one that gave the last if another has any:
    /// so neighbours lie on different members whenever that is possible (RStore section III-E).
    fn next(&mut self, last: Option<MemberId>) -> Option<(MemberId, ChunkId)> {
        let others = self.members.iter().filter(|(member, _)| Some(**member) != last);
        // The first of several that have most: `max_by_key` alone would give the last.
        let most = others.rev().max_by_key(|(_, chunks)| chunks.len()).map(|(member, _)| *member);
        let member = most.or(last.filter(|last| self.members.contains_key(last)))?;
        let id = *self.members.get(&member)?.last()?;
        self.remove_last(member);
        Some((member, id))
    }

    fn remove_last(&mut self, member: MemberId) {
        if let Some(chunks) = self.members.get_mut(&member) {
            chunks.pop();
            self.count -= 1;
            if chunks.is_empty() {
                self.members.remove(&member);
            }
        }
    }

    /// Takes so many, or as many as there are, in the order in which a range should have them.
    fn take(&mut self, count: u64) -> Vec<ChunkId> {
        let mut taken = Vec::with_capacity(count.min(self.count) as usize);
        let mut last = None;
        while (taken.len() as u64) < count {
            let Some((member, id)) = self.next(last) else { break };
            taken.push(id);
            last = Some(member);
        }
        taken
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> impl Iterator<Item = ChunkId> {
        self.members.values().flatten().copied()
    }
}

/// All chunks.
#[derive(Debug, Default)]
pub(super) struct Pool {
    records: BTreeMap<ChunkId, Record>,
    regions: BTreeMap<(MemberId, u32), ChunkId>,
    /// Chunks that belong to nobody, by size.
    cache: BTreeMap<u64, Stock>,
    last: u64,
}

impl Pool {
    pub(super) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// A chunk, unless it is lost.
    pub(super) fn get(&self, id: ChunkId) -> Option<&Record> {
        self.records.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ChunkId) -> Option<&mut Record> {
        self.records.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChunkId, &Record)> {
        self.records.iter().map(|(id, record)| (*id, record))
    }

    pub(super) fn knows(&self, member: MemberId, region: u32) -> bool {
        self.regions.contains_key(&(member, region))
    }

    /// A new chunk, in the cache. One that is there already is left as it is.
    pub(super) fn insert(&mut self, chunk: Chunk, bytes: u64) -> bool {
        if self.knows(chunk.member, chunk.region) {
            return false;
        }
        self.last += 1;
        let id = ChunkId(self.last);
        self.regions.insert((chunk.member, chunk.region), id);
        let record = Record { chunk, bytes, place: Place::Cached, holds: 0, suspect: false };
        self.records.insert(id, record);
        self.cache.entry(bytes).or_default().add(chunk.member, id);
        true
    }

    /// Forgets a chunk: it is retired, or lost. Free ones of spaces are in those spaces' stocks, too.
    pub(super) fn remove(&mut self, id: ChunkId) -> Option<Record> {
        let record = self.records.remove(&id)?;
        self.regions.remove(&(record.chunk.member, record.chunk.region));
        if record.place == Place::Cached
            && let Some(stock) = self.cache.get_mut(&record.bytes)
        {
            stock.remove(record.chunk.member, id);
        }
        Some(record)
    }

    /// How many of a size are cached.
    pub(super) fn cached(&self, bytes: u64) -> u64 {
        self.cache.get(&bytes).map_or(0, Stock::len)
    }

    /// What is cached in all.
    pub(super) fn cached_bytes(&self) -> u64 {
        self.cache.iter().map(|(bytes, stock)| bytes * stock.len()).sum()
    }

    /// The sizes that are cached, largest first.
    pub(super) fn cached_sizes(&self) -> Vec<u64> {
        self.cache.iter().rev().filter(|(_, stock)| stock.len() > 0).map(|(bytes, _)| *bytes).collect()
    }

    /// Takes so many of a size out of the cache, for `place`.
    pub(super) fn uncache(&mut self, bytes: u64, count: u64, place: Place) -> Vec<ChunkId> {
        let taken = self.cache.get_mut(&bytes).map(|stock| stock.take(count)).unwrap_or_default();
        for id in &taken {
            if let Some(record) = self.records.get_mut(id) {
                record.place = place;
            }
        }
        taken
    }

    /// Puts a chunk that nobody was ever let into back into the cache.
    pub(super) fn recache(&mut self, id: ChunkId) {
        if let Some(record) = self.records.get_mut(&id) {
            record.place = Place::Cached;
            self.cache.entry(record.bytes).or_default().add(record.chunk.member, id);
        }
    }

    /// Adds a chunk to a space's free ones.
    pub(super) fn set_free(&mut self, id: ChunkId, space: SpaceId, stock: &mut Stock) {
        if let Some(record) = self.records.get_mut(&id) {
            record.place = Place::Free(space);
            stock.add(record.chunk.member, id);
        }
    }

    /// Takes so many of a space's free chunks, for `place`, in the order in which a range should have them.
    pub(super) fn take_free(&mut self, count: u64, place: Place, stock: &mut Stock) -> Vec<Slot> {
        let mut slots = Vec::new();
        for id in stock.take(count) {
            if let Some(record) = self.records.get_mut(&id) {
                record.place = place;
                slots.push(Slot { id, chunk: record.chunk });
            }
        }
        slots
    }

    /// Takes a chunk that is lost out of a space's free ones.
    pub(super) fn unstock(id: ChunkId, record: &Record, stock: &mut Stock) {
        stock.remove(record.chunk.member, id);
    }

    #[cfg(test)]
    pub(super) fn cached_ids(&self) -> Vec<ChunkId> {
        self.cache.values().flat_map(Stock::ids).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(by_member: &[u32]) -> Pool {
        let mut pool = Pool::default();
        for (member, count) in (1..).zip(by_member) {
            for region in 0..*count {
                pool.insert(Chunk { member: MemberId(member), region, mark: region }, 1);
            }
        }
        pool
    }

    fn members(pool: &Pool, ids: &[ChunkId]) -> Vec<u32> {
        ids.iter().map(|id| pool.get(*id).unwrap().chunk.member.0).collect()
    }

    #[test]
    fn neighbours_lie_on_different_members_while_there_are_several() {
        let mut even = pool(&[3, 3, 3]);
        let taken = even.uncache(1, 9, Place::Promised(Ticket(1)));
        assert_eq!(members(&even, &taken), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let mut uneven = pool(&[4, 1, 1]);
        let taken = uneven.uncache(1, 6, Place::Promised(Ticket(1)));
        assert_eq!(members(&uneven, &taken), [1, 2, 1, 3, 1, 1]);
        assert_eq!(uneven.cached(1), 0);
    }

    #[test]
    fn a_region_is_one_chunk() {
        let mut pool = pool(&[1]);
        assert!(!pool.insert(Chunk { member: MemberId(1), region: 0, mark: 9 }, 2));
        assert_eq!((pool.len(), pool.cached_bytes()), (1, 1));
    }
}
