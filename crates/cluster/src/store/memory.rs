//! A store in memory: for tests, and for clusters that need not outlive their coordinator.

use super::leases::Leases;
use super::{Answer, ConfigurationStore, StoreError, at_once};
use crate::configuration::Configuration;
use crate::member::MemberId;
use barn_layout::planted;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Keeps the configuration in memory. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    configuration: Option<Configuration>,
    leases: Leases,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What compare-and-set checks, in every store here.
pub(super) fn check_replacement(
    current: u64,
    expected: u64,
    configuration: &Configuration,
) -> Result<(), StoreError> {
    configuration.validate().map_err(StoreError::Invalid)?;
    let follows = current == expected && configuration.version > expected;
    if !follows && !planted("config_version_not_checked") {
        return Err(StoreError::Conflict { current });
    }
    Ok(())
}

impl ConfigurationStore for MemoryStore {
    fn load(&self) -> Answer<'_, Option<Configuration>> {
        at_once(Ok(self.lock().configuration.clone()))
    }

    fn replace<'a>(&'a self, expected: u64, configuration: &'a Configuration) -> Answer<'a, ()> {
        let mut state = self.lock();
        let current = state.configuration.as_ref().map_or(0, |configuration| configuration.version);
        let checked = check_replacement(current, expected, configuration);
        if checked.is_ok() {
            state.configuration = Some(configuration.clone());
        }
        at_once(checked)
    }

    fn watch(&self, known_version: u64) -> Answer<'_, Option<Configuration>> {
        let newer = self.lock().configuration.clone().filter(|newest| newest.version > known_version);
        at_once(Ok(newer))
    }

    fn grant(&self, member: MemberId, now: Duration, lease: Duration) -> Answer<'_, ()> {
        self.lock().leases.grant(member, now, lease);
        at_once(Ok(()))
    }

    fn renew(&self, member: MemberId, now: Duration, lease: Duration) -> Answer<'_, bool> {
        at_once(Ok(self.lock().leases.renew(member, now, lease)))
    }

    fn release(&self, member: MemberId) -> Answer<'_, ()> {
        self.lock().leases.release(member);
        at_once(Ok(()))
    }

    fn expired(&self, now: Duration) -> Answer<'_, Vec<MemberId>> {
        at_once(Ok(self.lock().leases.expired(now)))
    }

    fn ends_at(&self, member: MemberId) -> Answer<'_, Option<Duration>> {
        at_once(Ok(self.lock().leases.ends_at(member)))
    }
}
