//! The node's side: gets, changes and scans of a shard, on the node's poll loop.

use super::entry::{self, HEADER_BYTES, Header};
use super::index::{self, SLOTS};
use super::log::Log;
use super::roots;
use super::space::Spot;
use super::storage::Storage;
use crate::error::Refused;
use crate::key::{Found, Key};
use crate::node::{Decision, Part, Shard, ShardStats};
use crate::options::TableOptions;
use barn_heap::Heap;
use barn_layout::limits::WORD_BYTES;
use std::cell::RefCell;
use std::collections::VecDeque;

/// What a prefetch asks for of an entry: header, a key of HERD's size, and the start of the value.
const ENTRY_PREFETCH_BYTES: usize = 128;
/// How many entries of a batch are asked for before the first is looked at: as many misses as a CPU has
/// under way, at two lines each.
const AHEAD: usize = 6;
/// How many keys of a batch are remembered: more are not in the cache any more when their turn comes.
const ASKED_MAX: usize = 64;

/// A buffer that grew past this is given up after use: 1 MiB, so that most never are.
pub(super) const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// The node's side of a shard.
#[derive(Debug)]
pub struct Owner {
    pub(super) storage: Storage,
    pub(super) log: Log,
    pub(super) seed: u64,
    pub(super) salt: u64,
    pub(super) stats: ShardStats,
    /// An entry that is being put together, or a key that is compared.
    pub(super) scratch: Vec<u8>,
    /// What a change is told of.
    found: Found,
    /// What is about to be forgotten.
    pub(super) victims: Vec<(Spot, Header)>,
    /// Keys whose buckets were asked for, and whose entries were not yet.
    asked: RefCell<VecDeque<Spot>>,
    /// How many entries were asked for that were not yet looked at.
    ahead: usize,
}

/// A key that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// Which word of its bucket names it.
    pub(super) slot: usize,
    /// Where its entry is in the log.
    pub(super) offset: u64,
    /// What its entry begins with.
    pub(super) header: Header,
}

impl Owner {
    /// An empty shard, with all the memory that it will ever have.
    pub fn new(heap: &mut Heap, options: &TableOptions, part: Part) -> Result<Self, Refused> {
        let keys = options.capacity / u64::from(part.shards.max(1));
        let storage = Storage::take(heap, options.memory_bytes, keys)?;
        let stats = ShardStats {
            memory_bytes: storage.memory_bytes(),
            slots: storage.space.buckets() * SLOTS as u64,
            ..ShardStats::default()
        };
        Ok(Self {
            storage,
            log: Log::new(),
            seed: options.seed,
            salt: entry::salt(options.seed, part),
            stats,
            scratch: Vec::new(),
            found: Found::default(),
            victims: Vec::new(),
            asked: RefCell::default(),
            ahead: 0,
        })
    }

    /// The entry that a word of the index names.
    #[inline]
    pub(super) fn entry_of(&self, word: u64) -> Option<(u64, Header)> {
        let offset = self.storage.space.offset(index::position(word))?;
        let mut words = [0; 3];
        self.storage.load_words(offset, &mut words)?;
        let header = Header::from_words(words);
        debug_assert!(header.is_at(index::position(word)), "{header:?}");
        header.is_possible().then_some((offset, header))
    }

    /// Loads the key of an entry into the scratch.
    #[inline]
    pub(super) fn load_key(&mut self, offset: u64, header: &Header) -> Option<()> {
        self.scratch.resize(header.value_at() - HEADER_BYTES, 0);
        self.storage.load(self.skip(offset, HEADER_BYTES), &mut self.scratch)?;
        self.scratch.truncate(header.key_bytes);
        Some(())
    }

    /// Looks a key up.
    #[inline]
    fn find(&mut self, key: Key<'_>, spot: Spot) -> Option<Hit> {
        let line = self.storage.line(spot.bucket);
        let slot = line.find(spot.tag)?;
        let (offset, header) = self.entry_of(line.0[slot])?;
        if header.key_bytes != key.bytes.len() {
            return None;
        }
        self.load_key(offset, &header)?;
        (self.scratch == key.bytes).then_some(Hit { slot, offset, header })
    }

    /// Loads what an entry holds.
    #[inline]
    fn load_found(&self, offset: u64, header: &Header, found: &mut Found) -> Option<()> {
        found.value.resize(header.bytes() - header.value_at(), 0);
        self.storage.load(self.skip(offset, header.value_at()), &mut found.value)?;
        found.value.truncate(header.value_bytes);
        (found.version, found.expires) = (header.position, header.expires);
        Some(())
    }

    /// The offset in the log that is `bytes` after another.
    #[inline]
    fn skip(&self, offset: u64, bytes: usize) -> u64 {
        let (offset, end) = (offset + (bytes / WORD_BYTES) as u64, self.storage.space.log_words());
        if offset < end { offset } else { offset - end }
    }

    /// Asks for the entries of keys that a batch will look at soon: their buckets have come by now.
    #[inline]
    fn ask_ahead(&mut self) {
        self.ahead = self.ahead.saturating_sub(1);
        while self.ahead < AHEAD
            && let Some(Spot { bucket, tag }) = self.asked.get_mut().pop_front()
        {
            self.ahead += 1;
            let word = self.storage.line(bucket).word(tag).map(index::position);
            if let Some(offset) = word.and_then(|position| self.storage.space.offset(position)) {
                self.storage.prefetch_log(offset, ENTRY_PREFETCH_BYTES);
            }
        }
    }

    fn decide<'v>(
        &mut self,
        hit: Option<Hit>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Decision<'v> {
        let Some(Hit { offset, header, .. }) = hit else { return decide(None) };
        let mut found = std::mem::take(&mut self.found);
        let loaded = self.load_found(offset, &header, &mut found);
        let decision = decide(loaded.map(|()| &found));
        if found.value.capacity() <= SCRATCH_BYTES_MAX {
            self.found = found;
        }
        decision
    }
}

impl Shard for Owner {
    fn get(&mut self, _: &Heap, key: Key<'_>, found: &mut Found) -> Result<bool, Refused> {
        self.stats.gets += 1;
        self.ask_ahead();
        let spot = self.storage.space.spot(key.hash);
        let Some(hit) = self.find(key, spot) else { return Ok(false) };
        let loaded = self.load_found(hit.offset, &hit.header, found).is_some();
        self.stats.hits += u64::from(loaded);
        Ok(loaded)
    }

    fn update<'v>(
        &mut self,
        _: &mut Heap,
        key: Key<'_>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, Refused> {
        let spot = self.storage.space.spot(key.hash);
        let hit = self.find(key, spot);
        match self.decide(hit, decide) {
            Decision::Keep => Ok(hit.map_or(0, |hit| hit.header.position)),
            Decision::Remove => {
                if let Some(hit) = hit {
                    self.remove(spot, hit);
                }
                Ok(0)
            }
            Decision::Store { value, expires } => self.put(key, spot, &value, expires),
        }
    }

    /// The cursor is the number of a word of the index: a key that is there stays in its word.
    fn scan(
        &mut self,
        _: &Heap,
        cursor: u64,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<Option<u64>, Refused> {
        let end = self.storage.space.buckets() * SLOTS as u64;
        let mut found = std::mem::take(&mut self.found);
        let mut next = cursor;
        let mut more = true;
        while more && next < end {
            let line = self.storage.line(next / SLOTS as u64);
            let word = line.0[(next % SLOTS as u64) as usize];
            next += 1;
            if word != 0
                && let Some((offset, header)) = self.entry_of(word)
                && self.load_key(offset, &header).is_some()
                && self.load_found(offset, &header, &mut found).is_some()
            {
                more = each(&self.scratch, &found);
            }
        }
        self.found = found;
        Ok((next < end).then_some(next))
    }

    fn roots(&self, _: &Heap, _: &[u8]) -> Vec<u8> {
        roots::to_bytes(&self.storage.space)
    }

    fn stats(&self) -> ShardStats {
        self.stats.clone()
    }

    /// Asks for the key's bucket. Its entry is asked for by the gets before its own.
    #[inline]
    fn prefetch(&self, _: &Heap, key: Key<'_>) {
        let spot = self.storage.space.spot(key.hash);
        self.storage.prefetch_bucket(spot.bucket);
        if let Ok(mut asked) = self.asked.try_borrow_mut()
            && asked.len() < ASKED_MAX
        {
            asked.push_back(spot);
        }
    }

    fn prefetch_change(&self, _: &Heap, key: Key<'_>) {
        self.storage.prefetch_bucket(self.storage.space.spot(key.hash).bucket);
    }

    fn combined(&mut self) {
        self.stats.combined += 1;
    }

    /// A cache is in no log.
    fn remember(&self, _: &Heap) -> Vec<u8> {
        Vec::new()
    }

    fn clear(&mut self, heap: &mut Heap) {
        self.storage.give_back(heap);
        self.log = Log::new();
        (self.asked, self.ahead) = (RefCell::default(), 0);
        (self.scratch, self.found) = (Vec::new(), Found::default());
        let ShardStats { keys, payload_bytes, memory_bytes, slots, .. } = &mut self.stats;
        (*keys, *payload_bytes, *memory_bytes, *slots) = (0, 0, 0, 0);
    }
}
