//! Finding the cluster again after its nodes were lost: at the address that the user gave.
//!
//! What always holds: a client goes over to another cluster only because that one answers at the
//! address that it was given, never because a member's old address was taken by a stranger; from
//! then on it has a session at that cluster, and nothing that was learned of the old one is used.

use super::reach::Waits;
use super::{Client, ClientStats, Inner, Retry};
use crate::error::ClientError;
use barn_cluster::{Installed, Request, Response};
use barn_fabric::Connection;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The first pause before a lost node is looked for again: about what a process takes to start.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// No pause is longer: a node that is back is found within this.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Ends the search when it is dropped, also half-way.
struct Searching<'a>(&'a Inner);

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        // SYNC: pairs with the swap in `recover`: who searches next sees what this one has found.
        self.0.recovering.store(false, Ordering::Release);
    }
}

impl Inner {
    /// Looks for the cluster at the address that it was given by, within a time; says whether it has
    /// answered. One search at a time is enough for all threads.
    pub(super) async fn recover(&self, limit: Duration) -> bool {
        // SYNC: pairs with the store in `Searching::drop`.
        if self.recovering.swap(true, Ordering::Acquire) {
            return false;
        }
        let _searching = Searching(self);
        let found = match self.environment.connector.rediscover(limit) {
            Some(connecting) => connecting.await.ok(),
            None => None,
        };
        let answered = match found {
            Some(connection) => self.ask_anew(&connection, limit).await,
            None => self.refresh(self.table().session, limit).await,
        };
        self.follow_directory();
        answered
    }

    /// Asks a node for its configuration, whatever was known before; says whether it gave one.
    async fn ask_anew(&self, connection: &Connection, limit: Duration) -> bool {
        let connection = connection.with_deadline(limit);
        let asked = Request::Get { known_version: 0 };
        let answer = barn_cluster::ask(&connection, self.environment.configuration_method, &asked).await;
        let Ok(Response::Current { configuration: Some(configuration), .. }) = answer else { return false };
        if configuration.cluster == self.directory.cluster() {
            let _ = self.directory.install(configuration, self.now());
            return true;
        }
        // One that has nobody yet is still starting: the old one serves us no better, but what is not
        // there yet is not gone.
        if configuration.members.is_empty() {
            return false;
        }
        let (old, new) = (self.directory.cluster(), configuration.cluster);
        if self.directory.begin_anew(configuration, self.now()) == Installed::Newer {
            ClientStats::add(&self.stats.clusters, 1);
            tracing::warn!(
                old = format_args!("{old:016x}"),
                new = format_args!("{new:016x}"),
                "the cluster was begun anew, without what it held"
            );
        }
        true
    }
}

impl Waits<'_> {
    /// Whether to try again after such an error: if so, a node that was lost has been looked for, and
    /// a while has passed.
    pub async fn again(&mut self, error: &ClientError) -> bool {
        let inner = &self.client.inner;
        // Who was in the way of others for the whole deadline has had it.
        let contended = matches!(error, ClientError::Contended { .. });
        if inner.options.retry == Retry::Never || !error.is_passing() || contended {
            return false;
        }
        let left = self.left();
        if left.is_zero() {
            return false;
        }
        ClientStats::add(&inner.stats.retries, 1);
        // A session that is over was noticed by us: the next one may begin at once.
        if *error == ClientError::SessionLost && self.lost < 2 {
            self.lost += 1;
            return true;
        }
        if error.is_absence() {
            inner.recover(left).await;
        }
        let pause = (PAUSE_MIN * (1 << self.searches.min(8))).min(PAUSE_MAX);
        self.searches += 1;
        super::backoff::pause(&inner.environment, pause.min(self.left())).await;
        !self.left().is_zero()
    }
}

impl Client {
    /// Looks for the cluster at the address that it was given by, within a time; says whether it has
    /// answered.
    pub async fn recover(&self, limit: Duration) -> bool {
        self.inner.recover(limit).await
    }
}
