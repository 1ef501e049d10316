//! `barn bench tx`: transactions beside the stores that people use in one process or one machine.
//!
//! | row | what one operation does |
//! |---|---|
//! | `PLACE/NODES/rmw-2/low` | reads two objects of 64 bytes, adds to a counter in each, writes both |
//! | `PLACE/NODES/rmw-2/high` | the same, among 16 hot objects |
//! | `PLACE/read-only-4`, `PLACE/two-node/read-only-4` | reads four objects, consistently |
//!
//! PLACE is `embedded`, `shm` or `tcp`; NODES is `single-node` or `two-node`. Beside each row stands
//! the best peer: whichever of SQLite, LMDB, redb and Redis did most of the same in the same run.
//! `rmw-2/low` has 16 transactions of one client under way at once, on one thread; the same with one
//! at a time, as the peers do it, is `rmw-2/low/blocking`. None of the peers writes to a disk. A figure counts what was committed; an attempt that met a conflict
//! is repeated, and counted in `abort_rate`.

use std::io;
use std::time::Duration;

use crate::bench::timing::{Effort, pin};
use crate::progress::Progress;
use crate::report::Report;

mod barn;
pub(crate) mod peer;
mod rows;
mod runner;
pub(crate) mod subject;
#[cfg(test)]
mod tests;
mod workload;

use self::barn::Nodes;
use peer::{PeerError, Store};
use runner::{Contender, Measured};
use workload::Case;

/// The core of the client; a server is on the other one.
const CLIENT_CORE: usize = 0;
/// The order of the objects is the same in every run.
const SEED: u64 = 0xBA4;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Objects of 64 bytes.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(64..=10_000_000))]
    pub objects: u32,

    /// Clients at once, each on a thread of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,

    /// Only rows whose name contains this, such as `rmw-2` or `read-only-4`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Only the peers, without Barn.
    #[arg(long, hide = true)]
    pub peers_only: bool,

    /// Fewer and shorter repeats.
    #[arg(long)]
    pub quick: bool,
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    let effort = if args.quick {
        Effort { slice: Duration::from_millis(50), repeats: 3 }
    } else {
        Effort { slice: Duration::from_millis(200), repeats: 7 }
    };
    let mut report = Report::new("tx");
    let mut progress = Progress::new(Case::ALL.len() as u64);
    progress.show("loading");
    let wants = |place: &str| {
        !args.peers_only && Case::ALL.iter().any(|case| rows::name(place, *case, 1).contains(&args.rows))
    };
    let (_nodes, places) = Nodes::start(args.objects, args.clients, wants)?;
    let ours = places.len();
    let peers = Peers::load(args.objects, args.clients)?;
    // With several clients, each thread goes where there is room. Not before the nodes and stores
    // have their threads: those would be kept on this core, too.
    if args.clients == 1 {
        pin(None, CLIENT_CORE);
    }
    let mut contenders: Vec<Contender> = places.into_iter().chain(peers.contenders).collect();
    for case in Case::ALL {
        progress.show(&case.name());
        let measured = runner::in_turn(effort, &mut contenders, case, args.objects, SEED)?;
        let names = contenders.iter().map(|contender| contender.name.as_str());
        let named: Vec<(&str, &Measured)> = names.zip(&measured).collect();
        let (places, peers) = named.split_at(ours);
        let windows = contenders.iter().map(Contender::window);
        let places = places.iter().zip(windows).filter(|((_, measured), _)| !measured.rates.is_empty());
        let ours = places.map(|((place, measured), window)| rows::ours(place, case, window, measured, peers));
        let theirs = peers.iter().map(|(name, measured)| rows::peer(name, case, measured));
        report.rows.extend(ours.chain(theirs).filter(|row| row.name.contains(&args.rows)));
        progress.step(&case.name());
    }
    report.rows.extend(peers.absent.iter().map(|(name, fix)| crate::bench::peer::absent_row(name, fix)));
    Ok(report)
}

/// The peers of a run: those there, and why the others are not.
struct Peers {
    contenders: Vec<Contender>,
    absent: Vec<(&'static str, String)>,
    /// Their data and servers: gone with this.
    _stores: Vec<Box<dyn Store>>,
}

impl Peers {
    /// Loads every peer with so many objects.
    fn load(objects: u32, clients: u32) -> io::Result<Self> {
        let mut peers = Self { contenders: Vec::new(), absent: Vec::new(), _stores: Vec::new() };
        for (name, open) in peer::ALL {
            let store = match open(objects, clients == 1) {
                Ok(store) => store,
                Err(PeerError::Absent { fix, .. }) => {
                    peers.absent.push((name, fix));
                    continue;
                }
                Err(error) => return Err(io::Error::other(error)),
            };
            let clients: Result<Vec<_>, _> = (0..clients).map(|_| store.client()).collect();
            let clients = clients.map_err(io::Error::other)?;
            let name = clients.first().map_or(name, |client| client.name()).to_owned();
            let clients = clients.into_iter().map(subject::of_peer).collect();
            peers.contenders.push(Contender { name, clients });
            peers._stores.push(store);
        }
        Ok(peers)
    }
}
