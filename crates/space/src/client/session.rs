//! A session with the master: renewed by a task, which also lets go of what was dropped.
//!
//! What always holds: the task ends with the last [`Spaces`](super::Spaces), and then ends the session;
//! a session that the master does not know any more is lost for good; the master is told that a session has
//! ended only if nobody here can write to what it held, because it then gives the memory to others.

use super::{Inner, SpaceError, lock};
use crate::bell::Bell;
use crate::message::{Request, Response, SessionId};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A session is renewed so many times within its lease: one lost renewal does not end it.
const RENEWALS_PER_LEASE: u32 = 3;
/// After a renewal that failed the next is tried so many times as fast as a lease lasts.
const RETRIES_PER_LEASE: u32 = 20;
/// Holders count 1 % less than they were granted, for clocks that run apart.
const DRIFT: u32 = 100;
/// How long the task waits while there is no session to renew.
const IDLE: Duration = Duration::from_secs(3600);
/// How long ending a session may take before its lease is left to run out.
const END_MAX: Duration = Duration::from_secs(1);

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// How long its lease is, in milliseconds; 0 before it has begun.
    lease_ms: AtomicU64,
    lost: AtomicBool,
    /// Until when the master keeps it for certain, in nanoseconds of our clock.
    valid_until: AtomicU64,
    /// How many writers' leases it has begun.
    turns: AtomicU64,
    /// Mappings and leases through which bytes can be written.
    writing: AtomicUsize,
    /// Requests that let go of what was dropped.
    dropped: Mutex<Vec<Request>>,
}

impl Session {
    pub(super) fn new(id: SessionId) -> Self {
        Self {
            id,
            lease_ms: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            valid_until: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            writing: AtomicUsize::new(0),
            dropped: Mutex::default(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        // SYNC: SeqCst, with `write`: see there.
        self.lost.load(Ordering::SeqCst)
    }

    pub(super) fn lose(&self) {
        // SYNC: SeqCst, with `write`: see there.
        self.lost.store(true, Ordering::SeqCst);
    }

    /// Somebody is about to write through the session; none if it is over. Whoever ends it either sees the
    /// writer, or is seen by it.
    pub(super) fn write(self: &Arc<Self>) -> Option<Writing> {
        // SYNC: SeqCst, pairs with the store in `lose` and the load in `is_writing`.
        self.writing.fetch_add(1, Ordering::SeqCst);
        let writing = Writing(self.clone());
        (!self.is_lost()).then_some(writing)
    }

    /// Whether anybody here can write to what the session held.
    pub(super) fn is_writing(&self) -> bool {
        // SYNC: SeqCst, with `write`.
        self.writing.load(Ordering::SeqCst) > 0
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.lease().is_zero()
    }

    fn lease(&self) -> Duration {
        // ORDER: Relaxed: a number that stands alone.
        Duration::from_millis(self.lease_ms.load(Ordering::Relaxed))
    }

    /// The number of a writer's lease that is about to begin: larger than all before.
    pub(super) fn next_turn(&self) -> u64 {
        // ORDER: Relaxed: a number that stands alone.
        self.turns.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Leaves a request to the task.
    pub(super) fn later(&self, request: Request) {
        if !self.is_lost() {
            lock(&self.dropped).push(request);
        }
    }
}

/// A way to write to what a session holds, for as long as it lives.
#[derive(Debug)]
pub(super) struct Writing(Arc<Session>);

impl Drop for Writing {
    fn drop(&mut self) {
        // SYNC: SeqCst, with `is_writing`: what was written comes before the end of the session.
        self.0.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What keeps a session: its task ends when this is dropped.
#[derive(Debug)]
pub(super) struct Handle {
    shared: Arc<Shared>,
    /// How long its drop waits until the master has heard of the session's end.
    linger: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    bell: Bell,
    ended: AtomicBool,
    /// Whether the task is over.
    over: Mutex<bool>,
    told: Condvar,
}

impl Handle {
    /// Starts the task.
    pub(super) fn start(inner: &Arc<Inner>) -> Self {
        let shared: Arc<Shared> = Arc::default();
        let (task, inner, linger) = (shared.clone(), inner.clone(), inner.options.linger);
        let schedule = inner.environment.schedule.clone();
        inner.environment.schedule.clone().spawn(Box::pin(async move {
            let mut wait = IDLE;
            loop {
                task.bell.wait(schedule.sleep(wait)).await;
                // ORDER: Relaxed: a flag that stands alone; the bell orders by itself.
                if task.ended.load(Ordering::Relaxed) {
                    inner.end().await;
                    *lock(&task.over) = true;
                    task.told.notify_all();
                    return;
                }
                wait = inner.keep().await;
            }
        }));
        Self { shared, linger }
    }

    /// There is something to do.
    pub(super) fn wake(&self) {
        self.shared.bell.ring();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // ORDER: Relaxed: as above.
        self.shared.ended.store(true, Ordering::Relaxed);
        self.shared.bell.ring();
        if !self.linger.is_zero() {
            // A process that ends with its last handle would otherwise be gone before its task has spoken,
            // and what it held would be held for another lease.
            let over = lock(&self.shared.over);
            let _ = self.shared.told.wait_timeout_while(over, self.linger, |over| !*over);
        }
    }
}

impl Inner {
    /// One round of the task; says when the next is due.
    async fn keep(&self) -> Duration {
        let session = lock(&self.session).clone();
        if session.is_lost() || !session.has_begun() {
            return IDLE;
        }
        self.let_go(&session).await;
        match self.renew(&session).await {
            Ok(()) => session.lease() / RENEWALS_PER_LEASE,
            // Whatever is wrong, the next round tries again, soon, unless the session is lost.
            Err(_) => session.lease() / RETRIES_PER_LEASE,
        }
    }

    /// Says what was dropped.
    async fn let_go(&self, session: &Arc<Session>) {
        let dropped = std::mem::take(&mut *lock(&session.dropped));
        for request in dropped {
            // What the master does not hear now, it learns from the session's end.
            let _ = self.ask_once(session, &request, session.lease()).await;
        }
    }

    /// Begins a session, or renews its lease. A master that was started again, or that has ended the
    /// session, would begin it anew, with nothing in it: so it is asked first, and our own clock, too.
    pub(super) async fn renew(&self, session: &Arc<Session>) -> Result<(), SpaceError> {
        let begun = session.has_begun();
        let limit = session.lease() / RENEWALS_PER_LEASE;
        if begun {
            let alive = Request::Alive { sessions: vec![session.id] };
            match self.ask_once(session, &alive, limit).await? {
                Response::Alive(alive) if alive.contains(&session.id) => {}
                _ => return Err(self.lose(session)),
            }
        }
        let asked = self.now();
        // ORDER: Relaxed: a time that stands alone.
        if begun && asked.as_nanos() as u64 > session.valid_until.load(Ordering::Relaxed) {
            return Err(self.lose(session));
        }
        let request = Request::Renew { session: session.id };
        let answer = match begun {
            true => self.ask_once(session, &request, limit).await,
            false => self.ask_again(session, &request).await,
        };
        match answer? {
            Response::Renewed { lease_ms } => {
                let until = asked + Duration::from_millis(lease_ms) * (DRIFT - 1) / DRIFT;
                // ORDER: Relaxed: numbers that stand alone.
                session.valid_until.store(until.as_nanos() as u64, Ordering::Relaxed);
                session.lease_ms.store(lease_ms.max(1), Ordering::Relaxed);
                Ok(())
            }
            _ => Err(SpaceError::Protocol),
        }
    }

    fn lose(&self, session: &Session) -> SpaceError {
        session.lose();
        SpaceError::SessionLost
    }

    /// The last: ends the session.
    async fn end(&self) {
        let session = lock(&self.session).clone();
        if session.has_begun() && !session.is_lost() {
            session.lose();
            let _ = self.ask_once(&session, &Request::End { session: session.id }, END_MAX).await;
        }
    }
}
