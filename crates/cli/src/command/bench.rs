//! `barn bench`: measures Barn beside the limits of this machine, in the same run.

use std::io;

use crate::bench;
use crate::command::Exit;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The benchmark.
    #[command(subcommand)]
    pub bench: Bench,
}

/// Every benchmark.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// What the papers measured that does not depend on hardware: their value, ours, and the bound.
    Figures(bench::figures::Args),

    /// GETs of a table: rates beside the limit of the same memory, a map in the client's own process,
    /// Redis and memcached.
    ///
    /// Node, peers and clients are processes of their own, and are measured in turn.
    Get(bench::get::Args),

    /// The papers' headline claims: their value, ours, and a verdict that follows from both; their figures as
    /// SVG.
    ///
    /// Claims are of three kinds: such that no hardware changes, ratios that can be measured here, and such
    /// about what is not built yet. Redis and memcached over loopback stand for the papers' stores over TCP.
    Papers(bench::papers::Args),

    /// Everything, as one page: tables, figures, the machine, how noisy it was, and the command for each table.
    ///
    /// Says plainly at the top if the machine was loaded. `--quick` takes less than three minutes.
    Report(bench::page::Args),

    /// Puts: what durability costs, beside a bare log of the same disk and Redis.
    Put(bench::put::Args),

    /// Recovery: how long a node that was killed takes to have its data back, beside a direct read of
    /// the same bytes.
    Recover(bench::recover::Args),

    /// Barn beside Redis, memcached, dashmap and BTreeMap in YCSB's workloads a, b and c.
    ///
    /// All hold the same records, are asked for the same ones by as many clients, as many at once, and
    /// measured in turn. A peer that is not installed has a row with the command that brings it.
    Peers(bench::peers::Args),

    /// YCSB's core workloads on Barn's tables, embedded and over shm, tcp and verbs, in a closed or open loop.
    ///
    /// Every value that is read is checked. A figure is the median of the repeats, with the lowest and
    /// highest, times of operations by percentile, and the CPU of clients and node.
    Ycsb(bench::ycsb::Args),

    /// A client process of `barn bench ycsb` and `barn bench peers`.
    #[command(hide = true)]
    WorkloadClient,

    /// A client process of `barn bench get`.
    #[command(hide = true)]
    GetClient,

    /// Serves the bare echoes of `barn bench fabric --transport verbs`.
    #[cfg(feature = "verbs")]
    #[command(hide = true)]
    EchoNode {
        /// Where to listen.
        at: std::net::SocketAddr,
    },

    /// READs and calls: latency and rate, each beside the bare limit of the same memory or
    /// socket.
    ///
    /// A node of its own is started for the run and stopped after it. Ours and the limit are
    /// measured in turn; a figure is the median of the repeats, with the lowest and highest.
    Fabric(bench::fabric::Args),

    /// Cell's selector against the best fixed mix of one-sided reads and requests, with much and little CPU
    /// for the node and in a spike of load.
    ///
    /// Also draws what was chosen over time, as an SVG.
    Selector(bench::selector::Args),

    /// Spaces: reads and writes beside raw READs, memcpy and bare sockets, with 1, 2 and 4 nodes; and what it
    /// costs to reserve and map.
    Space(bench::space::Args),

    /// Transactions: rate, latency and conflicts, beside the best of SQLite, LMDB, redb and Redis.
    ///
    /// All keep their data in memory, without a disk, and are measured in turn.
    Tx(bench::tx::Args),
}

impl Bench {
    /// Whether it takes samples of its own that others could disturb; client processes are told when to.
    fn is_timed(&self) -> bool {
        match self {
            Self::Figures(_) | Self::WorkloadClient | Self::GetClient => false,
            #[cfg(feature = "verbs")]
            Self::EchoNode { .. } => false,
            _ => true,
        }
    }
}

/// Runs a benchmark.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    if args.bench.is_timed() {
        bench::quiet::watch();
    }
    let mut report = match &args.bench {
        Bench::Figures(args) => bench::figures::run(args)?,
        Bench::Get(args) => bench::get::run(args)?,
        Bench::Papers(args) => {
            let mut papers = bench::papers::run(args)?;
            papers.report.disturbance = bench::quiet::all();
            let mut out = anstream::stdout().lock();
            match json {
                true => papers.report.write_json(&mut out)?,
                false => bench::papers::write_table(&papers.report, &mut out)?,
            }
            return papers.failed.first().map_or(Ok(Exit::Ok), |why| Err(io::Error::other(why.clone())));
        }
        Bench::Report(args) => {
            bench::page::run(args, json)?;
            return Ok(Exit::Ok);
        }
        Bench::Put(args) => bench::put::run(args)?,
        Bench::Recover(args) => bench::recover::run(args)?,
        Bench::Peers(args) => bench::peers::run(args)?,
        Bench::Ycsb(args) => bench::ycsb::run(args)?,
        Bench::WorkloadClient => {
            bench::workload::worker::run()?;
            return Ok(Exit::Ok);
        }
        Bench::GetClient => {
            bench::get::worker::run()?;
            return Ok(Exit::Ok);
        }
        #[cfg(feature = "verbs")]
        Bench::EchoNode { at } => {
            bench::verbs::echo_node(*at)?;
            return Ok(Exit::Ok);
        }
        Bench::Fabric(args) => bench::fabric::run(args)?,
        Bench::Selector(args) => bench::selector::run(args)?,
        Bench::Space(args) => bench::space::run(args)?,
        Bench::Tx(args) => bench::tx::run(args)?,
    };
    report.disturbance = bench::quiet::all().filter(|seen| seen.samples > 0);
    let mut out = anstream::stdout().lock();
    if json {
        report.write_json(&mut out)?
    } else {
        report.write_table(&mut out)?
    }
    Ok(Exit::Ok)
}
