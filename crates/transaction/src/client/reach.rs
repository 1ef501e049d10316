//! What structures built on the shared memory need of a client: to read memory in ways of their own,
//! and to ask nodes their own questions.

use super::backoff::Backoff;
use super::read::Operation;
use super::table::Table;
use super::{Client, ClientStats, Inner, LookupCounts};
use crate::error::{Broken, ClientError, Unanswered};
use barn_cluster::{AskError, MemberId, Refusal, Response};
use barn_fabric::{Call, CallError, RemoteRegion};
use barn_layout::{RegionId, planted};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The regions that a session can read now. While it is held, memory that it may look at is not given
/// another shape: hold it for one operation, not for long.
pub struct Reach<'a> {
    operation: Operation<'a>,
    table: Arc<Table>,
    limit: Duration,
}

impl fmt::Debug for Reach<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reach(session {:016x})", self.table.session)
    }
}

impl Reach<'_> {
    /// The session that it belongs to: what was learned of the nodes' memory in another may be of a
    /// node that is gone, though one with its number is there.
    #[inline]
    pub fn session(&self) -> u64 {
        self.table.session
    }

    /// The same for an operation that has so much time left.
    #[inline]
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// How long a READ may take.
    #[inline]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Whether READs are loads, which are never waited for.
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.table.regions_are_mapped()
    }

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
}

/// Questions that [`Client::ask_together_waiting`] has under way together, at most.
pub const TOGETHER_MAX: usize = 4;

/// A question and its answer, in memory that is used again.
#[derive(Debug, Default)]
pub struct Exchange {
    /// What is asked.
    pub question: Vec<u8>,
    /// What is answered.
    pub answer: Vec<u8>,
}

/// Waits between attempts.
#[derive(Debug)]
pub struct Waits<'a> {
    pub(super) client: &'a Client,
    backoff: Backoff,
    /// Sessions that were lost, and searches for the cluster.
    pub(super) lost: u32,
    pub(super) searches: u32,
}

impl Waits<'_> {
    /// How much time the operation has left.
    pub fn left(&self) -> Duration {
        self.backoff.left(self.client.inner.now())
    }

    /// Waits before the next attempt; false if the deadline is over.
    pub async fn next(&mut self) -> bool {
        self.backoff.wait(&self.client.inner).await
    }

    /// Waits for at least so long before the next attempt; false if the deadline is over.
    pub async fn next_after(&mut self, time: Duration) -> bool {
        super::backoff::pause(&self.client.inner.environment, time.min(self.left())).await;
        self.next().await
    }
}

impl Inner {
    /// What it means that a question was not answered.
    fn unanswered(&self, session: u64, error: CallError) -> Unanswered {
        let unknown = error.outcome_is_unknown();
        Unanswered { error: self.broken(session, Broken::from(error)), unknown }
    }
}

impl Client {
    /// What can be read now.
    #[inline]
    pub fn reach(&self) -> Reach<'_> {
        let operation = Operation::start(&self.inner);
        Reach { operation, table: self.inner.table(), limit: self.deadline }
    }

    /// The session as it is now: another begins when a node or its lease was lost.
    pub fn session(&self) -> u64 {
        self.inner.table().session
    }

    /// Opens a region for reading, in the session as it is now, within a time.
    pub async fn open(&self, region: RegionId, limit: Duration) -> Result<(), ClientError> {
        let session = self.inner.table().session;
        self.inner.region(session, region, limit).await.map(|_| ())
    }

    /// Asks a member's node a question of another layer, within a time. It is asked nothing unless it
    /// is that member of `cluster`: where the session is at another, `AnotherCluster`.
    pub async fn ask(
        &self,
        (cluster, member): (u64, MemberId),
        method: u16,
        body: &[u8],
        answer: &mut Vec<u8>,
        limit: Duration,
    ) -> Result<(), Unanswered> {
        let inner = &*self.inner;
        let mut started = None;
        let (session, node) = loop {
            let table = inner.table();
            if let Some(node) = table.node_of(cluster, member)? {
                break (table.session, node.clone());
            }
            let started = *started.get_or_insert_with(|| inner.now());
            let left = limit.saturating_sub(inner.now() - started);
            match inner.node(table.session, member, left).await {
                Ok(node) => break (table.session, node),
                // Nothing has been sent yet: the next session will do as well.
                Err(ClientError::SessionLost) if inner.table().session != table.session => {}
                Err(error) => return Err(error.into()),
            }
            if left.is_zero() {
                return Err(ClientError::Deadline.into());
            }
        };
        let left = started.map_or(limit, |started| limit.saturating_sub(inner.now() - started));
        ClientStats::add(&inner.stats.messages, 1);
        let asked = node.connection.call(method, body, answer).within(left).await;
        asked.map_err(|error| inner.unanswered(session, error))
    }

    /// Whether the session is at a member's node, and shares memory with it in which messages lie: an answer may be
    /// there within a microsecond.
    pub fn is_near(&self, (cluster, member): (u64, MemberId)) -> bool {
        let table = self.inner.table.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        table.node_of(cluster, member).ok().flatten().is_some_and(|node| node.connection.is_near())
    }

    /// As [`Self::ask`], blocking this thread, within this handle's deadline. `None`, and nothing is asked, if the
    /// session is not at that node yet: getting there is for the future.
    pub fn ask_waiting(
        &self,
        (cluster, member): (u64, MemberId),
        method: u16,
        body: &[u8],
        answer: &mut Vec<u8>,
    ) -> Option<Result<(), Unanswered>> {
        let inner = &*self.inner;
        let (session, asked) = {
            // Nobody gives the table another shape while most answers come, which is sooner than it would take to
            // count who else holds it.
            let table = inner.table.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            let node = table.node_of(cluster, member).ok()??;
            let mut call = node.connection.call(method, body, answer).within(self.deadline);
            call.start();
            ClientStats::add(&inner.stats.messages, 1);
            (table.session, call.wait_briefly().ok_or_else(|| call.detach()))
        };
        let asked = asked.unwrap_or_else(|call| call.wait(body, answer));
        Some(asked.map_err(|error| inner.unanswered(session, error)))
    }

    /// As [`Self::ask_waiting`], of several questions that are under way together, up to [`TOGETHER_MAX`]: each is
    /// put together by `put` while the node has those before it, and what it answers taken by `take` while the node
    /// has those after it. `None`, too, if the node is not [near](Self::is_near): it would be asked one thing after
    /// the other. If it fails, some answers may have been taken.
    pub fn ask_together_waiting(
        &self,
        (cluster, member): (u64, MemberId),
        method: u16,
        exchanges: &mut [Exchange],
        mut put: impl FnMut(usize, &mut Vec<u8>),
        mut take: impl FnMut(usize, &[u8]),
    ) -> Option<Result<(), Unanswered>> {
        let inner = &*self.inner;
        let (count, mut done, mut failed) = (exchanges.len(), 0, None);
        let place_of = |at: usize| if planted("later_answers_begin_anew") { 0 } else { at };
        let (session, left) = {
            // As in `ask_waiting`.
            let table = inner.table.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            let node = table.node_of(cluster, member).ok()??;
            if !node.connection.is_near() || count > TOGETHER_MAX {
                return None;
            }
            let mut calls = [const { None }; TOGETHER_MAX];
            for (at, (Exchange { question, answer }, call)) in
                exchanges.iter_mut().zip(&mut calls).enumerate()
            {
                put(at, question);
                let called = node.connection.call(method, question, answer).within(self.deadline);
                call.insert(called).start();
            }
            ClientStats::add(&inner.stats.messages, count as u64);
            for call in calls.iter_mut().flatten() {
                match call.wait_briefly() {
                    Some(Ok(())) => take(place_of(done), call.reply()),
                    // What is not there soon is waited for below.
                    None => break,
                    Some(Err(error)) => {
                        failed = Some(error);
                        break;
                    }
                }
                done += 1;
            }
            let mut left = [const { None }; TOGETHER_MAX];
            if done < count && failed.is_none() {
                left = calls.map(|call| call.map(Call::detach));
            }
            (table.session, left)
        };
        // One deadline for all that are waited for, however late each is.
        let mut deadline = None;
        for (at, (Exchange { question, answer }, call)) in
            exchanges.iter_mut().zip(left).enumerate().skip(done)
        {
            let Some(call) = call else { break };
            let now = inner.now();
            let deadline = *deadline.get_or_insert(now + self.deadline);
            match call.within(deadline.saturating_sub(now)).wait(question, answer) {
                Ok(()) => take(place_of(at), answer),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        Some(failed.map_or(Ok(()), |error| Err(inner.unanswered(session, error))))
    }

    /// Counts for a table that is being opened; see [`ClientStats::now`].
    pub fn count_lookups(&self) -> Arc<LookupCounts> {
        self.inner.stats.open_table()
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        self.inner.random_below(u64::MAX) + 1
    }

    /// Brings the directory up to date, within a time; says whether a node has answered.
    pub async fn refresh(&self, limit: Duration) -> bool {
        let inner = &*self.inner;
        let started = inner.now();
        let left = || limit.saturating_sub(inner.now() - started);
        let session = inner.table().session;
        for member in &inner.directory.configuration().members {
            // Whoever is first may be out of reach: half of the time is for the others.
            if inner.node(session, member.id, left() / 2).await.is_ok() {
                break;
            }
        }
        inner.refresh(session, left()).await
    }

    /// Asks the coordinator: the member that answers as one. Asked again, within the deadline, while
    /// none can be reached or none can answer: requests must come to the same end when they are
    /// carried out twice. Says with the answer whether an earlier attempt may have been, too.
    pub async fn coordinate(&self, request: &barn_cluster::Request) -> Result<(Response, bool), ClientError> {
        let mut waits = self.attempts();
        let mut unknown = false;
        loop {
            let asked = self.coordinate_once(request, waits.left()).await;
            let passing = match &asked {
                Ok(Response::Refused(Refusal::Unavailable { why })) => {
                    ClientError::NotReady { why: why.clone() }
                }
                Err(Unanswered { error: ClientError::NoMember, .. }) => {
                    ClientError::NotReady { why: "the cluster has no members yet".into() }
                }
                Err(unanswered) => unanswered.error.clone(),
                Ok(_) => return asked.map(|response| (response, unknown)).map_err(ClientError::from),
            };
            unknown |= asked.as_ref().is_err_and(|unanswered| unanswered.unknown);
            if !waits.again(&passing).await {
                return asked.map(|response| (response, unknown)).map_err(ClientError::from);
            }
        }
    }

    async fn coordinate_once(
        &self,
        request: &barn_cluster::Request,
        limit: Duration,
    ) -> Result<Response, Unanswered> {
        let inner = &*self.inner;
        let started = inner.now();
        let mut answered = Err(ClientError::NoMember.into());
        for member in &inner.directory.configuration().members {
            let session = inner.table().session;
            let left = || limit.saturating_sub(inner.now() - started);
            let node = match inner.node(session, member.id, left()).await {
                Ok(node) => node,
                Err(error) => {
                    answered = Err(error.into());
                    continue;
                }
            };
            let method = inner.environment.configuration_method;
            match barn_cluster::ask(&node.connection.with_deadline(left()), method, request).await {
                // Another coordinates, or none can at the moment.
                Err(AskError::Refused(refusal @ Refusal::Unavailable { .. })) => {
                    answered = Ok(Response::Refused(refusal));
                }
                Err(AskError::Refused(refusal)) => return Ok(Response::Refused(refusal)),
                Ok(response) => {
                    self.install(&response);
                    return Ok(response);
                }
                Err(AskError::Call(error)) => {
                    let unknown = error.outcome_is_unknown();
                    answered = Err(Unanswered { error: inner.broken(session, Broken::from(error)), unknown });
                }
                Err(error) => answered = Err(ClientError::Refused { why: error.to_string() }.into()),
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

    /// Attempts at something, with waits between them that grow, until the deadline, which counts
    /// from now.
    pub fn attempts(&self) -> Waits<'_> {
        let backoff = Backoff::new(self.inner.now(), self.deadline);
        Waits { client: self, backoff, lost: 0, searches: 0 }
    }
}
