//! What is measured: who is asked, for which keys, how many at once.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subject {
    /// Barn over shm: the client reads the table's memory.
    ShmOneSided,
    /// Barn over shm: the node is asked.
    ShmRequest,
    /// Barn over tcp, either way.
    TcpAuto,
    /// No table: loads of 64 bytes from as many places of as much memory, one after another.
    Bare,
    /// The same, prefetched.
    BarePrefetched,
    /// The simplest table, in the client's own process.
    Flat,
    /// A map in the client's own process.
    Dashmap,
    /// Redis on a Unix socket.
    RedisUnix,
    /// Redis on loopback.
    RedisTcp,
    /// memcached on a Unix socket.
    MemcachedUnix,
    /// memcached on loopback.
    MemcachedTcp,
}

impl Subject {
    /// The servers that are compared with, on Unix sockets and on loopback.
    pub(crate) const UNIX_PEERS: [Self; 2] = [Self::RedisUnix, Self::MemcachedUnix];
    pub(crate) const TCP_PEERS: [Self; 2] = [Self::RedisTcp, Self::MemcachedTcp];

    /// Its name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ShmOneSided => "shm/one-sided",
            Self::ShmRequest => "shm/request",
            Self::TcpAuto => "tcp/auto",
            Self::Bare => "bare loads",
            Self::BarePrefetched => "bare prefetched loads",
            Self::Flat => "flat",
            Self::Dashmap => "dashmap",
            Self::RedisUnix => "redis-unix",
            Self::RedisTcp => "redis-tcp",
            Self::MemcachedUnix => "memcached-unix",
            Self::MemcachedTcp => "memcached-tcp",
        }
    }

    /// Whether it goes over tcp, where several at once are called a depth.
    pub(crate) fn is_tcp(self) -> bool {
        matches!(self, Self::TcpAuto | Self::RedisTcp | Self::MemcachedTcp)
    }
}

/// Which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Choice {
    /// All with the same chance.
    Uniform,
    /// Zipf's law with exponent 0.99, the ranks scattered over the keys.
    Zipf,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        })
    }
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) subject: Subject,
    pub(crate) choice: Choice,
    /// Keys asked for at once.
    pub(crate) batch: usize,
}

/// Keys at once over shm and Unix sockets, and over tcp.
pub(crate) const BATCHES: [usize; 2] = [1, 32];
/// Keys at once of the flat table, which is there to show what that can come to.
pub(super) const FLAT_BATCH: usize = 32;
pub(crate) const DEPTHS: [usize; 3] = [1, 16, 64];

impl Cell {
    /// Everything that is measured of one choice of keys, in the order in which it is. Ours and the
    /// peers alternate.
    pub(crate) fn all(choice: Choice, there: impl Fn(Subject) -> bool) -> Vec<Self> {
        let local = |batch| {
            let bare = if batch == 1 { Subject::Bare } else { Subject::BarePrefetched };
            let [redis, memcached] = Subject::UNIX_PEERS;
            [Subject::ShmOneSided, bare, redis, Subject::ShmRequest, memcached]
        };
        let [redis, memcached] = Subject::TCP_PEERS;
        let remote = [Subject::TcpAuto, redis, memcached];
        let cells = (BATCHES.into_iter())
            .flat_map(|batch| local(batch).map(|subject| (subject, batch)))
            .chain([(Subject::Flat, FLAT_BATCH), (Subject::Dashmap, 1)])
            .chain(DEPTHS.into_iter().flat_map(|depth| remote.map(|subject| (subject, depth))));
        cells
            .filter(|(subject, _)| there(*subject))
            .map(|(subject, batch)| Self { subject, choice, batch })
            .collect()
    }

    /// The middle of a row's name, such as `uniform/batch-32`.
    pub(crate) fn name(self) -> String {
        let word = if self.subject.is_tcp() { "depth" } else { "batch" };
        match self.subject {
            // There is no other.
            Subject::Dashmap => self.choice.to_string(),
            _ => format!("{}/{word}-{}", self.choice, self.batch),
        }
    }
}
