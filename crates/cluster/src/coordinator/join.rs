//! Joining: anew, again, or back after a departure.

use super::{Coordinator, No};
use crate::configuration::{DEPARTED_MAX, MEMBERS_MAX};
use crate::member::{ADDRESS_BYTES_MAX, ADDRESSES_MAX, Life, Member, MemberId};
use crate::message::{Refusal, Response};
use barn_layout::planted;
use std::time::Duration;

/// Who wants in.
pub(super) struct Newcomer {
    pub(super) addresses: Vec<String>,
    pub(super) host: String,
    pub(super) memory_bytes: u64,
    pub(super) life: Life,
}

impl Newcomer {
    fn check(&self) -> Result<(), Refusal> {
        let bad = |why: String| Err(Refusal::BadRequest { why });
        if self.addresses.len() > ADDRESSES_MAX {
            return bad(format!("{} addresses, and {ADDRESSES_MAX} are the most", self.addresses.len()));
        }
        let longest = self.addresses.iter().chain([&self.host]).map(String::len).max().unwrap_or(0);
        if longest > ADDRESS_BYTES_MAX {
            return bad(format!("an address of {longest} bytes, and {ADDRESS_BYTES_MAX} are the most"));
        }
        Ok(())
    }

    fn into_member(self, id: MemberId) -> Member {
        let Self { addresses, host, memory_bytes, life } = self;
        Member { id, life, addresses, host, memory_bytes }
    }
}

impl Coordinator {
    pub(super) async fn join(
        &mut self,
        now: Duration,
        newcomer: Newcomer,
        rejoining: Option<MemberId>,
    ) -> Result<Response, No> {
        newcomer.check()?;
        let again = self.configuration.members.iter().find(|member| member.life == newcomer.life);
        let member = match (again.map(|member| member.id), rejoining) {
            // The first answer was lost.
            (Some(member), _) => member,
            (None, Some(member)) => self.take_back(now, newcomer, member).await?,
            (None, None) => self.take_in(now, newcomer).await?,
        };
        self.store.grant(member, now, self.configuration.lease()).await?;
        let configuration = self.configuration.clone();
        Ok(Response::Joined { member, lease_ms: configuration.lease_ms, configuration })
    }

    async fn take_in(&mut self, now: Duration, newcomer: Newcomer) -> Result<MemberId, No> {
        let Self { configuration, .. } = self;
        let known = configuration.members.len() + configuration.departed.len();
        let member = MemberId(configuration.next_member);
        let Some(next_member) = member.0.checked_add(1) else {
            return Err(Refusal::TooManyMembers { most: u32::MAX.into() }.into());
        };
        // Room is kept for every member to depart.
        if configuration.members.len() >= MEMBERS_MAX || known >= DEPARTED_MAX {
            return Err(Refusal::TooManyMembers { most: MEMBERS_MAX as u64 }.into());
        }
        self.establish(now, |next| {
            next.members.push(newcomer.into_member(member));
            next.next_member = next_member;
        })
        .await?;
        tracing::info!(member = member.0, version = self.configuration.version, "a member joined");
        Ok(member)
    }

    /// A member is back, with its memory: its regions are its own again.
    async fn take_back(
        &mut self,
        now: Duration,
        newcomer: Newcomer,
        member: MemberId,
    ) -> Result<MemberId, No> {
        if self.configuration.member(member).is_some() && !planted("rejoin_while_held") {
            let ends_at = self.store.ends_at(member).await?.unwrap_or(now);
            let retry_ms = ends_at.saturating_sub(now).as_millis() as u64 + 1;
            return Err(Refusal::StillHeld { member, retry_ms }.into());
        }
        if self.configuration.departure(member).is_none() && self.configuration.member(member).is_none() {
            return Err(Refusal::UnknownMember { member }.into());
        }
        if self.configuration.members.len() >= MEMBERS_MAX {
            return Err(Refusal::TooManyMembers { most: MEMBERS_MAX as u64 }.into());
        }
        self.establish(now, |next| {
            next.departed.retain(|departed| departed.member != member);
            next.members.retain(|known| known.id != member);
            next.members.push(newcomer.into_member(member));
            next.members.sort_unstable_by_key(|known| known.id);
        })
        .await?;
        self.gone.remove(&member);
        tracing::info!(member = member.0, version = self.configuration.version, "a member is back");
        Ok(member)
    }
}
