//! One story for each way to go wrong, and for each way to look wrong and be right.

use super::*;

#[test]
fn nothing_is_in_order() {
    Story::new().explained();
    Story::new().unknown(0, Call::Put(1)).unknown(1, Call::Delete).explained();
}

#[test]
fn one_after_another() {
    Story::new()
        .absent(0..1)
        .done(2..3, Call::Insert(1))
        .then(4..5, Call::Insert(2), Outcome::Different)
        .found(6..7, 1)
        .done(8..9, swap(1, 3))
        .then(10..11, swap(1, 4), Outcome::NotDone)
        .done(12..13, Call::Delete)
        .then(14..15, Call::Delete, Outcome::Absent)
        .explained();
}

#[test]
fn overlapping_reads_see_either_and_touching_ones_overlap() {
    Story::with(1).done(10..20, Call::Put(2)).found(12..14, 1).found(15..16, 2).explained();
    Story::with(1).done(10..20, Call::Put(2)).found(20..21, 1).explained();
}

#[test]
fn stale_read() {
    let violation = Story::with(1).done(10..20, Call::Put(2)).found(21..25, 1).unexplained(1);
    let words = violation.to_string();
    assert!(words.contains("> client 1 [21 .. 25] get: 1"), "{words}");
    assert!(words.contains("  client 0 [10 .. 20] put 2: done"), "{words}");
}

#[test]
fn new_then_old() {
    Story::with(1).done(10..90, Call::Put(2)).found(20..30, 2).found(40..50, 1).unexplained(2);
}

#[test]
fn lost_update() {
    Story::with(1).done(0..9, swap(1, 2)).done(0..8, swap(1, 3)).unexplained(0);
    Story::with(1).done(0..9, Call::Put(2)).done(10..19, swap(1, 3)).unexplained(1);
}

#[test]
fn read_of_a_deleted_value() {
    Story::with(1).done(0..9, Call::Delete).found(10..12, 1).unexplained(1);
    Story::with(1).done(0..9, Call::Delete).found(10..12, 1).lossy().unexplained(1);
}

#[test]
fn double_insert() {
    Story::new().done(0..9, Call::Insert(1)).done(5..15, Call::Insert(2)).unexplained(1);
    Story::new().done(0..9, Call::Insert(1)).done(5..15, Call::Insert(2)).lossy().explained();
}

#[test]
fn resurrected_value() {
    Story::with(1)
        .done(0..9, Call::Put(2))
        .done(10..19, Call::Delete)
        .absent(20..25)
        .found(30..35, 2)
        .unexplained(3);
}

#[test]
fn a_value_from_nowhere_or_from_the_future() {
    let violation = Story::new().found(0..9, 7).unexplained(0);
    assert_eq!(violation.why, Why::NoOrder);
    let violation = Story::new().found(0..9, 7).done(10..12, Call::Put(7)).unexplained(0);
    assert_eq!(violation.operations, 1);
}

#[test]
fn an_unknown_operation_happens_late_or_never() {
    Story::with(1).unknown(0, Call::Put(2)).found(50..60, 1).found(70..80, 2).explained();
    Story::with(1).unknown(0, Call::Put(2)).found(50..60, 2).found(70..80, 1).unexplained(2);
    Story::with(1).unknown(0, Call::Delete).found(5..6, 1).absent(7..8).explained();
    Story::with(1).unknown(9, Call::Delete).found(5..6, 1).absent(7..8).unexplained(2);
}

#[test]
fn an_unknown_operation_that_must_have_happened_happened_once() {
    Story::with(1).unknown(0, swap(1, 2)).found(10..20, 2).done(30..40, swap(2, 3)).explained();
    Story::with(1).unknown(0, swap(1, 2)).unknown(1, swap(2, 3)).found(10..20, 3).explained();
    Story::with(1).unknown(0, swap(1, 2)).found(10..20, 2).done(30..40, swap(1, 3)).unexplained(2);
    Story::new().unknown(0, Call::Put(1)).done(10..20, Call::Delete).explained();
    Story::new()
        .unknown(0, Call::Put(1))
        .done(10..20, Call::Delete)
        .done(21..30, Call::Delete)
        .unexplained(2);
}

#[test]
fn a_cache_forgets_and_does_not_remember_again() {
    Story::with(1).lossy().found(0..1, 1).absent(2..3).absent(4..5).explained();
    Story::with(1).found(0..1, 1).absent(2..3).unexplained(1);
    Story::with(1).lossy().absent(2..3).found(4..5, 1).unexplained(1);
}

#[test]
fn versions_name_values() {
    let by_version = |version, new| Call::Swap { expected: Expected::Version(version), new };
    let found = |value, version| Outcome::Found { value, version };
    let put = |story: Story| story.then(0..1, Call::Put(1), Outcome::Done { version: 1_001 });
    put(Story::new()).done(2..3, by_version(1_001, 2)).explained();
    put(Story::new())
        .then(2..3, Call::Get, found(1, 1_001))
        .done(4..5, Call::Put(2))
        .done(6..7, by_version(1_001, 3))
        .unexplained(3);
    let violation = put(Story::new()).then(2..3, Call::Get, found(1, 1_009)).unexplained(1);
    assert_eq!(violation.why, Why::TwoVersions { value: 1, version: 1_009 });
}

#[test]
fn what_is_not_a_history_is_told_apart() {
    let twice = Story::new().done(0..1, Call::Put(1)).done(2..3, Call::Put(1)).0;
    assert!(matches!(check(&twice), Verdict::Malformed { .. }));
    let backwards =
        Story::new().absent(9..9).then(std::ops::Range { start: 9, end: 1 }, Call::Get, Outcome::Absent).0;
    assert!(matches!(check(&backwards), Verdict::Malformed { .. }));
    let nonsense = Story::new().then(0..1, Call::Put(1), Outcome::Absent).0;
    assert!(matches!(check(&nonsense), Verdict::Malformed { .. }));
}

#[test]
fn a_search_that_is_given_up_says_so() {
    let story = Story::new().done(0..9, Call::Put(1)).done(0..9, Call::Put(2)).found(10..11, 1).0;
    assert_eq!(check_with(&story, CheckOptions { steps_max: 0 }), Verdict::Undecided { steps: 1 });
}

#[test]
fn a_recorder_writes_down_what_happened() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static CLOCK: AtomicU64 = AtomicU64::new(0);
    // ORDER: Relaxed: one thread.
    let mut recorder = Recorder::new(3, || CLOCK.fetch_add(1, Ordering::Relaxed), 4);
    let put = recorder.call(7, Call::Put(1));
    let get = recorder.call(7, Call::Get);
    recorder.returned(put, Outcome::Done { version: 0 });
    recorder.returned(get, Outcome::Found { value: 1, version: 0 });
    let _lost = recorder.call(8, Call::Delete);
    let refused = recorder.call(8, Call::Put(2));
    recorder.refused(refused);
    assert_eq!(recorder.len(), 4);
    let histories = gather([recorder], false);
    assert_eq!(histories.keys().copied().collect::<Vec<_>>(), [7, 8]);
    assert_eq!((histories[&7].operations[0].invoked, histories[&7].operations[0].returned), (0, 2));
    assert_eq!(histories[&8].operations[0].outcome, Outcome::Unknown);
    assert!(histories.values().all(|history| check(history).is_linearizable()));
}
