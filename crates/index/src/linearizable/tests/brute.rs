//! The same verdict by trying everything: every order, every choice of unknown outcomes.

use super::*;

/// Whether some order explains a small history. Shares nothing with the search but the history.
pub(super) fn is_explained(history: &History) -> bool {
    let mut left = history.operations.clone();
    let state = history.initial.map(|(value, _)| value);
    some_order(history, &mut left, state)
}

fn some_order(history: &History, left: &mut Vec<Operation>, state: Option<u64>) -> bool {
    if left.iter().all(|operation| operation.outcome == Outcome::Unknown) {
        return true;
    }
    if history.lossy && state.is_some() && some_order(history, left, None) {
        return true;
    }
    for at in 0..left.len() {
        let operation = left[at];
        let is_first =
            left.iter().all(|other| other.outcome == Outcome::Unknown || other.returned >= operation.invoked);
        if !is_first {
            continue;
        }
        let (outcome, after) = apply(history, &operation.call, state);
        if fits(&operation.outcome, &outcome) {
            left.swap_remove(at);
            let is_found = some_order(history, left, after);
            left.push(operation);
            let end = left.len() - 1;
            left.swap(at, end);
            if is_found {
                return true;
            }
        }
    }
    false
}

/// What an atomic key does. A version is the value's, plus a thousand.
pub(super) fn apply(_: &History, call: &Call, state: Option<u64>) -> (Outcome, Option<u64>) {
    let is_same = |expected: Expected| match (expected, state) {
        (_, None) => false,
        (Expected::Value(value), Some(state)) => value == state,
        (Expected::Version(version), Some(state)) => version == state + 1_000,
    };
    let done =
        |state: Option<u64>| (Outcome::Done { version: state.map_or(0, |value| value + 1_000) }, state);
    let refused = match state {
        None => (Outcome::Absent, state),
        Some(_) => (Outcome::Different, state),
    };
    match *call {
        Call::Get => match state {
            Some(value) => (Outcome::Found { value, version: value + 1_000 }, state),
            None => (Outcome::Absent, state),
        },
        Call::Put(value) => done(Some(value)),
        Call::Insert(value) if state.is_none() => done(Some(value)),
        Call::Delete if state.is_some() => done(None),
        Call::DeleteIf(expected) if is_same(expected) => done(None),
        Call::Swap { expected, new } if is_same(expected) => done(Some(new)),
        Call::Insert(_) | Call::Delete | Call::DeleteIf(_) | Call::Swap { .. } => refused,
    }
}

fn fits(recorded: &Outcome, real: &Outcome) -> bool {
    let told = |recorded: u64, real: u64| recorded == 0 || recorded == real;
    match (*recorded, *real) {
        (Outcome::Unknown, _) | (Outcome::NotDone, Outcome::Absent | Outcome::Different) => true,
        (Outcome::Done { version }, Outcome::Done { version: real }) => told(version, real),
        (Outcome::Found { value, version }, Outcome::Found { value: real_value, version: real }) => {
            value == real_value && told(version, real)
        }
        (recorded, real) => recorded == real,
    }
}
