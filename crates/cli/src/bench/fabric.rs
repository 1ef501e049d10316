//! `barn bench fabric`: READs and calls beside the limits of the same memory and sockets.
//!
//! | row | ours | beside |
//! |---|---|---|
//! | `shm/read-N/blocking` | dependent READs at random places | dependent bare loads through the same mapping |
//! | `shm/read-N/pipelined` | READs, many at once on one thread (`read_many`) | bare loads, prefetched |
//! | `…/read-64/futures` | the same READs as futures in a `Pipeline` | many at once |
//! | `tcp/read-N/…` | the same over tcp | a bare socket that answers with N bytes |
//! | `shm/rpc/…` | calls of 32 bytes | one cache line there and back; a bare ring |
//! | `tcp/rpc/round-trip` | a call of 32 bytes | a bare socket echo whose ends spin |
//! | `tcp/rpc/window-N` | calls of 32 bytes | a bare socket echo whose ends block; spinning ends in `…/against-spinning` |
//!
//! READs of 64 KiB and 1 MiB stand beside a memcpy of as much private memory. `--transport verbs` has rows
//! of its own (`bench/verbs/`).

use std::io;
use std::time::Duration;

use barn_fabric::{ConnectOptions, Connection, RegionId, RemoteRegion, Rights};

use crate::bench::at::At;
use crate::bench::node::BenchNode;
use crate::bench::timing::{Effort, pin};
use crate::bytes::Bytes;
use crate::progress::Progress;
use crate::report::{Report, Row};

mod bare_ring;
pub(crate) mod bare_tcp;
mod read;
mod rpc;

/// The core of the client; the node is on the other one.
const CLIENT_CORE: usize = 0;
/// The first data region of a node.
const DATA: RegionId = barn_server::RAW;
/// How far a bare loop prefetches: what is best for it here.
pub(crate) const BARE_AHEAD: usize = 16;
/// READ sizes.
const SIZES: [usize; 5] = [8, 64, 1 << 10, 64 << 10, 1 << 20];
/// Windows of calls; 1 is the round trip.
const WINDOWS: [usize; 3] = [1, 16, 64];

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this transport; shm and tcp if nobody says. verbs needs RDMA devices.
    #[arg(long, value_parser = ["shm", "tcp", "verbs"])]
    pub transport: Option<String>,

    /// Which node, over verbs.
    #[command(flatten)]
    pub at: At,

    /// Bytes of memory to read at random.
    #[arg(long, value_name = "BYTES", default_value = "1GiB")]
    pub memory: Bytes,

    /// Only rows whose name contains this, such as `rpc` or `read-64/`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Fewer and shorter repeats.
    #[arg(long)]
    pub quick: bool,
}

/// What every measurement needs.
pub(crate) struct Bench {
    pub(crate) node: BenchNode,
    pub(crate) effort: Effort,
    rows: String,
    pub(crate) report: Report,
    pub(crate) progress: Progress,
}

impl Bench {
    /// Connects, and opens the data region.
    pub(crate) fn connect(&self, transport: &str) -> io::Result<(Connection, RemoteRegion)> {
        let address = self.node.address(transport);
        let connection =
            Connection::connect(&address, ConnectOptions::default()).wait().map_err(io::Error::other)?;
        let region = connection.open(DATA, Rights::READ).wait().map_err(io::Error::other)?;
        Ok((connection, region))
    }

    /// Whether a row was asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        name.contains(&self.rows)
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, row: Row) {
        self.progress.step(&row.name);
        self.report.push(row);
    }
}

#[cfg(feature = "verbs")]
fn verbs(args: &Args) -> io::Result<Report> {
    crate::bench::verbs::fabric::run(&args.at, &args.rows, args.quick)
}

#[cfg(not(feature = "verbs"))]
fn verbs(_: &Args) -> io::Result<Report> {
    Err(crate::bench::at::without_verbs())
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    if args.transport.as_deref() == Some("verbs") {
        return verbs(args);
    }
    let (effort, memory) = if args.quick {
        (Effort { slice: Duration::from_millis(20), repeats: 3 }, args.memory.0.min(256 << 20))
    } else {
        (Effort { slice: Duration::from_millis(100), repeats: 7 }, args.memory.0)
    };
    if !(16 << 20..=2 << 30).contains(&memory) {
        return Err(io::Error::other("--memory takes 16MiB to 2GiB"));
    }
    let transports: Vec<&str> = ["shm", "tcp"]
        .into_iter()
        .filter(|name| args.transport.as_deref().is_none_or(|only| only == *name))
        .collect();
    let rows = transports.len() * (2 * SIZES.len() + WINDOWS.len()) + 5;
    let mut progress = Progress::new(rows as u64);
    progress.show("starting a node");
    let report = Report::new("fabric");
    pin(None, CLIENT_CORE);
    let node = BenchNode::start(2 << 20, memory, None)?;
    let mut bench = Bench { node, effort, rows: args.rows.clone(), report, progress };
    for transport in transports {
        read::measure(&mut bench, transport)?;
        if transport == "shm" {
            if bench.wants("shm/read-64/server-cpu") {
                read::server_cpu(&mut bench)?;
            }
            read::copy(&mut bench);
        }
        rpc::measure(&mut bench, transport)?;
    }
    Ok(bench.report)
}
