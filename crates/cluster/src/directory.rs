//! The directory: the configuration as clients and nodes cache it.
//!
//! What always holds: its version never goes back; what it says of a region is what some
//! configuration said, and whoever acts on it must be ready to be told that it is old.

use crate::configuration::Configuration;
use crate::lease::outlasted;
use crate::member::MemberId;
use barn_layout::RegionId;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// What came of offering a directory a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// It is newer, and in use now.
    Newer,
    /// As new a one is in use already.
    Known,
}

/// When a departure was learned of, and how long the coordinator had counted it by then.
#[derive(Clone, Copy)]
struct Learned {
    at_version: u64,
    at: Duration,
    since: Duration,
}

impl Learned {
    /// For how long the member has been gone, at least.
    fn gone_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.at) + self.since
    }
}

#[derive(Default)]
struct State {
    configuration: Arc<Configuration>,
    primaries: HashMap<RegionId, MemberId>,
    departed: HashMap<MemberId, Learned>,
}

/// A cached configuration. Cheap to ask, from many threads.
#[derive(Default)]
pub struct Directory {
    version: AtomicU64,
    state: RwLock<State>,
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory(version {})", self.version())
    }
}

impl Directory {
    /// A directory that knows nothing: version 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The version of the configuration; 0 if none is known yet.
    pub fn version(&self) -> u64 {
        // SYNC: pairs with the Release in `install`: who sees a version finds it, or a newer one.
        self.version.load(Ordering::Acquire)
    }

    /// The configuration; one of version 0, with nothing in it, if none is known yet.
    pub fn configuration(&self) -> Arc<Configuration> {
        self.read(|state| state.configuration.clone())
    }

    /// Who holds a region; `None` if nobody does, or it is not known.
    pub fn primary(&self, region: RegionId) -> Option<MemberId> {
        self.read(|state| state.primaries.get(&region).copied())
    }

    /// Takes a configuration (which has been validated) if it is newer; `now` is the time on the
    /// clock that [`Self::settled`] will be asked with.
    pub fn install(&self, configuration: Configuration, now: Duration) -> Installed {
        let mut state = self.state.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        #[cfg(not(barn_plant = "directory_takes_older"))]
        if configuration.version <= state.configuration.version {
            return Installed::Known;
        }
        let departed = configuration.departed.iter().map(|departed| {
            let since = Duration::from_millis(departed.since_ms);
            let told = Learned { at_version: departed.at_version, at: now, since };
            let known = state.departed.get(&departed.member).copied();
            let known = known.filter(|known| known.at_version == told.at_version);
            // Whichever has counted longer.
            let learned = known.filter(|known| known.gone_for(now) >= since).unwrap_or(told);
            (departed.member, learned)
        });
        let departed = departed.collect();
        let held =
            configuration.regions.iter().filter(|placed| configuration.member(placed.primary).is_some());
        let primaries = held.map(|placed| (placed.region, placed.primary)).collect();
        let version = configuration.version;
        *state = State { configuration: Arc::new(configuration), primaries, departed };
        // SYNC: pairs with the Acquire in `version`.
        self.version.store(version, Ordering::Release);
        Installed::Newer
    }

    /// Whether a member has been gone for a full lease since the configuration without it was
    /// established. By then whoever holds a valid lease knows that it is gone, and no request of
    /// its that was under way is acted upon: only then may others decide without it.
    pub fn settled(&self, member: MemberId, now: Duration) -> bool {
        self.read(|state| {
            let configuration = &state.configuration;
            if configuration.member(member).is_some() {
                return false;
            }
            #[cfg(barn_plant = "settled_at_once")]
            return state.departed.contains_key(&member);
            #[cfg(not(barn_plant = "settled_at_once"))]
            match state.departed.get(&member) {
                Some(learned) => learned.gone_for(now) >= outlasted(configuration.lease()),
                // Gone for so long that it is forgotten; or a newcomer, of whom nothing is known.
                None => (1..configuration.next_member).contains(&member.0),
            }
        })
    }

    fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

#[cfg(test)]
mod tests {}
