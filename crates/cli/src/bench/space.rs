//! `barn bench space`: the bytes of spaces beside the limits of the same memory and sockets (RStore section IV).
//!
//! | row | ours | beside |
//! |---|---|---|
//! | `shm/read-8/latency`, `tcp/read-8/latency` | dependent reads of 8 bytes through a mapping | the same as bare READs of the fabric |
//! | `shm/read-large/bandwidth`, `shm/write-large/bandwidth`, `…/N-nodes` | one call over chunks at 1 or N nodes | memcpy of as much |
//! | `tcp/read-large/bandwidth`, `tcp/write-large/bandwidth`, `…/N-nodes` | the same over tcp | a bare socket that answers with 1 MiB, four on their way, from as much memory into as much |
//! | `control/reserve-…`, `control/map-…` | memory prepared, memory mapped, cold and again | mmap of as much, faulted in |
//! | `control/clients-N` | N clients that reserve, alloc and map at once | one of them alone |

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use barn::Barn;
use barn::space::{Mapping, Role, Space};
use barn_fabric::region::bare::{chase_next, chase_place};
use barn_fabric::{ConnectOptions, Connection, Region, RegionOptions, Rights};

use crate::bench::fabric::bare_tcp::{BareTcp, Ends};
use crate::bench::node::BenchNode;
use crate::bench::timing::{Effort, in_turn};
use crate::bytes::human;
use crate::progress::Progress;
use crate::report::{Better, Report, Row};

/// What one node holds in a row: small, so that a large read touches every node several times.
const CHUNK_BYTES: u64 = 4 << 20;
/// A piece of the bare socket's.
const PIECE_BYTES: usize = 1 << 20;
/// What small reads are spread over.
const SMALL_BYTES: u64 = 64 << 20;
/// How many nodes.
const NODES: [usize; 3] = [1, 2, 4];
/// How many clients at once.
const CLIENTS: [usize; 3] = [1, 4, 16];

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only rows whose name contains this, such as `shm/` or `control/`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Fewer and shorter repeats, and less memory.
    #[arg(long)]
    pub quick: bool,
}

struct Bench<'a> {
    args: &'a Args,
    effort: Effort,
    report: Report,
    progress: Progress,
}

impl Bench<'_> {
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.args.rows)
    }

    fn row(&mut self, row: Row) {
        self.progress.step(&row.name);
        self.report.push(row);
    }
}

fn failed(error: barn::Error) -> io::Error {
    io::Error::other(error)
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    let (effort, large, most) = match args.quick {
        true => (Effort { slice: Duration::from_millis(20), repeats: 3 }, 16 << 20, 256 << 20),
        false => (Effort { slice: Duration::from_millis(200), repeats: 7 }, 64 << 20, 1 << 30),
    };
    let rows = 2 + 4 * NODES.len() + 8 + CLIENTS.len();
    let mut bench =
        Bench { args, effort, report: Report::new("space"), progress: Progress::new(rows as u64) };
    small(&mut bench)?;
    for nodes in NODES {
        let wanted = ["shm/read", "shm/write", "tcp/read", "tcp/write"];
        if wanted.iter().any(|start| bench.wants(&large_name(start, nodes))) {
            bulk(&mut bench, nodes, large)?;
        }
    }
    if bench.wants("control/reserve") || bench.wants("control/map") {
        for bytes in [most / 4, most] {
            setup(&mut bench, bytes)?;
        }
    }
    if bench.wants("control/clients") {
        clients(&mut bench, most / 16)?;
    }
    Ok(bench.report)
}

/// A range of so many bytes in a space of its own, over all that the nodes have.
fn range(barn: &Barn, name: &str, bytes: u64) -> io::Result<(Space, barn::space::Range)> {
    let (space, _) = barn.spaces().create_with(name, CHUNK_BYTES, Role::Nobody).map_err(failed)?;
    let begun = Instant::now();
    // A node that has just started may not have heard of the master yet.
    while let Err(error) = space.reserve(bytes) {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(failed(error));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let range = space.alloc(bytes).map_err(failed)?;
    Ok((space, range))
}

/// Dependent reads of 8 bytes.
fn small(bench: &mut Bench<'_>) -> io::Result<()> {
    let wanted: Vec<&str> = ["shm", "tcp"]
        .into_iter()
        .filter(|transport| bench.wants(&format!("{transport}/read-8/latency")))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let node = BenchNode::start_for_spaces(2 * SMALL_BYTES, SMALL_BYTES, None)?;
    for transport in wanted {
        let barn = Barn::connect(&node.address(transport)).map_err(failed)?;
        let (space, range) = range(&barn, transport, SMALL_BYTES)?;
        let mapping = range.map().map_err(failed)?;
        let connection = Connection::connect(&node.address(transport), ConnectOptions::default());
        let connection = connection.wait().map_err(io::Error::other)?;
        let region = connection.open(barn_server::RAW, Rights::READ).wait().map_err(io::Error::other)?;
        let (ours, theirs) = in_turn(
            bench.effort,
            |count| chase(count, |offset, into| mapping.read(offset, into).is_ok()),
            |count| chase(count, |offset, into| region.read(offset, into).wait().is_ok()),
        );
        let row = Row::nanoseconds(format!("{transport}/read-8/latency"), &ours).beside("bare READ", &theirs);
        bench.row(row.with("transport", transport).with("bytes", 8));
        drop((mapping, range));
        space.delete().map_err(failed)?;
    }
    Ok(())
}

/// Reads 8 bytes at a time; where the next are follows from what the last were.
fn chase(count: usize, read: impl Fn(u64, &mut [u8]) -> bool) {
    let (mut at, mut into) = (7, [0; 8]);
    for _ in 0..count {
        assert!(read(chase_place(at, SMALL_BYTES / 8) * 8, &mut into), "the node is there");
        at = chase_next(at, u64::from_le_bytes(into));
    }
    black_box(at);
}

/// The name of a row of large transfers over so many nodes.
fn large_name(start: &str, nodes: usize) -> String {
    match nodes {
        1 => format!("{start}-large/bandwidth"),
        _ => format!("{start}-large/bandwidth/{nodes}-nodes"),
    }
}

/// Reads and writes of many chunks at once.
fn bulk(bench: &mut Bench<'_>, count: usize, bytes: u64) -> io::Result<()> {
    // No node can hold more than its share: the range is at all of them.
    let share = bytes.div_ceil(count as u64).next_multiple_of(CHUNK_BYTES);
    let first = BenchNode::start_for_spaces(share, 0, None)?;
    let mut nodes = Vec::new();
    for _ in 1..count {
        nodes.push(BenchNode::start_for_spaces(share, 0, Some(&first.address("shm")))?);
    }
    let mut mine = vec![1u8; bytes as usize];
    for transport in ["shm", "tcp"] {
        let barn = Barn::connect(&first.address(transport)).map_err(failed)?;
        let (space, range) = range(&barn, transport, share * count as u64)?;
        let mapping = range.map().map_err(failed)?;
        for write in [false, true] {
            let name = large_name(&format!("{transport}/{}", if write { "write" } else { "read" }), count);
            if bench.wants(&name) {
                let row = one_bulk(bench, name, &mapping, &mut mine, write)?;
                bench.row(row.with("transport", transport).with("nodes", range.nodes()).with("bytes", bytes));
            }
        }
        drop((mapping, range));
        space.delete().map_err(failed)?;
    }
    Ok(())
}

fn one_bulk(
    bench: &Bench<'_>,
    name: String,
    mapping: &Mapping,
    mine: &mut [u8],
    write: bool,
) -> io::Result<Row> {
    let bytes = mine.len();
    let ours = |count: usize| {
        for _ in 0..count {
            let moved = if write { mapping.write(0, mine) } else { mapping.read(0, mine) };
            moved.expect("the nodes are there");
        }
    };
    let (ours, theirs, beside) = if mapping.is_local() {
        let (from, mut into) = (vec![1u8; bytes], vec![0u8; bytes]);
        let theirs = |count| {
            for _ in 0..count {
                into.copy_from_slice(black_box(&from));
                black_box(&into);
            }
        };
        let (ours, theirs) = in_turn(bench.effort, ours, theirs);
        (ours, theirs, "memcpy")
    } else {
        let mut bare = BareTcp::start_over(Ends::Block, 40, PIECE_BYTES, bytes)?;
        let theirs = |count| bare.round_trips(count * bytes / PIECE_BYTES, 4);
        let (ours, theirs) = in_turn(bench.effort, ours, theirs);
        (ours, theirs, "bare socket, memory to memory")
    };
    // Gigabytes a second are bytes a nanosecond.
    let rate = |samples: &[f64]| samples.iter().map(|each| bytes as f64 / each).collect::<Vec<_>>();
    Ok(Row::new(name, "GB/s", Better::Higher, &rate(&ours)).beside(beside, &rate(&theirs)).aim(0.9))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Reserving and mapping so much: for the first time, and again.
fn setup(bench: &mut Bench<'_>, bytes: u64) -> io::Result<()> {
    let (mut rows, mut bare) = ([const { Vec::new() }; 4], Vec::new());
    for _ in 0..bench.effort.repeats.min(5) {
        // A node of its own: what was reserved once is kept for the next who asks.
        let node = BenchNode::start_for_spaces(bytes, 0, None)?;
        let barn = Barn::connect(&node.address("shm")).map_err(failed)?;
        let made = barn.spaces().create_with("setup", CHUNK_BYTES, Role::Nobody);
        let (space, _) = made.map_err(failed)?;
        let begun = Instant::now();
        space.reserve(bytes).map_err(failed)?;
        rows[0].push(milliseconds(begun));
        space.release(bytes).map_err(failed)?;
        let begun = Instant::now();
        space.reserve(bytes).map_err(failed)?;
        rows[1].push(milliseconds(begun));
        let range = space.alloc(bytes).map_err(failed)?;
        for row in [2, 3] {
            let begun = Instant::now();
            let mapping = range.map().map_err(failed)?;
            rows[row].push(milliseconds(begun));
            drop(mapping);
        }
        let begun = Instant::now();
        let region = Region::allocate(&RegionOptions::writable(bytes)).map_err(io::Error::other)?;
        bare.push(milliseconds(begun));
        drop(region);
    }
    let size = human(bytes).replace(' ', "");
    for (what, samples) in ["reserve-cold", "reserve-cached", "map-cold", "map-cached"].into_iter().zip(&rows)
    {
        let name = format!("control/{what}/{size}");
        if bench.wants(&name) {
            let row = Row::new(name, "ms", Better::Lower, samples).beside("mmap, faulted in", &bare);
            bench.row(row.with("bytes", bytes));
        }
    }
    Ok(())
}

/// Clients that set a range up at the same time.
fn clients(bench: &mut Bench<'_>, bytes: u64) -> io::Result<()> {
    let node = BenchNode::start_for_spaces(bytes * *CLIENTS.last().unwrap_or(&1) as u64, 0, None)?;
    let mut alone = Vec::new();
    for count in CLIENTS {
        let mut samples = Vec::new();
        for _ in 0..bench.effort.repeats {
            let barns: Result<Vec<Barn>, _> =
                (0..count).map(|_| Barn::connect(&node.address("shm"))).collect();
            let barns = barns.map_err(failed)?;
            let begun = Instant::now();
            let done: Vec<io::Result<()>> = std::thread::scope(|scope| {
                let set_up = |(number, barn): (usize, &Barn)| {
                    let (space, range) = range(barn, &format!("client-{number}"), bytes)?;
                    drop(range.map().map_err(failed)?);
                    drop(range);
                    space.delete().map_err(failed)
                };
                let threads: Vec<_> =
                    barns.iter().enumerate().map(|client| scope.spawn(move || set_up(client))).collect();
                threads.into_iter().map(|thread| thread.join().expect("no client panics")).collect()
            });
            samples.push(milliseconds(begun));
            done.into_iter().collect::<io::Result<()>>()?;
        }
        if count == 1 {
            alone.clone_from(&samples);
        }
        let row = Row::new(format!("control/clients-{count}"), "ms", Better::Lower, &samples);
        bench.row(row.beside("one client", &alone).with("bytes", bytes).with("clients", count));
    }
    Ok(())
}
