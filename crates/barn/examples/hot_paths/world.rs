//! What the paths run on: a node in memory only and one with a log, each turned by hand, and their clients.
//!
//! Everything that is done once (connecting, opening regions, learning where tables are) is done here, so
//! that the paths do only what they repeat.

use barn::node::{ByHand, Node, NodeConfig};
use barn::space::{Mapping, Role};
use barn::{Barn, Durability, Found, Kind, Pointer, Table, TableOptions, Way};
use barn_fabric::{
    ConnectOptions, Connection, Region, RegionId, RegionOptions, Registry, RemoteRegion, Rights,
};
use std::path::PathBuf;
use std::time::Duration;

/// Keys of each table: several segments of buckets, and loaded soon enough under valgrind.
pub(crate) const KEYS: u64 = 8192;
/// Objects for transactions and reads.
const OBJECTS: usize = 512;
/// A lease that is renewed by nobody while we count: valgrind is fifty times slower than the machine.
const LEASE: Duration = Duration::from_secs(3600);
/// The region of bare READs: a number that no cluster gives out here.
const BARE: RegionId = RegionId(0x7fff_0000);
const BARE_BYTES: u64 = 2 << 20;
const CHUNK_BYTES: u64 = 1 << 20;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// The key of a number: 16 bytes, as FaRM and HERD have it.
pub(crate) fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:............";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A node, its poll loop, and a client of it.
pub(crate) struct Side {
    pub(crate) turned: ByHand,
    pub(crate) barn: Barn,
    pub(crate) table: Table,
    pub(crate) objects: Vec<Pointer>,
    node: Node,
}

/// Everything.
pub(crate) struct World {
    pub(crate) memory: Side,
    pub(crate) logged: Side,
    pub(crate) cuckoo: Table,
    pub(crate) cache: Table,
    /// The first two over tcp, where a lookup is a READ or two as with a device.
    pub(crate) afar: [Table; 2],
    /// Bare memory, over shm and over tcp.
    pub(crate) mapped: RemoteRegion,
    pub(crate) posted: RemoteRegion,
    pub(crate) space: Mapping,
    directory: PathBuf,
}

impl Side {
    /// Starts a node; `rest` does what else is to be done while it runs by itself.
    fn new<T>(
        config: NodeConfig,
        rest: impl FnOnce(&Barn, &Node) -> Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
        let mut node = Node::start(NodeConfig { lease: LEASE, ..config })?;
        let barn = Barn::connect(&node.address().ok_or("the node listens nowhere")?)?;
        let table = filled(&barn, "hopscotch", Kind::Hopscotch, None)?;
        let objects = barn.transaction(|tx| tx.alloc_array(&[&[7u8; 64][..]; OBJECTS], None))?;
        barn.read(objects[0])?;
        barn.write(objects[0], &[7; 64])?;
        let rest = rest(&barn, &node)?;
        let turned = node.by_hand()?;
        Ok((Self { turned, barn, table, objects, node }, rest))
    }
}

/// A table with keys 0 to `KEYS`, of which one has been read: what is done once is done.
fn filled(barn: &Barn, name: &str, kind: Kind, durability: Option<Durability>) -> Result<Table, Failure> {
    let options = TableOptions {
        kind,
        capacity: KEYS,
        inline_bytes: 32,
        memory_bytes: 4 << 20,
        seed: 0xba24,
        durability,
        ..TableOptions::default()
    };
    let table = barn.create_table(name, options, 1)?.read_by(Way::OneSided);
    let names: Vec<[u8; 16]> = (0..KEYS).map(key).collect();
    for names in names.chunks(512) {
        let pairs: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &[7u8; 32][..])).collect();
        table.put_many(&pairs)?;
    }
    let mut found = Found::default();
    for way in [Way::OneSided, Way::Request] {
        assert!(table.read_by(way).find_into(&key(0), &mut found)?, "key 0 was put");
    }
    table.put(&key(0), &[7; 32])?;
    Ok(table)
}

/// A table that is there, of which one key has been read.
fn read_once(barn: &Barn, name: &str) -> Result<Table, Failure> {
    let table = barn.table(name)?.read_by(Way::OneSided);
    assert!(table.find_into(&key(0), &mut Found::default())?, "key 0 was put");
    Ok(table)
}

/// Opens the bare region over a transport.
fn bare(address: &str) -> Result<RemoteRegion, Failure> {
    let connection = Connection::connect(address, ConnectOptions::default()).wait()?;
    let region = connection.open(BARE, Rights::READ).wait()?;
    region.read(0, &mut [0; 64]).wait()?;
    Ok(region)
}

impl World {
    pub(crate) fn new() -> Result<Self, Failure> {
        let registry = Registry::default();
        let options = RegionOptions { bytes: BARE_BYTES, remote: Rights::READ, huge: false };
        registry.register(BARE, Region::allocate(&options)?, Rights::READ)?;
        let config = NodeConfig {
            tcp: Some("127.0.0.1:0".parse()?),
            registry: Some(registry),
            ..NodeConfig::embedded().space_memory(4 * CHUNK_BYTES)
        };
        let (memory, (cuckoo, cache, afar, mapped, posted, space)) = Side::new(config, |barn, node| {
            let cuckoo = filled(barn, "cuckoo", Kind::Cuckoo, None)?;
            let cache = filled(barn, "cache", Kind::Cache, None)?;
            let mapped = bare(&node.address().ok_or("no socket")?)?;
            let tcp = format!("tcp://{}", node.tcp_address().ok_or("no port")?);
            let posted = bare(&tcp)?;
            let over_tcp = Barn::connect(&tcp)?;
            let afar = [read_once(&over_tcp, "hopscotch")?, read_once(&over_tcp, "cuckoo")?];
            let (space, _) = barn.spaces().create_with("space", CHUNK_BYTES, Role::Nobody)?;
            space.reserve(CHUNK_BYTES)?;
            let space = space.alloc(CHUNK_BYTES)?.map()?;
            space.read(0, &mut [0; 8])?;
            Ok((cuckoo, cache, afar, mapped, posted, space))
        })?;
        let directory = std::env::temp_dir().join(format!("barn-hot-paths-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        let config = NodeConfig { data: Some(directory.clone()), ..NodeConfig::embedded() };
        let (logged, ()) = Side::new(config, |_, _| Ok(()))?;
        Ok(Self { memory, logged, cuckoo, cache, afar, mapped, posted, space, directory })
    }

    /// Ends it: what clients would still tell their nodes, nobody would hear.
    pub(crate) fn end(self) -> Result<(), Failure> {
        for side in [&self.memory, &self.logged] {
            if let Some(directory) = side.node.shm_path().and_then(|path| path.parent()) {
                std::fs::remove_dir_all(directory)?;
            }
        }
        std::fs::remove_dir_all(&self.directory)?;
        std::process::exit(0);
    }
}
