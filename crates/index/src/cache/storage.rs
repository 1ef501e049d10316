//! The node's own memory of a shard, through [`Space`].

use super::index::{Line, SLOTS};
use super::space::{CHUNK_BYTES_MAX, Place, Space};
use crate::error::Refused;
use barn_fabric::region::{Ordering, fence};
use barn_heap::{HEADER_BYTES, Heap, Purpose, Raw};
use barn_layout::Address;
use barn_layout::heap::BLOCK_BYTES;
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};

/// The least part of the memory that is index, as a divisor. A word for every 64 bytes, so that entries
/// of HERD's usual size (16-byte keys, 32-byte values) fill two words of three.
const INDEX_PART_MIN: u64 = 8;
/// The greatest part.
const INDEX_PART_MAX: u64 = 2;

/// A shard's memory.
#[derive(Debug)]
pub(super) struct Storage {
    /// Where what is.
    pub(super) space: Space,
    raws: Vec<Raw>,
}

impl Storage {
    /// Takes memory for a shard: whole blocks, at most `memory_bytes`; with an empty index for `keys`
    /// keys, if that leaves half of the memory to the log.
    pub(super) fn take(heap: &mut Heap, memory_bytes: u64, keys: u64) -> Result<Self, Refused> {
        let mut storage = Self { space: Space::nowhere(), raws: Vec::new() };
        let formed = storage.reserve(heap, memory_bytes).and_then(|()| storage.format(keys));
        if let Err(refused) = formed {
            storage.give_back(heap);
            return Err(refused);
        }
        Ok(storage)
    }

    fn reserve(&mut self, heap: &mut Heap, memory_bytes: u64) -> Result<(), Refused> {
        heap.check_budget(memory_bytes).map_err(|error| Refused::Full(error.to_string()))?;
        let mut left = memory_bytes / BLOCK_BYTES as u64;
        let mut blocks_max = (CHUNK_BYTES_MAX / BLOCK_BYTES) as u64;
        while left > 0 {
            let blocks = left.min(blocks_max);
            let bytes = blocks as usize * BLOCK_BYTES - HEADER_BYTES;
            match heap.reserve_raw(bytes, Purpose::Volatile) {
                Ok(raw) => {
                    self.raws.push(raw);
                    left -= blocks;
                }
                // Memory in pieces is as good, if a little slower to find one's way in.
                Err(_) if blocks > 1 => blocks_max = blocks / 2,
                Err(error) => return Err(Refused::Full(error.to_string())),
            }
        }
        Ok(())
    }

    fn format(&mut self, keys: u64) -> Result<(), Refused> {
        let parts: Vec<(Address, u64)> = self.raws.iter().filter_map(whole_lines).collect();
        let bytes: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
        // One and a half words for each key: buckets of eight then seldom overflow.
        let wanted = keys.saturating_mul(WORD_BYTES as u64 * 3 / 2);
        let index_bytes = wanted.clamp(bytes / INDEX_PART_MIN, bytes / INDEX_PART_MAX);
        let small = || Refused::Invalid("a cache of less than 1 MiB: make it larger".into());
        self.space = Space::new(parts.into_iter(), index_bytes / LINE_BYTES as u64).ok_or_else(small)?;
        for bucket in 0..self.space.buckets() {
            if self.line(bucket) != Line::default() {
                (0..SLOTS).for_each(|slot| self.store_slot(bucket, slot, 0));
            }
        }
        Ok(())
    }

    /// How much memory was taken from the heap.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.raws.iter().map(|raw| (raw.bytes + HEADER_BYTES) as u64).sum()
    }

    /// Gives all memory back.
    pub(super) fn give_back(&mut self, heap: &mut Heap) {
        self.space = Space::nowhere();
        for raw in self.raws.drain(..) {
            let given = heap.release_raw(&raw);
            debug_assert!(given.is_ok(), "{given:?}");
        }
    }

    /// A bucket, as it is.
    #[inline]
    pub(super) fn line(&self, bucket: u64) -> Line {
        let mut line = Line::default();
        if let Some(Place { chunk, address, .. }) = self.space.find(self.space.bucket_at(bucket)) {
            let loaded = self.raws[chunk].words.load_words(u64::from(address.offset()), &mut line.0);
            debug_assert!(loaded.is_ok(), "{loaded:?}");
        }
        line
    }

    /// Stores a word of the index. Whoever sees it sees all of the entry that it names.
    #[inline]
    pub(super) fn store_slot(&self, bucket: u64, slot: usize, word: u64) {
        let at = self.space.bucket_at(bucket) + (slot * WORD_BYTES) as u64;
        let Some(Place { chunk, address, .. }) = self.space.find(at) else { return };
        // SYNC: pairs with the fence in `lookup::line_of`.
        let stored = self.raws[chunk].words.store_word(u64::from(address.offset()), word, Ordering::Release);
        debug_assert!(stored.is_ok(), "{stored:?}");
    }

    /// Asks for a bucket's line.
    #[inline]
    pub(super) fn prefetch_bucket(&self, bucket: u64) {
        if let Some(Place { chunk, address, .. }) = self.space.find(self.space.bucket_at(bucket)) {
            self.raws[chunk].words.prefetch(u64::from(address.offset()), LINE_BYTES);
        }
    }

    /// Asks for the first bytes of an entry.
    #[inline]
    pub(super) fn prefetch_log(&self, offset: u64, bytes: usize) {
        if let Some(Place { chunk, address, rest }) = self.space.find(self.space.log_at(offset)) {
            self.raws[chunk].words.prefetch(u64::from(address.offset()), bytes.min(rest as usize));
        }
    }

    /// Loads whole words of the log from `offset` on.
    #[inline]
    pub(super) fn load(&self, offset: u64, mut into: &mut [u8]) -> Option<()> {
        for (Place { chunk, address, .. }, bytes) in self.space.pieces(offset, into.len() as u64)? {
            let (now, rest) = into.split_at_mut(bytes);
            self.raws[chunk].words.load(u64::from(address.offset()), now).ok()?;
            into = rest;
        }
        Some(())
    }

    /// Loads a word of the log, or as many as lie together.
    #[inline]
    pub(super) fn load_words(&self, offset: u64, into: &mut [u64]) -> Option<()> {
        let Place { chunk, address, .. } = self.space.find(self.space.log_at(offset))?;
        self.raws[chunk].words.load_words(u64::from(address.offset()), into).ok()
    }

    /// Stores whole words to the log from `offset` on, over what no word of the index names any more.
    pub(super) fn store(&self, offset: u64, mut from: &[u8]) -> Option<()> {
        // SYNC: pairs with the fence in `lookup::line_of`: whoever finds an entry written over sees, when
        // it looks at the index again, that the word is gone.
        fence(Ordering::Release);
        for (Place { chunk, address, .. }, bytes) in self.space.pieces(offset, from.len() as u64)? {
            let (now, rest) = from.split_at(bytes);
            self.raws[chunk].words.store(u64::from(address.offset()), now).ok()?;
            from = rest;
        }
        Some(())
    }
}

/// The whole lines of a chunk.
fn whole_lines(raw: &Raw) -> Option<(Address, u64)> {
    let skip = (raw.start.offset() as usize).next_multiple_of(LINE_BYTES) - raw.start.offset() as usize;
    let bytes = raw.bytes.checked_sub(skip)? / LINE_BYTES * LINE_BYTES;
    Some((raw.start.checked_add(skip as u32)?, bytes as u64))
}
