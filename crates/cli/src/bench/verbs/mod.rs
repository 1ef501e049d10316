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
//! What stands beside them is perftest's, of the same two devices: with `--read-lat` its READs in turn with ours
//! (`cargo xtask verbs` does so). Latencies are medians of single operations, as `ib_read_lat`'s are.
//!
//! Without `--at` a node is started for the run, on the first RDMA device that has an IPv4 address,
//! and the client comes from the last one. With it the node is one that was started elsewhere.

use crate::bench::at::At;
use crate::report::Row;
use std::io;
use std::time::{Duration, Instant};

pub(crate) mod fabric;
pub(crate) mod get;
mod read_lat;
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
        Self { slice: self.slice / 2, repeats: 7 }
    }
}

/// What `ib_read_lat` says beside ours.
#[derive(Default)]
struct Beside<'a> {
    /// The command, if one was given.
    command: Option<&'a str>,
    times: Vec<f64>,
}

impl<'a> Beside<'a> {
    fn of(at: &'a At) -> Self {
        Self { command: at.read_lat.as_deref(), times: Vec::new() }
    }

    fn effort(&self, effort: Effort) -> Effort {
        if self.command.is_some() { effort.in_turn() } else { effort }
    }

    /// Its turn.
    fn measure(&mut self, bytes: usize) -> io::Result<()> {
        if let Some(command) = self.command {
            self.times.extend(read_lat::typical_ns(command, bytes)?);
        }
        Ok(())
    }

    /// Puts `reads` of its READs beside a row that was measured in turn with them.
    fn put(&self, row: Row, ours: &[f64], bytes: usize, reads: f64) -> Row {
        // Where its clock does not work, it has nothing to say.
        if self.times.len() != ours.len() {
            return row;
        }
        let theirs: Vec<f64> = self.times.iter().map(|each| each * reads).collect();
        row.beside_in_turn(format!("{reads:.0} x ib_read_lat {bytes} B"), ours, &theirs)
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
