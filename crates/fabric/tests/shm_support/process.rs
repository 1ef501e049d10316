//! Nodes and clients as processes of their own: the test binary runs itself again, in a role.
//!
//! A test file that uses it has a test named `role`, which calls [`play`]: without a role in the
//! environment it does nothing.

use super::{Echo, PATIENCE, connect, until};
use barn_fabric::*;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ROLE: &str = "BARN_TEST_ROLE";
const SOCKET: &str = "BARN_TEST_SOCKET";

/// Asks a node of another process how many peers it has.
const PEERS: u16 = 10;

/// A process in a role; killed when dropped.
pub(crate) struct Process(std::process::Child);

impl Process {
    pub(crate) fn start(role: &str, path: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "role", "--nocapture"]).env(ROLE, role).env(SOCKET, path);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts"))
    }

    /// Starts a node, and waits until it lets somebody in.
    pub(crate) fn node(role: &str, path: &Path) -> Self {
        let node = Self::start(role, path);
        until("the node to start", || connect(path).is_ok());
        node
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a process");
        rustix::process::kill_process(pid, signal).expect("it is there");
    }

    /// SIGSTOP, and waits until all of it has stopped: the signal alone returns before.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        until("the process to stop", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs").flatten();
            let mut stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
            // The state stands behind the name, which is in brackets.
            stats.all(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")))
        });
    }

    /// SIGKILL, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it is there");
        self.0.wait().expect("it ended");
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is ours").is_some()
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs").count()
    }

    /// How many memory files it has mapped.
    pub(crate) fn mappings(&self) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).expect("it runs");
        maps.lines().filter(|line| line.contains("memfd:barn-region")).count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many peers a node of another process has, by its own count.
pub(crate) fn peers_of(client: &Connection) -> u64 {
    let mut reply = Vec::new();
    client.call(PEERS, &[], &mut reply).wait().expect("the node answers");
    u64::from_le_bytes(reply.try_into().expect("a number"))
}

/// Plays the role that this process was started for, if any.
pub(crate) fn play() {
    let (Ok(role), Some(path)) = (std::env::var(ROLE), std::env::var_os(SOCKET)) else { return };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("it may ask");
    let path = PathBuf::from(path);
    match role.as_str() {
        "node" => serve(path),
        // A node that runs out of descriptors soon.
        "node-with-few-descriptors" => {
            let limit = Rlimit { current: Some(60), maximum: Some(60) };
            rustix::process::setrlimit(Resource::Nofile, limit).expect("less is always possible");
            serve(path);
        }
        "client" => hammer(&path),
        other => panic!("no role {other}"),
    }
}

struct Counting {
    echo: Echo,
    stats: Arc<NodeStats>,
}

impl Service for Counting {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        match request.method {
            PEERS => reply.done(&self.stats.peers.load(Ordering::Relaxed).to_le_bytes()),
            _ => self.echo.call(request, reply),
        }
    }
}

fn serve(path: PathBuf) {
    let registry = Registry::default();
    for (id, remote) in [(1, Rights::READ), (2, Rights::ALL)] {
        let options = RegionOptions { bytes: 1 << 20, remote, huge: false };
        registry.register(RegionId(id), Region::allocate(&options).unwrap(), remote).unwrap();
    }
    let options = NodeOptions { shm: Some(path), ..NodeOptions::default() };
    let mut node = Node::bind(options, registry).expect("the node binds");
    let mut service = Counting { echo: Echo::new(), stats: node.stats() };
    node.run(&mut service).expect("the node runs");
}

/// Does everything at once, until it is killed.
fn hammer(path: &Path) {
    let client = connect(path).expect("it gets in");
    let threads: Vec<_> = (0..3u64)
        .map(|thread| {
            let client = client.clone();
            std::thread::spawn(move || hammer_on(&client, thread))
        })
        .collect();
    for thread in threads {
        // The node outlives this process, unless the test is over.
        let _ = thread.join();
    }
}

fn hammer_on(client: &Connection, thread: u64) {
    let long = vec![thread as u8; 700_000];
    let mut reply = Vec::new();
    let mut held = Vec::new();
    for round in 0u64.. {
        let worked = match (round + thread) % 5 {
            0 => client.call(1, &long, &mut reply).wait().is_ok(),
            1 => client.send(&long[..(round % 5_000) as usize]).wait().is_ok(),
            2 => match client.open(RegionId(1 + (round % 2) as u32), Rights::READ).wait() {
                Ok(region) => {
                    let read = region.read(64, &mut [0; 4096]).wait().is_ok();
                    held.push(region);
                    held.truncate(50);
                    read
                }
                Err(_) => false,
            },
            3 => client.with_deadline(PATIENCE / 10_000).call(2, b"never", &mut reply).wait().is_err(),
            _ => client.call(1, &round.to_le_bytes(), &mut reply).wait().is_ok(),
        };
        if !worked {
            return;
        }
    }
}
