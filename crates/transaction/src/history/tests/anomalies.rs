//! One story for each way to go wrong, and for each way to look wrong and be right.

use super::*;

fn name(client: u32) -> TransactionName {
    TransactionName { client, number: 0 }
}

#[test]
fn an_empty_history_is_in_order() {
    assert_eq!(check(&History::new()), Ok(Summary::default()));
}

#[test]
fn overlapping_writers_and_readers_are_in_order() {
    let story = Story::new()
        .committed(0..100, &[(0, 1), (1, 1)], &[update(0, 1), update(1, 1)])
        .committed(10..90, &[(0, 2), (1, 2)], &[])
        .committed(5..95, &[(0, 1)], &[])
        .committed(50..60, &[(0, 2)], &[update(0, 2)])
        .aborted(0..100, &[(0, 1), (0, 3)], &[update(1, 2)]);
    let summary = story.check().expect("in order");
    assert_eq!((summary.committed, summary.aborted, summary.objects), (4, 1, 4));
}

#[test]
fn write_skew() {
    let story = Story::new().committed(0..100, &[(0, 1), (1, 1)], &[update(0, 1)]).committed(
        0..100,
        &[(0, 1), (1, 1)],
        &[update(1, 1)],
    );
    assert!(story.says().starts_with("write skew: "), "{}", story.says());
}

#[test]
fn lost_update() {
    let story =
        Story::new().committed(0..9, &[(0, 1)], &[update(0, 1)]).committed(0..9, &[(0, 1)], &[update(0, 1)]);
    assert_eq!(story.says(), "lost update: 0.0 and 1.0 both installed 0x0 v2");
}

#[test]
fn stale_read_in_real_time() {
    let story = Story::new().committed(0..10, &[], &[update(0, 1)]).committed(11..20, &[(0, 1)], &[]);
    let words = story.says();
    assert!(words.starts_with("stale read: "), "{words}");
    assert!(words.contains("0.0 ended before 1.0 started"), "{words}");
    assert!(words.contains("1.0 read 0x0 v1, which 0.0 replaced"), "{words}");
    // Touching intervals are not in order of time.
    let story = Story::new().committed(0..10, &[], &[update(0, 1)]).committed(10..20, &[(0, 1)], &[]);
    story.check().expect("in order");
}

#[test]
fn stale_read_through_another() {
    // 1 starts after 0 ended, and is seen by 2, which did not see 0.
    let story = Story::new()
        .committed(0..10, &[], &[update(0, 1)])
        .committed(11..20, &[], &[update(1, 1)])
        .committed(5..30, &[(0, 1), (1, 2)], &[]);
    let Err(Violation::Cycle(cycle)) = story.check() else { panic!("a cycle") };
    assert_eq!(cycle.edges.len(), 3);
    assert_eq!(cycle.anomaly(), "stale read, through others");
}

#[test]
fn non_repeatable_read() {
    let story =
        Story::new().committed(0..100, &[(0, 1), (0, 2)], &[]).committed(0..100, &[], &[update(0, 1)]);
    assert!(story.says().starts_with("non-repeatable read: "), "{}", story.says());
}

#[test]
fn read_skew() {
    let story = Story::new().committed(0..100, &[(0, 1), (1, 2)], &[]).committed(
        0..100,
        &[],
        &[update(0, 1), update(1, 1)],
    );
    assert!(story.says().starts_with("read skew: "), "{}", story.says());
}

#[test]
fn the_story_of_a_cycle_is_short() {
    let mut story = Story::new();
    // A long chain of writers around the one skew, and of readers after it.
    for version in 1..200 {
        story = story.committed(version * 10..version * 10 + 5, &[], &[update(2, version)]);
    }
    let story = story
        .committed(3000..4000, &[(0, 1), (1, 1)], &[update(0, 1)])
        .committed(3000..4000, &[(0, 1), (1, 1)], &[update(1, 1)])
        .committed(5000..6000, &[(0, 2), (1, 2)], &[update(2, 200)]);
    let Err(Violation::Cycle(cycle)) = story.check() else { panic!("a cycle") };
    assert_eq!(cycle.edges.len(), 2);
}

#[test]
fn read_of_an_aborted_version() {
    let story = Story::new().aborted(0..9, &[], &[update(0, 1)]).committed(0..9, &[(0, 2)], &[]);
    assert_eq!(story.says(), "1.0 read 0x0 v2 of 0.0, which was aborted");
    // Nor may those read it who were aborted themselves.
    let story = Story::new().aborted(0..9, &[], &[update(0, 1)]).aborted(0..9, &[(0, 2)], &[]);
    assert_eq!(story.says(), "1.0 read 0x0 v2 of 0.0, which was aborted");
    // What one was about to install oneself is no evidence.
    Story::new().aborted(0..9, &[(0, 2)], &[update(0, 1)]).check().expect("in order");
}

#[test]
fn a_version_that_nobody_installed() {
    let story = Story::new().committed(0..9, &[(0, 7)], &[]);
    assert_eq!(story.says(), "0.0 read 0x0 v7, which nobody installed");
    let story = Story::new().committed(0..9, &[], &[update(0, 2)]);
    assert_eq!(story.says(), "0.0 built upon 0x0 v2, which nobody installed");
    let story = Story::new().committed(0..9, &[(9, 1)], &[]);
    assert_eq!(story.says(), "0.0 read 0x9 v1, which nobody installed");
    let story = Story::new().unknown(0, &[], &[update(0, 4)]);
    assert_eq!(story.says(), "0.0 built upon 0x0 v4, which nobody installed");
    let story = Story::new().finally(0, Some(2));
    assert_eq!(story.says(), "the final state holds 0x0 v2, which nobody installed");
}

#[test]
fn an_unknown_that_happened() {
    let story = Story::new().unknown(0, &[(0, 1)], &[update(0, 1), update(1, 1)]).committed(
        50..60,
        &[(0, 2), (1, 2)],
        &[],
    );
    assert_eq!(story.check().expect("in order").unknown_happened, 1);
    // It may happen late, but not before it began, nor for some readers and not for later ones.
    let early = Story::new().unknown(50, &[], &[update(0, 1)]).committed(0..9, &[(0, 2)], &[]);
    assert!(early.says().starts_with("effect before cause"), "{}", early.says());
    let gone = story.committed(70..80, &[(1, 1)], &[]);
    assert!(matches!(gone.check(), Err(Violation::Cycle(_))));
}

#[test]
fn an_unknown_that_did_not_happen() {
    let story = Story::new()
        .unknown(0, &[(0, 1)], &[update(0, 1), update(1, 1)])
        .committed(50..60, &[(0, 1), (1, 1)], &[update(1, 1)])
        .committed(70..80, &[(1, 2)], &[])
        .finally(0, Some(1));
    assert_eq!(story.check().expect("in order").unknown_unseen, 1);
}

#[test]
fn half_commit_of_an_unknown() {
    let story = Story::new()
        .unknown(0, &[], &[update(0, 1), update(1, 1)])
        .committed(50..60, &[], &[update(1, 1)])
        .committed(70..80, &[(0, 2)], &[]);
    assert_eq!(
        story.says(),
        "half commit: 2.0 read 0x0 v2 of 0.0, whose 0x1 v2 cannot have happened: it is 1.0's"
    );
    let story = Story::new()
        .unknown(0, &[], &[update(0, 1), update(1, 1)])
        .committed(70..80, &[(0, 2)], &[])
        .finally(1, Some(1));
    assert!(story.says().starts_with("half commit"), "{}", story.says());
    // Two of unknown outcome, both seen, that claim the same version of a third object.
    let story = Story::new()
        .unknown(0, &[], &[update(0, 1), update(2, 1)])
        .unknown(0, &[], &[update(1, 1), update(2, 1)])
        .committed(70..80, &[(0, 2), (1, 2)], &[]);
    assert!(story.says().starts_with("half commit"), "{}", story.says());
}

#[test]
fn two_unknowns_claim_one_version() {
    // Only the second explains what the last one saw; the first is tried, and given up.
    let story = Story::new()
        .unknown(0, &[(1, 1)], &[update(0, 1)])
        .unknown(0, &[(1, 2)], &[update(0, 1)])
        .committed(10..20, &[(0, 1)], &[update(1, 1)])
        .committed(30..40, &[(0, 2)], &[]);
    let summary = story.check().expect("in order");
    assert_eq!((summary.unknown_happened, summary.unknown_unseen), (1, 1));
    // Neither explains it if both read what was already replaced.
    let story = Story::new()
        .unknown(25, &[(1, 1)], &[update(0, 1)])
        .unknown(25, &[(1, 1)], &[update(0, 1)])
        .committed(10..20, &[(0, 1)], &[update(1, 1)])
        .committed(30..40, &[(0, 2)], &[]);
    assert!(matches!(story.check(), Err(Violation::Cycle(_))));
}

#[test]
fn lost_acknowledged_write() {
    let story = Story::new().committed(0..9, &[], &[update(0, 1)]).finally(0, Some(1));
    assert_eq!(story.says(), "lost write: 0x0 v2 of 0.0 is gone: v1 was found in the end");
    let story = Story::new().committed(0..9, &[], &[create(9, 1)]).finally(9, None);
    assert_eq!(story.says(), "lost write: 0x9 v1 of 0.0 is gone: nothing was found in the end");
    let story = Story::new().finally(0, None);
    assert_eq!(story.says(), "lost write: 0x0 v1, seen, is gone: nothing was found in the end");
    let freed = Story::new().committed(0..9, &[], &[free(0, 1)]).finally(0, Some(1));
    assert_eq!(freed.says(), "lost write: 0x0 v2 of 0.0 is gone: v1 was found in the end");
    // One that was seen and is gone is lost too, whatever its client was told.
    let story =
        Story::new().unknown(0, &[], &[update(0, 1)]).committed(0..9, &[(0, 2)], &[]).finally(0, Some(1));
    assert!(story.says().starts_with("lost write"), "{}", story.says());
}

#[test]
fn objects_that_are_there_are_found() {
    let made = || Story::new().committed(0..9, &[], &[create(9, 1)]);
    let says =
        "not found: 1.0 was told that 0x9 is not there, of which 0.0 knew before, and which nobody had freed";
    assert_eq!(made().absent(10..12, 9).says(), says);
    // He may have asked before it was made, or been told after it was freed.
    assert!(made().absent(9..12, 9).check().is_ok() && made().absent(2..4, 9).check().is_ok());
    let freed = |start| made().committed(start..30, &[], &[free(9, 1)]).absent(10..12, 9);
    assert!(freed(12).check().is_ok() && freed(5).check().is_ok());
    assert!(freed(13).says().starts_with("not found: 2.0"));
    // Whoever has not said what became of freeing it may have freed it; one that was refused has not.
    assert!(made().unknown(3, &[], &[free(9, 1)]).absent(10..12, 9).check().is_ok());
    assert!(made().aborted(3..5, &[], &[free(9, 1)]).absent(10..12, 9).check().is_err());
    // Of unknown creation, it is there once somebody has seen it.
    let seen = Story::new().unknown(0, &[], &[create(9, 1)]).committed(5..8, &[(9, 1)], &[]);
    assert!(seen.absent(9..12, 9).says().contains("of which 1.0 knew"));
    assert!(Story::new().unknown(0, &[], &[create(9, 1)]).absent(9..12, 9).check().is_ok());
    // Also if others wrote that down.
    let mut merged = made().history;
    merged.merge(Story::new().absent(10..12, 9).history);
    assert!(matches!(check(&merged), Err(Violation::NotFound { .. })));
}

#[test]
fn what_the_final_state_shows_to_have_happened() {
    let story = Story::new().unknown(0, &[], &[update(0, 1)]).finally(0, Some(2));
    assert_eq!(story.check().expect("in order").unknown_happened, 1);
    let story = Story::new().unknown(0, &[], &[free(0, 1)]).finally(0, None);
    assert_eq!(story.check().expect("in order").unknown_happened, 1);
    let story = Story::new().unknown(0, &[], &[create(9, 1)]).finally(9, None);
    assert_eq!(story.check().expect("in order").unknown_unseen, 1);
    // Two claim it, and one of them freed it.
    let story = Story::new().unknown(0, &[], &[update(0, 1)]).unknown(0, &[], &[free(0, 1)]).finally(0, None);
    assert_eq!(story.check().expect("in order").unknown_happened, 1);
    let story = Story::new()
        .unknown(0, &[], &[create(9, 1), update(0, 1)])
        .committed(0..9, &[(0, 2)], &[])
        .finally(9, None);
    assert!(story.says().starts_with("half commit"), "{}", story.says());
}

#[test]
fn use_after_free() {
    let by_version = Story::new().committed(0..9, &[], &[free(0, 1)]).committed(0..9, &[(0, 2)], &[]);
    assert_eq!(by_version.says(), "use after free: 1.0 read 0x0 v2, freed by 0.0");
    let by_time = Story::new().committed(0..9, &[], &[free(0, 1)]).committed(20..30, &[(0, 1)], &[]);
    assert_eq!(by_time.says(), "use after free: 1.0 read 0x0 v1, freed by 0.0");
    let written = Story::new().committed(0..9, &[], &[free(0, 1)]).committed(20..30, &[], &[update(0, 2)]);
    assert_eq!(written.says(), "use after free: 1.0 built upon 0x0 v2, freed by 0.0");
    let unknown = Story::new().unknown(0, &[], &[free(0, 1)]).committed(0..9, &[(0, 2)], &[]);
    assert_eq!(unknown.says(), "use after free: 1.0 read 0x0 v2, freed by 0.0");
    let overlapping = Story::new().committed(0..9, &[], &[free(0, 1)]).committed(5..30, &[(0, 1)], &[]);
    overlapping.check().expect("in order");
}

#[test]
fn creation() {
    let story = Story::new()
        .committed(0..9, &[], &[create(9, 5)])
        .committed(10..19, &[(9, 5)], &[update(9, 5)])
        .committed(20..29, &[(9, 6)], &[free(9, 6)])
        .finally(9, None);
    story.check().expect("in order");
    let twice = Story::new().committed(0..9, &[], &[create(9, 5)]).committed(0..9, &[], &[create(9, 5)]);
    assert_eq!(twice.says(), "1.0 created 0x9, which had been there");
    let there = Story::new().committed(0..9, &[], &[create(0, 1)]);
    assert_eq!(there.says(), "0.0 created 0x0, which had been there");
    let unborn = Story::new().committed(0..9, &[(9, 5)], &[]).committed(20..29, &[], &[create(9, 5)]);
    assert!(unborn.says().starts_with("effect before cause"), "{}", unborn.says());
    // Two who may have created it do not agree on its first version: what was seen decides.
    let story = Story::new().unknown(0, &[], &[create(9, 3)]).unknown(0, &[], &[create(9, 5)]).committed(
        10..19,
        &[(9, 5)],
        &[],
    );
    assert_eq!(story.check().expect("in order").unknown_happened, 1);
    let story = Story::new()
        .unknown(0, &[], &[create(9, 3)])
        .unknown(0, &[], &[create(9, 5), update(0, 1)])
        .committed(10..19, &[(0, 2)], &[]);
    assert_eq!(story.check().expect("in order").unknown_happened, 1);
}

#[test]
fn merged_histories_are_one() {
    let mut first = Story::new().committed(0..10, &[], &[update(0, 1)]);
    let mut second = Story { clients: 1, ..Story::default() }.committed(11..20, &[(0, 1)], &[]);
    second.history.initial(o(7), 3);
    first.history.merge(second.history);
    assert_eq!(first.history.len(), 2);
    let Err(Violation::Cycle(cycle)) = first.check() else { panic!("a cycle") };
    assert!(cycle.edges.iter().any(|edge| edge.transaction == name(1)));
}

#[test]
fn what_is_no_history_is_refused() {
    let skips = Write { object: o(0), kind: WriteKind::Update, before: 1, after: 3 };
    assert!(Story::new().committed(0..9, &[], &[skips]).says().starts_with("not a history: 0.0"));
    let back = std::ops::Range { start: 9, end: 1 };
    assert!(Story::new().committed(back, &[], &[]).says().starts_with("not a history: 0.0"));
    let twice = Story::new().unknown(0, &[], &[update(0, 1), update(0, 2)]);
    assert_eq!(twice.says(), "not a history: 0.0: it changed an object more than once");
    let mut story = Story::new();
    story.history.initial(o(0), 2);
    assert!(story.says().starts_with("not a history"));
}
