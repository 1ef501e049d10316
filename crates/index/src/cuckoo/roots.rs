//! Roots: what a client must know to read a shard's memory for itself.
//!
//! | word | what |
//! |---|---|
//! | 0 | this file's name and version |
//! | 1 | the generation |
//! | 2 | how many places there are |
//! | 3 | the count of moves |
//! | 4 | how many chunks of entries follow (low half), and how many regions (high half) |
//! | 5.. | the chunks' addresses, then the regions that extents lie in |

use super::entry::{ENTRY_BYTES, Salt};
use super::extents::Extents;
use super::table::{CHUNK_SLOTS, LINE_BYTES, SLOTS_MAX, Table, chunk_slots};
use crate::node::Part;
use crate::options::TableOptions;
use crate::wire::Malformed;
use barn_layout::{Address, RegionId};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const NAME: u64 = u64::from_le_bytes(*b"cuckoo-1");
const HEADER_WORDS: usize = 5;

/// What a client knows of a shard's memory.
#[derive(Clone, Debug)]
pub struct Roots {
    pub(super) salt: Salt,
    pub(super) slots: u64,
    pub(super) chunks: Vec<Address>,
    regions: Vec<RegionId>,
    /// The count of moves when anybody last looked: a lookup that finds nothing, and afterwards
    /// still this count, need not have looked at it before.
    pub(super) seen: Arc<AtomicU64>,
}

impl Roots {
    /// What the node has said.
    pub fn parse(bytes: &[u8], options: &TableOptions, part: Part) -> Result<Self, Malformed> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || words.len() < HEADER_WORDS {
            return Err(Malformed);
        }
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().ok_or(Malformed);
        let (name, generation, slots, moves, counts) = (next()?, next()?, next()?, next()?, next()?);
        let (chunk_count, region_count) = (counts & u64::from(u32::MAX), counts >> 32);
        let is_sane = name == NAME
            && (1..=SLOTS_MAX).contains(&slots)
            && chunk_count == slots.div_ceil(CHUNK_SLOTS)
            && bytes.len() as u64 == (HEADER_WORDS as u64 + chunk_count + region_count) * 8;
        if !is_sane {
            return Err(Malformed);
        }
        let mut chunks = Vec::new();
        for chunk in 0..chunk_count as usize {
            let start = Address::from_bits(next()?);
            let bytes = LINE_BYTES + chunk_slots(slots, chunk) * ENTRY_BYTES as u64;
            // From here on no place of this chunk is past the end of addresses.
            if !start.offset().is_multiple_of(8) || start.checked_add(bytes as u32).is_none() {
                return Err(Malformed);
            }
            chunks.push(start);
        }
        let mut regions: Vec<_> = chunks.iter().map(|chunk| chunk.region()).collect();
        for _ in 0..region_count {
            regions.push(RegionId(u32::try_from(next()?).map_err(|_| Malformed)?));
        }
        regions.sort_unstable();
        regions.dedup();
        let seen = Arc::new(AtomicU64::new(moves));
        Ok(Self { salt: Salt::new(options.seed, part, generation), slots, chunks, regions, seen })
    }

    /// The regions that lookups read. A shard that takes memory in others is noticed by a lookup.
    pub fn regions(&self) -> Vec<RegionId> {
        self.regions.clone()
    }

    /// Where the entry at `slot` is.
    #[inline]
    pub(super) fn entry_at(&self, slot: u64) -> Option<Address> {
        let chunk = self.chunks.get((slot / CHUNK_SLOTS) as usize)?;
        chunk.checked_add((LINE_BYTES + slot % CHUNK_SLOTS * ENTRY_BYTES as u64) as u32)
    }

    /// Where the count of moves is.
    #[inline]
    pub(super) fn moves_at(&self) -> Option<Address> {
        self.chunks.first().copied()
    }
}

/// What a client is told.
pub(super) fn bytes(table: &Table, extents: &Extents) -> Vec<u8> {
    let chunks: Vec<u64> = table.chunks().map(Address::to_bits).collect();
    let regions: Vec<u64> = extents.regions().map(|region| u64::from(region.0)).collect();
    let counts = chunks.len() as u64 | (regions.len() as u64) << 32;
    let header = [NAME, table.generation, table.slots, table.moves(), counts];
    header.iter().chain(&chunks).chain(&regions).flat_map(|word| word.to_le_bytes()).collect()
}
