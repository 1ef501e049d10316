//! A coordinator and its workers, whose waits block: see [`barn_space::barrier`].

use super::{Mapping, Outcome, Spaces};
use crate::error::Error;
use barn_fabric::block_on;
use barn_space::barrier;
use std::time::Duration;

pub use barn_space::barrier::Assignment;

/// The coordinator of a barrier.
#[derive(Debug)]
pub struct Coordinator {
    inner: barrier::Coordinator,
}

impl Coordinator {
    /// Lays a writable mapping out for so many workers, with room for so much data for and from each; it
    /// takes [`barrier_bytes`](super::barrier_bytes).
    pub fn new(spaces: &Spaces, mapping: &Mapping, workers: usize, data_bytes: usize) -> Result<Self, Error> {
        let made = barrier::Coordinator::new(&spaces.inner, &mapping.inner, workers, data_bytes);
        Ok(Self { inner: block_on(made)? })
    }

    /// Waits until all workers have joined.
    pub fn gather(&self, deadline: Duration) -> Result<(), Error> {
        Ok(block_on(self.inner.gather(deadline))?)
    }

    /// Starts the next phase: says to each worker, in order, what it is to do.
    pub fn start<T: AsRef<[u8]>>(&mut self, tasks: &[T]) -> Result<(), Error> {
        Ok(block_on(self.inner.start(tasks))?)
    }

    /// Waits until every worker has finished the phase; what each says, in order.
    pub fn finish(&self, deadline: Duration) -> Result<Vec<Outcome>, Error> {
        Ok(block_on(self.inner.finish(deadline))?)
    }

    /// Says that there is nothing more to do.
    pub fn end(self) -> Result<(), Error> {
        Ok(block_on(self.inner.end())?)
    }
}

/// A worker of a barrier.
#[derive(Debug)]
pub struct Worker {
    inner: barrier::Worker,
}

impl Worker {
    /// Joins the barrier in a writable mapping, in this place; waits until it is laid out.
    pub fn join(
        spaces: &Spaces,
        mapping: &Mapping,
        worker: usize,
        deadline: Duration,
    ) -> Result<Self, Error> {
        let joined = barrier::Worker::join(&spaces.inner, &mapping.inner, worker, deadline);
        Ok(Self { inner: block_on(joined)? })
    }

    /// Waits for the next phase; nothing if there is none.
    pub fn next(&mut self, deadline: Duration) -> Result<Option<Assignment>, Error> {
        Ok(block_on(self.inner.next(deadline))?)
    }

    /// Says that the phase is done, and what came of it.
    pub fn finish(&self, result: &[u8]) -> Result<(), Error> {
        Ok(block_on(self.inner.finish(result))?)
    }

    /// Says that the phase could not be done, and why.
    pub fn fail(&self, why: &[u8]) -> Result<(), Error> {
        Ok(block_on(self.inner.fail(why))?)
    }
}
