//! What a machine's facts mean for Barn: each one judged, explained, and given its fix.
//!
//! What always holds: every finding says why it matters; whatever is not `good` and can be
//! changed carries the exact command that changes it; nothing here changes anything.

use serde::Serialize;

use crate::machine::{Machine, Source};

mod huge_pages;
mod kernel;
mod memory;
mod print;
mod processor;
mod rdma;

pub use print::print;

/// How a finding bears on Barn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Good,
    /// Worth knowing; nothing is lost today.
    Note,
    /// Barn is slower, smaller or less safe than it could be here.
    Limits,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The heading that it stands under.
    pub group: &'static str,
    /// What was looked at; stable, for scripts.
    pub name: &'static str,
    /// How it bears on Barn.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// Why it matters to Barn, in one line.
    pub why: &'static str,
    /// The exact command that improves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    fn new(
        group: &'static str,
        name: &'static str,
        status: Status,
        found: impl Into<String>,
        why: &'static str,
    ) -> Self {
        Self { group, name, status, found: found.into(), why, fix: None }
    }

    /// Adds the fix, unless there is nothing to be fixed.
    fn fix(mut self, command: impl Into<String>) -> Self {
        if self.status != Status::Good {
            self.fix = Some(command.into());
        }
        self
    }
}

/// A machine, and everything found on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The facts that benchmarks carry, too.
    pub machine: Machine,
    /// The findings, grouped.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// How many findings have this status.
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }
}

/// Examines the machine that `source` shows.
pub fn examine(source: &Source) -> Diagnosis {
    let machine = Machine::read(source);
    let checks = [
        processor::checks(source, &machine),
        memory::checks(source, &machine),
        huge_pages::checks(&machine),
        kernel::checks(source),
        rdma::checks(source),
    ]
    .concat();
    Diagnosis { machine, checks }
}

#[cfg(test)]
mod tests;
