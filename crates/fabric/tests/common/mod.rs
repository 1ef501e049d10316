//! What the shm tests with real processes share: a node in a process of its own, which can be
//! killed, stopped and watched, and waits that end.
//!
//! A process is this test binary again, with one hidden test chosen by name ([`Process::start`])
//! and told by its environment where the node is. It ends when its parent does, by the end of its
//! standard input.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part")]

pub mod raw;

use barn_fabric::{
    ConnectOptions, Connection, Deferred, Messaging, Node, NodeOptions, NodeStats, PeerId, Region, RegionId,
    RegionOptions, Registry, Reply, Request, Rights, Service,
};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine; a wait this long is a failure.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A region that peers may read.
pub const READABLE: RegionId = RegionId(1);
/// A region that peers may do everything with.
pub const WRITABLE: RegionId = RegionId(2);
pub const REGION_BYTES: u64 = 2 << 20;

/// Answers with what was sent.
pub const ECHO: u16 = 1;
/// Keeps the request for ever.
pub const HOLD: u16 = 2;
/// Answers with [`Counts`].
pub const COUNTS: u16 = 3;
/// Answers after a time for which nobody spins.
pub const LATER: u16 = 4;

/// Tells a process where its node is.
pub const SOCKET: &str = "BARN_TEST_SOCKET";

/// A directory that goes with its test.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("barn-shm-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for sockets");
        // A node that runs as somebody else binds here, too.
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&path, everyone).expect("its owner may say who uses it");
        Self(path)
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("node")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a node says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub peers: u64,
    pub accepted: u64,
    pub expelled: u64,
    /// Messages that expect no answer.
    pub messages: u64,
    /// Bells of clients that were rung.
    pub rings: u64,
}

/// The service of every node here.
pub struct Simple {
    stats: Arc<NodeStats>,
    held: Vec<Deferred>,
    messages: u64,
}

impl Service for Simple {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        match request.method {
            ECHO => reply.done(request.body),
            HOLD => self.held.push(reply.later()),
            LATER => {
                std::thread::sleep(Duration::from_millis(20));
                reply.done(&[]);
            }
            COUNTS => {
                let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                let stats = &self.stats;
                let peers = [count(&stats.peers), count(&stats.accepted), count(&stats.expelled)];
                let counts = [peers[0], peers[1], peers[2], self.messages, count(&stats.rings)];
                reply.done(&counts.map(u64::to_le_bytes).concat());
            }
            _ => reply.unknown_method(),
        }
    }

    fn message(&mut self, _: PeerId, _: &[u8]) {
        self.messages += 1;
    }
}

/// A node at `path`, and its service.
pub fn bind(path: &Path) -> (Node, Simple) {
    let registry = Registry::default();
    let region = |options| Region::allocate(&options).expect("memory for a region");
    let readable = region(RegionOptions { huge: false, ..RegionOptions::readable(REGION_BYTES) });
    let writable = region(RegionOptions { huge: false, ..RegionOptions::writable(REGION_BYTES) });
    registry.register(READABLE, readable, Rights::READ).expect("the number is free");
    registry.register(WRITABLE, writable, Rights::ALL).expect("the number is free");
    let options = NodeOptions { shm: Some(path.to_path_buf()), ..NodeOptions::default() };
    let node = Node::bind(options, registry).expect("the node binds");
    let service = Simple { stats: node.stats(), held: Vec::new(), messages: 0 };
    (node, service)
}

/// What the hidden test `role_node` does: serves until killed.
pub fn serve() {
    let Some(path) = told_socket() else { return };
    let (mut node, mut service) = bind(&path);
    node.run(&mut service).expect("the node runs");
}

/// Where the node is, in a process that was started by a test; elsewhere there is none. Such a
/// process ends with its parent.
pub fn told_socket() -> Option<PathBuf> {
    let path = std::env::var_os(SOCKET)?;
    std::thread::spawn(|| {
        // Nothing is ever written: this ends when the parent does.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    Some(path.into())
}

/// Another process of this test.
pub struct Process(Child);

impl Process {
    /// Starts this binary again as the hidden test `role`.
    pub fn start(role: &str, socket: &Path) -> Self {
        let exe = std::env::current_exe().expect("this program has a path");
        let child = Command::new(exe)
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1", "--quiet"])
            .env(SOCKET, socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts again");
        Self(child)
    }

    /// Starts a node and waits until it answers.
    pub fn start_node(socket: &Path) -> Self {
        Self::start_node_as("role_node", socket)
    }

    /// The same, as another hidden test.
    pub fn start_node_as(role: &str, socket: &Path) -> Self {
        let node = Self::start(role, socket);
        until("the node answers", || connect(socket).is_some_and(|client| echo(&client, b"there?")));
        node
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("the process can be signalled");
    }

    /// SIGKILL; and its end is waited for.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.0.wait().expect("the process ends");
    }

    /// SIGSTOP; and that it stands still is waited for.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        until("the process stands still", || self.state() == Some('T'));
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn file(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.0.id()).into()
    }

    /// The fields of its `stat` from the third on (the second, its name, may hold anything).
    fn stat(&self) -> Vec<String> {
        let stat = std::fs::read_to_string(self.file("stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split_whitespace().map(String::from).collect()
    }

    fn state(&self) -> Option<char> {
        self.stat().first()?.chars().next()
    }

    /// The CPU time that it has used, in clock ticks of 10 ms: utime and stime.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = self.stat();
        // Fields 14 and 15 of the line, of which two are cut off.
        stat[11].parse::<u64>().expect("utime") + stat[12].parse::<u64>().expect("stime")
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(self.file("fd")).map_or(0, Iterator::count)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that was killed already is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How clients connect here, unless a test says otherwise.
pub fn options() -> ConnectOptions {
    ConnectOptions { deadline: PATIENCE, ..ConnectOptions::default() }
}

/// Requests in the request region.
pub fn in_slots() -> ConnectOptions {
    ConnectOptions { messaging: Messaging::RequestRegion { window: 16 }, ..options() }
}

pub fn address(socket: &Path) -> String {
    format!("shm:{}", socket.display())
}

/// A client, if there is a node.
pub fn connect(socket: &Path) -> Option<Connection> {
    Connection::connect(&address(socket), options()).wait().ok()
}

/// A client.
pub fn client(socket: &Path, options: ConnectOptions) -> Connection {
    Connection::connect(&address(socket), options).wait().expect("the node lets a client in")
}

/// Whether the node answers with what it was sent.
pub fn echo(client: &Connection, body: &[u8]) -> bool {
    let mut reply = Vec::new();
    client.call(ECHO, body, &mut reply).wait().is_ok() && reply == body
}

/// What the node says of itself.
pub fn counts(client: &Connection) -> Counts {
    let mut reply = Vec::new();
    client.call(COUNTS, &[], &mut reply).wait().expect("the node answers");
    let mut words = reply.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let mut word = || words.next().expect("five counts");
    Counts { peers: word(), accepted: word(), expelled: word(), messages: word(), rings: word() }
}

/// Waits until something holds, but no longer than [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs something that must end, on a thread of its own.
pub struct Ending<T>(std::sync::mpsc::Receiver<T>);

impl<T: Send + 'static> Ending<T> {
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (done, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(work()));
        Self(result)
    }

    /// Its result, which comes within `limit`.
    pub fn within(self, limit: Duration) -> T {
        self.0.recv_timeout(limit).expect("it hung, or it panicked")
    }
}
