//! The node's side: looks keys up and changes them.

use super::Trouble;
use super::entry::{EXTENT_HEADER_BYTES, Entry, SALT_BYTES, extent_bytes, extent_check, tag};
use super::extents::Extents;
use super::path::Search;
use super::reopen;
use super::table::{Table, hash_of, places};
use crate::error::Refused;
use crate::key::{Found, Key};
use crate::node::notes::Deltas;
use crate::node::{Decision, Part, Shard, ShardStats};
use crate::options::{KEY_BYTES_MAX, TableOptions, VALUE_BYTES_MAX};
use barn_heap::{Heap, Purpose};
use barn_layout::limits::WORD_BYTES;
use barn_layout::planted;

/// The fewest places: some hundred keys fit one small piece of memory.
const SLOTS_MIN: u64 = 128;
/// Versions that are set aside at a time, so that the log hears of them once and none is used again after
/// a restart.
const VERSIONS_AHEAD: u64 = 1 << 16;
/// Private buffers longer than this are not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The node's side of a shard.
#[derive(Debug)]
pub struct Owner {
    pub(super) seed: u64,
    pub(super) part: Part,
    pub(super) purpose: Purpose,
    /// Where it is written down where the table and its chunks are.
    pub(super) deltas: Deltas,
    pub(super) table: Table,
    pub(super) extents: Extents,
    pub(super) search: Search,
    pub(super) stats: ShardStats,
    /// The version of the last change; every change has one of its own.
    versions: u64,
    /// An extent on its way in or out, after its salt.
    pub(super) scratch: Vec<u8>,
    found: Found,
    /// Why growth was refused, and how many more times it is without another try.
    pub(super) refused: Option<(String, u32)>,
}

impl Owner {
    /// An empty shard.
    pub fn new(heap: &mut Heap, options: &TableOptions, part: Part) -> Result<Self, Refused> {
        let keys = options.capacity.div_ceil(u64::from(part.shards.max(1)));
        // Three quarters full: Pilaf's Figure 6 is about there, and shards are not quite equal.
        let slots = (keys + keys / 3).max(SLOTS_MIN);
        Ok(Self::with_slots(heap, options, part, slots)?)
    }

    /// An empty shard with so many places.
    pub(super) fn with_slots(
        heap: &mut Heap,
        options: &TableOptions,
        part: Part,
        slots: u64,
    ) -> Result<Self, Trouble> {
        let purpose = options.purpose();
        let mut table = Table::new(heap, (options.seed, part), purpose, 1, slots)?;
        table.record_all(heap);
        Ok(Self::over(options, part, table, Extents::new(purpose, Deltas::of(part, purpose))))
    }

    /// A shard of this table and these extents; its counts are at zero.
    pub(super) fn over(options: &TableOptions, part: Part, table: Table, extents: Extents) -> Self {
        let purpose = options.purpose();
        Self {
            seed: options.seed,
            part,
            purpose,
            deltas: Deltas::of(part, purpose),
            // Those that were set aside before a restart may have been used.
            versions: table.versions_max(),
            table,
            extents,
            search: Search::default(),
            stats: ShardStats::default(),
            scratch: Vec::new(),
            found: Found::default(),
            refused: None,
        }
    }

    /// Whether what it stores must be recorded.
    pub(super) fn records(&self, heap: &mut Heap) -> bool {
        self.purpose.is_durable() && heap.changes().is_some()
    }

    /// Looks a key up: where it lies, with its entry; what it holds is in `found`.
    fn find(&mut self, key: Key<'_>, found: &mut Found) -> Result<Option<(u64, Entry)>, Trouble> {
        let hash = hash_of(key);
        for slot in places(hash, self.table.slots) {
            if self.table.hash_at(slot)? != hash {
                continue;
            }
            let entry = self.table.entry_at(slot)?;
            if entry.may_be(hash, key.bytes) && self.fetch(&entry, found)? == key.bytes {
                return Ok(Some((slot, entry)));
            }
        }
        Ok(None)
    }

    /// What an entry points to: the key, and the rest in `found`.
    pub(super) fn fetch(&mut self, entry: &Entry, found: &mut Found) -> Result<&[u8], Trouble> {
        let bytes = entry.extent_bytes();
        self.scratch.resize(bytes.next_multiple_of(WORD_BYTES), 0);
        self.extents.words(entry.address)?.load(u64::from(entry.address.offset()), &mut self.scratch)?;
        let (header, rest) = self.scratch.split_first_chunk::<EXTENT_HEADER_BYTES>().ok_or(Trouble::Lost)?;
        let (version, expires) = header.split_at(8);
        found.version = u64::from_le_bytes(version.try_into().unwrap_or_default());
        found.expires = u64::from_le_bytes(expires.try_into().unwrap_or_default());
        let (key, value) = rest.split_at(entry.key_bytes as usize);
        found.value.clear();
        found.value.extend_from_slice(&value[..entry.value_bytes as usize]);
        Ok(key)
    }

    /// Writes an extent, to which nobody points yet.
    fn write_extent(
        &mut self,
        heap: &mut Heap,
        key: Key<'_>,
        value: &[u8],
        expires: u64,
        version: u64,
    ) -> Result<Entry, Trouble> {
        let bytes = extent_bytes(key.bytes.len(), value.len());
        let address = self.extents.take(heap, bytes)?;
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.table.salt.extents());
        self.scratch.extend_from_slice(&version.to_le_bytes());
        self.scratch.extend_from_slice(&expires.to_le_bytes());
        self.scratch.extend_from_slice(key.bytes);
        self.scratch.extend_from_slice(value);
        let check = extent_check(&self.scratch);
        // Whole words: shorter stores would have to mind their neighbours.
        self.scratch.resize(SALT_BYTES + bytes.next_multiple_of(WORD_BYTES), 0);
        let words = self.extents.words(address)?;
        words.store(u64::from(address.offset()), &self.scratch[SALT_BYTES..])?;
        self.extents.record(heap, address, bytes);
        let (key_bytes, value_bytes) = (key.bytes.len() as u32, value.len() as u32);
        Ok(Entry { address, key_bytes, value_bytes, tag: tag(hash_of(key)), check })
    }

    fn put(
        &mut self,
        heap: &mut Heap,
        key: Key<'_>,
        at: Option<(u64, Entry)>,
        value: &[u8],
        expires: u64,
    ) -> Result<u64, Trouble> {
        let version = self.versions + 1;
        if version > self.table.versions_max() && !planted("versions_not_set_aside") {
            self.table.set_versions_max(version + VERSIONS_AHEAD)?;
        }
        let entry = self.write_extent(heap, key, value, expires, version)?;
        match at {
            Some((slot, old)) => {
                self.table.write(slot, Some(&entry))?;
                self.extents.give(heap, old.address, old.extent_bytes());
                self.stats.payload_bytes -= u64::from(old.key_bytes + old.value_bytes);
            }
            None => {
                if let Err(trouble) = self.place(heap, hash_of(key), &entry) {
                    self.extents.give(heap, entry.address, entry.extent_bytes());
                    return Err(trouble);
                }
                self.stats.keys += 1;
            }
        }
        self.versions = version;
        self.stats.payload_bytes += u64::from(entry.key_bytes + entry.value_bytes);
        Ok(version)
    }

    fn remove(&mut self, heap: &mut Heap, slot: u64, entry: &Entry) -> Result<(), Trouble> {
        self.table.forget(slot)?;
        self.table.write(slot, None)?;
        self.extents.give(heap, entry.address, entry.extent_bytes());
        self.refused = None;
        self.stats.keys -= 1;
        self.stats.payload_bytes -= u64::from(entry.key_bytes + entry.value_bytes);
        Ok(())
    }

    fn change<'v>(
        &mut self,
        heap: &mut Heap,
        key: Key<'_>,
        found: &mut Found,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, Refused> {
        let at = self.find(key, found)?;
        let version = match decide(at.map(|_| &*found)) {
            Decision::Keep => return Ok(at.map_or(0, |_| found.version)),
            Decision::Store { value, .. }
                if value.len() > VALUE_BYTES_MAX || key.bytes.len() > KEY_BYTES_MAX =>
            {
                let why = "a key of more than 64 KiB or a value of more than 64 MiB";
                return Err(Refused::Invalid(why.into()));
            }
            Decision::Store { value, expires } => self.put(heap, key, at, &value, expires)?,
            Decision::Remove => {
                let Some((slot, entry)) = at else { return Ok(0) };
                self.remove(heap, slot, &entry)?;
                0
            }
        };
        self.stats.updates += 1;
        Ok(version)
    }
}

impl Shard for Owner {
    fn get(&mut self, _: &Heap, key: Key<'_>, found: &mut Found) -> Result<bool, Refused> {
        let is_there = self.find(key, found)?.is_some();
        self.stats.gets += 1;
        self.stats.hits += u64::from(is_there);
        Ok(is_there)
    }

    fn update<'v>(
        &mut self,
        heap: &mut Heap,
        key: Key<'_>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, Refused> {
        let mut found = std::mem::take(&mut self.found);
        self.table.collect(self.records(heap));
        let changed = self.change(heap, key, &mut found, decide);
        // Also if it failed: it may have grown on the way.
        self.table.record(heap);
        for buffer in [&mut found.value, &mut self.scratch] {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES_MAX);
        }
        self.found = found;
        changed
    }

    fn scan(
        &mut self,
        _: &Heap,
        cursor: u64,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<Option<u64>, Refused> {
        Ok(self.scan_from(cursor, each)?)
    }

    fn roots(&self, _: &Heap, _: &[u8]) -> Vec<u8> {
        super::roots::bytes(&self.table, &self.extents)
    }

    fn stats(&self) -> ShardStats {
        let memory_bytes = self.table.memory_bytes() + self.extents.memory_bytes();
        ShardStats { memory_bytes, slots: self.table.slots, ..self.stats.clone() }
    }

    fn prefetch(&self, _: &Heap, key: Key<'_>) {
        self.table.prefetch(places(hash_of(key), self.table.slots)[0]);
    }

    fn prefetch_change(&self, _: &Heap, key: Key<'_>) {
        places(hash_of(key), self.table.slots).iter().for_each(|slot| self.table.prefetch(*slot));
    }

    fn combined(&mut self) {
        self.stats.combined += 1;
    }

    fn remember(&self, _: &Heap) -> Vec<u8> {
        reopen::remember(&self.table, &self.extents)
    }

    fn clear(&mut self, heap: &mut Heap) {
        self.table.clear(heap);
        self.extents.clear(heap);
        self.stats.keys = 0;
        self.stats.payload_bytes = 0;
    }
}
