//! What a node answers: its cluster's questions, its clients' transactions, and the rest.

use super::durable::Durable;
use super::figures::{Board, Figures, Handled, ShardFigures, Times};
use super::spaces::SpaceService;
use super::{CLOCK_METHOD, CLUSTER_METHOD};
use barn_cluster::{Configuration, Coordinator, Directory, Request as ClusterRequest, Response, wire};
use barn_fabric::seam::{Clock, SystemClock};
use barn_fabric::{NodeStats, PeerId, RegionId, Reply, Request, Service, Words};
use barn_heap::Usage;
use barn_index::Durability;
use barn_index::node::{Now, ShardStats, Surroundings, Tables};
use barn_index::wire as table_wire;
use barn_layout::space;
use barn_log::{LogStats, Position, Record};
use barn_space::keeper::ChunkUsage;
use barn_transaction::FENCED;
use barn_transaction::participant::{Asked, Participant, ParticipantStats};
use barn_transaction::wire::{METHODS_END, Method};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What a node's other methods can see of it.
#[derive(Debug)]
pub struct NodeView {
    /// Peers connected now.
    pub peers: u64,
    /// What its memory is used for; none before it is ready.
    pub usage: Option<Usage>,
    /// What its transactions did.
    pub transactions: ParticipantStats,
    /// Clients that have a session.
    pub clients: u64,
    /// Transactions that wait for their decision.
    pub undecided: u64,
    /// What came over its connections.
    pub traffic: Traffic,
    /// The shards that it holds: table, shard, what is in it.
    pub shards: Vec<(u32, u16, ShardStats)>,
    /// The newest configuration that it knows: the coordinator's own, where it coordinates.
    pub configuration: Configuration,
    /// Its log, if it has one.
    pub log: Option<LogStats>,
    /// Its chunks of spaces.
    pub spaces: ChunkUsage,
}

/// What came over a node's connections since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Peers accepted.
    pub accepted: u64,
    /// Newcomers refused.
    pub refused: u64,
    /// Peers disconnected because of what they sent.
    pub expelled: u64,
    /// Requests and messages.
    pub messages: u64,
    /// One-sided operations that the tcp agent carried out.
    pub one_sided: u64,
}

/// Methods of a node besides those of clusters and transactions.
pub trait Rest: Send {
    /// Answers a request; `node` gives a view of the node to whoever needs one.
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>, node: &dyn Fn() -> NodeView);
}

/// A node's service.
pub(super) struct NodeService {
    coordinator: Option<Coordinator>,
    clock: SystemClock,
    directory: Arc<Directory>,
    participant: Option<Participant>,
    /// Where the rest is put once the node has its place.
    arriving: Arc<Mutex<Option<Arrival>>>,
    rest: Option<Box<dyn Rest>>,
    stats: Arc<NodeStats>,
    tables: Tables,
    durable: Option<Durable>,
    /// The node's memory, for checkpoints.
    regions: Vec<(RegionId, Words)>,
    /// An answer in the making.
    answer: Vec<u8>,
    times: Times,
    board: Arc<Board>,
    /// Peers that were refused and expelled, as was last said.
    said: (u64, u64),
    spaces: SpaceService,
}

/// What the service gets once the node has its place in the cluster, and its memory.
pub(super) struct Arrival {
    pub(super) participant: Participant,
    pub(super) tables: Tables,
    pub(super) durable: Option<Durable>,
    pub(super) regions: Vec<(RegionId, Words)>,
}

impl fmt::Debug for NodeService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeService").field("participant", &self.participant).finish()
    }
}

impl NodeService {
    pub(super) fn new(
        coordinator: Option<Coordinator>,
        clock: SystemClock,
        directory: Arc<Directory>,
        arriving: Arc<Mutex<Option<Arrival>>>,
        rest: Option<Box<dyn Rest>>,
        (stats, board): (Arc<NodeStats>, Arc<Board>),
        spaces: SpaceService,
    ) -> Self {
        Self {
            coordinator,
            clock,
            directory,
            participant: None,
            arriving,
            rest,
            stats,
            tables: Tables::default(),
            durable: None,
            regions: Vec::new(),
            answer: Vec::new(),
            times: Times::default(),
            board,
            said: (0, 0),
            spaces,
        }
    }

    /// Writes down what was counted, for others to see.
    fn publish(&mut self) {
        let configuration = self.directory.configuration();
        let name = |table| configuration.table(table).map_or_else(String::new, |placed| placed.name.clone());
        let shards = self.tables.stats();
        let shards =
            shards.map(|(table, shard, stats)| ShardFigures { name: name(table), table, shard, stats });
        let participant = self.participant.as_ref();
        self.board.publish(Figures {
            operations: self.tables.operations(),
            transactions: participant.map(Participant::stats).unwrap_or_default(),
            held: participant.map_or(0, |participant| participant.waiting() as u64),
            sessions: participant.map_or(0, |participant| participant.sessions() as u64),
            epoch: participant.map_or(0, |participant| participant.heap().epoch()),
            usage: participant.map(|participant| participant.heap().usage()),
            shards: shards.collect(),
            times: self.times.clone(),
            log: self.durable.as_ref().and_then(Durable::figures),
            spaces: self.spaces.usage(),
        });
        // However many come at once, one line tells of them.
        // ORDER: Relaxed: counters.
        let now = (self.stats.refused.load(Ordering::Relaxed), self.stats.expelled.load(Ordering::Relaxed));
        if now != self.said {
            let (refused, expelled) = (now.0 - self.said.0, now.1 - self.said.1);
            tracing::warn!(refused, expelled, "peers were turned away: wrong token, too many, or garbage");
            self.said = now;
        }
    }

    /// The participant, once it is there.
    #[inline]
    fn participant(&mut self) -> Option<&mut Participant> {
        if self.participant.is_none() {
            let arrived = self.arriving.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            let Arrival { participant, tables, durable, regions } = arrived?;
            (self.participant, self.tables) = (Some(participant), tables);
            (self.durable, self.regions) = (durable, regions);
        }
        self.participant.as_mut()
    }

    fn cluster(&mut self, body: &[u8]) -> Response {
        let request = match wire::decode_request(body) {
            Ok(request) => request,
            Err(error) => {
                return Response::Refused(barn_cluster::Refusal::Unavailable { why: error.to_string() });
            }
        };
        if let Some(coordinator) = &mut self.coordinator {
            let (now, before) = (self.clock.now(), coordinator.configuration().version);
            let response = coordinator.handle(now, request);
            // At once: with a long lease the clock has much time, and who has joined may want to keep chunks.
            if coordinator.configuration().version != before {
                self.spaces.tick(now, coordinator.configuration());
            }
            return response;
        }
        match request {
            ClusterRequest::Get { known_version } => {
                let configuration = self.directory.configuration();
                let version = configuration.version;
                let newer = (version > known_version).then(|| (*configuration).clone());
                Response::Current { version, configuration: newer }
            }
            _ => Response::Refused(barn_cluster::Refusal::Unavailable {
                why: "this node does not coordinate its cluster: ask the node that was started first".into(),
            }),
        }
    }

    /// Answers a request of the transaction layer.
    fn transaction(&mut self, request: Request<'_>, reply: Reply<'_>) {
        if self.participant().is_none() {
            return reply.busy();
        }
        let Self { participant: Some(participant), durable, answer, .. } = self else { return reply.busy() };
        let Some(method) = Method::from_bits(request.method) else { return reply.unknown_method() };
        if let Some(durable) = durable
            && matches!(method, Method::Prepare | Method::Ship)
            && let Err(why) = durable.admits()
        {
            return reply.refuse(&why);
        }
        answer.clear();
        let done = participant.handle(request.peer, method, request.body, answer);
        let asked = participant.take_asked();
        let position = harvest(participant, durable);
        match (done, durable) {
            (Ok(()), Some(durable)) => durable.answer(reply, answer, position, asked),
            (Ok(()), None) => reply.done(answer),
            (Err(why), _) => reply.refuse(&why),
        }
    }

    /// What has to be done now and then, whether somebody asks for something or not.
    fn time_has_passed(&mut self) {
        if let Some(coordinator) = &mut self.coordinator {
            // A store that fails now will fail the next request that needs it.
            let now = self.clock.now();
            let _ = coordinator.tick(now);
            self.spaces.tick(now, coordinator.configuration());
        }
        let Self { participant, tables, coordinator, directory, .. } = self;
        if let Some(heap) = participant.as_mut().and_then(Participant::heap_mut) {
            match coordinator {
                Some(coordinator) => tables.tend(heap, coordinator.configuration()),
                None => tables.tend(heap, &directory.configuration()),
            }
        }
        self.publish();
        self.checkpoint();
        self.idle();
    }

    /// Begins a checkpoint, if it is time for one.
    fn checkpoint(&mut self) {
        let Self { participant: Some(participant), durable: Some(durable), tables, regions, .. } = self
        else {
            return;
        };
        if durable.wants_checkpoint() {
            let mut notes = Record::default();
            Durable::remember(participant.member(), &mut notes);
            tables.remember(participant.heap(), &mut notes);
            participant.remember(&mut notes);
            if let Some(record) = participant.changes() {
                durable.checkpoint(record, &notes, regions.clone());
            }
        }
    }

    /// Answers a request about a table.
    fn table(&mut self, request: Request<'_>, reply: Reply<'_>) {
        if self.participant().is_none() {
            return reply.busy();
        }
        let Self { participant: Some(participant), coordinator, directory, tables, answer, durable, .. } =
            self
        else {
            return reply.busy();
        };
        let changes = request.method == table_wire::Method::Update as u16;
        if let Some(durable) = durable
            && changes
            && let Err(why) = durable.admits()
            && !tables.is_volatile(request.body)
        {
            return reply.refuse(&why);
        }
        let member = participant.member();
        let changed = participant.take_changed_tables();
        let Some(heap) = participant.heap_mut() else {
            return reply.refuse(&format!("{FENCED} and serves nobody until it is back"));
        };
        // The coordinator's own node knows of a new table before anybody else does.
        let known;
        let configuration = match coordinator {
            Some(coordinator) => coordinator.configuration(),
            None => {
                known = directory.configuration();
                &*known
            }
        };
        let now = Now::default();
        let durability = durable.as_ref().map_or(Durability::Memory, Durable::usual);
        let node = Surroundings { heap, configuration, member, now: &now, changed, durability };
        answer.clear();
        let handled = tables.handle(node, request.method, request.body, answer);
        // Of requests that only look, nobody waits for the disk.
        let handled = handled.map(|handled| if changes { handled.durability } else { Durability::Memory });
        if let (Ok(durability), Some(durable)) = (&handled, &mut *durable)
            && participant.changes().is_some_and(|record| durable.may_wait(record, *durability))
        {
            return reply.done(answer);
        }
        let position = harvest(participant, durable);
        match (handled, durable) {
            (Ok(durability), Some(durable)) => {
                let asked = Asked { durability: Some(durability), together: false };
                durable.answer(reply, answer, position, asked);
            }
            (Ok(_), None) => reply.done(answer),
            (Err(why), _) => reply.refuse(&why),
        }
    }

    /// Hands the log what has changed; nobody waits for it.
    fn harvest(&mut self) {
        self.with_log(|_, _| {});
    }

    /// Hands the log what has changed, and does something with it.
    #[inline]
    fn with_log(&mut self, act: impl FnOnce(&mut Durable, &mut Record)) {
        if let Self { participant: Some(participant), durable: Some(durable), .. } = self
            && let Some(record) = participant.changes()
        {
            durable.take(record);
            act(durable, record);
        }
    }

    fn view(&self) -> NodeView {
        // ORDER: Relaxed: counters, of which nothing else follows.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let participant = self.participant.as_ref();
        NodeView {
            peers: count(&self.stats.peers),
            usage: participant.map(|participant| participant.heap().usage()),
            transactions: participant.map(Participant::stats).unwrap_or_default(),
            clients: participant.map_or(0, Participant::clients) as u64,
            undecided: participant.map_or(0, Participant::waiting) as u64,
            traffic: Traffic {
                accepted: count(&self.stats.accepted),
                refused: count(&self.stats.refused),
                expelled: count(&self.stats.expelled),
                messages: count(&self.stats.messages),
                one_sided: count(&self.stats.operations),
            },
            shards: self.tables.stats().collect(),
            configuration: match &self.coordinator {
                Some(coordinator) => coordinator.configuration().clone(),
                None => (*self.directory.configuration()).clone(),
            },
            log: self.durable.as_ref().and_then(Durable::figures),
            spaces: self.spaces.usage(),
        }
    }
}

/// Hands the log what has changed; where that ends in the log.
#[inline]
fn harvest(participant: &mut Participant, durable: &mut Option<Durable>) -> Option<Position> {
    let (durable, record) = durable.as_mut().zip(participant.changes())?;
    durable.take(record)
}

impl Service for NodeService {
    #[inline]
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let (method, began) = (request.method, self.times.begin());
        self.serve(request, reply);
        if began.is_some() {
            self.times.end(began, handled(method));
        }
    }

    #[inline]
    fn expect(&mut self, requests: &[Request<'_>]) {
        if let Some(participant) = &self.participant {
            if let [request] = requests {
                return self.tables.expect_alone(participant.heap(), request.method, request.body);
            }
            let requests = requests.iter().map(|request| (request.method, request.body));
            self.tables.expect(participant.heap(), requests);
        }
    }

    fn message(&mut self, peer: PeerId, body: &[u8]) {
        if let Some(participant) = self.participant() {
            participant.message(peer, body);
            self.harvest();
        }
    }

    fn gone(&mut self, peer: PeerId) {
        self.spaces.gone(peer);
        if let Some(participant) = self.participant() {
            participant.gone(peer);
            self.harvest();
        }
    }

    fn pause(&mut self) {
        self.with_log(Durable::pause);
    }

    fn idle(&mut self) {
        self.with_log(Durable::turn);
    }
}

/// What a method is about.
fn handled(method: u16) -> Handled {
    match method {
        _ if method == table_wire::Method::Get as u16 => Handled::TableGet,
        _ if method == table_wire::Method::Update as u16 => Handled::TableUpdate,
        _ if (Method::Prepare as u16..=Method::Validate as u16).contains(&method) => Handled::Transaction,
        _ => Handled::Other,
    }
}

impl Drop for NodeService {
    fn drop(&mut self) {
        self.with_log(Durable::stop);
    }
}

impl NodeService {
    #[inline]
    fn serve(&mut self, request: Request<'_>, reply: Reply<'_>) {
        if (Method::Hello as u16..METHODS_END).contains(&request.method) {
            return self.transaction(request, reply);
        }
        if (table_wire::Method::Get as u16..table_wire::METHODS_END).contains(&request.method) {
            return self.table(request, reply);
        }
        if (space::METHODS_START..space::METHODS_END).contains(&request.method) {
            return self.spaces.call(self.clock.now(), request, reply);
        }
        if request.method == CLUSTER_METHOD {
            let response = self.cluster(request.body);
            return reply.done(&wire::encode_response(&response));
        }
        if request.method == CLOCK_METHOD {
            self.time_has_passed();
            return reply.done(&[]);
        }
        let Some(mut rest) = self.rest.take() else { return reply.unknown_method() };
        rest.call(request, reply, &|| self.view());
        self.rest = Some(rest);
    }
}
