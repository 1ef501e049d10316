//! What always holds of a master, checked from the inside.

use crate::master::Master;
use crate::master::chunks::{ChunkId, Place};
use std::collections::BTreeMap;

impl Master {
    /// Panics if something that always holds does not.
    pub(super) fn audit(&self) {
        self.audit_places();
        self.audit_spaces();
        self.audit_holds();
        self.audit_ends();
    }

    /// No chunk is in two places, and each is where it says.
    fn audit_places(&self) {
        let mut found: BTreeMap<ChunkId, Place> = BTreeMap::new();
        let mut put = |id, place| {
            let other = found.insert(id, place);
            assert!(other.is_none(), "{id:?} is {place:?} and {other:?}");
        };
        for id in self.pool.cached_ids() {
            put(id, Place::Cached);
        }
        for (space_id, space) in &self.spaces {
            for id in space.free.ids() {
                put(id, Place::Free(*space_id));
            }
            for range in space.ranges.values() {
                for slot in &range.slots {
                    put(slot.id, Place::Bound(*space_id));
                }
                for slot in range.writer.iter().flat_map(|writer| writer.fresh.values()) {
                    put(slot.id, Place::Fresh(*space_id));
                }
            }
        }
        for (id, record) in self.pool.iter() {
            match (record.place, found.remove(&id)) {
                (place, Some(stands)) => assert_eq!(place, stands, "{id:?}"),
                (Place::Promised(_) | Place::Retiring, None) => {}
                (Place::Old(_), None) => assert!(record.holds > 0, "{id:?} is old, and nobody holds it"),
                (place, None) => panic!("{id:?} should be {place:?}"),
            }
        }
        // Those that are left were lost; none of them can be in a stock.
        assert!(found.values().all(|place| matches!(place, Place::Bound(_) | Place::Fresh(_))), "{found:?}");
    }

    /// What is reserved is free, used or owed; sums by space and by member agree.
    fn audit_spaces(&self) {
        for (id, space) in &self.spaces {
            let of = |place: Place| match place {
                Place::Free(of) => (of == *id, false),
                Place::Bound(of) | Place::Fresh(of) | Place::Old(of) => (false, of == *id),
                _ => (false, false),
            };
            let places = || self.pool.iter().map(|(_, record)| of(record.place));
            assert_eq!(places().filter(|(free, _)| *free).count() as u64, space.free.len(), "free in {id:?}");
            assert_eq!(places().filter(|(_, used)| *used).count() as u64, space.used, "used in {id:?}");
            assert_eq!(space.reserved_chunks(), space.free.len() + space.used + space.owed);
            let joined = self.sessions.values().filter(|session| session.joined.contains_key(id)).count();
            assert_eq!(space.sessions, joined as u64, "sessions of {id:?}");
            assert_eq!(self.names.get(&space.name), Some(id));
            let mut end = 0;
            for (address, range) in &space.ranges {
                assert!(*address >= end && address % space.chunk_bytes == 0, "ranges of {id:?} overlap");
                end = address + range.slots.len() as u64 * space.chunk_bytes;
                assert!(range.bytes <= end - address && end <= space.next_address);
            }
        }
        assert_eq!(self.names.len(), self.spaces.len());
        let usage = self.usage();
        let in_all: u64 = (usage.iter())
            .map(|one| one.cached_bytes + one.reserved_bytes + one.used_bytes + one.retiring_bytes)
            .sum();
        assert_eq!(in_all, self.pool.iter().map(|(_, record)| record.bytes).sum::<u64>());
    }

    /// Holds are counted where they should be, and have their chunks unless those are lost.
    fn audit_holds(&self) {
        let mut counts: BTreeMap<ChunkId, u64> = BTreeMap::new();
        for (id, hold) in &self.holds {
            let session = self.sessions.get(&hold.session).expect("a hold has a session");
            assert!(session.holds.contains(id) && self.spaces.contains_key(&hold.space));
            for slot in &hold.slots {
                *counts.entry(slot.id).or_default() += 1;
            }
        }
        for (id, record) in self.pool.iter() {
            assert_eq!(record.holds, counts.get(&id).copied().unwrap_or(0), "holds of {id:?}");
            let held = matches!(record.place, Place::Bound(_) | Place::Old(_));
            assert!(held || record.holds == 0, "{id:?} is held and {:?}", record.place);
        }
        let held: usize = self.sessions.values().map(|session| session.holds.len()).sum();
        assert_eq!(held, self.holds.len());
        for (space, state) in &self.spaces {
            for (address, range) in &state.ranges {
                let of = |hold: &&super::super::Hold| (hold.space, hold.address) == (*space, *address);
                assert_eq!(range.holds, self.holds.values().filter(of).count() as u64);
                if let Some(writer) = &range.writer {
                    let hold = self.holds.get(&writer.hold).expect("a writer holds its range");
                    assert_eq!((hold.space, hold.address), (*space, *address));
                    assert_eq!(hold.version, range.version, "a writer is at the newest version");
                }
            }
        }
    }

    /// Nothing outlives its lease.
    fn audit_ends(&self) {
        let now = self.last_awake;
        assert!(self.sessions.values().all(|session| !session.lease.has_ended(now)), "a lease has ended");
        assert!(self.writers_end().all(|end| end > now), "a writer's lease has ended");
        assert!(self.next_end > now, "the next end is missed");
    }
}
