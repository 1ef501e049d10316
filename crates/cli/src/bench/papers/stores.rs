//! Those who are asked: a node of the benchmark's own with tables of every design, and the stores over TCP.
//!
//! What always holds: all are processes of their own, gone with this; a store that is not installed is
//! noted, with the command that brings it, and everything else is measured without it.

use std::io;
use std::sync::Arc;

use barn::{Barn, Connect, Kind, Table, TableOptions, Way};
use barn_fabric::{ConnectOptions, Connection, Messaging, RemoteRegion, Rights};

use super::clients::{OfMemcached, OfRedis, Plan, Workload};
use super::crowd::{Client, Crowd};
use crate::bench::node::BenchNode;
use crate::bench::peer::{PeerError, memcached, redis};

/// Enough for a table of each design while they grow, in a short run and in a long one. All of it is taken when
/// the node starts, which a short run would wait for.
const NODE_BYTES_QUICK: u64 = 768 << 20;
const NODE_BYTES: u64 = 3 << 30;
/// A bounded cache takes so many times the bytes of its keys and values, and no less than this: what is put
/// again goes to the end of its log, and the longer that is, the later it comes round and forgets.
const CACHE_ROOM: u64 = 4;
const CACHE_BYTES_MIN: u64 = 128 << 20;
/// Bytes around a key and its value.
const ENTRY_BYTES: u64 = 64;
/// Keys loaded at once.
const LOAD_BATCH: usize = 256;
/// Requests that a client of HERD's region can have under way.
const WINDOW: usize = 16;

/// A design, and how it is read: one curve of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Design {
    /// Its name among values.
    pub(super) name: &'static str,
    /// Its name in a legend.
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    pub(super) way: Way,
    /// Values lie in the buckets (`hopscotch`).
    pub(super) inline: bool,
    /// FaRM's H (`hopscotch`).
    pub(super) neighbourhood: u32,
}

impl Design {
    /// HERD's: the cache, by request.
    pub(super) const HERD: Self = Self {
        name: "request",
        title: "HERD: cache, by request",
        kind: Kind::Cache,
        way: Way::Request,
        inline: true,
        neighbourhood: 8,
    };
    /// Pilaf's: cuckoo, entry and extent read one-sidedly.
    pub(super) const PILAF: Self = Self {
        name: "cuckoo",
        title: "Pilaf: cuckoo, one-sided",
        kind: Kind::Cuckoo,
        way: Way::OneSided,
        ..Self::HERD
    };
    /// FaRM's: hopscotch with values in the buckets; the paper that compares takes H = 6.
    pub(super) const FARM: Self = Self {
        name: "inline",
        title: "FaRM: hopscotch, values inside",
        kind: Kind::Hopscotch,
        way: Way::OneSided,
        neighbourhood: 6,
        ..Self::HERD
    };
    /// FaRM's with values as objects.
    pub(super) const FARM_OUTSIDE: Self =
        Self { name: "outside", title: "FaRM: hopscotch, values outside", inline: false, ..Self::FARM };

    fn options(&self, workload: &Workload, key_bytes: usize, value_bytes: usize) -> TableOptions {
        let keys = u64::from(workload.count());
        TableOptions {
            kind: self.kind,
            capacity: keys,
            key_bytes: key_bytes as u32,
            inline_bytes: if self.inline {
                (value_bytes as u32).min(barn_index::INLINE_BYTES_MAX)
            } else {
                0
            },
            neighbourhood: self.neighbourhood,
            memory_bytes: (keys * (value_bytes as u64 + ENTRY_BYTES) * CACHE_ROOM).max(CACHE_BYTES_MIN),
            ..TableOptions::default()
        }
    }

    /// Whether values of this length can be kept so.
    pub(super) fn holds(&self, value_bytes: usize) -> bool {
        self.kind != Kind::Hopscotch || !self.inline || value_bytes <= barn_index::INLINE_BYTES_MAX as usize
    }
}

/// The node.
pub(super) struct Stores {
    node: BenchNode,
    barn: Barn,
}

impl Stores {
    /// Starts a node with so much memory that can be read as it is.
    pub(super) fn start(quick: bool, raw_bytes: u64) -> io::Result<Self> {
        let bytes = if quick { NODE_BYTES_QUICK } else { NODE_BYTES };
        let node = BenchNode::start(bytes, raw_bytes, None)?;
        let barn = Barn::connect(&node.address("shm")).map_err(io::Error::other)?;
        Ok(Self { node, barn })
    }

    /// A client's connection of its own.
    pub(super) fn connect(&self, transport: &str) -> io::Result<Barn> {
        Barn::connect(&self.node.address(transport)).map_err(io::Error::other)
    }

    /// Makes the table of a design, and fills it; it is called by the design's name.
    pub(super) fn fill(&self, design: Design, workload: &Workload, value_bytes: usize) -> io::Result<()> {
        let options = design.options(workload, workload.key(0).len(), value_bytes);
        let table = self.barn.create_table(design.name, options, 0).map_err(io::Error::other)?;
        let value = vec![0x5a; value_bytes];
        let all: Vec<u32> = (0..workload.count()).collect();
        for some in all.chunks(LOAD_BATCH) {
            let pairs: Vec<(&[u8], &[u8])> =
                some.iter().map(|number| (workload.key(*number), &value[..])).collect();
            table.put_many(&pairs).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Drops the table of a design.
    pub(super) fn drop(&self, design: Design) -> io::Result<()> {
        self.barn.drop_table(design.name).map_err(io::Error::other)
    }

    /// The table of a design, over a connection of its own. Requests over shm go by HERD's region.
    pub(super) fn open(&self, transport: &str, design: Design) -> io::Result<Table> {
        let messaging = match design.way {
            Way::Request if transport == "shm" => Messaging::RequestRegion { window: WINDOW },
            _ => Messaging::Ring,
        };
        let options = ConnectOptions { messaging, ..ConnectOptions::default() };
        let barn =
            Connect::new().fabric(options).to(&self.node.address(transport)).map_err(io::Error::other)?;
        Ok(barn.open_table(design.name).map_err(io::Error::other)?.read_by(design.way))
    }

    /// A connection of the fabric, and the memory that can be read as it is.
    pub(super) fn raw(&self, transport: &str) -> io::Result<(Connection, RemoteRegion)> {
        let connection = Connection::connect(&self.node.address(transport), ConnectOptions::default());
        let connection = connection.wait().map_err(io::Error::other)?;
        let region = connection.open(barn_server::RAW, Rights::READ).wait().map_err(io::Error::other)?;
        Ok((connection, region))
    }
}

/// Redis and memcached, on loopback.
#[derive(Default)]
pub(super) struct TcpStores {
    redis: Option<redis::Server>,
    memcached: Option<memcached::Server>,
    /// Those that are not there, and what brings them.
    pub(super) absent: Vec<String>,
}

impl TcpStores {
    /// Starts what is installed, with room for so many bytes of values.
    pub(super) fn start(bytes: u64) -> io::Result<Self> {
        let mut stores = Self::default();
        stores.redis = stores.or_absent(redis::Server::start())?;
        // It counts items of its own length; what it is given here is room in bytes.
        stores.memcached = stores.or_absent(memcached::Server::start(bytes / 80, false))?;
        Ok(stores)
    }

    fn or_absent<T>(&mut self, started: Result<T, PeerError>) -> io::Result<Option<T>> {
        match started {
            Ok(server) => Ok(Some(server)),
            Err(absent @ PeerError::Absent { .. }) => {
                self.absent.push(absent.to_string());
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fills both.
    pub(super) fn fill(&self, workload: &Workload, value_bytes: usize) -> io::Result<()> {
        let value = vec![0x5a; value_bytes];
        let all: Vec<u32> = (0..workload.count()).collect();
        if let Some(server) = &self.memcached {
            let mut wire = memcached::Wire::connect(&server.place, false)?;
            for some in all.chunks(LOAD_BATCH) {
                some.iter().for_each(|number| wire.set(workload.key(*number), &value));
                wire.flush()?;
            }
        }
        if let Some(server) = &self.redis {
            let mut wire = server.connect(false)?;
            for some in all.chunks(LOAD_BATCH) {
                some.iter().for_each(|number| wire.command(&[b"SET", workload.key(*number), &value]));
                wire.exchange(some.len(), |_, reply| {
                    reply.fails().map_or(Ok(()), |why| Err(redis::failed(why)))
                })?;
            }
        }
        Ok(())
    }

    /// Clients of Redis.
    pub(super) fn redis(&self, name: String, clients: usize, plan: &Plan) -> io::Result<Option<Crowd>> {
        let Some(server) = &self.redis else { return Ok(None) };
        let one = |number| -> io::Result<Box<dyn Client>> {
            let wire = redis::Wire::connect(&server.tcp, false)?;
            Ok(Box::new(OfRedis { wire, plan: plan.of_client(number) }))
        };
        Ok(Some(Crowd { name, clients: (0..clients).map(one).collect::<io::Result<_>>()? }))
    }

    /// Clients of memcached that ask for `batch` keys at once.
    pub(super) fn memcached(
        &self,
        name: String,
        clients: usize,
        plan: &Plan,
        batch: usize,
    ) -> io::Result<Option<Crowd>> {
        let Some(server) = &self.memcached else { return Ok(None) };
        let one = |number| -> io::Result<Box<dyn Client>> {
            let wire = memcached::Wire::connect(&server.place, false)?;
            Ok(Box::new(OfMemcached { wire, plan: plan.of_client(number), batch }))
        };
        Ok(Some(Crowd { name, clients: (0..clients).map(one).collect::<io::Result<_>>()? }))
    }
}

/// Keys of the figures: 16 bytes, all with the same chance.
pub(super) fn uniform(keys: u32) -> Arc<Workload> {
    Workload::new(keys, 16, crate::bench::get::cell::Choice::Uniform)
}
