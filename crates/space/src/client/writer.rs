//! The writer of a copy-on-write range (RStore section III-G): writes go to fresh chunks, and a commit
//! switches the range to them, all at once.
//!
//! What always holds: nobody sees a byte that was written here before the commit; a fresh chunk that is
//! written in part has the rest of the version before; after a write that failed nothing can be committed.

use super::links::OpenChunk;
use super::session::Writing;
use super::spread::{Buffer, Chunks, Spread, failed};
use super::{AccessError, RangeHandle, WriteError};
use crate::message::{Chunk, Pass, Request, Response};
use barn_layout::planted;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How much of the version before is copied at once.
const FILL_BYTES: usize = 1 << 20;

/// The lease on a copy-on-write range. Dropped without a commit, it changes nothing.
pub struct Writer<'a> {
    range: &'a mut RangeHandle,
    /// Which of the session's leases it is.
    turn: u64,
    version: u64,
    lease: Duration,
    asked_ms: u64,
    /// The chunks of what is held: fresh ones, and those of the version before that were looked at.
    chunks: Vec<Place>,
    broken: bool,
    ended: bool,
    _writing: Writing,
}

#[derive(Clone, Default)]
struct Place {
    fresh: Option<Arc<OpenChunk>>,
    before: Option<Arc<OpenChunk>>,
}

impl Chunks for [Place] {
    fn chunk(&self, number: usize) -> Option<&OpenChunk> {
        let place = self.get(number)?;
        place.fresh.as_deref().or(place.before.as_deref())
    }
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fresh = self.chunks.iter().filter(|place| place.fresh.is_some()).count();
        write!(f, "Writer({:?}, {fresh} fresh chunks)", self.range.held)
    }
}

impl<'a> Writer<'a> {
    pub(super) async fn begin(
        range: &'a mut RangeHandle,
        lease: Option<Duration>,
    ) -> Result<Self, WriteError> {
        let chunks = vec![Place::default(); range.held.range.chunks.len()];
        let asked_ms = lease.map_or(0, |lease| (lease.as_millis() as u64).max(1));
        let _writing = range.held.session().write().ok_or(super::SpaceError::SessionLost)?;
        let turn = range.held.session().next_turn();
        let (version, lease, broken, ended) = (0, Duration::ZERO, false, true);
        let mut writer = Self { range, turn, version, lease, asked_ms, chunks, broken, ended, _writing };
        writer.renew().await?;
        writer.ended = false;
        Ok(writer)
    }

    /// How long the lease is, from its last renewal.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Renews the lease. Writes that need fresh chunks do that, too.
    pub async fn renew(&mut self) -> Result<(), WriteError> {
        self.ask_for(Vec::new()).await.map(|_| ())
    }

    async fn ask_for(&mut self, chunks: Vec<u64>) -> Result<(Vec<(u64, Chunk)>, Vec<Pass>), WriteError> {
        let held = &self.range.held;
        let (session, hold) = (held.session().id, held.hold);
        let request = Request::Lease { session, hold, turn: self.turn, chunks, lease_ms: self.asked_ms };
        match held.space.ask(&request).await? {
            Response::Leased { version, lease_ms, chunks, passes } => {
                (self.version, self.lease) = (version, Duration::from_millis(lease_ms));
                Ok((chunks, passes))
            }
            _ => Err(super::SpaceError::Protocol.into()),
        }
    }

    /// Where bytes are, counted from the first chunk's start, and the chunks that they touch.
    fn place(&self, offset: u64, bytes: usize) -> Result<(u64, std::ops::Range<usize>), AccessError> {
        let held = &self.range.held;
        if offset.checked_add(bytes as u64).is_none_or(|end| end > held.bytes) {
            let (bytes, mapped_bytes) = (bytes as u64, held.bytes);
            return Err(AccessError::OutOfBounds { offset, bytes, mapped_bytes });
        }
        let (at, chunk_bytes) = (held.start + offset, held.range.chunk_bytes);
        let end = if bytes == 0 { at / chunk_bytes } else { (at + bytes as u64).div_ceil(chunk_bytes) };
        Ok((at, (at / chunk_bytes) as usize..end as usize))
    }

    /// Writes bytes to `offset` of the next version.
    pub async fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), WriteError> {
        let (at, touched) = self.place(offset, from.len())?;
        if self.broken {
            return Err(WriteError::Broken);
        }
        // Until it is done: whoever drops this future has written a part.
        self.broken = !planted("writer_commits_holes");
        self.freshen(at, from.len() as u64, touched).await?;
        let chunk_bytes = self.range.held.range.chunk_bytes;
        Spread::new(&self.chunks[..], chunk_bytes, at, Buffer::From(from), &mut []).await?;
        self.broken = false;
        Ok(())
    }

    /// Reads the next version, as it has been written so far.
    pub async fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), WriteError> {
        let (at, touched) = self.place(offset, into.len())?;
        let missing: Vec<usize> = touched.filter(|at| self.chunks[*at].fresh.is_none()).collect();
        self.look_before(&missing).await?;
        let chunk_bytes = self.range.held.range.chunk_bytes;
        Ok(Spread::new(&self.chunks[..], chunk_bytes, at, Buffer::Into(into), &mut []).await?)
    }

    /// Sees to it that the chunks that a write touches are fresh ones, and whole where it does not reach.
    async fn freshen(
        &mut self,
        at: u64,
        bytes: u64,
        touched: std::ops::Range<usize>,
    ) -> Result<(), WriteError> {
        let missing: Vec<usize> = touched.filter(|at| self.chunks[*at].fresh.is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let first = self.range.held.range.first_chunk;
        let wanted = missing.iter().map(|at| first + *at as u64).collect();
        let (given, passes) = self.ask_for(wanted).await?;
        let of = |at: usize| given.iter().find(|(number, _)| *number == first + at as u64);
        let fresh: Option<Vec<Chunk>> = missing.iter().map(|at| of(*at).map(|(_, chunk)| *chunk)).collect();
        let fresh = fresh.ok_or(super::SpaceError::Protocol)?;
        let inner = self.range.held.space.spaces().inner.clone();
        let opened = inner.open_chunks(&fresh, &passes, true).await?;
        let chunk_bytes = self.range.held.range.chunk_bytes;
        let partly: Vec<usize> = (missing.iter().copied())
            .filter(|number| {
                let (start, end) = (*number as u64 * chunk_bytes, (*number as u64 + 1) * chunk_bytes);
                at > start || at + bytes < end
            })
            .collect();
        self.look_before(&partly).await?;
        for (number, chunk) in missing.into_iter().zip(opened) {
            if partly.contains(&number) && !planted("fresh_chunk_not_filled") {
                self.fill(number, &chunk).await?;
            }
            self.chunks[number].fresh = Some(chunk);
        }
        Ok(())
    }

    /// Opens chunks of the version before.
    async fn look_before(&mut self, numbers: &[usize]) -> Result<(), WriteError> {
        let held = self.range.held.clone();
        let missing: Vec<usize> =
            numbers.iter().copied().filter(|number| self.chunks[*number].before.is_none()).collect();
        let chunks: Vec<Chunk> = missing.iter().map(|number| held.range.chunks[*number]).collect();
        let opened = held.space.spaces().inner.open_chunks(&chunks, &held.passes, false).await?;
        for (number, chunk) in missing.into_iter().zip(opened) {
            self.chunks[number].before = Some(chunk);
        }
        Ok(())
    }

    /// Copies a chunk of the version before into a fresh one.
    async fn fill(&self, number: usize, fresh: &OpenChunk) -> Result<(), WriteError> {
        let Some(before) = &self.chunks[number].before else { return Err(WriteError::Broken) };
        let chunk_bytes = self.range.held.range.chunk_bytes;
        let mut buffer = vec![0; FILL_BYTES.min(chunk_bytes as usize)];
        for start in (0..chunk_bytes).step_by(FILL_BYTES) {
            let read = before.region.read(start, &mut buffer).await;
            read.map_err(|error| failed(before.member, error, start))?;
            let written = fresh.region.write(start, &buffer).await;
            written.map_err(|error| failed(fresh.member, error, start))?;
        }
        Ok(())
    }

    /// Switches the range to what was written, all at once, and ends the lease. The handle holds the new
    /// version from then on.
    pub async fn commit(mut self) -> Result<(), WriteError> {
        if self.broken {
            return Err(WriteError::Broken);
        }
        let held = self.range.held.clone();
        let part = Some((held.address(), held.bytes));
        let (session, hold) = (held.session().id, held.hold);
        let request = Request::Commit { session, hold, turn: self.turn, version: self.version };
        // Asked twice, it is done once: the master knows the version that the hold is on.
        let answer = held.space.ask_again(&request).await;
        // Switched or not, or not known: there is nothing left to abandon, or nobody to hear of it.
        self.ended = true;
        let response = answer?;
        held.hand_over();
        *self.range = RangeHandle::take(&held.space, response, part, held.write)?;
        Ok(())
    }

    /// Ends the lease without a switch, and says whether that was heard. Dropping it does the same, a little
    /// later.
    pub async fn abandon(mut self) -> Result<(), WriteError> {
        self.ended = true;
        let held = &self.range.held;
        let request = Request::Abandon { session: held.session().id, hold: held.hold, turn: self.turn };
        held.space.ask(&request).await?;
        Ok(())
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let held = &self.range.held;
            let (session, hold) = (held.session().id, held.hold);
            held.session().later(Request::Abandon { session, hold, turn: self.turn });
            held.space.spaces().wake();
        }
    }
}
