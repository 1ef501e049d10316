//! What is asked of the coordinator, and what its answers mean.

use super::{Backoff, Membership, MembershipOptions, MembershipState};
use crate::lease::HeldLease;
use crate::message::{Refusal, Request, Response};
use crate::wire::{AskError, ask};
use barn_fabric::Connection;
use barn_layout::planted;
use std::time::Duration;

/// What to do after an exchange with the coordinator.
enum Next {
    /// Wait so long, or until something is asked of the task; then go on.
    Wait(Duration),
    /// Connect again.
    Reconnect,
    /// It is over.
    End,
}

impl Membership {
    /// Exchanges requests over a connection until it fails; says whether all is over.
    pub(super) async fn attend(&self, connection: &Connection, backoff: &mut Backoff) -> bool {
        loop {
            match self.exchange(connection, backoff).await {
                Next::Wait(time) => self.pause(time).await,
                Next::Reconnect => return false,
                Next::End => return true,
            }
        }
    }

    async fn exchange(&self, connection: &Connection, backoff: &mut Backoff) -> Next {
        let Some(request) = self.request() else { return Next::End };
        let lease_length = self.lease_length();
        // A quarter: an answer that takes longer leaves no time for another try.
        let hurried = connection.with_deadline(lease_length / 4);
        let mut asked = HeldLease::asked(self.now());
        let answer = ask(&hurried, self.shared.options.method, &request).await;
        if planted("lease_counted_from_answer") {
            asked = HeldLease::asked(self.now());
        }
        let now = self.now();
        let (member, lease_ms, configuration) = match answer {
            Ok(Response::Joined { member, lease_ms, configuration }) => {
                (member, lease_ms, Some(configuration))
            }
            Ok(Response::Renewed { lease_ms, configuration }) => match self.member() {
                Some(member) => (member, lease_ms, configuration),
                None => return Next::Reconnect,
            },
            Ok(Response::Left { .. }) => {
                self.become_state(MembershipState::Left);
                return Next::End;
            }
            Ok(_) => {
                self.note(AskError::Mismatch.to_string());
                return Next::Reconnect;
            }
            Err(AskError::Refused(refusal)) => return self.refused(refusal, backoff),
            Err(error) => {
                self.note(error.to_string());
                return Next::Reconnect;
            }
        };
        if let Some(configuration) = configuration
            && !(planted("lease_without_its_configuration") && configuration.version.is_multiple_of(4))
        {
            self.shared.directory.install(configuration, now);
        }
        backoff.reset();
        let lease = HeldLease::granted(asked, Duration::from_millis(lease_ms));
        self.take_lease(member, lease);
        Next::Wait(lease.renew_at(now) - now)
    }

    /// What to ask next; `None` if all is over.
    fn request(&self) -> Option<Request> {
        if self.has_left_unheard() {
            return None;
        }
        let MembershipOptions { addresses, host, memory_bytes, life, .. } = &self.shared.options;
        let mut inner = self.lock();
        if let Some(leaving) = &mut inner.leaving {
            leaving.asked = true;
        }
        match (&inner.state, inner.leaving.is_some()) {
            (MembershipState::Member(member), true) => Some(Request::Leave { member: *member, life: *life }),
            (MembershipState::Member(member), false) => Some(Request::Renew {
                member: *member,
                life: *life,
                known_version: self.shared.directory.version(),
            }),
            (MembershipState::Joining, _) => Some(Request::Join {
                addresses: addresses.clone(),
                host: host.clone(),
                memory_bytes: *memory_bytes,
                life: *life,
                rejoining: inner.was,
            }),
            (MembershipState::Left | MembershipState::Superseded(_), _) => None,
        }
    }

    fn refused(&self, refusal: Refusal, backoff: &mut Backoff) -> Next {
        self.note(refusal.to_string());
        match refusal {
            Refusal::Expelled { member, .. } => {
                tracing::warn!(member = member.0, "expelled from the cluster: joining again");
                self.lock().was = Some(member);
                self.become_state(MembershipState::Joining);
                Next::Wait(Duration::ZERO)
            }
            Refusal::UnknownMember { .. } => {
                tracing::warn!("the cluster does not know this node: joining it as another member");
                self.lock().was = None;
                self.become_state(MembershipState::Joining);
                Next::Wait(backoff.next(self.lease_length()))
            }
            Refusal::Superseded { member } => {
                tracing::error!(member = member.0, "another process has taken this member's place");
                self.become_state(MembershipState::Superseded(member));
                Next::End
            }
            Refusal::StillHeld { retry_ms, .. } => {
                let most = self.lease_length();
                Next::Wait(Duration::from_millis(retry_ms).min(most) + backoff.next(most))
            }
            _ => Next::Wait(backoff.next(self.lease_length())),
        }
    }

    /// Told to leave, and not a member, or no coordinator there to tell for a lease's length.
    pub(super) fn has_left_unheard(&self) -> bool {
        let now = self.now();
        let unheard = {
            let inner = self.lock();
            let joining = inner.state == MembershipState::Joining;
            inner.leaving.is_some_and(|leaving| joining || now >= leaving.by)
        };
        if unheard {
            self.become_state(MembershipState::Left);
        }
        unheard
    }
}
