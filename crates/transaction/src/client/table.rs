//! The nodes that a session talks to and the regions it reads: a value that is replaced as a whole,
//! so that a transaction looks things up without a lock.

use super::activity::Epochs;
use super::by_region::ByRegion;
use super::{Inner, lock};
use crate::client::backoff::pause;
use crate::error::{Broken, ClientError, unreachable};
use crate::wire::{Method, whole};
use barn_cluster::MemberId;
use barn_fabric::{Connection, RemoteRegion, Rights};
use barn_layout::transaction::{Hello, Welcome};
use barn_layout::{RegionId, planted};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Holders count 1 % less than they were granted, for clocks that run apart.
const DRIFT: u32 = 100;
/// How long to wait before looking again whether another task has connected.
const CONNECTING_PAUSE: Duration = Duration::from_micros(100);

/// A session's nodes and regions.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) session: u64,
    /// Which cluster the session is at; 0 for whichever the directory describes.
    pub(crate) cluster: u64,
    pub(crate) nodes: Vec<Arc<NodeLink>>,
    regions: ByRegion<Arc<RegionLink>>,
    /// The lowest of their numbers, and whether READs of that one are loads.
    lowest: Option<(RegionId, bool)>,
}

/// A region that can be read.
#[derive(Debug)]
pub(crate) struct RegionLink {
    pub(crate) remote: RemoteRegion,
    pub(crate) node: Arc<NodeLink>,
    /// The node's place in the table: nodes are only ever added, at the end.
    pub(crate) node_at: usize,
}

/// A node that the session is known at.
#[derive(Debug)]
pub(crate) struct NodeLink {
    pub(crate) member: MemberId,
    /// The life of the node's process: what another remembers, this one may not.
    pub(crate) life: u64,
    pub(crate) connection: Connection,
    pub(crate) lease: Duration,
    /// Until when what is read there may be believed, in nanoseconds of our clock.
    valid_until: AtomicU64,
    /// What the keeper knows of the node's epochs.
    pub(crate) epochs: Mutex<Epochs>,
}

impl NodeLink {
    /// Notes that the node renewed our session when asked at `asked`.
    pub(crate) fn renewed(&self, asked: Duration) {
        let until = asked + self.lease - self.lease / DRIFT;
        // ORDER: Relaxed: a time that stands alone.
        self.valid_until.fetch_max(until.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether what was read from the node before `now` may be believed.
    #[inline]
    pub(crate) fn is_valid(&self, now: Duration) -> bool {
        (now.as_nanos() as u64) < self.valid_until.load(Ordering::Relaxed)
    }
}

impl Table {
    pub(crate) fn new(session: u64, cluster: u64) -> Self {
        Self { session, cluster, nodes: Vec::new(), regions: ByRegion::default(), lowest: None }
    }

    #[inline]
    pub(crate) fn region(&self, region: RegionId) -> Option<&Arc<RegionLink>> {
        self.regions.get(region)
    }

    /// Whether READs are loads.
    #[inline]
    pub(crate) fn regions_are_mapped(&self) -> bool {
        matches!(self.lowest, Some((_, true)))
    }

    /// A node's place in the table.
    pub(crate) fn node_at(&self, node: &Arc<NodeLink>) -> Option<usize> {
        self.nodes.iter().position(|known| Arc::ptr_eq(known, node))
    }

    pub(crate) fn node(&self, member: MemberId) -> Option<&Arc<NodeLink>> {
        self.nodes.iter().find(|node| node.member == member)
    }

    /// The node of a member of `cluster`, if the session is there; an error where the session is at another cluster.
    pub(crate) fn node_of(
        &self,
        cluster: u64,
        member: MemberId,
    ) -> Result<Option<&Arc<NodeLink>>, ClientError> {
        let elsewhere = self.cluster != 0 && self.cluster != cluster;
        if elsewhere && !planted("tables_outlive_clusters") {
            return Err(ClientError::AnotherCluster);
        }
        Ok(self.node(member))
    }

    fn clone_with(&self, node: Option<Arc<NodeLink>>, region: Option<(RegionId, Arc<RegionLink>)>) -> Self {
        let (mut nodes, mut regions) = (self.nodes.clone(), self.regions.clone());
        nodes.extend(node);
        let mut lowest = self.lowest;
        if let Some((id, link)) = region {
            if lowest.is_none_or(|(lowest, _)| id < lowest) {
                lowest = Some((id, link.remote.mapped().is_some()));
            }
            regions.insert(id, link);
        }
        Self { session: self.session, cluster: self.cluster, nodes, regions, lowest }
    }
}

impl Inner {
    /// Puts a changed table in place, unless the session is another by now.
    fn replace(
        &self,
        session: u64,
        node: Option<Arc<NodeLink>>,
        region: Option<(RegionId, Arc<RegionLink>)>,
    ) -> Result<(), ClientError> {
        let mut table = self.table.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if table.session != session {
            return Err(ClientError::SessionLost);
        }
        *table = Arc::new(table.clone_with(node, region));
        Ok(())
    }

    /// What a broken link means: whatever it is, the session it belonged to is over.
    pub(crate) fn broken(&self, session: u64, broken: Broken) -> ClientError {
        match broken {
            Broken::Session => self.session_lost(session),
            Broken::Other(error) => error,
        }
    }

    /// The region's link in the session's table; opened if need be, within a time.
    pub(crate) async fn region(
        &self,
        session: u64,
        region: RegionId,
        limit: Duration,
    ) -> Result<Arc<RegionLink>, ClientError> {
        let table = self.table();
        if table.session != session {
            return Err(ClientError::SessionLost);
        }
        if let Some(link) = table.region(region) {
            return Ok(link.clone());
        }
        drop(table);
        let started = self.now();
        let mut member = self.directory.primary(region);
        if member.is_none() {
            let refreshed = self.refresh(session, limit).await;
            member = self.directory.primary(region);
            if member.is_none() && refreshed && self.directory.configuration().region(region).is_none() {
                return Err(ClientError::Void { region });
            }
        }
        let Some(member) = member else { return Err(ClientError::NoRegion { region }) };
        let node = self.node(session, member, limit).await?;
        let remote = node
            .connection
            .open(region, Rights::READ)
            .within(limit.saturating_sub(self.now() - started))
            .await
            .map_err(|error| self.broken(session, error.into()))?;
        let table = self.table();
        let node_at = table.node_at(&node).filter(|_| table.session == session);
        let Some(node_at) = node_at else { return Err(ClientError::SessionLost) };
        let link = Arc::new(RegionLink { remote, node, node_at });
        self.replace(session, None, Some((region, link.clone())))?;
        Ok(link)
    }

    /// A member's link in the session's table; connected if need be, within a time.
    pub(crate) async fn node(
        &self,
        session: u64,
        member: MemberId,
        limit: Duration,
    ) -> Result<Arc<NodeLink>, ClientError> {
        let mut started = None;
        loop {
            let table = self.table();
            if table.session != session {
                return Err(ClientError::SessionLost);
            }
            if let Some(node) = table.node(member) {
                return Ok(node.clone());
            }
            if self.begin_connecting(member) {
                break;
            }
            let started = *started.get_or_insert_with(|| self.now());
            if self.now() - started >= limit {
                let cause = "another thread is still connecting to it".into();
                return Err(ClientError::Unreachable { member, cause });
            }
            pause(&self.environment, CONNECTING_PAUSE).await;
        }
        let waited = started.map_or(Duration::ZERO, |started| self.now() - started);
        let _connecting = Connecting { inner: self, member };
        // Another task may have been done just before we began.
        if let Some(node) = self.table().node(member).filter(|_| self.table().session == session) {
            return Ok(node.clone());
        }
        let node = Arc::new(self.connect(session, member, limit.saturating_sub(waited)).await?);
        self.replace(session, Some(node.clone()), None)?;
        Ok(node)
    }

    /// Says that a member is being connected to; false if another task has said so.
    fn begin_connecting(&self, member: MemberId) -> bool {
        let mut connecting = lock(&self.connecting);
        let first = !connecting.contains(&member);
        if first {
            connecting.push(member);
        }
        first
    }

    async fn connect(
        &self,
        session: u64,
        member: MemberId,
        limit: Duration,
    ) -> Result<NodeLink, ClientError> {
        let configuration = self.directory.configuration();
        let Some(known) = configuration.member(member) else {
            return Err(ClientError::Unreachable {
                member,
                cause: "it is not in the cluster any more".into(),
            });
        };
        let started = self.now();
        let connecting = self.environment.connector.connect(known, limit);
        let connection = connecting.await.map_err(|error| unreachable(member, &error))?;
        let connection = connection.with_deadline(self.options.deadline);
        let asked = self.now();
        let left = limit.saturating_sub(asked - started);
        let hello = Hello { session: session.into(), role: 0.into(), reserved: 0.into() };
        let mut answer = Vec::new();
        let called = connection.call(Method::Hello as u16, hello.as_bytes(), &mut answer).within(left).await;
        called.map_err(|error| match Broken::from(error) {
            // The node has seen this session end: it is of no use anywhere.
            Broken::Other(ClientError::Refused { .. }) => self.session_lost(session),
            other => self.broken(session, other),
        })?;
        let welcome: &Welcome = whole(&answer)
            .map_err(|_| ClientError::Refused { why: "its welcome is of another version".into() })?;
        self.check_welcome(session, member, welcome)?;
        let node = NodeLink {
            member,
            life: welcome.life.get(),
            lease: Duration::from_millis(welcome.lease_ms.get()),
            valid_until: AtomicU64::new(0),
            epochs: Mutex::new(Epochs::new(welcome.epoch.get())),
            connection,
        };
        node.renewed(asked);
        Ok(node)
    }

    /// Whether the node that answers at a member's address is that member, of this cluster: another may
    /// have been started there since, and the same numbers mean other things to it.
    fn check_welcome(&self, session: u64, member: MemberId, welcome: &Welcome) -> Result<(), ClientError> {
        let table = self.table();
        if table.session != session {
            return Err(ClientError::SessionLost);
        }
        let expected = if table.cluster == 0 { self.directory.cluster() } else { table.cluster };
        let cause = match (welcome.cluster.get(), MemberId(welcome.member.get())) {
            _ if planted("any_welcome_will_do") => return Ok(()),
            (cluster, other) if cluster == expected && other == member => return Ok(()),
            (cluster, _) if cluster != expected => "a node of another cluster answers at its address".into(),
            (_, other) => format!("{other} answers at its address"),
        };
        Err(ClientError::Unreachable { member, cause })
    }

    /// Asks the nodes that are connected for a newer configuration; says whether one has answered.
    pub(crate) async fn refresh(&self, session: u64, limit: Duration) -> bool {
        let table = self.table();
        if table.session != session {
            return false;
        }
        for node in &table.nodes {
            let known = self.directory.version();
            let method = self.environment.configuration_method;
            let asked = barn_cluster::Request::Get { known_version: known };
            if let Ok(barn_cluster::Response::Current { configuration, .. }) =
                barn_cluster::ask(&node.connection.with_deadline(limit), method, &asked).await
            {
                if let Some(configuration) = configuration {
                    let _ = self.directory.install(configuration, self.now());
                }
                return true;
            }
        }
        false
    }
}

/// Says that a member is being connected to, for as long as it is.
struct Connecting<'a> {
    inner: &'a Inner,
    member: MemberId,
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        lock(&self.inner.connecting).retain(|member| *member != self.member);
    }
}
