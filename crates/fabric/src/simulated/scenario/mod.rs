//! Scenarios: small stories that must come out right under every seed, each with its checker.
//!
//! A scenario builds a world from a seed, lets it run, and reports what it found. It never
//! panics on a violation: it says what went wrong, so that the seed can be printed and replayed.

pub mod atomics;
pub mod counter_calls;
pub mod racing_readers;
pub mod revocation;

use super::{FaultPlan, Stats, World, WorldOptions};
use crate::seam::{Random, Seeded};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The scenario.
    pub scenario: &'static str,
    /// The seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub trace: u64,
    /// What happened, counted.
    pub stats: Stats,
    /// What the checker counted: reads accepted, calls acknowledged and so on.
    pub checked: u64,
    /// What went wrong, if anything did.
    pub failure: Option<String>,
}

/// A scenario, by its name.
pub type Scenario = (&'static str, fn(u64) -> Report);

/// All of them.
pub const ALL: [Scenario; 4] = [
    ("racing-readers", racing_readers::run),
    ("counter-calls", counter_calls::run),
    ("atomics", atomics::run),
    ("revocation", revocation::run),
];

/// Collects what a scenario's tasks find. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Checker(Rc<RefCell<(u64, Option<String>)>>);

impl Checker {
    /// One more thing was checked and found right.
    pub fn count(&self) {
        self.0.borrow_mut().0 += 1;
    }

    /// Something is wrong; the first such finding is kept.
    pub fn fail(&self, why: impl FnOnce() -> String) {
        let mut state = self.0.borrow_mut();
        if state.1.is_none() {
            state.1 = Some(why());
        }
    }

    /// Fails unless `right`.
    pub fn check(&self, right: bool, why: impl FnOnce() -> String) {
        if !right {
            self.fail(why);
        }
    }

    /// Whether something has gone wrong already.
    pub fn failed(&self) -> bool {
        self.0.borrow().1.is_some()
    }

    fn report(&self, scenario: &'static str, world: &World) -> Report {
        let (checked, failure) = self.0.borrow().clone();
        let (seed, trace, stats) = (world.seed(), world.trace(), world.stats());
        Report { scenario, seed, trace, stats, checked, failure }
    }
}

/// A world of the kind that `seed` asks for: slow or fast, even or uneven, with faults or not.
fn options(random: &mut Seeded, faults: impl FnOnce(Duration) -> FaultPlan) -> WorldOptions {
    let mut options = WorldOptions::default();
    options.latency.1 = [2_000, 20_000, 200_000][random.below(3) as usize];
    options.late_per_million = [0, 5_000, 50_000][random.below(3) as usize];
    options.scheduling.1 = [200, 2_000, 50_000][random.below(3) as usize];
    options.operation.1 = [500, 4_000, 40_000][random.below(3) as usize];
    options.deadline = Duration::from_millis(2 + random.below(20));
    if random.below(4) != 0 {
        options.faults = faults(Duration::from_micros(300 + random.below(3_000)));
    }
    options
}

/// A time up to `micros` microseconds.
fn up_to(random: &mut Seeded, micros: u64) -> Duration {
    Duration::from_nanos(random.below(micros * 1_000 + 1))
}
