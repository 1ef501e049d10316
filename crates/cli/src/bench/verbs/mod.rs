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
//! with ours (`cargo xtask verbs` does so); then the least disturbed third of the turns counts. Latencies are medians of
//! single operations, as `ib_read_lat`'s are.
//!
//! Without `--at` a node is started for the run, on the first RDMA device that has an IPv4 address,
//! and the client comes from the last one. With it the node is one that was started elsewhere.

use self::perftest::Tool;
use crate::bench::at::At;
use crate::report::Row;
use std::io;
use std::time::{Duration, Instant};

pub(crate) mod fabric;
pub(crate) mod get;
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
        Self { slice: self.slice / 4, repeats: 15 }
    }
}

/// One of so many turns counts, and at least so many do.
const QUIET_ONE_IN: usize = 3;
const QUIET_MIN: usize = 3;

/// Of figures that were measured in turn, those of the turns that were least disturbed: in which all of them together
/// were slowed the least. An emulated processor whose host has others to serve is slower by half, or twice as slow, for
/// a second or two, mostly in the middle of a turn: then one figure tells of it and the other does not.
///
/// A figure that is not there for every turn is left out. `time` is how long one of its operations takes.
fn quietest<const N: usize>(figures: [&[f64]; N], time: impl Fn(f64) -> f64) -> [Vec<f64>; N] {
    let turns = figures[0].len();
    let whole = figures.map(|each| if each.len() == turns { each } else { &[] });
    // What one takes stands beside what it takes at best: a long operation counts no more than a short one.
    let best = whole.map(|each| each.iter().map(|figure| time(*figure)).fold(f64::INFINITY, f64::min));
    let slowed = |turn: usize| -> f64 {
        let each = whole.iter().zip(best).filter_map(|(each, best)| Some(time(*each.get(turn)?) / best));
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
    figures: Vec<f64>,
}

impl<'a> Beside<'a> {
    fn new(tool: Tool, at: &'a At) -> Self {
        let command = match tool {
            Tool::ReadLat => at.read_lat.as_deref(),
            Tool::ReadBw => at.read_bw.as_deref(),
        };
        Self { tool, command, figures: Vec::new() }
    }

    /// Of what perftest has no word on.
    fn nothing() -> Self {
        Self { tool: Tool::ReadLat, command: None, figures: Vec::new() }
    }

    fn effort(&self, effort: Effort) -> Effort {
        if self.command.is_some() { effort.in_turn() } else { effort }
    }

    /// Its turn.
    fn measure(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(command) = self.command {
            self.figures.extend(self.tool.measure(command, bytes)?);
        }
        Ok(())
    }

    /// Puts `theirs`, of `reads` READs each, beside a row that was measured in turn with them.
    fn put(&self, row: Row, ours: &[f64], theirs: &[f64], bytes: usize, reads: f64) -> Row {
        // Where its clock does not work, it has nothing to say.
        if theirs.is_empty() {
            return row;
        }
        let name = match self.tool {
            Tool::ReadLat => format!("{reads:.0} x {} {bytes} B", self.tool.name()),
            Tool::ReadBw => format!("{} {bytes} B", self.tool.name()),
        };
        let theirs: Vec<f64> = theirs.iter().map(|each| each * reads).collect();
        row.beside_in_turn(name, ours, &theirs)
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
        // In the first two turns somebody else had the processor, for one of the two figures each.
        let (ours, theirs) = ([200.0, 100.0, 90.0, 91.0, 92.0], [50.0, 99.0, 45.0, 46.0, 47.0]);
        let [ours, theirs] = quietest([&ours, &theirs], |time| time);
        assert_eq!((ours, theirs), (vec![90.0, 91.0, 92.0], vec![45.0, 46.0, 47.0]));
        // Of rates the highest are undisturbed; what was not measured every time does not count.
        let [rates, none] = quietest([&[1.0, 9.0, 8.0, 7.0], &[3.0]], |rate| 1.0 / rate);
        assert_eq!((rates, none), (vec![9.0, 8.0, 7.0], vec![]));
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
