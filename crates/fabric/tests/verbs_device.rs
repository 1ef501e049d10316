//! What only a device can show: nothing leaks, a stolen key opens nothing, revoking is hard, losses
//! do nothing twice, and a cable that is pulled is an error and not a wait. Ignored where there is none; `cargo xtask verbs` runs them in a guest
//! with two software RoCE devices (`verbs_device --ignored --test-threads 1`).
#![cfg(feature = "verbs")]

use barn_fabric::verbs::{forge, last_key, lose};
use barn_fabric::{
    CallError, ConnectOptions, Connection, Messaging, Node, NodeOptions, OperationError, Pipeline, Region,
    RegionId, RegionOptions, Registry, Reply, Request, Rights, Service, Stopper, VerbsOption,
};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than anything takes in an emulated guest; a wait this long is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn address(name: &str, default: [u8; 4]) -> IpAddr {
    std::env::var(name).ok().map_or(default.into(), |address| address.parse().expect("an address"))
}

/// Counts its calls, and answers with the count.
struct Counting(Arc<AtomicU64>);

impl Service for Counting {
    fn call(&mut self, _request: Request<'_>, reply: Reply<'_>) {
        let before = self.0.fetch_add(1, Ordering::SeqCst);
        reply.done(&before.to_le_bytes());
    }
}

struct Site {
    registry: Registry,
    at: SocketAddr,
    calls: Arc<AtomicU64>,
    stopper: Stopper,
    stats: Arc<barn_fabric::NodeStats>,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    fn start() -> Self {
        let (registry, calls) = (Registry::default(), Arc::new(AtomicU64::new(0)));
        let options = NodeOptions {
            tcp: Some(SocketAddr::new(address("BARN_VERBS_NODE", [10, 9, 0, 1]), 0)),
            verbs: VerbsOption::Auto,
            allow_unauthenticated: true,
            ..NodeOptions::default()
        };
        let mut node = Node::bind(options, registry.clone()).expect("the node binds");
        let (at, stopper, stats) = (node.tcp_address().unwrap(), node.stopper(), node.stats());
        let mut service = Counting(calls.clone());
        let thread = std::thread::spawn(move || node.run(&mut service).expect("the node runs"));
        Self { registry, at, calls, stopper, stats, thread: Some(thread) }
    }

    fn region(&self, id: u32, fill: u8) -> Region {
        let region =
            Region::allocate(&RegionOptions { bytes: 64 << 10, remote: Rights::ALL, huge: false }).unwrap();
        region.words().store(0, &vec![fill; 64 << 10]).unwrap();
        self.registry.register(RegionId(id), region.clone(), Rights::ALL).unwrap();
        region
    }

    fn client(&self, messaging: Messaging) -> Connection {
        let options = ConnectOptions {
            messaging,
            deadline: PATIENCE,
            bind: Some(address("BARN_VERBS_CLIENT", [10, 9, 0, 2])),
            ..ConnectOptions::default()
        };
        Connection::connect(&format!("verbs://{}", self.at), options)
            .wait()
            .expect("the node lets a client in")
    }

    fn until_peers(&self, peers: u64) {
        until("peers", || self.stats.peers.load(Ordering::Relaxed) == peers);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the node panicked");
        }
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the kernel says that there is of queue pairs, regions and so on.
fn resources() -> String {
    let said = Command::new("rdma").args(["resource", "show"]).output().expect("the guest has `rdma`");
    assert!(said.status.success(), "{said:?}");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

#[test]
#[ignore = "needs RDMA devices: run by cargo xtask verbs"]
fn a_thousand_connections_that_come_and_are_killed_leave_nothing_behind() {
    let site = Site::start();
    let _region = site.region(1, 1);
    let stays = site.client(Messaging::Ring);
    let mut reply = Vec::new();
    let round = |number: u64| {
        let herd = number.is_multiple_of(3);
        let messaging = if herd { Messaging::RequestRegion { window: 4 } } else { Messaging::Ring };
        let client = site.client(messaging);
        let region = client.open(RegionId(1), Rights::ALL).wait().unwrap();
        region.read(0, &mut [0; 64]).wait().unwrap();
        if number.is_multiple_of(2) {
            // Killed in the midst of it: operations and calls are posted and nobody waits for them.
            let mut reply = Vec::new();
            let (mut read, mut into) = (Box::pin(client.call(1, b"?", &mut reply)), [0; 4096]);
            let mut other = Box::pin(region.read(0, &mut into));
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = (read.as_mut().poll(&mut cx), other.as_mut().poll(&mut cx));
        }
    };
    // The first few make what stays: the reactor, the devices' contexts, completion queues.
    (0..6).for_each(round);
    site.until_peers(1);
    let before = (resources(), descriptors());
    for number in 0..1000 {
        round(number);
        if number.is_multiple_of(100) {
            stays.call(1, b"undisturbed", &mut reply).wait().unwrap();
        }
    }
    site.until_peers(1);
    until("the reactor to let go", || descriptors() == before.1);
    assert_eq!(resources(), before.0, "queue pairs, regions or queues were left behind");
    stays.call(1, b"undisturbed", &mut reply).wait().unwrap();
}

#[test]
#[ignore = "needs RDMA devices: run by cargo xtask verbs"]
fn a_stolen_key_opens_nothing_and_harms_only_the_thief() {
    let site = Site::start();
    let _secret = site.region(1, 0x5e);
    let _open = site.region(2, 0x0b);
    let (owner, thief) = (site.client(Messaging::Ring), site.client(Messaging::Ring));
    let owned = owner.open(RegionId(1), Rights::ALL).wait().unwrap();
    let stolen = last_key().expect("a region was opened");
    forge(stolen);
    let forged = thief.open(RegionId(2), Rights::ALL).wait().unwrap();
    let mut into = [0xaa; 64];
    assert_eq!(forged.read(0, &mut into).wait(), Err(OperationError::Revoked));
    assert_eq!(into, [0xaa; 64], "bytes came by a key that was not granted");
    assert_eq!(forged.write(0, &[1; 64]).wait(), Err(OperationError::Revoked));
    // The thief goes on with what it was given, and the owner never noticed.
    let given = thief.open(RegionId(2), Rights::READ).wait().unwrap();
    given.read(0, &mut into).wait().unwrap();
    assert_eq!(into, [0x0b; 64]);
    owned.read(0, &mut into).wait().unwrap();
    assert_eq!(into, [0x5e; 64], "the secret was changed");
    // A right that was not asked for is not in the key.
    let read_only = thief.open(RegionId(1), Rights::READ).wait().unwrap();
    let key = last_key().unwrap();
    forge(key);
    let claims_more = thief.open(RegionId(1), Rights::ALL).wait().unwrap();
    assert_eq!(
        claims_more.write(0, &[1; 8]).wait(),
        Err(OperationError::Revoked),
        "READ was enough to write"
    );
    assert_eq!(claims_more.fetch_add(0, 1).wait(), Err(OperationError::Revoked));
    drop(read_only);
}

#[test]
#[ignore = "needs RDMA devices: run by cargo xtask verbs"]
fn nothing_that_is_stored_after_revoking_is_ever_read_and_all_else_goes_on() {
    const SECRET: u8 = 0xee;
    let site = Site::start();
    let other = site.region(2, 2);
    let client = site.client(Messaging::Ring);
    let other_remote = client.open(RegionId(2), Rights::ALL).wait().unwrap();
    let mut reply = Vec::new();
    for round in 0..20u64 {
        let region = site.region(1, 1);
        let remote = client.open(RegionId(1), Rights::READ).wait().unwrap();
        let (peer, registry) = (client.peer(), site.registry.clone());
        let begun = Arc::new(AtomicBool::new(false));
        let (started, words) = (begun.clone(), region.words().clone());
        let owner = std::thread::spawn(move || {
            until("the reader", || started.load(Ordering::SeqCst));
            std::thread::sleep(Duration::from_millis(round % 5));
            registry.revoke(RegionId(1), peer);
            // From here on the peer may not see a byte.
            words.store(0, &vec![SECRET; 64 << 10]).unwrap();
        });
        let (mut refused, mut both, mut given) = (false, 0u64, 0u64);
        let reads = std::iter::from_fn(|| {
            given += 1;
            begun.store(given > 32, Ordering::SeqCst);
            (given < 100_000 && !owner.is_finished()).then(|| {
                let (remote, other) = (&remote, &other_remote);
                async move {
                    let mut into = vec![0; 2048];
                    let read = remote.read(given % 16 * 64, &mut into).await;
                    // What is behind one that is refused is carried out all the same.
                    let added = other.fetch_add(8, 1).await;
                    (read, into, added)
                }
            })
        });
        Pipeline::new(24).run(reads, |(read, into, added)| {
            match read {
                Ok(()) => {
                    assert!(into.iter().all(|byte| *byte == 1), "bytes that were stored after revoking")
                }
                Err(error) => {
                    assert_eq!(error, OperationError::Revoked);
                    refused = true;
                }
            }
            added.expect("another region's operation was lost");
            both += 1;
        });
        owner.join().unwrap();
        let gone = remote.read(0, &mut [0; 64]).wait();
        assert_eq!(gone, Err(OperationError::Revoked));
        assert!(refused || gone.is_err());
        assert_eq!(
            other_remote.fetch_add(8, 0).wait(),
            other.words().load_word(8, Ordering::SeqCst).map_err(Into::into)
        );
        client.call(1, b"messages are not disturbed", &mut reply).wait().unwrap();
        site.registry.withdraw(RegionId(1));
    }
    // Each fetch-and-add was done once, though queue pairs failed and were renewed beneath them.
    assert!(other.words().load_word(8, Ordering::SeqCst).unwrap() > 20);
}

#[test]
#[ignore = "needs RDMA devices: run by cargo xtask verbs"]
fn requests_and_replies_that_are_lost_are_repeated_and_done_once() {
    let site = Site::start();
    let client = site.client(Messaging::RequestRegion { window: 8 });
    lose(50);
    let (mut answers, calls) = (Vec::new(), 2_000u64);
    let client = &client;
    let next = (0..calls).map(|_| async move {
        let mut reply = Vec::new();
        client.call(1, b"count me", &mut reply).await.map(|()| u64::from_le_bytes(reply.try_into().unwrap()))
    });
    Pipeline::new(16).run(next, |answer: Result<u64, CallError>| answers.push(answer.expect("an answer")));
    lose(0);
    answers.sort_unstable();
    assert_eq!(
        answers,
        (0..calls).collect::<Vec<_>>(),
        "a call was answered twice, or with another's answer"
    );
    assert_eq!(site.calls.load(Ordering::SeqCst), calls, "a call was done twice");
}

/// Takes the client's network device down, or brings it up again.
fn cable(plugged: bool) {
    let name = std::env::var("BARN_VERBS_CABLE").unwrap_or_else(|_| "v1".into());
    let done = Command::new("ip").args(["link", "set", &name, if plugged { "up" } else { "down" }]).status();
    assert!(done.expect("the guest has `ip`").success());
}

#[test]
#[ignore = "needs RDMA devices: run by cargo xtask verbs"]
fn a_cable_that_is_pulled_ends_the_connection_and_another_works_once_it_is_back() {
    let site = Site::start();
    let _region = site.region(1, 7);
    for messaging in [Messaging::Ring, Messaging::RequestRegion { window: 4 }] {
        let client = site.client(messaging);
        let region = client.open(RegionId(1), Rights::ALL).wait().unwrap();
        region.read(0, &mut [0; 64]).wait().unwrap();
        cable(false);
        // Several at once, of which the device tells that it gave them up; whoever comes later hears it at once.
        let mut ended = Vec::new();
        let reads = (0..4u64).map(|number| {
            let region = &region;
            async move { region.read(number * 64, &mut [0; 64]).await }
        });
        Pipeline::new(4).run(reads, |read| ended.push(read));
        cable(true);
        assert_eq!(ended, [Err(OperationError::PeerGone); 4], "{messaging:?}");
        assert!(!client.is_open(), "{messaging:?}");
        assert_eq!(region.read(0, &mut [0; 64]).wait(), Err(OperationError::PeerGone), "{messaging:?}");
        assert_eq!(client.call(1, b"?", &mut Vec::new()).wait(), Err(CallError::PeerGone), "{messaging:?}");
        drop((region, client));
        site.until_peers(0);
        // The device is up a moment after its cable is.
        until("the device", || {
            let options = ConnectOptions {
                messaging,
                bind: Some(address("BARN_VERBS_CLIENT", [10, 9, 0, 2])),
                ..ConnectOptions::default()
            };
            let Ok(client) = Connection::connect(&format!("verbs://{}", site.at), options).wait() else {
                return false;
            };
            let Ok(region) = client.open(RegionId(1), Rights::READ).wait() else { return false };
            let mut into = [0; 64];
            region.read(0, &mut into).wait().is_ok_and(|()| into == [7; 64])
        });
        site.until_peers(0);
    }
}
