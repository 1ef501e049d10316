//! Histories made by an atomic key, and the same with something changed.

use super::*;

/// What a history is made of.
struct Mix {
    operations: u64,
    /// Of clients, one operation each at a time.
    clients: u64,
    gets_percent: u64,
    unknown_percent: u64,
    lossy: bool,
}

/// Operations that happen at moments 10 apart, each within its client's interval around it.
fn run(random: &mut Random, mix: &Mix) -> History {
    let initial = random.chance(50).then_some((1, 1_001));
    let mut history = History { initial, lossy: mix.lossy, operations: Vec::new() };
    let mut state = initial.map(|(value, _)| value);
    let mut free = vec![0; mix.clients as usize];
    for number in 0..mix.operations {
        let moment = 10 * (number + 1);
        let client = random.below(mix.clients);
        let invoked =
            moment.saturating_sub(random.below(10 * mix.clients)).max(free[client as usize]).min(moment);
        let returned = moment + random.below(10 * mix.clients);
        free[client as usize] = returned + 1;
        let call = call(random, mix, state, number + 2);
        if mix.lossy && random.chance(5) {
            state = None;
        }
        let is_unknown = random.chance(mix.unknown_percent);
        let (mut outcome, after) = brute::apply(&history, &call, state);
        if !is_unknown || random.chance(50) {
            state = after;
        }
        if is_unknown {
            outcome = Outcome::Unknown;
        } else if matches!(outcome, Outcome::Absent | Outcome::Different)
            && call != Call::Get
            && random.chance(30)
        {
            outcome = Outcome::NotDone;
        }
        history.operations.push(Operation { client: client as u32, call, outcome, invoked, returned });
    }
    history
}

fn call(random: &mut Random, mix: &Mix, state: Option<u64>, new: u64) -> Call {
    if random.chance(mix.gets_percent) {
        return Call::Get;
    }
    let guess = if random.chance(60) { state.unwrap_or(1) } else { 1 + random.below(new - 1) };
    let expected = if random.chance(50) { Expected::Value(guess) } else { Expected::Version(guess + 1_000) };
    match random.below(10) {
        0..4 => Call::Put(new),
        4..6 => Call::Insert(new),
        6 => Call::Delete,
        7 => Call::DeleteIf(expected),
        _ => Call::Swap { expected, new },
    }
}

/// Changes an outcome or a time of one operation.
fn change(random: &mut Random, history: &mut History) {
    let written: Vec<u64> =
        history.operations.iter().filter_map(|each| each.call.writes()).chain([1]).collect();
    let at = random.below(history.operations.len() as u64) as usize;
    let operation = &mut history.operations[at];
    match random.below(3) {
        0 => {
            let shift = random.below(60);
            operation.invoked += shift;
            operation.returned += shift;
        }
        1 => operation.returned = operation.invoked + random.below(10),
        _ => {
            let value = written[random.below(written.len() as u64) as usize];
            operation.outcome = match operation.call {
                Call::Get if random.chance(70) => Outcome::Found { value, version: 0 },
                Call::Get => Outcome::Absent,
                Call::Put(_) => Outcome::Unknown,
                _ if random.chance(50) => Outcome::Done { version: 0 },
                _ => Outcome::NotDone,
            };
        }
    }
}

/// A version that nobody was told of is none to the search, while the brute one knows all versions.
fn name_untold_versions(history: &mut History) {
    let told: Vec<u64> = history
        .operations
        .iter()
        .filter_map(|operation| match operation.outcome {
            Outcome::Found { version, .. } | Outcome::Done { version } => Some(version),
            _ => None,
        })
        .chain(history.initial.map(|(_, version)| version))
        .collect();
    for operation in &mut history.operations {
        if let Call::DeleteIf(expected) | Call::Swap { expected, .. } = &mut operation.call
            && let Expected::Version(version) = *expected
            && !told.contains(&version)
        {
            *expected = Expected::Value(version - 1_000);
        }
    }
}

/// What had happened before a moment.
fn before(history: &History, moment: u64) -> History {
    let mut history = history.clone();
    history.operations.retain(|operation| operation.invoked < moment);
    for operation in &mut history.operations {
        if operation.returned >= moment {
            operation.outcome = Outcome::Unknown;
        }
    }
    history
}

#[test]
fn small_histories_are_judged_as_by_trying_everything() {
    let mut random = Random(0x5eed);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..30_000 {
        let mix = Mix {
            operations: 2 + random.below(6),
            clients: 1 + random.below(5),
            gets_percent: [20, 50][round % 2],
            unknown_percent: [0, 10, 30][round % 3],
            lossy: round % 5 == 0,
        };
        let mut history = run(&mut random, &mix);
        for _ in 0..random.below(5) {
            change(&mut random, &mut history);
        }
        name_untold_versions(&mut history);
        let is_right = brute::is_explained(&history);
        let verdict = check(&history);
        let says = verdict.is_linearizable();
        assert_eq!(says, is_right, "round {round}: {verdict}\n{history:#?}");
        assert_eq!(says, verdict.violation().is_none(), "{verdict}");
        if let Some(violation) = verdict.violation()
            && !matches!(violation.why, Why::TwoVersions { .. })
        {
            assert!(brute::is_explained(&before(&history, violation.culprit.returned)), "{violation}");
        }
        *if is_right { &mut right } else { &mut wrong } += 1;
    }
    assert!(right > 5_000 && wrong > 5_000, "{right} right, {wrong} wrong");
}

#[test]
fn what_an_atomic_key_did_is_in_order() {
    let mut random = Random(7);
    for round in 0..40 {
        let mix = Mix {
            operations: 5_000,
            clients: [2, 8, 16, 32][round % 4],
            gets_percent: [10, 50, 90][round % 3],
            unknown_percent: u64::from(round % 2 == 0),
            lossy: round % 5 == 0,
        };
        let mut history = run(&mut random, &mix);
        name_untold_versions(&mut history);
        let verdict = check_with(&history, CheckOptions { steps_max: 5_000_000 });
        assert!(verdict.is_linearizable(), "round {round}: {verdict}");
    }
}

#[test]
fn one_stale_read_among_thousands_is_found() {
    let mut random = Random(11);
    let mut found = 0;
    for _ in 0..20 {
        let mix = Mix { operations: 5_000, clients: 8, gets_percent: 50, unknown_percent: 0, lossy: false };
        let mut history = run(&mut random, &mix);
        let gets = |each: &Operation| matches!(each.outcome, Outcome::Found { .. });
        let places: Vec<usize> = (0..5_000).filter(|&at| gets(&history.operations[at])).collect();
        let (at, early) = (places[places.len() / 2], places[places.len() / 2 - 200]);
        history.operations[at].outcome = history.operations[early].outcome;
        let verdict = check(&history);
        let violation = verdict.violation().expect("a stale read");
        assert!(violation.operations < 4_000, "{violation}");
        found += u32::from(violation.culprit == history.operations[at]);
    }
    assert!(found >= 15, "{found} of 20 were named");
}
