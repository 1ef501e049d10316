//! A Redis of the benchmark's own: no persistence, a socket in a directory of its own.

use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::failed;
use super::resp::Wire;
use crate::bench::timing::pin;
use crate::bench::tx::peer::PeerError;

/// The core that the server is kept on; the client is on the other one.
const SERVER_CORE: usize = 1;
/// It starts within 100 ms on a quiet machine.
const START_MAX: Duration = Duration::from_secs(10);

/// A running server, stopped when dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Starts one.
    pub(super) fn start() -> Result<Self, PeerError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // ORDER: only a number that nobody else has.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("barn-bench-redis-{}-{number}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let child = match spawn(&directory) {
            Ok(child) => child,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                return Err(error);
            }
        };
        let mut server = Self { child, directory };
        pin(rustix::process::Pid::from_raw(server.child.id() as i32), SERVER_CORE);
        let deadline = Instant::now() + START_MAX;
        while server.connect(false).is_err() {
            if Instant::now() > deadline || server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(failed("redis-server did not start"));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Another connection.
    pub(super) fn connect(&self, spin: bool) -> Result<Wire, PeerError> {
        Wire::new(UnixStream::connect(socket(&self.directory)).map_err(failed)?, spin)
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("redis.sock")
}

fn spawn(directory: &Path) -> Result<Child, PeerError> {
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"]);
    command.arg(directory).arg("--unixsocket").arg(socket(directory));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            PeerError::Absent { peer: "Redis", fix: "sudo apt-get install -y redis-server".to_owned() }
        }
        _ => failed(error),
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
