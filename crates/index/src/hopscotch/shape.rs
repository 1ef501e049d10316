//! How the buckets of a table are cut, and which bucket is a hash's home.

use super::bucket::{CHAIN_SLOTS_MAX, HEAD_BYTES, OUTSIDE_SLOT_BYTES, slots_at};
use crate::hash::{remix, scale};
use crate::options::TableOptions;
use barn_heap::size_class::Size;
use barn_heap::{HEADER_BYTES, Purpose};

/// About how many bytes a segment has: what is moved at once when it is split, and so how long the
/// node is busy with that, less than a millisecond; larger ones fill more evenly.
const SEGMENT_BYTES: usize = 256 << 10;

/// The sizes of a table's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Slots of a bucket: H/2.
    pub(super) slots: usize,
    /// Bytes of a slot.
    pub(super) slot_bytes: usize,
    /// The longest value in a slot.
    pub(super) inline_bytes: usize,
    /// Bytes of a bucket's body.
    pub(super) bucket_bytes: usize,
    /// Bytes of a bucket with its header.
    pub(super) object_bytes: usize,
    /// How far one bucket is from the next.
    pub(super) stride: usize,
    /// Buckets of a segment that are somebody's home; one more follows, for what its neighbour
    /// has no room for.
    pub(super) homes: usize,
    /// What memory they are taken as: of a table that does not outlive its node, as volatile.
    pub(super) purpose: Purpose,
}

impl Shape {
    pub(super) fn new(options: &TableOptions) -> Self {
        let slots = (options.neighbourhood / 2).max(1) as usize;
        let slot_bytes = (options.key_bytes as usize + options.inline_bytes as usize).max(OUTSIDE_SLOT_BYTES);
        // Whole words are read fastest.
        let slot_bytes = slot_bytes.next_multiple_of(8);
        let bucket_bytes = slots_at(HEAD_BYTES, slots) + slots * slot_bytes;
        // The options' bounds keep a bucket far below a block.
        let size = Size::for_object(bucket_bytes).unwrap_or(Size::of_class(0));
        let buckets = (SEGMENT_BYTES / size.slot_bytes).clamp(16, size.slots().max(2));
        Self {
            slots,
            slot_bytes,
            inline_bytes: options.inline_bytes as usize,
            bucket_bytes,
            object_bytes: HEADER_BYTES + bucket_bytes,
            stride: size.slot_bytes,
            homes: buckets - 1,
            purpose: options.purpose(),
        }
    }

    /// Bytes of an overflow block.
    pub(super) fn chain_bytes(&self, slots: usize) -> usize {
        let slots = slots.min(CHAIN_SLOTS_MAX);
        slots_at(0, slots) + slots * self.slot_bytes
    }

    /// Slots of an overflow block that is so long.
    pub(super) fn chain_slots(&self, bytes: usize) -> usize {
        (1..=CHAIN_SLOTS_MAX).rev().find(|slots| self.chain_bytes(*slots) <= bytes).unwrap_or(0)
    }

    /// Bytes of a segment.
    pub(super) fn segment_bytes(&self) -> usize {
        (self.homes + 1) * self.stride
    }

    /// Slots of a segment, those of its last bucket among them.
    pub(super) fn segment_slots(&self) -> usize {
        (self.homes + 1) * self.slots
    }

    /// The home of a hash in a segment with this seed.
    #[inline]
    pub(super) fn home(&self, hash: u64, seed: u16) -> usize {
        scale(remix(hash, u64::from(seed) + 1), self.homes as u64) as usize
    }

    /// Bytes from the start of one bucket to the end of the next: what one READ of a neighbourhood
    /// brings.
    pub(super) fn pair_bytes(&self) -> usize {
        self.stride + self.object_bytes.next_multiple_of(8)
    }
}
