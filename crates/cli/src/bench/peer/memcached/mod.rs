//! memcached: its server, and as much of its text protocol as the benchmarks need.

use super::PeerError;

pub(crate) mod server;
pub(crate) mod text;

pub(crate) use server::Server;
pub(crate) use text::Wire;

/// memcached said so.
pub(crate) fn failed(why: impl std::fmt::Display) -> PeerError {
    PeerError::failed("memcached", why)
}
