//! A memcached of the benchmark's own. One that listens on a Unix socket listens nowhere else.

use std::process::Command;

use crate::bench::peer::PeerError;
use crate::bench::peer::link::Place;
use crate::bench::peer::process::{PeerProcess, free_address};

/// Bytes of memory for an item of 16 and 32 bytes, its header and what its slab wastes.
const ITEM_BYTES_MAX: u64 = 160;

/// A running server, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: PeerProcess,
    /// Where it listens.
    pub(crate) place: Place,
}

impl Server {
    /// Starts one with room for so many items of 16 and 32 bytes, on a Unix socket or on loopback.
    pub(crate) fn start(items: u64, unix: bool) -> Result<Self, PeerError> {
        Self::start_for(items, ITEM_BYTES_MAX, unix)
    }

    /// The same, for items that take so many bytes at the most, with all that goes with them.
    pub(crate) fn start_for(items: u64, item_bytes_max: u64, unix: bool) -> Result<Self, PeerError> {
        let (process, [place]) = PeerProcess::start("memcached", "memcached", |directory| {
            let mut command = Command::new("memcached");
            command.arg("-m").arg((items * item_bytes_max / (1 << 20) + 64).to_string());
            // So large a hash table that it never grows; never an eviction; a thread for each client.
            command.arg("-o").arg(format!("hashpower={}", (items.max(1 << 16).ilog2() + 1).min(30)));
            command.args(["-M", "-t", "2"]);
            if rustix::process::geteuid().is_root() {
                command.args(["-u", "root"]);
            }
            let place = if unix {
                let path = directory.join("memcached.sock");
                command.arg("-s").arg(&path);
                Place::Unix(path)
            } else {
                let address = free_address("memcached")?;
                command.args(["-U", "0", "-l", "127.0.0.1", "-p"]).arg(address.port().to_string());
                Place::Tcp(address)
            };
            Ok((command, [place]))
        })?;
        Ok(Self { process, place })
    }
}
