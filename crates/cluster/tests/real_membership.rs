//! The same task on real threads, clocks and transports: join, get a region, be found, leave; and
//! a coordinator that goes away and comes back with its file.

use barn_cluster::{
    Coordinator, CoordinatorOptions, Directory, FileStore, Life, MemberId, Membership, MembershipOptions,
    MembershipState, wire,
};
use barn_fabric::seam::{Clock, SystemClock, SystemDisk, Threads};
use barn_fabric::{
    ConnectOptions, Connection, Node, NodeOptions, Registry, Reply, Request, Service, Stopper, block_on,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const METHOD: u16 = 40;
/// Long enough for a machine that does other things meanwhile.
const LEASE: Duration = Duration::from_millis(600);

struct Coordinating(Coordinator, SystemClock);

impl Service for Coordinating {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        match wire::decode_request(request.body) {
            Ok(asked) => reply.done(&wire::encode_response(&self.0.handle(self.1.now(), asked))),
            Err(error) => reply.refuse(&error.to_string()),
        }
    }
}

struct Serving {
    stopper: Stopper,
    thread: JoinHandle<()>,
}

impl Serving {
    fn start(directory: &Path, socket: &Path) -> Self {
        let store = FileStore::open(Arc::new(SystemDisk::at(directory).unwrap())).unwrap();
        let clock = SystemClock::default();
        let options = CoordinatorOptions { lease: LEASE, ..CoordinatorOptions::default() };
        let coordinator = Coordinator::start(Box::new(store), options, clock.now()).unwrap();
        let options = NodeOptions { shm: Some(socket.to_path_buf()), ..NodeOptions::default() };
        let mut node = Node::bind(options, Registry::default()).unwrap();
        let stopper = node.stopper();
        let thread = std::thread::spawn(move || {
            node.run(&mut Coordinating(coordinator, clock)).unwrap();
        });
        Self { stopper, thread }
    }

    fn stop(self) {
        self.stopper.stop();
        self.thread.join().unwrap();
    }
}

fn member(socket: &Path, life: u64, clock: &Arc<SystemClock>) -> Membership {
    let options = MembershipOptions {
        method: METHOD,
        addresses: vec![format!("shm:/nowhere/{life}")],
        host: "here".into(),
        memory_bytes: 1 << 30,
        life: Life(life),
        rejoining: None,
    };
    let membership = Membership::new(options, Arc::new(Directory::new()), clock.clone(), Arc::new(Threads));
    let address = format!("shm:{}", socket.display());
    membership.start(move || Connection::connect(&address, ConnectOptions::default()));
    membership
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "not {what} after 20 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn members_come_and_go_and_outlast_their_coordinator() {
    let directory: PathBuf = std::env::temp_dir().join(format!("barn-membership-{}", std::process::id()));
    let socket = directory.with_extension("sock");
    let serving = Serving::start(&directory, &socket);
    let clock = Arc::new(SystemClock::default());
    let (one, two) = (member(&socket, 1, &clock), member(&socket, 2, &clock));
    let ids: Vec<MemberId> = [&one, &two]
        .map(|membership| match block_on(membership.joined()) {
            MembershipState::Member(id) => id,
            other => panic!("{other:?}"),
        })
        .to_vec();
    assert_ne!(ids[0], ids[1]);
    assert!(!one.is_fenced(clock.now()) && !two.is_fenced(clock.now()));
    let placed = block_on(one.add_region(None, 2 << 20)).unwrap();
    assert_eq!(one.directory().primary(placed.region), Some(ids[0]));
    // The other learns of it with its next renewal.
    eventually("learned by the other", || two.directory().primary(placed.region) == Some(ids[0]));
    // The coordinator goes away for less than a lease, and finds its file again.
    serving.stop();
    let serving = Serving::start(&directory, &socket);
    block_on(two.leave());
    assert!(two.is_fenced(clock.now()) && two.state() == MembershipState::Left);
    eventually("without the one that left", || one.directory().configuration().member(ids[1]).is_none());
    assert_eq!(one.directory().primary(placed.region), Some(ids[0]));
    eventually("settled", || one.directory().settled(ids[1], clock.now()));
    eventually("in possession of a lease", || !one.is_fenced(clock.now()));
    // For good: the lease ends by itself.
    serving.stop();
    eventually("fenced", || one.is_fenced(clock.now()));
    block_on(one.leave());
    std::fs::remove_dir_all(&directory).unwrap();
}
