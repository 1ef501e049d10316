//! A client process: does what it is told on standard input, and says how much it did.
//!
//! The first line is a [`Setup`], every further one an [`Order`]; each is answered with one line.

use std::io;
use std::time::{Duration, Instant};

use barn::Way;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Choice, Subject};
use super::getter::{Bare, BarnGetter, Flat, Getter, MemcachedGetter, RedisGetter};
use super::workload::Pool;
use crate::bench::client;
use crate::bench::fabric::BARE_AHEAD;
use crate::bench::peer::link::Place;
use crate::bench::timing::pin;

/// Of so many batches one is verified, byte by byte.
const VERIFY_EVERY: usize = 16;
/// Keys between two looks at the clock, at least: 25 ns among 64 are none.
const LOOK_EVERY: usize = 64;

/// Keys at once while pages are mapped; divides the draws.
const TOUCH_BATCH: usize = 32;

/// What a client process connects to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) keys: u32,
    /// Keys chosen in advance, for each choice.
    pub(super) draws: usize,
    pub(super) seed: u64,
    pub(super) table: String,
    pub(super) shm: String,
    pub(super) tcp: String,
    /// A node with as much memory as the table takes, to be read as it is.
    pub(super) limit: String,
    /// So much of it.
    pub(super) limit_bytes: u32,
    pub(super) peers: Vec<(Subject, Place)>,
    /// Peers' clients spin.
    pub(super) spin: bool,
}

/// One window.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) cell: Cell,
    pub(super) slice: Duration,
    /// Which window it is: each begins elsewhere among the chosen keys.
    pub(super) round: usize,
    /// The core to stay on; any if none.
    pub(super) core: Option<usize>,
}

/// What was done in one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) keys: u64,
    pub(super) seconds: f64,
}

/// Runs until standard input ends.
pub(crate) fn run() -> io::Result<()> {
    let everywhere = rustix::thread::sched_getaffinity(None)?;
    client::serve(Worker::new, |worker, order: &Order| {
        match order.core {
            Some(core) => pin(None, core),
            None => rustix::thread::sched_setaffinity(None, &everywhere)?,
        }
        worker.window(order)
    })
}

struct Worker {
    uniform: Pool,
    zipf: Pool,
    getters: Vec<(Subject, Box<dyn Getter>)>,
}

impl Worker {
    fn new(setup: &Setup) -> io::Result<Self> {
        let pool = |choice| Pool::new(choice, setup.keys, setup.draws, setup.seed, setup.limit_bytes);
        let barn = |address: &str, way| -> io::Result<Box<dyn Getter>> {
            Ok(Box::new(BarnGetter::connect(address, &setup.table, way).map_err(io::Error::other)?))
        };
        let mut getters: Vec<(Subject, Box<dyn Getter>)> = vec![
            (Subject::ShmOneSided, barn(&setup.shm, Way::OneSided)?),
            (Subject::ShmRequest, barn(&setup.shm, Way::Request)?),
            (Subject::TcpAuto, barn(&setup.tcp, Way::Auto)?),
            (Subject::Bare, Box::new(Bare::connect(&setup.limit, 0)?)),
            (Subject::BarePrefetched, Box::new(Bare::connect(&setup.limit, BARE_AHEAD)?)),
            (Subject::Flat, Box::new(Flat::load(setup.keys)?)),
        ];
        for (subject, place) in &setup.peers {
            let getter: Box<dyn Getter> = match subject {
                Subject::MemcachedUnix | Subject::MemcachedTcp => {
                    Box::new(MemcachedGetter::connect(place, setup.spin)?)
                }
                _ => Box::new(RedisGetter::connect(place, setup.spin)?),
            };
            getters.push((*subject, getter));
        }
        #[cfg(feature = "peers")]
        getters.push((Subject::Dashmap, Box::new(super::getter::Dashmap::load(setup.keys))));
        let mut worker = Self { uniform: pool(Choice::Uniform), zipf: pool(Choice::Zipf), getters };
        worker.touch()?;
        Ok(worker)
    }

    /// Reads the table once. Its pages are mapped at the first touch of each, which takes as long as
    /// several lookups: a short window would measure little else.
    fn touch(&mut self) -> io::Result<()> {
        let one_sided = self.getters.iter_mut().find(|(subject, _)| *subject == Subject::ShmOneSided);
        let Some((_, getter)) = one_sided else { return Ok(()) };
        let batches = (0..self.uniform.keys.len()).step_by(TOUCH_BATCH);
        batches.into_iter().try_for_each(|at| getter.get(&self.uniform, at, TOUCH_BATCH, false))
    }

    fn window(&mut self, order: &Order) -> io::Result<Window> {
        let cell = order.cell;
        let getter = self.getters.iter_mut().find(|(subject, _)| *subject == cell.subject);
        let (_, getter) =
            getter.ok_or_else(|| io::Error::other(format!("nobody is {}", cell.subject.name())))?;
        let pool = if cell.choice == Choice::Uniform { &self.uniform } else { &self.zipf };
        let step = getter.step(cell.batch);
        let steps = (LOOK_EVERY / step).max(1);
        // Windows begin an eighth of the pool apart, at a batch's beginning.
        let mut at = (order.round * pool.keys.len() / 8 % pool.keys.len()) / step * step;
        let mut done = 0;
        let start = Instant::now();
        loop {
            for _ in 0..steps {
                if at + step > pool.keys.len() {
                    at = 0;
                }
                let verify = (at / step).is_multiple_of(VERIFY_EVERY);
                getter.get(pool, at, step, verify)?;
                at += step;
            }
            done += steps * step;
            let took = start.elapsed();
            if took >= order.slice {
                return Ok(Window { keys: done as u64, seconds: took.as_secs_f64() });
            }
        }
    }
}
