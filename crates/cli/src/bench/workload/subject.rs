//! Who is measured, and one thing to measure of them.

use barn::Way;
use serde::{Deserialize, Serialize};

use super::mix::Mix;

/// How Barn's tables are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Reads {
    /// The client reads the memory for itself.
    OneSided,
    /// The node is asked.
    Request,
    /// Whichever is faster now.
    Auto,
}

impl From<Reads> for Way {
    fn from(reads: Reads) -> Self {
        match reads {
            Reads::OneSided => Self::OneSided,
            Reads::Request => Self::Request,
            Reads::Auto => Self::Auto,
        }
    }
}

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Subject {
    /// Barn, with its node in the client's own process.
    Embedded(Reads),
    /// Barn over shared memory.
    Shm(Reads),
    /// Barn over tcp.
    Tcp(Reads),
    /// Barn over RDMA.
    Verbs(Reads),
    /// Redis on a Unix socket.
    RedisUnix,
    /// Redis on loopback.
    RedisTcp,
    /// memcached on a Unix socket.
    MemcachedUnix,
    /// memcached on loopback.
    MemcachedTcp,
    /// A concurrent map in the client's own process.
    Dashmap,
    /// The standard library's ordered map behind one lock, in the client's own process.
    LockedBTree,
}

impl Subject {
    /// Its name in rows.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Embedded(reads) => format!("embedded/{}", Way::from(reads)),
            Self::Shm(reads) => format!("shm/{}", Way::from(reads)),
            Self::Tcp(reads) => format!("tcp/{}", Way::from(reads)),
            Self::Verbs(reads) => format!("verbs/{}", Way::from(reads)),
            Self::RedisUnix => "redis-unix".into(),
            Self::RedisTcp => "redis-tcp".into(),
            Self::MemcachedUnix => "memcached-unix".into(),
            Self::MemcachedTcp => "memcached-tcp".into(),
            Self::Dashmap => "dashmap".into(),
            Self::LockedBTree => "btreemap-rwlock".into(),
        }
    }

    /// Whether it can go through keys in their order.
    pub(crate) fn is_ordered(self) -> bool {
        matches!(self, Self::Embedded(_) | Self::Shm(_) | Self::Tcp(_) | Self::Verbs(_) | Self::LockedBTree)
    }

    /// Whether it is in the client's own process: then one process has all the threads.
    pub(crate) fn is_in_process(self) -> bool {
        matches!(self, Self::Embedded(_) | Self::Dashmap | Self::LockedBTree)
    }

    /// Of so many operations one at a time, one is timed: two looks at the clock take 50 ns, which is as
    /// long as a whole operation where nobody is asked (3 ns each, of sixteen), and nothing beside a socket.
    pub(crate) fn time_every(self, depth: usize) -> u32 {
        let near = self.is_in_process() || matches!(self, Self::Shm(_));
        if near && depth == 1 { 16 } else { 1 }
    }
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) subject: Subject,
    pub(crate) mix: Mix,
    /// Operations at once, of each thread.
    pub(crate) depth: usize,
}

impl Cell {
    /// Such as `shm/auto/a/depth-16`.
    pub(crate) fn name(self) -> String {
        format!("{}/{}/depth-{}", self.subject.name(), self.mix, self.depth)
    }
}
