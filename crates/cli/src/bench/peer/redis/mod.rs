//! Redis: its server, and as much of its protocol as the benchmarks need.

use super::PeerError;

pub(crate) mod resp;
pub(crate) mod server;

pub(crate) use resp::{Reply, Wire};
pub(crate) use server::Server;

/// Redis said so.
pub(crate) fn failed(why: impl std::fmt::Display) -> PeerError {
    PeerError::failed("Redis", why)
}
