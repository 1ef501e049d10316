//! What the tests with real processes share: nodes and clients that can be killed, stopped and
//! watched, and a watcher of locks that trusts nobody's word.
//!
//! A process is this test binary again, with one hidden test chosen by name. It is told by its
//! environment what to do, answers in lines on its standard output that begin with [`MARK`], and
//! ends when its parent does, by the end of its standard input.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part")]

pub mod locks;

use barn::Barn;
use barn::node::{Node, NodeConfig};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine; a wait this long is a failure.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The lease of members and sessions: short, so that much happens in little time.
pub const LEASE: Duration = Duration::from_millis(300);

/// What the machine may add to a lease by giving its cores to others: generous, since a dozen
/// processes share two cores here, and a bug holds a lock for ever.
pub const SCHEDULING: Duration = Duration::from_millis(2000);

/// How lines for the parent begin: a test harness writes lines of its own.
const MARK: &str = "barn> ";

/// A directory that goes with its test.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // ORDER: Relaxed: only that numbers differ matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("barn-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for sockets");
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Another process of this test. Killed when it is dropped.
pub struct Process {
    child: Child,
    lines: Mutex<Receiver<String>>,
}

impl Process {
    /// Starts this binary again as the hidden test `role`.
    pub fn start(role: &str, told: &[(&str, String)]) -> Self {
        let exe = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(exe)
            .args(["--exact", role, "--ignored", "--nocapture", "--test-threads=1", "--quiet"])
            .envs(told.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let Some(at) = line.find(MARK) else { continue };
                if send.send(line[at + MARK.len()..].to_string()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines: Mutex::new(lines) }
    }

    /// The next line that it wrote for us.
    pub fn line(&self) -> String {
        self.receiver().recv_timeout(PATIENCE).expect("the process says something in time")
    }

    /// The next line, if there is one now.
    pub fn line_now(&self) -> Option<String> {
        self.receiver().try_recv().ok()
    }

    fn receiver(&self) -> MutexGuard<'_, Receiver<String>> {
        self.lines.lock().expect("nobody panics with it")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process can be signalled");
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// SIGKILL; and its end is waited for.
    pub fn kill(&mut self) {
        // One that has killed itself is gone.
        let _ = self.child.kill();
        self.child.wait().expect("the process ends");
    }

    /// SIGSTOP; and that it stands still is waited for.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        until("the process stands still", || self.is_stopped());
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Whether it stands still.
    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process was told; `None` in one that no test has started.
pub fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Ends this process when its parent does.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        // Nothing is ever written: this ends when the parent does.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
}

/// Writes a line for the parent.
pub fn tell(line: &str) {
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{MARK}{line}");
    let _ = output.flush();
}

/// Kills or stops this very process, here: the calling thread does not go on before the signal has
/// had its effect, which may come through another thread a while later.
pub fn signal_self(signal: Signal) {
    let mut before = Instant::now();
    kill_process(getpid(), signal).expect("one may signal oneself");
    loop {
        std::thread::sleep(Duration::from_millis(1));
        // Whoever was stopped was so for longer than a lease.
        if signal == Signal::STOP && before.elapsed() > LEASE {
            return;
        }
        before = Instant::now();
    }
}

const SOCKET: &str = "BARN_TEST_SOCKET";
const JOIN: &str = "BARN_TEST_JOIN";
const TCP: &str = "BARN_TEST_TCP";
const LEASE_MS: &str = "BARN_TEST_LEASE_MS";

/// What the hidden test `role_node` does: serves until killed.
pub fn serve() {
    let Some(socket) = told(SOCKET) else { return };
    end_with_parent();
    let config = NodeConfig {
        shm: Some(socket.into()),
        tcp: Some(told(TCP).map_or(([127, 0, 0, 1], 0).into(), |tcp| tcp.parse().expect("an address"))),
        memory_bytes: 16 << 20,
        join: told(JOIN),
        lease: told(LEASE_MS).map_or(LEASE, |ms| Duration::from_millis(ms.parse().expect("a number"))),
        ..NodeConfig::default()
    };
    let node = Node::start(config).expect("the node starts");
    let tcp = node.tcp_address().expect("it listens by tcp, too");
    tell(&format!("{} tcp://{tcp} {}", node.address().expect("it listens"), node.member().0));
    node.wait().expect("the node serves");
}

/// A node in a process of its own.
pub struct NodeProcess {
    pub process: Process,
    pub shm: String,
    pub tcp: String,
    pub member: u32,
}

impl NodeProcess {
    fn start(orders: &[(&str, String)]) -> Self {
        let process = Process::start("role_node", orders);
        let line = process.line();
        let mut words = line.split(' ').map(str::to_string);
        let mut word = || words.next().expect("two addresses and a number");
        let (shm, tcp, member) = (word(), word(), word().parse().expect("a number"));
        Self { process, shm, tcp, member }
    }
}

/// Nodes, each a process: the first begins the cluster, the others join it.
pub struct Cluster {
    pub nodes: Vec<NodeProcess>,
    pub dir: Dir,
}

impl Cluster {
    pub fn start(count: usize) -> Self {
        Self::start_with_lease(count, LEASE)
    }

    /// The same, whose members and sessions have a lease that suits the test.
    pub fn start_with_lease(count: usize, lease: Duration) -> Self {
        let mut cluster = Self { nodes: Vec::new(), dir: Dir::new() };
        for number in 0..count {
            let socket = cluster.dir.path(&format!("node-{number}")).display().to_string();
            let mut orders = vec![(SOCKET, socket), (LEASE_MS, lease.as_millis().to_string())];
            orders.extend(cluster.nodes.first().map(|first| (JOIN, first.shm.clone())));
            cluster.nodes.push(NodeProcess::start(&orders));
        }
        cluster
    }

    /// Kills the only node, and starts another at its addresses: without its data, a cluster anew.
    pub fn begin_anew(&mut self) {
        let [node] = &mut self.nodes[..] else { panic!("one node") };
        node.process.kill();
        let socket = node.shm.trim_start_matches("shm:").to_string();
        let tcp = node.tcp.trim_start_matches("tcp://").to_string();
        *node = NodeProcess::start(&[(SOCKET, socket), (TCP, tcp)]);
    }

    /// A client, connected through the first node by shm.
    pub fn connect(&self) -> Barn {
        Barn::connect(&self.nodes[0].shm).expect("the first node lets a client in")
    }
}

/// Waits until something holds, but no longer than [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
