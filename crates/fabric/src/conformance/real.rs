//! The harness of the transports that run on this machine: nodes on threads of their own.

use super::{Boxed, Harness, Job, Methods, Pause, Style};
use crate::error::ConnectError;
use crate::region::{Region, RegionOptions, Rights};
use crate::{
    ConnectOptions, Connection, Messaging, Node, NodeOptions, NodeStats, Registry, Sender, Stopper,
    VerbsOption, block_on,
};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Which transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealKind {
    /// shm, with requests carried in this way.
    Shm(Messaging),
    /// tcp over loopback.
    Tcp,
    /// verbs, with requests carried in this way: from the device with the address
    /// `BARN_VERBS_CLIENT` to the one with `BARN_VERBS_NODE`, so that packets travel.
    Verbs(Messaging),
}

/// An address from the environment; what the guest of `cargo xtask verbs` has if it is not there.
fn address(name: &str, default: [u8; 4]) -> IpAddr {
    match std::env::var(name) {
        Ok(address) => address.parse().expect("an IP address in the environment"),
        Err(_) => default.into(),
    }
}

/// A harness over a real transport.
#[derive(Debug)]
pub struct Real {
    kind: RealKind,
    style: Style,
    dir: PathBuf,
    nodes: Mutex<HashMap<u32, Running>>,
    /// Where tcp nodes have been, so that they start there again.
    addresses: Mutex<HashMap<u32, SocketAddr>>,
}

#[derive(Debug)]
struct Running {
    stopper: Stopper,
    thread: JoinHandle<()>,
    sender: Sender,
    stats: Arc<NodeStats>,
}

impl Real {
    /// A harness whose cases are driven in `style`.
    pub fn new(kind: RealKind, style: Style) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("barn-conformance-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for sockets");
        Self { kind, style, dir, nodes: Mutex::default(), addresses: Mutex::default() }
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<u32, Running>> {
        self.nodes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<u32, SocketAddr>> {
        self.addresses.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn socket(&self, node: u32) -> PathBuf {
        self.dir.join(format!("node-{node}"))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let running: Vec<Running> = self.nodes().drain().map(|(_, node)| node).collect();
        for node in running {
            node.stopper.stop();
            // A node that panicked has failed its case already.
            let _ = node.thread.join();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Harness for Real {
    fn name(&self) -> String {
        let transport = match self.kind {
            RealKind::Shm(Messaging::Ring) => "shm ring",
            RealKind::Shm(Messaging::RequestRegion { .. }) => "shm request-region",
            RealKind::Tcp => "tcp",
            RealKind::Verbs(Messaging::Ring) => "verbs ring",
            RealKind::Verbs(Messaging::RequestRegion { .. }) => "verbs herd",
        };
        match self.style {
            Style::InPlace => transport.to_string(),
            Style::Runtime => format!("{transport} runtime"),
        }
    }

    fn region(&self, bytes: u64, remote: Rights) -> Region {
        Region::allocate(&RegionOptions { bytes, remote, huge: false }).expect("memory for a region")
    }

    fn start(&self, node: u32, mut service: Methods) -> Registry {
        let registry = Registry::default();
        let mut options = NodeOptions::default();
        match self.kind {
            RealKind::Shm(_) => options.shm = Some(self.socket(node)),
            RealKind::Tcp => {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                options.tcp = Some(self.addresses().get(&node).copied().unwrap_or(any));
            }
            RealKind::Verbs(_) => {
                let any = SocketAddr::from((address("BARN_VERBS_NODE", [10, 9, 0, 1]), 0));
                options.tcp = Some(self.addresses().get(&node).copied().unwrap_or(any));
                options.verbs = VerbsOption::Auto;
                // The guest's network is its own.
                options.allow_unauthenticated = true;
            }
        }
        let mut bound = Node::bind(options, registry.clone()).expect("the node binds");
        if let Some(address) = bound.tcp_address() {
            self.addresses().insert(node, address);
        }
        let (stopper, sender, stats) = (bound.stopper(), bound.sender(), bound.stats());
        let thread = std::thread::Builder::new()
            .name(format!("node-{node}"))
            .spawn(move || bound.run(&mut service).expect("the node runs"))
            .expect("a thread for the node");
        self.nodes().insert(node, Running { stopper, thread, sender, stats });
        registry
    }

    fn stop(&self, node: u32) {
        let running = self.nodes().remove(&node).expect("the node runs");
        running.stopper.stop();
        running.thread.join().expect("the node did not panic");
    }

    fn sender(&self, node: u32) -> Sender {
        self.nodes()[&node].sender.clone()
    }

    fn peers(&self, node: u32) -> u64 {
        self.nodes()[&node].stats.peers.load(Ordering::Relaxed)
    }

    fn connect(&self, node: u32, deadline: Duration) -> Boxed<'static, Result<Connection, ConnectError>> {
        let mut options = ConnectOptions { deadline, ..ConnectOptions::default() };
        let address = match self.kind {
            RealKind::Shm(messaging) => {
                options.messaging = messaging;
                format!("shm:{}", self.socket(node).display())
            }
            RealKind::Tcp => match self.addresses().get(&node) {
                Some(address) => format!("tcp://{address}"),
                // Port 1: nobody listens there.
                None => "tcp://127.0.0.1:1".to_string(),
            },
            RealKind::Verbs(messaging) => {
                options.messaging = messaging;
                options.bind = Some(address("BARN_VERBS_CLIENT", [10, 9, 0, 2]));
                match self.addresses().get(&node) {
                    Some(address) => format!("verbs://{address}"),
                    None => format!("verbs://{}:1", address("BARN_VERBS_NODE", [10, 9, 0, 1])),
                }
            }
        };
        Box::pin(Connection::connect(&address, options))
    }

    fn sleep(&self, time: Duration) -> Boxed<'static, ()> {
        let when = Instant::now() + time;
        Box::pin(std::future::poll_fn(move |cx| {
            if Instant::now() >= when {
                return Poll::Ready(());
            }
            let reactor = crate::drive::reactor::reactor().expect("the process has a reactor");
            reactor.wake_at(when, cx.waker().clone());
            Poll::Pending
        }))
    }

    fn pause(&self) -> Pause {
        Arc::new(|| {
            std::thread::yield_now();
            Box::pin(std::future::ready(()))
        })
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn parallel(&self, style: Style, jobs: Vec<Job>) -> Boxed<'_, ()> {
        Box::pin(async move {
            std::thread::scope(|scope| {
                for job in jobs {
                    scope.spawn(move || drive(style, job()));
                }
            });
        })
    }

    fn run(&self, case: Boxed<'_, ()>) {
        drive(self.style, case);
    }
}

fn drive(style: Style, future: Boxed<'_, ()>) {
    match style {
        Style::InPlace => block_on(future),
        Style::Runtime => run_when_woken(future),
    }
}

/// The smallest runtime: polls when woken, and parks its thread until then.
fn run_when_woken(mut future: Boxed<'_, ()>) {
    struct Parked {
        thread: Thread,
        woken: AtomicBool,
    }
    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            // SYNC: Release, pairs with the Acquire swap below: the poll that follows sees what
            // the waker's caller did.
            self.woken.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }
    // Twice what any operation may take: whoever is not woken by then never will be.
    let limit = 2 * super::support::patience();
    let parked = Arc::new(Parked { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = parked.clone().into();
    let mut cx = Context::from_waker(&waker);
    while future.as_mut().poll(&mut cx).is_pending() {
        let since = Instant::now();
        // SYNC: Acquire, pairs with the Release store in `wake`.
        while !parked.woken.swap(false, Ordering::Acquire) {
            assert!(since.elapsed() < limit, "nobody woke the task");
            std::thread::park_timeout(limit);
        }
    }
}
