//! The client processes of a benchmark of workloads, from where they are told what to do.

use std::io;

use super::choose::Law;
use super::drive::{Arrivals, Pace};
use super::latency::Latencies;
use super::store::Tally;
use super::subject::{Cell, Subject};
use super::worker::{Order, Outcome, Setup};
use crate::bench::client::ClientProcess;
use crate::bench::quiet::{TRIES, sample};
use crate::bench::timing::Effort;
use crate::progress::Progress;

/// The core of a client that is alone; a server is on the other one.
const CLIENT_CORE: usize = 0;

/// Client processes, ended with this.
pub(crate) struct Crew {
    processes: Vec<ClientProcess>,
    /// Threads of each.
    threads: u64,
}

/// How cells are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) effort: Effort,
    /// Operations a second of an open loop, all clients together; a closed loop if none.
    pub(crate) rate: Option<(f64, Arrivals)>,
    /// Instead of the workload's own law.
    pub(crate) law: Option<Law>,
    /// Inserts of all cells together, over all windows.
    pub(crate) inserts_max: u64,
}

/// What was measured of one cell, over all its windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Operations a second, of all clients together, by window.
    pub(crate) rates: Vec<f64>,
    pub(crate) operations: u64,
    pub(crate) unserved: u64,
    pub(crate) latencies: Latencies,
    pub(crate) client_seconds: f64,
    pub(crate) server_seconds: f64,
    pub(crate) tally: Tally,
}

impl Measured {
    /// So many seconds for a million operations.
    pub(crate) fn per_million(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.operations.max(1) as f64
    }

    fn add(&mut self, outcomes: &[Outcome], server_seconds: f64) {
        self.rates.push(outcomes.iter().map(|done| done.rate).sum());
        self.server_seconds += server_seconds;
        for done in outcomes {
            self.operations += done.operations;
            self.unserved += done.unserved;
            self.client_seconds += done.cpu_seconds;
            self.latencies.add(&done.latencies);
            self.tally = self.tally.and(done.tally);
        }
    }
}

impl Crew {
    /// Starts so many processes with so many threads each, and waits until all are there.
    pub(crate) fn start(clients: u32, threads: u32, setup: &Setup) -> io::Result<Self> {
        let start = |_| ClientProcess::start("workload-client", setup);
        let mut processes = (0..clients).map(start).collect::<io::Result<Vec<_>>>()?;
        processes.iter_mut().try_for_each(|process| process.hear::<Outcome>().map(drop))?;
        Ok(Self { processes, threads: u64::from(threads) })
    }

    /// Measures every cell in turn, as often as there are repeats, so that a noisy minute hits all.
    pub(crate) fn in_turn(
        &mut self,
        how: How,
        cells: &[Cell],
        server_cpu: impl Fn(Subject) -> f64,
        progress: &mut Progress,
    ) -> io::Result<Vec<(Cell, Measured)>> {
        let mut measured: Vec<(Cell, Measured)> =
            cells.iter().map(|cell| (*cell, Measured::default())).collect();
        // The first round opens, maps and warms up.
        for round in 0..=how.effort.repeats {
            for (number, (cell, measured)) in measured.iter_mut().enumerate() {
                let name = cell.name();
                progress.step(&name);
                let mut one = || {
                    let before = server_cpu(cell.subject);
                    let outcomes = self.window(how, *cell, number, cells.len(), round)?;
                    Ok::<_, io::Error>((outcomes, server_cpu(cell.subject) - before))
                };
                let done = if round == 0 { one() } else { sample(one) };
                let (outcomes, used) = done.map_err(|error| io::Error::other(format!("{name}: {error}")))?;
                if round > 0 {
                    measured.add(&outcomes, used);
                }
            }
        }
        Ok(measured)
    }

    /// One window of all clients at once.
    fn window(
        &mut self,
        how: How,
        cell: Cell,
        number: usize,
        cells: usize,
        round: usize,
    ) -> io::Result<Vec<Outcome>> {
        let slice = if round == 0 { how.effort.slice / 4 } else { how.effort.slice };
        let in_all = self.threads * self.processes.len() as u64;
        let windows = (how.effort.repeats * TRIES + 1) as u64 * cells as u64 * in_all;
        // What is in the client's own process is in one process, with as many threads.
        let (processes, threads) = match cell.subject.is_in_process() {
            true => (&mut self.processes[..1], in_all),
            false => (&mut self.processes[..], self.threads),
        };
        let time_every = cell.subject.time_every(cell.depth);
        let order = |first| Order {
            cell,
            number: number as u64,
            cells: cells as u64,
            law: how.law.unwrap_or(cell.mix.law()),
            slice_ns: slice.as_nanos() as u64,
            pace: how
                .rate
                .map_or(Pace::Closed { time_every }, |(rate, arrivals)| Pace::Open { rate, arrivals }),
            inserts_max: (how.inserts_max / windows).max(1),
            round,
            threads,
            first,
            threads_in_all: in_all,
            // With several clients, each goes where there is room.
            core: (in_all == 1).then_some(CLIENT_CORE),
        };
        for (at, process) in processes.iter_mut().enumerate() {
            process.tell(&order(at as u64 * threads))?;
        }
        processes.iter_mut().map(ClientProcess::hear_done).collect()
    }
}
