//! Faults on purpose, for tests: packets that are lost, which software RoCE over a veth pair never
//! does by itself, and keys that a client uses without having been given them. Nothing is lost or
//! forged unless a test says so, and outside the conformance suite's builds nothing can be.

#[cfg(feature = "conformance")]
mod told {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PER_MILLE: AtomicU64 = AtomicU64::new(0);
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    static KEYS: Mutex<Keys> = Mutex::new(Keys { last: None, forged: None });

    /// An address at a node, and the key of its registration.
    type RemoteKey = (u64, u32);

    struct Keys {
        last: Option<RemoteKey>,
        forged: Option<RemoteKey>,
    }

    /// Loses so many of a thousand requests and replies of HERD's mode, in this process.
    pub fn lose(per_mille: u64) {
        // ORDER: Relaxed: when it begins to count does not matter.
        PER_MILLE.store(per_mille, Ordering::Relaxed);
    }

    /// The key of the region that this process opened last.
    pub fn last_key() -> Option<RemoteKey> {
        KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).last
    }

    /// The next region that is opened goes by this key, whoever's it is.
    pub fn forge(key: RemoteKey) {
        KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).forged = Some(key);
    }

    pub(in crate::verbs) fn is_lost() -> bool {
        // ORDER: Relaxed, both: a draw orders nothing.
        let per_mille = PER_MILLE.load(Ordering::Relaxed);
        if per_mille == 0 {
            return false;
        }
        let drawn = DRAWN.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (drawn ^ (drawn >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) % 1000 < per_mille
    }

    pub(in crate::verbs) fn key(given: RemoteKey) -> RemoteKey {
        let mut keys = KEYS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        keys.last = Some(given);
        keys.forged.take().unwrap_or(given)
    }
}

#[cfg(feature = "conformance")]
pub use told::{forge, last_key, lose};

/// Whether the next packet is lost.
pub(super) fn is_lost() -> bool {
    #[cfg(feature = "conformance")]
    return told::is_lost();
    #[cfg(not(feature = "conformance"))]
    false
}

/// The key that is used in place of one that was given.
pub(super) fn key(given: (u64, u32)) -> (u64, u32) {
    #[cfg(feature = "conformance")]
    return told::key(given);
    #[cfg(not(feature = "conformance"))]
    given
}
