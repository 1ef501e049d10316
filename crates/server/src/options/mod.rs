//! How a node should be, and the defaults that need no configuration.
//!
//! [`ServerOptions`] is what a node runs on. [`SETTINGS`] is the one table that flags, environment,
//! `barn.toml` and documentation follow from; [`Effective`] decides which of them counts, and shows it.

mod bytes;
mod choice;
mod error;
mod file;
mod nearest;
mod resolve;
mod settings;
mod show;
#[cfg(test)]
mod tests;

pub use barn::Durability;
use barn::node::ShowProgress;
pub use bytes::Bytes;
pub use choice::{LogFormat, LogLevel};
pub use error::SettingsError;
pub use nearest::nearest;
pub use resolve::{Defaults, Effective, Given, Origin, Settled, Surroundings, memory_default_bytes};
pub use settings::{Literal, NONE, SETTINGS, Setting};
pub use show::markdown;

use barn_fabric::{RegionId, VerbsOption};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The small region that every client may read, write and change atomically.
pub const SCRATCH: RegionId = RegionId(0);

/// The first of the raw regions, which every client may read: for measurements of bare memory.
pub const RAW: RegionId = RegionId(u32::MAX - 1023);

/// The largest raw region: the unit of registration (FaRM's is 2 GiB as well).
pub const DATA_REGION_BYTES_MAX: u64 = barn_layout::limits::REGION_BYTES_MAX;

/// The least memory that a node takes on its own account.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// A shorter lease misfires where a sleep overruns by 10 ms (seen on loaded machines).
const LEASE_MS_MIN: u64 = 50;
/// Ten minutes: whoever waits longer for the dead has no use for leases.
const LEASE_MS_MAX: u64 = 600_000;
/// A second: who waits longer for company waits for nothing else.
const WINDOW_MS_MAX: u64 = 1000;

/// The default tcp port.
const PORT_DEFAULT: u16 = 7411;

/// How a node should be.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The Unix socket for clients of this host.
    pub shm: Option<PathBuf>,
    /// The address for clients of any host.
    pub tcp: Option<SocketAddr>,
    /// Whether tcp clients may go over to RDMA verbs, and by which device.
    pub verbs: VerbsOption,
    /// The token that tcp clients must prove to know.
    pub token: Option<String>,
    /// The file that the token is in; whoever starts the node reads it.
    pub token_file: Option<PathBuf>,
    /// Lets tcp clients of other hosts in without a token.
    pub allow_unauthenticated: bool,
    /// Memory for objects.
    pub memory_bytes: u64,
    /// The most memory for chunks of spaces; none for half as much as for objects.
    pub space_memory_bytes: Option<u64>,
    /// Bytes of raw regions.
    pub raw_bytes: u64,
    /// Bytes of the scratch region.
    pub scratch_bytes: u64,
    /// A node of the cluster to join; none to begin a cluster.
    pub join: Option<String>,
    /// Where is kept what is to survive the node; none for memory only.
    pub data: Option<PathBuf>,
    /// When a write is answered.
    pub durability: Durability,
    /// The loss window of what is `logged`.
    pub window: Duration,
    /// How often a log that is only `logged` is brought to the disk.
    pub sync_interval: Duration,
    /// How long the log may grow before a checkpoint.
    pub checkpoint_bytes: u64,
    /// Is told how a recovery comes along.
    pub progress: Option<ShowProgress>,
    /// Whether to start with what is left where data is lost or damaged.
    pub accept_loss: bool,
    /// The lease of members and sessions of a new cluster.
    pub lease: Duration,
    /// Where figures are offered over HTTP.
    pub metrics: Option<SocketAddr>,
    /// How much the node says.
    pub log_level: LogLevel,
    /// The form in which it says so.
    pub log_format: LogFormat,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            shm: Some(Self::default_socket()),
            tcp: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_DEFAULT))),
            verbs: VerbsOption::Off,
            token: None,
            token_file: None,
            allow_unauthenticated: false,
            memory_bytes: MEMORY_BYTES_MIN,
            space_memory_bytes: None,
            raw_bytes: 0,
            scratch_bytes: 2 << 20,
            join: None,
            data: None,
            durability: Durability::Logged,
            window: Duration::from_millis(100),
            sync_interval: Duration::from_secs(1),
            checkpoint_bytes: 1 << 30,
            progress: None,
            accept_loss: false,
            lease: barn_cluster::LEASE_DEFAULT,
            metrics: None,
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
        }
    }
}

impl ServerOptions {
    /// Where a node listens unless told otherwise: in the user's runtime directory, or, where
    /// there is none, in a private directory of the temporary one.
    pub fn default_socket() -> PathBuf {
        Self::socket_for(&|name| std::env::var_os(name))
    }

    /// The same, in an environment of one's own.
    pub(crate) fn socket_for(variable: &dyn Fn(&str) -> Option<OsString>) -> PathBuf {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        match given("XDG_RUNTIME_DIR") {
            Some(directory) => Path::new(&directory).join("barn/node.sock"),
            None => {
                let user =
                    given("USER").map_or_else(|| "root".into(), |user| user.to_string_lossy().into_owned());
                let temporary = given("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
                temporary.join(format!("barn-{user}/node.sock"))
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
