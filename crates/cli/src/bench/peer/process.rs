//! A peer's server as a process of the benchmark's own, with a directory that nobody else enters.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::PeerError;
use super::link::{Link, Place};
use crate::bench::timing::pin;

/// The core that a server is kept on; the client is on the other one.
const SERVER_CORE: usize = 1;
/// It starts within 100 ms on a quiet machine.
const START_MAX: Duration = Duration::from_secs(10);

/// A running server, stopped when dropped.
#[derive(Debug)]
pub(crate) struct PeerProcess {
    child: Child,
    directory: PathBuf,
}

impl PeerProcess {
    /// Starts a server, and waits until it can be connected to. `command` is told the server's own
    /// directory, and gives what to start and where that will listen.
    pub(crate) fn start<const N: usize>(
        peer: &'static str,
        package: &str,
        command: impl FnOnce(&Path) -> Result<(Command, [Place; N]), PeerError>,
    ) -> Result<(Self, [Place; N]), PeerError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // ORDER: only a number that nobody else has.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("barn-bench-{package}-{}-{number}", std::process::id()));
        let failed = |why: &dyn std::fmt::Display| PeerError::failed(peer, why);
        std::fs::DirBuilder::new().mode(0o700).create(&directory).map_err(|error| failed(&error))?;
        let spawned = command(&directory).and_then(|(mut command, places)| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => {
                    PeerError::Absent { peer, fix: format!("sudo apt-get install -y {package}") }
                }
                _ => failed(&error),
            })?;
            Ok((child, places))
        });
        let (child, places) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                return Err(error);
            }
        };
        let mut server = Self { child, directory };
        pin(rustix::process::Pid::from_raw(server.child.id() as i32), SERVER_CORE);
        let deadline = Instant::now() + START_MAX;
        while places.iter().any(|place| Link::connect(peer, place, false).is_err()) {
            if Instant::now() > deadline || server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(failed(&"the server did not start"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok((server, places))
    }

    /// Bytes of memory that it has now.
    pub(crate) fn resident_bytes(&self) -> f64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap_or_default();
        let resident = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok());
        resident.unwrap_or(0.0) * rustix::param::page_size() as f64
    }

    /// Seconds of CPU that it has used so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        crate::bench::timing::cpu_seconds(self.child.id())
    }
}

/// An address of loopback that is free now.
pub(crate) fn free_address(peer: &'static str) -> Result<SocketAddr, PeerError> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map_err(|error| PeerError::failed(peer, error))
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
