//! Bounds that all parties must agree on, each with its reason.

/// A word: the unit that every transport reads and writes whole.
pub const WORD_BYTES: usize = 8;

/// A cache line on every machine we run on: messages are laid out in whole lines, so that
/// a small one costs one coherence miss.
pub const LINE_BYTES: usize = 64;

/// The smallest region: one huge page.
pub const REGION_BYTES_MIN: u64 = 2 << 20;

/// The largest region: an offset fits in 32 bits with room to spare, as in FaRM.
pub const REGION_BYTES_MAX: u64 = 2 << 30;

/// Regions that one peer may hold open at a node: 1024 regions of 2 GiB are 2 TiB.
pub const REGIONS_PER_PEER_MAX: usize = 1024;

/// The longest single READ or WRITE: long enough to amortise any round trip, short enough
/// that one operation cannot occupy an agent for more than a few milliseconds.
pub const OPERATION_BYTES_MAX: usize = 16 << 20;

/// The longest message, request or reply: a 64 MiB value, a 64 KiB key and their headers.
pub const MESSAGE_BYTES_MAX: usize = (64 << 20) + (128 << 10);

/// Operations and calls that one connection may have outstanding. A further one waits.
pub const OUTSTANDING_MAX: usize = 1024;

/// Peers that one node accepts; past that a newcomer is told so. Each shm peer costs
/// [`crate::channel`] memory, so 4096 of them are about 1.3 GiB at the default ring size.
pub const PEERS_MAX: usize = 4096;
