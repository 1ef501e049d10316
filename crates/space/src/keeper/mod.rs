//! A node's keeper: makes chunks, scrubs them and lets them go, as the master of spaces says.
//!
//! A thread of every node (RStore's memory server, section III-B). It asks the master for work and says
//! with the next question what it has done, so that the master calls nobody. The poll loop is asked for
//! nothing here but to let clients in ([`Gate`]).
//!
//! What always holds: what was done is said until an answer shows that it was heard, and done once; a master
//! with another secret is another master, which knows of none of the chunks: they go.

mod chunks;
mod gate;
#[cfg(test)]
mod tests;

pub use chunks::{CHUNKS_MAX, ChunkCounts, ChunkUsage};
pub use gate::{EnterError, Gate};

use crate::bell::Bell;
use crate::message::{Done, Request, Response, Work};
use crate::pass::Secret;
use crate::wire;
use barn_cluster::{Life, MemberId};
use barn_fabric::seam::{Schedule, Task};
use barn_fabric::{CallError, ConnectError, Connection, Region, RegionError, RegionOptions, Registry};
use barn_layout::space::{ATTEND_WAIT_MS, Method};
use chunks::Chunks;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long an answer to `Attend` may take: ten times what the master lets a keeper wait.
const ATTEND_MAX: Duration = Duration::from_millis(10 * ATTEND_WAIT_MS);
/// How long to wait before connecting again.
const RECONNECT: Duration = Duration::from_millis(50);

/// What a keeper stands on.
pub struct KeeperOptions {
    /// Which member its node is.
    pub member: MemberId,
    /// In which life.
    pub life: Life,
    /// Where chunks are registered.
    pub registry: Registry,
    /// The most memory that chunks may take.
    pub bytes_max: u64,
    /// Who lets clients in.
    pub gate: Arc<Gate>,
    /// Where chunks are counted.
    pub counts: Arc<ChunkCounts>,
    /// Who wakes it from waits.
    pub schedule: Arc<dyn Schedule>,
    /// Where its memory comes from: [`Region::allocate`], outside of simulations.
    pub memory: Memory,
}

/// Gives memory for chunks and marks.
pub type Memory = fn(&RegionOptions) -> Result<Region, RegionError>;

impl fmt::Debug for KeeperOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeeperOptions(member {:?}, {} bytes at most)", self.member, self.bytes_max)
    }
}

/// Ends a keeper.
#[derive(Clone, Debug, Default)]
pub struct KeeperStop {
    shared: Arc<Stop>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: AtomicBool,
    bell: Bell,
}

impl KeeperStop {
    /// Ends it, soon.
    pub fn stop(&self) {
        // ORDER: Relaxed: a flag that stands alone; the bell orders by itself.
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.shared.bell.ring();
    }

    fn is_stopped(&self) -> bool {
        // ORDER: Relaxed: as above.
        self.shared.stopped.load(Ordering::Relaxed)
    }
}

/// A node's keeper.
pub struct Keeper {
    options: KeeperOptions,
    chunks: Chunks,
    /// What was done and is not known to have been heard.
    done: Vec<Done>,
    stop: KeeperStop,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

impl Keeper {
    /// A keeper without chunks.
    pub fn new(options: KeeperOptions, stop: KeeperStop) -> Result<Self, RegionError> {
        let chunks =
            Chunks::new(options.registry.clone(), options.bytes_max, options.counts.clone(), options.memory)?;
        options.gate.is(options.member, options.life);
        Ok(Self { options, chunks, done: Vec::new(), stop })
    }

    /// Attends the master until it is stopped, over connections that `connect` makes.
    pub async fn run<F>(mut self, connect: impl Fn() -> F)
    where
        F: Future<Output = Result<Connection, ConnectError>>,
    {
        while !self.stop.is_stopped() {
            let connected = self.stop.shared.bell.or(connect()).await;
            if let Some(Ok(connection)) = connected {
                while !self.stop.is_stopped() && self.attend(&connection).await {}
            }
            if !self.stop.is_stopped() {
                let pause: Task = self.options.schedule.sleep(RECONNECT);
                self.stop.shared.bell.wait(pause).await;
            }
        }
    }

    /// One question and what follows from its answer; false if the connection is of no use any more.
    async fn attend(&mut self, connection: &Connection) -> bool {
        let request = Request::Attend {
            member: self.options.member,
            life: self.options.life,
            free_bytes: self.chunks.free_bytes(),
            done: self.done.clone(),
        };
        let (body, mut reply) = (wire::encode_request(&request), Vec::new());
        let asked = connection.call(Method::Master as u16, &body, &mut reply).within(ATTEND_MAX);
        let Some(asked) = self.stop.shared.bell.or(asked).await else { return false };
        match asked {
            Ok(()) => {}
            Err(CallError::Busy) => return self.pause().await,
            Err(_) => return false,
        }
        match wire::decode_response(&reply) {
            Ok(Response::Work { work, secret }) => self.hear(work, &secret),
            Ok(Response::Refused(refusal)) => {
                tracing::debug!(?refusal, "the master of spaces gave no work");
                self.pause().await
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Takes an answer: what was said is known to have been heard, and what is to be done is done.
    fn hear(&mut self, work: Vec<Work>, secret: &str) -> bool {
        let Some(secret) = Secret::from_hex(secret) else { return false };
        self.done.clear();
        if self.options.gate.trust(secret) {
            tracing::warn!("another master of spaces: its predecessor's chunks are let go");
            self.chunks.clear();
        }
        for work in work {
            self.carry_out(work);
        }
        true
    }

    async fn pause(&self) -> bool {
        self.stop.shared.bell.wait(self.options.schedule.sleep(RECONNECT)).await;
        true
    }

    /// Carries out a task, unless it was and the master has not heard of it yet.
    fn carry_out(&mut self, work: Work) {
        let (Work::Clear { task }
        | Work::Prepare { task, .. }
        | Work::Retire { task, .. }
        | Work::Taint { task, .. }) = &work;
        let same = |done: &Done| matches!(done, Done::Prepared { task: known, .. } | Done::Finished { task: known } if known == task);
        if self.done.iter().any(same) {
            return;
        }
        let stop = self.stop.clone();
        let done = match work {
            Work::Clear { task } => {
                self.chunks.clear();
                Done::Finished { task }
            }
            Work::Prepare { task, chunk_bytes, count } => {
                let (chunks, why) = self.chunks.prepare(chunk_bytes, count, &|| stop.is_stopped());
                Done::Prepared { task, chunks, why }
            }
            Work::Retire { task, regions, keep } => match self.chunks.retire(&regions, keep) {
                (chunks, why) if keep => Done::Prepared { task, chunks, why },
                _ => Done::Finished { task },
            },
            Work::Taint { task, marks } => {
                self.chunks.taint(&marks);
                Done::Finished { task }
            }
        };
        self.done.push(done);
    }
}
