//! Where the index and the log are, in chunks of memory that lie anywhere.
//!
//! The chunks, one after another, are one space of bytes: first the buckets, a line each, then the log,
//! counted in words. A position in the log is a lap and an offset: `lap << offset_bits | offset`, so that
//! neither side ever divides. Positions only grow; the index keeps their low 48 bits, which is enough
//! to tell apart all that is in the log at one time.

use super::entry;
use crate::hash::{remix, scale};
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};
use barn_layout::{Address, RegionId};

/// The longest chunk: an object of the heap can be about as long.
pub(super) const CHUNK_BYTES_MAX: usize = 64 << 20;
/// The most chunks: of the longest, 1 TiB has 2^14; a heap in pieces may need more.
pub(super) const CHUNKS_MAX: usize = 1 << 20;
/// How many bits of a position are in the index.
pub(super) const POSITION_BITS: u32 = 48;
/// Those bits.
pub(super) const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;
/// A log that is shorter could not be told from its own last lap.
const LOG_WORDS_MIN: u64 = 64;
/// A longer one would leave less than two bits for laps.
const LOG_WORDS_MAX: u64 = 1 << (POSITION_BITS - 2);
/// Tells bucket and tag from what else follows from a key's hash, such as its shard.
const INDEX_SEED: u64 = 0x0063_6163_6865;

const _: () = assert!(CHUNK_BYTES_MAX.is_multiple_of(LINE_BYTES));

/// A run of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Where it is in the space.
    pub(super) start: u64,
    /// Where it is in the cluster's memory.
    pub(super) address: Address,
    /// How long it is.
    pub(super) bytes: u64,
}

/// A place in the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which chunk it is in.
    pub(super) chunk: usize,
    /// Where it is.
    pub(super) address: Address,
    /// How many bytes there are until the chunk's end; never 0.
    pub(super) rest: u64,
}

/// A place in the log, and the lap in which it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// How often the log has begun again.
    pub(super) lap: u64,
    /// Words from the log's start.
    pub(super) offset: u64,
}

/// What follows from a key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The bucket.
    pub(super) bucket: u64,
    /// What tells the bucket's keys apart; never 0.
    pub(super) tag: u16,
}

/// The space of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    chunks: Vec<Chunk>,
    bytes: u64,
    buckets: u64,
    log_words: u64,
    offset_bits: u32,
}

impl Space {
    /// The space of these chunks, each an address and a length; `None` if they cannot be a shard's.
    pub(super) fn new(parts: impl Iterator<Item = (Address, u64)>, buckets: u64) -> Option<Self> {
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        for (address, long) in parts {
            let fits = long > 0 && long <= CHUNK_BYTES_MAX as u64 && chunks.len() < CHUNKS_MAX;
            let whole_lines = long.is_multiple_of(LINE_BYTES as u64)
                && u64::from(address.offset()).is_multiple_of(LINE_BYTES as u64);
            if !fits || !whole_lines || u64::from(address.offset()) + long > u64::from(u32::MAX) {
                return None;
            }
            chunks.push(Chunk { start: bytes, address, bytes: long });
            bytes += long;
        }
        let log_bytes = bytes.checked_sub(buckets.checked_mul(LINE_BYTES as u64)?)?;
        let log_words = log_bytes / WORD_BYTES as u64;
        let possible = buckets > 0 && (LOG_WORDS_MIN..=LOG_WORDS_MAX).contains(&log_words);
        let offset_bits = u64::BITS - log_words.saturating_sub(1).leading_zeros();
        possible.then_some(Self { chunks, bytes, buckets, log_words, offset_bits })
    }

    /// A space with nothing in it: of a shard that was given up.
    pub(super) const fn nowhere() -> Self {
        Self { chunks: Vec::new(), bytes: 0, buckets: 0, log_words: 0, offset_bits: 0 }
    }

    /// The chunks.
    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The regions that the chunks are in.
    pub(super) fn regions(&self) -> Vec<RegionId> {
        let mut regions: Vec<RegionId> = self.chunks.iter().map(|chunk| chunk.address.region()).collect();
        regions.sort_unstable();
        regions.dedup();
        regions
    }

    /// How many buckets there are.
    pub(super) fn buckets(&self) -> u64 {
        self.buckets
    }

    /// How long the log is.
    pub(super) fn log_words(&self) -> u64 {
        self.log_words
    }

    /// Where a key with this hash belongs.
    #[inline]
    pub(super) fn spot(&self, hash: u64) -> Spot {
        let mixed = remix(hash, INDEX_SEED);
        Spot { bucket: scale(mixed, self.buckets), tag: (mixed as u16).max(1) }
    }

    /// Where a bucket is in the space.
    #[inline]
    pub(super) fn bucket_at(&self, bucket: u64) -> u64 {
        bucket * LINE_BYTES as u64
    }

    /// Where a word of the log is in the space.
    #[inline]
    pub(super) fn log_at(&self, offset: u64) -> u64 {
        self.buckets * LINE_BYTES as u64 + offset * WORD_BYTES as u64
    }

    /// What lies at `at`; `None` past the end.
    #[inline]
    pub(super) fn find(&self, at: u64) -> Option<Place> {
        if at >= self.bytes {
            return None;
        }
        let chunk = match self.chunks.len() {
            1 => 0,
            _ => self.chunks.partition_point(|chunk| chunk.start <= at) - 1,
        };
        let Chunk { start, address, bytes } = self.chunks[chunk];
        let within = at - start;
        Some(Place { chunk, address: address.checked_add(within as u32)?, rest: bytes - within })
    }

    /// Divides `bytes` of the log from `offset` on into what lies together, calling `each` with the place
    /// and how many bytes; the log's start follows its end. `None` if that is longer than the log.
    #[inline]
    pub(super) fn pieces(&self, offset: u64, bytes: u64) -> Option<Pieces<'_>> {
        let fits = offset < self.log_words && bytes <= self.log_words * WORD_BYTES as u64;
        fits.then(|| Pieces { space: self, at: self.log_at(offset), left: bytes })
    }

    /// The number that a position is known by.
    #[inline]
    pub(super) fn number(&self, position: Position) -> u64 {
        position.lap << self.offset_bits | position.offset
    }

    /// The offset that (the low bits of) a position's number mean; `None` if there is no such.
    #[inline]
    pub(super) fn offset(&self, number: u64) -> Option<u64> {
        let offset = number & ((1 << self.offset_bits) - 1);
        (offset < self.log_words).then_some(offset)
    }

    /// The position `words` further on, at most a lap.
    #[inline]
    pub(super) fn forward(&self, position: Position, words: u64) -> Position {
        let Position { lap, offset } = position;
        match offset + words {
            offset if offset < self.log_words => Position { lap, offset },
            offset => Position { lap: lap + 1, offset: offset - self.log_words },
        }
    }

    /// Whether writing up to `end` writes over what is at `position`.
    #[inline]
    pub(super) fn overwrites(&self, end: Position, position: Position) -> bool {
        (position.lap + 1, position.offset) < (end.lap, end.offset)
    }

    /// How many words there are from here to the end of what lies together.
    #[inline]
    pub(super) fn together(&self, position: Position) -> u64 {
        self.find(self.log_at(position.offset)).map_or(0, |place| place.rest / WORD_BYTES as u64)
    }

    /// Where an entry of `words` goes that is appended at `head`: there, or at the start of the next
    /// chunk so that one READ can bring it. What is longer than that chunk lies across chunks' ends,
    /// but for its header.
    #[inline]
    pub(super) fn place(&self, head: Position, words: u64) -> Position {
        let here = self.together(head);
        if words <= here {
            return head;
        }
        let next = self.forward(head, here);
        match words <= self.together(next) || here < entry::HEADER_WORDS {
            true => next,
            false => head,
        }
    }
}

/// See [`Space::pieces`].
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    space: &'a Space,
    at: u64,
    left: u64,
}

impl Iterator for Pieces<'_> {
    type Item = (Place, usize);

    #[inline]
    fn next(&mut self) -> Option<(Place, usize)> {
        if self.left == 0 {
            return None;
        }
        if self.at == self.space.bytes {
            self.at = self.space.log_at(0);
        }
        let place = self.space.find(self.at)?;
        let take = place.rest.min(self.left);
        self.at += take;
        self.left -= take;
        Some((place, take as usize))
    }
}
