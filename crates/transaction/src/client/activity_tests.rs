//! Operations counted by one thread, by hand.

use super::activity::{Activity, COUNTERS};

#[test]
fn a_generation_is_over_when_its_operations_are() {
    let activity = Activity::default();
    let first = activity.enter();
    let next = activity.advance();
    assert_eq!(next, 1);
    let second = activity.enter();
    assert!(!activity.is_over_before(1), "the first is under way");
    activity.leave(&first);
    assert!(activity.is_over_before(1), "only the second is under way, and it is newer");
    assert!(!activity.is_over_before(2));
    activity.leave(&second);
    assert!(activity.is_over_before(2));
}

#[test]
fn an_old_operation_is_doomed_and_not_waited_for() {
    let activity = Activity::default();
    let old = activity.enter();
    let next = activity.advance();
    activity.doom_before(next);
    assert!(activity.is_over_before(next));
    assert!(activity.is_doomed(&old));
    assert!(!activity.is_doomed(&activity.enter()));
}

#[test]
fn an_operation_is_waited_for_however_many_generations_it_lasts() {
    let activity = Activity::default();
    let old = activity.enter();
    for _ in 0..COUNTERS * 2 {
        let present = activity.advance();
        assert!(!activity.is_over_before(present + 1), "the first is under way in {present}");
    }
    activity.leave(&old);
    assert!(activity.is_over_before(activity.advance() + 1));
}

#[test]
fn a_generation_whose_counter_is_taken_does_not_begin() {
    let activity = Activity::default();
    let old = activity.enter();
    for _ in 0..COUNTERS * 2 {
        activity.advance();
    }
    assert_eq!(activity.advance(), COUNTERS - 1);
    activity.leave(&old);
    assert_eq!(activity.advance(), COUNTERS);
}
