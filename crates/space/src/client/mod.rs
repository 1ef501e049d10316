//! A client's side of spaces (RStore's user library, section III-D).
//!
//! [`Spaces`] is a session with the master and the connections to the members; [`Space`] a space that was
//! joined; [`RangeHandle`] a range of it that is held; [`Mapping`] a way to its bytes, and the only thing
//! on the data path; [`Writer`] the lease on a copy-on-write range. Everything is written once, as
//! futures; what moves bytes can also be waited for in place.
//!
//! What always holds: what a handle holds is let go when the last of it is dropped; a session that was
//! lost is never taken up again: its handles say so, and what comes next is in another.

mod ask;
mod error;
mod links;
mod mapping;
mod range;
mod session;
mod space;
mod spread;
mod writer;

pub use error::{AccessError, MapError, SpaceError, WriteError, role_name};
pub use mapping::Mapping;
pub use range::RangeHandle;
pub use space::{Joined, Reserved, Space};
pub use writer::Writer;

use crate::message::{Request, Response, Role, SessionId, SpaceInfo};
use barn_cluster::{Directory, Member, MemberId};
use barn_fabric::seam::{Clock, Schedule};
use barn_fabric::{ConnectError, Connection};
use links::Links;
use session::{Handle, Session};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// A future in a box: the control path's.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How a client reaches the members of a cluster.
pub trait Connector: Send + Sync {
    /// Connects to a member, within a time.
    fn connect<'a>(
        &'a self,
        member: &'a Member,
        limit: Duration,
    ) -> Boxed<'a, Result<Connection, ConnectError>>;

    /// Connects, within a time, to the address that the cluster was given by. `None` where there is none.
    fn rediscover<'a>(&'a self, limit: Duration) -> Option<Boxed<'a, Result<Connection, ConnectError>>> {
        let _ = limit;
        None
    }
}

/// What a client of spaces stands on.
#[derive(Clone)]
pub struct Environment {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who runs its task and wakes it from waits.
    pub schedule: Arc<dyn Schedule>,
    /// How it reaches nodes.
    pub connector: Arc<dyn Connector>,
    /// Who is in the cluster.
    pub directory: Arc<Directory>,
    /// The method by which nodes give their configuration.
    pub configuration_method: u16,
    /// Draws numbers that nobody can guess: the names of sessions.
    pub random: fn() -> u64,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// How a client of spaces behaves.
#[derive(Clone, Copy, Debug)]
pub struct SpacesOptions {
    /// How long an operation may take, all in all: 5 s unless said otherwise. What prepares memory may
    /// take as much longer as the master waits for its keepers.
    pub deadline: Duration,
    /// How long dropping the last handle waits until the master has heard that the session is over; nothing
    /// unless said, for a task of a runtime must not wait.
    pub linger: Duration,
}

impl Default for SpacesOptions {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(5), linger: Duration::ZERO }
    }
}

/// A client of spaces. Clones are the same client, and cheap; threads may share one.
///
/// Its session begins with its first question and ends with its last clone; everything that it holds is
/// let go then, and also if this process dies, after one lease.
#[derive(Clone)]
pub struct Spaces {
    pub(crate) inner: Arc<Inner>,
    /// Ends the session when the last clone goes.
    handle: Arc<Handle>,
}

pub(crate) struct Inner {
    pub(crate) environment: Environment,
    pub(crate) options: SpacesOptions,
    pub(crate) links: Links,
    pub(crate) session: Mutex<Arc<Session>>,
    /// The member that answered as master last.
    pub(crate) master: Mutex<Option<MemberId>>,
}

impl fmt::Debug for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spaces(session {:016x})", self.inner.session().id.0)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Inner {
    pub(crate) fn now(&self) -> Duration {
        self.environment.clock.now()
    }

    /// The session as it is now; another, if the last was lost.
    pub(crate) fn session(&self) -> Arc<Session> {
        let mut session = lock(&self.session);
        if session.is_lost() {
            *session = Arc::new(Session::new(SessionId((self.environment.random)())));
        }
        session.clone()
    }
}

impl Spaces {
    /// A client of the cluster that the environment's directory describes. Connects when it has to.
    pub fn new(environment: Environment, options: SpacesOptions) -> Self {
        let session = Arc::new(Session::new(SessionId((environment.random)())));
        let inner = Arc::new(Inner {
            environment,
            options,
            links: Links::default(),
            session: Mutex::new(session),
            master: Mutex::default(),
        });
        let handle = Arc::new(Handle::start(&inner));
        Self { inner, handle }
    }

    /// The name of the session, by which others can ask whether it is alive.
    pub fn session(&self) -> SessionId {
        self.inner.session().id
    }

    /// Makes a space with chunks of `chunk_bytes`, a power of two; `everyone` is what those without a key
    /// may do. The answer has its keys: who loses them cannot get them again.
    pub async fn create(&self, name: &str, chunk_bytes: u64, everyone: Role) -> Result<Joined, SpaceError> {
        let session = self.begin().await?;
        let request = Request::Create { session: session.id, name: name.into(), chunk_bytes, everyone };
        match self.inner.ask_again(&session, &request).await? {
            Response::Created { space, keys } => {
                let space = Space::new(self.clone(), session, space, name, Role::Owner, chunk_bytes);
                Ok(Joined { space, keys })
            }
            _ => Err(SpaceError::Protocol),
        }
    }

    /// Joins a space, with a key if one is needed.
    pub async fn join(&self, name: &str, key: Option<&str>) -> Result<Space, SpaceError> {
        let session = self.begin().await?;
        let request = Request::Join { session: session.id, name: name.into(), key: key.map(str::to_owned) };
        match self.inner.ask_again(&session, &request).await? {
            Response::Joined { space, role, chunk_bytes } => {
                Ok(Space::new(self.clone(), session, space, name, role, chunk_bytes))
            }
            _ => Err(SpaceError::Protocol),
        }
    }

    /// All spaces.
    pub async fn list(&self) -> Result<Vec<SpaceInfo>, SpaceError> {
        match self.inner.ask_again(&self.inner.session(), &Request::List).await? {
            Response::Spaces(spaces) => Ok(spaces),
            _ => Err(SpaceError::Protocol),
        }
    }

    /// One space: its size, its ranges, who uses it.
    pub async fn stat(&self, name: &str) -> Result<SpaceInfo, SpaceError> {
        let request = Request::Stat { name: name.into() };
        match self.inner.ask_again(&self.inner.session(), &request).await? {
            Response::Spaces(spaces) => spaces.into_iter().next().ok_or(SpaceError::Protocol),
            _ => Err(SpaceError::Protocol),
        }
    }

    /// Which of these sessions are alive.
    pub async fn alive(&self, sessions: &[SessionId]) -> Result<Vec<SessionId>, SpaceError> {
        let request = Request::Alive { sessions: sessions.to_vec() };
        match self.inner.ask_again(&self.inner.session(), &request).await? {
            Response::Alive(alive) => Ok(alive),
            _ => Err(SpaceError::Protocol),
        }
    }

    /// Ends the session, and with it everything that it holds, whoever still has a handle of it: now, or
    /// after one lease, if something is still mapped here for writing.
    pub async fn close(&self) -> Result<(), SpaceError> {
        let session = self.inner.session();
        session.lose();
        if !session.has_begun() || session.is_writing() {
            return Ok(());
        }
        match self.inner.ask_again(&session, &Request::End { session: session.id }).await {
            Ok(_) | Err(SpaceError::SessionLost) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The session, begun: the master knows it.
    async fn begin(&self) -> Result<Arc<Session>, SpaceError> {
        let session = self.inner.session();
        if !session.has_begun() {
            self.inner.renew(&session).await?;
            self.handle.wake();
        }
        Ok(session)
    }

    /// Waits, as the environment does.
    pub(crate) async fn pause(&self, time: Duration) {
        self.inner.environment.schedule.sleep(time).await;
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Duration {
        self.inner.now()
    }

    pub(crate) fn wake(&self) {
        self.handle.wake();
    }
}
