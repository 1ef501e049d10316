//! Runs a node: its memory, its service, its poll loop.
//!
//! At this stage a node offers raw registered memory (a small scratch region that its clients
//! may write, and data regions that they may read) and a service that answers pings, echoes and
//! says what the node is. What comes later (objects, tables, spaces) is added here as further
//! methods; the loop and the regions stay.
#![forbid(unsafe_code)]

mod method;
mod options;
mod service;
mod status;

pub use method::Method;
pub use options::{DATA_REGION_BYTES_MAX, SCRATCH, ServerOptions};
pub use status::{RegionStatus, Status};

use barn_fabric::{
    Node, NodeError, NodeOptions, Region, RegionError, RegionId, RegionOptions, Registry, Rights, Stopper,
};
use service::NodeService;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

/// Why a node did not start, or stopped.
#[derive(Debug)]
pub enum ServerError {
    /// Its memory could not be had.
    Memory(RegionError),
    /// Its sockets could not be had, or its loop failed.
    Node(NodeError),
    /// The directory of its socket could not be made.
    Directory {
        /// Which.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(cause) => cause.fmt(f),
            Self::Node(cause) => cause.fmt(f),
            Self::Directory { path, cause } => write!(f, "cannot make the directory {path}: {cause}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// A node that is ready to serve.
#[derive(Debug)]
pub struct Server {
    node: Node,
    service: NodeService,
}

impl Server {
    /// Takes the node's memory and listens.
    pub fn start(options: &ServerOptions) -> Result<Self, ServerError> {
        let registry = Registry::default();
        let mut status = Status::new();
        let mut register = |id: u32, bytes: u64, rights: Rights| -> Result<(), ServerError> {
            let wanted = RegionOptions { bytes, remote: rights, huge: true };
            let region = Region::allocate(&wanted).map_err(ServerError::Memory)?;
            status.regions.push(RegionStatus {
                id,
                bytes: region.bytes(),
                rights: rights.to_string(),
                pages: region.pages().to_string(),
            });
            // A number is used once: the loop below counts.
            let _ = registry.register(RegionId(id), region, rights);
            Ok(())
        };
        register(SCRATCH.0, options.scratch_bytes, Rights::ALL)?;
        for (index, bytes) in options.data_regions().enumerate() {
            register(SCRATCH.0 + 1 + index as u32, bytes, Rights::READ)?;
        }
        if let Some(directory) = options.shm.as_deref().and_then(Path::parent) {
            make_private(directory)?;
        }
        let node = Node::bind(
            NodeOptions {
                shm: options.shm.clone(),
                tcp: options.tcp,
                token: options.token.clone(),
                allow_unauthenticated: options.allow_unauthenticated,
                ..NodeOptions::default()
            },
            registry,
        )
        .map_err(ServerError::Node)?;
        status.shm = node.shm_path().map(|path| format!("shm:{}", path.display()));
        status.tcp = node.tcp_address().map(|address| format!("tcp://{address}"));
        let service = NodeService::new(status, node.stats());
        Ok(Self { node, service })
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
        self.service.status()
    }

    /// Stops the node, from any thread.
    pub fn stopper(&self) -> Stopper {
        self.node.stopper()
    }

    /// Serves until stopped.
    pub fn run(mut self) -> Result<(), ServerError> {
        self.node.run(&mut self.service).map_err(ServerError::Node)
    }
}

/// Makes a directory that only this user can enter, if it is not there.
fn make_private(directory: &Path) -> Result<(), ServerError> {
    use std::os::unix::fs::DirBuilderExt;
    if directory.as_os_str().is_empty() || directory.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|cause| ServerError::Directory { path: directory.display().to_string(), cause })
}
