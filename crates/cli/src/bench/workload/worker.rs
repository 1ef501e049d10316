//! A client process: its threads, their stores, and one window after another.
//!
//! Stores are opened, and traces drawn, when they are first asked for and before the clock runs.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Barrier};
use std::thread;

use barn::node::NodeConfig;
use barn::{Barn, Connect, Table};
use barn_fabric::ConnectOptions;
use serde::{Deserialize, Serialize};

use super::choose::Law;
use super::clock::Real;
use super::drive::{Done, Lane, Pace, Plan};
use super::latency::{Counted, Latencies};
use super::mix::Mix;
use super::shape::Shape;
use super::site::{self, ORDERED, TABLE};
#[cfg(feature = "peers")]
use super::store::Dashmap;
use super::store::{BarnStore, LockedBTree, Map, MapStore, MemcachedStore, RedisStore, Store, Tally};
use super::subject::{Cell, Subject};
use super::trace::{Inserts, Trace};
use crate::bench::client;
use crate::bench::node::NODE_CORE;
use crate::bench::peer::link::Place;
use crate::bench::timing::pin;

/// What a client process connects to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) shape: Shape,
    pub(crate) records: u64,
    /// Operations drawn in advance, for each thread and workload.
    pub(crate) steps: usize,
    pub(crate) seed: u64,
    /// The kind of table that an embedded node has.
    pub(crate) kind: String,
    pub(crate) shm: String,
    pub(crate) tcp: String,
    /// Over RDMA: where the node is, and the address that clients come from.
    pub(crate) verbs: Option<(String, IpAddr)>,
    pub(crate) peers: Vec<(Subject, Place)>,
    /// Peers' clients spin.
    pub(crate) spin: bool,
}

/// One window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) cell: Cell,
    /// The cell's number among all that are measured, by which its threads' inserts differ from others'.
    pub(crate) number: u64,
    pub(crate) cells: u64,
    /// How records are chosen.
    pub(crate) law: Law,
    pub(crate) slice_ns: u64,
    pub(crate) pace: Pace,
    pub(crate) inserts_max: u64,
    pub(crate) round: usize,
    /// Threads of this process, the first one's number, and how many there are in all processes.
    pub(crate) threads: u64,
    pub(crate) first: u64,
    pub(crate) threads_in_all: u64,
    /// The core to stay on; any if none.
    pub(crate) core: Option<usize>,
}

/// What all threads of a process did in a window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    /// Operations a second, of all threads together.
    pub(crate) rate: f64,
    pub(crate) unserved: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) latencies: Counted,
    pub(crate) tally: Tally,
}

/// Runs until standard input ends.
pub(crate) fn run() -> io::Result<()> {
    let everywhere = rustix::thread::sched_getaffinity(None)?;
    client::serve(
        |setup: &Setup| {
            Ok(Worker {
                setup: setup.clone(),
                stores: Vec::new(),
                lanes: Vec::new(),
                traces: Vec::new(),
                embedded: None,
            })
        },
        |worker, order: &Order| {
            // A node that is started here, and its threads, are not kept on the client's core.
            rustix::thread::sched_setaffinity(None, &everywhere)?;
            worker.window(order)
        },
    )
}

/// One for each thread.
type Stores = Vec<Box<dyn Store>>;

/// A thread's place in a workload.
struct Position {
    trace: Trace,
    inserts: Inserts,
}

struct Worker {
    setup: Setup,
    /// Each subject's stores, with or without an order, one for each thread.
    stores: Vec<((Subject, bool), Stores)>,
    /// What each thread does in each workload: the same to everybody, and drawn once.
    traces: Vec<((Mix, u64), Trace)>,
    /// Each cell's lanes, one for each thread.
    lanes: Vec<(u64, Vec<Position>)>,
    embedded: Option<Embedded>,
}

/// A node in this process, and what it was loaded with.
struct Embedded {
    barn: Barn,
    _table: Table,
    tree: Option<Table>,
}

impl Worker {
    fn window(&mut self, order: &Order) -> io::Result<Outcome> {
        let stores = self.open(order.cell, order)?;
        let lanes = self.draw(order);
        let (stores, lanes) = (&mut self.stores[stores].1, &mut self.lanes[lanes].1);
        let start = Barrier::new(order.threads as usize);
        let before = cpu_now();
        let each = stores.iter_mut().zip(lanes).enumerate().map(|(thread, (store, lane))| {
            let plan = plan(order, thread as u64, self.setup.seed);
            lane.trace.begin(order.round);
            (plan, store, lane)
        });
        let done: Vec<io::Result<Done>> = thread::scope(|scope| {
            let threads: Vec<_> = each
                .map(|(plan, store, lane)| {
                    let start = &start;
                    scope.spawn(move || {
                        if let Some(core) = order.core {
                            pin(None, core);
                        }
                        let mut lane = Lane {
                            store: store.as_mut(),
                            trace: &mut lane.trace,
                            inserts: &mut lane.inserts,
                        };
                        start.wait();
                        lane.run(&plan, &Real::start())
                    })
                })
                .collect();
            let failed = |_| Err(io::Error::other("a client panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
        });
        let mut outcome = Outcome { cpu_seconds: cpu_now() - before, ..Outcome::default() };
        let mut latencies = Latencies::default();
        for done in done {
            let done = done?;
            outcome.operations += done.operations;
            outcome.rate += done.operations as f64 * 1e9 / done.nanoseconds.max(1) as f64;
            outcome.unserved += done.unserved;
            outcome.tally = outcome.tally.and(done.tally);
            latencies.add(&done.latencies.counted());
        }
        outcome.latencies = latencies.counted();
        Ok(outcome)
    }

    /// Opens a subject's stores, unless they are open; gives where they are.
    fn open(&mut self, Cell { subject, mix, .. }: Cell, order: &Order) -> io::Result<usize> {
        let ordered = mix.is_ordered();
        if let Some(at) = self.stores.iter().position(|(open, _)| *open == (subject, ordered)) {
            return Ok(at);
        }
        let threads = order.first..order.first + order.threads;
        let stores = match subject {
            Subject::Dashmap => self.open_dashmap(threads)?,
            Subject::LockedBTree => self.open_map::<LockedBTree>(threads),
            _ => threads.map(|thread| self.open_one(subject, ordered, thread)).collect::<io::Result<_>>()?,
        };
        self.stores.push(((subject, ordered), stores));
        Ok(self.stores.len() - 1)
    }

    fn open_map<M: Map + 'static>(&self, threads: std::ops::Range<u64>) -> Stores {
        let map: Arc<M> = MapStore::load(self.setup.shape, self.setup.records);
        threads
            .map(|thread| Box::new(MapStore::of(map.clone(), self.setup.shape, thread)) as Box<dyn Store>)
            .collect()
    }

    #[cfg(feature = "peers")]
    fn open_dashmap(&self, threads: std::ops::Range<u64>) -> io::Result<Stores> {
        Ok(self.open_map::<Dashmap>(threads))
    }

    #[cfg(not(feature = "peers"))]
    fn open_dashmap(&self, _: std::ops::Range<u64>) -> io::Result<Stores> {
        Err(io::Error::other(format!("dashmap is not built in; {}", crate::bench::peer::BUILD_THEM_IN)))
    }

    fn open_one(&mut self, subject: Subject, ordered: bool, thread: u64) -> io::Result<Box<dyn Store>> {
        let (shape, spin) = (self.setup.shape, self.setup.spin);
        let place = self.setup.peers.iter().find(|(peer, _)| *peer == subject).map(|(_, place)| place);
        let place = place.ok_or_else(|| io::Error::other(format!("nobody is {}", subject.name())));
        let barn = |table: Table, reads: super::subject::Reads| -> Box<dyn Store> {
            Box::new(BarnStore::of(table.read_by(reads.into()), shape, thread))
        };
        // A connection for each thread: they would wait for each other at one.
        let name = if ordered { ORDERED } else { TABLE };
        let connect = |address: &str| Barn::connect(address)?.open_table(name);
        Ok(match subject {
            Subject::Embedded(reads) => {
                let table = self.embedded(ordered)?;
                barn(table, reads)
            }
            Subject::Shm(reads) => barn(connect(&self.setup.shm).map_err(io::Error::other)?, reads),
            Subject::Tcp(reads) => barn(connect(&self.setup.tcp).map_err(io::Error::other)?, reads),
            Subject::Verbs(reads) => {
                let nowhere = || io::Error::other("no node was started on RDMA");
                let (address, bind) = self.setup.verbs.as_ref().ok_or_else(nowhere)?;
                let options = ConnectOptions { bind: Some(*bind), ..ConnectOptions::default() };
                let table = Connect::new().fabric(options).to(address).and_then(|it| it.open_table(name));
                barn(table.map_err(io::Error::other)?, reads)
            }
            Subject::RedisUnix | Subject::RedisTcp => {
                Box::new(RedisStore::connect(place?, spin, shape, thread)?)
            }
            Subject::MemcachedUnix | Subject::MemcachedTcp => {
                Box::new(MemcachedStore::connect(place?, spin, shape, thread)?)
            }
            Subject::Dashmap | Subject::LockedBTree => {
                return Err(io::Error::other("maps are opened together"));
            }
        })
    }

    /// A table of the node inside this process, as another thread's handle.
    fn embedded(&mut self, ordered: bool) -> io::Result<Table> {
        let Setup { shape, records, .. } = self.setup;
        if self.embedded.is_none() {
            let kind = self.setup.kind.parse().map_err(io::Error::other)?;
            let config = NodeConfig::embedded().memory(2 * site::memory_bytes(shape, records));
            // Its threads are kept where a node's are that is a process of its own.
            let everywhere = rustix::thread::sched_getaffinity(None)?;
            pin(None, NODE_CORE);
            let barn = Barn::embedded_with(config).map_err(io::Error::other);
            rustix::thread::sched_setaffinity(None, &everywhere)?;
            let barn = barn?;
            let table = site::load(&barn, kind, shape, records).map_err(io::Error::other)?;
            self.embedded = Some(Embedded { barn, _table: table, tree: None });
        }
        let Some(embedded) = &mut self.embedded else { return Err(io::Error::other("no node")) };
        if ordered && embedded.tree.is_none() {
            let tree = site::load_ordered(&embedded.barn, shape, records).map_err(io::Error::other)?;
            embedded.tree = Some(tree);
        }
        let address = embedded.barn.address().unwrap_or_default();
        let name = if ordered { ORDERED } else { TABLE };
        Barn::connect(&address).and_then(|barn| barn.open_table(name)).map_err(io::Error::other)
    }

    /// Draws a cell's traces, unless they are drawn; gives where they are.
    fn draw(&mut self, order: &Order) -> usize {
        if let Some(at) = self.lanes.iter().position(|(number, _)| *number == order.number) {
            return at;
        }
        let threads = order.first..order.first + order.threads;
        let lanes = order.cells * order.threads_in_all;
        let lanes = threads
            .map(|thread| {
                let lane = order.number * order.threads_in_all + thread;
                let inserts = Inserts::none(self.setup.records, lane, lanes);
                Position { trace: self.trace(order, thread), inserts }
            })
            .collect();
        self.lanes.push((order.number, lanes));
        self.lanes.len() - 1
    }

    /// The same threads ask everybody for the same records, in the same order.
    fn trace(&mut self, order: &Order, thread: u64) -> Trace {
        let which = (order.cell.mix, thread);
        if let Some((_, trace)) = self.traces.iter().find(|(drawn, _)| *drawn == which) {
            return trace.clone();
        }
        let Setup { records, steps, seed, .. } = self.setup;
        let trace = Trace::draw(order.cell.mix, order.law, records, steps, seed + thread);
        self.traces.push((which, trace.clone()));
        trace
    }
}

fn plan(order: &Order, thread: u64, seed: u64) -> Plan {
    let pace = match order.pace {
        Pace::Open { rate, arrivals } => Pace::Open { rate: rate / order.threads_in_all as f64, arrivals },
        closed => closed,
    };
    Plan {
        slice_ns: order.slice_ns,
        depth: order.cell.depth,
        pace,
        inserts_max: order.inserts_max,
        seed: seed ^ (order.round as u64 + 1) << 32 ^ (order.first + thread) << 16,
    }
}

/// Seconds of CPU that this process has used.
fn cpu_now() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
