//! What structures built on the shared memory need of a client: to read memory in ways of their own,
//! and to ask nodes their own questions.

use super::read::Operation;
use super::table::Table;
use super::{Client, ClientStats};
use crate::error::{Broken, ClientError};
use barn_cluster::MemberId;
use barn_fabric::RemoteRegion;
use barn_layout::RegionId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The regions that a session can read now. While it is held, memory that it may look at is not given
/// another shape: hold it for one operation, not for long.
pub struct Reach<'a> {
    operation: Operation<'a>,
    table: Arc<Table>,
}

impl fmt::Debug for Reach<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reach(session {:016x})", self.table.session)
    }
}

impl Reach<'_> {
    /// A region, if it is open: [`Client::open`] opens it.
    #[inline]
    pub fn region(&self, region: RegionId) -> Option<&RemoteRegion> {
        self.table.region(region).map(|link| &link.remote)
    }

    /// Whether what was read from a region may be believed: asked after the bytes were read, before
    /// anything is concluded from them.
    #[inline]
    pub fn believe(&self, region: RegionId) -> Result<(), ClientError> {
        let inner = self.operation.inner;
        if inner.activity.is_doomed(&self.operation.guard) {
            return Err(ClientError::TooOld { age_max: inner.options.age_max });
        }
        inner.check_lease(&self.table, region)
    }

    /// What a READ that failed means.
    pub fn failed(&self, error: barn_fabric::OperationError) -> ClientError {
        self.operation.inner.broken(self.table.session, error.into())
    }

    /// Counts READs that a structure has made.
    pub fn count_reads(&self, reads: u64, retries: u64) {
        ClientStats::add(&self.operation.inner.stats.reads, reads);
        if retries > 0 {
            ClientStats::add(&self.operation.inner.stats.read_retries, retries);
        }
    }
}

impl Client {
    /// What can be read now.
    #[inline]
    pub fn reach(&self) -> Reach<'_> {
        let operation = Operation::start(&self.inner);
        Reach { operation, table: self.inner.table() }
    }

    /// Opens a region for reading, in the session as it is now.
    pub async fn open(&self, region: RegionId) -> Result<(), ClientError> {
        let session = self.inner.table().session;
        self.inner.region(session, region).await.map(|_| ())
    }

    /// Asks a member's node a question of another layer. If the link is lost before the answer,
    /// whether it was carried out is not known: `Err(SessionLost)`.
    pub async fn ask(
        &self,
        member: MemberId,
        method: u16,
        body: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        let inner = &*self.inner;
        let session = inner.table().session;
        let node = inner.node(session, member).await?;
        ClientStats::add(&inner.stats.messages, 1);
        let asked = node.connection.call(method, body, answer).await;
        asked.map_err(|error| inner.broken(session, Broken::from(error)))
    }

    /// Brings the directory up to date.
    pub async fn refresh(&self) {
        let session = self.inner.table().session;
        if let Some(member) = self.inner.directory.configuration().members.first() {
            // Whoever is first may be out of reach: then the others that are connected are asked.
            let _ = self.inner.node(session, member.id).await;
        }
        self.inner.refresh(session).await;
    }

    /// Waits, on the client's own clock.
    pub async fn pause(&self, time: Duration) {
        super::backoff::pause(&self.inner.environment, time).await;
    }

    /// How long an operation may take, all in all.
    pub fn deadline(&self) -> Duration {
        self.inner.options.deadline
    }
}
