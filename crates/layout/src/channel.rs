//! The memory of one shm connection: two halves, each written by one side only.
//!
//! The *inbound* half is written by the client and read by the node; the *outbound* half is
//! written by the node and mapped read-only by the client. So neither side can change what
//! the other has said, and a client that scribbles harms only itself.
//!
//! ```text
//! inbound    page: InboundControl | ring | request slots (HERD), W of SLOT_BYTES
//! outbound   page: OutboundControl | grants: a word per open region | ring | reply slots
//! node page  page: NodePage (one per node, read-only to all clients)
//! ```

use crate::limits::{LINE_BYTES, REGIONS_PER_PEER_MAX, WORD_BYTES};
use crate::shared::shared_struct;
use zerocopy::little_endian::U64;

/// The control page at the start of each half.
pub const CONTROL_BYTES: usize = 4096;

/// Default bytes of each ring: 1024 one-line requests, and 100 clients stay under 60 MiB.
pub const RING_BYTES_DEFAULT: usize = 64 << 10;
/// The smallest ring that a node accepts: a piece is a quarter of it.
pub const RING_BYTES_MIN: usize = 4 << 10;
/// The largest ring that a node accepts.
pub const RING_BYTES_MAX: usize = 16 << 20;

/// Bytes of a slot in the request region, as in HERD (section 4.2): 1 KiB.
pub const SLOT_BYTES: usize = 1024;
/// Default window W: HERD saw no gain past 16 outstanding requests for one client.
pub const WINDOW_DEFAULT: usize = 64;
/// The largest window that a node accepts.
pub const WINDOW_MAX: usize = 1024;

shared_struct! {
    /// What the client tells the node, in memory: the first lines of the inbound half.
    pub struct InboundControl: 128 {
        /// How much of the outbound ring the client has consumed, in bytes since the start.
        0 => pub outbound_consumed: U64,
        /// Padding: the next word is written at other times.
        8 => pub _line_0: [u8; 56],
        /// Not 0 while the client sleeps and wants its doorbell rung.
        64 => pub asleep: U64,
        /// Padding.
        72 => pub _line_1: [u8; 56],
    }
}

shared_struct! {
    /// What the node tells the client, in memory: the first lines of the outbound half.
    pub struct OutboundControl: 64 {
        /// How much of the inbound ring the node has consumed, in bytes since the start.
        0 => pub inbound_consumed: U64,
        /// Padding.
        8 => pub _line_0: [u8; 56],
    }
}

shared_struct! {
    /// What a node tells all its shm clients, in memory that only it can write.
    pub struct NodePage: 64 {
        /// Not 0 while the node sleeps and wants the client's doorbell rung.
        0 => pub asleep: U64,
        /// Padding.
        8 => pub _line_0: [u8; 56],
    }
}

/// Bytes of the grants table: a word per open region, 1 while the grant stands.
pub const GRANTS_BYTES: usize = REGIONS_PER_PEER_MAX * WORD_BYTES;

/// A grant that stands; any other value means that it was revoked.
pub const GRANT_LIVE: u64 = 1;

/// Where everything is in the two halves of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelShape {
    /// Bytes of each ring: a power of two.
    pub ring_bytes: usize,
    /// Slots in the request region; 0 when the client does not use it.
    pub window: usize,
}

impl ChannelShape {
    /// The shape, if its numbers are within bounds.
    pub fn new(ring_bytes: usize, window: usize) -> Option<Self> {
        let ring_fits =
            ring_bytes.is_power_of_two() && (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&ring_bytes);
        (ring_fits && window <= WINDOW_MAX).then_some(Self { ring_bytes, window })
    }

    /// Where the inbound ring starts.
    pub const fn inbound_ring(&self) -> usize {
        CONTROL_BYTES
    }

    /// Where request slot `index` starts.
    pub const fn request_slot(&self, index: usize) -> usize {
        CONTROL_BYTES + self.ring_bytes + index * SLOT_BYTES
    }

    /// Bytes of the inbound half.
    pub const fn inbound_bytes(&self) -> usize {
        self.request_slot(self.window)
    }

    /// Where the grants table starts in the outbound half.
    pub const fn grants(&self) -> usize {
        CONTROL_BYTES
    }

    /// Where the outbound ring starts.
    pub const fn outbound_ring(&self) -> usize {
        CONTROL_BYTES + GRANTS_BYTES
    }

    /// Where reply slot `index` starts.
    pub const fn reply_slot(&self, index: usize) -> usize {
        self.outbound_ring() + self.ring_bytes + index * SLOT_BYTES
    }

    /// Bytes of the outbound half.
    pub const fn outbound_bytes(&self) -> usize {
        self.reply_slot(self.window)
    }
}

const _: () = assert!(CONTROL_BYTES.is_multiple_of(LINE_BYTES) && GRANTS_BYTES.is_multiple_of(LINE_BYTES));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_out_of_bounds_is_refused() {
        assert!(ChannelShape::new(RING_BYTES_DEFAULT, WINDOW_DEFAULT).is_some());
        for (ring, window) in [(0, 1), (3 << 10, 1), (12 << 10, 1), (64 << 20, 1), (64 << 10, WINDOW_MAX + 1)]
        {
            assert_eq!(ChannelShape::new(ring, window), None, "{ring} {window}");
        }
    }
}
