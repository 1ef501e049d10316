//! A range that is held: where its chunks are, and how to get to them (RStore's raddress, section III-C).
//!
//! What always holds: for as long as any handle or mapping of it lives, the session holds what it names; a
//! hold is let go once.

use super::links::OpenChunk;
use super::session::Session;
use super::{MapError, Mapping, Space, SpaceError, WriteError, Writer, lock};
use crate::message::{HoldId, Pass, Range, Request, Response};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A hold of the session, let go when it is dropped.
pub(crate) struct Held {
    pub(super) space: Space,
    pub(super) hold: HoldId,
    pub(super) range: Range,
    pub(super) passes: Vec<Pass>,
    pub(super) write: bool,
    /// Chunks that have been mapped: mapping them again costs nothing.
    opened: Mutex<Vec<Option<Arc<OpenChunk>>>>,
    /// Whether the hold was let go, or became another.
    gone: AtomicBool,
    /// Where what is held begins, counted from the first chunk's start, and how long it is.
    pub(super) start: u64,
    pub(super) bytes: u64,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} of {:?}", self.bytes, self.address(), self.space)
    }
}

impl Held {
    pub(super) fn session(&self) -> &Arc<Session> {
        self.space.session()
    }

    /// Where what is held begins, in the space.
    pub(super) fn address(&self) -> u64 {
        self.range.address + self.range.first_chunk * self.range.chunk_bytes + self.start
    }

    /// The hold is another's from now on: dropping this lets nothing go.
    pub(super) fn hand_over(&self) {
        // ORDER: Relaxed: a flag that stands alone.
        self.gone.store(true, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // ORDER: Relaxed: as above.
        if !self.gone.load(Ordering::Relaxed) {
            self.session().later(Request::Drop { session: self.session().id, hold: self.hold });
            self.space.spaces().wake();
        }
    }
}

/// A range of a space that is held. It is let go when this and its mappings are dropped.
pub struct RangeHandle {
    pub(super) held: Arc<Held>,
}

impl fmt::Debug for RangeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeHandle({:?})", self.held)
    }
}

impl RangeHandle {
    /// What the master's `Held` means: all of the range, or the part that was asked for.
    pub(super) fn take(
        space: &Space,
        response: Response,
        part: Option<(u64, u64)>,
        write: bool,
    ) -> Result<Self, SpaceError> {
        let Response::Held { hold, range, passes } = response else { return Err(SpaceError::Protocol) };
        let first = range.first_chunk.checked_mul(range.chunk_bytes);
        let first = first.and_then(|first| range.address.checked_add(first)).ok_or(SpaceError::Protocol)?;
        let (address, bytes) = part.unwrap_or((range.address, range.bytes));
        let start = address.checked_sub(first).ok_or(SpaceError::Protocol)?;
        let covered = range.chunk_bytes.checked_mul(range.chunks.len() as u64).ok_or(SpaceError::Protocol)?;
        let whole = range.chunk_bytes.is_power_of_two()
            && start < range.chunk_bytes
            && start.checked_add(bytes).is_some_and(|end| end <= covered);
        if !whole {
            return Err(SpaceError::Protocol);
        }
        let opened = Mutex::new(vec![None; range.chunks.len()]);
        let held = Held {
            space: space.clone(),
            hold,
            range,
            passes,
            write,
            opened,
            gone: AtomicBool::new(false),
            start,
            bytes,
        };
        Ok(Self { held: Arc::new(held) })
    }

    /// The address at which it begins, in its space: what others need to hold it, too.
    pub fn address(&self) -> u64 {
        self.held.address()
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.held.bytes
    }

    /// Whether it is copy-on-write.
    pub fn is_copy_on_write(&self) -> bool {
        self.held.range.copy_on_write
    }

    /// Of a copy-on-write range, the version that is held; otherwise 0.
    pub fn version(&self) -> u64 {
        self.held.range.version
    }

    /// At how many nodes its chunks are.
    pub fn nodes(&self) -> usize {
        let mut members: Vec<_> = self.held.range.chunks.iter().map(|chunk| chunk.member).collect();
        members.sort_unstable();
        members.dedup();
        members.len()
    }

    /// Maps all of it.
    pub async fn map(&self) -> Result<Mapping, MapError> {
        self.map_part(0, self.held.bytes).await
    }

    /// Maps a part of it: only the chunks that it touches are opened.
    pub async fn map_part(&self, offset: u64, bytes: u64) -> Result<Mapping, MapError> {
        let held = &self.held;
        if offset.checked_add(bytes).is_none_or(|end| end > held.bytes) {
            return Err(MapError::OutOfBounds { offset, bytes, held_bytes: held.bytes });
        }
        // What is copy-on-write is written through a lease, never in place.
        let write = held.write && !held.range.copy_on_write;
        let writing = match write {
            true => Some(held.session().write().ok_or(MapError::SessionLost)?),
            false => None,
        };
        let chunk_bytes = held.range.chunk_bytes;
        let from = held.start + offset;
        let first = (from / chunk_bytes) as usize;
        let end = (from + bytes).div_ceil(chunk_bytes).max(from / chunk_bytes) as usize;
        let known: Vec<Option<Arc<OpenChunk>>> = lock(&held.opened)[first..end].to_vec();
        let standing = |chunk: &Arc<OpenChunk>| chunk.is_there();
        let chunks = match known.iter().all(|chunk| chunk.as_ref().is_some_and(standing)) {
            true => known.into_iter().flatten().collect(),
            false => {
                let inner = &held.space.spaces().inner;
                let chunks = inner.open_chunks(&held.range.chunks[first..end], &held.passes, write).await?;
                for (place, chunk) in lock(&held.opened)[first..end].iter_mut().zip(&chunks) {
                    *place = Some(chunk.clone());
                }
                chunks
            }
        };
        Ok(Mapping::new(held.clone(), chunks, (from % chunk_bytes, offset, bytes), writing))
    }

    /// Holds the newest version of a copy-on-write range instead. Mappings of the earlier one stay as they
    /// are, and hold it, until they are dropped.
    pub async fn refresh(&mut self) -> Result<(), SpaceError> {
        let held = &self.held;
        let (space, session) = (&held.space, held.session());
        let part = Some((held.address(), held.bytes));
        let alone = Arc::strong_count(&self.held) == 1;
        let request = match alone {
            true => Request::Refresh { session: session.id, hold: held.hold },
            false => Request::Init {
                session: session.id,
                space: space.id(),
                address: held.address(),
                bytes: held.bytes,
                write: held.write,
            },
        };
        let response = space.ask(&request).await?;
        if alone {
            held.hand_over();
        }
        *self = Self::take(space, response, part, held.write)?;
        Ok(())
    }

    /// Becomes the one writer of a copy-on-write range, for so long; 10 s unless said (RStore III-G).
    pub async fn lease(&mut self, lease: Option<Duration>) -> Result<Writer<'_>, WriteError> {
        Writer::begin(self, lease).await
    }

    /// Lets it go now, and says whether that was heard. Dropping it does the same, a little later.
    pub async fn release(self) -> Result<(), SpaceError> {
        let held = &self.held;
        if Arc::strong_count(&self.held) > 1 {
            // Mappings of it are still there: the last of them lets it go.
            return Ok(());
        }
        held.hand_over();
        held.space.ask(&Request::Drop { session: held.session().id, hold: held.hold }).await.map(|_| ())
    }
}
