//! Everything that is asked, started and loaded: the node, the limit's, and the peers.

use std::io;

use barn::{Barn, Kind, TableOptions};

use super::cell::Subject;
use super::workload::{VALUE_BYTES, key, value};
use crate::bench::node::BenchNode;
use crate::bench::peer::link::Place;
use crate::bench::peer::{Absent, PeerError, memcached, redis};
use crate::progress::Progress;

/// The table's name.
pub(super) const TABLE: &str = "get";
/// Memory of the node for each key, and besides: enough for every kind while it grows.
const NODE_BYTES_PER_KEY: u64 = 288;
const NODE_BYTES_MIN: u64 = 256 << 20;
/// Memory of a bounded cache for each key: so much that nothing is forgotten.
const CACHE_BYTES_PER_KEY: u64 = 192;
/// The most memory that bare loads look at; their offsets have 32 bits.
const LIMIT_BYTES_MAX: u64 = 2 << 30;
/// Keys loaded at once: replies stay within a socket's buffer.
const LOAD_BATCH: u32 = 500;

/// The servers of a run, stopped with it.
pub(super) struct Servers {
    pub(super) node: BenchNode,
    /// A node with as much raw memory as the table takes.
    pub(super) limit: BenchNode,
    pub(super) limit_bytes: u64,
    pub(super) table_bytes: u64,
    redis: Option<redis::Server>,
    memcached: Vec<(Subject, memcached::Server)>,
    /// Peers that are not there.
    pub(super) absent: Absent,
}

impl Servers {
    /// Starts all, and loads them with so many keys.
    pub(super) fn start(kind: Kind, keys: u32, progress: &mut Progress) -> io::Result<Self> {
        progress.step("loading Barn");
        let node = BenchNode::start(u64::from(keys) * NODE_BYTES_PER_KEY + NODE_BYTES_MIN, 0, None)?;
        let table_bytes = load_barn(&node, kind, keys).map_err(io::Error::other)?;
        let limit_bytes = table_bytes.next_multiple_of(2 << 20).min(LIMIT_BYTES_MAX);
        let limit = BenchNode::start(2 << 20, limit_bytes, None)?;
        let mut servers = Self {
            node,
            limit,
            limit_bytes,
            table_bytes,
            redis: None,
            memcached: Vec::new(),
            absent: Absent::default(),
        };
        progress.step("loading Redis");
        servers.redis = servers.absent.or_note("redis", load_redis(keys))?;
        progress.step("loading memcached");
        for subject in [Subject::MemcachedUnix, Subject::MemcachedTcp] {
            let unix = subject == Subject::MemcachedUnix;
            let server = servers.absent.or_note("memcached", load_memcached(keys, unix))?;
            servers.memcached.extend(server.map(|server| (subject, server)));
        }
        #[cfg(not(feature = "peers"))]
        servers.absent.note("dashmap", crate::bench::peer::BUILD_THEM_IN.to_owned());
        Ok(servers)
    }

    /// Where the peers listen.
    pub(super) fn peers(&self) -> Vec<(Subject, Place)> {
        let redis = self.redis.iter().flat_map(|server| {
            [(Subject::RedisUnix, server.unix.clone()), (Subject::RedisTcp, server.tcp.clone())]
        });
        let memcached = self.memcached.iter().map(|(subject, server)| (*subject, server.place.clone()));
        redis.chain(memcached).collect()
    }

    /// Whether there is one to ask.
    pub(super) fn has(&self, subject: Subject) -> bool {
        match subject {
            Subject::RedisUnix | Subject::RedisTcp => self.redis.is_some(),
            Subject::MemcachedUnix | Subject::MemcachedTcp => {
                self.memcached.iter().any(|(there, _)| *there == subject)
            }
            Subject::Dashmap => cfg!(feature = "peers"),
            _ => true,
        }
    }

    /// Seconds of CPU that the one who is asked has used so far; none where nobody is.
    pub(super) fn cpu_seconds(&self, subject: Subject) -> f64 {
        match subject {
            Subject::ShmOneSided | Subject::ShmRequest | Subject::TcpAuto => self.node.cpu_seconds(),
            Subject::Bare | Subject::BarePrefetched => self.limit.cpu_seconds(),
            Subject::RedisUnix | Subject::RedisTcp => {
                self.redis.as_ref().map_or(0.0, |server| server.process.cpu_seconds())
            }
            Subject::MemcachedUnix | Subject::MemcachedTcp => {
                let server = self.memcached.iter().find(|(there, _)| *there == subject);
                server.map_or(0.0, |(_, server)| server.process.cpu_seconds())
            }
            Subject::Flat | Subject::Dashmap => 0.0,
        }
    }
}

/// The keys and values of one batch after another.
fn batches(keys: u32) -> impl Iterator<Item = Vec<([u8; 16], [u8; VALUE_BYTES])>> {
    (0..keys).step_by(LOAD_BATCH as usize).map(move |first| {
        let numbers = first..keys.min(first + LOAD_BATCH);
        numbers.map(|number| key(u64::from(number))).map(|key| (key, value(&key))).collect()
    })
}

/// Gives the bytes that the table takes.
fn load_barn(node: &BenchNode, kind: Kind, keys: u32) -> Result<u64, barn::Error> {
    let barn = Barn::connect(&node.address("shm"))?;
    let options = TableOptions {
        kind,
        capacity: u64::from(keys),
        key_bytes: 16,
        inline_bytes: VALUE_BYTES as u32,
        memory_bytes: (u64::from(keys) * CACHE_BYTES_PER_KEY).max(64 << 20),
        ..TableOptions::default()
    };
    let table = barn.table_with(TABLE, options)?;
    for batch in batches(keys) {
        let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        table.put_many(&pairs)?;
    }
    Ok(table.stats()?.shards.memory_bytes)
}

fn load_redis(keys: u32) -> Result<redis::Server, PeerError> {
    let server = redis::Server::start()?;
    let mut wire = server.connect(false)?;
    for batch in batches(keys) {
        for (key, value) in &batch {
            wire.command(&[b"SET", key, value]);
        }
        wire.exchange(batch.len(), |_, reply| reply.fails().map_or(Ok(()), |why| Err(redis::failed(why))))?;
    }
    Ok(server)
}

fn load_memcached(keys: u32, unix: bool) -> Result<memcached::Server, PeerError> {
    let server = memcached::Server::start(u64::from(keys), unix)?;
    let mut wire = memcached::Wire::connect(&server.place, false)?;
    for batch in batches(keys) {
        for (key, value) in &batch {
            wire.set(key, value);
        }
        wire.flush()?;
    }
    Ok(server)
}
