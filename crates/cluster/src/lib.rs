//! Who holds which region: members, leases, placement.
//!
//! One value says it all, the [`Configuration`]: members, regions, replicas; numbered, and only
//! ever replaced as a whole (FaRM section 3.2 keeps it in Zookeeper; here it is behind
//! [`ConfigurationStore`]). A [`Coordinator`] changes it; every member holds a lease from it
//! ([`Membership`]); everybody else caches it ([`Directory`]).
//!
//! What always holds:
//! - versions only grow, and a change is in the store before anybody hears of it;
//! - a member's own view of its lease ends before the coordinator's does ([`lease`]), so a member
//!   that was expelled knows it no later than anybody else;
//! - whoever holds a valid lease knows every configuration that was established a full lease ago:
//!   renewals bring the newest. [`Directory::settled`] says when that is so of a departure;
//! - a region has one primary at most; a departed member's regions have none until it is back.
#![forbid(unsafe_code)]

mod catalogue;
mod checksum;
mod configuration;
mod coordinator;
mod directory;
pub mod envelope;
pub mod lease;
mod member;
mod membership;
mod message;
pub mod placement;
mod store;
pub mod wire;

pub use catalogue::{
    SHARDS_MAX, TABLE_NAME_BYTES_MAX, TABLE_OPTIONS_BYTES_MAX, TABLES_MAX, TablePlacement, check_table_name,
};
pub use configuration::{
    Configuration, ConfigurationError, DEPARTED_MAX, MEMBERS_MAX, REGIONS_MAX, REPLICAS_MAX, RegionPlacement,
};
pub use coordinator::{Coordinator, CoordinatorOptions};
pub use directory::{Directory, Installed};
pub use lease::{GrantedLease, HeldLease, LEASE_DEFAULT, LEASE_MAX, LEASE_MIN};
pub use member::{ADDRESS_BYTES_MAX, ADDRESSES_MAX, Departed, Life, Member, MemberId};
pub use membership::{Membership, MembershipOptions, MembershipState};
pub use message::{Refusal, Request, Response};
pub use store::{Answer, ConfigurationStore, FileStore, MemoryStore, StoreError};
pub use wire::{AskError, WireError, ask};
