//! Barn as what is measured: embedded, over shm and over tcp, on one node and on two.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use barn::node::NodeConfig;
use barn::{Barn, Client, ClientError, ClientStats, Pointer, RunError, RunOptions, Transaction};
use barn_fabric::Pipeline;

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
    /// Transactions under way at once.
    window: usize,
}

/// Transactions that a pipelined client has under way.
const WINDOW: usize = 16;
/// Of so many, one is timed.
const SAMPLE_EVERY: usize = 16;

/// Adds one to the counters of two objects, as a future.
async fn add_to_both(client: &Client, objects: [Pointer; 2]) -> Result<(), RunError<ClientError>> {
    client
        .run(RunOptions::default(), async |tx: &mut Transaction| {
            tx.fetch(&objects).await?;
            for pointer in objects {
                let mut body = [0; OBJECT_BYTES];
                body.copy_from_slice(tx.read(pointer).await?);
                let count = counter(&body) + 1;
                body[..8].copy_from_slice(&count.to_le_bytes());
                tx.write(pointer, &body).await?;
            }
            Ok::<(), ClientError>(())
        })
        .await
}

fn failed(error: barn::Error) -> io::Error {
    io::Error::other(error)
}

impl Subject for BarnSubject {
    fn rmw_2(&mut self, i: u32, j: u32) -> io::Result<()> {
        let objects = [self.objects[i as usize], self.objects[j as usize]];
        self.barn
            .transaction(|tx| {
                tx.fetch(&objects)?;
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
                tx.fetch(&objects)?;
                let mut sum = 0;
                for pointer in objects {
                    sum += counter(tx.read(pointer)?);
                }
                Ok(sum)
            })
            .map_err(failed)
    }

    fn rmw_2_pipelined(&mut self, pairs: &[(u32, u32)], latencies_ns: &mut Vec<u64>) -> io::Result<()> {
        let (client, objects) = (self.barn.client(), &self.objects);
        let transactions = pairs.iter().enumerate().map(|(at, (i, j))| async move {
            let start = at.is_multiple_of(SAMPLE_EVERY).then(Instant::now);
            let done = add_to_both(client, [objects[*i as usize], objects[*j as usize]]).await;
            done.map(|()| start.map(|start| start.elapsed().as_nanos() as u64))
        });
        let mut failed = None;
        Pipeline::new(self.window).run(transactions, |done| match done {
            Ok(latency) => latencies_ns.extend(latency),
            Err(error) => failed = Some(error),
        });
        failed.map_or(Ok(()), |error| Err(io::Error::other(error.to_string())))
    }

    fn window(&self) -> usize {
        self.window
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

/// Clients of the data that is reached at `address`: those that have one transaction under way, and
/// those that have several.
fn contenders_of(name: &str, address: &str, objects: u32, clients: u32) -> io::Result<[Contender; 2]> {
    let first = Barn::connect(address).map_err(failed)?;
    let objects = load(&first, objects).map_err(failed)?;
    let make = |name: String, window: usize| -> io::Result<Contender> {
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        for _ in 0..clients {
            let barn = Barn::connect(address).map_err(failed)?;
            subjects.push(Box::new(BarnSubject { barn, objects: objects.clone(), window }));
        }
        Ok(Contender { name, clients: subjects })
    };
    Ok([make(name.to_string(), 1)?, make(name.to_string(), WINDOW)?])
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
            contenders.extend(contenders_of("embedded/single-node", &address, objects, clients)?);
            nodes.embedded.push(barn);
        }
        for transport in ["shm", "tcp"] {
            let name = format!("{transport}/single-node");
            if wants(&name) {
                let node = BenchNode::start(memory, 0, None)?;
                contenders.extend(contenders_of(&name, &node.address(transport), objects, clients)?);
                nodes.nodes.push(node);
            }
        }
        for transport in ["shm", "tcp"] {
            let name = format!("{transport}/two-node");
            if wants(&name) {
                let first = BenchNode::start(memory, 0, None)?;
                let second = BenchNode::start(memory, 0, Some(&first.address("shm")))?;
                contenders.extend(contenders_of(&name, &first.address(transport), objects, clients)?);
                nodes.nodes.extend([second, first]);
            }
        }
        Ok((nodes, contenders))
    }
}
