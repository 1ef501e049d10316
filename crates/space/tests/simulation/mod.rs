//! A cluster that serves spaces and nothing else, on the simulated world.

use barn_cluster::{Configuration, Directory, Life, Member, MemberId};
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::simulated::{self, Dialer, Handle, NodeId, World, WorldOptions};
use barn_fabric::{
    ConnectError, Connection, Deferred, PeerId, Region, RegionError, RegionOptions, Reply, Request, Service,
};
use barn_layout::space::Method;
use barn_space::client::{Boxed, Connector, Environment, Spaces, SpacesOptions};
use barn_space::keeper::{Gate, Keeper, KeeperOptions, KeeperStop};
use barn_space::master::{Answer, Master, MasterOptions, SESSION_LEASE_MIN, Ticket};
use barn_space::message::{Refusal, Response};
use barn_space::wire;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const LEASE: Duration = SESSION_LEASE_MIN;

thread_local! {
    /// What the names of sessions are drawn from: a run's own.
    static NAMES: RefCell<Seeded> = RefCell::new(Seeded::new(0));
}

fn draw() -> u64 {
    NAMES.with_borrow_mut(Random::next)
}

/// Memory whose READs are torn.
fn memory(options: &RegionOptions) -> Result<Region, RegionError> {
    Ok(simulated::region(options.bytes as usize, options.remote))
}

/// A node's part in spaces; the first one's is also the master's.
#[derive(Clone)]
struct Part {
    gate: Arc<Gate>,
    master: Option<Rc<RefCell<Master>>>,
    waiting: Rc<RefCell<HashMap<Ticket, Deferred>>>,
    world: Handle,
}

impl Part {
    fn answer(&self, master: &mut Master) {
        for (ticket, response) in master.take_answers() {
            if let Some(deferred) = self.waiting.borrow_mut().remove(&ticket) {
                deferred.done(wire::encode_response(&response));
            }
        }
    }
}

impl Service for Part {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        if Method::from_bits(request.method) == Some(Method::Enter) {
            return match self.gate.enter(request.peer, request.body) {
                Ok(()) => reply.done(&[]),
                Err(error) => reply.refuse(&error.to_string()),
            };
        }
        let Some(master) = &self.master else {
            return reply.done(&wire::encode_response(&Response::Refused(Refusal::NotMaster)));
        };
        let mut master = master.borrow_mut();
        match wire::decode_request(request.body) {
            Err(error) => return reply.refuse(&error.to_string()),
            Ok(asked) => match master.handle(self.world.now(), request.peer.0, asked) {
                Answer::Now(response) => reply.done(&wire::encode_response(&response)),
                Answer::Later(ticket) => drop(self.waiting.borrow_mut().insert(ticket, reply.later())),
            },
        }
        self.answer(&mut master);
    }

    fn gone(&mut self, peer: PeerId) {
        if let Some(master) = &self.master {
            let mut master = master.borrow_mut();
            master.gone(peer.0);
            self.answer(&mut master);
        }
    }
}

struct ByName(Dialer);

impl Connector for ByName {
    fn connect<'a>(
        &'a self,
        member: &'a Member,
        limit: Duration,
    ) -> Boxed<'a, Result<Connection, ConnectError>> {
        let name = member.addresses.first().map_or("", |address| address.trim_start_matches("simulated:"));
        Box::pin(self.0.connect(name, limit.min(LEASE)))
    }
}

fn configuration(nodes: u32) -> Configuration {
    let members = (0..nodes).map(|id| Member {
        id: MemberId(id),
        life: Life(u64::from(id) + 1),
        addresses: vec![format!("simulated:node-{id}")],
        host: format!("host-{id}"),
        memory_bytes: 0,
    });
    Configuration {
        version: 1,
        lease_ms: LEASE.as_millis() as u64,
        members: members.collect(),
        next_member: nodes,
        rings: 1,
        ..Configuration::default()
    }
}

/// Nodes that serve spaces.
pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) nodes: Vec<NodeId>,
    directory: Arc<Directory>,
}

impl Cluster {
    /// So many nodes with room for so many bytes each.
    pub(crate) fn start(seed: u64, options: WorldOptions, nodes: u32, bytes_each: u64) -> Self {
        NAMES.set(Seeded::new(seed ^ 0x6e61_6d65));
        let world = World::new(seed, options);
        let directory = Arc::new(Directory::new());
        directory.install(configuration(nodes), Duration::ZERO);
        let mut started = Vec::new();
        for id in 0..nodes {
            let registry = world.registry();
            let gate = Arc::new(Gate::new(registry.clone()));
            let master = (id == 0).then(|| {
                let options = MasterOptions { lease: LEASE, ..MasterOptions::default() };
                Rc::new(RefCell::new(Master::new(options, Box::new(world.random("master")))))
            });
            let part = Part { gate: gate.clone(), master, waiting: Rc::default(), world: world.handle() };
            let node = world.start_node(&format!("node-{id}"), registry.clone(), Box::new(part.clone()));
            started.push(node);
            if part.master.is_some() {
                world.spawn_background(node, tick(part, directory.clone()));
            }
            let keeper = KeeperOptions {
                member: MemberId(id),
                life: Life(u64::from(id) + 1),
                registry,
                bytes_max: bytes_each,
                gate,
                counts: Arc::default(),
                schedule: Arc::new(world.scheduler(node)),
                memory,
            };
            let keeper = Keeper::new(keeper, KeeperStop::default()).unwrap();
            let dialer = world.dialer(node);
            world.spawn_background(node, async move {
                keeper.run(|| dialer.connect("node-0", LEASE)).await;
            });
        }
        Self { world, nodes: started, directory }
    }

    /// A client of spaces in a process of its own.
    pub(crate) fn client(&self, name: &str) -> (NodeId, Spaces) {
        let node = self.world.start_client(name);
        let environment = Environment {
            clock: Arc::new(self.world.clock()),
            schedule: Arc::new(self.world.scheduler(node)),
            connector: Arc::new(ByName(self.world.dialer(node))),
            directory: self.directory.clone(),
            configuration_method: 8,
            random: draw,
        };
        let options = SpacesOptions { deadline: LEASE, ..SpacesOptions::default() };
        (node, Spaces::new(environment, options))
    }
}

/// Tells the master what time it is.
async fn tick(part: Part, directory: Arc<Directory>) {
    let Some(master) = &part.master else { return };
    loop {
        let every = {
            let mut master = master.borrow_mut();
            master.tick(part.world.now(), &directory.configuration());
            part.answer(&mut master);
            master.tick_every()
        };
        part.world.sleep(every).await;
    }
}
