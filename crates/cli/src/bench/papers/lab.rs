//! What the studies of a run share: how much is measured, and what has been.

use std::io;
use std::time::Duration;

use super::claim::Paper;
use super::crowd::{self, Crowd};
use super::values::Values;
use crate::bench::timing::Effort;
use crate::plot::Plot;
use crate::report::{Report, Spread};

/// One run.
pub(super) struct Lab<'a> {
    pub(super) quick: bool,
    pub(super) values: Values,
    pub(super) plots: Vec<(Paper, Plot)>,
    /// Stores that are not installed, and what brings them.
    pub(super) absent: Vec<String>,
    /// Studies that failed, and why.
    pub(super) failed: Vec<String>,
    /// Benchmarks that have been run already.
    known: &'a [&'a Report],
}

impl<'a> Lab<'a> {
    pub(super) fn new(quick: bool, known: &'a [&'a Report]) -> Self {
        Self {
            quick,
            values: Values::default(),
            plots: Vec::new(),
            absent: Vec::new(),
            failed: Vec::new(),
            known,
        }
    }

    /// How long and how often everything is measured.
    pub(super) fn effort(&self) -> Effort {
        match self.quick {
            true => Effort { slice: Duration::from_millis(25), repeats: 3 },
            false => Effort { slice: Duration::from_millis(150), repeats: 7 },
        }
    }

    /// Keys of a table: more than a cache holds, and in a short run few enough that loading is short.
    pub(super) fn keys(&self) -> u32 {
        if self.quick { 50_000 } else { 400_000 }
    }

    /// Every one of `all`, or in a short run those at the given places.
    pub(super) fn some<T: Copy>(&self, all: &[T], quick: &[usize]) -> Vec<T> {
        match self.quick {
            true => quick.iter().filter_map(|at| all.get(*at)).copied().collect(),
            false => all.to_vec(),
        }
    }

    /// The rows of another benchmark as values: those of this process if it ran already, else it runs now.
    pub(super) fn take(
        &mut self,
        bench: &str,
        run: impl FnOnce() -> io::Result<Report>,
    ) -> io::Result<Report> {
        let report = match self.known.iter().find(|report| report.bench == bench) {
            Some(report) => (*report).clone(),
            None => run()?,
        };
        self.values.take(&report);
        Ok(report)
    }

    /// Measures in turn, and keeps the rates under the crowds' names; gives their spreads in order.
    pub(super) fn measure(&mut self, mut crowds: Vec<Crowd>) -> io::Result<Vec<Spread>> {
        let rates = crowd::in_turn(self.effort(), &mut crowds)?;
        let spreads = rates.iter().map(|rates| Spread::of(rates)).collect();
        for (crowd, rates) in crowds.into_iter().zip(rates) {
            self.values.set(crowd.name, rates);
        }
        Ok(spreads)
    }

    /// The spread of a value that may have been measured.
    pub(super) fn spread(&self, name: &str) -> Option<Spread> {
        self.values.get(name).map(Spread::of)
    }

    /// Adds a figure of a paper.
    pub(super) fn draw(&mut self, paper: Paper, plot: Plot) {
        self.plots.push((paper, plot));
    }
}
