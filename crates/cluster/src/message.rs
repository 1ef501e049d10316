//! What members and clients ask the coordinator, and what it answers.

use crate::catalogue::TablePlacement;
use crate::configuration::{Configuration, RegionPlacement};
use crate::member::{Life, MemberId};
use barn_layout::RegionId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A question to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Take me in. Asked again with the same life, it is answered in the same way.
    Join {
        /// Where I am reached, best first.
        addresses: Vec<String>,
        /// Which host I am on.
        host: String,
        /// The memory that I offer.
        memory_bytes: u64,
        /// My process's life.
        life: Life,
        /// The member that I was, whose regions I still have in memory.
        rejoining: Option<MemberId>,
    },
    /// Let me go. My regions have no primary from then on.
    Leave {
        /// Who I am.
        member: MemberId,
        /// My process's life.
        life: Life,
    },
    /// Renew my lease, and tell me of a newer configuration.
    Renew {
        /// Who I am.
        member: MemberId,
        /// My process's life.
        life: Life,
        /// The newest configuration that I know.
        known_version: u64,
    },
    /// Tell me of a newer configuration.
    Get {
        /// The newest that I know; 0 for none.
        known_version: u64,
    },
    /// Give me a region. If no answer comes it may have been given all the same: look at
    /// `regions_of` in the next configuration.
    AddRegion {
        /// Who I am: its primary.
        member: MemberId,
        /// My process's life.
        life: Life,
        /// The region that it should be close to.
        #[serde(default, serialize_with = "near_out", deserialize_with = "near_in")]
        near: Option<RegionId>,
        /// How large it is.
        bytes: u64,
    },
    /// Make a table. Asked again with the same options, it is answered in the same way.
    CreateTable {
        /// Its name.
        name: String,
        /// How it is made.
        options: String,
        /// How many shards; 0 for one at each member.
        shards: u32,
    },
    /// Drop a table, with all that is in it.
    DropTable {
        /// Its name.
        name: String,
    },
}

fn near_out<S: Serializer>(near: &Option<RegionId>, to: S) -> Result<S::Ok, S::Error> {
    near.map(|region| region.0).serialize(to)
}

fn near_in<'de, D: Deserializer<'de>>(from: D) -> Result<Option<RegionId>, D::Error> {
    Ok(Option::<u32>::deserialize(from)?.map(RegionId))
}

/// The coordinator's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// You are a member, with a lease.
    Joined {
        /// Who you are.
        member: MemberId,
        /// How long your lease is, from before you asked.
        lease_ms: u64,
        /// The configuration with you in it.
        configuration: Configuration,
    },
    /// You are none any more.
    Left {
        /// The configuration's version now.
        version: u64,
    },
    /// Your lease is renewed.
    Renewed {
        /// How long your lease is, from before you asked.
        lease_ms: u64,
        /// The configuration, if it is newer than what you know. Take it before the lease.
        configuration: Option<Configuration>,
    },
    /// The configuration, if it is newer than what you know.
    Current {
        /// The version now.
        version: u64,
        /// That configuration.
        configuration: Option<Configuration>,
    },
    /// The region is yours.
    RegionAdded {
        /// Where it is.
        placed: RegionPlacement,
        /// The configuration with it.
        configuration: Configuration,
    },
    /// The table is there.
    TableCreated {
        /// Where it is.
        placed: TablePlacement,
        /// The configuration with it.
        configuration: Configuration,
    },
    /// The table is gone.
    TableDropped {
        /// The configuration without it.
        configuration: Configuration,
    },
    /// No.
    Refused(Refusal),
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no such member, and never was, or it had no regions and is forgotten.
    UnknownMember {
        /// Which.
        member: MemberId,
    },
    /// The member's lease ended, or it left.
    Expelled {
        /// Which.
        member: MemberId,
        /// The first configuration without it.
        at_version: u64,
    },
    /// Another process is that member now.
    Superseded {
        /// Which.
        member: MemberId,
    },
    /// Another process is that member, and its lease has not ended.
    StillHeld {
        /// Which.
        member: MemberId,
        /// When the lease will have ended, if it is not renewed.
        retry_ms: u64,
    },
    /// There are as many members as there may be.
    TooManyMembers {
        /// How many.
        most: u64,
    },
    /// There are as many regions as there may be.
    TooManyRegions {
        /// How many.
        most: u64,
    },
    /// The member has no free place on any ring.
    NoPlace {
        /// Which.
        member: MemberId,
    },
    /// The asker knows a newer configuration than the coordinator, which has lost its own.
    Behind {
        /// The coordinator's version.
        version: u64,
    },
    /// There is a table of this name, with other options.
    TableExists {
        /// The name.
        name: String,
    },
    /// There is no table of this name.
    NoTable {
        /// The name.
        name: String,
    },
    /// The request makes no sense.
    BadRequest {
        /// Why.
        why: String,
    },
    /// The configuration cannot be read or written now. Nothing is known to have changed.
    Unavailable {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownMember { member } => {
                write!(f, "the cluster knows no {member}: join it as a new member")
            }
            Self::Expelled { member, at_version } => write!(
                f,
                "{member} is gone since configuration {at_version}: its lease ended, or it left; join again as it to get its regions back"
            ),
            Self::Superseded { member } => {
                write!(f, "another process is {member} now: stop this one, or join as a new member")
            }
            Self::StillHeld { member, retry_ms } => write!(
                f,
                "another process is {member} and holds its lease: stop that one, and try again in {retry_ms} ms"
            ),
            Self::TooManyMembers { most } => {
                write!(f, "the cluster has its most members ({most}): let one leave first")
            }
            Self::TooManyRegions { most } => {
                write!(f, "the cluster has its most regions ({most}): use larger ones")
            }
            Self::NoPlace { member } => {
                write!(f, "{member} has no free place on any ring: use larger regions, or more rings")
            }
            Self::Behind { version } => write!(
                f,
                "the coordinator is at configuration {version}, behind this process: has its data directory been put back or emptied?"
            ),
            Self::TableExists { name } => {
                write!(
                    f,
                    "a table `{name}` is there already, with other options: drop it first, or choose another name"
                )
            }
            Self::NoTable { name } => write!(f, "there is no table `{name}`"),
            Self::BadRequest { why } => f.write_str(why),
            Self::Unavailable { why } => {
                write!(f, "the coordinator cannot reach the configuration ({why}): try again")
            }
        }
    }
}

impl std::error::Error for Refusal {}
