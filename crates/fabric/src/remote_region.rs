//! One-sided operations on a region that a node let us into.
//!
//! Where the region is mapped here (shm) an operation is carried out on the spot; elsewhere its
//! future posts it and waits for the answer. After a READ or WRITE through a mapping the grant and
//! the peer are looked at, so that bytes which no longer belong to the grant are never given out.

use crate::connection::Connection;
use crate::drive;
use crate::error::{OpenError, OperationError};
use crate::link::{AtOnce, Guarantees, Link, Opened, Place, Wait};
use crate::region::{Ordering, Rights, Word, fence, versioned};
use crate::verb::{Verb, check_range};
use barn_layout::RegionId;
use barn_layout::channel::GRANT_LIVE;
use barn_layout::limits::WORD_BYTES;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

/// Opening a region; see [`Connection::open`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Open<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) region: RegionId,
    pub(crate) rights: Rights,
    pub(crate) wait: Wait,
}

impl Future for Open<'_> {
    type Output = Result<RemoteRegion, OpenError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let link = &this.connection.link;
        link.poll_open(cx, &mut this.wait, this.region, this.rights).map(|opened| {
            this.wait.ticket = None;
            let Opened { bytes, rights, place } = opened?;
            let opened = Arc::new(Grant { link: link.clone(), place: place.clone() });
            Ok(RemoteRegion {
                id: this.region,
                bytes,
                rights,
                place,
                deadline: this.connection.deadline,
                opened,
            })
        })
    }
}

impl Open<'_> {
    /// The same, which may take so long. To be said before it is first polled.
    pub fn within(mut self, limit: Duration) -> Self {
        self.wait = Wait::new(limit);
        self
    }

    /// Opens, blocking this thread.
    pub fn wait(self) -> Result<RemoteRegion, OpenError> {
        drive::block_on(self)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.wait.ticket {
            self.connection.link.abandon(ticket);
        }
    }
}

/// A region of a node that this process was let into. Clones share the grant.
#[derive(Clone)]
pub struct RemoteRegion {
    id: RegionId,
    bytes: u64,
    rights: Rights,
    place: Place,
    deadline: Duration,
    opened: Arc<Grant>,
}

/// Gives the grant back when the last handle goes.
struct Grant {
    link: Arc<dyn Link>,
    place: Place,
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.link.close_region(&self.place);
    }
}

impl fmt::Debug for RemoteRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteRegion({}, {} bytes, {})", self.id, self.bytes, self.rights)
    }
}

impl RemoteRegion {
    /// The region's number.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What was granted.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// The region's memory, where the transport maps it here (shm). For benchmarks of bare loads:
    /// reads that are to be right go through [`RemoteRegion::read`], which checks the grant.
    pub fn mapped(&self) -> Option<&crate::region::Words> {
        match &self.place {
            Place::Mapped { words, .. } => Some(words),
            Place::Keyed(_) => None,
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Asks the CPU to fetch bytes that are about to be read, where the region is mapped here.
    #[inline]
    pub fn prefetch(&self, offset: u64, bytes: usize) {
        if let Place::Mapped { words, .. } = &self.place {
            words.prefetch(offset, bytes);
        }
    }

    /// What READs of this region promise.
    pub fn guarantees(&self) -> Guarantees {
        self.opened.link.guarantees()
    }

    /// READ: copies the bytes at `offset` into `into`.
    #[inline]
    pub fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> Transfer<'a> {
        Transfer(self.operation(Verb::Read { offset, into }))
    }

    /// As [`Self::read`], blocking this thread, within a time: for memory that is probably not mapped here.
    #[inline(always)]
    pub fn read_waiting(&self, offset: u64, into: &mut [u8], limit: Duration) -> Result<(), OperationError> {
        let mut read = self.read(offset, into).within(limit).0;
        let done = match read.try_at_once() {
            Some(done) => done,
            None if self.mapped().is_some() => read.execute_mapped(),
            None => read.wait_posted(),
        };
        done.map(|_| ())
    }

    /// WRITE: copies `from` to `offset`.
    #[inline]
    pub fn write<'a>(&'a self, offset: u64, from: &'a [u8]) -> Transfer<'a> {
        Transfer(self.operation(Verb::Write { offset, from }))
    }

    /// Compare-and-swap of the word at `offset`: gives what was there.
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Atomic<'_> {
        Atomic(self.operation(Verb::CompareSwap { offset, expected, new }))
    }

    /// Fetch-and-add on the word at `offset`: gives what was there.
    pub fn fetch_add(&self, offset: u64, add: u64) -> Atomic<'_> {
        Atomic(self.operation(Verb::FetchAdd { offset, add }))
    }

    /// Reads a value that verifies itself (see [`versioned`]) and gives its version, or `None`
    /// if a writer was at it: then the body is not to be used, and the read may be tried again.
    ///
    /// Sound with 8-byte atomicity and words in any order: version, body and version are three
    /// READs that are carried out one after another, posted as one batch.
    pub async fn read_versioned(&self, offset: u64, body: &mut [u8]) -> Result<Option<u64>, OperationError> {
        // One look at the whole, so that the errors are the same on every transport.
        check_range(Rights::READ, self.rights, offset, body.len() + WORD_BYTES, self.bytes)?;
        if !offset.is_multiple_of(WORD_BYTES as u64) {
            return Err(OperationError::Misaligned { offset });
        }
        if let Place::Mapped { words, .. } = &self.place {
            // Where the memory is mapped, three loads do, and nothing is allocated for them.
            let taken = versioned::try_load(words, offset, body)?;
            // One READ of the version through the front door checks the grant and the peer.
            self.read(offset, &mut [0; WORD_BYTES]).await?;
            return Ok(taken);
        }
        let (mut before, mut after) = ([0; WORD_BYTES], [0; WORD_BYTES]);
        let body_at = offset + versioned::VERSION_BYTES;
        let mut batch = Batch::new();
        batch
            .push(self.read(offset, &mut before))
            .push(self.read(body_at, body))
            .push(self.read(offset, &mut after));
        batch.await?;
        Ok(versioned::accept(u64::from_le_bytes(before), u64::from_le_bytes(after)))
    }

    #[inline]
    fn operation<'a>(&'a self, verb: Verb<'a>) -> Operation<'a> {
        Operation { region: self, verb, stage: Stage::New }
    }
}

/// A one-sided operation under way.
#[derive(Debug)]
struct Operation<'a> {
    region: &'a RemoteRegion,
    verb: Verb<'a>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    New,
    /// New, and may take so long.
    Limited(Duration),
    /// On shm: the bytes are being fetched into the cache.
    Fetching,
    /// Elsewhere: it waits for its answer. Boxed, so that a READ of mapped memory stays small.
    Posted(Box<Wait>),
    Finished,
}

impl Operation<'_> {
    /// Polls it; `of` makes a result of what a word held, which is 0 where there was none.
    #[inline(always)]
    fn poll<T>(&mut self, cx: &mut Context<'_>, of: impl Fn(u64) -> T) -> Poll<Result<T, OperationError>> {
        let Place::Mapped { words, .. } = &self.region.place else {
            return self.poll_posted(cx).map(|done| done.map(of));
        };
        // Apart from the others, which ask at every step what they are: this is the way of most.
        if let Verb::Read { offset, into } = &mut self.verb {
            if matches!(self.stage, Stage::New) && drive::interleaved() {
                // Out of bounds is found below, at the next poll; a prefetch is only advice.
                words.prefetch(*offset, into.len());
                self.stage = Stage::Fetching;
                drive::poll_again();
                return Poll::Pending;
            }
            let read = read_mapped(self.region, *offset, into);
            self.stage = Stage::Finished;
            return Poll::Ready(read.map(|()| of(0)));
        }
        self.stage = Stage::Finished;
        Poll::Ready(self.execute_mapped().map(of))
    }

    /// Carries it out where the region is mapped here: loads and stores, nobody is asked.
    #[inline(always)]
    fn execute_mapped(&mut self) -> Result<u64, OperationError> {
        if let Verb::Read { offset, into } = &mut self.verb {
            return read_mapped(self.region, *offset, into).map(|()| 0);
        }
        let Place::Mapped { words, grant, open } = &self.region.place else {
            return Err(OperationError::BadKey);
        };
        self.verb.check(self.region.rights, self.region.bytes)?;
        // What has ended before it began leaves the bytes as they are.
        check_standing(grant, open)?;
        let done = self.verb.execute(words)?;
        check_standing_after(grant, open)?;
        Ok(done)
    }

    /// Carries it out through the link: posts it at the first poll, then looks for the answer.
    fn poll_posted(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, OperationError>> {
        let Place::Keyed(key) = &self.region.place else { return Poll::Pending };
        if let Some(limit) = self.limit_of_new() {
            if let Err(error) = self.verb.check(self.region.rights, self.region.bytes) {
                return self.finish(Err(error));
            }
            self.stage = Stage::Posted(Box::new(Wait::new(limit)));
        }
        let Stage::Posted(wait) = &mut self.stage else { return Poll::Pending };
        let link = &self.region.opened.link;
        match link.poll_operation(cx, wait, *key, self.region.rights, &mut self.verb) {
            Poll::Ready(result) => self.finish(result),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Gives it another deadline, before it is first polled. Mapped memory is never waited for.
    #[inline]
    fn limit(&mut self, limit: Duration) {
        if matches!(self.region.place, Place::Keyed(_)) {
            self.stage = Stage::Limited(limit);
        }
    }

    /// How long it may take; nothing once it has begun.
    #[inline]
    fn limit_of_new(&self) -> Option<Duration> {
        match self.stage {
            Stage::New => Some(self.region.deadline),
            Stage::Limited(limit) => Some(limit),
            Stage::Fetching | Stage::Posted(_) | Stage::Finished => None,
        }
    }

    /// Runs it to its end on this thread.
    #[inline(always)]
    fn wait(mut self) -> Result<u64, OperationError> {
        if matches!(self.region.place, Place::Mapped { .. }) {
            // Nothing to wait for: the future would be ready at its first poll.
            return self.execute_mapped();
        }
        self.wait_afar()
    }

    /// The same of one that travels.
    #[inline(never)]
    fn wait_afar(mut self) -> Result<u64, OperationError> {
        match self.try_at_once() {
            Some(done) => done,
            None => self.wait_posted(),
        }
    }

    /// The same once it was tried at once, in vain.
    #[inline(never)]
    fn wait_posted(mut self) -> Result<u64, OperationError> {
        drive::block_on_alone(std::future::poll_fn(move |cx| self.poll_posted(cx)))
    }

    /// Tries a READ without a future; nothing if there is something to wait for.
    #[inline(always)]
    fn try_at_once(&mut self) -> Option<Result<u64, OperationError>> {
        let (Place::Keyed(key), Some(limit)) = (&self.region.place, self.limit_of_new()) else { return None };
        let checked = self.verb.check(self.region.rights, self.region.bytes);
        let Verb::Read { offset, into } = &mut self.verb else { return None };
        let tried = match checked {
            Ok(()) => self.region.opened.link.read_at_once(*key, *offset, into),
            Err(error) => AtOnce::Done(Err(error)),
        };
        match tried {
            AtOnce::Done(done) => {
                self.stage = Stage::Finished;
                return Some(done.map(|()| 0));
            }
            AtOnce::Posted(ticket) => self.stage = Stage::Posted(Box::new(Wait::posted(limit, ticket))),
            AtOnce::NotTried => {}
        }
        None
    }

    #[inline]
    fn finish(&mut self, result: Result<u64, OperationError>) -> Poll<Result<u64, OperationError>> {
        self.stage = Stage::Finished;
        Poll::Ready(result)
    }
}

/// A READ where the region is mapped here.
#[inline(always)]
pub(crate) fn read_mapped(region: &RemoteRegion, offset: u64, into: &mut [u8]) -> Result<(), OperationError> {
    let Place::Mapped { words, grant, open } = &region.place else {
        return Err(OperationError::BadKey);
    };
    check_range(Rights::READ, region.rights, offset, into.len(), region.bytes)?;
    words.load(offset, into)?;
    check_standing_after(grant, open)
}

/// Whether the node is there and the grant stands, after bytes were loaded or stored.
#[inline(always)]
fn check_standing_after(grant: &Word, open: &AtomicBool) -> Result<(), OperationError> {
    // SYNC: Acquire, pairs with the fence in `Standing::end`: bytes that were stored after the grant
    // ended are never taken for the grant's.
    fence(Ordering::Acquire);
    check_standing(grant, open)
}

/// Whether the node is there and the grant stands.
#[inline(always)]
pub(crate) fn check_standing(grant: &Word, open: &AtomicBool) -> Result<(), OperationError> {
    // SYNC: Acquire, pairs with the Release store in the client's `close`.
    if !open.load(Ordering::Acquire) {
        return Err(OperationError::PeerGone);
    }
    if grant.load(Ordering::Relaxed) != GRANT_LIVE {
        return Err(OperationError::Revoked);
    }
    Ok(())
}

impl Drop for Operation<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Posted(wait) = &self.stage
            && let Some(ticket) = wait.ticket
        {
            self.region.opened.link.abandon(ticket);
        }
    }
}

/// A READ or a WRITE under way.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is driven"]
pub struct Transfer<'a>(Operation<'a>);

impl Future for Transfer<'_> {
    type Output = Result<(), OperationError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx, |_| ())
    }
}

impl Transfer<'_> {
    /// The same, which may take so long. To be said before it is first polled.
    #[inline]
    pub fn within(mut self, limit: Duration) -> Self {
        self.0.limit(limit);
        self
    }

    /// Carries it out, blocking this thread.
    #[inline(always)]
    pub fn wait(self) -> Result<(), OperationError> {
        self.0.wait().map(|_| ())
    }
}

/// An atomic under way: its result is what the word held before.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is driven"]
pub struct Atomic<'a>(Operation<'a>);

impl Future for Atomic<'_> {
    type Output = Result<u64, OperationError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx, |held| held)
    }
}

impl Atomic<'_> {
    /// Carries it out, blocking this thread.
    pub fn wait(self) -> Result<u64, OperationError> {
        self.0.wait()
    }
}

/// Several READs and WRITEs that are posted at once and carried out in order.
///
/// The first error ends the batch; operations after it may or may not have been carried out.
#[derive(Debug, Default)]
#[must_use = "a future does nothing unless it is driven"]
pub struct Batch<'a> {
    operations: Vec<Operation<'a>>,
    posted: bool,
}

impl<'a> Batch<'a> {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation.
    pub fn push(&mut self, transfer: Transfer<'a>) -> &mut Self {
        self.operations.push(transfer.0);
        self
    }

    /// Carries it out, blocking this thread.
    pub fn wait(self) -> Result<(), OperationError> {
        drive::block_on(self)
    }
}

impl Future for Batch<'_> {
    type Output = Result<(), OperationError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.posted {
            self.posted = true;
            for operation in &self.operations {
                if let Place::Mapped { words, .. } = &operation.region.place {
                    words.prefetch(operation.verb.offset(), operation.verb.bytes());
                }
            }
        }
        // Twice: the first round posts everything, the second sends it off in one piece and
        // takes what is there already.
        for _round in 0..2 {
            let mut pending = false;
            let round = drive::in_order(|| {
                for operation in &mut self.operations {
                    if matches!(operation.stage, Stage::Finished) {
                        continue;
                    }
                    match operation.poll(cx, |_| ()) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) => return Err(error),
                        Poll::Pending => pending = true,
                    }
                }
                Ok(())
            });
            if round.is_err() || !pending {
                return Poll::Ready(round);
            }
        }
        Poll::Pending
    }
}
