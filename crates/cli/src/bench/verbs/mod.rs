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
//! What stands beside them is perftest's, of the same two devices: `cargo xtask verbs` runs both in one
//! boot. Latencies are medians of single operations, as `ib_read_lat`'s are.
//!
//! Without `--at` a node is started for the run, on the first RDMA device that has an IPv4 address,
//! and the client comes from the last one. With it the node is one that was started elsewhere.

use std::io;
use std::time::{Duration, Instant};

pub(crate) mod fabric;
pub(crate) mod get;
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
