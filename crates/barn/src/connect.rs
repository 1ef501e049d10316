//! Connecting to a cluster through any of its nodes, and finding it again at the same address.

use crate::barn::Barn;
use crate::error::Error;
use crate::node::CLUSTER_METHOD;
use barn_cluster::{Directory, Member, Request, Response, ask};
use barn_fabric::seam::{Clock, SystemClock, Threads};
use barn_fabric::{ConnectError, ConnectOptions, Connection, block_on};
use barn_transaction::{Boxed, Client, ClientOptions, Connector, Environment, Observer, Retry};
use std::sync::Arc;
use std::time::Duration;

/// How to connect, and how what is connected behaves: 5 s for an operation, all in all, and whatever
/// comes to the same end when it is done twice is done again while a node is lost.
///
/// ```no_run
/// # fn main() -> Result<(), barn::Error> {
/// use barn::{Connect, Retry};
/// use std::time::Duration;
/// let barn = Connect::new().deadline(Duration::from_millis(200)).retry(Retry::Reads).to("tcp://10.0.0.1:7411")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Connect {
    options: ConnectOptions,
    client: ClientOptions,
}

impl Connect {
    /// With defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long an operation may take, all in all, with everything that is done again: 5 s unless said.
    /// [`Table::deadline`](crate::Table::deadline) and [`Barn::deadline`] are for single calls.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = deadline;
        self.client.deadline = deadline;
        self
    }

    /// What is done again by itself while a node, or the link to it, is lost.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.client.retry = retry;
        self
    }

    /// The token that tcp nodes ask for.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.options.token = Some(token.into());
        self
    }

    /// How requests are carried over shm.
    pub fn fabric(mut self, options: ConnectOptions) -> Self {
        self.options = options;
        self
    }

    /// Is told of every step of every commit; for tests.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.client.observer = Some(observer);
        self
    }

    /// Connects.
    pub fn to(self, address: &str) -> Result<Barn, Error> {
        block_on(self.to_async(address))
    }

    /// Connects, as a future.
    pub async fn to_async(self, address: &str) -> Result<Barn, Error> {
        let clock = SystemClock::default();
        let connection = Connection::connect(address, self.options.clone()).await?;
        let directory = Arc::new(Directory::new());
        match ask(&connection, CLUSTER_METHOD, &Request::Get { known_version: 0 }).await {
            Ok(Response::Current { configuration: Some(configuration), .. }) => {
                directory.install(configuration, clock.now());
            }
            Ok(other) => return Err(Error::Node(format!("{address} gave no configuration: {other:?}"))),
            Err(error) => return Err(Error::Node(format!("{address} gave no configuration: {error}"))),
        }
        let environment = environment(self.options, clock, Some(address.to_string()));
        Ok(Barn::over(Client::new(environment, directory, self.client)))
    }
}

/// What clients and resolvers of a real process stand on.
pub(crate) fn environment(options: ConnectOptions, clock: SystemClock, via: Option<String>) -> Environment {
    Environment {
        clock: Arc::new(clock),
        schedule: Arc::new(Threads),
        connector: Arc::new(ByHost { options, host: host(), via }),
        configuration_method: CLUSTER_METHOD,
        seed: crate::node::random(),
    }
}

/// Reaches members by shm on this host and by tcp on others; by verbs if that is how it came.
#[derive(Debug)]
struct ByHost {
    options: ConnectOptions,
    host: String,
    /// The address that the user gave: its transport is kept where a member has one.
    via: Option<String>,
}

impl Connector for ByHost {
    fn connect<'a>(
        &'a self,
        member: &'a Member,
        limit: Duration,
    ) -> Boxed<'a, Result<Connection, ConnectError>> {
        let same = |address: &&String| {
            let by = |scheme| self.via.as_ref().is_some_and(|via| via.starts_with(scheme));
            ["tcp://", "verbs://"].into_iter().any(|scheme| by(scheme) && address.starts_with(scheme))
        };
        let wanted = member.addresses.iter().find(same);
        let address = wanted.map(String::as_str).or_else(|| member.address_from(&self.host));
        Box::pin(async move {
            let address = address.unwrap_or("an address that this host can reach");
            Connection::connect(address, self.options_within(limit)).await
        })
    }

    fn rediscover<'a>(&'a self, limit: Duration) -> Option<Boxed<'a, Result<Connection, ConnectError>>> {
        let via = self.via.as_deref()?;
        Some(Box::pin(async move { Connection::connect(via, self.options_within(limit)).await }))
    }
}

impl ByHost {
    /// Connecting takes no longer than an operation may, nor than this one has left.
    fn options_within(&self, limit: Duration) -> ConnectOptions {
        let mut options = self.options.clone();
        options.deadline = options.deadline.min(limit);
        options
    }
}

/// Which host this is: one boot of one kernel.
pub(crate) fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{} {}", name.trim(), boot.trim())
}
