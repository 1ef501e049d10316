//! Servers that Barn is compared with: started privately, stopped with the benchmark.
//!
//! `redis` and `memcached` each know how their server is started and what their protocol looks like;
//! what a benchmark does with them is its own.

use std::fmt;

use crate::report::Row;

pub(crate) mod link;
pub(crate) mod memcached;
pub(crate) mod process;
pub(crate) mod redis;

/// Why a peer could not do it.
#[derive(Debug)]
pub(crate) enum PeerError {
    /// It is not there; what to do about it.
    Absent {
        /// Which.
        peer: &'static str,
        /// The command that brings it.
        fix: String,
    },
    /// It failed.
    Failed {
        /// Which.
        peer: &'static str,
        /// What it said.
        why: String,
    },
}

impl PeerError {
    /// It said so.
    pub(crate) fn failed(peer: &'static str, why: impl fmt::Display) -> Self {
        Self::Failed { peer, why: why.to_string() }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { peer, fix } => write!(f, "{peer} is not there; {fix}"),
            Self::Failed { peer, why } => write!(f, "{peer}: {why}"),
        }
    }
}

impl std::error::Error for PeerError {}

impl From<PeerError> for std::io::Error {
    fn from(error: PeerError) -> Self {
        Self::other(error)
    }
}

/// The command that builds the peers in.
#[cfg(not(feature = "peers"))]
pub(crate) const BUILD_THEM_IN: &str = "cargo build --release -p barn-cli --features peers";

/// The row of a peer that could not be measured, with what to do about it.
pub(crate) fn absent_row(name: &str, fix: &str) -> Row {
    Row::rate(format!("peer/{name}/absent: {fix}"), &[]).with("absent", fix)
}
