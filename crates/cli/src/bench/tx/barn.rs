//! Barn as what is measured: embedded, over shm and over tcp, on one node and on two.

use std::io;
use std::sync::Arc;

use barn::node::NodeConfig;
use barn::{Barn, ClientStats, Pointer};

use super::runner::Contender;
use super::subject::{Counters, Subject};
use crate::bench::node::BenchNode;

/// Bytes of an object, as the peers' values.
const OBJECT_BYTES: usize = 64;
/// Objects that one loading transaction makes.
const LOADED_AT_ONCE: usize = 1000;

/// Nodes that are measured, gone with this.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: Vec<BenchNode>,
    embedded: Vec<Barn>,
}

/// A client, and the objects that all clients of a place share.
struct BarnSubject {
    barn: Barn,
    objects: Arc<Vec<Pointer>>,
}

fn failed(error: barn::Error) -> io::Error {
    io::Error::other(error)
}

impl Subject for BarnSubject {
    fn rmw_2(&mut self, i: u32, j: u32) -> io::Result<()> {
        let objects = [self.objects[i as usize], self.objects[j as usize]];
        self.barn
            .transaction(|tx| {
                for pointer in objects {
                    let mut body = [0; OBJECT_BYTES];
                    body.copy_from_slice(tx.read(pointer)?);
                    let count = counter(&body) + 1;
                    body[..8].copy_from_slice(&count.to_le_bytes());
                    tx.write(pointer, &body)?;
                }
                Ok(())
            })
            .map_err(failed)
    }

    fn read_4(&mut self, at: [u32; 4]) -> io::Result<u64> {
        let objects = at.map(|at| self.objects[at as usize]);
        self.barn
            .transaction(|tx| {
                let mut sum = 0;
                for pointer in objects {
                    sum += counter(tx.read(pointer)?);
                }
                Ok(sum)
            })
            .map_err(failed)
    }

    fn counters(&self) -> Counters {
        let stats = self.barn.client().stats();
        Counters {
            aborts: ClientStats::get(&stats.conflicts),
            messages: ClientStats::get(&stats.messages),
            reads: ClientStats::get(&stats.reads),
            version_reads: ClientStats::get(&stats.version_reads),
        }
    }
}

/// An object's counter: its first eight bytes.
fn counter(body: &[u8]) -> u64 {
    body.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Makes the objects, each in turn on the next node where there are several.
fn load(barn: &Barn, objects: u32) -> Result<Arc<Vec<Pointer>>, barn::Error> {
    let bodies = [&[0u8; OBJECT_BYTES][..]; LOADED_AT_ONCE];
    let (mut batches, mut loaded) = (Vec::new(), 0);
    while loaded < objects as usize {
        let count = LOADED_AT_ONCE.min(objects as usize - loaded);
        batches.push(barn.transaction(|tx| tx.alloc_array(&bodies[..count], None))?);
        loaded += count;
    }
    // Batches go to the nodes in turn; their elements are dealt out again so that the hot objects,
    // which are the first ones, are spread over the nodes as well.
    let longest = batches.iter().map(Vec::len).max().unwrap_or(0);
    let dealt = (0..longest).flat_map(|at| batches.iter().filter_map(move |batch| batch.get(at).copied()));
    Ok(Arc::new(dealt.collect()))
}

/// Clients of the data that is reached at `address`.
fn contender(name: &str, address: &str, objects: u32, clients: u32) -> io::Result<Contender> {
    let first = Barn::connect(address).map_err(failed)?;
    let objects = load(&first, objects).map_err(failed)?;
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for _ in 0..clients {
        let barn = Barn::connect(address).map_err(failed)?;
        subjects.push(Box::new(BarnSubject { barn, objects: objects.clone() }));
    }
    Ok(Contender { name: name.to_string(), clients: subjects })
}

impl Nodes {
    /// Starts what the rows need, with so many objects in each place.
    pub(super) fn start(
        objects: u32,
        clients: u32,
        wants: impl Fn(&str) -> bool,
    ) -> io::Result<(Self, Vec<Contender>)> {
        let mut nodes = Self::default();
        let mut contenders = Vec::new();
        let memory = u64::from(objects) * 128 * 3 + (64 << 20);
        if wants("embedded/single-node") {
            let config = NodeConfig::embedded().memory(memory);
            let barn = Barn::embedded_with(config).map_err(failed)?;
            let address = barn.address().unwrap_or_default();
            contenders.push(contender("embedded/single-node", &address, objects, clients)?);
            nodes.embedded.push(barn);
        }
        for transport in ["shm", "tcp"] {
            let name = format!("{transport}/single-node");
            if wants(&name) {
                let node = BenchNode::start(memory, 0, None)?;
                contenders.push(contender(&name, &node.address(transport), objects, clients)?);
                nodes.nodes.push(node);
            }
        }
        for transport in ["shm", "tcp"] {
            let name = format!("{transport}/two-node");
            if wants(&name) {
                let first = BenchNode::start(memory, 0, None)?;
                let second = BenchNode::start(memory, 0, Some(&first.address("shm")))?;
                contenders.push(contender(&name, &first.address(transport), objects, clients)?);
                nodes.nodes.extend([second, first]);
            }
        }
        Ok((nodes, contenders))
    }
}
