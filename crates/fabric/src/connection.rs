//! A connection to a node, and the operations on it.
//!
//! Every operation is a future; see [`crate::drive`] for the three ways to run one. `wait()` is
//! short for [`block_on`](crate::block_on).

use crate::drive;
use crate::error::{CallError, ConnectError, OpenError, OperationError};
use crate::link::{Guarantees, Link, Opened, Place, Wait};
use crate::region::{Ordering, Rights, Words, fence, versioned};
use crate::registry::PeerId;
use crate::verb::{Verb, check_range};
use barn_layout::RegionId;
use barn_layout::channel::{GRANT_LIVE, RING_BYTES_DEFAULT};
use barn_layout::limits::WORD_BYTES;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How a connection should be.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// How long any operation may take, unless it says otherwise.
    pub deadline: Duration,
    /// How requests are carried over shm.
    pub messaging: Messaging,
    /// Bytes of each shm ring: a power of two.
    pub ring_bytes: usize,
    /// The token that both ends of a tcp connection prove to know.
    pub token: Option<String>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            // 5 s: longer than any pause that we have seen on a loaded machine (8.7 ms) by far.
            deadline: Duration::from_secs(5),
            messaging: Messaging::Ring,
            ring_bytes: RING_BYTES_DEFAULT,
            token: None,
        }
    }
}

/// How requests are carried in shared memory; both carry the same RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messaging {
    /// FaRM's circular buffer: messages of any length, in order.
    Ring,
    /// HERD's request region: `window` slots of 1 KiB, each with its reply slot. A message that
    /// does not fit a slot goes through the ring.
    RequestRegion {
        /// Requests that may be outstanding.
        window: usize,
    },
}

/// A connection to a node. Clones share it; threads may too, though each does better with its
/// own.
#[derive(Clone)]
pub struct Connection {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) deadline: Duration,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({}, {})", self.link.transport(), self.link.peer())
    }
}

impl Connection {
    /// Connects to `shm:PATH` or `tcp://HOST:PORT`.
    pub fn connect(address: &str, options: ConnectOptions) -> Connecting {
        Connecting { start: Some((address.to_string(), options)), result: None }
    }

    fn connect_here(address: &str, options: &ConnectOptions) -> Result<Self, ConnectError> {
        let link: Arc<dyn Link> = if let Some(path) = address.strip_prefix("shm:") {
            crate::shm::connect(path.as_ref(), options)?
        } else if let Some(host) = address.strip_prefix("tcp://") {
            crate::tcp::connect(host, options)?
        } else {
            return Err(ConnectError::Address { address: address.to_string() });
        };
        Ok(Self { link, deadline: options.deadline })
    }

    /// The same connection, whose operations have another deadline.
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { link: self.link.clone(), deadline }
    }

    /// What this connection's transport promises.
    pub fn guarantees(&self) -> Guarantees {
        self.link.guarantees()
    }

    /// The transport: `shm`, `tcp` or `simulated`.
    pub fn transport(&self) -> &'static str {
        self.link.transport()
    }

    /// The number that the node gave this connection.
    pub fn peer(&self) -> PeerId {
        self.link.peer()
    }

    /// Whether the peer is there, as far as is known.
    pub fn is_open(&self) -> bool {
        self.link.is_open()
    }

    /// Opens a region with the rights that are needed on it.
    pub fn open(&self, region: RegionId, rights: Rights) -> Open<'_> {
        Open { connection: self, region, rights, wait: Wait::new(self.deadline) }
    }

    /// Calls a method of the node's service; the answer replaces what is in `reply`.
    pub fn call<'a>(&'a self, method: u16, request: &'a [u8], reply: &'a mut Vec<u8>) -> Call<'a> {
        Call { link: &self.link, method, request, reply, wait: Wait::new(self.deadline) }
    }

    /// Sends a message that expects no answer.
    pub fn send<'a>(&'a self, message: &'a [u8]) -> Sending<'a> {
        Sending { link: &self.link, message, wait: Wait::new(self.deadline) }
    }

    /// Takes the next message that the node sends by itself; it replaces what is in `into`.
    pub fn receive<'a>(&'a self, into: &'a mut Vec<u8>) -> Receive<'a> {
        Receive { link: &self.link, into, wait: Wait::new(self.deadline) }
    }
}

/// Connecting; see [`Connection::connect`].
///
/// Driven in place it connects on this thread; polled by a runtime, on a thread of its own, for
/// the handshake waits for the node.
#[must_use = "a future does nothing unless it is driven"]
pub struct Connecting {
    start: Option<(String, ConnectOptions)>,
    result: Option<Arc<std::sync::Mutex<Connected>>>,
}

/// What the connecting thread leaves when it is done.
type Connected = Option<Result<Connection, ConnectError>>;

impl Future for Connecting {
    type Output = Result<Connection, ConnectError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some((address, options)) = self.start.take() {
            if drive::in_place() {
                return Poll::Ready(Connection::connect_here(&address, &options));
            }
            let shared = Arc::new(std::sync::Mutex::new(None));
            let (result, waker) = (shared.clone(), cx.waker().clone());
            let spawned = std::thread::Builder::new().name("barn-connect".into()).spawn(move || {
                let connected = Connection::connect_here(&address, &options);
                *result.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(connected);
                waker.wake();
            });
            if let Err(error) = spawned {
                return Poll::Ready(Err(error.into()));
            }
            self.result = Some(shared);
        }
        let Some(shared) = &self.result else { return Poll::Ready(Err(ConnectError::Protocol)) };
        match shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}

impl Connecting {
    /// Connects, blocking this thread.
    pub fn wait(self) -> Result<Connection, ConnectError> {
        drive::block_on(self)
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
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

    /// What READs of this region promise.
    pub fn guarantees(&self) -> Guarantees {
        self.opened.link.guarantees()
    }

    /// READ: copies the bytes at `offset` into `into`.
    #[inline]
    pub fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> Transfer<'a> {
        Transfer(self.operation(Verb::Read { offset, into }))
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
    /// On shm: the bytes are being fetched into the cache.
    Fetching,
    Posted(Wait),
    Finished,
}

impl Operation<'_> {
    #[inline(always)]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, OperationError>> {
        let Place::Mapped { words, .. } = &self.region.place else { return self.poll_posted(cx) };
        if matches!(self.stage, Stage::New) && drive::interleaved() && matches!(self.verb, Verb::Read { .. })
        {
            // Out of bounds is found below, at the next poll; a prefetch is only advice.
            words.prefetch(self.verb.offset(), self.verb.bytes());
            self.stage = Stage::Fetching;
            return Poll::Pending;
        }
        self.stage = Stage::Finished;
        Poll::Ready(self.execute_mapped())
    }

    /// Carries it out where the region is mapped here: loads and stores, nobody is asked.
    #[inline(always)]
    fn execute_mapped(&mut self) -> Result<u64, OperationError> {
        let Place::Mapped { words, grants, grant } = &self.region.place else {
            return Err(OperationError::BadKey);
        };
        self.verb.check(self.region.rights, self.region.bytes)?;
        if self.verb.changes() {
            // What has ended before it began leaves the bytes as they are.
            self.check_standing(grants, *grant)?;
        }
        let done = self.verb.execute(words)?;
        // SYNC: pairs with the fence in `Standing::end`: bytes that were stored after the grant
        // ended are never taken for the grant's.
        fence(Ordering::Acquire);
        self.check_standing(grants, *grant)?;
        Ok(done)
    }

    /// Whether the node is there and the grant stands.
    #[inline(always)]
    fn check_standing(&self, grants: &Words, grant: u64) -> Result<(), OperationError> {
        if !self.region.opened.link.is_open() {
            return Err(OperationError::PeerGone);
        }
        if grants.load_word(grant, Ordering::Relaxed) != Ok(GRANT_LIVE) {
            return Err(OperationError::Revoked);
        }
        Ok(())
    }

    /// Carries it out through the link: posts it at the first poll, then looks for the answer.
    fn poll_posted(&mut self, cx: &mut Context<'_>) -> Poll<Result<u64, OperationError>> {
        let Place::Keyed(key) = &self.region.place else { return Poll::Pending };
        if matches!(self.stage, Stage::New) {
            if let Err(error) = self.verb.check(self.region.rights, self.region.bytes) {
                return self.finish(Err(error));
            }
            self.stage = Stage::Posted(Wait::new(self.region.deadline));
        }
        let Stage::Posted(wait) = &mut self.stage else { return Poll::Pending };
        let link = &self.region.opened.link;
        match link.poll_operation(cx, wait, *key, self.region.rights, &mut self.verb) {
            Poll::Ready(result) => self.finish(result),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Runs it to its end on this thread.
    #[inline]
    fn wait(mut self) -> Result<u64, OperationError> {
        if matches!(self.region.place, Place::Mapped { .. }) {
            // Nothing to wait for: the future would be ready at its first poll.
            return self.execute_mapped();
        }
        drive::block_on(std::future::poll_fn(move |cx| self.poll_posted(cx)))
    }

    #[inline]
    fn finish(&mut self, result: Result<u64, OperationError>) -> Poll<Result<u64, OperationError>> {
        self.stage = Stage::Finished;
        Poll::Ready(result)
    }
}

impl Drop for Operation<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Posted(Wait { ticket: Some(ticket), .. }) = self.stage {
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
        self.0.poll(cx).map(|result| result.map(|_| ()))
    }
}

impl Transfer<'_> {
    /// Carries it out, blocking this thread.
    #[inline]
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
        self.0.poll(cx)
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
                    match operation.poll(cx) {
                        Poll::Ready(Ok(_)) => {}
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

/// Opening a region; see [`Connection::open`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Open<'a> {
    connection: &'a Connection,
    region: RegionId,
    rights: Rights,
    wait: Wait,
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

/// A call under way; see [`Connection::call`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Call<'a> {
    link: &'a Arc<dyn Link>,
    method: u16,
    request: &'a [u8],
    reply: &'a mut Vec<u8>,
    wait: Wait,
}

impl Future for Call<'_> {
    type Output = Result<(), CallError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let polled = this.link.poll_call(cx, &mut this.wait, this.method, this.request, this.reply);
        if polled.is_ready() {
            // Collected or given up by the link: nothing is left to abandon.
            this.wait.ticket = None;
        }
        polled
    }
}

impl Call<'_> {
    /// Calls, blocking this thread.
    pub fn wait(self) -> Result<(), CallError> {
        drive::block_on(self)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.wait.ticket {
            self.link.abandon(ticket);
        }
    }
}

/// A message on its way; see [`Connection::send`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Sending<'a> {
    link: &'a Arc<dyn Link>,
    message: &'a [u8],
    wait: Wait,
}

impl Future for Sending<'_> {
    type Output = Result<(), CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let polled = this.link.poll_send(cx, &mut this.wait, this.message);
        if polled.is_ready() {
            this.wait.ticket = None;
        }
        polled
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.wait.ticket {
            self.link.abandon(ticket);
        }
    }
}

impl Sending<'_> {
    /// Sends, blocking this thread until the transport has taken all of it.
    pub fn wait(self) -> Result<(), CallError> {
        drive::block_on(self)
    }
}

/// Waiting for a message; see [`Connection::receive`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Receive<'a> {
    link: &'a Arc<dyn Link>,
    into: &'a mut Vec<u8>,
    wait: Wait,
}

impl Future for Receive<'_> {
    type Output = Result<(), CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.link.poll_receive(cx, &mut this.wait, this.into)
    }
}

impl Receive<'_> {
    /// Receives, blocking this thread.
    pub fn wait(self) -> Result<(), CallError> {
        drive::block_on(self)
    }
}
