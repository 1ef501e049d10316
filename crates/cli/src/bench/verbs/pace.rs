//! Latencies in turn, each beside how fast the machine was at that moment.
//!
//! An emulated processor has two speeds: while its host's other half of a core is somebody else's it is slower by half,
//! for a fifth of a second or for minutes. Whichever of two series had more of the slow moments would look the slower
//! one. So READs of ours are timed right before and right after each measurement, of ours and of perftest's alike, and
//! only those count between which the machine had the best speed that it had at all.

use std::io;
use std::time::Duration;

use super::{Beside, Effort, QUIET_MIN, median};

/// How long READs are timed for the machine's speed: a few hundred of them.
const PACE: Duration = Duration::from_millis(30);
/// A measurement counts if READs beside it took at most so much longer than the fastest ones.
const SLOWER_MAX: f64 = 1.15;
/// Turns go on until so many of each series count, within these bounds.
const COUNTED: usize = 7;
const TURNS_MIN: usize = 15;
const TURNS_MAX: usize = 40;

/// What was measured, of the turns that count.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) ours: Vec<f64>,
    /// Perftest's; none where it was not asked, or could not tell.
    pub(super) theirs: Vec<f64>,
    /// Single READs of ours, beside ours.
    pub(super) reads: Vec<f64>,
    pub(super) turns: usize,
}

/// Measurements of one thing, each with the slower one of the speeds before and after it.
#[derive(Debug, Default)]
struct Series(Vec<(f64, f64)>);

impl Series {
    /// Those at the machine's best speed, and at least some: of those at the best speeds there were.
    fn counted(&self, best: f64) -> Vec<(f64, f64)> {
        let mut turns = self.0.clone();
        turns.sort_by(|one, other| one.1.total_cmp(&other.1));
        let fast = turns.partition_point(|(_, pace)| *pace <= best * SLOWER_MAX);
        turns.truncate(fast.max(QUIET_MIN));
        turns
    }

    fn suffices(&self, best: f64) -> bool {
        self.0.iter().filter(|(_, pace)| *pace <= best * SLOWER_MAX).count() >= COUNTED
    }
}

/// The machine's speed: how long a READ takes, and the least that one ever took.
struct Pace<R> {
    read: R,
    best: f64,
}

impl<R: FnMut() -> io::Result<()>> Pace<R> {
    fn now(&mut self) -> io::Result<f64> {
        let now = median(PACE, &mut self.read)?;
        self.best = self.best.min(now);
        Ok(now)
    }

    /// What `once` finds, and how fast the machine was around it.
    fn around<T>(&mut self, once: impl FnOnce() -> io::Result<T>) -> io::Result<(T, f64)> {
        let before = self.now()?;
        let found = once()?;
        Ok((found, before.max(self.now()?)))
    }
}

/// Times `ours` and perftest's READs of so many bytes in turn; `read` is one READ of ours of the same size.
pub(super) fn in_turn(
    effort: Effort,
    beside: (&Beside<'_>, usize),
    mut ours: impl FnMut() -> io::Result<()>,
    read: impl FnMut() -> io::Result<()>,
) -> io::Result<Measured> {
    let (perftest, bytes) = beside;
    let mut pace = Pace { read, best: f64::INFINITY };
    let (mut of_ours, mut of_theirs, mut turns) = (Series::default(), Series::default(), 0);
    let enough = |turns, best, ours: &Series, theirs: &Series| {
        turns >= TURNS_MAX || turns >= TURNS_MIN && ours.suffices(best) && theirs.suffices(best)
    };
    while !enough(turns, pace.best, &of_ours, &of_theirs) {
        of_ours.0.push(pace.around(|| median(effort.slice, &mut ours))?);
        if !perftest.asked() && of_ours.0.len() >= effort.repeats {
            break;
        }
        perftest.settle();
        if let (Some(theirs), pace) = pace.around(|| perftest.measure(bytes))? {
            of_theirs.0.push((theirs, pace));
        }
        turns += 1;
    }
    let (ours, reads) = of_ours.counted(pace.best).into_iter().unzip();
    let theirs = of_theirs.counted(pace.best).into_iter().map(|(figure, _)| figure).collect();
    Ok(Measured { ours, theirs, reads, turns: of_ours.0.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_at_the_best_speed_counts() {
        let slow = |figure: f64| (figure, 120.0);
        let fast = |figure: f64| (figure, 75.0);
        let turns = Series(vec![slow(160.0), fast(96.0), fast(95.0), slow(90.0), fast(180.0)]);
        let figures = |counted: Vec<(f64, f64)>| counted.into_iter().map(|(figure, _)| figure);
        let counted: Vec<f64> = figures(turns.counted(74.0)).collect();
        assert_eq!(counted, [96.0, 95.0, 180.0], "whatever they are themselves");
        assert!(!turns.suffices(74.0), "three");
        assert!(Series(vec![fast(1.0); COUNTED]).suffices(74.0));
        assert_eq!(turns.counted(60.0).len(), QUIET_MIN, "the best there were");
        assert!(Series::default().counted(60.0).is_empty());
    }

    #[test]
    fn turns_end_and_the_first_error_ends_them() {
        let effort = Effort { slice: Duration::ZERO, repeats: 3 };
        let fine = || Ok(());
        let measured = in_turn(effort, (&Beside::nothing(), 8), fine, fine).expect("nothing fails");
        assert_eq!((measured.turns, measured.theirs.len()), (3, 0));
        assert!(
            (QUIET_MIN..=3).contains(&measured.ours.len()) && measured.ours.len() == measured.reads.len()
        );
        let gone = || Err(io::Error::other("gone"));
        assert!(in_turn(effort, (&Beside::nothing(), 8), gone, fine).is_err());
        assert!(in_turn(effort, (&Beside::nothing(), 8), fine, gone).is_err());
    }
}
