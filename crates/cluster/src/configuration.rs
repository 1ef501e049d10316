//! The configuration: who the members are, and who holds which region.
//!
//! What always holds of one that was [validated](Configuration::validate): members, regions and
//! departed are sorted, each without repetition; nobody is both a member and departed; every
//! region's primary is one or the other; every count is within its bound.

use crate::catalogue::{self, TablePlacement};
use crate::lease::{LEASE_MAX, LEASE_MIN};
use crate::member::{ADDRESS_BYTES_MAX, ADDRESSES_MAX, Departed, Member, MemberId};
use crate::placement::RINGS_MAX;
use barn_layout::RegionId;
use barn_layout::limits::REGION_BYTES_MAX;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

/// Members of one cluster: a few racks. A configuration of this many is renewed in place.
pub const MEMBERS_MAX: usize = 1024;

/// Regions of one cluster: 65,536 of 2 GiB are 128 TiB, and their list is below 10 MiB.
pub const REGIONS_MAX: usize = 65_536;

/// Members that are remembered as gone; those without regions are forgotten first.
pub const DEPARTED_MAX: usize = 4096;

/// Copies of a region beyond its primary.
pub const REPLICAS_MAX: u32 = 7;

/// Where a region is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionPlacement {
    /// Which region.
    #[serde(serialize_with = "region_out", deserialize_with = "region_in")]
    pub region: RegionId,
    /// Who holds it, or held it last if that member has departed.
    pub primary: MemberId,
    /// Who is to hold its copies, nearest on the ring first.
    pub replicas: Vec<MemberId>,
    /// How large it is.
    pub bytes: u64,
}

pub(crate) fn region_out<S: Serializer>(region: &RegionId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(region.0)
}

pub(crate) fn region_in<'de, D: Deserializer<'de>>(from: D) -> Result<RegionId, D::Error> {
    u32::deserialize(from).map(RegionId)
}

/// What everybody in a cluster agrees on. Replaced as a whole; its version only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its number, from 1.
    pub version: u64,
    /// Which cluster this is: drawn when it begins. One that begins anew at the same address, without
    /// what the last one held, has another; 0 is one from before clusters had numbers.
    #[serde(default)]
    pub cluster: u64,
    /// How long a member's lease is. Chosen when the cluster begins, and never changed.
    pub lease_ms: u64,
    /// The members, by number.
    pub members: Vec<Member>,
    /// The regions, by number; also those whose primary has departed.
    pub regions: Vec<RegionPlacement>,
    /// Who is gone, by number.
    pub departed: Vec<Departed>,
    /// The number that the next member gets.
    pub next_member: u32,
    /// How many virtual rings there are: k.
    pub rings: u32,
    /// How many copies of a region there should be beyond its primary: r.
    pub replicas: u32,
    /// The tables, by number.
    #[serde(default)]
    pub tables: Vec<TablePlacement>,
    /// The number that the next table gets.
    #[serde(default)]
    pub next_table: u32,
}

/// Why a configuration cannot be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigurationError {
    /// There is no version 0.
    NoVersion,
    /// A number is beyond its bound.
    OutOfBounds {
        /// Which.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// The least and the most that it may be.
        bounds: (u64, u64),
    },
    /// A list is not in order, or names something twice.
    OutOfOrder {
        /// Which.
        what: &'static str,
    },
    /// A member is there and departed at once, or has a number that was never given out.
    Member {
        /// Which.
        member: MemberId,
    },
    /// A region's primary or replica is nobody that is known.
    Unheld {
        /// The region.
        region: RegionId,
        /// Who should hold it.
        member: MemberId,
    },
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVersion => write!(f, "the configuration has no version"),
            Self::OutOfBounds { what, found, bounds: (least, most) } => {
                write!(f, "the configuration's {what} is {found}, and must be from {least} to {most}")
            }
            Self::OutOfOrder { what } => {
                write!(f, "the configuration's {what} are out of order, or one is there twice")
            }
            Self::Member { member } => {
                write!(f, "{member} is both there and departed, or its number was never given out")
            }
            Self::Unheld { region, member } => {
                write!(f, "{region} is held by {member}, whom the configuration does not know")
            }
        }
    }
}

impl std::error::Error for ConfigurationError {}

pub(crate) fn within(
    what: &'static str,
    found: u64,
    least: u64,
    most: u64,
) -> Result<(), ConfigurationError> {
    match (least..=most).contains(&found) {
        true => Ok(()),
        false => Err(ConfigurationError::OutOfBounds { what, found, bounds: (least, most) }),
    }
}

pub(crate) fn in_order<T, K: Ord>(
    what: &'static str,
    list: &[T],
    key: impl Fn(&T) -> K,
) -> Result<(), ConfigurationError> {
    match list.is_sorted_by(|one, next| key(one) < key(next)) {
        true => Ok(()),
        false => Err(ConfigurationError::OutOfOrder { what }),
    }
}

impl Configuration {
    /// The first configuration of a cluster: nobody is there yet.
    pub fn new(lease: Duration, rings: u32, replicas: u32) -> Self {
        Self {
            version: 1,
            cluster: 0,
            lease_ms: lease.as_millis() as u64,
            members: Vec::new(),
            regions: Vec::new(),
            departed: Vec::new(),
            next_member: 1,
            rings,
            replicas,
            tables: Vec::new(),
            next_table: 1,
        }
    }

    /// Checks everything that the module's head says.
    pub fn validate(&self) -> Result<(), ConfigurationError> {
        if self.version == 0 {
            return Err(ConfigurationError::NoVersion);
        }
        within("lease_ms", self.lease_ms, LEASE_MIN.as_millis() as u64, LEASE_MAX.as_millis() as u64)?;
        within("number of rings", self.rings.into(), 1, RINGS_MAX.into())?;
        within("number of replicas", self.replicas.into(), 0, REPLICAS_MAX.into())?;
        within("number of members", self.members.len() as u64, 0, MEMBERS_MAX as u64)?;
        within("number of regions", self.regions.len() as u64, 0, REGIONS_MAX as u64)?;
        within("number of departed members", self.departed.len() as u64, 0, DEPARTED_MAX as u64)?;
        in_order("members", &self.members, |member| member.id)?;
        in_order("regions", &self.regions, |placed| placed.region)?;
        in_order("departed members", &self.departed, |departed| departed.member)?;
        self.validate_members()?;
        self.validate_regions()?;
        catalogue::validate(&self.tables, self.next_table, self.next_member)
    }

    fn validate_members(&self) -> Result<(), ConfigurationError> {
        for member in &self.members {
            within("number of addresses", member.addresses.len() as u64, 0, ADDRESSES_MAX as u64)?;
            for text in member.addresses.iter().chain([&member.host]) {
                within("length of an address", text.len() as u64, 0, ADDRESS_BYTES_MAX as u64)?;
            }
        }
        let given_out = 1..self.next_member;
        let ids = self.members.iter().map(|member| member.id);
        let departed = self.departed.iter().map(|departed| departed.member);
        for id in ids.clone().chain(departed) {
            if !given_out.contains(&id.0) {
                return Err(ConfigurationError::Member { member: id });
            }
        }
        for departed in &self.departed {
            within("departure's version", departed.at_version, 1, self.version)?;
        }
        match ids.clone().find(|id| self.departure(*id).is_some()) {
            Some(member) => Err(ConfigurationError::Member { member }),
            None => Ok(()),
        }
    }

    fn validate_regions(&self) -> Result<(), ConfigurationError> {
        let known: HashSet<MemberId> = (self.members.iter().map(|member| member.id))
            .chain(self.departed.iter().map(|departed| departed.member))
            .collect();
        for placed in &self.regions {
            within("region's number", placed.region.0.into(), 1, u32::MAX.into())?;
            within("region's size", placed.bytes, 1, REGION_BYTES_MAX)?;
            within("number of replicas", placed.replicas.len() as u64, 0, REPLICAS_MAX.into())?;
            if !known.contains(&placed.primary) {
                return Err(ConfigurationError::Unheld { region: placed.region, member: placed.primary });
            }
            // A replica may have been forgotten since; its number was given out once.
            let stranger = placed.replicas.iter().find(|id| !(1..self.next_member).contains(&id.0));
            if let Some(member) = stranger {
                return Err(ConfigurationError::Unheld { region: placed.region, member: *member });
            }
        }
        Ok(())
    }

    /// A table, by its number.
    pub fn table(&self, table: u32) -> Option<&TablePlacement> {
        self.tables.binary_search_by_key(&table, |placed| placed.table).ok().map(|at| &self.tables[at])
    }

    /// A table, by its name.
    pub fn table_named(&self, name: &str) -> Option<&TablePlacement> {
        self.tables.iter().find(|placed| placed.name == name)
    }

    /// How long a member's lease is.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// A member that is there.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members.binary_search_by_key(&id, |member| member.id).ok().map(|at| &self.members[at])
    }

    /// A member's departure, if it is gone.
    pub fn departure(&self, id: MemberId) -> Option<&Departed> {
        self.departed.binary_search_by_key(&id, |departed| departed.member).ok().map(|at| &self.departed[at])
    }

    /// Where a region is, whether or not its primary is there.
    pub fn region(&self, region: RegionId) -> Option<&RegionPlacement> {
        self.regions.binary_search_by_key(&region, |placed| placed.region).ok().map(|at| &self.regions[at])
    }

    /// Who holds a region: nobody, if its primary has departed. [`Directory`](crate::Directory)
    /// answers this faster.
    pub fn primary(&self, region: RegionId) -> Option<MemberId> {
        let primary = self.region(region)?.primary;
        self.member(primary).map(|member| member.id)
    }

    /// The regions whose primary a member is, or was when it departed.
    pub fn regions_of(&self, member: MemberId) -> impl Iterator<Item = &RegionPlacement> {
        self.regions.iter().filter(move |placed| placed.primary == member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Life;

    fn sample() -> Configuration {
        let member = |id| Member {
            id: MemberId(id),
            life: Life(1),
            addresses: vec!["tcp://a:1".into()],
            host: "a".into(),
            memory_bytes: 1,
        };
        let placed = |region, primary| RegionPlacement {
            region: RegionId(region),
            primary: MemberId(primary),
            replicas: vec![MemberId(2)],
            bytes: 1,
        };
        let mut configuration = Configuration::new(Duration::from_secs(1), 8, 2);
        configuration.version = 7;
        configuration.next_member = 4;
        configuration.members = vec![member(1), member(2)];
        configuration.departed = vec![Departed { member: MemberId(3), at_version: 5, since_ms: 0 }];
        configuration.regions = vec![placed(10, 1), placed(11, 3), placed(12, 1)];
        configuration
    }

    #[test]
    fn a_region_of_a_departed_member_has_no_primary() {
        let configuration = sample();
        assert_eq!(configuration.validate(), Ok(()));
        assert_eq!(configuration.primary(RegionId(10)), Some(MemberId(1)));
        assert_eq!(configuration.primary(RegionId(11)), None);
        assert_eq!(configuration.primary(RegionId(13)), None);
        let of =
            |id| configuration.regions_of(MemberId(id)).map(|placed| placed.region.0).collect::<Vec<_>>();
        assert_eq!((of(1), of(2), of(3)), (vec![10, 12], vec![], vec![11]));
    }

    #[test]
    fn what_cannot_be_right_is_found() {
        let broken: [fn(&mut Configuration); 16] = [
            |sample| sample.version = 0,
            |sample| sample.lease_ms = 49,
            |sample| sample.lease_ms = 600_001,
            |sample| sample.rings = 0,
            |sample| sample.rings = RINGS_MAX + 1,
            |sample| sample.replicas = REPLICAS_MAX + 1,
            |sample| sample.members.swap(0, 1),
            |sample| sample.members[1].id = MemberId(1),
            |sample| sample.members[1].id = MemberId(3),
            |sample| sample.next_member = 3,
            |sample| sample.departed[0].at_version = 8,
            |sample| sample.regions[0].region = RegionId(0),
            |sample| sample.regions[2].region = RegionId(11),
            |sample| sample.regions[0].primary = MemberId(9),
            |sample| sample.regions[0].replicas = vec![MemberId(4)],
            |sample| sample.regions[0].bytes = REGION_BYTES_MAX + 1,
        ];
        for (number, break_it) in broken.iter().enumerate() {
            let mut configuration = sample();
            break_it(&mut configuration);
            assert!(configuration.validate().is_err(), "case {number} was taken for right");
        }
        let mut wordy = sample();
        wordy.members[0].addresses = vec!["x".repeat(ADDRESS_BYTES_MAX + 1)];
        assert!(wordy.validate().is_err());
    }

    #[test]
    fn the_largest_configuration_fits_a_response() {
        let mut largest = Configuration::new(Duration::from_secs(600), RINGS_MAX, REPLICAS_MAX);
        largest.version = u64::MAX;
        largest.next_member = u32::MAX;
        let placed = |id: usize| RegionPlacement {
            region: RegionId(u32::MAX - id as u32),
            primary: MemberId(u32::MAX - 1),
            replicas: vec![MemberId(u32::MAX - 1); REPLICAS_MAX as usize],
            bytes: REGION_BYTES_MAX,
        };
        largest.regions = (0..REGIONS_MAX).rev().map(placed).collect();
        let address = "x".repeat(ADDRESS_BYTES_MAX);
        let member = |id: usize| Member {
            id: MemberId(u32::MAX - 1 - id as u32),
            life: Life(u64::MAX),
            addresses: vec![address.clone(); ADDRESSES_MAX],
            host: address.clone(),
            memory_bytes: u64::MAX,
        };
        largest.members = (0..MEMBERS_MAX).rev().map(member).collect();
        assert_eq!(largest.validate(), Ok(()));
        let bytes = serde_json::to_vec(&largest).unwrap().len();
        assert!(bytes < crate::wire::RESPONSE_BYTES_MAX * 3 / 4, "{bytes} bytes");
    }
}
