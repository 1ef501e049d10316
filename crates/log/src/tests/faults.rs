//! Every call of the disk fails once, in every way: nothing that was answered for is lost, nothing is
//! synced after a failed sync, nobody waits for ever.

use super::*;
use crate::{Admission, LogError};
use std::io::ErrorKind;

const ACTS: u64 = 500;

/// One run with one fault. Whether the fault was met.
fn run(seed: u64, call: u64, kind: ErrorKind, short: bool) -> bool {
    let story = format!("seed {seed}, call {call}, {kind:?}, short {short}");
    let disk = SimulatedDisk::new(seed);
    disk.fail_call(call, kind);
    if short {
        disk.fail_short();
    }
    let Ok(mut world) = World::try_on(disk.clone(), seed) else {
        // Nothing was answered for; the next start must work.
        let again = open_by_hand(&disk.after_kill(seed), Arc::default(), false);
        let (_, _, recovered, kept, _) = again.unwrap_or_else(|error| panic!("{story}: {error}"));
        assert!(recovered.report.position == 0 && kept == Kept::default(), "{story}");
        return true;
    };
    let mut syncs_when_failed = None;
    for _ in 0..ACTS {
        world.act();
        if matches!(world.log.admission(), Admission::Stopped(LogError::Failed { .. })) {
            let syncs = *syncs_when_failed.get_or_insert(world.disk.syncs());
            assert_eq!(world.disk.syncs(), syncs, "{story}: synced after a failure");
        }
    }
    world.finish();
    let answers = world.answers();
    if syncs_when_failed.is_none() && kind != ErrorKind::StorageFull {
        assert_eq!(answers.refused, 0, "{story}: refused without a failure");
    }
    world.check(&world.disk.after_kill(seed), answers.written, &format!("{story}, killed"));
    world.check(&world.disk.after_power_loss(seed), answers.synced, &format!("{story}, power lost"));
    world.disk.calls() > call
}

#[test]
fn every_call_fails_once_and_nothing_that_was_answered_for_is_lost() {
    for (kind, short) in
        [(ErrorKind::Other, false), (ErrorKind::StorageFull, false), (ErrorKind::StorageFull, true)]
    {
        let mut call = 0;
        while run(11, call, kind, short) {
            call += 1;
        }
        assert!(call > 60, "the story had {call} calls only");
    }
}

#[test]
fn a_full_disk_stops_the_log_until_there_is_room_and_loses_nothing() {
    let mut world = World::new(4);
    // Room for what is there, and for no other segment.
    world.disk.set_capacity(60 << 10);
    let mut last = 0;
    while !matches!(world.log.admission(), Admission::Stopped(_)) {
        last = world.change();
        world.ask(last, Level::Synced);
        world.turn();
        world.advance(2000);
        let _ = world.writer.step();
    }
    let Admission::Stopped(error) = world.log.admission() else { unreachable!("just seen") };
    assert!(matches!(error, LogError::NoSpace { .. }) && error.to_string().contains("make room"), "{error}");
    let answers = world.answers();
    assert!(answers.refused == 0 && answers.answered < answers.asked, "{answers:?}");
    let _ = world.writer.step();
    world.check(&world.disk.after_power_loss(1), answers.synced, "while it is full");

    world.disk.set_capacity(usize::MAX);
    world.finish();
    assert!(matches!(world.log.admission(), Admission::Open));
    assert_eq!(world.answers().synced, last, "those who waited are answered in the end");
    world.check(&world.disk.after_power_loss(2), last, "after there was room");
}

#[test]
fn a_log_that_is_behind_says_so_by_age_and_by_bytes() {
    let mut world = World::new(6);
    assert!(matches!(world.log.admission(), Admission::Open));
    world.change();
    world.turn();
    world.advance(99_000);
    assert!(matches!(world.log.admission(), Admission::Open));
    world.advance(2_000);
    assert!(matches!(world.log.admission(), Admission::Behind), "older than the window");
    let _ = world.writer.step();
    assert!(matches!(world.log.admission(), Admission::Open), "written");
    while world.log.stats().lag_bytes <= small().window_bytes {
        assert!(matches!(world.log.admission(), Admission::Open));
        world.change();
    }
    assert!(matches!(world.log.admission(), Admission::Behind), "more than the window's bytes");
    world.finish();
    assert!(matches!(world.log.admission(), Admission::Open));
}
