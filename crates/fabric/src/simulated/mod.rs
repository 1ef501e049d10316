//! The simulated transport: one seed decides everything.
//!
//! A [`World`] is a whole cluster in one thread: nodes and clients, whose tasks are futures; a
//! network with latency, reordering between connections, and partitions; processes that pause,
//! crash and start again; disks that forget; and READs torn at any 8-byte word against writers.
//! Time is virtual, and every choice is drawn from the seed, so that a run can be repeated
//! exactly: the same seed gives the same [trace hash](Handle::trace).
//!
//! ```
//! use barn_fabric::simulated::{World, WorldOptions};
//! use barn_fabric::{RegionId, Reply, Request, Rights, Service};
//! use std::time::Duration;
//!
//! struct Echo;
//! impl Service for Echo {
//!     fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
//!         reply.done(request.body);
//!     }
//! }
//!
//! let world = World::new(7, WorldOptions::default());
//! let registry = world.registry();
//! registry.register(RegionId(1), world.region(4096, Rights::ALL), Rights::ALL).unwrap();
//! let node = world.start_node("node", registry, Box::new(Echo));
//! let client = world.start_client("client");
//! let handle = world.handle();
//! world.spawn(client, async move {
//!     let connection = handle.connect(client, node).await.unwrap();
//!     let region = connection.open(RegionId(1), Rights::ALL).await.unwrap();
//!     assert_eq!(region.fetch_add(8, 5).await, Ok(0));
//!     let mut reply = Vec::new();
//!     connection.call(1, b"hello", &mut reply).await.unwrap();
//!     assert_eq!(reply, b"hello");
//! });
//! world.run(Duration::from_secs(1));
//! ```
//!
//! What always holds, and what a scenario may rely on:
//! - the promises are those of [`Guarantees::BY_CPU`](crate::Guarantees::BY_CPU) and no more:
//!   words arrive whole, in no order; the operations of one connection one after another;
//! - frames of one connection arrive in order, each way; a message does not wait until the
//!   one-sided operations before it have been carried out;
//! - what a broken connection had under way may or may not be done, and may even be done
//!   *after* its client was told that the peer is gone;
//! - only what [`Handle`] offers may be waited for: no threads, no real time, and not
//!   [`block_on`](crate::block_on), which would wait for an answer that cannot come.

mod connection;
mod disk;
mod fault;
mod handle;
mod link;
mod net;
mod operation;
mod options;
pub mod scenario;
mod serve;
mod trace;
mod world;

pub use disk::SimulatedDisk;
pub use handle::{Dialer, Handle, Scheduler, Sleep, VirtualClock, region};
pub use net::Stats;
pub use options::{FaultPlan, Span, WorldOptions};
pub use world::{Boot, RunEnd, World};

/// Names a node or a client of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);
