//! `barn bench peers`: Barn beside Redis, memcached and maps in the client's own process, in one run.
//!
//! | row | figure |
//! |---|---|
//! | `SUBJECT/WORKLOAD/depth-N/KEYxVALUE` | operations a second of all clients, with how long they took and the CPU they cost |
//! | `…/against-PEER` | ours beside that one: over shm the peers on Unix sockets and the maps, over tcp those on loopback |
//! | `…/against-best-peer` | ours beside the fastest server; the maps are no servers, and stand apart |
//! | `…/rate-N/against-PEER/p99` | with `--rate`: the time within which 99 of 100 operations were done |
//! | `memory-per-entry/KEYxVALUE/against-PEER` | bytes of our table's memory for each record, beside by how much the server's grew |
//!
//! WORKLOAD is YCSB's c (reads), b (5 % updates), a (half updates) or, of those who keep their keys in order, e (short
//! scans). All are loaded with the same records, asked
//! for the same ones in the same order by as many clients with as many operations at once, and measured in turn.
//! `dashmap` and `btreemap-rwlock` are the limit without any store: nobody is asked, and nothing can be shared.

use std::io;

use barn::Kind;
use clap::Parser;

use crate::bench::peer::Absent;
use crate::bench::workload::crew::{Crew, How, Measured};
use crate::bench::workload::mix::Mix;
use crate::bench::workload::options::{Beat, DEPTH_MAX, Load};
use crate::bench::workload::shape::Shape;
use crate::bench::workload::site;
use crate::bench::workload::subject::{Cell, Subject};
use crate::bench::workload::worker::Setup;
use crate::progress::Progress;
use crate::report::Report;

mod rows;
mod servers;
#[cfg(test)]
mod tests;

use rows::Results;
use servers::Servers;

/// What all can do, and what those with an order can.
const COMPARED: [Mix; 4] = [Mix::C, Mix::B, Mix::A, Mix::E];
/// The same operations in every run.
const SEED: u64 = 0x9EE2;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// YCSB's workloads, with commas: c (reads), b (5 % updates), a (half updates), e (scans of 1 to 100 records
    /// in the order of their keys, 5 % inserts: of a tree, beside the ordered map).
    #[arg(long, value_name = "LETTERS", value_delimiter = ',', default_values_t = COMPARED, value_parser = mix)]
    pub workload: Vec<Mix>,

    /// Operations that each thread has under way at once, with commas.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64], value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX))]
    pub depth: Vec<u32>,

    /// Let the peers' clients spin while they wait, as ours do over shm, rather than sleep.
    #[arg(long)]
    pub peers_spin: bool,

    /// Closed or open loop.
    #[command(flatten)]
    pub beat: Beat,

    /// Records, clients and effort.
    #[command(flatten)]
    pub load: Load,
}

fn mix(text: &str) -> Result<Mix, String> {
    let there = COMPARED.into_iter().find(|mix| mix.to_string() == text);
    there.ok_or_else(|| {
        format!(
            "the peers are compared in workloads a, b, c and e, not `{text}`; `barn bench ycsb` has d and f"
        )
    })
}

/// For those who have no command line.
#[derive(Debug, clap::Parser)]
struct Alone {
    #[command(flatten)]
    args: Args,
}

impl Args {
    /// All, in a short time.
    pub fn quick() -> Self {
        Alone::parse_from(["peers", "--quick"]).args
    }

    /// All.
    pub fn full() -> Self {
        Alone::parse_from(["peers"]).args
    }

    /// What is measured, in order: ours and the peers alternate.
    fn cells(&self, there: impl Fn(Subject) -> bool) -> Vec<Cell> {
        let subjects = rows::OURS.iter().map(|(subject, _)| *subject).chain(rows::PEERS);
        let subjects: Vec<Subject> = subjects.filter(|subject| there(*subject)).collect();
        let mut cells = Vec::new();
        for mix in &self.workload {
            for depth in &self.depth {
                let subjects = subjects.iter().filter(|subject| !mix.is_ordered() || subject.is_ordered());
                cells.extend(subjects.map(|subject| Cell {
                    subject: *subject,
                    mix: *mix,
                    depth: *depth as usize,
                }));
            }
        }
        cells
    }

    /// The end of every name: how many clients there were, and how often they came.
    fn ending(&self) -> String {
        self.load.clients_name() + &self.beat.name()
    }

    fn command(&self, shape: Shape) -> String {
        let depths: Vec<String> = self.depth.iter().map(u32::to_string).collect();
        let mixes: Vec<String> = self.workload.iter().map(Mix::to_string).collect();
        let spin = if self.peers_spin { " --peers-spin" } else { "" };
        format!(
            "barn bench peers --workload {} --depth {} {}{spin}{}",
            mixes.join(","),
            depths.join(","),
            self.load.command(shape),
            self.beat.command()
        )
    }
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    if args.load.kind == Kind::Cache {
        // What may be forgotten is not compared with what is kept.
        return Err(io::Error::other(
            "a cache forgets, and the peers here do not; use hopscotch, cuckoo or tree",
        ));
    }
    let mut report = Report::new("peers");
    let rounds = args.load.effort().repeats + 1;
    let mut progress =
        Progress::new((args.load.shapes().count() * args.cells(|_| true).len() * rounds) as u64);
    let mut absent = Absent::default();
    for shape in args.load.shapes() {
        let ordered = args.workload.iter().any(|mix| mix.is_ordered());
        let servers =
            Servers::start(args.load.kind, ordered, shape, args.load.records(shape), &mut progress)?;
        let measured = measure(args, shape, &servers, &mut progress)?;
        let results =
            Results { shape, ending: &args.ending(), open: args.beat.rate.is_some(), measured: &measured };
        let said = results.rows().into_iter().chain(servers.memory_rows(shape));
        let said = said.filter(|row| row.name.contains(&args.load.rows));
        let keys = args.load.records(shape);
        report.rows.extend(said.map(|row| row.with("keys", keys).with("command", args.command(shape))));
        absent = servers.absent;
    }
    report.rows.extend(absent.rows());
    Ok(report)
}

fn measure(
    args: &Args,
    shape: Shape,
    servers: &Servers,
    progress: &mut Progress,
) -> io::Result<Vec<(Cell, Measured)>> {
    let setup = Setup {
        shape,
        records: args.load.records(shape),
        steps: args.load.steps(),
        seed: SEED,
        kind: args.load.kind.to_string(),
        shm: servers.node.address("shm"),
        tcp: servers.node.address("tcp"),
        verbs: None,
        peers: servers.places(),
        spin: args.peers_spin,
    };
    let mut crew = Crew::start(args.load.clients, args.load.threads, &setup)?;
    let cells = args.cells(|subject| servers.has(subject));
    let cells = rows::needed(&cells, &args.load.rows, shape, &args.ending());
    let how = How {
        effort: args.load.effort(),
        rate: args.beat.offered(),
        law: None,
        inserts_max: args.load.records(shape) * (site::GROWS_BY - 1),
    };
    crew.in_turn(how, &cells, |subject| servers.cpu_seconds(subject), progress)
}
