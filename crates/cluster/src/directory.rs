//! The directory: the configuration as clients and nodes cache it.
//!
//! What always holds: its version never goes back, unless a client has found another cluster where
//! its own was ([`Directory::begin_anew`]); what it says of a region is what some configuration
//! said, and whoever acts on it must be ready to be told that it is old.

use crate::configuration::Configuration;
use crate::lease::outlasted;
use crate::member::MemberId;
use barn_layout::{RegionId, planted};
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

    /// Which cluster it describes; 0 if none is known yet.
    pub fn cluster(&self) -> u64 {
        self.read(|state| state.configuration.cluster)
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
    /// clock that [`Self::settled`] will be asked with. Another cluster's is not newer: their
    /// versions say nothing about each other.
    pub fn install(&self, configuration: Configuration, now: Duration) -> Installed {
        let mut state = self.state.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let current = &state.configuration;
        let other = current.version > 0 && configuration.cluster != current.cluster;
        if (other || configuration.version <= current.version) && !planted("directory_takes_older") {
            return Installed::Known;
        }
        self.take(&mut state, configuration, now);
        Installed::Newer
    }

    /// Takes the configuration of another cluster, whatever its version: for a client that found it
    /// at the address that it was given. Nodes never do this: they are members of one cluster.
    pub fn begin_anew(&self, configuration: Configuration, now: Duration) -> Installed {
        let mut state = self.state.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if configuration.cluster == state.configuration.cluster {
            return Installed::Known;
        }
        state.departed.clear();
        self.take(&mut state, configuration, now);
        Installed::Newer
    }

    fn take(&self, state: &mut State, configuration: Configuration, now: Duration) {
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
            if planted("settled_at_once") {
                return state.departed.contains_key(&member);
            }
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
mod tests {
    use super::*;
    use crate::configuration::RegionPlacement;
    use crate::member::{Departed, Life, Member};

    const LEASE: Duration = Duration::from_secs(1);

    fn member(id: u32) -> Member {
        Member { id: MemberId(id), life: Life(0), addresses: vec![], host: String::new(), memory_bytes: 0 }
    }

    /// Members 1 and 2 with a region each; 3 departed, with a region.
    fn sample(version: u64, since_ms: u64) -> Configuration {
        let placed =
            |id| RegionPlacement { region: RegionId(id), primary: MemberId(id), replicas: vec![], bytes: 1 };
        Configuration {
            version,
            members: vec![member(1), member(2)],
            regions: vec![placed(1), placed(2), placed(3)],
            departed: vec![Departed { member: MemberId(3), at_version: 2, since_ms }],
            next_member: 9,
            ..Configuration::new(LEASE, 1, 0)
        }
    }

    #[test]
    fn the_newest_is_kept() {
        let directory = Directory::new();
        assert_eq!((directory.version(), directory.primary(RegionId(1))), (0, None));
        assert_eq!(directory.install(sample(5, 0), LEASE), Installed::Newer);
        assert_eq!(directory.install(sample(4, 0), LEASE), Installed::Known);
        assert_eq!((directory.version(), directory.configuration().version), (5, 5));
        assert_eq!(directory.primary(RegionId(2)), Some(MemberId(2)));
        assert_eq!(directory.primary(RegionId(3)), None, "a departed member is a primary");
        assert_eq!(directory.primary(RegionId(4)), None);
    }

    #[test]
    fn another_clusters_configuration_is_taken_only_on_purpose() {
        let (directory, mut other) = (Directory::new(), sample(2, 0));
        directory.install(sample(5, 0), LEASE);
        other.cluster = 77;
        assert_eq!(directory.install(Configuration { version: 9, ..other.clone() }, LEASE), Installed::Known);
        assert_eq!((directory.version(), directory.cluster()), (5, 0));
        assert_eq!(directory.begin_anew(other.clone(), LEASE), Installed::Newer);
        assert_eq!((directory.version(), directory.cluster()), (2, 77));
        assert_eq!(directory.begin_anew(other, LEASE), Installed::Known);
    }

    #[test]
    fn a_departure_settles_after_a_lease_and_a_margin() {
        let directory = Directory::new();
        let start = Duration::from_secs(50);
        directory.install(sample(2, 0), start);
        assert!(!directory.settled(MemberId(3), start + LEASE));
        assert!(directory.settled(MemberId(3), start + outlasted(LEASE)));
        assert!(!directory.settled(MemberId(1), start * 9), "a member that is there was settled");
        assert!(!directory.settled(MemberId(9), start * 9), "a member of whom nothing is known was settled");
        assert!(directory.settled(MemberId(4), start), "one that is forgotten was not settled");
    }

    #[test]
    fn what_was_counted_before_counts() {
        let directory = Directory::new();
        let start = Duration::from_secs(50);
        directory.install(sample(3, 900), start);
        assert!(!directory.settled(MemberId(3), start + LEASE / 20));
        // A newer configuration from a coordinator that has counted for less takes nothing away.
        directory.install(sample(4, 100), start + LEASE / 20);
        assert!(directory.settled(MemberId(3), start + LEASE / 5));
        // Gone once more, since another version: counted anew.
        let mut again = sample(6, 0);
        again.departed[0].at_version = 6;
        directory.install(again, start + LEASE);
        assert!(!directory.settled(MemberId(3), start + LEASE * 3 / 2));
    }
}
