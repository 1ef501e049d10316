//! What structures built on the shared memory need of a client: to read memory in ways of their own,
//! and to ask nodes their own questions.

use super::backoff::Backoff;
use super::read::Operation;
use super::table::Table;
use super::{Client, ClientStats};
use crate::error::{Broken, ClientError};
use barn_cluster::{AskError, MemberId, Refusal, Response};
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

/// Waits between attempts.
#[derive(Debug)]
pub struct Waits<'a> {
    client: &'a Client,
    backoff: Backoff,
}

impl Waits<'_> {
    /// Waits before the next attempt; false if the deadline is over.
    pub async fn next(&mut self) -> bool {
        self.backoff.wait(&self.client.inner).await
    }

    /// Waits for at least so long before the next attempt; false if the deadline is over.
    pub async fn next_after(&mut self, time: Duration) -> bool {
        super::backoff::pause(&self.client.inner.environment, time).await;
        self.next().await
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
        let (session, node) = loop {
            let session = inner.table().session;
            match inner.node(session, member).await {
                Ok(node) => break (session, node),
                // Nothing has been sent yet: the next session will do as well.
                Err(ClientError::SessionLost) if inner.table().session != session => {}
                Err(error) => return Err(error),
            }
        };
        ClientStats::add(&inner.stats.messages, 1);
        let asked = node.connection.call(method, body, answer).await;
        asked.map_err(|error| inner.broken(session, Broken::from(error)))
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        self.inner.random_below(u64::MAX) + 1
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

    /// Asks the coordinator: the member that answers as one.
    pub async fn coordinate(&self, request: &barn_cluster::Request) -> Result<Response, ClientError> {
        let inner = &*self.inner;
        let mut answered = Err(ClientError::NoMember);
        for member in &inner.directory.configuration().members {
            let session = inner.table().session;
            let node = match inner.node(session, member.id).await {
                Ok(node) => node,
                Err(error) => {
                    answered = Err(error);
                    continue;
                }
            };
            let method = inner.environment.configuration_method;
            match barn_cluster::ask(&node.connection, method, request).await {
                // Another coordinates, or none can at the moment.
                Err(AskError::Refused(refusal @ Refusal::Unavailable { .. })) => {
                    answered = Ok(Response::Refused(refusal));
                }
                Err(AskError::Refused(refusal)) => return Ok(Response::Refused(refusal)),
                Ok(response) => {
                    self.install(&response);
                    return Ok(response);
                }
                Err(error) => answered = Err(ClientError::Refused { why: error.to_string() }),
            }
        }
        answered
    }

    /// Takes in the configuration that came with an answer.
    fn install(&self, response: &Response) {
        if let Response::TableCreated { configuration, .. } | Response::TableDropped { configuration } =
            response
        {
            let _ = self.inner.directory.install(configuration.clone(), self.inner.now());
        }
    }

    /// Attempts at something, with waits between them that grow, until the client's deadline.
    pub fn attempts(&self) -> Waits<'_> {
        Waits { client: self, backoff: Backoff::new(self.inner.options.deadline) }
    }

    /// How long an operation may take, all in all.
    pub fn deadline(&self) -> Duration {
        self.inner.options.deadline
    }
}
