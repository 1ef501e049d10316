//! The verdict on a history.

use super::operation::{Call, History, Operation, Outcome};
use super::prepare::{NameError, Names, Prepared};
use super::search::{Ended, Search};
use super::verdict::{Verdict, Violation, Why};

/// Operations that are shown around one that cannot be explained.
const AROUND_MAX: usize = 16;

/// How hard to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Guesses, before the search is given up.
    pub steps_max: u64,
}

impl Default for CheckOptions {
    /// 100 million guesses: about a minute.
    fn default() -> Self {
        Self { steps_max: 100_000_000 }
    }
}

/// Whether some order explains a history.
pub fn check(history: &History) -> Verdict {
    check_with(history, CheckOptions::default())
}

/// Whether some order explains a history.
pub fn check_with(history: &History, options: CheckOptions) -> Verdict {
    if let Some((operation, why)) = malformed(history) {
        return Verdict::Malformed { operation, why };
    }
    let names = match Names::new(history) {
        Ok(names) => names,
        Err(NameError::WrittenTwice(at)) => {
            let why = "its value was written before";
            return Verdict::Malformed { operation: history.operations[at], why };
        }
        Err(NameError::TwoVersions { operation, value, version }) => {
            let culprit = history.operations[operation];
            return violation(history, Why::TwoVersions { value, version }, culprit);
        }
    };
    match judge(history, &names, u64::MAX, options) {
        Judged::Explained => Verdict::Linearizable,
        Judged::GivenUp(steps) => Verdict::Undecided { steps },
        Judged::Unexplained(why, culprit) => shortest(history, &names, options, why, culprit),
    }
}

enum Judged {
    Explained,
    /// Why, and by which operation if one alone is to blame.
    Unexplained(Why, Option<usize>),
    GivenUp(u64),
}

fn judge(history: &History, names: &Names, until: u64, options: CheckOptions) -> Judged {
    let prepared = match Prepared::new(history, names, until) {
        Ok(prepared) => prepared,
        Err(impossible) => return Judged::Unexplained(impossible.why, Some(impossible.operation)),
    };
    let mut search = Search::new(&prepared);
    match search.run(options.steps_max) {
        Ended::Found => Judged::Explained,
        Ended::NotFound => Judged::Unexplained(Why::NoOrder, None),
        Ended::GivenUp => Judged::GivenUp(search.steps()),
    }
}

fn malformed(history: &History) -> Option<(Operation, &'static str)> {
    history.operations.iter().find_map(|operation| {
        let is_known = operation.outcome != Outcome::Unknown;
        if !operation.call.can_be(&operation.outcome) {
            Some((*operation, "there is no such outcome"))
        } else if is_known && operation.returned < operation.invoked {
            Some((*operation, "it returned before it was called"))
        } else {
            None
        }
    })
}

/// The earliest return by which the history cannot be explained. Whatever begins with something
/// unexplained is unexplained, so half of the returns can be ruled out at a time.
fn shortest(
    history: &History,
    names: &Names,
    options: CheckOptions,
    mut why: Why,
    mut to_blame: Option<usize>,
) -> Verdict {
    let known = history.operations.iter().filter(|operation| operation.outcome != Outcome::Unknown);
    let mut returns: Vec<u64> = known.map(|operation| operation.returned).collect();
    returns.sort_unstable();
    returns.dedup();
    let (mut low, mut high) = (0, returns.len().saturating_sub(1));
    while low < high {
        let middle = low + (high - low) / 2;
        match judge(history, names, returns[middle], options) {
            Judged::Unexplained(found, culprit) => (high, why, to_blame) = (middle, found, culprit),
            Judged::Explained | Judged::GivenUp(_) => low = middle + 1,
        }
    }
    let last = returns.get(high).copied().unwrap_or(u64::MAX);
    let at_last =
        |operation: &&Operation| operation.outcome != Outcome::Unknown && operation.returned == last;
    let blamed = to_blame.map(|at| &history.operations[at]).filter(at_last);
    match blamed.or_else(|| history.operations.iter().find(at_last)) {
        Some(&culprit) => violation(history, why, culprit),
        // Unknown operations alone are explained by never having happened.
        None => Verdict::Linearizable,
    }
}

fn violation(history: &History, why: Why, culprit: Operation) -> Verdict {
    let mut begun: Vec<Operation> =
        history.operations.iter().filter(|each| each.invoked <= culprit.returned).copied().collect();
    begun.sort_by_key(|each| (each.invoked, each.returned));
    let operations = begun.len();
    let seen = match (culprit.call, culprit.outcome) {
        (Call::Get, Outcome::Found { value, .. }) => Some(value),
        _ => None,
    };
    // The latest to end tell most; who is still under way counts as ending now.
    let mut latest: Vec<usize> = (0..begun.len()).filter(|&at| begun[at] != culprit).collect();
    latest.sort_by_key(|&at| std::cmp::Reverse((begun[at].returned.min(culprit.returned), at)));
    let is_writer = |at: &usize| seen.is_some() && begun[*at].call.writes() == seen;
    let writers = (0..begun.len()).filter(is_writer);
    let own = (0..begun.len()).find(|&at| begun[at] == culprit);
    let mut shown: Vec<usize> = writers.chain(own).chain(latest.iter().copied()).take(AROUND_MAX).collect();
    shown.sort_unstable();
    shown.dedup();
    let around = shown.into_iter().map(|at| begun[at]).collect();
    Verdict::Violation(Box::new(Violation { why, culprit, operations, around }))
}
