//! How a node should be, and the defaults that need no configuration.

use barn_fabric::RegionId;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The small region that every client may read, write and change atomically.
pub const SCRATCH: RegionId = RegionId(0);

/// The first of the raw regions, which every client may read: for measurements of bare memory.
pub const RAW: RegionId = RegionId(u32::MAX - 1023);

/// The largest raw region: the unit of registration (FaRM's is 2 GiB as well).
pub const DATA_REGION_BYTES_MAX: u64 = barn_layout::limits::REGION_BYTES_MAX;

/// The default tcp port.
const PORT_DEFAULT: u16 = 7411;

/// How a node should be.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The Unix socket for clients of this host.
    pub shm: Option<PathBuf>,
    /// The address for clients of any host.
    pub tcp: Option<SocketAddr>,
    /// The token that tcp clients must prove to know.
    pub token: Option<String>,
    /// Lets tcp clients of other hosts in without a token.
    pub allow_unauthenticated: bool,
    /// Memory for objects.
    pub memory_bytes: u64,
    /// Bytes of raw regions.
    pub raw_bytes: u64,
    /// Bytes of the scratch region.
    pub scratch_bytes: u64,
    /// A node of the cluster to join; none to begin a cluster.
    pub join: Option<String>,
    /// Where the cluster's configuration is kept; none for memory only.
    pub data: Option<PathBuf>,
    /// The lease of members and sessions of a new cluster.
    pub lease: Duration,
    /// Where metrics are shown over HTTP; none to show none. Port 0 for any.
    pub metrics: Option<SocketAddr>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            shm: Some(Self::default_socket()),
            tcp: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_DEFAULT))),
            token: None,
            allow_unauthenticated: false,
            memory_bytes: 64 << 20,
            raw_bytes: 0,
            scratch_bytes: 2 << 20,
            join: None,
            data: None,
            lease: barn_cluster::LEASE_DEFAULT,
            metrics: None,
        }
    }
}

impl ServerOptions {
    /// Where a node listens unless told otherwise: in the user's runtime directory, or, where
    /// there is none, in a private directory of the temporary one.
    pub fn default_socket() -> PathBuf {
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(directory) if !directory.is_empty() => Path::new(&directory).join("barn/node.sock"),
            _ => {
                let user = std::env::var("USER").unwrap_or_else(|_| "root".into());
                std::env::temp_dir().join(format!("barn-{user}/node.sock"))
            }
        }
    }

    /// The lengths of the raw regions.
    pub(crate) fn raw_regions(&self) -> impl Iterator<Item = u64> + use<> {
        let whole = self.raw_bytes / DATA_REGION_BYTES_MAX;
        let rest = self.raw_bytes % DATA_REGION_BYTES_MAX;
        std::iter::repeat_n(DATA_REGION_BYTES_MAX, whole as usize).chain((rest > 0).then_some(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_memory_is_split_into_regions() {
        let regions = |raw_bytes| {
            ServerOptions { raw_bytes, ..ServerOptions::default() }.raw_regions().collect::<Vec<_>>()
        };
        assert_eq!(regions(0), [0u64; 0]);
        assert_eq!(regions(5), [5]);
        assert_eq!(regions(DATA_REGION_BYTES_MAX), [DATA_REGION_BYTES_MAX]);
        assert_eq!(regions(2 * DATA_REGION_BYTES_MAX + 1), [DATA_REGION_BYTES_MAX, DATA_REGION_BYTES_MAX, 1]);
    }
}
