//! Runs a node as a process of its own: its options and defaults, and what it says of itself.
//!
//! Objects, transactions and the cluster are `barn::node`'s; here come a scratch region that every
//! client may write, raw regions for measurements, and the methods that answer for the process.
#![forbid(unsafe_code)]

mod activity;
mod claim;
mod method;
mod metrics;
pub mod notify;
pub mod options;
mod service;
mod status;

pub use activity::{Activity, LogStatus, ShardStatus, TableStatus, Transactions};
pub use method::Method;
pub use options::{DATA_REGION_BYTES_MAX, RAW, SCRATCH, ServerOptions};
pub use status::{MemberStatus, PurposeStatus, RecoveryStatus, RegionStatus, Status};

use barn::node::{Node, NodeConfig};
use barn_fabric::{Region, RegionError, RegionId, RegionOptions, Registry, Rights, Stopper};
use claim::Claim;
use metrics::Metrics;
use service::ProcessService;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Why a node did not start, or stopped.
#[derive(Debug)]
pub enum ServerError {
    /// Its memory could not be had.
    Memory(RegionError),
    /// It could not start, or its loop failed.
    Node(barn::Error),
    /// The port of its metrics could not be opened.
    Metrics {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A directory that it needs could not be made.
    Directory {
        /// Which.
        path: String,
        /// By which setting another can be named.
        setting: &'static str,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The data directory is another node's.
    Claimed {
        /// Which.
        path: String,
    },
    /// A directory that it needs is another user's.
    Foreign {
        /// Which.
        path: String,
        /// By which setting another can be named.
        setting: &'static str,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(cause) => cause.fmt(f),
            Self::Node(cause) => cause.fmt(f),
            Self::Metrics { address, cause } => {
                write!(f, "cannot listen on {address} for metrics: {cause}; choose another address")
            }
            Self::Directory { path, setting, cause } => {
                write!(f, "cannot make or use the directory {path}: {cause}; name another ({setting})")
            }
            Self::Claimed { path } => write!(
                f,
                "the data directory {path} is in use by another node: give this one its own (--data DIRECTORY), or none (--data none)"
            ),
            Self::Foreign { path, setting } => write!(
                f,
                "the directory {path} belongs to another user, who could stand in for this node: name another ({setting})"
            ),
        }
    }
}

impl std::error::Error for ServerError {}

/// A node that serves.
#[derive(Debug)]
pub struct Server {
    node: Node,
    status: Arc<Mutex<Status>>,
    /// The data directory, for as long as the node is there.
    _claim: Option<Claim>,
    metrics: Option<Metrics>,
}

/// A region's line in the status.
fn region_status(id: RegionId, region: &Region, rights: Rights, purpose: &str) -> RegionStatus {
    RegionStatus {
        id: id.0,
        bytes: region.bytes(),
        rights: rights.to_string(),
        pages: region.pages().to_string(),
        purpose: purpose.to_string(),
    }
}

impl Server {
    /// Takes the node's memory, finds its place in a cluster, and serves.
    pub fn start(options: &ServerOptions) -> Result<Self, ServerError> {
        let registry = Registry::default();
        let mut status = Status::new();
        let mut register =
            |id: RegionId, bytes: u64, rights: Rights, purpose: &str| -> Result<(), ServerError> {
                let wanted = RegionOptions { bytes, remote: rights, huge: true };
                let region = Region::allocate(&wanted).map_err(ServerError::Memory)?;
                status.regions.push(region_status(id, &region, rights, purpose));
                // A number is used once.
                let _ = registry.register(id, region, rights);
                Ok(())
            };
        register(SCRATCH, options.scratch_bytes, Rights::ALL, "scratch")?;
        for (index, bytes) in options.raw_regions().enumerate() {
            register(RegionId(RAW.0 + index as u32), bytes, Rights::READ, "raw")?;
        }
        if let Some(directory) = options.shm.as_deref().and_then(Path::parent) {
            make_private(directory, "--socket PATH")?;
        }
        if let Some(directory) = &options.data {
            make_private(directory, claim::SETTING)?;
        }
        let claim = options.data.as_deref().map(Claim::on).transpose()?;
        let status = Arc::new(Mutex::new(status));
        let config = NodeConfig {
            shm: options.shm.clone(),
            tcp: options.tcp,
            verbs: options.verbs.clone(),
            token: options.token.clone(),
            allow_unauthenticated: options.allow_unauthenticated,
            memory_bytes: options.memory_bytes,
            space_bytes_max: options.space_memory_bytes,
            join: options.join.clone(),
            data: options.data.clone(),
            durability: options.durability,
            window: options.window,
            sync_interval: options.sync_interval,
            checkpoint_bytes: options.checkpoint_bytes,
            accept_loss: options.accept_loss,
            progress: options.progress.clone(),
            lease: options.lease,
            registry: Some(registry),
            ..NodeConfig::default()
        };
        let service = ProcessService::new(status.clone());
        let node = Node::start_with(config, Some(Box::new(service))).map_err(ServerError::Node)?;
        {
            let mut status = status.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            status.shm = node.shm_path().map(|path| format!("shm:{}", path.display()));
            status.tcp = node.tcp_address().map(|address| format!("tcp://{address}"));
            status.member = node.member().0;
            let objects =
                node.regions().map(|(id, region)| region_status(id, region, Rights::READ, "objects"));
            status.regions.extend(objects);
            status.directory = Some(node.directory().clone());
            status.recovery = node.recovery().map(RecoveryStatus::of);
            status.announce();
        }
        let metrics = match options.metrics {
            None => None,
            Some(address) => {
                let opened = Metrics::open(address, node.probe());
                Some(opened.map_err(|cause| ServerError::Metrics { address, cause })?)
            }
        };
        if let Some(metrics) = &metrics {
            tracing::info!(address = %metrics.address(), "metrics are at http://{}/metrics", metrics.address());
        }
        Ok(Self { node, status, metrics, _claim: claim })
    }

    /// Where its metrics are, if they are shown.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Metrics::address)
    }

    /// The Unix socket, if there is one.
    pub fn shm_path(&self) -> Option<&Path> {
        self.node.shm_path()
    }

    /// The tcp address, if there is one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.node.tcp_address()
    }

    /// What the node is and holds.
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).now()
    }

    /// Stops the node, from any thread.
    pub fn stopper(&self) -> Stopper {
        self.node.stopper()
    }

    /// Serves until stopped.
    pub fn run(self) -> Result<(), ServerError> {
        let _metrics = self.metrics;
        let ended = self.node.wait().map_err(ServerError::Node);
        match &ended {
            Ok(()) => tracing::info!("the node was stopped"),
            Err(error) => tracing::error!(%error, "the node has ended"),
        }
        ended
    }
}

/// Makes a directory that only this user can enter, if it is not there.
fn make_private(directory: &Path, setting: &'static str) -> Result<(), ServerError> {
    use std::os::unix::fs::DirBuilderExt;
    if directory.as_os_str().is_empty() {
        return Ok(());
    }
    if let Ok(metadata) = std::fs::metadata(directory) {
        // Below a directory that everybody may write to, anybody could have made it.
        let temporary = std::env::temp_dir();
        let foreign =
            directory != temporary && directory.starts_with(&temporary) && !claim::is_own(&metadata);
        let path = directory.display().to_string();
        return if foreign { Err(ServerError::Foreign { path, setting }) } else { Ok(()) };
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|cause| ServerError::Directory { path: directory.display().to_string(), setting, cause })
}
