//! How a node should be.

use barn_cluster::LEASE_DEFAULT;
use barn_fabric::{Registry, VerbsOption};
use barn_layout::Durability;
use barn_layout::limits::{REGION_BYTES_MAX, REGION_BYTES_MIN};
use barn_log::{LogOptions, Progress};
use barn_transaction::participant::Functions;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The length of a node's regions, unless its memory is less.
pub const REGION_BYTES_DEFAULT: u64 = 256 << 20;

/// The memory of an embedded node, unless it says otherwise.
const EMBEDDED_MEMORY_BYTES: u64 = 64 << 20;

/// What is told how a recovery comes along.
#[derive(Clone)]
pub struct ShowProgress(Arc<dyn Fn(Progress) + Send + Sync>);

impl ShowProgress {
    /// Calls this function.
    pub fn new(show: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    pub(super) fn show(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl std::fmt::Debug for ShowProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShowProgress")
    }
}

/// How a node should be.
#[derive(Debug)]
pub struct NodeConfig {
    /// The Unix socket for clients of this host.
    pub shm: Option<PathBuf>,
    /// The address for clients of any host.
    pub tcp: Option<SocketAddr>,
    /// Whether those clients may go over to RDMA verbs, and by which device.
    pub verbs: VerbsOption,
    /// The token that tcp clients must prove to know.
    pub token: Option<String>,
    /// Lets tcp clients of other hosts in without a token.
    pub allow_unauthenticated: bool,
    /// Memory for objects.
    pub memory_bytes: u64,
    /// The most memory that chunks of spaces may take, beside that for objects; half as much as that,
    /// unless said. It is taken when somebody reserves it, not before.
    pub space_bytes_max: Option<u64>,
    /// The length of its regions.
    pub region_bytes: u64,
    /// A node of the cluster to join; none to begin a cluster.
    pub join: Option<String>,
    /// Where everything is kept that is to survive the node's process; none for memory only.
    pub data: Option<PathBuf>,
    /// How far a write must have come before it is answered, unless it or its table says otherwise.
    /// Without a data directory it is memory, whatever this says.
    pub durability: Durability,
    /// The loss window of what is `logged`: see [`LogOptions::window`](barn_log::LogOptions::window).
    pub window: Duration,
    /// How long what was written waits for a sync that nobody asks for.
    pub sync_interval: Duration,
    /// Bytes of log after which the next checkpoint begins.
    pub checkpoint_bytes: u64,
    /// Starts with what can be read if the log is damaged, and loses the rest.
    pub accept_loss: bool,
    /// Is told how a recovery comes along.
    pub progress: Option<ShowProgress>,
    /// The lease of members and sessions of a new cluster.
    pub lease: Duration,
    /// What clients can call by name; the built-in ones unless others are given.
    pub functions: Functions,
    /// Where its regions are registered, if others are registered there too.
    pub registry: Option<Registry>,
    /// A directory of its own, removed with the node.
    pub own_directory: Option<PathBuf>,
}

impl Default for NodeConfig {
    fn default() -> Self {
        let log = LogOptions::default();
        Self {
            shm: None,
            tcp: None,
            verbs: VerbsOption::Off,
            token: None,
            allow_unauthenticated: false,
            memory_bytes: EMBEDDED_MEMORY_BYTES,
            space_bytes_max: None,
            region_bytes: REGION_BYTES_DEFAULT,
            join: None,
            data: None,
            durability: Durability::Logged,
            window: log.window,
            sync_interval: log.sync_interval,
            checkpoint_bytes: log.checkpoint_bytes,
            accept_loss: false,
            progress: None,
            lease: LEASE_DEFAULT,
            functions: Functions::builtin(),
            registry: None,
            own_directory: None,
        }
    }
}

impl NodeConfig {
    /// A node inside a process: 64 MiB, and a Unix socket in a private directory of its own.
    pub fn embedded() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // ORDER: Relaxed: only that numbers differ matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("barn-embedded-{}-{number}-{:x}", std::process::id(), super::random());
        let directory = std::env::temp_dir().join(name);
        let made = {
            use std::os::unix::fs::DirBuilderExt;
            std::fs::DirBuilder::new().mode(0o700).create(&directory)
        };
        // Without the directory, binding the socket says what is wrong.
        Self {
            shm: Some(directory.join("node.sock")),
            own_directory: made.is_ok().then_some(directory),
            ..Self::default()
        }
    }

    /// The same, with so much memory for objects.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The same, with so much memory for chunks of spaces at the most.
    pub fn space_memory(mut self, bytes: u64) -> Self {
        self.space_bytes_max = Some(bytes);
        self
    }

    /// The most that chunks of spaces may take.
    pub(super) fn space_bytes(&self) -> u64 {
        self.space_bytes_max.unwrap_or(self.memory_bytes / 2)
    }

    /// The same, with a function that clients can call by name.
    pub fn functions(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// Whether anything is to survive the node's process.
    pub(super) fn is_durable(&self) -> bool {
        self.durability != Durability::Memory
    }

    /// The lengths of the regions that make up the memory beyond what is held already.
    pub(super) fn regions(&self, held: u64) -> impl Iterator<Item = u64> + use<> {
        let each = self.region_bytes.clamp(REGION_BYTES_MIN, REGION_BYTES_MAX);
        let wanted = self.memory_bytes.saturating_sub(held);
        let whole = wanted / each;
        let rest = wanted % each;
        // What is left over and less than the smallest region is not worth one, unless it is all.
        let rest = (rest >= REGION_BYTES_MIN || held == 0 && whole == 0 && rest > 0)
            .then(|| rest.max(REGION_BYTES_MIN));
        std::iter::repeat_n(each, whole as usize).chain(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_divided_into_regions() {
        let regions = |memory_bytes, region_bytes| {
            NodeConfig { memory_bytes, region_bytes, ..NodeConfig::default() }.regions(0).collect::<Vec<_>>()
        };
        assert_eq!(regions(64 << 20, 256 << 20), [64 << 20]);
        assert_eq!(regions(600 << 20, 256 << 20), [256 << 20, 256 << 20, 88 << 20]);
        assert_eq!(regions(1, 256 << 20), [REGION_BYTES_MIN]);
        assert_eq!(regions(0, 256 << 20), [0u64; 0]);
        assert_eq!(regions((256 << 20) + 5, 256 << 20), [256 << 20]);
        let more = NodeConfig { memory_bytes: 600 << 20, ..NodeConfig::default() };
        assert_eq!(more.regions(344 << 20).collect::<Vec<_>>(), [256 << 20]);
        assert_eq!(more.regions(700 << 20).count(), 0);
    }
}
