//! A connection to a node, and the operations on it.
//!
//! Every operation is a future; see [`crate::drive`] for the three ways to run one. `wait()` is
//! short for [`block_on`](crate::block_on).

use crate::DeviceChoice;
use crate::call::{Call, Receive, Sending};
use crate::drive;
use crate::error::ConnectError;
use crate::link::{Guarantees, Link, Wait};
use crate::region::Rights;
use crate::registry::PeerId;
use crate::remote_region::Open;
use barn_layout::RegionId;
use barn_layout::channel::RING_BYTES_DEFAULT;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How a connection should be.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// How long any operation may take, unless it says otherwise.
    pub deadline: Duration,
    /// How requests are carried over shm and verbs.
    pub messaging: Messaging,
    /// Bytes of each ring of shm and verbs: a power of two.
    pub ring_bytes: usize,
    /// The token that both ends of a tcp connection prove to know.
    pub token: Option<String>,
    /// The device of a verbs connection; by itself it is the one that has the address from which
    /// the control stream goes out.
    pub device: Option<DeviceChoice>,
    /// The address from which tcp and control streams go out, where the system's choice is not
    /// the right one.
    pub bind: Option<IpAddr>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            // 5 s: longer than any pause that we have seen on a loaded machine (8.7 ms) by far.
            deadline: Duration::from_secs(5),
            messaging: Messaging::Ring,
            ring_bytes: RING_BYTES_DEFAULT,
            token: None,
            device: None,
            bind: None,
        }
    }
}

#[cfg(feature = "verbs")]
fn connect_verbs(host: &str, options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    crate::verbs::connect(host, options)
}

#[cfg(not(feature = "verbs"))]
fn connect_verbs(_host: &str, _options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    Err(crate::VerbsError::NotBuilt.into())
}

/// How requests are carried in shared memory and by verbs; both carry the same RPC.
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
/// own. Over verbs that is how queue pairs are shared (FaRM's q threads to one): a connection has
/// two, and as many threads as hold a clone use them behind its lock.
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
    /// Connects to `shm:PATH`, `tcp://HOST:PORT` or `verbs://HOST:PORT`, where the last is the
    /// node's tcp port: queue pairs are asked for over a stream to it.
    pub fn connect(address: &str, options: ConnectOptions) -> Connecting {
        Connecting { start: Some((address.to_string(), options)), result: None }
    }

    fn connect_here(address: &str, options: &ConnectOptions) -> Result<Self, ConnectError> {
        let link: Arc<dyn Link> = if let Some(path) = address.strip_prefix("shm:") {
            crate::shm::connect(path.as_ref(), options)?
        } else if let Some(host) = address.strip_prefix("tcp://") {
            crate::tcp::connect(host, options)?
        } else if let Some(host) = address.strip_prefix("verbs://") {
            connect_verbs(host, options)?
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

    /// The transport: `shm`, `tcp`, `verbs` or `simulated`.
    pub fn transport(&self) -> &'static str {
        self.link.transport()
    }

    /// Whether messages lie in memory that both sides map, so that an answer may be there within a microsecond.
    #[inline]
    pub fn is_near(&self) -> bool {
        self.link.is_near()
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
    #[inline]
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
