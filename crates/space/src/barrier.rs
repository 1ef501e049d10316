//! A coordinator and its workers meet in a range (RStore section V-A, its Figure 8).
//!
//! The coordinator lays a mapping out: a line with what all must agree on, its own status, and an area for
//! each worker, with a status, what it is to do, and what came of it. It writes what each is to do, marks the
//! workers' statuses as valid, and says "start" in its own; a worker that reads that does its part and says
//! "finished" or "error"; when all have, the next phase can begin.
//!
//! In the paper a status is one byte, which is read and written whole. Here it is a word, whose first byte is
//! the paper's and whose others count the phases, so that a late reader never takes one phase for another.
//!
//! What always holds: a status is written after everything that it speaks of; each is written by one side
//! at a time; no wait is longer than its deadline; whoever waits for the dead is told (`Alive`).

mod coordinator;
mod layout;
mod worker;

pub use coordinator::{Coordinator, Outcome};
pub use layout::{DATA_BYTES_MAX, WORKERS_MAX, bytes_needed};
pub use worker::{Assignment, Worker};

use crate::client::{AccessError, SpaceError, Spaces};
use std::fmt;
use std::time::Duration;

/// Looks before the first sleep: an answer that is near should not wait for a timer.
const LOOKS: u32 = 200;
/// The first sleep, and the longest.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(2);
/// How often the master is asked whether the others are alive.
const ALIVE_EVERY: Duration = Duration::from_millis(200);

/// Why a coordinator or a worker did not get on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BarrierError {
    /// The mapping is too short, or more was asked for than can be.
    Size {
        /// How long it would have to be.
        needed_bytes: u64,
        /// How long it is.
        mapped_bytes: u64,
    },
    /// There is no such worker, or its data is longer than was laid out.
    Worker {
        /// Which.
        worker: usize,
        /// Why not.
        why: &'static str,
    },
    /// The mapping holds something else.
    NotLaidOut,
    /// A worker is dead.
    WorkerLost {
        /// Which.
        worker: usize,
    },
    /// The coordinator is dead.
    CoordinatorLost,
    /// It did not come about in time.
    Deadline {
        /// Workers that are still missing; none where a worker waits for its coordinator.
        missing: Vec<usize>,
    },
    /// The mapping could not be read or written.
    Access(AccessError),
    /// The master could not be asked who is alive.
    Space(SpaceError),
}

impl fmt::Display for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { needed_bytes, mapped_bytes } => write!(
                f,
                "the barrier needs {needed_bytes} bytes and the mapping has {mapped_bytes}: map more, or have fewer workers"
            ),
            Self::Worker { worker, why } => write!(f, "worker {worker}: {why}"),
            Self::NotLaidOut => {
                write!(f, "there is no barrier in this mapping: its coordinator lays it out first")
            }
            Self::WorkerLost { worker } => {
                write!(
                    f,
                    "worker {worker} is dead: let another join in its place, or give its work to the others"
                )
            }
            Self::CoordinatorLost => write!(f, "the coordinator is dead: stop, and wait for another"),
            Self::Deadline { missing } if missing.is_empty() => {
                write!(f, "the coordinator did not go on in time: wait longer, or look at it")
            }
            Self::Deadline { missing } => {
                write!(
                    f,
                    "{} workers did not come in time, the first of them {}: wait longer, or look at them",
                    missing.len(),
                    missing[0]
                )
            }
            Self::Access(error) => error.fmt(f),
            Self::Space(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BarrierError {}

impl From<AccessError> for BarrierError {
    fn from(error: AccessError) -> Self {
        Self::Access(error)
    }
}

/// A wait that looks again and again: at once, then with pauses that grow, until its deadline.
struct Wait<'a> {
    spaces: &'a Spaces,
    until: Duration,
    looks: u32,
    pause: Duration,
    asked_alive: Duration,
}

impl<'a> Wait<'a> {
    fn new(spaces: &'a Spaces, deadline: Duration) -> Self {
        let now = spaces.now();
        Self { spaces, until: now + deadline, looks: 0, pause: PAUSE_MIN, asked_alive: now }
    }

    /// Waits before the next look; false if the deadline is over.
    async fn again(&mut self) -> bool {
        self.looks += 1;
        if self.looks <= LOOKS {
            return true;
        }
        if self.spaces.now() >= self.until {
            return false;
        }
        self.spaces.pause(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }

    /// Whether it is time to ask who is alive.
    fn asks_alive(&mut self) -> bool {
        let now = self.spaces.now();
        let due = self.looks > LOOKS && now - self.asked_alive >= ALIVE_EVERY;
        if due {
            self.asked_alive = now;
        }
        due
    }
}
