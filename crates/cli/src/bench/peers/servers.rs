//! Everything that is asked, started and loaded with the same records: the node and the peers' servers.

use std::io;

use barn::{Barn, Kind};

use crate::bench::node::BenchNode;
use crate::bench::peer::link::Place;
use crate::bench::peer::{Absent, PeerError, memcached, redis};
use crate::bench::workload::shape::Shape;
use crate::bench::workload::site;
use crate::bench::workload::subject::Subject;
use crate::progress::Progress;
use crate::report::{Better, Row};

/// Of an item of memcached's, beside its key and value: its header, and what its slab wastes.
const ITEM_BYTES: u64 = 96;

/// The servers of a run, stopped with it.
pub(super) struct Servers {
    pub(super) node: BenchNode,
    redis: Option<redis::Server>,
    memcached: Vec<(Subject, memcached::Server)>,
    /// Bytes of memory for each record: ours, and everybody's by name.
    entry_bytes: f64,
    peers_entry_bytes: Vec<(&'static str, f64)>,
    /// Peers that are not there.
    pub(super) absent: Absent,
}

impl Servers {
    /// Starts all, and loads them.
    pub(super) fn start(
        kind: Kind,
        ordered: bool,
        shape: Shape,
        records: u64,
        progress: &mut Progress,
    ) -> io::Result<Self> {
        progress.show(&format!("loading Barn with {records} records of {shape}"));
        let memory_bytes = site::memory_bytes(shape, records) * if ordered { 2 } else { 1 };
        let node = BenchNode::start(memory_bytes, 0, None)?;
        let barn = Barn::connect(&node.address("shm")).map_err(io::Error::other)?;
        let table = site::load(&barn, kind, shape, records).map_err(io::Error::other)?;
        let stats = table.stats().map_err(io::Error::other)?.shards;
        if ordered {
            site::load_ordered(&barn, shape, records).map_err(io::Error::other)?;
        }
        let mut servers = Self {
            node,
            redis: None,
            memcached: Vec::new(),
            entry_bytes: stats.memory_bytes as f64 / stats.keys.max(1) as f64,
            peers_entry_bytes: Vec::new(),
            absent: Absent::default(),
        };
        progress.show("loading Redis");
        if let Some((server, entry_bytes)) = servers.absent.or_note("redis", load_redis(shape, records))? {
            servers.redis = Some(server);
            servers.peers_entry_bytes.push(("redis", entry_bytes));
        }
        progress.show("loading memcached");
        // One that listens on a Unix socket listens nowhere else.
        for subject in [Subject::MemcachedUnix, Subject::MemcachedTcp] {
            let loaded = load_memcached(shape, records, subject == Subject::MemcachedUnix);
            if let Some((server, entry_bytes)) = servers.absent.or_note("memcached", loaded)? {
                servers.memcached.push((subject, server));
                // Both hold the same.
                if subject == Subject::MemcachedUnix {
                    servers.peers_entry_bytes.push(("memcached", entry_bytes));
                }
            }
        }
        #[cfg(not(feature = "peers"))]
        servers.absent.note("dashmap", crate::bench::peer::BUILD_THEM_IN.to_owned());
        Ok(servers)
    }

    /// Our memory for each record beside each server's.
    pub(super) fn memory_rows(&self, shape: Shape) -> impl Iterator<Item = Row> {
        self.peers_entry_bytes.iter().map(move |(peer, theirs)| {
            let name = format!("memory-per-entry/{shape}/against-{peer}");
            Row::new(name, "bytes", Better::Lower, &[self.entry_bytes]).beside(*peer, &[*theirs])
        })
    }

    /// Where the peers listen.
    pub(super) fn places(&self) -> Vec<(Subject, Place)> {
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
            Subject::Shm(_) | Subject::Tcp(_) | Subject::Verbs(_) => self.node.cpu_seconds(),
            Subject::RedisUnix | Subject::RedisTcp => {
                self.redis.as_ref().map_or(0.0, |server| server.process.cpu_seconds())
            }
            Subject::MemcachedUnix | Subject::MemcachedTcp => {
                let server = self.memcached.iter().find(|(there, _)| *there == subject);
                server.map_or(0.0, |(_, server)| server.process.cpu_seconds())
            }
            Subject::Embedded(_) | Subject::Dashmap | Subject::LockedBTree => 0.0,
        }
    }
}

/// A server that is loaded, and the bytes by which its memory grew for each record.
fn load_redis(shape: Shape, records: u64) -> Result<(redis::Server, f64), PeerError> {
    let server = redis::Server::start()?;
    let before = server.process.resident_bytes();
    let mut wire = server.connect(false)?;
    for batch in site::batches(shape, records) {
        for (key, value) in &batch {
            wire.command(&[b"SET", key, value]);
        }
        wire.exchange(batch.len(), |_, reply| reply.fails().map_or(Ok(()), |why| Err(redis::failed(why))))?;
    }
    let grown = server.process.resident_bytes() - before;
    Ok((server, grown / records as f64))
}

fn load_memcached(shape: Shape, records: u64, unix: bool) -> Result<(memcached::Server, f64), PeerError> {
    let item_bytes = ITEM_BYTES + (shape.key.most + shape.value.most) as u64 * 3 / 2;
    let server = memcached::Server::start_for(records, item_bytes, unix)?;
    let before = server.process.resident_bytes();
    let mut wire = memcached::Wire::connect(&server.place, false)?;
    for batch in site::batches(shape, records) {
        for (key, value) in &batch {
            wire.set(key, value);
        }
        wire.flush()?;
    }
    let grown = server.process.resident_bytes() - before;
    Ok((server, grown / records as f64))
}
