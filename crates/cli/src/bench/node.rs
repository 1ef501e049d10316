//! A node of the benchmark's own: a real process, stopped with the benchmark.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use barn::Durability;
use barn_fabric::{ConnectOptions, Connection, block_on};
use barn_server::{Method, Status};

use crate::bench::timing::{cpu_seconds, pin};

/// The core that the node is kept on; the client is on the other one.
pub(crate) const NODE_CORE: usize = 1;

/// What a node keeps, and where.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) data: PathBuf,
    pub(crate) durability: Durability,
    /// When a checkpoint begins; what is usual, if nobody says.
    pub(crate) checkpoint_bytes: Option<&'static str>,
    /// Whether the node may use every core, and not only one.
    pub(crate) every_core: bool,
}

/// A running node process.
#[derive(Debug)]
pub(crate) struct BenchNode {
    child: Child,
    directory: PathBuf,
    pub(crate) status: Status,
}

impl BenchNode {
    /// Starts a node with so much memory for objects, and so much to be read as it is; `join` names
    /// a node whose cluster it joins.
    pub(crate) fn start(memory_bytes: u64, raw_bytes: u64, join: Option<&str>) -> io::Result<Self> {
        Self::start_with(memory_bytes, raw_bytes, join, None)
    }

    /// A node with an RDMA device, for clients that come to its address.
    #[cfg(feature = "verbs")]
    pub(crate) fn start_on_verbs(
        memory_bytes: u64,
        raw_bytes: u64,
        ip: std::net::IpAddr,
    ) -> io::Result<Self> {
        // The network is whoever measures' own affair; nothing but noise is in the node.
        let listen = ["--tcp", &format!("{ip}:0"), "--verbs", "auto", "--allow-unauthenticated"];
        Self::spawn(&listen, memory_bytes, raw_bytes, None, None)
    }

    /// The same, with a disk, or without.
    pub(crate) fn start_with(
        memory_bytes: u64,
        raw_bytes: u64,
        join: Option<&str>,
        disk: Option<&Disk>,
    ) -> io::Result<Self> {
        Self::spawn(&["--tcp", "127.0.0.1:0"], memory_bytes, raw_bytes, join, disk)
    }

    /// A node with little memory for objects, and so much for spaces.
    pub(crate) fn start_for_spaces(space_bytes: u64, raw_bytes: u64, join: Option<&str>) -> io::Result<Self> {
        let given = ["--tcp", "127.0.0.1:0", "--space-memory", &space_bytes.to_string()];
        Self::spawn(&given, 4 << 20, raw_bytes, join, None)
    }

    fn spawn(
        given: &[&str],
        memory_bytes: u64,
        raw_bytes: u64,
        join: Option<&str>,
        disk: Option<&Disk>,
    ) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("barn-bench-{}-{number}", std::process::id()));
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--json", "--until-stdin-ends", "--config", "none", "--log-level", "warn"])
            .args(given)
            .arg("--memory")
            .arg(memory_bytes.to_string())
            .arg("--raw-memory")
            .arg(raw_bytes.to_string())
            .args(join.iter().flat_map(|address| ["--join", address]))
            .arg("--data")
            .arg(disk.map_or(Path::new("none"), |disk| &disk.data))
            .args(disk.iter().flat_map(|disk| ["--durability", disk.durability.name()]))
            .args(
                disk.and_then(|disk| disk.checkpoint_bytes).iter().flat_map(|it| ["--checkpoint-bytes", it]),
            )
            .arg("--socket")
            .arg(directory.join("node.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if disk.is_none_or(|disk| !disk.every_core) {
            pin(rustix::process::Pid::from_raw(child.id() as i32), NODE_CORE);
        }
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let status = serde_json::from_str(&line)
            .map_err(|_| io::Error::other("the benchmark's node did not start; `barn serve` says why"))?;
        Ok(Self { child, directory, status })
    }

    /// The address for a transport.
    pub(crate) fn address(&self, transport: &str) -> String {
        let address = if transport == "shm" { &self.status.shm } else { &self.status.tcp };
        address.clone().unwrap_or_default()
    }

    /// Kills it, as if its process had died.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// What it says of itself now.
    pub(crate) fn ask_status(&self) -> io::Result<Status> {
        let connection = block_on(Connection::connect(&self.address("shm"), ConnectOptions::default()));
        let connection = connection.map_err(io::Error::other)?;
        let mut answer = Vec::new();
        block_on(connection.call(Method::Status as u16, &[], &mut answer)).map_err(io::Error::other)?;
        serde_json::from_slice(&answer).map_err(io::Error::other)
    }

    /// Seconds of CPU that the node has used so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id())
    }
}

impl Drop for BenchNode {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
