//! How a node should be, and the defaults that need no configuration.

use barn_fabric::RegionId;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The small region that every client may read, write and change atomically.
pub const SCRATCH: RegionId = RegionId(0);

/// The largest data region: the unit of registration (FaRM's is 2 GiB as well).
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
    /// Bytes of data regions.
    pub memory_bytes: u64,
    /// Bytes of the scratch region.
    pub scratch_bytes: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            shm: Some(Self::default_socket()),
            tcp: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_DEFAULT))),
            token: None,
            allow_unauthenticated: false,
            memory_bytes: 64 << 20,
            scratch_bytes: 2 << 20,
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

    /// The lengths of the data regions that make up the memory.
    pub(crate) fn data_regions(&self) -> impl Iterator<Item = u64> + use<> {
        let whole = self.memory_bytes / DATA_REGION_BYTES_MAX;
        let rest = self.memory_bytes % DATA_REGION_BYTES_MAX;
        std::iter::repeat_n(DATA_REGION_BYTES_MAX, whole as usize).chain((rest > 0).then_some(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_split_into_regions() {
        let regions = |memory_bytes| {
            ServerOptions { memory_bytes, ..ServerOptions::default() }.data_regions().collect::<Vec<_>>()
        };
        assert_eq!(regions(0), [0u64; 0]);
        assert_eq!(regions(5), [5]);
        assert_eq!(regions(DATA_REGION_BYTES_MAX), [DATA_REGION_BYTES_MAX]);
        assert_eq!(regions(2 * DATA_REGION_BYTES_MAX + 1), [DATA_REGION_BYTES_MAX, DATA_REGION_BYTES_MAX, 1]);
    }
}
