//! Timing that a noisy machine disturbs as little as possible.

use std::time::{Duration, Instant};

use crate::bench::quiet::sample_plainly;

/// How long and how often each figure is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// How long one repeat lasts, about.
    pub(crate) slice: Duration,
    /// How many repeats.
    pub(crate) repeats: usize,
}

/// Runs `batch(n)` with growing `n` until it lasts about a slice; gives nanoseconds per operation.
pub(crate) fn nanoseconds_each(slice: Duration, mut batch: impl FnMut(usize)) -> f64 {
    // Not one by one: a single operation that met a busy moment is no figure.
    let mut count = 8;
    loop {
        let start = Instant::now();
        batch(count);
        let took = start.elapsed();
        if took >= slice / 2 || count >= 1 << 26 {
            return took.as_secs_f64() * 1e9 / count as f64;
        }
        let scale = slice.as_secs_f64() / took.as_secs_f64().max(1e-7);
        count = ((count as f64 * scale.clamp(2.0, 64.0)) as usize).max(count + 1);
    }
}

/// Ours and theirs in turn, so that a noisy moment hits both.
pub(crate) fn in_turn(
    effort: Effort,
    mut ours: impl FnMut(usize),
    mut theirs: impl FnMut(usize),
) -> (Vec<f64>, Vec<f64>) {
    let (mut our_samples, mut their_samples) = (Vec::new(), Vec::new());
    for _ in 0..effort.repeats {
        our_samples.push(sample_plainly(|| nanoseconds_each(effort.slice, &mut ours)));
        their_samples.push(sample_plainly(|| nanoseconds_each(effort.slice, &mut theirs)));
    }
    (our_samples, their_samples)
}

/// Nanoseconds per operation as operations a second.
pub(crate) fn rates(nanoseconds: &[f64]) -> Vec<f64> {
    nanoseconds.iter().map(|each| 1e9 / each).collect()
}

/// Keeps a process, or this thread, on one core: each side has its own.
pub(crate) fn pin(process: Option<rustix::process::Pid>, core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    // A machine with one core, or not being allowed to, is no reason not to measure.
    let _ = rustix::thread::sched_setaffinity(process, &cores);
}

/// Where this thread may run, kept: dropped, it may run there again, whatever it was pinned to meanwhile.
pub(crate) struct Affinity(Option<rustix::thread::CpuSet>);

impl Affinity {
    /// As it is now.
    pub(crate) fn keep() -> Self {
        Self(rustix::thread::sched_getaffinity(None).ok())
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        if let Some(cores) = &self.0 {
            let _ = rustix::thread::sched_setaffinity(None, cores);
        }
    }
}

/// Seconds of CPU that a process has used so far, over all its threads.
pub(crate) fn cpu_seconds(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    // To the nanosecond where the kernel keeps it; the threads of a server live as long as it does.
    let each: Option<Vec<u64>> = threads
        .map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        })
        .collect();
    if let Some(each) = each.filter(|each| !each.is_empty()) {
        return each.iter().sum::<u64>() as f64 / 1e9;
    }
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in brackets, may hold spaces; the times are the 12th and 13th after it.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after.split_whitespace().skip(11).take(2).filter_map(|time| time.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
