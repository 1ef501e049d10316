//! What a client knows of a shard's memory: where its chunks are, and how many buckets it has.
//!
//! It stays true for as long as the shard lives: a cache neither grows nor moves.

use super::entry;
use super::space::Space;
use crate::node::Part;
use crate::options::TableOptions;
use crate::wire::Malformed;
use barn_layout::limits::WORD_BYTES;
use barn_layout::{Address, RegionId};

/// What a client knows of a shard's memory.
#[derive(Clone, Debug)]
pub struct Roots {
    pub(super) space: Space,
    pub(super) salt: u64,
}

/// The bytes that say where a space is: the buckets' number, then address and length of each chunk.
pub(super) fn to_bytes(space: &Space) -> Vec<u8> {
    let chunks = space.chunks().iter().flat_map(|chunk| [chunk.address.to_bits(), chunk.bytes]);
    std::iter::once(space.buckets()).chain(chunks).flat_map(u64::to_le_bytes).collect()
}

impl Roots {
    /// What the node has said.
    pub fn parse(bytes: &[u8], options: &TableOptions, part: Part) -> Result<Self, Malformed> {
        let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
        let (buckets, chunks) = words.split_first().ok_or(Malformed)?;
        let (chunks, odd) = chunks.as_chunks::<2>();
        if !rest.is_empty() || !odd.is_empty() {
            return Err(Malformed);
        }
        let parts = chunks.iter().map(|[address, bytes]| {
            (Address::from_bits(u64::from_le_bytes(*address)), u64::from_le_bytes(*bytes))
        });
        let space = Space::new(parts, u64::from_le_bytes(*buckets)).ok_or(Malformed)?;
        Ok(Self { space, salt: entry::salt(options.seed, part) })
    }

    /// The regions that lookups read.
    pub fn regions(&self) -> Vec<RegionId> {
        self.space.regions()
    }
}
