//! Watched clients on the simulated world: nodes that pause and are cut off, clients that die at any
//! step of a commit, all from one seed.

use super::node::{CONFIGURATION_METHOD, TestNode};
use super::recorder::Recorder;
use super::workload::Worker;
use crate::client::{Boxed, Client, ClientOptions, CommitStep, Connector, Environment, Observer, Retry};
use crate::history::{Summary, check};
use crate::participant::{Functions, Participant, ParticipantOptions};
use crate::resolver::{Resolver, ResolverOptions};
use barn_cluster::{Configuration, Directory, Life, Member, MemberId, RegionPlacement};
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::simulated::{Dialer, FaultPlan, Handle, NodeId, RunEnd, World, WorldOptions};
use barn_fabric::{ConnectError, Connection, RegionId, Rights};
use barn_heap::{Heap, HeapOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(60);
const REGION_BYTES: usize = 6 << 20;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub trace: u64,
    /// What the checker counted.
    pub summary: Summary,
    /// Commits that were stopped half-way by their client's death.
    pub deaths: u64,
    /// Transactions that resolvers ended.
    pub resolved: u64,
    /// What went wrong, if anything did.
    pub failure: Option<String>,
}

#[derive(Debug)]
struct ByName(Dialer);

impl Connector for ByName {
    fn connect<'a>(&'a self, member: &'a Member, _: Duration) -> Boxed<'a, Result<Connection, ConnectError>> {
        let name = member.addresses.first().map_or("", |address| address.trim_start_matches("simulated:"));
        Box::pin(self.0.connect(name, LEASE))
    }
}

/// Stops a commit at a step, now and then: its client is dead from there on.
#[derive(Debug)]
struct Deadly {
    random: Mutex<Seeded>,
    per_million: u32,
    dead: Arc<AtomicBool>,
}

impl Observer for Deadly {
    fn at(&self, _: CommitStep) -> bool {
        let mut random = self.random.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let dies = random.chance(self.per_million);
        // ORDER: Relaxed: one thread.
        self.dead.fetch_or(dies, Ordering::Relaxed);
        !self.dead.load(Ordering::Relaxed)
    }
}

struct Cluster {
    world: World,
    directory: Arc<Directory>,
    nodes: Vec<Rc<RefCell<Participant>>>,
}

fn configuration(nodes: u32) -> Configuration {
    let members = (0..nodes).map(|id| Member {
        id: MemberId(id),
        life: Life(u64::from(id) + 1),
        addresses: vec![format!("simulated:node-{id}")],
        host: format!("host-{id}"),
        memory_bytes: REGION_BYTES as u64,
    });
    let regions = (0..nodes).map(|id| RegionPlacement {
        region: RegionId(id + 1),
        primary: MemberId(id),
        replicas: Vec::new(),
        bytes: REGION_BYTES as u64,
    });
    Configuration {
        version: 1,
        lease_ms: LEASE.as_millis() as u64,
        members: members.collect(),
        regions: regions.collect(),
        departed: Vec::new(),
        next_member: nodes,
        rings: 1,
        replicas: 0,
        ..Configuration::default()
    }
}

fn environment(world: &Handle, node: NodeId, purpose: &str) -> Environment {
    Environment {
        clock: Arc::new(world.clock()),
        schedule: Arc::new(world.scheduler(node)),
        connector: Arc::new(ByName(world.dialer(node))),
        configuration_method: CONFIGURATION_METHOD,
        seed: world.random(purpose).next(),
    }
}

impl Cluster {
    fn start(seed: u64, options: WorldOptions, nodes: u32) -> Self {
        let world = World::new(seed, options);
        let directory = Arc::new(Directory::new());
        directory.install(configuration(nodes), Duration::ZERO);
        let mut started = Vec::new();
        for id in 0..nodes {
            let region = world.region(REGION_BYTES, Rights::READ);
            let mut heap = Heap::new(HeapOptions { budget_bytes: REGION_BYTES as u64 });
            let taken = heap.add_region(RegionId(id + 1), region.words().clone());
            assert!(taken.is_ok(), "fresh memory is formatted: {taken:?}");
            let registry = world.registry();
            let registered = registry.register(RegionId(id + 1), region, Rights::NONE);
            assert!(registered.is_ok(), "a number is used once: {registered:?}");
            let participant = Participant::new(ParticipantOptions {
                member: MemberId(id),
                heap,
                registry: registry.clone(),
                regions: vec![RegionId(id + 1)],
                directory: directory.clone(),
                lease: LEASE,
                clock: Arc::new(world.clock()),
                functions: Functions::default(),
                standing: None,
            });
            let participant = Rc::new(RefCell::new(participant));
            let service = TestNode { participant: participant.clone(), directory: directory.clone() };
            let node = world.start_node(&format!("node-{id}"), registry, Box::new(service));
            let resolver = Resolver::new(ResolverOptions {
                member: MemberId(id),
                directory: directory.clone(),
                lease: LEASE,
                environment: environment(&world, node, &format!("resolver {id}")),
            });
            world.spawn_background(node, resolver.run(|| false));
            started.push(participant);
        }
        Self { world, directory, nodes: started }
    }

    fn client(&self, name: &str, per_million: u32) -> (NodeId, Client, Arc<AtomicBool>) {
        let node = self.world.start_client(name);
        let dead: Arc<AtomicBool> = Arc::default();
        let observer = Deadly {
            random: Mutex::new(self.world.random(&format!("death of {name}"))),
            per_million,
            dead: dead.clone(),
        };
        let options = ClientOptions {
            deadline: LEASE / 2,
            age_max: LEASE * 4,
            retry: Retry::Reads,
            observer: (per_million > 0).then(|| Arc::new(observer) as Arc<dyn Observer>),
        };
        (node, Client::new(environment(&self.world, node, name), self.directory.clone(), options), dead)
    }
}

/// One run: what it is like follows from the seed.
pub fn run(seed: u64, transactions: u64) -> Report {
    let mut random = Seeded::new(seed ^ 0x7472_616e_7361_6374);
    let mut options = WorldOptions::default();
    options.latency.1 = [2_000, 20_000, 100_000][random.below(3) as usize];
    options.late_per_million = [0, 5_000][random.below(2) as usize];
    options.deadline = LEASE / 2;
    let faulty = random.below(3) != 0;
    if faulty {
        let every = Duration::from_micros(3_000 + random.below(40_000));
        options.faults = FaultPlan { lasting: (100_000, 150_000_000), ..FaultPlan::without_crashes(every) };
    }
    let per_million = if random.below(2) == 0 { 0 } else { 2_000 + random.below(30_000) as u32 };
    let cluster = Cluster::start(seed, options, 1 + random.below(4) as u32);
    let world = cluster.world.handle();
    let recorder = Recorder::default();
    let roots_count = 4 + random.below(8) as usize;
    let clients = 2 + random.below(3);
    let each = transactions / clients;

    let made: Rc<RefCell<Vec<crate::Pointer>>> = Rc::default();
    let (node, client, _) = cluster.client("founder", 0);
    let (founder_made, founder_recorder, founder_world) = (made.clone(), recorder.clone(), world.clone());
    world.spawn(node, async move {
        let mut worker =
            Worker::new(0, client, founder_recorder, Vec::new(), founder_world.random("founder"));
        if let Ok(roots) = worker.make_roots(roots_count).await {
            *founder_made.borrow_mut() = roots;
        }
    });
    let mut failure = None;
    let ended = world_run(&cluster.world, Duration::from_secs(20));
    if ended != RunEnd::Done || made.borrow().len() < roots_count {
        failure = Some("the first objects were not made in time".to_string());
    }

    let deaths = Arc::new(AtomicU64::new(0));
    let (next_client, left) = (Rc::new(RefCell::new(1u32)), Rc::new(RefCell::new(each * clients)));
    let cluster = Rc::new(cluster);
    if failure.is_none() {
        for _ in 0..clients {
            spawn_worker(&cluster, &recorder, &made.borrow(), per_million, &deaths, &next_client, &left);
        }
        let ended = world_run(&cluster.world, Duration::from_secs(600));
        if ended != RunEnd::Done {
            failure = Some(format!("{} transactions were not done in time: {ended:?}", left.borrow()));
        }
    }

    world.calm();
    // Whoever is lost has been noticed by then, and what it left has been ended.
    cluster.world.pass(LEASE * 6);
    for (at, node) in cluster.nodes.iter().enumerate() {
        let waiting = node.borrow().waiting();
        if waiting > 0 {
            failure.get_or_insert(format!("node {at} holds {waiting} transactions six leases after the end"));
        }
    }
    let (node, client, _) = cluster.client("auditor", 0);
    let found: Rc<RefCell<Result<(), String>>> = Rc::new(RefCell::new(Err("the audit did not end".into())));
    let (audit_found, audit_recorder, audit_world) = (found.clone(), recorder.clone(), world.clone());
    world.spawn(node, async move {
        let random = audit_world.random("auditor");
        let mut worker = Worker::new(u32::MAX, client, audit_recorder, Vec::new(), random);
        *audit_found.borrow_mut() = worker.audit().await;
    });
    world_run(&cluster.world, Duration::from_secs(20));
    if let Err(why) = found.borrow().as_ref() {
        failure.get_or_insert(why.clone());
    }

    let resolved = cluster.nodes.iter().map(|node| node.borrow().stats().resolved).sum();
    let mut summary = Summary::default();
    match recorder.finish() {
        Err(torn) => {
            failure.get_or_insert(torn);
        }
        Ok(history) => match check(&history) {
            Ok(counted) => summary = counted,
            Err(violation) => {
                failure.get_or_insert(violation.to_string());
            }
        },
    }
    // ORDER: Relaxed: one thread.
    let deaths = deaths.load(Ordering::Relaxed);
    Report { seed, trace: world.trace(), summary, deaths, resolved, failure }
}

fn world_run(world: &World, limit: Duration) -> RunEnd {
    world.run(limit)
}

/// Starts a client that works until there is nothing left to do, or until it dies; then another
/// takes its place.
fn spawn_worker(
    cluster: &Rc<Cluster>,
    recorder: &Recorder,
    roots: &[crate::Pointer],
    per_million: u32,
    deaths: &Arc<AtomicU64>,
    next_client: &Rc<RefCell<u32>>,
    left: &Rc<RefCell<u64>>,
) {
    let number = {
        let mut next = next_client.borrow_mut();
        *next += 1;
        *next
    };
    let (node, client, dead) = cluster.client(&format!("client-{number}"), per_million);
    let world = cluster.world.handle();
    let random = world.random(&format!("worker {number}"));
    let mut worker = Worker::new(number, client, recorder.clone(), roots.to_vec(), random);
    let work_left = left.clone();
    let done = Rc::new(std::cell::Cell::new(false));
    let work_done = done.clone();
    let work_world = world.clone();
    world.spawn_background(node, async move {
        let mut idle = work_world.random(&format!("pauses of {number}"));
        while *work_left.borrow() > 0 {
            *work_left.borrow_mut() -= 1;
            worker.step().await;
            if idle.below(4) == 0 {
                work_world.sleep(Duration::from_nanos(idle.below(200_000))).await;
            }
        }
        work_done.set(true);
    });
    // A life of its own: it outlives the client.
    let watcher = world.start_client(&format!("watcher-{number}"));
    let (cluster, recorder, roots) = (cluster.clone(), recorder.clone(), roots.to_vec());
    let (deaths, next_client, left) = (deaths.clone(), next_client.clone(), left.clone());
    let watched = world.clone();
    world.spawn(watcher, async move {
        while !done.get() {
            watched.sleep(Duration::from_micros(100)).await;
            // ORDER: Relaxed: one thread.
            if dead.load(Ordering::Relaxed) {
                watched.kill(node);
                deaths.fetch_add(1, Ordering::Relaxed);
                return spawn_worker(&cluster, &recorder, &roots, per_million, &deaths, &next_client, &left);
            }
        }
    });
}
