//! The coordinator: takes members in, renews their leases, expels the dead, places regions.
//!
//! A state machine without I/O of its own: a node's service hands it requests with the time, and
//! the store does the rest. [`Coordinator::handle`] is for stores that answer at once;
//! [`Coordinator::serve`] is the same for any store.
//!
//! What always holds:
//! - a change is in the store before it is answered or shown to anybody;
//! - a request is judged only after leases that have ended by then have been acted upon;
//! - while it is not known whether a change is in the store, nothing is granted;
//! - a coordinator that was itself stopped holds that against nobody: it counts every lease anew;
//! - one that starts counts every member's lease from then, for it knows no better.

mod change;
mod join;
mod region;
mod tables;
#[cfg(test)]
mod tests;

use crate::configuration::Configuration;
use crate::lease::{LEASE_DEFAULT, LEASE_MAX, LEASE_MIN};
use crate::member::{Life, MemberId};
use crate::message::{Refusal, Request, Response};
use crate::placement::{REPLICAS_DEFAULT, RINGS_DEFAULT};
use crate::store::{ConfigurationStore, StoreError};
use barn_fabric::seam::{Random, Seeded};
use barn_layout::planted;
use std::collections::BTreeMap;
use std::fmt;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How a new cluster should be. One that is in the store already keeps what it began with.
#[derive(Clone, Debug)]
pub struct CoordinatorOptions {
    /// How long a member's lease is; kept between [`LEASE_MIN`] and [`LEASE_MAX`].
    pub lease: Duration,
    /// How many virtual rings: k.
    pub rings: u32,
    /// How many copies beyond the primary: r.
    pub replicas: u32,
    /// What the choice of rings follows from.
    pub seed: u64,
}

impl Default for CoordinatorOptions {
    fn default() -> Self {
        Self { lease: LEASE_DEFAULT, rings: RINGS_DEFAULT, replicas: REPLICAS_DEFAULT, seed: 0 }
    }
}

/// Since when a departed member has been counted as gone: when that began here, and how long it
/// had been before.
#[derive(Clone, Copy, Debug)]
struct Gone {
    began: Duration,
    before_ms: u64,
}

/// The embedded coordinator.
pub struct Coordinator {
    store: Box<dyn ConfigurationStore>,
    configuration: Configuration,
    gone: BTreeMap<MemberId, Gone>,
    /// When it last did something.
    last_awake: Duration,
    /// Whether the store may hold another configuration than this.
    unsure: bool,
    random: Seeded,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Configuration { version, members, regions, .. } = &self.configuration;
        write!(f, "Coordinator(version {version}, {} members, {} regions)", members.len(), regions.len())
    }
}

/// Why a request comes to nothing: inside, where `?` is of use.
enum No {
    Refused(Refusal),
    Store(StoreError),
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for No {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<No> for Response {
    fn from(no: No) -> Self {
        Self::Refused(match no {
            No::Refused(refusal) => refusal,
            No::Store(error) => Refusal::Unavailable { why: error.to_string() },
        })
    }
}

/// Polls once: for stores that answer at once.
fn finish_now<T>(future: impl Future<Output = T>) -> Option<T> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

impl Coordinator {
    /// Starts with what is in the store, or begins a cluster in it, for stores that answer at once.
    pub fn start(
        store: Box<dyn ConfigurationStore>,
        options: CoordinatorOptions,
        now: Duration,
    ) -> Result<Self, StoreError> {
        finish_now(Self::begin(store, options, now)).unwrap_or(Err(StoreError::Slow))
    }

    /// Starts with what is in the store, or begins a cluster in it.
    pub async fn begin(
        store: Box<dyn ConfigurationStore>,
        options: CoordinatorOptions,
        now: Duration,
    ) -> Result<Self, StoreError> {
        let configuration = match store.load().await? {
            Some(configuration) => configuration,
            None => {
                let lease = options.lease.clamp(LEASE_MIN, LEASE_MAX);
                let mut first = Configuration::new(lease, options.rings, options.replicas);
                first.cluster = Seeded::new(options.seed).next();
                store.replace(0, &first).await?;
                first
            }
        };
        let random = Seeded::new(options.seed ^ configuration.version.rotate_left(32));
        let mut coordinator =
            Self { store, configuration, gone: BTreeMap::new(), last_awake: now, unsure: false, random };
        coordinator.count_anew(now).await?;
        Ok(coordinator)
    }

    /// The configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// How often [`Self::tick`] wants to be called; seldom calls only mean that the dead are
    /// expelled late.
    pub fn tick_every(&self) -> Duration {
        self.configuration.lease() / 10
    }

    /// Answers a request, for stores that answer at once.
    pub fn handle(&mut self, now: Duration, request: Request) -> Response {
        finish_now(self.serve(now, request)).unwrap_or_else(|| No::Store(StoreError::Slow).into())
    }

    /// Expels whose lease has ended, for stores that answer at once. Says whether the
    /// configuration has changed.
    pub fn tick(&mut self, now: Duration) -> Result<bool, StoreError> {
        finish_now(self.advance(now)).unwrap_or(Err(StoreError::Slow))
    }

    /// Answers a request.
    pub async fn serve(&mut self, now: Duration, request: Request) -> Response {
        let answered = async {
            self.advance(now).await?;
            match request {
                Request::Join { addresses, host, memory_bytes, life, rejoining } => {
                    self.join(now, join::Newcomer { addresses, host, memory_bytes, life }, rejoining).await
                }
                Request::Leave { member, life } => self.leave(now, member, life).await,
                Request::Renew { member, life, known_version } => {
                    self.renew(now, member, life, known_version).await
                }
                Request::Get { known_version } => self.get(known_version),
                Request::AddRegion { member, life, near, bytes } => {
                    self.add_region(now, member, life, near, bytes).await
                }
                Request::CreateTable { name, options, shards } => {
                    self.create_table(now, name, options, shards).await
                }
                Request::DropTable { name } => self.drop_table(now, name).await,
            }
        };
        answered.await.unwrap_or_else(Response::from)
    }

    /// Expels whose lease has ended. Says whether the configuration has changed.
    pub async fn advance(&mut self, now: Duration) -> Result<bool, StoreError> {
        let reloaded = self.make_sure(now).await?;
        let lease = self.configuration.lease();
        let stopped_for = now.saturating_sub(std::mem::replace(&mut self.last_awake, now));
        // A quarter: more than two ticks were missed, so renewals may be waiting behind them.
        if stopped_for > lease / 4 {
            for member in &self.configuration.members {
                self.store.grant(member.id, now, lease).await?;
            }
        }
        let expired = self.store.expired(now).await?;
        for member in &expired {
            tracing::warn!(member = member.0, "a member is expelled: its lease has ended");
        }
        Ok(self.expel(now, &expired).await? || reloaded)
    }

    /// The member, if it is there in that life of its.
    fn check_member(&self, member: MemberId, life: Life) -> Result<(), Refusal> {
        match (self.configuration.member(member), self.configuration.departure(member)) {
            (Some(known), _) if known.life == life || planted("renewed_without_its_life") => Ok(()),
            (Some(_), _) => Err(Refusal::Superseded { member }),
            (None, Some(departed)) => Err(Refusal::Expelled { member, at_version: departed.at_version }),
            (None, None) => Err(Refusal::UnknownMember { member }),
        }
    }

    fn newer_than(&self, known_version: u64) -> Result<Option<Configuration>, Refusal> {
        let version = self.configuration.version;
        match known_version.cmp(&version) {
            std::cmp::Ordering::Less => Ok(Some(self.configuration.clone())),
            std::cmp::Ordering::Equal => Ok(None),
            std::cmp::Ordering::Greater => Err(Refusal::Behind { version }),
        }
    }

    async fn renew(
        &mut self,
        now: Duration,
        member: MemberId,
        life: Life,
        known_version: u64,
    ) -> Result<Response, No> {
        self.check_member(member, life)?;
        let configuration = self.newer_than(known_version)?;
        if !self.store.renew(member, now, self.configuration.lease()).await? {
            // The store has lost the lease; the next tick finds the member without one.
            return Err(Refusal::Unavailable { why: "the lease is not in the store".into() }.into());
        }
        Ok(Response::Renewed { lease_ms: self.configuration.lease_ms, configuration })
    }

    fn get(&self, known_version: u64) -> Result<Response, No> {
        let configuration = self.newer_than(known_version)?;
        Ok(Response::Current { version: self.configuration.version, configuration })
    }
}
