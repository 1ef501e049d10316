//! What a node says about itself.

use serde::{Deserialize, Serialize};

/// A node, in words and numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// The process.
    pub process: u32,
    /// Where clients of this host connect.
    pub shm: Option<String>,
    /// Where clients of any host connect.
    pub tcp: Option<String>,
    /// Peers connected now.
    pub peers: u64,
    /// The regions.
    pub regions: Vec<RegionStatus>,
}

/// A region, in words and numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// Its number.
    pub id: u32,
    /// How long it is.
    pub bytes: u64,
    /// What every peer may do with it.
    pub rights: String,
    /// The pages that back it.
    pub pages: String,
}

impl Status {
    pub(crate) fn new() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_string(),
            process: std::process::id(),
            ..Self::default()
        }
    }
}
