//! Who plays: the coordinator, the members, the twin, the clients.

use super::LEASE;
use super::checks::Seen;
use barn_cluster::{
    Coordinator, CoordinatorOptions, Directory, FileStore, Life, MemberId, Membership, MembershipOptions,
    Request, Response, ask, lease, wire,
};
use barn_fabric::seam::{Clock, Random, Seeded};
use barn_fabric::simulated::{Boot, Handle, NodeId, VirtualClock, World};
use barn_fabric::{Reply, Request as Asked, Service};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const METHOD: u16 = 7;
const DISK_TROUBLE_PER_MILLION: u32 = 4_000;

/// A clock of its own start, and as fast or slow as a clock may be.
#[derive(Clone)]
pub(crate) struct Drifting {
    clock: VirtualClock,
    since: Duration,
    start: Duration,
    rate_per_million: u32,
}

impl Drifting {
    fn draw(world: &Handle, random: &mut Seeded) -> Self {
        let drift = lease::DRIFT_PER_MILLION;
        let rate = [1_000_000 - drift, 1_000_000, 1_000_000 + drift][random.below(3) as usize];
        let start = Duration::from_millis(random.below(100_000));
        Self { clock: world.clock(), since: world.now(), start, rate_per_million: rate }
    }
}

impl Clock for Drifting {
    fn now(&self) -> Duration {
        let passed = self.clock.now() - self.since;
        self.start + passed * self.rate_per_million / 1_000_000
    }
}

/// A process that is a member, or tries to be.
pub(crate) struct Actor {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u32,
    pub(crate) membership: Membership,
    pub(crate) clock: Drifting,
}

/// A client's view.
pub(crate) struct Watcher {
    pub(crate) directory: Arc<Directory>,
    pub(crate) clock: Drifting,
}

#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) seen: Rc<RefCell<Seen>>,
    pub(crate) calm: Rc<Cell<bool>>,
    disk_trouble: bool,
    /// Whether the coordinator has said that it cannot go on.
    stopped: Rc<Cell<bool>>,
    coordinator: Rc<Cell<Option<NodeId>>>,
}

impl Stage {
    pub(crate) fn new(world: &World, disk_trouble: bool) -> Self {
        let seen = Rc::new(RefCell::new(Seen::new(world.handle())));
        Self { seen, calm: Rc::default(), disk_trouble, stopped: Rc::default(), coordinator: Rc::default() }
    }

    pub(crate) fn failed(&self) -> bool {
        self.seen.borrow().failure.is_some()
    }

    /// Nothing breaks any more, and the players stop making trouble.
    pub(crate) fn calm(&self, world: &World) {
        self.calm.set(true);
        world.calm();
        if let Some(coordinator) = self.coordinator.get() {
            world.disk(coordinator).fail_by_chance(0);
        }
    }

    /// Whoever operates the coordinator restarts it when its store has stopped.
    pub(crate) fn operate(&self, world: &World) {
        let Some(coordinator) = self.coordinator.get() else { return };
        if self.stopped.replace(false) {
            world.kill(coordinator);
            world.pass(Duration::from_micros(100));
            world.restart(coordinator);
        }
    }

    pub(crate) fn start_coordinator(&self, world: &World) -> NodeId {
        let stage = self.clone();
        let node = world.start_restartable("coordinator", move |boot| stage.boot_coordinator(boot));
        self.coordinator.set(Some(node));
        node
    }

    fn boot_coordinator(&self, boot: Boot) -> Box<dyn Service> {
        let mut random = boot.world.random(&format!("coordinator {}", boot.incarnation));
        let clock = Drifting::draw(&boot.world, &mut random);
        let disk = boot.world.disk(boot.node);
        // A fault while it opens its file only means that somebody tries again.
        disk.fail_by_chance(0);
        let opened = FileStore::open(Arc::new(disk.clone())).and_then(|store| {
            let options =
                CoordinatorOptions { lease: LEASE, rings: 16, seed: random.next(), ..Default::default() };
            Coordinator::start(Box::new(store), options, clock.now())
        });
        if self.disk_trouble && !self.calm.get() {
            disk.fail_by_chance(DISK_TROUBLE_PER_MILLION);
        }
        let coordinator = match opened {
            Ok(coordinator) => Rc::new(RefCell::new(coordinator)),
            Err(error) => {
                self.seen.borrow_mut().fail(|| format!("the coordinator does not start: {error}"));
                return Box::new(Idle);
            }
        };
        self.seen.borrow_mut().established(coordinator.borrow().configuration());
        let served = Coordinating { coordinator, clock, seen: self.seen.clone() };
        let ticking = served.clone();
        let (world, stopped) = (boot.world.clone(), self.stopped.clone());
        boot.world.spawn_background(boot.node, async move {
            loop {
                let every = ticking.coordinator.borrow().tick_every();
                world.sleep(every).await;
                let ticked = ticking.coordinator.borrow_mut().tick(ticking.clock.now());
                stopped.set(ticked.is_err());
                ticking.note();
            }
        });
        Box::new(served)
    }

    /// Starts a membership on a node.
    fn act(
        &self,
        world: &Handle,
        node: NodeId,
        coordinator: NodeId,
        rejoining: Option<MemberId>,
    ) -> Membership {
        let (_, incarnation) = world.life(node);
        let life = self.seen.borrow_mut().next_life();
        let mut random = world.random(&format!("actor {}", life.0));
        let clock = Drifting::draw(world, &mut random);
        let options = MembershipOptions {
            method: METHOD,
            addresses: vec![format!("tcp://node{}:1", node.0)],
            host: format!("host {}", node.0),
            memory_bytes: 1 << 30,
            life,
            rejoining,
        };
        let (clocked, schedule) = (Arc::new(clock.clone()), Arc::new(world.scheduler(node)));
        let membership = Membership::new(options, Arc::default(), clocked, schedule);
        let (connecting, from) = (world.clone(), node);
        let connect = move || connecting.connect_within(from, coordinator, LEASE / 4);
        world.spawn_background(node, membership.clone().run(connect));
        let actor = Actor { node, incarnation, membership: membership.clone(), clock };
        self.seen.borrow_mut().actors.push(actor);
        membership
    }

    pub(crate) fn start_member(&self, world: &World, coordinator: NodeId, number: u64) {
        let stage = self.clone();
        // What survives the process: which member it was, with its regions, as shared memory would.
        let was: Rc<Cell<Option<MemberId>>> = Rc::default();
        self.seen.borrow_mut().places.push(was.clone());
        world.start_restartable(&format!("member {number}"), move |boot| {
            let (stage, was, world, node) = (stage.clone(), was.clone(), boot.world.clone(), boot.node);
            boot.world.spawn_background(boot.node, async move {
                let mut random = world.random(&format!("member {number} {}", boot.incarnation));
                loop {
                    // Half of the lives have lost their memory, and come as somebody new.
                    let keep = random.below(2) == 0;
                    let rejoining = was.get().filter(|_| keep);
                    let membership = stage.act(&world, node, coordinator, rejoining);
                    stage.play(&world, &membership, &was, &mut random).await;
                }
            });
            Box::new(Idle)
        });
    }

    /// A member's life: adds regions, and now and then leaves. Ends when its membership has.
    async fn play(
        &self,
        world: &Handle,
        membership: &Membership,
        was: &Cell<Option<MemberId>>,
        random: &mut Seeded,
    ) {
        loop {
            world.sleep(Duration::from_millis(5 + random.below(100))).await;
            if let Some(member) = membership.member() {
                was.set(Some(member));
                if random.below(4) == 0 && !self.calm.get() {
                    let near =
                        membership.directory().configuration().regions.first().map(|first| first.region);
                    let near = near.filter(|_| random.below(2) == 0);
                    let _ = membership.add_region(near, 2 << 20).await;
                }
                if random.below(60) == 0 && !self.calm.get() {
                    membership.leave().await;
                }
            }
            if is_over(membership) {
                return;
            }
        }
    }

    /// Another process now and then claims to be the first node's member, and goes away again.
    pub(crate) fn start_twin(&self, world: &World, coordinator: NodeId) {
        let node = world.start_client("twin");
        let (stage, world) = (self.clone(), world.handle());
        let handle = world.clone();
        handle.spawn_background(node, async move {
            let mut random = world.random("twin");
            while !stage.calm.get() {
                world.sleep(Duration::from_millis(50 + random.below(400))).await;
                let claimed = stage.seen.borrow().places[0].get();
                let Some(claimed) = claimed.filter(|_| !stage.calm.get()) else { continue };
                let membership = stage.act(&world, node, coordinator, Some(claimed));
                world.sleep(Duration::from_millis(random.below(600))).await;
                membership.leave().await;
            }
        });
    }

    pub(crate) fn start_client(&self, world: &World, coordinator: NodeId, number: u64) {
        let node = world.start_client(&format!("client {number}"));
        let mut random = world.random(&format!("client {number}"));
        let clock = Drifting::draw(world, &mut random);
        let directory: Arc<Directory> = Arc::default();
        let watcher = Watcher { directory: directory.clone(), clock: clock.clone() };
        self.seen.borrow_mut().watchers.push(watcher);
        let world = world.handle();
        let handle = world.clone();
        handle.spawn_background(node, async move {
            loop {
                world.sleep(Duration::from_millis(random.below(40))).await;
                let Ok(connection) = world.connect(node, coordinator).await else { continue };
                while connection.is_open() {
                    let request = Request::Get { known_version: directory.version() };
                    match ask(&connection, METHOD, &request).await {
                        Ok(Response::Current { configuration, .. }) => {
                            configuration.into_iter().for_each(|newer| {
                                directory.install(newer, clock.now());
                            });
                        }
                        _ => break,
                    }
                    world.sleep(Duration::from_millis(random.below(40))).await;
                }
            }
        });
    }
}

pub(crate) fn is_over(membership: &Membership) -> bool {
    use barn_cluster::MembershipState::{Left, Superseded};
    matches!(membership.state(), Left | Superseded(_))
}

/// The coordinator as a service.
#[derive(Clone)]
struct Coordinating {
    coordinator: Rc<RefCell<Coordinator>>,
    clock: Drifting,
    seen: Rc<RefCell<Seen>>,
}

impl Coordinating {
    fn note(&self) {
        self.seen.borrow_mut().established(self.coordinator.borrow().configuration());
    }
}

impl Service for Coordinating {
    fn call(&mut self, asked: Asked<'_>, reply: Reply<'_>) {
        let Ok(request) = wire::decode_request(asked.body) else { return reply.refuse("makes no sense") };
        let response = self.coordinator.borrow_mut().handle(self.clock.now(), request);
        self.note();
        reply.done(&wire::encode_response(&response));
    }
}

/// Serves nothing.
struct Idle;

impl Service for Idle {
    fn call(&mut self, _: Asked<'_>, reply: Reply<'_>) {
        reply.unknown_method();
    }
}

/// A life's number, never given twice.
impl Seen {
    pub(crate) fn next_life(&mut self) -> Life {
        self.lives += 1;
        Life(self.lives)
    }
}
