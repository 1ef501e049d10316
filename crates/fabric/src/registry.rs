//! Which regions a node lets its peers into, and who holds a grant on which.
//!
//! What always holds:
//! - a grant belongs to one peer and one region, never has more rights than the region's owner
//!   allows, and its key is 64 unpredictable bits that only that peer's connection may use;
//! - once `revoke` or `withdraw` has returned, no operation under the grant succeeds any more;
//!   a READ that already returned took its bytes before.
//!
//! On shm a client reads for itself, so there the grant is also a word in memory that the node
//! writes and the client checks after every copy. A client that ignores the word can go on
//! reading the pages it has mapped: mapped memory cannot be taken back from a process, which
//! is why only data that the peer may see is ever granted.

use crate::region::{Ordering, Region, Rights, Words, fence};
use crate::seam::{Random, Seeded, system_random};
use barn_layout::channel::GRANT_LIVE;
use barn_layout::frame::Outcome;
use barn_layout::{RegionId, planted};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

/// Names a connected peer, at its node; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u64);

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// Why a region was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterError {
    /// The number is taken.
    Taken(RegionId),
    /// The rights for everyone are more than the region was allocated for.
    Rights,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(id) => write!(f, "{id} is registered already: withdraw it first"),
            Self::Rights => write!(f, "the region was allocated for fewer rights than these"),
        }
    }
}

impl std::error::Error for RegisterError {}

/// Whether a grant stands.
#[derive(Debug)]
pub(crate) struct Standing {
    live: AtomicBool,
    /// Whether the agent is changing bytes under the grant now.
    busy: AtomicBool,
    /// Where a shm client looks for itself.
    word: Option<(Words, u64)>,
    /// What lets a peer's device in: its end, when this is dropped, is the grant's.
    held: Mutex<Option<Held>>,
}

/// Something whose drop takes a device's access away.
pub(crate) struct Held(#[expect(dead_code, reason = "kept for its drop")] pub(crate) Box<dyn Send>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl Standing {
    pub(crate) fn is_live(&self) -> bool {
        // SYNC: Acquire, pairs with the Release store in `end`.
        self.live.load(Ordering::Acquire)
    }

    /// Changes bytes under the grant, unless it has ended: once `end` has returned, no change
    /// is under way. One thread at a time (the agent of the grant's connection).
    pub(crate) fn change<T>(&self, change: impl FnOnce() -> T) -> Option<T> {
        // SYNC: SeqCst, with the store and the load in `end`: either the change sees that the
        // grant has ended, or `end` sees the change and waits for it.
        self.busy.store(true, Ordering::SeqCst);
        // SYNC: SeqCst, as above.
        let done = self.live.load(Ordering::SeqCst).then(change);
        // SYNC: Release, pairs with the load in `end`: the change comes before what follows it.
        self.busy.store(false, Ordering::Release);
        done
    }

    /// Keeps `held` for as long as the grant stands: it is dropped before [`Self::end`] returns.
    /// False, and dropped at once, if the grant has ended already.
    #[cfg_attr(not(feature = "verbs"), allow(dead_code, reason = "only verbs has what to hold"))]
    pub(crate) fn hold(&self, held: Held) -> bool {
        let mut place = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Under the lock: whoever ends the grant takes it, too, after it has said so.
        let live = self.is_live();
        if live {
            *place = Some(held);
        }
        live
    }

    /// Ends the grant.
    pub(crate) fn end(&self) {
        // SYNC: SeqCst, pairs with `change` and, as a Release, with `is_live`.
        let was_live = self.live.swap(false, Ordering::SeqCst);
        // SYNC: pairs with the Acquire fence in the agent's READ: an agent that copied bytes
        // which were stored after this sees that the grant has ended.
        fence(Ordering::Release);
        // SYNC: SeqCst, pairs with `change`. A change lasts as long as one WRITE: milliseconds,
        // or longer if its thread is not running, which yielding lets it.
        while self.busy.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // Under the lock, so that a second `end` does not return before the first one's drop: once
        // this is over, a device finds nothing under the key.
        let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !planted("revocation_keeps_the_key") {
            drop(held.take());
        }
        drop(held);
        // Once only: the word may since have become another grant's, and that one stands.
        if was_live && let Some((words, offset)) = &self.word {
            // The word is in the node's own outbound half, whose length is fixed.
            // SYNC: pairs with the Acquire fence in shm's READ: a client that copied bytes
            // which the owner wrote after revoking sees that the word is no longer live.
            let _ = words.store_word(*offset, 0, Ordering::Release);
            fence(Ordering::Release);
        }
    }
}

/// A peer's way into a region.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) key: u64,
    pub(crate) region: Region,
    pub(crate) rights: Rights,
    pub(crate) standing: Arc<Standing>,
}

struct Entry {
    region: Region,
    everyone: Rights,
    peers: HashMap<PeerId, Rights>,
    grants: Vec<(PeerId, Arc<Standing>)>,
}

/// The regions of one node. Clones share them.
#[derive(Clone)]
pub struct Registry {
    state: Arc<Mutex<State>>,
}

struct State {
    regions: HashMap<RegionId, Entry>,
    keys: Box<dyn Random>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new(Box::new(SystemKeys))
    }
}

/// Keys that nobody can guess.
struct SystemKeys;

impl Random for SystemKeys {
    fn next(&mut self) -> u64 {
        let mut key = [0; 8];
        // The system's generator fails only before the first boot has gathered entropy.
        system_random(&mut key).expect("the system has random bytes");
        u64::from_le_bytes(key)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("regions", &self.lock().regions.len()).finish()
    }
}

impl Registry {
    fn new(keys: Box<dyn Random>) -> Self {
        Self { state: Arc::new(Mutex::new(State { regions: HashMap::new(), keys })) }
    }

    /// A registry whose keys follow from a seed, for the simulated transport.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::new(Box::new(Seeded::new(seed)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Registers a region, with the rights that every peer may have on it.
    pub fn register(&self, id: RegionId, region: Region, everyone: Rights) -> Result<(), RegisterError> {
        if !region.remote().contains(everyone) {
            return Err(RegisterError::Rights);
        }
        let mut state = self.lock();
        if state.regions.contains_key(&id) {
            return Err(RegisterError::Taken(id));
        }
        state.regions.insert(id, Entry { region, everyone, peers: HashMap::new(), grants: Vec::new() });
        Ok(())
    }

    /// Gives one peer its own rights on a region, in place of everyone's. Grants that it holds
    /// already are revoked, so that it opens the region again under the new rights.
    pub fn allow(&self, id: RegionId, peer: PeerId, rights: Rights) -> Result<(), RegisterError> {
        let mut state = self.lock();
        if let Some(entry) = state.regions.get_mut(&id) {
            if !entry.region.remote().contains(rights) {
                return Err(RegisterError::Rights);
            }
            entry.peers.insert(peer, rights);
            entry.end_grants(|holder| holder == peer);
        }
        Ok(())
    }

    /// Gives one peer these rights on a region beside those that it has. What it holds stands: more
    /// rights make no grant wrong. Says whether there is such a region, and it was allocated for them.
    pub fn widen(&self, id: RegionId, peer: PeerId, rights: Rights) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.regions.get_mut(&id) else { return false };
        if !entry.region.remote().contains(rights) {
            return false;
        }
        let everyone = entry.everyone;
        let allowed = entry.peers.entry(peer).or_insert(everyone);
        *allowed = *allowed | rights;
        true
    }

    /// Ends every grant that `peer` holds on the region. It may open it again if it is allowed.
    pub fn revoke(&self, id: RegionId, peer: PeerId) {
        if let Some(entry) = self.lock().regions.get_mut(&id) {
            entry.end_grants(|holder| holder == peer);
        }
    }

    /// Ends every grant on the region and forgets it; gives it back.
    pub fn withdraw(&self, id: RegionId) -> Option<Region> {
        let mut entry = self.lock().regions.remove(&id)?;
        entry.end_grants(|_| true);
        Some(entry.region)
    }

    /// The region registered under a number.
    pub fn region(&self, id: RegionId) -> Option<Region> {
        self.lock().regions.get(&id).map(|entry| entry.region.clone())
    }

    /// Grants `asked` to `peer`, if it may have that. `word` is where a shm client looks.
    pub(crate) fn grant(
        &self,
        id: RegionId,
        peer: PeerId,
        asked: Rights,
        word: Option<(Words, u64)>,
    ) -> Result<Grant, Outcome> {
        let mut state = self.lock();
        let key = state.keys.next();
        let entry = state.regions.get_mut(&id).ok_or(Outcome::NoSuchRegion)?;
        let allowed = entry.peers.get(&peer).copied().unwrap_or(entry.everyone);
        if asked == Rights::NONE || !allowed.contains(asked) {
            return Err(Outcome::NoRight);
        }
        if let Some((words, offset)) = &word {
            // SYNC: Release: the word is live before the client hears of the grant (over a
            // socket, which orders by itself).
            words.store_word(*offset, GRANT_LIVE, Ordering::Release).map_err(|_| Outcome::TooManyRegions)?;
        }
        let standing = Arc::new(Standing {
            live: AtomicBool::new(true),
            busy: AtomicBool::new(false),
            word,
            held: Mutex::default(),
        });
        entry.grants.retain(|(_, standing)| standing.is_live());
        entry.grants.push((peer, standing.clone()));
        Ok(Grant { key, region: entry.region.clone(), rights: asked, standing })
    }

    /// Forgets a peer that is gone: its grants and its own rights.
    pub(crate) fn forget(&self, peer: PeerId) {
        for entry in self.lock().regions.values_mut() {
            entry.end_grants(|holder| holder == peer);
            entry.peers.remove(&peer);
        }
    }
}

impl Entry {
    fn end_grants(&mut self, whose: impl Fn(PeerId) -> bool) {
        self.grants.retain(|(holder, standing)| {
            let ended = whose(*holder);
            if ended && !planted("revocation_forgotten") {
                standing.end();
            }
            !ended
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        let registry = Registry::default();
        registry.register(RegionId(1), Region::on_heap(4096, Rights::ALL), Rights::READ).unwrap();
        registry
    }

    #[test]
    fn a_peer_gets_what_it_may_have_and_no_more() {
        let registry = registry();
        assert!(registry.grant(RegionId(1), PeerId(1), Rights::READ, None).is_ok());
        assert_eq!(
            registry.grant(RegionId(1), PeerId(1), Rights::WRITE, None).unwrap_err(),
            Outcome::NoRight
        );
        assert_eq!(registry.grant(RegionId(1), PeerId(1), Rights::NONE, None).unwrap_err(), Outcome::NoRight);
        assert_eq!(
            registry.grant(RegionId(2), PeerId(1), Rights::READ, None).unwrap_err(),
            Outcome::NoSuchRegion
        );
        registry.allow(RegionId(1), PeerId(2), Rights::ALL).unwrap();
        assert!(registry.grant(RegionId(1), PeerId(2), Rights::WRITE, None).is_ok());
    }

    #[test]
    fn revoking_ends_one_peers_grants_and_withdrawing_all() {
        let registry = registry();
        let one = registry.grant(RegionId(1), PeerId(1), Rights::READ, None).unwrap();
        let two = registry.grant(RegionId(1), PeerId(2), Rights::READ, None).unwrap();
        assert_ne!(one.key, two.key);
        registry.revoke(RegionId(1), PeerId(1));
        assert!(!one.standing.is_live() && two.standing.is_live());
        assert!(registry.withdraw(RegionId(1)).is_some());
        assert!(!two.standing.is_live());
        assert!(registry.region(RegionId(1)).is_none());
    }

    #[test]
    fn what_a_grant_holds_is_dropped_before_revoking_returns() {
        struct Door(Arc<AtomicBool>);
        impl Drop for Door {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        let registry = registry();
        let open = Arc::new(AtomicBool::new(true));
        let grant = registry.grant(RegionId(1), PeerId(1), Rights::READ, None).unwrap();
        assert!(grant.standing.hold(Held(Box::new(Door(open.clone())))));
        assert!(open.load(Ordering::SeqCst));
        registry.revoke(RegionId(1), PeerId(1));
        assert!(!open.load(Ordering::SeqCst), "the device is still let in");
        open.store(true, Ordering::SeqCst);
        assert!(!grant.standing.hold(Held(Box::new(Door(open.clone())))), "a grant that ended holds nothing");
        assert!(!open.load(Ordering::SeqCst));
    }

    #[test]
    fn a_peer_that_gets_more_rights_keeps_what_it_holds() {
        let registry = registry();
        let (id, peer) = (RegionId(1), PeerId(1));
        let read = registry.grant(id, peer, Rights::READ, None).unwrap();
        assert!(registry.widen(id, peer, Rights::WRITE));
        assert!(read.standing.is_live());
        assert!(registry.grant(id, peer, Rights::READ | Rights::WRITE, None).is_ok());
        assert!(registry.grant(id, PeerId(2), Rights::WRITE, None).is_err(), "it was given to one peer");
        assert!(!registry.widen(RegionId(2), peer, Rights::READ), "there is no such region");
        registry.register(RegionId(3), Region::on_heap(64, Rights::READ), Rights::NONE).unwrap();
        assert!(!registry.widen(RegionId(3), peer, Rights::WRITE), "it was allocated for readers");
    }

    #[test]
    fn rights_past_the_allocation_are_refused() {
        let registry = Registry::default();
        let read_only = Region::on_heap(64, Rights::READ);
        assert_eq!(registry.register(RegionId(1), read_only, Rights::ALL), Err(RegisterError::Rights));
    }
}
