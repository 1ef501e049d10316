//! Moves bytes to or from several chunks at once (RStore section III-F): divided at chunk boundaries, and
//! each part at the longest piece that pays; a few chunks side by side, a few pieces of each on their way.
//!
//! What always holds: every byte of the caller's buffer is moved once, by one operation; nothing is
//! allocated here (over tcp the fabric keeps a word of its own for each operation that waits); the first
//! error ends all.

use super::AccessError;
use super::links::OpenChunk;
use barn_cluster::MemberId;
use barn_fabric::{OperationError, Transfer};
use barn_layout::limits::{OPERATION_BYTES_MAX, WORD_BYTES};
use barn_layout::planted;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Chunks that are read or written side by side: as many nodes can be busy for one caller.
pub(super) const STREAMS: usize = 8;
/// Pieces of one chunk on their way: while one is copied here, another is on the wire.
const DEPTH: usize = 4;
/// The longest piece that is sent: long enough to hide a round trip behind, short enough that the next is
/// on the wire while this one is copied out of the socket.
const PIECE_BYTES: usize = 1 << 20;

/// What one mark takes, as it is read.
pub(super) type Mark = [u8; WORD_BYTES];

/// Where a chunk is, by its number in the mapping.
pub(super) trait Chunks {
    /// The chunk with this number.
    fn chunk(&self, number: usize) -> Option<&OpenChunk>;
}

impl<C: std::ops::Deref<Target = OpenChunk>> Chunks for [C] {
    #[inline]
    fn chunk(&self, number: usize) -> Option<&OpenChunk> {
        self.get(number).map(|chunk| &**chunk)
    }
}

/// The caller's bytes that are still to be moved.
pub(super) enum Buffer<'a> {
    Into(&'a mut [u8]),
    From(&'a [u8]),
}

impl<'a> Buffer<'a> {
    fn len(&self) -> usize {
        match self {
            Self::Into(bytes) => bytes.len(),
            Self::From(bytes) => bytes.len(),
        }
    }

    /// Takes the first `bytes` off.
    fn take(&mut self, bytes: usize) -> Self {
        match self {
            Self::Into(rest) => {
                let (first, others) = std::mem::take(rest).split_at_mut(bytes);
                *rest = others;
                Self::Into(first)
            }
            Self::From(rest) => {
                let (first, others) = rest.split_at(bytes);
                *rest = others;
                Self::From(first)
            }
        }
    }

    fn start(self, chunk: &'a OpenChunk, offset: u64) -> Transfer<'a> {
        match self {
            Self::Into(into) => chunk.region.read(offset, into),
            Self::From(from) => chunk.region.write(offset, from),
        }
    }
}

/// One chunk's part of the whole, on its way.
struct Stream<'a> {
    chunk: &'a OpenChunk,
    offset: u64,
    rest: Buffer<'a>,
    /// Where its mark goes, until it is asked for.
    mark: Option<&'a mut Mark>,
    flying: [Option<Transfer<'a>>; DEPTH],
}

impl<'a> Stream<'a> {
    /// The next piece; the mark comes after the last of them, so that it is read after the data.
    fn next(&mut self) -> Option<Transfer<'a>> {
        // Mapped memory is copied here and now: there is no wire to keep busy.
        let most = if self.chunk.region.mapped().is_some() { OPERATION_BYTES_MAX } else { PIECE_BYTES };
        let bytes = self.rest.len().min(most);
        if bytes > 0 {
            let piece = self.rest.take(bytes).start(self.chunk, self.offset);
            self.offset += bytes as u64;
            return Some(piece);
        }
        let mark = self.mark.take()?;
        Some(self.chunk.marks.read(self.chunk.mark_at(), mark))
    }

    /// Goes on; done once nothing is on its way.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), OperationError>> {
        let mut flying = false;
        for place in 0..DEPTH {
            loop {
                if self.flying[place].is_none() {
                    self.flying[place] = self.next();
                }
                let Some(transfer) = &mut self.flying[place] else { break };
                match Pin::new(transfer).poll(cx) {
                    Poll::Ready(Ok(())) => self.flying[place] = None,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        flying = true;
                        break;
                    }
                }
            }
        }
        if flying { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

/// Bytes on their way to or from chunks; see the module.
pub(super) struct Spread<'a, C: Chunks + ?Sized> {
    chunks: &'a C,
    chunk_bytes: u64,
    /// Where the rest begins, counted from the first chunk's start.
    at: u64,
    rest: Buffer<'a>,
    marks: std::slice::IterMut<'a, Mark>,
    streams: [Option<Stream<'a>>; STREAMS],
}

impl<'a, C: Chunks + ?Sized> Spread<'a, C> {
    /// Moves `buffer` from or to `at` on, which is counted from the first chunk's start. Each chunk's mark
    /// is read after its data into one of `marks`, as far as they go.
    pub(super) fn new(
        chunks: &'a C,
        chunk_bytes: u64,
        at: u64,
        buffer: Buffer<'a>,
        marks: &'a mut [Mark],
    ) -> Self {
        Self {
            chunks,
            chunk_bytes,
            at,
            rest: buffer,
            marks: marks.iter_mut(),
            streams: [const { None }; STREAMS],
        }
    }

    /// The next chunk's part.
    fn next(&mut self) -> Result<Option<Stream<'a>>, AccessError> {
        if self.rest.len() == 0 {
            return Ok(None);
        }
        let (number, offset) = (self.at / self.chunk_bytes, self.at % self.chunk_bytes);
        let mut bytes = (self.chunk_bytes - offset).min(self.rest.len() as u64) as usize;
        if planted("spread_misses_chunk_boundary") && offset % 8 == 5 {
            bytes = self.rest.len().min(bytes + 1);
        }
        let chunk = usize::try_from(number).ok().and_then(|number| self.chunks.chunk(number));
        let Some(chunk) = chunk else {
            let (offset, bytes) = (self.at, self.rest.len() as u64);
            return Err(AccessError::OutOfBounds { offset, bytes, mapped_bytes: self.at });
        };
        let rest = self.rest.take(bytes);
        self.at += bytes as u64;
        let mark = self.marks.next();
        Ok(Some(Stream { chunk, offset, rest, mark, flying: [const { None }; DEPTH] }))
    }
}

impl<C: Chunks + ?Sized> Future for Spread<'_, C> {
    type Output = Result<(), AccessError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut flying = false;
        for place in 0..STREAMS {
            loop {
                if this.streams[place].is_none() {
                    match this.next() {
                        Ok(next) => this.streams[place] = next,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                let Some(stream) = &mut this.streams[place] else { break };
                match stream.poll(cx) {
                    Poll::Ready(Ok(())) => this.streams[place] = None,
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(failed(stream.chunk.member, error, stream.offset)));
                    }
                    Poll::Pending => {
                        flying = true;
                        break;
                    }
                }
            }
        }
        if flying { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

/// What a failed operation means to whoever moves bytes.
pub(super) fn failed(member: MemberId, error: OperationError, offset: u64) -> AccessError {
    match error {
        OperationError::Revoked | OperationError::BadKey => AccessError::Ended { member },
        OperationError::PeerGone => AccessError::Lost { member },
        OperationError::Deadline => AccessError::Deadline { member },
        OperationError::NoRight { .. } => AccessError::ReadOnly,
        OperationError::Misaligned { .. } => AccessError::Misaligned { offset },
        OperationError::OutOfBounds { .. } | OperationError::TooLong { .. } | OperationError::Protocol => {
            AccessError::Protocol { member }
        }
    }
}
