//! Moments in which a core is all ours.
//!
//! A virtual core is often half of a real one, and whoever has the other half comes and goes within milliseconds:
//! then everything takes one and a half to twice as long, and neither the load nor the hypervisor's steal says so. So
//! a thread on each core does a fixed piece of work every few milliseconds, made such that it needs the whole core,
//! and a sample that was taken while that took clearly longer is taken again.
//!
//! What always holds: a sample is never taken more than [`TRIES`] times, and taking samples again costs at most a
//! third of the time of taking them, and two seconds; of those tries the least disturbed counts, whatever it says.
//! Before [`watch`] nobody looks, and a sample is taken once.

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use barn_layout::planted;
use serde::Serialize;

use crate::bench::timing::pin;
use crate::report::Spread;

/// Times that a sample is taken at most.
pub(crate) const TRIES: usize = 4;
/// A sample is disturbed if the fixed work took so much longer than at best. Clocks, and caches that another program
/// has just used, make a quarter of difference at most; a neighbour on the same core makes a half and more.
const DISTURBED: f64 = 0.4;
/// How often each core is looked at: then a look is 0.1 % of its time.
const EVERY: Duration = Duration::from_millis(4);
/// Steps of the fixed work, each of some twenty instructions: about 4 µs.
const STEPS: u64 = 1_500;
/// Two that share a core have half of it each: whatever makes it slower than this is no neighbour.
const SLOWED_MAX: f64 = 1.0;
/// Cores that are looked at.
const CORES_MAX: usize = 16;
/// Tries that a run may have before there is anything to compare their time with.
const HEAD_START: Duration = Duration::from_secs(2);

/// What was seen of the cores, and done about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Disturbance {
    /// Looks at the cores.
    pub looks: u64,
    /// The part of them at which a core was slower than at best by [`DISTURBED`] or more.
    pub slowed_part: f64,
    /// Samples that were taken, and count.
    pub samples: u64,
    /// How often one was taken again.
    pub again: u64,
    /// Samples that count and were disturbed all the same.
    pub disturbed: u64,
    /// By how much those that count were slowed, on average.
    pub slowed_by: f64,
}

/// One look: when, and how long the fixed work took, in nanoseconds.
type Look = (Instant, f64);

/// All that is known.
#[derive(Debug, Default)]
struct Seen {
    /// By core.
    looks: Vec<Vec<Look>>,
    /// The shortest of each core.
    best: Vec<f64>,
    taken: Taken,
}

/// What samples cost so far.
#[derive(Debug, Default)]
struct Taken {
    first: Duration,
    again: Duration,
    tries: u64,
    /// By how much each sample that counts was slowed.
    kept: Vec<f64>,
}

static SEEN: OnceLock<Mutex<Seen>> = OnceLock::new();

/// Looks at every core that this thread may use from now on.
pub fn watch() {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let cores: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).take(CORES_MAX).collect();
    let nothing = Seen {
        looks: vec![Vec::new(); cores.len()],
        best: vec![f64::INFINITY; cores.len()],
        ..Seen::default()
    };
    if SEEN.set(Mutex::new(nothing)).is_err() {
        return;
    }
    for (number, core) in cores.into_iter().enumerate() {
        let look = move || {
            pin(None, core);
            loop {
                std::thread::sleep(EVERY);
                let took = fixed_work();
                if let Some(mut seen) = seen() {
                    seen.looked(number, (Instant::now(), took));
                }
            }
        };
        // Without it a core is not looked at, and counts as quiet.
        let _ = std::thread::Builder::new().name("bench-quiet".into()).spawn(look);
    }
}

fn seen() -> Option<MutexGuard<'static, Seen>> {
    SEEN.get().map(|seen| seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Nanoseconds for work that keeps a core's units busy, and touches no memory.
fn fixed_work() -> f64 {
    let start = Instant::now();
    let mut lanes = black_box([1u64, 2, 3, 4]);
    for step in 0..STEPS {
        for lane in &mut lanes {
            *lane = (*lane ^ step).rotate_left(7).wrapping_add(step);
        }
        // Or it would be done for many steps at once.
        lanes = black_box(lanes);
    }
    black_box(lanes);
    start.elapsed().as_secs_f64() * 1e9
}

/// Takes a sample, and takes it again if it was disturbed. The first failure ends it.
pub(crate) fn sample<T, E>(mut take: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let mut tries = 0;
    let (slowed, value) = least_disturbed(|| {
        let start = Instant::now();
        let value = take()?;
        let took = start.elapsed();
        let Some(mut seen) = seen() else { return Ok(Try { slowed: 0.0, value, is_last: true }) };
        seen.taken.add(tries, took);
        tries += 1;
        Ok(Try { slowed: seen.slowed_since(start), value, is_last: !seen.taken.affords(took) })
    })?;
    if let Some(mut seen) = seen() {
        seen.taken.kept.push(slowed);
    }
    Ok(value)
}

/// One time that a sample was taken.
struct Try<T> {
    slowed: f64,
    value: T,
    /// There is no time for another.
    is_last: bool,
}

/// Takes it until it is not disturbed, or was taken often enough; gives the least disturbed.
fn least_disturbed<T, E>(mut take: impl FnMut() -> Result<Try<T>, E>) -> Result<(f64, T), E> {
    let Try { mut slowed, mut value, mut is_last } = take()?;
    for _ in 1..TRIES {
        if slowed < DISTURBED || is_last || planted("bench_keeps_disturbed") {
            break;
        }
        let next = take()?;
        is_last = next.is_last;
        if next.slowed < slowed {
            (slowed, value) = (next.slowed, next.value);
        }
    }
    Ok((slowed, value))
}

/// The same of what cannot fail.
pub(crate) fn sample_plainly<T>(mut take: impl FnMut() -> T) -> T {
    let Ok(value) = sample(|| Ok::<T, std::convert::Infallible>(take()));
    value
}

/// Where the run is: for [`since`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    at: Instant,
    samples: usize,
    tries: u64,
}

/// From here on.
pub(crate) fn mark() -> Mark {
    let (samples, tries) = seen().map_or((0, 0), |seen| (seen.taken.kept.len(), seen.taken.tries));
    Mark { at: Instant::now(), samples, tries }
}

/// What was seen and done since then; nothing if nobody looks.
pub(crate) fn since(mark: Mark) -> Option<Disturbance> {
    seen().map(|seen| seen.since(mark))
}

/// What was seen and done in all; nothing if nobody looks.
pub fn all() -> Option<Disturbance> {
    let seen = seen()?;
    let first = seen.looks.iter().filter_map(|looks| looks.first()).map(|(at, _)| *at).min();
    Some(seen.since(Mark { at: first.unwrap_or_else(Instant::now), samples: 0, tries: 0 }))
}

impl Seen {
    fn looked(&mut self, core: usize, look: Look) {
        self.best[core] = self.best[core].min(look.1);
        self.looks[core].push(look);
    }

    /// Looks at a core since then.
    fn recent(&self, core: usize, since: Instant) -> &[Look] {
        let looks = &self.looks[core];
        &looks[looks.partition_point(|(at, _)| *at < since)..]
    }

    /// By how much the slower of the cores was slowed since then: the middle of its looks counts, so that an
    /// interrupt does not.
    fn slowed_since(&self, since: Instant) -> f64 {
        let slowed = |core: usize| {
            let times: Vec<f64> = self.recent(core, since).iter().map(|(_, took)| *took).collect();
            if times.is_empty() { 0.0 } else { Spread::of(&times).median / self.best[core] - 1.0 }
        };
        (0..self.looks.len()).map(slowed).fold(0.0, f64::max).min(SLOWED_MAX)
    }

    fn since(&self, mark: Mark) -> Disturbance {
        let (mut looks, mut slowed) = (0, 0);
        for core in 0..self.looks.len() {
            let recent = self.recent(core, mark.at);
            looks += recent.len() as u64;
            let past = (1.0 + DISTURBED) * self.best[core];
            slowed += recent.iter().filter(|(_, took)| *took >= past).count() as u64;
        }
        let kept = &self.taken.kept[mark.samples..];
        Disturbance {
            looks,
            slowed_part: slowed as f64 / looks.max(1) as f64,
            samples: kept.len() as u64,
            again: (self.taken.tries - mark.tries).saturating_sub(kept.len() as u64),
            disturbed: kept.iter().filter(|slowed| **slowed >= DISTURBED).count() as u64,
            slowed_by: kept.iter().sum::<f64>() / kept.len().max(1) as f64,
        }
    }
}

impl Taken {
    fn add(&mut self, number: usize, took: Duration) {
        self.tries += 1;
        if number == 0 {
            self.first += took;
        } else {
            self.again += took;
        }
    }

    /// Whether there is time for one more that takes so long.
    fn affords(&self, took: Duration) -> bool {
        self.again + took <= self.first / 3 + HEAD_START
    }
}

impl Disturbance {
    /// In one line, for people.
    pub fn summary(&self) -> String {
        let slowed = self.slowed_part * 100.0;
        let Self { looks, samples, again, disturbed, .. } = self;
        format!(
            "others on the same cores slowed them at {slowed:.0} % of {looks} looks; {samples} samples, {again} taken \
             again, {disturbed} disturbed all the same"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A run of looks at two cores, a millisecond apart; the second is slow from the tenth on.
    fn half_slowed(start: Instant) -> Seen {
        let mut seen = Seen { looks: vec![Vec::new(); 2], best: vec![f64::INFINITY; 2], ..Seen::default() };
        for look in 0..20u32 {
            let slow = if look < 10 { 5000.0 } else { 8000.0 };
            seen.looked(0, (start + MS * look, 6000.0 + f64::from(look)));
            seen.looked(1, (start + MS * look, slow));
        }
        seen
    }

    #[test]
    fn a_core_that_is_slower_than_it_was_at_best_is_disturbed_and_an_interrupt_does_not_count() {
        let start = Instant::now();
        let mut seen = half_slowed(start);
        assert!((seen.slowed_since(start + MS * 10) - 0.6).abs() < 1e-9, "the second core is slow");
        let later = start + MS * 100;
        assert_eq!(seen.slowed_since(later), 0.0, "nobody has looked since");
        seen.looked(0, (later, 60_000.0));
        assert_eq!(seen.slowed_since(later), SLOWED_MAX, "no neighbour takes more than half");
        let later = later + MS;
        for (look, took) in [5000.0, 90_000.0, 5000.0].into_iter().enumerate() {
            seen.looked(1, (later + MS * look as u32, took));
        }
        assert_eq!(seen.slowed_since(later), 0.0, "one of three");
    }

    #[test]
    fn a_disturbed_sample_is_taken_again_and_the_least_disturbed_counts() {
        let taken = |slowed: &[f64], last: usize| {
            let mut tries = slowed.iter().enumerate();
            let (_, value) = least_disturbed(|| {
                let (value, slowed) = tries.next().ok_or("taken too often")?;
                Ok::<_, &str>(Try { slowed: *slowed, value, is_last: value == last })
            })?;
            Ok::<_, &str>((value, tries.len()))
        };
        assert_eq!(taken(&[0.1, 0.0], 9), Ok((0, 1)), "the first will do");
        assert_eq!(taken(&[0.9, 0.6, 0.1, 0.0], 9), Ok((2, 1)));
        assert_eq!(taken(&[0.9, 0.6, 0.8, 0.7, 0.0], 9), Ok((1, 1)), "never more than {TRIES} times");
        assert_eq!(taken(&[0.9, 0.6, 0.0], 1), Ok((1, 1)), "there is no more time");
    }

    #[test]
    fn what_was_seen_and_done_is_counted_from_a_mark_on() {
        let start = Instant::now();
        let mut seen = half_slowed(start);
        for (number, took) in [(0, 10), (1, 10), (0, 10)] {
            seen.taken.add(number, MS * took);
        }
        seen.taken.kept = vec![0.6, 0.01];
        let all = seen.since(Mark { at: start, samples: 0, tries: 0 });
        assert_eq!((all.looks, all.slowed_part), (40, 0.25), "from the tenth on, one of two");
        assert_eq!((all.samples, all.again, all.disturbed, all.slowed_by), (2, 1, 1, 0.305));
        let later = seen.since(Mark { at: start + MS * 10, samples: 1, tries: 2 });
        assert_eq!((later.looks, later.slowed_part), (20, 0.5));
        assert_eq!((later.samples, later.again, later.disturbed), (1, 0, 0));
        assert!(all.summary().contains("25 % of 40 looks; 2 samples, 1 taken again, 1 disturbed"));
    }

    #[test]
    fn taking_samples_again_takes_no_more_than_a_third_of_the_time_of_taking_them() {
        let second = Duration::from_secs(1);
        let mut taken = Taken::default();
        taken.add(0, 3 * second);
        assert!(taken.affords(3 * second) && !taken.affords(4 * second));
        taken.add(1, 3 * second);
        assert!(!taken.affords(second));
        taken.add(0, 3 * second);
        assert!(taken.affords(second) && !taken.affords(2 * second));
    }

    #[test]
    fn cores_are_looked_at_and_a_failure_ends_a_sample() {
        watch();
        let mark = mark();
        let slept = sample_plainly(|| {
            std::thread::sleep(EVERY * 20);
            7
        });
        let seen = since(mark).expect("somebody looks");
        assert_eq!(slept, 7);
        assert!(seen.looks > 0 && seen.samples >= 1, "{seen:?}");
        let mut taken = 0;
        let failed = sample(|| {
            taken += 1;
            Err::<(), _>("broken")
        });
        assert_eq!((failed, taken), (Err("broken"), 1));
    }
}
