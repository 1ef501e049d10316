//! The client processes, from where they are told what to do.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::cell::Cell;
use super::servers::Servers;
use super::worker::{Answer, Order, Setup};
use crate::bench::timing::Effort;

/// The core of a client that is alone; a server is on the other one.
const CLIENT_CORE: usize = 0;

/// Client processes, ended with this.
pub(super) struct Crew(Vec<ClientProcess>);

struct ClientProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What was measured of one cell, over all its windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Keys a second, of all clients together, by window.
    pub(super) rates: Vec<f64>,
    /// Keys in all.
    pub(super) keys: u64,
    /// CPU of the server, in all.
    pub(super) server_seconds: f64,
}

impl Measured {
    /// CPU of the server for a million keys.
    pub(super) fn server_seconds_per_million(&self) -> f64 {
        self.server_seconds * 1e6 / self.keys.max(1) as f64
    }
}

impl Crew {
    /// Starts so many, and waits until all are connected.
    pub(super) fn start(clients: usize, setup: &Setup) -> io::Result<Self> {
        let mut crew = Self(Vec::new());
        for number in 0..clients {
            let mut child = Command::new(std::env::current_exe()?)
                .args(["bench", "get-client"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            let (orders, answers) = (child.stdin.take(), child.stdout.take());
            let answers = answers.ok_or_else(|| io::Error::other("a client process says nothing"))?;
            let mut process = ClientProcess { child, orders, answers: BufReader::new(answers) };
            // No two ask for the same keys.
            let setup = Setup { seed: setup.seed + number as u64, ..setup.clone() };
            process.tell(&setup)?;
            crew.0.push(process);
        }
        for process in &mut crew.0 {
            process.hear()?;
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
                let before = servers.cpu_seconds(cell.subject);
                let done = self.window(clients, *cell, slice, round)?;
                if round > 0 {
                    measured.rates.push(done.iter().map(|(keys, seconds)| *keys as f64 / seconds).sum());
                    measured.keys += done.iter().map(|(keys, _)| keys).sum::<u64>();
                    measured.server_seconds += servers.cpu_seconds(cell.subject) - before;
                }
            }
        }
        Ok(measured)
    }

    /// One window of all clients at once: keys and seconds of each.
    fn window(
        &mut self,
        clients: usize,
        cell: Cell,
        slice: Duration,
        round: usize,
    ) -> io::Result<Vec<(u64, f64)>> {
        // With several clients, each goes where there is room.
        let core = (clients == 1).then_some(CLIENT_CORE);
        let named = |error| io::Error::other(format!("{}/{}: {error}", cell.subject.name(), cell.name()));
        let crew = &mut self.0[..clients];
        for process in &mut *crew {
            process.tell(&Order { cell, slice, round, core })?;
        }
        crew.iter_mut()
            .map(|process| match process.hear().map_err(named)? {
                Answer::Done { keys, seconds } => Ok((keys, seconds)),
                other => Err(named(io::Error::other(format!("{other:?} is no window")))),
            })
            .collect()
    }
}

impl ClientProcess {
    fn tell(&mut self, what: &impl serde::Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        match &mut self.orders {
            Some(orders) => orders.write_all(&line),
            None => Err(io::Error::other("a client process hears nothing")),
        }
    }

    fn hear(&mut self) -> io::Result<Answer> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match serde_json::from_str(&line) {
            Ok(Answer::Failed(why)) => Err(io::Error::other(why)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(io::Error::other("a client process has ended")),
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}
