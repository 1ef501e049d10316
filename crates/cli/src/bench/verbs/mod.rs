//! `barn bench fabric --transport verbs` and `barn bench get --transport verbs`: RDMA.
//!
//! | row | ours |
//! |---|---|
//! | `verbs/read-N/blocking` | one READ of N bytes at a time: the median |
//! | `verbs/read-64/pipelined` | many READs at once on one thread |
//! | `verbs/rpc-ring/…`, `verbs/rpc-herd/…` | calls of 64 bytes by FaRM's ring, and in HERD's mode |
//! | `verbs/echo-send/…`, `verbs/echo-write/…` | bare echoes of 64 bytes, which the modes are made of (HERD, Figures 5 and 9) |
//! | `verbs/get/KIND/blocking` | one GET at a time, one-sidedly: the median |
//!
//! What stands beside them is perftest's, of the same two devices: with `--read-lat` and `--read-bw` its READs in turn
//! with ours (`cargo xtask verbs` does so); then the least disturbed turns count (`pace.rs`, `quietest_rates`). Latencies
//! are medians of single operations, as `ib_read_lat`'s are.
//!
//! Without `--at` a node is started for the run, on the first RDMA device that has an IPv4 address,
//! and the client comes from the last one. With it the node is one that was started elsewhere.

use self::perftest::Tool;
use crate::bench::at::At;
use std::io;
use std::time::{Duration, Instant};

pub(crate) mod fabric;
pub(crate) mod get;
mod pace;
mod perftest;
mod site;

pub use site::echo_node;
pub(crate) use site::ends;

/// How long and how often each figure is measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    slice: Duration,
    repeats: usize,
}

impl Effort {
    fn of(quick: bool) -> Self {
        // An emulated processor does some thousand READs a second: a slice needs hundreds for a median.
        let slice = Duration::from_millis(if quick { 400 } else { 2000 });
        Self { slice, repeats: 3 }
    }

    /// The same where ours and theirs take turns: more often, and each for a shorter time.
    fn in_turn(self) -> Self {
        Self { slice: self.slice / 4, repeats: 30 }
    }
}

/// One of so many turns of rates counts, and at least so many do, of latencies too.
const QUIET_ONE_IN: usize = 3;
const QUIET_MIN: usize = 3;

/// How long one of perftest's servers takes to be ready again, and more.
const SETTLE: Duration = Duration::from_millis(150);

/// Of rates that were measured in turn, those of the turns that were least disturbed: in which all of them together
/// were slowed the least. An emulated processor whose host has others to serve is slower by half, or twice as slow, for
/// a second or two, mostly in the middle of a turn: then one figure tells of it and the other does not.
///
/// A rate that is not there for every turn is left out.
fn quietest_rates<const N: usize>(rates: [&[f64]; N]) -> [Vec<f64>; N] {
    let turns = rates[0].len();
    let whole = rates.map(|each| if each.len() == turns { each } else { &[] });
    // Each beside its own best: what is fast counts no more than what is slow.
    let best = whole.map(|each| each.iter().copied().fold(0.0, f64::max));
    let slowed = |turn: usize| -> f64 {
        let each = whole.iter().zip(best).filter_map(|(each, best)| Some(best / each.get(turn)?));
        each.sum()
    };
    let mut order: Vec<usize> = (0..turns).collect();
    order.sort_by(|one, other| slowed(*one).total_cmp(&slowed(*other)));
    order.truncate((turns / QUIET_ONE_IN).max(QUIET_MIN));
    whole.map(|each| order.iter().filter_map(|turn| each.get(*turn).copied()).collect())
}

/// What one of perftest's tools says beside ours.
struct Beside<'a> {
    tool: Tool,
    /// The command, if one was given.
    command: Option<&'a str>,
}

impl<'a> Beside<'a> {
    fn new(tool: Tool, at: &'a At) -> Self {
        let command = match tool {
            Tool::ReadLat => at.read_lat.as_deref(),
            Tool::ReadBw => at.read_bw.as_deref(),
        };
        Self { tool, command }
    }

    /// Perftest was not given.
    #[cfg(test)]
    fn nothing() -> Self {
        Self { tool: Tool::ReadLat, command: None }
    }

    fn effort(&self, effort: Effort) -> Effort {
        if self.asked() { effort.in_turn() } else { effort }
    }

    fn asked(&self) -> bool {
        self.command.is_some()
    }

    /// Its turn; none if no command was given, or it has nothing to tell.
    fn measure(&self, bytes: usize) -> io::Result<Option<f64>> {
        self.command.map_or(Ok(None), |command| self.tool.measure(command, bytes))
    }

    /// Waits until its other end, which serves one client, has been started again and is idle.
    fn settle(&self) {
        if self.asked() {
            std::thread::sleep(SETTLE);
        }
    }

    /// What stands beside a row: its name, and `theirs` of so many READs each; nothing where its clock does not work.
    fn named(&self, theirs: &[f64], bytes: usize, reads: f64) -> Option<(String, Vec<f64>)> {
        if theirs.is_empty() {
            return None;
        }
        let name = match self.tool {
            Tool::ReadLat => format!("{reads:.0} x {} {bytes} B", self.tool.name()),
            Tool::ReadBw => format!("{} {bytes} B", self.tool.name()),
        };
        Some((name, theirs.iter().map(|each| each * reads).collect()))
    }
}

/// The median of how long `once` takes in a slice of time, in nanoseconds.
fn median(slice: Duration, mut once: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || start.elapsed() < slice {
        let before = Instant::now();
        once()?;
        times.push(before.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64() * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_disturbed_turns_count_for_all_that_were_measured_in_them() {
        // In the first two turns somebody else had the processor, for one of the two each.
        let (ours, theirs) = ([50.0, 99.0, 98.0, 97.0, 96.0], [40.0, 15.0, 39.0, 38.0, 37.0]);
        let [ours, theirs] = quietest_rates([&ours, &theirs]);
        assert_eq!((ours, theirs), (vec![98.0, 97.0, 96.0], vec![39.0, 38.0, 37.0]));
        let [rates, none] = quietest_rates([&[1.0, 9.0, 8.0, 7.0], &[3.0]]);
        assert_eq!((rates, none), (vec![9.0, 8.0, 7.0], vec![]), "what was not measured every time");
    }

    #[test]
    fn the_median_is_of_single_operations() {
        let mut calls = 0;
        let once = || {
            calls += 1;
            Ok(())
        };
        let found = median(Duration::ZERO, once).expect("nothing fails");
        assert!(found >= 0.0 && found.is_finite());
        assert_eq!(calls, 1, "one even where there is no time");
        assert!(median(Duration::ZERO, || Err(io::Error::other("gone"))).is_err());
    }
}
