//! Packets that are lost on purpose, so that tests see what becomes of it: software RoCE over a
//! veth pair loses none by itself. Nothing is lost unless a test says so, and outside the
//! conformance suite's builds nothing can be.

#[cfg(feature = "conformance")]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "conformance")]
static PER_MILLE: AtomicU64 = AtomicU64::new(0);
#[cfg(feature = "conformance")]
static DRAWN: AtomicU64 = AtomicU64::new(1);

/// Loses so many of a thousand requests and replies of HERD's mode, in this process.
#[cfg(feature = "conformance")]
pub fn lose(per_mille: u64) {
    // ORDER: Relaxed: when it begins to count does not matter.
    PER_MILLE.store(per_mille, Ordering::Relaxed);
}

/// Whether the next one is lost.
#[cfg(feature = "conformance")]
pub(super) fn is_lost() -> bool {
    // ORDER: Relaxed, all three: a draw orders nothing.
    let per_mille = PER_MILLE.load(Ordering::Relaxed);
    if per_mille == 0 {
        return false;
    }
    let drawn = DRAWN.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mixed = (drawn ^ (drawn >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) % 1000 < per_mille
}

#[cfg(not(feature = "conformance"))]
pub(super) fn is_lost() -> bool {
    false
}
