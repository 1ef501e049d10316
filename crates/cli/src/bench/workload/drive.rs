//! The two loops. Closed: the next operations begin when the last have ended. Open: operations begin when
//! it is their turn, whether the store is ready or not, and their time counts from then.
//!
//! What always holds: in an open loop every operation whose turn came within the window is in the
//! histogram. One that waited for a store that was busy has waited, and one that never got through has
//! waited until the loop gave up: a stalled store cannot hide what it has not served (Schroeder and others,
//! "Open versus closed: a cautionary tale", NSDI 2006).

use std::io;

use barn_fabric::seam::Seeded;
use barn_layout::planted;
use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::latency::Latencies;
use super::mix::Kind;
use super::store::{Store, Tally};
use super::trace::{Inserts, Trace};
use super::zipfian::fraction;

/// How far apart the turns of an open loop are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// As of many who know nothing of each other: exponentially distributed.
    Poisson,
    /// Always as far.
    Fixed,
}

/// When operations begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Pace {
    /// When the last have ended; of so many groups one is timed.
    Closed { time_every: u32 },
    /// So many a second.
    Open { rate: f64, arrivals: Arrivals },
}

/// What one thread is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) slice_ns: u64,
    /// Operations at once.
    pub(crate) depth: usize,
    pub(crate) pace: Pace,
    /// Ends when it has inserted so many: a table has an end.
    pub(crate) inserts_max: u64,
    pub(crate) seed: u64,
}

/// What one thread did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) nanoseconds: u64,
    /// Operations whose turn came, and whom the store did not get to.
    pub(crate) unserved: u64,
    pub(crate) latencies: Latencies,
    pub(crate) tally: Tally,
}

/// An overloaded store is given up when it is behind by as much as the window is long.
const LATE_WINDOWS_MAX: u64 = 2;

/// One thread: a store, what to do to it, and which numbers it may insert.
pub(crate) struct Lane<'a> {
    pub(crate) store: &'a mut dyn Store,
    pub(crate) trace: &'a mut Trace,
    pub(crate) inserts: &'a mut Inserts,
}

impl Lane<'_> {
    /// Follows the trace as planned.
    pub(crate) fn run(&mut self, plan: &Plan, clock: &impl Clock) -> io::Result<Done> {
        if self.trace.is_empty() {
            return Err(io::Error::other("there is nothing to do: the workload cannot be carried out here"));
        }
        match plan.pace {
            Pace::Closed { time_every } => self.closed(plan, time_every.max(1), clock),
            Pace::Open { rate, arrivals } => self.open(plan, rate, arrivals, clock),
        }
    }

    /// The next operations, all at once. What a group inserts is not read by itself: it is in no order.
    fn group(
        &mut self,
        operations: usize,
        group: &mut Vec<(Kind, u64)>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        group.clear();
        group.extend((0..operations).map(|_| self.trace.next(self.inserts)));
        self.store.carry_out(group, tally)?;
        self.inserts.ended();
        Ok(())
    }

    fn closed(&mut self, plan: &Plan, time_every: u32, clock: &impl Clock) -> io::Result<Done> {
        let (mut done, mut group) = (Done::default(), Vec::with_capacity(plan.depth));
        let inserts_end = self.inserts.done.saturating_add(plan.inserts_max);
        let untimed = time_every as usize - 1;
        let start = clock.now();
        let mut last = start;
        loop {
            for _ in 0..untimed {
                self.group(plan.depth, &mut group, &mut done.tally)?;
            }
            let before = if untimed == 0 { last } else { clock.now() };
            self.group(plan.depth, &mut group, &mut done.tally)?;
            last = clock.now();
            done.latencies.record(last - before, plan.depth as u64);
            done.operations += ((untimed + 1) * plan.depth) as u64;
            if last - start >= plan.slice_ns || self.inserts.done >= inserts_end {
                done.nanoseconds = last - start;
                return Ok(done);
            }
        }
    }

    fn open(&mut self, plan: &Plan, rate: f64, arrivals: Arrivals, clock: &impl Clock) -> io::Result<Done> {
        let (mut done, mut group) = (Done::default(), Vec::with_capacity(plan.depth));
        let mut turns = Turns::new(rate, arrivals, plan.seed);
        let inserts_end = self.inserts.done.saturating_add(plan.inserts_max);
        let start = clock.now();
        let (end, give_up) = (start + plan.slice_ns, start + LATE_WINDOWS_MAX * plan.slice_ns);
        let mut due = Vec::with_capacity(plan.depth);
        let (mut next, mut full) = (start + turns.gap(), false);
        while next < end {
            clock.wait_until(next);
            let now = clock.now();
            full = self.inserts.done >= inserts_end;
            if now >= give_up || full {
                break;
            }
            due.clear();
            while next <= now && next < end && due.len() < plan.depth {
                due.push(next);
                next += turns.gap();
            }
            let began = clock.now();
            self.group(due.len(), &mut group, &mut done.tally)?;
            let now = clock.now();
            for intended in &due {
                let from = if planted("open_loop_counts_from_the_send") { began } else { *intended };
                done.latencies.record(now - from, 1);
            }
            done.operations += due.len() as u64;
        }
        let now = clock.now();
        // Turns that came and were not served; none where the store kept up, or where it was we who ended.
        while next < end.min(now) && !full {
            done.latencies.record(now - next, 1);
            done.unserved += 1;
            next += turns.gap();
        }
        done.nanoseconds = now.max(end.min(next)) - start;
        Ok(done)
    }
}

/// The gaps between turns.
struct Turns {
    mean_ns: f64,
    arrivals: Arrivals,
    random: Seeded,
    /// What is less than a nanosecond is kept for the next gap.
    rest: f64,
}

impl Turns {
    fn new(rate: f64, arrivals: Arrivals, seed: u64) -> Self {
        Self { mean_ns: 1e9 / rate.max(1e-3), arrivals, random: Seeded::new(seed), rest: 0.0 }
    }

    fn gap(&mut self) -> u64 {
        let gap = match self.arrivals {
            Arrivals::Fixed => self.mean_ns,
            Arrivals::Poisson => -(1.0 - fraction(&mut self.random)).ln() * self.mean_ns,
        } + self.rest;
        self.rest = gap.fract();
        gap as u64
    }
}
