//! The coordinator's side of a barrier.

use super::layout::{Layout, Part, Say, Status};
use super::{BarrierError, Wait};
use crate::client::{Mapping, Spaces};
use crate::message::SessionId;
use std::time::Duration;

/// What a worker made of its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has done it, and says this.
    Finished(Vec<u8>),
    /// It could not, and says this.
    Error(Vec<u8>),
}

/// The coordinator of a barrier.
#[derive(Debug)]
pub struct Coordinator {
    spaces: Spaces,
    layout: Layout,
    phase: u64,
}

impl Coordinator {
    /// Lays a writable mapping out for so many workers, with room for so much data for and from each.
    pub async fn new(
        spaces: &Spaces,
        mapping: &Mapping,
        workers: usize,
        data_bytes: usize,
    ) -> Result<Self, BarrierError> {
        let layout = Layout::make(mapping.clone(), workers, data_bytes, spaces.session()).await?;
        Ok(Self { spaces: spaces.clone(), layout, phase: 0 })
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.layout.workers
    }

    /// The phase that was started last; the first is 1.
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Waits until all workers have joined.
    pub async fn gather(&self, deadline: Duration) -> Result<(), BarrierError> {
        let mut missing: Vec<usize> = (0..self.layout.workers).collect();
        let mut wait = Wait::new(&self.spaces, deadline);
        loop {
            let mut still = Vec::new();
            for worker in missing {
                if self.layout.worker(worker).await?.say == Say::Nothing {
                    still.push(worker);
                }
            }
            if still.is_empty() {
                return Ok(());
            }
            missing = still;
            if !wait.again().await {
                return Err(BarrierError::Deadline { missing });
            }
        }
    }

    /// Starts the next phase: says to each worker, in order, what it is to do.
    pub async fn start<T: AsRef<[u8]>>(&mut self, tasks: &[T]) -> Result<(), BarrierError> {
        if tasks.len() != self.layout.workers {
            let worker = tasks.len().min(self.layout.workers);
            return Err(BarrierError::Worker {
                worker,
                why: "there must be a task for each worker, and no more",
            });
        }
        let phase = self.phase + 1;
        for (worker, task) in tasks.iter().enumerate() {
            self.layout.put(worker, Part::Task, task.as_ref()).await?;
            self.layout.say_worker(worker, Status { say: Say::Valid, phase }).await?;
        }
        self.layout.say_coordinator(Status { say: Say::Start, phase }).await?;
        self.phase = phase;
        Ok(())
    }

    /// Waits until every worker has finished the phase, well or not; what each says, in order. A worker
    /// that dies before is an error, as soon as its session's lease is over.
    pub async fn finish(&self, deadline: Duration) -> Result<Vec<Outcome>, BarrierError> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; self.layout.workers];
        let mut wait = Wait::new(&self.spaces, deadline);
        loop {
            for (worker, outcome) in outcomes.iter_mut().enumerate().filter(|(_, outcome)| outcome.is_none())
            {
                *outcome = self.outcome(worker).await?;
            }
            let missing = || (outcomes.iter().enumerate()).filter(|(_, outcome)| outcome.is_none());
            if missing().next().is_none() {
                return Ok(outcomes.into_iter().flatten().collect());
            }
            if wait.asks_alive() {
                let missing: Vec<usize> = missing().map(|(worker, _)| worker).collect();
                if let Some(worker) = self.dead(&missing).await? {
                    // It may have said so just before it ended.
                    match self.outcome(worker).await? {
                        Some(_) => continue,
                        None => return Err(BarrierError::WorkerLost { worker }),
                    }
                }
            }
            if !wait.again().await {
                return Err(BarrierError::Deadline {
                    missing: missing().map(|(worker, _)| worker).collect(),
                });
            }
        }
    }

    async fn outcome(&self, worker: usize) -> Result<Option<Outcome>, BarrierError> {
        let status = self.layout.worker(worker).await?;
        if status.phase != self.phase {
            return Ok(None);
        }
        Ok(match status.say {
            Say::Finished => Some(Outcome::Finished(self.layout.get(worker, Part::Result).await?)),
            Say::Error => Some(Outcome::Error(self.layout.get(worker, Part::Result).await?)),
            _ => None,
        })
    }

    /// The first of these workers whose session has ended, if there is one.
    async fn dead(&self, workers: &[usize]) -> Result<Option<usize>, BarrierError> {
        let mut sessions = Vec::with_capacity(workers.len());
        for worker in workers {
            sessions.push(self.layout.session(*worker).await?);
        }
        let joined: Vec<SessionId> = sessions.iter().copied().filter(|session| session.0 != 0).collect();
        let alive = self.spaces.alive(&joined).await.map_err(BarrierError::Space)?;
        let dead = workers.iter().zip(&sessions).find(|(_, session)| !alive.contains(session));
        Ok(dead.filter(|(_, session)| session.0 != 0).map(|(worker, _)| *worker))
    }

    /// Says that there is nothing more to do.
    pub async fn end(self) -> Result<(), BarrierError> {
        self.layout.say_coordinator(Status { say: Say::Over, phase: self.phase + 1 }).await
    }
}
