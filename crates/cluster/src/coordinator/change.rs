//! Changing the configuration: through the store, and departures on the way.

use super::{Coordinator, Gone, No};
use crate::configuration::{Configuration, DEPARTED_MAX};
use crate::lease::outlasted;
use crate::member::{Departed, Life, MemberId};
use crate::message::{Refusal, Response};
use crate::store::StoreError;
use barn_layout::planted;
use std::collections::BTreeSet;
use std::time::Duration;

impl Coordinator {
    /// Replaces the configuration by one that `change` makes of it.
    pub(super) async fn establish(
        &mut self,
        now: Duration,
        change: impl FnOnce(&mut Configuration),
    ) -> Result<(), StoreError> {
        let mut next = self.configuration.clone();
        change(&mut next);
        next.version += 1;
        for departed in &mut next.departed {
            departed.since_ms = self.gone_for(now, departed.member).as_millis() as u64;
        }
        forget_departed(&mut next, DEPARTED_MAX / 2);
        // Until the store has answered, it may hold either.
        self.unsure = true;
        self.store.replace(self.configuration.version, &next).await?;
        self.configuration = next;
        self.unsure = false;
        Ok(())
    }

    fn gone_for(&self, now: Duration, member: MemberId) -> Duration {
        self.gone.get(&member).map_or(Duration::ZERO, |gone| {
            now.saturating_sub(gone.began) + Duration::from_millis(gone.before_ms)
        })
    }

    /// If the store may hold another configuration, takes that; says whether it did.
    pub(super) async fn make_sure(&mut self, now: Duration) -> Result<bool, StoreError> {
        if !self.unsure {
            return Ok(false);
        }
        let Some(loaded) = self.store.load().await? else {
            // Somebody has emptied the store: what is known here is the newest there is.
            return Err(StoreError::Conflict { current: 0 });
        };
        if loaded.version < self.configuration.version {
            return Err(StoreError::Conflict { current: loaded.version });
        }
        let changed = loaded.version != self.configuration.version;
        let before = std::mem::replace(&mut self.configuration, loaded);
        for member in before.members {
            if self.configuration.member(member.id).is_none() {
                self.store.release(member.id).await?;
            }
        }
        self.count_anew(now).await?;
        self.unsure = false;
        Ok(changed)
    }

    /// Counts every lease from now, and every departure on from what is recorded.
    pub(super) async fn count_anew(&mut self, now: Duration) -> Result<(), StoreError> {
        let mut lease = self.configuration.lease();
        if planted("coordinator_forgets_leases") {
            lease /= 4;
        }
        for member in &self.configuration.members {
            self.store.grant(member.id, now, lease).await?;
        }
        let count =
            |departed: &Departed| (departed.member, Gone { began: now, before_ms: departed.since_ms });
        self.gone = self.configuration.departed.iter().map(count).collect();
        Ok(())
    }

    /// A new configuration without these members. Says whether any of them was there.
    pub(super) async fn expel(&mut self, now: Duration, members: &[MemberId]) -> Result<bool, StoreError> {
        let there = |id: &&MemberId| self.configuration.member(**id).is_some();
        let leaving: BTreeSet<MemberId> = members.iter().filter(there).copied().collect();
        if !leaving.is_empty() {
            leaving.iter().for_each(|member| {
                self.gone.insert(*member, Gone { began: now, before_ms: 0 });
            });
            let gone = leaving.clone();
            self.establish(now, move |next| {
                next.members.retain(|member| !gone.contains(&member.id));
                let at_version = next.version + 1;
                let departed =
                    gone.iter().map(|member| Departed { member: *member, at_version, since_ms: 0 });
                next.departed.extend(departed);
                next.departed.sort_unstable_by_key(|departed| departed.member);
            })
            .await?;
        }
        for member in members {
            self.store.release(*member).await?;
        }
        Ok(!leaving.is_empty())
    }

    pub(super) async fn leave(
        &mut self,
        now: Duration,
        member: MemberId,
        life: Life,
    ) -> Result<Response, No> {
        match self.check_member(member, life) {
            Ok(()) => {
                self.expel(now, &[member]).await?;
                tracing::info!(member = member.0, "a member left");
            }
            // Asked again, or expelled meanwhile: it is gone, as it wished.
            Err(Refusal::Expelled { .. } | Refusal::UnknownMember { .. }) => {}
            Err(refusal) => return Err(refusal.into()),
        }
        Ok(Response::Left { version: self.configuration.version })
    }
}

/// Forgets departures until at most `most` are left: only of members without regions, and so long
/// ago that everybody counts them as settled; the lowest numbers first.
pub(super) fn forget_departed(configuration: &mut Configuration, most: usize) {
    let mut excess = configuration.departed.len().saturating_sub(most);
    if excess == 0 {
        return;
    }
    let holding: BTreeSet<MemberId> = configuration.regions.iter().map(|placed| placed.primary).collect();
    let settled_ms = outlasted(configuration.lease()).as_millis() as u64 + 1;
    configuration.departed.retain(|departed| {
        let forget = excess > 0 && departed.since_ms >= settled_ms && !holding.contains(&departed.member);
        excess -= usize::from(forget);
        !forget
    });
}
