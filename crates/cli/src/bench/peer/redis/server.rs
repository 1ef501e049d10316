//! A Redis of the benchmark's own: no persistence, a socket in a directory of its own, and loopback.

use std::path::Path;
use std::process::Command;

use super::resp::Wire;
use crate::bench::peer::PeerError;
use crate::bench::peer::link::Place;
use crate::bench::peer::process::{PeerProcess, free_address};

/// A running server, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: PeerProcess,
    /// The Unix socket.
    pub(crate) unix: Place,
    /// The address on loopback.
    pub(crate) tcp: Place,
}

impl Server {
    /// Starts one.
    pub(crate) fn start() -> Result<Self, PeerError> {
        Self::start_with(&["--appendonly", "no"], None)
    }

    /// Starts one that syncs every change to a file in `directory` before it answers.
    pub(crate) fn start_durable(directory: &Path) -> Result<Self, PeerError> {
        Self::start_with(&["--appendonly", "yes", "--appendfsync", "always"], Some(directory))
    }

    fn start_with(persistence: &[&str], data: Option<&Path>) -> Result<Self, PeerError> {
        let (process, places) = PeerProcess::start("Redis", "redis-server", |directory| {
            let (path, address) = (directory.join("redis.sock"), free_address("Redis")?);
            let mut command = Command::new("redis-server");
            command.args(["--save", "", "--daemonize", "no", "--bind", "127.0.0.1"]).args(persistence);
            command.arg("--port").arg(address.port().to_string());
            command.arg("--dir").arg(data.unwrap_or(directory)).arg("--unixsocket").arg(&path);
            Ok((command, [Place::Unix(path), Place::Tcp(address)]))
        })?;
        let [unix, tcp] = places;
        Ok(Self { process, unix, tcp })
    }

    /// Another connection, on the Unix socket.
    pub(crate) fn connect(&self, spin: bool) -> Result<Wire, PeerError> {
        Wire::connect(&self.unix, spin)
    }
}
