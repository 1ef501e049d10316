//! A mapped range, or a part of one: reads and writes, asking nobody (RStore section III-F).
//!
//! What always holds: offsets are checked against the mapping before anything moves; a read of one chunk
//! is one READ, and over shm one copy out of the memory itself; a reader of a copy-on-write range sees the
//! version that it holds, or an error, and learns by the marks that there is a newer one.

use super::AccessError;
use super::links::OpenChunk;
use super::range::Held;
use super::session::Writing;
use super::spread::{Buffer, Chunks as _, STREAMS, Spread, failed};
use barn_fabric::{OperationError, Rights, block_on};
use barn_layout::limits::{OPERATION_BYTES_MAX, WORD_BYTES};
use barn_layout::space::MARK_CLEAN;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A way to a range's bytes. Clones are the same mapping; threads may share one. It is unmapped, and the
/// range let go, with the last of it.
#[derive(Clone)]
pub struct Mapping {
    shared: Arc<Shared>,
}

struct Shared {
    /// What it maps is held for as long.
    held: Arc<Held>,
    chunks: Vec<Arc<OpenChunk>>,
    chunk_bytes: u64,
    /// Where the mapping begins in its first chunk.
    start: u64,
    bytes: u64,
    /// Where the mapping begins in the range that is held.
    offset: u64,
    /// There if it can be written to.
    writing: Option<Writing>,
    /// Whether marks are read along with the data.
    marked: bool,
    /// Whether a mark said that there is a newer version.
    tainted: AtomicBool,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { bytes, writing, chunks, .. } = &*self.shared;
        let how = if writing.is_some() { "writable" } else { "read-only" };
        write!(f, "Mapping({bytes} bytes in {} chunks, {how})", chunks.len())
    }
}

impl Mapping {
    pub(super) fn new(
        held: Arc<Held>,
        chunks: Vec<Arc<OpenChunk>>,
        (start, offset, bytes): (u64, u64, u64),
        writing: Option<Writing>,
    ) -> Self {
        let (chunk_bytes, marked) = (held.range.chunk_bytes, held.range.copy_on_write);
        let tainted = AtomicBool::new(false);
        let shared = Shared { held, chunks, chunk_bytes, start, bytes, offset, writing, marked, tainted };
        Self { shared: Arc::new(shared) }
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes
    }

    /// The address at which it begins, in its space.
    pub fn address(&self) -> u64 {
        self.shared.held.address() + self.shared.offset
    }

    /// Of a copy-on-write range, the version that is mapped; otherwise 0.
    pub fn version(&self) -> u64 {
        self.shared.held.range.version
    }

    /// Whether it can be written to.
    pub fn is_writable(&self) -> bool {
        self.shared.writing.is_some()
    }

    /// Whether all of it is memory of this host, so that reads are loads.
    pub fn is_local(&self) -> bool {
        self.shared.chunks.iter().all(|chunk| chunk.region.mapped().is_some())
    }

    /// Whether no read through this mapping has met a mark that says there is a newer version. What was
    /// read is of the version that is mapped, in any case.
    pub fn is_current(&self) -> bool {
        // ORDER: Relaxed: a flag that stands alone; the version itself is the master's to give.
        !self.shared.tainted.load(Ordering::Relaxed)
    }

    /// Where a range of the mapping begins, counted from the first chunk's start.
    #[inline]
    fn place(&self, offset: u64, bytes: usize, write: bool) -> Result<u64, AccessError> {
        let shared = &*self.shared;
        if write && shared.writing.is_none() {
            return Err(AccessError::ReadOnly);
        }
        if offset.checked_add(bytes as u64).is_none_or(|end| end > shared.bytes) {
            let (bytes, mapped_bytes) = (bytes as u64, shared.bytes);
            return Err(AccessError::OutOfBounds { offset, bytes, mapped_bytes });
        }
        Ok(shared.start + offset)
    }

    /// The one chunk that holds it all, with the place there, if one operation moves it.
    #[inline]
    fn within_one(&self, at: u64, bytes: usize) -> Option<(&OpenChunk, u64)> {
        let shared = &*self.shared;
        // Chunks are powers of two long.
        let (number, offset) = (at >> shared.chunk_bytes.trailing_zeros(), at & (shared.chunk_bytes - 1));
        let fits = offset + bytes as u64 <= shared.chunk_bytes && bytes <= OPERATION_BYTES_MAX;
        shared.chunks[..].chunk(number as usize).filter(|_| fits).map(|chunk| (chunk, offset))
    }

    /// Reads the bytes at `offset`.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let at = self.place(offset, into.len(), false)?;
        if self.shared.marked {
            return self.read_marked(at, into).await;
        }
        if let Some((chunk, place)) = self.within_one(at, into.len()) {
            let read = chunk.region.read(place, into).await;
            return read.map_err(|error| failed(chunk.member, error, offset));
        }
        self.spread(at, Buffer::Into(into)).await
    }

    /// Reads the bytes at `offset`, blocking this thread.
    #[inline]
    pub fn read_now(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let at = self.place(offset, into.len(), false)?;
        if let Some((chunk, place)) = self.within_one(at, into.len())
            && !self.shared.marked
        {
            let read = chunk.region.read(place, into).wait();
            return read.map_err(|error| failed(chunk.member, error, offset));
        }
        block_on(self.read(offset, into))
    }

    /// Writes bytes to `offset`.
    pub async fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        let at = self.place(offset, from.len(), true)?;
        if let Some((chunk, place)) = self.within_one(at, from.len()) {
            let written = chunk.region.write(place, from).await;
            return written.map_err(|error| failed(chunk.member, error, offset));
        }
        self.spread(at, Buffer::From(from)).await
    }

    /// Writes bytes to `offset`, blocking this thread.
    #[inline]
    pub fn write_now(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        let at = self.place(offset, from.len(), true)?;
        if let Some((chunk, place)) = self.within_one(at, from.len()) {
            let written = chunk.region.write(place, from).wait();
            return written.map_err(|error| failed(chunk.member, error, offset));
        }
        block_on(self.write(offset, from))
    }

    async fn spread(&self, at: u64, buffer: Buffer<'_>) -> Result<(), AccessError> {
        let shared = &*self.shared;
        Spread::new(&shared.chunks[..], shared.chunk_bytes, at, buffer, &mut []).await
    }

    /// Reads, and looks at the mark of each chunk after its data, in the same batch.
    async fn read_marked(&self, mut at: u64, mut into: &mut [u8]) -> Result<(), AccessError> {
        let shared = &*self.shared;
        while !into.is_empty() {
            let mut marks = [[0; WORD_BYTES]; STREAMS];
            // As many chunks as there are marks to read.
            let most = shared.chunk_bytes * STREAMS as u64 - at % shared.chunk_bytes;
            let (now, rest) = into.split_at_mut((into.len() as u64).min(most) as usize);
            let bytes = now.len() as u64;
            Spread::new(&shared.chunks[..], shared.chunk_bytes, at, Buffer::Into(now), &mut marks).await?;
            self.note(&marks);
            (at, into) = (at + bytes, rest);
        }
        Ok(())
    }

    fn note(&self, marks: &[[u8; WORD_BYTES]]) {
        if marks.iter().any(|mark| u64::from_le_bytes(*mark) != MARK_CLEAN) {
            // ORDER: Relaxed: a flag that stands alone.
            self.shared.tainted.store(true, Ordering::Relaxed);
        }
    }

    /// Looks at the marks of all chunks; whether none of them says that there is a newer version.
    pub async fn check(&self) -> Result<bool, AccessError> {
        if self.shared.marked {
            for chunk in &self.shared.chunks {
                let mut mark = [0; WORD_BYTES];
                let read = chunk.marks.read(chunk.mark_at(), &mut mark).await;
                read.map_err(|error| failed(chunk.member, error, 0))?;
                self.note(&[mark]);
            }
        }
        Ok(self.is_current())
    }

    /// Adds to the word at `offset`, a multiple of 8, atomically; gives what it was.
    pub async fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError> {
        let (chunk, place) = self.word(offset)?;
        chunk.region.fetch_add(place, add).await.map_err(|error| failed(chunk.member, error, offset))
    }

    /// Replaces the word at `offset`, a multiple of 8, if it is `expected`; gives what it was.
    pub async fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, AccessError> {
        let (chunk, place) = self.word(offset)?;
        let swapped = chunk.region.compare_swap(place, expected, new).await;
        swapped.map_err(|error| failed(chunk.member, error, offset))
    }

    fn word(&self, offset: u64) -> Result<(&OpenChunk, u64), AccessError> {
        let at = self.place(offset, WORD_BYTES, true)?;
        match self.within_one(at, WORD_BYTES) {
            Some((chunk, place)) if place.is_multiple_of(WORD_BYTES as u64) => Ok((chunk, place)),
            _ => Err(AccessError::Misaligned { offset }),
        }
    }

    /// Whether the bytes can be believed to be there: asks every chunk for nothing, so that a mapping whose
    /// space was deleted says so before anything is read.
    pub async fn probe(&self) -> Result<(), AccessError> {
        for chunk in &self.shared.chunks {
            let nothing = chunk.region.read(0, &mut []).await;
            nothing.map_err(|error: OperationError| failed(chunk.member, error, 0))?;
        }
        Ok(())
    }

    /// What it may do, as the nodes granted it.
    pub fn rights(&self) -> Rights {
        if self.is_writable() { Rights::ALL } else { Rights::READ }
    }
}
