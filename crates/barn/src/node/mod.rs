//! A node: memory, objects, transactions, its place in a cluster. Embedded in a process, or run by
//! `barn serve`.
//!
//! The first node of a cluster coordinates it; others join it. A node has four threads: the poll
//! loop, which alone changes its memory; its membership, which renews its lease; its resolver,
//! which ends what lost clients have left; and its keeper, which makes and scrubs the chunks of spaces.

mod config;
mod durable;
mod figures;
mod histogram;
mod memory;
mod restart;
mod service;
mod spaces;
mod threads;

pub use barn_log::{LogStats, Progress, RecoveryReport, RecoveryStage};
pub use barn_space::keeper::ChunkUsage;
pub use config::{NodeConfig, REGION_BYTES_DEFAULT, ShowProgress};
pub use figures::{Figures, Handled, Probe, ShardFigures, Times};
pub use histogram::{Histogram, ONE_IN};
pub use restart::Recovery;
pub use service::{NodeView, Rest, Traffic};
pub use threads::ByHand;

use crate::connect::environment;
use crate::error::Error;
use barn_cluster::{
    AskError, Coordinator, CoordinatorOptions, Directory, FileStore, Life, MemberId, Membership,
    MembershipOptions, MembershipState, MemoryStore, RegionPlacement,
};
use barn_fabric::seam::{Clock, SystemClock, SystemDisk, Threads, system_random};
use barn_fabric::{
    ConnectOptions, Connection, NodeOptions, NodeStats, Region, RegionId, Registry, Rights, Stopper,
    VerbsOption, block_on,
};
use barn_heap::{Heap, HeapOptions};
use barn_index::node::{Reopened, Tables};
use barn_layout::Durability;
use barn_space::keeper::{ChunkCounts, Gate, Keeper, KeeperOptions, KeeperStop};
use barn_transaction::participant::{Participant, ParticipantOptions};
use durable::Durable;
use figures::Board;
use service::{Arrival, NodeService};
use spaces::SpaceService;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use threads::HandOver;

/// The method by which nodes answer questions about their cluster.
pub const CLUSTER_METHOD: u16 = 8;

/// The method by which a node's clock tells it that time has passed.
const CLOCK_METHOD: u16 = 9;

/// How long a node may take to find its place in a cluster.
const JOIN_MAX: Duration = Duration::from_secs(15);

/// A running node. It stops when it is dropped.
pub struct Node {
    member: MemberId,
    shm: Option<PathBuf>,
    tcp: Option<SocketAddr>,
    regions: Vec<(RegionId, Region)>,
    membership: Membership,
    board: Arc<Board>,
    stats: Arc<NodeStats>,
    clock: SystemClock,
    stopper: Stopper,
    stopping: Arc<AtomicBool>,
    keeper: KeeperStop,
    threads: Vec<JoinHandle<()>>,
    hand_over: Arc<HandOver>,
    failed: Arc<Mutex<Option<String>>>,
    /// A directory that was made for its socket.
    directory: Option<PathBuf>,
    /// What it found in its log when it started.
    recovery: Option<Recovery>,
    /// Whether it coordinates its cluster.
    coordinates: bool,
    /// Whether its poll loop has ended.
    ended: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({:?}, {} regions)", self.member, self.regions.len())
    }
}

fn failed(what: &str) -> impl Fn(String) -> Error {
    move |why| Error::Node(format!("{what}: {why}"))
}

impl Node {
    /// Starts a node, and returns when it serves.
    pub fn start(config: NodeConfig) -> Result<Self, Error> {
        Self::start_with(config, None)
    }

    /// Starts a node that also answers methods of others: see [`Rest`].
    pub fn start_with(config: NodeConfig, rest: Option<Box<dyn Rest>>) -> Result<Self, Error> {
        let begun = Instant::now();
        // First of all: no other process may have the directory, and nobody can connect until all is back.
        let (mut durable, earlier) = match config.data.as_deref().filter(|_| config.is_durable()) {
            Some(path) => {
                let (durable, earlier) = Durable::open(path, &config)?;
                (Some(durable), earlier)
            }
            None => (None, None),
        };
        let opened_in = begun.elapsed();
        let clock = SystemClock::default();
        let registry = config.registry.clone().unwrap_or_default();
        let directory = Arc::new(Directory::new());
        let fabric_options = NodeOptions {
            shm: config.shm.clone(),
            tcp: config.tcp,
            verbs: config.verbs.clone(),
            token: config.token.clone(),
            allow_unauthenticated: config.allow_unauthenticated,
            ..NodeOptions::default()
        };
        let node = barn_fabric::Node::bind(fabric_options, registry.clone())
            .map_err(|error| Error::Node(error.to_string()))?;
        let coordinator = match &config.join {
            None => Some(coordinator(&config, clock.now())?),
            Some(_) => None,
        };
        let (shm, tcp) = (node.shm_path().map(Path::to_path_buf), node.tcp_address());
        let addresses: Vec<String> = shm
            .iter()
            .map(|path| format!("shm:{}", path.display()))
            .chain(tcp.iter().map(|address| format!("tcp://{address}")))
            // Last: whoever is not told otherwise goes by tcp, which needs no device.
            .chain(tcp.iter().filter(|_| config.verbs != VerbsOption::Off).map(|at| format!("verbs://{at}")))
            .collect();
        let Some(own_address) = addresses.first().cloned() else {
            return Err(Error::Node("a node needs a Unix socket or a tcp address".into()));
        };
        let stopper = node.stopper();
        let stats = node.stats();
        let arriving = Arc::new(Mutex::new(None));
        let board = Arc::new(Board::new(clock));
        let gate = Arc::new(Gate::new(registry.clone()));
        let counts = Arc::new(ChunkCounts::default());
        let master_lease = coordinator.as_ref().map(|coordinator| coordinator.configuration().lease());
        // A tenth: a coordinator wants to be reminded of its leases so often.
        let clock_interval = master_lease.unwrap_or(config.lease) / 10;
        let spaces = SpaceService::new(gate.clone(), counts.clone(), master_lease);
        let service = NodeService::new(
            coordinator,
            clock,
            directory.clone(),
            arriving.clone(),
            rest,
            (stats.clone(), board.clone()),
            spaces,
        );
        let trouble: Arc<Mutex<Option<String>>> = Arc::default();
        let hand_over = Arc::new(HandOver::default());
        let mut threads = vec![threads::poll_loop(node, service, trouble.clone(), hand_over.clone())?];
        let connect_options = ConnectOptions { token: config.token.clone(), ..ConnectOptions::default() };
        let (has_started, stopping): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();

        // From here on the node can be asked for its place in the cluster, also by itself.
        let membership = Membership::new(
            MembershipOptions {
                method: CLUSTER_METHOD,
                addresses,
                host: crate::connect::host(),
                memory_bytes: config.memory_bytes,
                life: Life(random()),
                rejoining: earlier.as_ref().map(|earlier| earlier.member),
            },
            directory.clone(),
            Arc::new(clock),
            Arc::new(Threads),
        );
        let coordinator_address = config.join.clone().unwrap_or_else(|| own_address.clone());
        let (dial_options, keeper_options) = (connect_options.clone(), connect_options.clone());
        let keeper_address = coordinator_address.clone();
        threads.push(threads::membership(membership.clone(), move || {
            Connection::connect(&coordinator_address, dial_options.clone())
        })?);
        // Also while the node waits for its place: an earlier life of it may hold a lease that has to end.
        let (clock_address, clock_options) = (own_address, connect_options.clone());
        let connect = move || Connection::connect(&clock_address, clock_options.clone());
        threads.push(threads::clock(connect, clock_interval, has_started.clone(), stopping.clone())?);
        let mut started = Self {
            member: MemberId(0),
            shm,
            tcp,
            regions: Vec::new(),
            membership,
            board,
            stats,
            clock,
            stopper,
            stopping,
            keeper: KeeperStop::default(),
            threads,
            hand_over,
            failed: trouble,
            directory: config.own_directory.clone(),
            recovery: None,
            coordinates: config.join.is_none(),
            ended: false,
        };
        started.member = started.await_membership()?;
        let joined = Instant::now();
        let mut heap = Heap::new(HeapOptions { budget_bytes: config.memory_bytes.max(1) });
        if durable.is_some() {
            heap.record_changes();
        }
        let recovered = match earlier {
            Some(earlier) => Some(started.take_back(earlier, &registry, &mut heap)?),
            None => None,
        };
        started.take_memory(&config, &registry, &mut heap)?;
        let keeper = KeeperOptions {
            member: started.member,
            life: started.membership.life(),
            registry: registry.clone(),
            bytes_max: config.space_bytes(),
            gate,
            counts,
            schedule: Arc::new(Threads),
            memory: Region::allocate,
        };
        let keeper = Keeper::new(keeper, started.keeper.clone())
            .map_err(|error| failed("the marks of chunks")(error.to_string()))?;
        started.threads.push(threads::keeper(keeper, move || {
            Connection::connect(&keeper_address, keeper_options.clone())
        })?);
        let lease = Duration::from_millis(directory.configuration().lease_ms);
        let mut participant = Participant::new(ParticipantOptions {
            member: started.member,
            heap,
            registry,
            regions: started.regions.iter().map(|(id, _)| *id).collect(),
            directory: directory.clone(),
            lease,
            clock: Arc::new(clock),
            functions: config.functions,
            standing: Some(Box::new({
                let membership = started.membership.clone();
                move || membership.lease()
            })),
        });
        let mut tables = Tables::default();
        let mut reopened = Reopened::default();
        if let Some(recovered) = &recovered {
            reopened =
                restart::restore(recovered, &mut participant, &mut tables, &directory.configuration())?;
        }
        if let Some(durable) = &mut durable {
            participant.offer(Durability::Synced);
            if let Some(record) = participant.changes() {
                Durable::remember(started.member, record);
                durable.settle(record)?;
            }
        }
        started.recovery = recovered.map(|recovered| Recovery {
            log: recovered.report,
            shards: reopened.shards,
            keys: reopened.keys,
            took: opened_in + joined.elapsed(),
        });
        let regions = started.regions.iter().map(|(id, region)| (*id, region.words().clone())).collect();
        let arrival = Arrival { participant, tables, durable, regions };
        *arriving.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(arrival);
        let environment = environment(connect_options, clock, None);
        started.threads.push(threads::resolver(
            barn_transaction::resolver::ResolverOptions {
                member: started.member,
                directory,
                lease,
                environment,
            },
            started.stopping.clone(),
        )?);
        // ORDER: Relaxed: a flag that stands alone.
        has_started.store(true, Ordering::Relaxed);
        Ok(started)
    }

    /// Waits until the node is a member.
    fn await_membership(&self) -> Result<MemberId, Error> {
        let until = Instant::now() + JOIN_MAX;
        loop {
            match self.membership.state() {
                MembershipState::Member(member) => return Ok(member),
                MembershipState::Joining => {}
                other => return Err(Error::Node(format!("the node did not become a member: {other:?}"))),
            }
            if Instant::now() > until {
                let why = self.membership.trouble().unwrap_or_else(|| "no answer".into());
                return Err(Error::Node(format!("the cluster did not take the node in: {why}")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes the node's memory, or what it should have beyond what it has, and numbers for it from the
    /// cluster.
    fn take_memory(
        &mut self,
        config: &NodeConfig,
        registry: &Registry,
        heap: &mut Heap,
    ) -> Result<(), Error> {
        let mut near = self.regions.last().map(|(id, _)| *id);
        let held: u64 = self.regions.iter().map(|(_, region)| region.bytes()).sum();
        for region in memory::allocate(&config.regions(held).collect::<Vec<_>>())? {
            let placed = self.place_region(near, region.bytes())?;
            register(registry, placed.region, &region)?;
            heap.add_region(placed.region, region.words().clone())
                .map_err(|error| failed("the node's memory")(error.to_string()))?;
            near = Some(placed.region);
            self.regions.push((placed.region, region));
        }
        Ok(())
    }

    /// Gets a region's number from the cluster, again if the node's lease has just ended.
    fn place_region(&self, near: Option<RegionId>, bytes: u64) -> Result<RegionPlacement, Error> {
        let until = Instant::now() + JOIN_MAX;
        loop {
            match block_on(self.membership.add_region(near, bytes)) {
                Ok(placed) => return Ok(placed),
                Err(AskError::NotJoined | AskError::Call(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(failed("the cluster gave no region")(error.to_string())),
            }
        }
    }

    /// Its number in the cluster.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// Where processes of this host connect; where there is no Unix socket, by tcp.
    pub fn address(&self) -> Option<String> {
        let shm = self.shm.as_ref().map(|path| format!("shm:{}", path.display()));
        shm.or_else(|| self.tcp.map(|address| format!("tcp://{address}")))
    }

    /// The Unix socket, if there is one.
    pub fn shm_path(&self) -> Option<&Path> {
        self.shm.as_deref()
    }

    /// The tcp address, if there is one.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// The regions that hold its objects.
    pub fn regions(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        self.regions.iter().map(|(id, region)| (*id, region))
    }

    /// What it found in its log when it started, if there was anything.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Who is in the cluster, as far as the node knows.
    pub fn directory(&self) -> &Arc<Directory> {
        self.membership.directory()
    }

    /// Looks at the node from any thread, also after it was moved elsewhere.
    pub fn probe(&self) -> Probe {
        Probe {
            board: self.board.clone(),
            stats: self.stats.clone(),
            membership: self.membership.clone(),
            clock: self.clock,
            member: self.member,
        }
    }

    /// Stops the poll loop, from any thread; [`Self::wait`] returns then.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Takes the poll loop from its thread: from now on the node serves only while the caller turns it.
    /// For programs that count what node and client do, without one waiting for the other.
    pub fn by_hand(&mut self) -> Result<ByHand, Error> {
        let gone = || Error::Node("the node's poll loop has ended: start another node".into());
        if self.ended || self.threads.is_empty() {
            return Err(gone());
        }
        // ORDER: Relaxed: stopping the loop orders it.
        self.hand_over.wanted.store(true, Ordering::Relaxed);
        self.stopper.stop();
        let _ = self.threads.remove(0).join();
        self.ended = true;
        let given = self.hand_over.given.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        given.ok_or_else(gone)
    }

    /// Waits until the node has been stopped; an error if it stopped by itself.
    pub fn wait(mut self) -> Result<(), Error> {
        if !self.threads.is_empty() {
            let _ = self.threads.remove(0).join();
            self.ended = true;
        }
        let why = self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        why.map_or(Ok(()), |why| Err(Error::Node(why)))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // ORDER: Relaxed: a flag that stands alone; the threads look at it again and again.
        self.stopping.store(true, Ordering::Relaxed);
        self.keeper.stop();
        match self.coordinates && self.ended {
            false => block_on(self.membership.leave()),
            // The coordinator ended with the loop. Nobody is there to be told, and a lease may be long.
            true => block_on(self.membership.leave_within(Duration::ZERO)),
        }
        self.stopper.stop();
        for thread in self.threads.drain(..) {
            // Clock and resolver rest for a tenth of a lease, which may be a minute. Waking them once is not
            // enough: what they wait for in their rounds may take that for an answer.
            while !thread.is_finished() {
                thread.thread().unpark();
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = thread.join();
        }
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

fn register(registry: &Registry, id: RegionId, region: &Region) -> Result<(), Error> {
    registry
        .register(id, region.clone(), Rights::NONE)
        .map(|_| ())
        .map_err(|error| failed("the region was not registered")(error.to_string()))
}

/// The coordinator of a new cluster, or of the one that the data directory remembers.
fn coordinator(config: &NodeConfig, now: Duration) -> Result<Coordinator, Error> {
    let store: Box<dyn barn_cluster::ConfigurationStore> = match &config.data {
        None => Box::new(MemoryStore::new()),
        Some(path) => {
            let why = |error: String| Error::Node(format!("the data directory {}: {error}", path.display()));
            let disk = SystemDisk::at(path).map_err(|error| why(error.to_string()))?;
            Box::new(FileStore::open(Arc::new(disk)).map_err(|error| why(error.to_string()))?)
        }
    };
    let options = CoordinatorOptions { lease: config.lease, seed: random(), ..CoordinatorOptions::default() };
    Coordinator::start(store, options, now)
        .map_err(|error| failed("the cluster's coordinator")(error.to_string()))
}

/// A number that nobody can guess.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without the system's numbers the clock's have to do: these only need to differ.
    if system_random(&mut bytes).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        return now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(40);
    }
    u64::from_le_bytes(bytes)
}
