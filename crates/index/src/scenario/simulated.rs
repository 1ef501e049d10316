//! Watched clients on the simulated world: links that are cut, nodes that pause, READs that are torn,
//! clients that die at any moment, all from one seed.

use super::cramped;
use super::journal::{Shared, shared};
use super::judge::{Judged, judge};
use super::worker::{Plan, Worker};
use crate::client::Table;
use crate::node::{Now, Surroundings, Tables};
use crate::options::{Kind, TableOptions};
use crate::wire;
use barn_cluster::{Configuration, Directory, Life, Member, MemberId, RegionPlacement, TablePlacement};
use barn_fabric::seam::{Clock, Random, Seeded};
use barn_fabric::simulated::{Dialer, FaultPlan, Handle, NodeId, RunEnd, VirtualClock, World, WorldOptions};
use barn_fabric::{ConnectError, Connection, PeerId, RegionId, Reply, Request, Rights, Service};
use barn_heap::{Heap, HeapOptions};
use barn_layout::table::Durability;
use barn_transaction::participant::{Functions, Participant, ParticipantOptions};
use barn_transaction::resolver::{Resolver, ResolverOptions};
use barn_transaction::scenario::{CONFIGURATION_METHOD, TestNode};
use barn_transaction::{Boxed, Client, ClientOptions, Connector, Environment, Retry};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(60);
const REGION_BYTES: usize = 16 << 20;
const TABLE: u32 = 1;
const NAME: &str = "watched";

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The kind of the table.
    pub kind: Kind,
    /// The hash of everything that happened.
    pub trace: u64,
    /// What was judged.
    pub judged: Judged,
    /// Clients that died in the middle of something.
    pub deaths: u64,
    /// Times that the table grew.
    pub grown: u64,
    /// What went wrong, if anything did.
    pub failure: Option<String>,
}

thread_local! {
    /// A recorder's clock is a function: it finds the world of its thread here.
    static CLOCK: RefCell<Option<VirtualClock>> = const { RefCell::new(None) };
}

fn now() -> u64 {
    CLOCK.with_borrow(|clock| clock.as_ref().map_or(0, |clock| clock.now().as_nanos() as u64))
}

#[derive(Debug)]
struct ByName(Dialer);

impl Connector for ByName {
    fn connect<'a>(&'a self, member: &'a Member, _: Duration) -> Boxed<'a, Result<Connection, ConnectError>> {
        let name = member.addresses.first().map_or("", |address| address.trim_start_matches("simulated:"));
        Box::pin(self.0.connect(name, LEASE))
    }
}

/// A node that holds shards.
struct TableNode {
    node: TestNode,
    tables: Rc<RefCell<Tables>>,
}

impl Service for TableNode {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        if !(wire::Method::Get as u16..wire::METHODS_END).contains(&request.method) {
            return self.node.call(request, reply);
        }
        let mut participant = self.node.participant.borrow_mut();
        let (member, changed) = (participant.member(), participant.take_changed_tables());
        let Some(heap) = participant.heap_mut() else { return reply.refuse("this node serves nobody") };
        let configuration = &*self.node.directory.configuration();
        let node = Surroundings {
            heap,
            configuration,
            member,
            now: &Now::at(1),
            changed,
            durability: Durability::Memory,
        };
        let mut answer = Vec::new();
        match self.tables.borrow_mut().handle(node, request.method, request.body, &mut answer) {
            Ok(_) => reply.done(&answer),
            Err(why) => reply.refuse(&why),
        }
    }

    fn message(&mut self, peer: PeerId, body: &[u8]) {
        self.node.message(peer, body);
    }

    fn gone(&mut self, peer: PeerId) {
        self.node.gone(peer);
    }
}

fn configuration(nodes: u32, options: &TableOptions) -> Configuration {
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
    let table = TablePlacement {
        table: TABLE,
        name: NAME.into(),
        options: options.to_text(),
        shards: (0..nodes).map(MemberId).collect(),
    };
    Configuration {
        version: 1,
        lease_ms: LEASE.as_millis() as u64,
        members: members.collect(),
        regions: regions.collect(),
        next_member: nodes,
        rings: 1,
        tables: vec![table],
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

/// Everything that workers of a run share.
struct Scene {
    world: World,
    directory: Arc<Directory>,
    tables: Vec<Rc<RefCell<Tables>>>,
    plan: Plan,
    /// How long a client lives, at most; zero for ever.
    life_max: Duration,
    recorders: RefCell<Vec<Shared>>,
    torn: RefCell<Option<String>>,
    left: Cell<u64>,
    deaths: Cell<u64>,
    next: Cell<u32>,
}

impl Scene {
    fn start_nodes(&mut self, nodes: u32) {
        let (world, directory) = (&self.world, &self.directory);
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
            let node = TestNode { participant, directory: directory.clone() };
            let tables: Rc<RefCell<Tables>> = Rc::default();
            let service = TableNode { node, tables: tables.clone() };
            let node = world.start_node(&format!("node-{id}"), registry, Box::new(service));
            let resolver = Resolver::new(ResolverOptions {
                member: MemberId(id),
                directory: directory.clone(),
                lease: LEASE,
                environment: environment(world, node, &format!("resolver {id}")),
            });
            world.spawn_background(node, resolver.run(|| false));
            self.tables.push(tables);
        }
    }

    fn grown(&self) -> u64 {
        let of_node = |tables: &Rc<RefCell<Tables>>| -> u64 {
            tables.borrow().stats().map(|(_, _, stats)| stats.grown + stats.moves + stats.evicted).sum()
        };
        self.tables.iter().map(of_node).sum()
    }
}

/// One run of so many steps: what it is like follows from the seed.
pub fn run(seed: u64, steps: u64) -> Report {
    let mut random = Seeded::new(seed ^ 0x7461_626c_6573);
    let kind = Kind::ALL[(seed % Kind::ALL.len() as u64) as usize];
    let mut options = WorldOptions::default();
    options.latency.1 = [2_000, 20_000, 100_000][random.below(3) as usize];
    options.late_per_million = [0, 5_000][random.below(2) as usize];
    options.deadline = LEASE / 2;
    if random.below(2) == 0 {
        let every = Duration::from_micros(3_000 + random.below(40_000));
        options.faults = FaultPlan { lasting: (100_000, 150_000_000), ..FaultPlan::without_crashes(every) };
    }
    let life_max = [Duration::ZERO, Duration::from_millis(3)][random.below(2) as usize];
    let nodes = 1 + random.below(2) as u32;
    let table = TableOptions { seed: random.next() | 1, ..cramped(kind) };
    let directory = Arc::new(Directory::new());
    directory.install(configuration(nodes, &table), Duration::ZERO);
    let plan = Plan {
        hot: 1 + random.below(4),
        cold: 6_000,
        hot_percent: 40 + random.below(40),
        read_percent: 50,
        flood: 600,
        long_one_in: 16,
    };
    let mut scene = Scene {
        world: World::new(seed, options),
        directory,
        tables: Vec::new(),
        plan,
        life_max,
        recorders: RefCell::default(),
        torn: RefCell::default(),
        left: Cell::new(steps),
        deaths: Cell::new(0),
        next: Cell::new(1),
    };
    scene.start_nodes(nodes);
    let scene = Rc::new(scene);
    CLOCK.set(Some(scene.world.clock()));
    for _ in 0..3 + random.below(6) {
        start_worker(&scene);
    }
    let ended = scene.world.run(Duration::from_secs(600));
    let mut failure = scene.torn.borrow_mut().take();
    if ended != RunEnd::Done {
        failure.get_or_insert(format!("{} steps were not done in time: {ended:?}", scene.left.get()));
    }
    let recorders: Vec<Shared> = scene.recorders.borrow_mut().drain(..).collect();
    let taken = recorders.iter().map(|recorder| {
        let mut recorder = recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        recorder.take()
    });
    let judged = judge(taken, [], kind == Kind::Cache, 1).unwrap_or_else(|why| {
        failure.get_or_insert(why);
        Judged::default()
    });
    let (deaths, grown, trace) = (scene.deaths.get(), scene.grown(), scene.world.trace());
    Report { seed, kind, trace, judged, deaths, grown, failure }
}

/// Starts a client that works until there is nothing left to do, or until it dies; then another
/// takes its place.
fn start_worker(scene: &Rc<Scene>) {
    let number = scene.next.replace(scene.next.get() + 1);
    let world = scene.world.handle();
    let node = world.start_client(&format!("client-{number}"));
    let options = ClientOptions {
        deadline: LEASE / 2,
        age_max: LEASE * 4,
        // A put that is done twice is not one put: histories are judged as if it were.
        retry: Retry::Reads,
        observer: None,
    };
    let environment = environment(&world, node, &format!("client {number}"));
    let client = Client::new(environment, scene.directory.clone(), options);
    let recorder = shared(number, now);
    scene.recorders.borrow_mut().push(recorder.clone());
    let done = Rc::new(Cell::new(false));
    let (work_scene, work_world, work_done) = (scene.clone(), world.clone(), done.clone());
    world.spawn_background(node, async move {
        let scene = work_scene;
        let Ok(table) = Table::open(&client, NAME).await else { return };
        let random = work_world.random(&format!("worker {number}"));
        let mut idle = work_world.random(&format!("pauses of {number}"));
        let mut worker = Worker::new(number, &table, recorder, scene.plan, random);
        while scene.left.get() > 0 {
            worker.step().await;
            scene.left.set(scene.left.get().saturating_sub(1));
            if let Some(torn) = worker.torn.take() {
                scene.torn.borrow_mut().get_or_insert(torn);
            }
            if idle.below(8) == 0 {
                work_world.sleep(Duration::from_nanos(idle.below(100_000))).await;
            }
        }
        work_done.set(true);
    });
    // A life of its own: it outlives the client.
    let watcher = world.start_client(&format!("watcher-{number}"));
    let (scene, watched) = (scene.clone(), world.clone());
    let mut fate = world.random(&format!("fate of {number}"));
    let life = match scene.life_max {
        Duration::ZERO => u64::MAX,
        most => 100_000 + fate.below(most.as_nanos() as u64),
    };
    world.spawn(watcher, async move {
        let born = watched.now();
        while !done.get() {
            watched.sleep(Duration::from_nanos(20_000 + fate.below(30_000))).await;
            if watched.now() - born > Duration::from_nanos(life) && !done.get() {
                watched.kill(node);
                scene.deaths.set(scene.deaths.get() + 1);
                return start_worker(&scene);
            }
        }
    });
}
