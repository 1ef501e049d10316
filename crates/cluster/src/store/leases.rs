//! Leases in memory: what the embedded stores count with.

use crate::lease::GrantedLease;
use crate::member::MemberId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Who holds a lease.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<MemberId, GrantedLease>);

impl Leases {
    pub(super) fn grant(&mut self, member: MemberId, now: Duration, lease: Duration) {
        self.0.entry(member).or_insert(GrantedLease::new(now, lease)).extend(now, lease);
    }

    pub(super) fn renew(&mut self, member: MemberId, now: Duration, lease: Duration) -> bool {
        match self.0.get_mut(&member) {
            Some(granted) if !granted.has_ended(now) => {
                granted.extend(now, lease);
                true
            }
            _ => false,
        }
    }

    pub(super) fn release(&mut self, member: MemberId) {
        self.0.remove(&member);
    }

    pub(super) fn expired(&self, now: Duration) -> Vec<MemberId> {
        self.0.iter().filter(|(_, granted)| granted.has_ended(now)).map(|(member, _)| *member).collect()
    }

    pub(super) fn ends_at(&self, member: MemberId) -> Option<Duration> {
        self.0.get(&member).map(GrantedLease::ends_at)
    }
}
