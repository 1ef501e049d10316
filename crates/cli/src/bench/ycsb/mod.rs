//! `barn bench ycsb`: YCSB's core workloads on Barn's tables.
//!
//! | row | figure |
//! |---|---|
//! | `TRANSPORT/WAY/WORKLOAD/depth-N/KEYxVALUE` | operations a second of all clients, with how long they took and the CPU they cost |
//! | `memory-per-entry/KEYxVALUE` | bytes of the table's memory for each record, beside those of its key and value; not of a cache |
//! | `memory-per-entry/ordered/KEYxVALUE` | the same of the tree that workload e has |
//!
//! TRANSPORT is `embedded` (the node is in the client's own process, whose CPU then includes the node's),
//! `shm`, `tcp` or, where there is a device, `verbs`; WORKLOAD is a letter of `workload/mix.rs`. Node and clients are processes of their own, all
//! are measured in turn, and every value that is read is checked. With `--rate` the loop is open and a row ends
//! in `/rate-N`: times count from when an operation's turn came (`workload/drive.rs`).
//!
//! `depth-N`: each thread hands over N operations at once and waits for them all; their time is the group's.

use std::io;
use std::net::IpAddr;

use barn::{Barn, Kind, Table};
use clap::Parser;

use crate::bench::node::BenchNode;
use crate::bench::workload::choose::Law;
use crate::bench::workload::crew::{Crew, How, Measured};
use crate::bench::workload::figures;
use crate::bench::workload::mix::Mix;
use crate::bench::workload::options::{Beat, DEPTH_MAX, Load};
use crate::bench::workload::shape::Shape;
use crate::bench::workload::site;
use crate::bench::workload::subject::{Cell, Reads, Subject};
use crate::bench::workload::worker::Setup;
use crate::progress::Progress;
use crate::report::{Better, Report, Row};

#[cfg(test)]
mod tests;

/// The same operations in every run.
const SEED: u64 = 0x9C5B;

/// Where the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Over {
    /// In the client's own process.
    Embedded,
    /// In another process, whose memory the client maps.
    Shm,
    /// In another process, over tcp.
    Tcp,
    /// In another process, over RDMA: the node at the first device that has an IPv4 address, the clients at
    /// the last.
    Verbs,
}

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The workloads, with commas: a (half updates), b (5 % updates), c (reads), d (reads of what is new,
    /// 5 % inserts), e (scans of 1 to 100 records in the order of their keys, 5 % inserts, always of a tree),
    /// f (half read-modify-write).
    #[arg(long, value_enum, value_name = "LETTERS", value_delimiter = ',', default_values_t = Mix::ALL)]
    pub workload: Vec<Mix>,

    /// Where the node is, with commas.
    #[arg(long, value_enum, value_name = "TRANSPORTS", value_delimiter = ',', default_values_t = [Over::Embedded, Over::Shm, Over::Tcp])]
    pub over: Vec<Over>,

    /// How the table is read, with commas.
    #[arg(long, value_enum, value_name = "WAYS", value_delimiter = ',', default_values_t = [Reads::Auto])]
    pub way: Vec<Reads>,

    /// How records are chosen, instead of as the workload says; not for d.
    #[arg(long, value_enum, value_name = "LAW")]
    pub law: Option<Law>,

    /// Operations that each thread has under way at once, with commas.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16], value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX))]
    pub depth: Vec<u32>,

    /// Closed or open loop.
    #[command(flatten)]
    pub beat: Beat,

    /// Records, clients and effort.
    #[command(flatten)]
    pub load: Load,
}

/// For those who have no command line.
#[derive(Debug, clap::Parser)]
struct Alone {
    #[command(flatten)]
    args: Args,
}

impl Args {
    /// All workloads, in a short time.
    pub fn quick() -> Self {
        Alone::parse_from(["ycsb", "--quick"]).args
    }

    /// All workloads.
    pub fn full() -> Self {
        Alone::parse_from(["ycsb"]).args
    }

    /// What is measured, in order: transports alternate, so that none has a quiet minute to itself.
    fn cells(&self, shape: Shape) -> Vec<Cell> {
        let mut cells = Vec::new();
        for mix in &self.workload {
            for depth in &self.depth {
                for reads in &self.way {
                    for over in &self.over {
                        let subject = match over {
                            Over::Embedded => Subject::Embedded(*reads),
                            Over::Shm => Subject::Shm(*reads),
                            Over::Tcp => Subject::Tcp(*reads),
                            Over::Verbs => Subject::Verbs(*reads),
                        };
                        cells.push(Cell { subject, mix: *mix, depth: *depth as usize });
                    }
                }
            }
        }
        cells.retain(|cell| self.name(*cell, shape).contains(&self.load.rows));
        cells
    }

    fn name(&self, cell: Cell, shape: Shape) -> String {
        let law = self.law.map_or_else(String::new, |law| format!("/{law:?}").to_lowercase());
        let clients = self.load.clients_name();
        format!("{}/{shape}{law}{clients}{}", cell.name(), self.beat.name())
    }

    /// The command that measures one cell.
    fn command(&self, cell: Cell, shape: Shape) -> String {
        let subject = cell.subject.name();
        let (over, way) = subject.split_once('/').unwrap_or((&subject, "auto"));
        let mut command = format!(
            "barn bench ycsb --workload {} --over {over} --way {way} --depth {} {}",
            cell.mix,
            cell.depth,
            self.load.command(shape)
        );
        if let Some(law) = self.law {
            command += &format!(" --law {}", format!("{law:?}").to_lowercase());
        }
        command + &self.beat.command()
    }

    fn check(&self) -> io::Result<()> {
        if self.law.is_some_and(|law| law != Law::Latest) && self.workload.contains(&Mix::D) {
            return Err(io::Error::other(
                "workload d reads what is new; leave --law away, or name other workloads with --workload",
            ));
        }
        Ok(())
    }
}

/// Where a node and its clients are over RDMA.
fn rdma_ends() -> io::Result<(IpAddr, IpAddr)> {
    #[cfg(feature = "verbs")]
    return crate::bench::verbs::ends();
    #[cfg(not(feature = "verbs"))]
    Err(crate::bench::at::without_verbs())
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    args.check()?;
    let mut report = Report::new("ycsb");
    let rounds = args.load.effort().repeats + 1;
    let cells: usize = args.load.shapes().map(|shape| args.cells(shape).len()).sum();
    let mut progress = Progress::new((cells * rounds) as u64);
    for shape in args.load.shapes() {
        let cells = args.cells(shape);
        if !cells.is_empty() {
            report.rows.extend(measure(args, shape, &cells, &mut progress)?);
        }
    }
    if report.rows.is_empty() {
        return Err(io::Error::other(format!(
            "no row's name contains `{}`; leave --rows away to see all",
            args.load.rows
        )));
    }
    Ok(report)
}

fn measure(args: &Args, shape: Shape, cells: &[Cell], progress: &mut Progress) -> io::Result<Vec<Row>> {
    let records = args.load.records(shape);
    progress.show(&format!("loading {records} records of {shape}"));
    let ordered = cells.iter().any(|cell| cell.mix.is_ordered());
    let memory_bytes = site::memory_bytes(shape, records) * if ordered { 2 } else { 1 };
    let ends = if args.over.contains(&Over::Verbs) { Some(rdma_ends()?) } else { None };
    let node = match ends {
        #[cfg(feature = "verbs")]
        Some((ip, _)) => BenchNode::start_on_verbs(memory_bytes, 0, ip)?,
        _ => BenchNode::start(memory_bytes, 0, None)?,
    };
    let barn = Barn::connect(&node.address("shm")).map_err(io::Error::other)?;
    let table = site::load(&barn, args.load.kind, shape, records).map_err(io::Error::other)?;
    let tree =
        ordered.then(|| site::load_ordered(&barn, shape, records)).transpose().map_err(io::Error::other)?;
    let memory = [Some((&table, "")), tree.as_ref().map(|tree| (tree, "ordered/"))];
    let memory: Vec<Row> = memory
        .into_iter()
        .flatten()
        .map(|(table, prefix)| memory_row(table, &format!("memory-per-entry/{prefix}{shape}"), records))
        .collect::<io::Result<_>>()?;
    let setup = Setup {
        shape,
        records,
        steps: args.load.steps(),
        seed: SEED,
        kind: args.load.kind.to_string(),
        shm: node.address("shm"),
        tcp: node.address("tcp"),
        verbs: ends.map(|(_, bind)| (node.address("tcp").replacen("tcp://", "verbs://", 1), bind)),
        peers: Vec::new(),
        spin: false,
    };
    let mut crew = Crew::start(args.load.clients, args.load.threads, &setup)?;
    let how = How {
        effort: args.load.effort(),
        rate: args.beat.offered(),
        law: args.law,
        inserts_max: records * (site::GROWS_BY - 1),
    };
    let server_cpu = |subject: Subject| if subject.is_in_process() { 0.0 } else { node.cpu_seconds() };
    let measured = crew.in_turn(how, cells, server_cpu, progress)?;
    let said = |(cell, measured): &(Cell, Measured)| {
        let kind = if cell.mix.is_ordered() { Kind::Tree } else { args.load.kind };
        let row = figures::row(args.name(*cell, shape), measured)
            .with("kind", kind.to_string())
            .with("keys", records)
            .with("command", args.command(*cell, shape));
        args.beat.rate.map_or(row.clone(), |rate| row.with("offered", rate))
    };
    let mut rows: Vec<Row> = measured.iter().map(said).collect();
    // A cache has the memory that it was given, whatever is in it.
    rows.extend(memory.into_iter().filter(|row| row.extra["kind"] != Kind::Cache.to_string()));
    Ok(rows)
}

/// The memory of a table that is loaded, for each of its records.
fn memory_row(table: &Table, name: &str, records: u64) -> io::Result<Row> {
    let stats = table.stats().map_err(io::Error::other)?.shards;
    let each = |bytes: u64| [bytes as f64 / stats.keys.max(1) as f64];
    let row = Row::new(name, "bytes", Better::Lower, &each(stats.memory_bytes))
        .beside("key and value", &each(stats.payload_bytes))
        .with("kind", table.options().kind.to_string())
        .with("keys", records);
    Ok(row)
}
