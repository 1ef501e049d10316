//! Membership: the task by which a process is a member: joins, renews, learns, leaves.
//!
//! What always holds: the lease counts from before it was asked for; a configuration that came
//! with a lease is in the directory before the lease counts, so whoever finds a valid lease also
//! finds every configuration up to it; a process that is told to leave stops counting on its lease
//! before the coordinator hears of it. There are no threads in here and nothing blocks, so it runs
//! on the simulated world as it does for real.

mod backoff;
mod exchange;

use crate::configuration::RegionPlacement;
use crate::directory::Directory;
use crate::lease::{HeldLease, LEASE_DEFAULT};
use crate::member::{Life, MemberId};
use crate::message::{Request, Response};
use crate::wire::{AskError, ask};
use backoff::Backoff;
use barn_fabric::seam::{Clock, Schedule};
use barn_fabric::{ConnectError, Connection};
use barn_layout::RegionId;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

/// What a process says of itself.
#[derive(Clone, Debug)]
pub struct MembershipOptions {
    /// The number under which the coordinator's service takes requests.
    pub method: u16,
    /// Where this process is reached, best first.
    pub addresses: Vec<String>,
    /// Which host it is on.
    pub host: String,
    /// The memory that it offers.
    pub memory_bytes: u64,
    /// This life of the process: drawn at random when it starts.
    pub life: Life,
    /// The member that it was in an earlier life, whose regions it still has.
    pub rejoining: Option<MemberId>,
}

/// How things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipState {
    /// Not a member yet, or no more and trying to be again.
    Joining,
    /// A member, as far as is known: its lease may have ended all the same.
    Member(MemberId),
    /// Left.
    Left,
    /// Another process took this member's place; the task has ended.
    Superseded(MemberId),
}

struct Inner {
    state: MembershipState,
    lease: HeldLease,
    /// Whom to rejoin as.
    was: Option<MemberId>,
    connection: Option<Connection>,
    leaving: Option<Leaving>,
    trouble: Option<String>,
    wakers: Vec<Waker>,
}

/// The process was told to leave.
#[derive(Clone, Copy)]
struct Leaving {
    /// By then the coordinator has expelled it, whether or not it can be told.
    by: Duration,
    /// Whether the coordinator has been asked.
    asked: bool,
}

struct Shared {
    options: MembershipOptions,
    clock: Arc<dyn Clock>,
    schedule: Arc<dyn Schedule>,
    directory: Arc<Directory>,
    inner: Mutex<Inner>,
}

/// A process's membership. Clones are the same.
#[derive(Clone)]
pub struct Membership {
    shared: Arc<Shared>,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Membership({:?}, {:?})", self.state(), self.shared.directory)
    }
}

impl Membership {
    /// A membership that begins with [`Self::run`] or [`Self::start`]. Configurations go into
    /// `directory`.
    pub fn new(
        options: MembershipOptions,
        directory: Arc<Directory>,
        clock: Arc<dyn Clock>,
        schedule: Arc<dyn Schedule>,
    ) -> Self {
        let inner = Inner {
            state: MembershipState::Joining,
            lease: HeldLease::none(),
            was: options.rejoining,
            connection: None,
            leaving: None,
            trouble: None,
            wakers: Vec::new(),
        };
        let shared = Shared { options, clock, schedule, directory, inner: Mutex::new(inner) };
        Self { shared: Arc::new(shared) }
    }

    /// Starts the task on the scheduler; see [`Self::run`].
    pub fn start<C, F>(&self, connect: C)
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Connection, ConnectError>> + Send + 'static,
    {
        self.shared.schedule.spawn(Box::pin(self.clone().run(connect)));
    }

    /// The directory that it keeps up to date.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.shared.directory
    }

    /// How things stand.
    pub fn state(&self) -> MembershipState {
        self.lock().state.clone()
    }

    /// Which member this is, if it is one as far as is known.
    pub fn member(&self) -> Option<MemberId> {
        match self.lock().state {
            MembershipState::Member(member) => Some(member),
            _ => None,
        }
    }

    /// This life of the process.
    pub fn life(&self) -> Life {
        self.shared.options.life
    }

    /// Whether this process must not act as a member: its lease has ended, or it has none.
    pub fn is_fenced(&self, now: Duration) -> bool {
        !self.lock().lease.is_valid(now)
    }

    /// The lease.
    pub fn lease(&self) -> HeldLease {
        self.lock().lease
    }

    /// What went wrong last, if it has not gone right since.
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Waits until the process is a member, or never will be.
    pub async fn joined(&self) -> MembershipState {
        self.until(|inner| (inner.state != MembershipState::Joining).then(|| inner.state.clone())).await
    }

    /// Leaves: at once stops counting on the lease, then waits until the coordinator knows, but
    /// for a lease's length at most: by then it will have noticed by itself.
    pub async fn leave(&self) {
        self.leave_within(self.lease_length()).await;
    }

    /// As [`Self::leave`], and waits no longer than this where the coordinator cannot be told: for who
    /// knows that nobody is there to be told.
    pub async fn leave_within(&self, longest: Duration) {
        let by = self.now() + longest.min(self.lease_length());
        {
            let mut inner = self.lock();
            inner.leaving.get_or_insert(Leaving { by, asked: false });
            inner.lease = HeldLease::none();
            inner.wakers.drain(..).for_each(Waker::wake);
        }
        let over =
            |state: &MembershipState| matches!(state, MembershipState::Left | MembershipState::Superseded(_));
        self.until(|inner| over(&inner.state).then_some(())).await;
    }

    /// Gets this member a region, close to another if there is a choice.
    pub async fn add_region(&self, near: Option<RegionId>, bytes: u64) -> Result<RegionPlacement, AskError> {
        let (connection, member) = {
            let inner = self.lock();
            let MembershipState::Member(member) = inner.state else { return Err(AskError::NotJoined) };
            (inner.connection.clone().ok_or(AskError::NotJoined)?, member)
        };
        let request = Request::AddRegion { member, life: self.life(), near, bytes };
        match ask(&connection, self.shared.options.method, &request).await? {
            Response::RegionAdded { placed, configuration } => {
                self.shared.directory.install(configuration, self.now());
                Ok(placed)
            }
            _ => Err(AskError::Mismatch),
        }
    }

    /// Joins, renews and leaves, until it is over. `connect` connects to the coordinator; it is
    /// called again whenever the connection has failed, and its connections should have deadlines
    /// well below the lease.
    pub async fn run<C, F>(self, connect: C)
    where
        C: Fn() -> F,
        F: Future<Output = Result<Connection, ConnectError>>,
    {
        let mut backoff = Backoff::new(self.life());
        loop {
            match connect().await {
                Ok(connection) => {
                    self.lock().connection = Some(connection.clone());
                    let over = self.attend(&connection, &mut backoff).await;
                    self.lock().connection = None;
                    if over {
                        return;
                    }
                }
                Err(error) => self.note(error.to_string()),
            }
            if self.has_left_unheard() {
                return;
            }
            self.shared.schedule.sleep(backoff.next(self.lease_length())).await;
        }
    }

    fn take_lease(&self, member: MemberId, lease: HeldLease) {
        let mut inner = self.lock();
        inner.was = Some(member);
        inner.state = MembershipState::Member(member);
        inner.trouble = None;
        if inner.leaving.is_none() {
            inner.lease = lease;
        }
        inner.wakers.drain(..).for_each(Waker::wake);
    }

    /// Every other state than that of a member is one without a lease.
    fn become_state(&self, state: MembershipState) {
        let mut inner = self.lock();
        inner.state = state;
        inner.lease = HeldLease::none();
        inner.wakers.drain(..).for_each(Waker::wake);
    }

    fn note(&self, trouble: String) {
        self.lock().trouble = Some(trouble);
    }

    fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    fn lease_length(&self) -> Duration {
        let known = self.shared.directory.configuration();
        if known.version == 0 { LEASE_DEFAULT } else { known.lease() }
    }

    /// Waits for a time, or until the process is told to leave.
    async fn pause(&self, time: Duration) {
        let mut sleep = self.shared.schedule.sleep(time);
        std::future::poll_fn(|cx| {
            if sleep.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut inner = self.lock();
            if inner.leaving.is_some_and(|leaving| !leaving.asked) {
                return Poll::Ready(());
            }
            inner.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn until<T>(&self, ready: impl Fn(&Inner) -> Option<T>) -> T {
        std::future::poll_fn(|cx| {
            let mut inner = self.lock();
            match ready(&inner) {
                Some(done) => Poll::Ready(done),
                None => {
                    inner.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
