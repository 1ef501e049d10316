//! `barn bench get`: GETs of a table, beside the limit of the same memory, a map in the client's own
//! process, Redis and memcached.
//!
//! | row | ours | beside |
//! |---|---|---|
//! | `shm/one-sided/CHOICE/batch-N` | the client reads the table's memory | bare loads of 64 bytes from as much memory |
//! | `…/against-best-peer` | the same, and `shm/request`: the node is asked | Redis or memcached on a Unix socket, as deep |
//! | `…/batch-32/against-flat` | the same | a table of whole lines in the client's own process, nothing else |
//! | `flat/CHOICE/batch-32` | that table | bare loads of 64 bytes |
//! | `…/against-dashmap` | the same | dashmap with ahash, in the client's own process |
//! | `tcp/auto/CHOICE/depth-N/against-best-peer` | either way, over tcp | Redis or memcached over tcp, as deep |
//! | `tcp/auto/CHOICE/depth-N/server-cpu` | the node's CPU for a million GETs | that of the peer that needs least |
//!
//! CHOICE is `uniform` or `zipf` (0.99, scattered). Keys have 16 bytes, values 32; a key that is not
//! found is an error, and values are verified. Node, peers and clients are processes of their own; a
//! row that ends in `clients-N` was measured with so many of the latter. `--transport verbs` has rows of
//! its own (`bench/verbs/`).

use std::io;
use std::time::Duration;

use barn::Kind;

use crate::bench::at::At;
use crate::bench::timing::Effort;
use crate::progress::Progress;
use crate::report::{Report, Row};

pub(crate) mod cell;
mod crew;
mod getter;
mod rows;
mod servers;
#[cfg(test)]
mod tests;
pub(crate) mod worker;
pub(crate) mod workload;

use cell::{Cell, Choice};
use crew::Crew;
use rows::Results;
use servers::{Servers, TABLE};
use worker::Setup;

const KEYS: u32 = 10_000_000;
const KEYS_QUICK: u32 = 1_000_000;
/// Keys chosen in advance: more than a window asks for, or nearly.
const DRAWS: usize = 1 << 22;
const DRAWS_QUICK: usize = 1 << 20;
/// The same keys are asked for in every run.
const SEED: u64 = 0xBA7;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// verbs: GETs of hopscotch and cuckoo tables over RDMA, one at a time, instead of all else.
    #[arg(long, value_parser = ["verbs"])]
    pub transport: Option<String>,

    /// Which node, over verbs.
    #[command(flatten)]
    pub at: At,

    /// Keys in the table [default: 10000000; 1000000 with --quick; 10000 over verbs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub keys: Option<u32>,

    /// Client processes: all is measured with one, and again with so many.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,

    /// The table's design: hopscotch, cuckoo, cache or tree.
    #[arg(long, value_name = "KIND", default_value_t = Kind::Hopscotch)]
    pub kind: Kind,

    /// Only rows whose name contains this, such as `uniform/batch-32` or `tcp`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Let the peers' clients spin while they wait, as ours do over shm, rather than sleep.
    #[arg(long)]
    pub peers_spin: bool,

    /// Fewer keys, and fewer and shorter repeats.
    #[arg(long)]
    pub quick: bool,
}

#[cfg(feature = "verbs")]
fn verbs(args: &Args) -> io::Result<Report> {
    crate::bench::verbs::get::run(&args.at, args.keys, &args.rows, args.quick)
}

#[cfg(not(feature = "verbs"))]
fn verbs(_: &Args) -> io::Result<Report> {
    Err(crate::bench::at::without_verbs())
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    if args.transport.is_some() {
        return verbs(args);
    }
    let (effort, keys, draws) = if args.quick {
        (Effort { slice: Duration::from_millis(50), repeats: 3 }, KEYS_QUICK, DRAWS_QUICK)
    } else {
        (Effort { slice: Duration::from_millis(200), repeats: 7 }, KEYS, DRAWS)
    };
    let keys = args.keys.unwrap_or(keys);
    let clients = args.clients as usize;
    let counts: &[usize] = if clients == 1 { &[1] } else { &[1, clients] };
    let mut report = Report::new("get");
    let mut progress = Progress::new(4 + 2 * counts.len() as u64);
    let servers = Servers::start(args.kind, keys, &mut progress)?;
    progress.step("starting clients");
    let setup = Setup {
        keys,
        draws,
        seed: SEED,
        table: TABLE.to_owned(),
        shm: servers.node.address("shm"),
        tcp: servers.node.address("tcp"),
        limit: servers.limit.address("shm"),
        limit_bytes: servers.limit_bytes as u32,
        peers: servers.peers(),
        spin: args.peers_spin,
    };
    let mut crew = Crew::start(clients, &setup)?;
    for choice in [Choice::Uniform, Choice::Zipf] {
        for clients in counts {
            let cells = Cell::all(choice, |subject| servers.has(subject));
            let cells = rows::needed(*clients, &cells, &args.rows);
            progress.show(&format!("{choice}, {clients} clients"));
            let measured = crew.in_turn(effort, *clients, &cells, &servers)?;
            let results = Results { clients: *clients, measured: &measured };
            let said = |row: Row| {
                row.with("keys", keys)
                    .with("kind", args.kind.to_string())
                    .with("table_bytes", servers.table_bytes)
            };
            let wanted = results.rows().into_iter().filter(|row| row.name.contains(&args.rows));
            report.rows.extend(wanted.map(said));
            progress.step(&format!("{choice}, {clients} clients"));
        }
    }
    report.rows.extend(servers.absent.rows());
    Ok(report)
}
