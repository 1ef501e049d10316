//! The master of spaces (RStore sections III-B and III-E): who has joined what, which chunk belongs to whom.
//!
//! A state machine without I/O: a node's service hands it requests with the time and sends what it answers,
//! some of it later ([`Master::take_answers`]). Everything is in memory, as in RStore: when the master's node
//! restarts, spaces are gone, and keepers are told to let go of their chunks.
//!
//! What always holds:
//! - a chunk is in one place: the cache, a space's free chunks, a range or an old version of it, a writer's
//!   lease, or at its keeper to be retired; what is reserved for a space is free, used or on its way;
//! - what a session holds stays, until it lets go, its lease ends, the space is deleted, or a node is lost;
//! - a request is judged only after leases that have ended by then have been acted upon;
//! - a chunk is used again only if all who were let in have let it go themselves; if a lease merely ended, the
//!   process may still be there with the memory mapped, and the chunk's memory goes;
//! - a master that was itself stopped holds that against nobody: it counts every session's lease anew.

mod chunks;
mod keeper;
mod range;
mod reserve;
mod session;
mod space;
#[cfg(test)]
mod tests;
mod writer;

use crate::message::{HoldId, Refusal, Request, Response, SessionId, SpaceId, TaskId};
use crate::pass::{SECRET_BYTES, Secret};
use barn_cluster::{Configuration, LEASE_DEFAULT, LEASE_MAX, Life, MemberId};
use barn_fabric::seam::Random;
use barn_layout::space::{ATTEND_WAIT_MS, RESERVE_WAIT_MS};
use chunks::Pool;
use keeper::Keeper;
pub use keeper::MemberUsage;
use range::Hold;
use reserve::Pending;
use session::{Ended, Session};
use space::Space;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// The shortest lease of a session: clients are many, and their machines are busy.
pub const SESSION_LEASE_MIN: Duration = Duration::from_secs(1);

/// How a master should be.
#[derive(Clone, Debug)]
pub struct MasterOptions {
    /// How long a session's lease is; kept between [`SESSION_LEASE_MIN`] and the cluster's longest.
    pub lease: Duration,
    /// For how long a `Reserve` waits for keepers.
    pub reserve_wait: Duration,
    /// For how long a keeper waits for work.
    pub attend_wait: Duration,
    /// When a task that was handed out and not answered is handed out again.
    pub repeat_after: Duration,
    /// Chunks that belong to no space are kept up to so many bytes, so that reserving them again asks nobody.
    pub cached_bytes_max: u64,
    /// Chunks in all: each costs the master some 200 bytes.
    pub chunks_max: u64,
    /// Sessions at a time.
    pub sessions_max: usize,
    /// Spaces at a time.
    pub spaces_max: usize,
    /// Ranges at a time, in all spaces: with the spaces, they must fit into one answer.
    pub ranges_max: usize,
}

impl Default for MasterOptions {
    fn default() -> Self {
        Self {
            lease: LEASE_DEFAULT,
            reserve_wait: Duration::from_millis(RESERVE_WAIT_MS),
            attend_wait: Duration::from_millis(ATTEND_WAIT_MS),
            repeat_after: Duration::from_secs(10),
            cached_bytes_max: 1 << 30,
            chunks_max: 1 << 20,
            sessions_max: 65_536,
            spaces_max: 16_384,
            ranges_max: 65_536,
        }
    }
}

/// Names an answer that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What a request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This.
    Now(Response),
    /// [`Master::take_answers`] has it, some time, under this ticket; unless its peer is gone by then.
    Later(Ticket),
}

/// The master of spaces.
pub struct Master {
    options: MasterOptions,
    random: Box<dyn Random>,
    secret: Secret,
    sessions: BTreeMap<SessionId, Session>,
    ended: Ended,
    spaces: BTreeMap<SpaceId, Space>,
    names: BTreeMap<String, SpaceId>,
    holds: BTreeMap<HoldId, Hold>,
    pool: Pool,
    keepers: BTreeMap<MemberId, Keeper>,
    /// The cluster's members, as of the last tick.
    members: BTreeMap<MemberId, Life>,
    pending: VecDeque<Pending>,
    answers: Vec<(Ticket, Response)>,
    /// What spaces, holds, tasks and tickets are numbered from.
    next_number: u64,
    last_awake: Duration,
    /// No session's and no writer's lease ends before.
    next_end: Duration,
}

impl fmt::Debug for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions, spaces, keepers, .. } = self;
        let (sessions, spaces, keepers) = (sessions.len(), spaces.len(), keepers.len());
        write!(f, "Master({sessions} sessions, {spaces} spaces, {keepers} keepers)")
    }
}

impl Master {
    /// A master that knows nothing yet. Keys and the secret of passes come from `random`, which nobody can
    /// predict outside of tests.
    pub fn new(mut options: MasterOptions, mut random: Box<dyn Random>) -> Self {
        options.lease = options.lease.clamp(SESSION_LEASE_MIN, LEASE_MAX);
        let mut secret = [0; SECRET_BYTES];
        for word in secret.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        // Numbers of another master, before a restart, are most likely none of this one's.
        let next_number = (random.next() >> 34 << 32) | 1;
        Self {
            options,
            random,
            secret: Secret::new(secret),
            sessions: BTreeMap::new(),
            ended: Ended::default(),
            spaces: BTreeMap::new(),
            names: BTreeMap::new(),
            holds: BTreeMap::new(),
            pool: Pool::default(),
            keepers: BTreeMap::new(),
            members: BTreeMap::new(),
            pending: VecDeque::new(),
            answers: Vec::new(),
            next_number,
            last_awake: Duration::ZERO,
            next_end: Duration::MAX,
        }
    }

    /// How often [`Self::tick`] wants to be called; seldom calls only mean that the dead are noticed late.
    pub fn tick_every(&self) -> Duration {
        self.options.lease / 10
    }

    /// Answers a request of `peer`, which is any number that names a connection.
    pub fn handle(&mut self, now: Duration, peer: u64, request: Request) -> Answer {
        let now = self.advance(now);
        let answer = self.answer(now, peer, request);
        self.settle(now);
        match answer {
            Ok(Answer::Later(ticket)) => self.taken(ticket).map_or(Answer::Later(ticket), Answer::Now),
            Ok(now) => now,
            Err(refusal) => Answer::Now(Response::Refused(refusal)),
        }
    }

    /// Answers that have become due.
    pub fn take_answers(&mut self) -> Vec<(Ticket, Response)> {
        std::mem::take(&mut self.answers)
    }

    /// Acts on what time has brought: leases and waits that are over, members that have left or have come
    /// back in another life.
    pub fn tick(&mut self, now: Duration, configuration: &Configuration) {
        let now = self.advance(now);
        self.members = configuration.members.iter().map(|member| (member.id, member.life)).collect();
        let left: Vec<MemberId> = (self.keepers.iter())
            .filter(|(member, keeper)| self.members.get(member) != Some(&keeper.life))
            .map(|(member, _)| *member)
            .collect();
        for member in left {
            self.forget_member(member);
        }
        self.settle(now);
    }

    /// A connection is gone: nobody waits there any more, and work that was handed out there is handed out
    /// again. Its sessions go on, for a client may connect again; that they are dead, their leases show.
    pub fn gone(&mut self, peer: u64) {
        let (gone, stay) = std::mem::take(&mut self.pending).into_iter().partition(|one| one.peer == peer);
        self.pending = stay;
        let gone: VecDeque<Pending> = gone;
        for pending in gone {
            self.give_up(&pending);
        }
        for keeper in self.keepers.values_mut() {
            keeper.gone(peer);
        }
        self.settle(self.last_awake);
    }

    fn answer(&mut self, now: Duration, peer: u64, request: Request) -> Result<Answer, Refusal> {
        let response = match request {
            Request::Renew { session } => self.renew(now, session)?,
            Request::End { session } => self.end(session),
            Request::Create { session, name, chunk_bytes, everyone } => {
                self.create(session, name, chunk_bytes, everyone)?
            }
            Request::Join { session, name, key } => self.join(session, &name, key.as_deref())?,
            Request::Delete { session, space } => self.delete(session, space)?,
            Request::List => self.list(),
            Request::Stat { name } => self.stat(&name)?,
            Request::Reserve { session, space, bytes } => {
                return self.reserve(now, peer, session, space, bytes).map(Answer::Later);
            }
            Request::Release { session, space, bytes } => self.release(session, space, bytes)?,
            Request::Alloc { session, space, bytes, copy_on_write } => {
                self.alloc(session, space, bytes, copy_on_write)?
            }
            Request::Init { session, space, address, bytes, write } => {
                self.init(session, space, address, bytes, write)?
            }
            Request::Drop { session, hold } => self.drop_hold(session, hold)?,
            Request::Free { session, space, address } => self.free(session, space, address)?,
            Request::Lease { session, hold, turn, chunks, lease_ms } => {
                self.lease(now, session, (hold, turn), &chunks, lease_ms)?
            }
            Request::Commit { session, hold, turn, version } => {
                self.commit(session, (hold, turn), version)?
            }
            Request::Abandon { session, hold, turn } => self.abandon(session, (hold, turn))?,
            Request::Refresh { session, hold } => self.refresh(session, hold)?,
            Request::Alive { sessions } => self.alive(sessions),
            Request::Attend { member, life, free_bytes, done } => {
                return self.attend(now, peer, member, life, free_bytes, done).map(Answer::Later);
            }
        };
        Ok(Answer::Now(response))
    }

    /// Ends whatever has ended by now. Time never goes back here, whatever it did outside.
    fn advance(&mut self, now: Duration) -> Duration {
        let now = now.max(self.last_awake);
        let stopped_for = now - std::mem::replace(&mut self.last_awake, now);
        // A quarter: more than two ticks were missed, so renewals may be waiting behind them.
        if stopped_for > self.options.lease / 4 {
            for session in self.sessions.values_mut() {
                session.lease.extend(now, self.options.lease);
            }
        }
        if now >= self.next_end {
            self.end_leases(now);
        }
        self.end_waits(now);
        now
    }

    fn end_leases(&mut self, now: Duration) {
        self.end_writers(now);
        self.end_sessions(now);
        let sessions = self.sessions.values().map(|session| session.lease.ends_at());
        self.next_end = sessions.chain(self.writers_end()).min().unwrap_or(Duration::MAX);
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    fn task_number(&mut self) -> TaskId {
        TaskId(self.number())
    }

    fn taken(&mut self, ticket: Ticket) -> Option<Response> {
        let at = self.answers.iter().position(|(due, _)| *due == ticket)?;
        Some(self.answers.swap_remove(at).1)
    }
}
