//! The chunks of one node: made, scrubbed, retired, counted (RStore section III-E).
//!
//! What always holds:
//! - a number is used once in the life of a node, so that an old pass opens nothing new;
//! - a chunk that is offered to the master is all zeros, and nobody has a grant on it;
//! - all chunks together take no more than the node's bound.

use barn_fabric::{Region, RegionError, RegionId, RegionOptions, Registry, Rights};
use barn_layout::planted;
use barn_layout::space::{MARK_BYTES, MARK_CLEAN, MARK_TAINTED};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Memory;
use crate::message::{FIRST_CHUNK_REGION, MARKS_REGION};

/// Chunks that one node can have at a time: their marks are 1 MiB. 64 KiB each, they are 8 GiB.
pub const CHUNKS_MAX: u32 = 128 << 10;
/// Numbers from here on are others'.
const CHUNK_REGION_END: u32 = u32::MAX - 1023;
/// How much is zeroed at once: what fits a core's own cache twice over.
const SCRUB_BYTES: usize = 256 << 10;
/// Below that, huge pages cannot help.
const HUGE_BYTES_MIN: u64 = 2 << 20;

/// What a node's chunks come to, for others to see.
#[derive(Debug, Default)]
pub struct ChunkCounts {
    chunks: AtomicU64,
    bytes: AtomicU64,
    bytes_max: AtomicU64,
    made: AtomicU64,
    scrubbed: AtomicU64,
}

/// What a node's chunks came to at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkUsage {
    /// How many there are.
    pub chunks: u64,
    /// The memory that they take.
    pub bytes: u64,
    /// The most that they may take.
    pub bytes_max: u64,
    /// Chunks made since the node started.
    pub made: u64,
    /// Chunks zeroed for another use.
    pub scrubbed: u64,
}

impl ChunkCounts {
    /// All of them.
    pub fn now(&self) -> ChunkUsage {
        // ORDER: Relaxed: counters, of which nothing else follows.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ChunkUsage {
            chunks: count(&self.chunks),
            bytes: count(&self.bytes),
            bytes_max: count(&self.bytes_max),
            made: count(&self.made),
            scrubbed: count(&self.scrubbed),
        }
    }
}

/// A chunk that the node has.
struct Held {
    region: Region,
    mark: u32,
}

/// The chunks of a node. Its keeper alone has them.
pub(super) struct Chunks {
    registry: Registry,
    marks: Region,
    held: HashMap<u32, Held>,
    next_region: u32,
    next_mark: u32,
    free_marks: Vec<u32>,
    bytes_max: u64,
    bytes: u64,
    counts: Arc<ChunkCounts>,
    memory: Memory,
}

/// Chunks that were made, as region and mark, and why there are no more.
pub(super) type Made = (Vec<(u32, u32)>, Option<String>);

impl Chunks {
    /// None yet, with room for so much.
    pub(super) fn new(
        registry: Registry,
        bytes_max: u64,
        counts: Arc<ChunkCounts>,
        memory: Memory,
    ) -> Result<Self, RegionError> {
        let bytes = u64::from(CHUNKS_MAX) * MARK_BYTES;
        let marks = memory(&RegionOptions { bytes, remote: Rights::READ, huge: false })?;
        // Taken only if another keeper has been here, in the same process: then its marks are ours.
        if registry.register(RegionId(MARKS_REGION), marks.clone(), Rights::READ).is_err() {
            registry.withdraw(RegionId(MARKS_REGION));
            let _ = registry.register(RegionId(MARKS_REGION), marks.clone(), Rights::READ);
        }
        // ORDER: Relaxed: counters.
        counts.bytes_max.store(bytes_max, Ordering::Relaxed);
        Ok(Self {
            registry,
            marks,
            held: HashMap::new(),
            next_region: FIRST_CHUNK_REGION,
            next_mark: 0,
            free_marks: Vec::new(),
            bytes_max,
            bytes: 0,
            counts,
            memory,
        })
    }

    /// The memory that is left for chunks.
    pub(super) fn free_bytes(&self) -> u64 {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// Makes chunks, as many as there is room for; `stop` ends it early.
    pub(super) fn prepare(&mut self, chunk_bytes: u64, count: u64, stop: &dyn Fn() -> bool) -> Made {
        let mut made = Vec::new();
        for _ in 0..count {
            if stop() {
                return (made, Some("the node is being stopped".into()));
            }
            match self.make(chunk_bytes) {
                Ok(chunk) => made.push(chunk),
                Err(why) => return (made, Some(why)),
            }
        }
        (made, None)
    }

    fn make(&mut self, chunk_bytes: u64) -> Result<(u32, u32), String> {
        if chunk_bytes > self.free_bytes() {
            return Err(format!(
                "{} of {} bytes for spaces are taken: raise space_memory, or release what is reserved",
                self.bytes, self.bytes_max
            ));
        }
        let wanted =
            RegionOptions { huge: chunk_bytes >= HUGE_BYTES_MIN, ..RegionOptions::writable(chunk_bytes) };
        let region = (self.memory)(&wanted).map_err(|error| error.to_string())?;
        let bytes = region.bytes();
        let chunk = self.offer(region)?;
        self.bytes += bytes;
        // ORDER: Relaxed: a counter.
        self.counts.made.fetch_add(1, Ordering::Relaxed);
        self.count();
        Ok(chunk)
    }

    /// Registers zeroed memory under a number that was never used, with a clean mark.
    fn offer(&mut self, region: Region) -> Result<(u32, u32), String> {
        let mark = match self.free_marks.pop() {
            Some(mark) => mark,
            None if self.next_mark < CHUNKS_MAX => {
                self.next_mark += 1;
                self.next_mark - 1
            }
            None => return Err(format!("a node has {CHUNKS_MAX} chunks at most: use longer ones")),
        };
        let number = self.next_region;
        if number >= CHUNK_REGION_END {
            self.free_marks.push(mark);
            return Err("the node has used up its numbers for chunks: start it again".into());
        }
        self.next_region += 1;
        self.set_mark(mark, MARK_CLEAN);
        if let Err(error) = self.registry.register(RegionId(number), region.clone(), Rights::NONE) {
            self.free_marks.push(mark);
            return Err(error.to_string());
        }
        self.held.insert(number, Held { region, mark });
        Ok((number, mark))
    }

    fn set_mark(&self, mark: u32, value: u64) {
        // SYNC: Release, pairs with the fence after a reader's copy: whoever sees the mark sees all that
        // came before it. Marks that came from outside are bounds-checked here.
        let _ = self.marks.words().store_word(u64::from(mark) * MARK_BYTES, value, Ordering::Release);
    }

    /// Ends every grant on chunks. With `keep` their memory is zeroed and offered under new numbers,
    /// which are given; without, it goes. Numbers that the node does not have are passed over.
    pub(super) fn retire(&mut self, regions: &[u32], keep: bool) -> Made {
        let mut kept = Vec::new();
        let mut why = None;
        for number in regions {
            let Some(Held { region, mark }) = self.held.remove(number) else { continue };
            self.registry.withdraw(RegionId(*number));
            self.free_marks.push(mark);
            let bytes = region.bytes();
            if !keep {
                self.bytes -= bytes;
                continue;
            }
            if !planted("chunk_not_scrubbed") {
                scrub(&region);
            }
            // ORDER: Relaxed: a counter.
            self.counts.scrubbed.fetch_add(1, Ordering::Relaxed);
            match self.offer(region) {
                Ok(chunk) => kept.push(chunk),
                Err(error) => {
                    self.bytes -= bytes;
                    why = Some(error);
                }
            }
        }
        self.count();
        (kept, why)
    }

    /// Says of chunks, by their marks, that there is a newer version.
    pub(super) fn taint(&self, marks: &[u32]) {
        if planted("mark_forgotten") {
            return;
        }
        marks.iter().for_each(|mark| self.set_mark(*mark, MARK_TAINTED));
    }

    /// Lets everything go: whoever knew of it is no more.
    pub(super) fn clear(&mut self) {
        let all: Vec<u32> = self.held.keys().copied().collect();
        self.retire(&all, false);
    }

    fn count(&self) {
        // ORDER: Relaxed: counters.
        self.counts.chunks.store(self.held.len() as u64, Ordering::Relaxed);
        self.counts.bytes.store(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.clear();
        self.registry.withdraw(RegionId(MARKS_REGION));
    }
}

/// Zeroes a chunk that nobody is let into any more.
fn scrub(region: &Region) {
    let zeros = vec![0; SCRUB_BYTES];
    let bytes = region.bytes();
    for start in (0..bytes).step_by(SCRUB_BYTES) {
        let length = (bytes - start).min(SCRUB_BYTES as u64) as usize;
        // Within the region, which is ours and writable.
        let _ = region.words().store(start, &zeros[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 64 << 10;

    fn chunks(bytes_max: u64) -> (Chunks, Registry, Arc<ChunkCounts>) {
        let (registry, counts) = (Registry::default(), Arc::new(ChunkCounts::default()));
        (
            Chunks::new(registry.clone(), bytes_max, counts.clone(), Region::allocate).unwrap(),
            registry,
            counts,
        )
    }

    fn never() -> bool {
        false
    }

    #[test]
    fn chunks_are_made_up_to_the_bound_and_the_answer_says_why_there_are_no_more() {
        let (mut chunks, registry, counts) = chunks(4 * CHUNK);
        let (made, why) = chunks.prepare(CHUNK, 6, &never);
        assert_eq!(made.len(), 4);
        assert!(why.unwrap().contains("space_memory"));
        assert_eq!(chunks.free_bytes(), 0);
        assert!(made.iter().all(|(region, _)| registry.region(RegionId(*region)).is_some()));
        let usage = counts.now();
        assert_eq!((usage.chunks, usage.bytes, usage.bytes_max), (4, 4 * CHUNK, 4 * CHUNK));
    }

    #[test]
    fn a_kept_chunk_comes_back_zeroed_under_another_number_with_a_clean_mark() {
        let (mut chunks, registry, counts) = chunks(CHUNK);
        let (made, _) = chunks.prepare(CHUNK, 1, &never);
        let (number, mark) = made[0];
        let region = registry.region(RegionId(number)).unwrap();
        region.words().store(CHUNK - 8, b"secrets!").unwrap();
        chunks.taint(&[mark]);
        let at = u64::from(mark) * 8;
        // ORDER: Relaxed: one thread.
        assert_eq!(chunks.marks.words().load_word(at, Ordering::Relaxed), Ok(1));
        let (kept, why) = chunks.retire(&[number], true);
        assert_eq!((kept.len(), why), (1, None));
        assert_ne!(kept[0].0, number);
        assert!(registry.region(RegionId(number)).is_none());
        let mut bytes = [1; 8];
        registry.region(RegionId(kept[0].0)).unwrap().words().load(CHUNK - 8, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 8]);
        let at = u64::from(kept[0].1) * 8;
        assert_eq!(chunks.marks.words().load_word(at, Ordering::Relaxed), Ok(0));
        assert_eq!(counts.now().scrubbed, 1);
    }

    #[test]
    fn what_is_let_go_gives_its_memory_back_and_unknown_numbers_are_passed_over() {
        let (mut chunks, registry, counts) = chunks(2 * CHUNK);
        let (made, _) = chunks.prepare(CHUNK, 2, &never);
        let (kept, why) = chunks.retire(&[made[0].0, 7, made[0].0], false);
        assert_eq!((kept.len(), why), (0, None));
        assert_eq!(chunks.free_bytes(), CHUNK);
        chunks.taint(&[u32::MAX]);
        chunks.clear();
        assert_eq!(counts.now().bytes, 0);
        assert!(made.iter().all(|(region, _)| registry.region(RegionId(*region)).is_none()));
    }

    #[test]
    fn a_node_that_is_being_stopped_makes_no_more_chunks() {
        let (mut chunks, _, _) = chunks(8 * CHUNK);
        let (made, why) = chunks.prepare(CHUNK, 8, &|| true);
        assert_eq!(made.len(), 0);
        assert!(why.unwrap().contains("stopped"));
    }
}
