//! A member: a process that holds regions.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Addresses that one member may have: shm, and tcp on a few networks.
pub const ADDRESSES_MAX: usize = 8;

/// The longest address or host identity: the longest host name (253 bytes) and a port, or a path.
pub const ADDRESS_BYTES_MAX: usize = 512;

/// Names a member. Numbers are given out once, from 1; a member that comes back keeps its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(pub u32);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}", self.0)
    }
}

/// Names one life of a process, by a number that it draws when it starts.
///
/// A member's number outlives its process; its life does not. So a request that is sent again is
/// known for what it is, and a process that hung while another took its place renews nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Life(pub u64);

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// The life of its process.
    pub life: Life,
    /// Where it is reached: `shm:PATH`, `tcp://HOST:PORT`; best first.
    pub addresses: Vec<String>,
    /// Which host it is on: a client of the same host uses shm.
    pub host: String,
    /// The memory that it offers.
    pub memory_bytes: u64,
}

impl Member {
    /// Where a process of `host` reaches it best: by shm on the same host, else by anything but.
    pub fn address_from(&self, host: &str) -> Option<&str> {
        let same = !host.is_empty() && self.host == host;
        let is_shm = |address: &&String| address.starts_with("shm:");
        let found = match same {
            true => self.addresses.iter().find(is_shm).or(self.addresses.first()),
            false => self.addresses.iter().find(|address| !is_shm(address)),
        };
        found.map(String::as_str)
    }
}

/// A member that is gone: it left, or its lease ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departed {
    /// Which.
    pub member: MemberId,
    /// The first configuration without it.
    pub at_version: u64,
    /// For how long the coordinator had counted it as gone when this configuration was written.
    pub since_ms: u64,
}
