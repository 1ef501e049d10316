//! A worker's side of a barrier.

use super::layout::{Layout, Part, Say, Status};
use super::{BarrierError, Wait};
use crate::client::{Mapping, Spaces};
use crate::message::SessionId;
use std::time::Duration;

/// What a worker is to do in a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Which phase it is; the first is 1.
    pub phase: u64,
    /// What the coordinator says.
    pub task: Vec<u8>,
}

/// A worker of a barrier.
#[derive(Debug)]
pub struct Worker {
    spaces: Spaces,
    layout: Layout,
    worker: usize,
    coordinator: SessionId,
    /// The phase that it has seen last.
    phase: u64,
}

impl Worker {
    /// Joins the barrier in a writable mapping, in this place; waits until it is laid out. Who joins in the
    /// place of one that died takes part from the next phase on.
    pub async fn join(
        spaces: &Spaces,
        mapping: &Mapping,
        worker: usize,
        deadline: Duration,
    ) -> Result<Self, BarrierError> {
        let mut wait = Wait::new(spaces, deadline);
        let (layout, coordinator) = loop {
            if let Some(found) = Layout::open(mapping).await? {
                break found;
            }
            if !wait.again().await {
                return Err(BarrierError::Deadline { missing: Vec::new() });
            }
        };
        if worker >= layout.workers {
            return Err(BarrierError::Worker { worker, why: "the barrier has fewer workers" });
        }
        let phase = match layout.coordinator().await? {
            Status { say: Say::Start, phase } => phase,
            _ => 0,
        };
        layout.set_session(worker, spaces.session()).await?;
        layout.say_worker(worker, Status { say: Say::Joined, phase }).await?;
        Ok(Self { spaces: spaces.clone(), layout, worker, coordinator, phase })
    }

    /// Waits for the next phase; nothing if the coordinator says that there is none. A coordinator that
    /// dies is an error, as soon as its session's lease is over.
    pub async fn next(&mut self, deadline: Duration) -> Result<Option<Assignment>, BarrierError> {
        let mut wait = Wait::new(&self.spaces, deadline);
        loop {
            let status = self.layout.coordinator().await?;
            match status.say {
                Say::Over if status.phase > self.phase => return Ok(None),
                Say::Start if status.phase > self.phase => {
                    self.phase = status.phase;
                    let task = self.layout.get(self.worker, Part::Task).await?;
                    return Ok(Some(Assignment { phase: status.phase, task }));
                }
                _ => {}
            }
            if wait.asks_alive() {
                let alive = self.spaces.alive(&[self.coordinator]).await.map_err(BarrierError::Space)?;
                if alive.is_empty() {
                    return Err(BarrierError::CoordinatorLost);
                }
            }
            if !wait.again().await {
                return Err(BarrierError::Deadline { missing: Vec::new() });
            }
        }
    }

    /// Says that the phase is done, and what came of it.
    pub async fn finish(&self, result: &[u8]) -> Result<(), BarrierError> {
        self.say(Say::Finished, result).await
    }

    /// Says that the phase could not be done, and why.
    pub async fn fail(&self, why: &[u8]) -> Result<(), BarrierError> {
        self.say(Say::Error, why).await
    }

    async fn say(&self, say: Say, result: &[u8]) -> Result<(), BarrierError> {
        self.layout.put(self.worker, Part::Result, result).await?;
        self.layout.say_worker(self.worker, Status { say, phase: self.phase }).await
    }
}
