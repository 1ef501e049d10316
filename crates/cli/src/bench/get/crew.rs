//! The client processes, from where they are told what to do.

use std::io;
use std::time::Duration;

use super::cell::Cell;
use super::servers::Servers;
use super::worker::{Order, Setup, Window};
use crate::bench::client::ClientProcess;
use crate::bench::quiet::sample;
use crate::bench::timing::Effort;
use crate::report::Spread;

/// The core of a client that is alone; a server is on the other one.
const CLIENT_CORE: usize = 0;

/// Client processes, ended with this.
pub(super) struct Crew(Vec<ClientProcess>);

/// What was measured of one cell, over all its windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Keys a second, of all clients together, by window.
    pub(super) rates: Vec<f64>,
    /// CPU of the server for a million keys, by window.
    pub(super) server_seconds: Vec<f64>,
}

impl Measured {
    /// CPU of the server for a million keys.
    pub(super) fn server_seconds_per_million(&self) -> f64 {
        if self.server_seconds.is_empty() { 0.0 } else { Spread::of(&self.server_seconds).median }
    }
}

impl Crew {
    /// Starts so many, and waits until all are connected.
    pub(super) fn start(clients: usize, setup: &Setup) -> io::Result<Self> {
        let mut crew = Self(Vec::new());
        for number in 0..clients {
            // No two ask for the same keys.
            let setup = Setup { seed: setup.seed + number as u64, ..setup.clone() };
            let process = ClientProcess::start("get-client", &setup)?;
            crew.0.push(process);
        }
        for process in &mut crew.0 {
            process.hear::<Window>()?;
        }
        Ok(crew)
    }

    /// Measures every cell in turn with the first `clients` of them, as often as there are repeats.
    pub(super) fn in_turn(
        &mut self,
        effort: Effort,
        clients: usize,
        cells: &[Cell],
        servers: &Servers,
    ) -> io::Result<Vec<(Cell, Measured)>> {
        let mut measured: Vec<(Cell, Measured)> =
            cells.iter().map(|cell| (*cell, Measured::default())).collect();
        // The first round warms up.
        for round in 0..=effort.repeats {
            let slice = if round == 0 { effort.slice / 4 } else { effort.slice };
            for (cell, measured) in &mut measured {
                if round == 0 {
                    self.window(clients, *cell, slice, round)?;
                    continue;
                }
                let (done, used) = sample(|| {
                    let before = servers.cpu_seconds(cell.subject);
                    let done = self.window(clients, *cell, slice, round)?;
                    Ok::<_, io::Error>((done, servers.cpu_seconds(cell.subject) - before))
                })?;
                measured.rates.push(done.iter().map(|done| done.keys as f64 / done.seconds).sum());
                let keys = done.iter().map(|done| done.keys).sum::<u64>();
                measured.server_seconds.push(used * 1e6 / keys.max(1) as f64);
            }
        }
        Ok(measured)
    }

    /// One window of all clients at once: what each did.
    fn window(
        &mut self,
        clients: usize,
        cell: Cell,
        slice: Duration,
        round: usize,
    ) -> io::Result<Vec<Window>> {
        // With several clients, each goes where there is room.
        let core = (clients == 1).then_some(CLIENT_CORE);
        let named = |error| io::Error::other(format!("{}/{}: {error}", cell.subject.name(), cell.name()));
        let crew = &mut self.0[..clients];
        for process in &mut *crew {
            process.tell(&Order { cell, slice, round, core })?;
        }
        crew.iter_mut().map(|process| process.hear_done().map_err(named)).collect()
    }
}
