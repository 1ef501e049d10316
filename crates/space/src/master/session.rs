//! Sessions: begun and renewed, ended, outlived by their leases.

use super::Master;
use crate::message::{HoldId, Refusal, Response, Role, SessionId, SpaceId};
use barn_cluster::GrantedLease;
use barn_layout::planted;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Ended sessions that are remembered, so that a client that slept hears of it instead of going on with
/// nothing.
const ENDED_MAX: usize = 65_536;

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) lease: GrantedLease,
    pub(super) joined: BTreeMap<SpaceId, Role>,
    pub(super) holds: BTreeSet<HoldId>,
}

/// The last sessions that have ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    known: BTreeSet<SessionId>,
    order: VecDeque<SessionId>,
}

impl Ended {
    fn add(&mut self, session: SessionId) {
        if self.known.insert(session) {
            self.order.push_back(session);
        }
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl Master {
    pub(super) fn renew(&mut self, now: Duration, session: SessionId) -> Result<Response, Refusal> {
        let lease = self.options.lease;
        if let Some(known) = self.sessions.get_mut(&session) {
            known.lease.extend(now, lease);
        } else if self.ended.known.contains(&session) {
            return Err(Refusal::NoSession);
        } else if self.sessions.len() >= self.options.sessions_max {
            let why = format!("there are {} sessions, and no more can be: end some", self.sessions.len());
            return Err(Refusal::Unavailable { why });
        } else {
            let lease = GrantedLease::new(now, lease);
            let (joined, holds) = (BTreeMap::new(), BTreeSet::new());
            self.sessions.insert(session, Session { lease, joined, holds });
        }
        self.next_end = self.next_end.min(now + lease);
        Ok(Response::Renewed { lease_ms: lease.as_millis() as u64 })
    }

    pub(super) fn end(&mut self, session: SessionId) -> Response {
        self.end_session(session, true);
        Response::Done
    }

    pub(super) fn alive(&self, mut sessions: Vec<SessionId>) -> Response {
        sessions.retain(|session| self.sessions.contains_key(session));
        Response::Alive(sessions)
    }

    /// The session, if it is there.
    pub(super) fn session(&mut self, session: SessionId) -> Result<&mut Session, Refusal> {
        self.sessions.get_mut(&session).ok_or(Refusal::NoSession)
    }

    /// Checks that the session is there and may act as `needed` in the space, and that the space is there.
    pub(super) fn check_role(
        &mut self,
        session: SessionId,
        space: SpaceId,
        needed: Role,
    ) -> Result<Role, Refusal> {
        let joined = self.session(session)?.joined.get(&space).copied();
        if !self.spaces.contains_key(&space) {
            return Err(Refusal::NoSpace { name: space.0.to_string() });
        }
        match joined.unwrap_or(Role::Nobody) {
            role if role >= needed || planted("space_role_unchecked") => Ok(role),
            role => Err(Refusal::NotAllowed { role, needed }),
        }
    }

    pub(super) fn end_sessions(&mut self, now: Duration) {
        let over = |session: &Session| session.lease.has_ended(now) && !planted("space_lease_not_ended");
        let ended: Vec<SessionId> =
            self.sessions.iter().filter(|(_, session)| over(session)).map(|(id, _)| *id).collect();
        for session in ended {
            tracing::warn!(session = session.0, "a client's session has ended with its lease");
            self.end_session(session, false);
        }
    }

    /// Ends a session and lets go of all that it holds: `willingly`, if it said so itself.
    fn end_session(&mut self, session: SessionId, willingly: bool) {
        let Some(ended) = self.sessions.remove(&session) else { return };
        self.ended.add(session);
        for hold in ended.holds {
            self.let_go(hold, willingly);
        }
        for space in ended.joined.into_keys() {
            if let Some(space) = self.spaces.get_mut(&space) {
                space.sessions -= 1;
            }
        }
        self.refuse_pending(|pending| pending.session == session, &Refusal::NoSession);
    }
}
