//! When what was appended goes to the writer, and when the writer writes it.

use super::*;
use crate::Admission;

const GATHER_MICROS: u64 = 1_000;

/// Appends a short record.
fn append(world: &mut World) -> Position {
    world.record.note_set(b"note", &[7; 32]);
    world.log.append(&mut world.record)
}

/// Lets the writer work until it rests, and gives until when, in microseconds from now.
fn rest(world: &mut World) -> Option<u64> {
    loop {
        match world.writer.step() {
            Next::Again => {}
            Next::Until(time) => return Some((time - world.clock.now().as_nanos() as u64) / 1000),
            _ => return None,
        }
    }
}

/// Given bytes that were offered: they go to the writer once they are old enough or many, and only if it has taken
/// what it was given before, so that they are not copied to it.
#[test]
fn what_is_offered_goes_once_it_is_due_and_the_writer_is_free() {
    let mut world = World::new(3);
    append(&mut world);
    world.offer();
    rest(&mut world);
    assert_eq!(world.log.stats().written, 0, "neither old nor many");
    let first = append(&mut world);
    world.advance(GATHER_MICROS);
    world.offer();
    let second = append(&mut world);
    world.advance(GATHER_MICROS);
    world.offer();
    rest(&mut world);
    assert_eq!(world.log.stats().written, first, "the second was not handed over behind the first");
    world.offer();
    rest(&mut world);
    assert_eq!(world.log.stats().written, second);

    world.record.note_set(b"long", &vec![1; small().gather_bytes]);
    let last = world.log.append(&mut world.record);
    world.offer();
    rest(&mut world);
    assert_eq!(world.log.stats().written, last, "enough to be written at once");
}

/// Given bytes that were kept back when they were offered: they count for the window.
#[test]
fn what_was_kept_back_is_as_old_as_it_is() {
    let mut world = World::new(4);
    append(&mut world);
    world.turn();
    append(&mut world);
    world.offer();
    assert!(matches!(world.log.admission(), Admission::Open));
    world.advance(GATHER_MICROS);
    rest(&mut world);
    world.advance(small().window.as_micros() as u64);
    assert!(matches!(world.log.admission(), Admission::Behind), "the second is not written");
    // Whoever goes to sleep hands everything over.
    world.turn();
    rest(&mut world);
    assert!(matches!(world.log.admission(), Admission::Open));
}

/// Given a writer that waits for the time of the next sync: bytes that come then are written as soon as
/// others. Fails with `log_naps_until_sync`.
#[test]
fn bytes_that_come_before_a_sync_do_not_wait_for_it() {
    let mut world = World::new(5);
    append(&mut world);
    world.turn();
    world.advance(GATHER_MICROS);
    let rests = rest(&mut world).expect("a sync is due in a second");
    assert!(rests <= GATHER_MICROS, "{rests} µs");
    let second = append(&mut world);
    world.turn();
    for _ in 0..2 {
        let until = rest(&mut world).unwrap_or(0);
        world.advance(until);
    }
    rest(&mut world);
    assert_eq!(world.log.stats().written, second);
    assert!(matches!(world.log.admission(), Admission::Open));
}

/// Given more batches than the writer takes at once: a log that is stopped writes them all.
#[test]
fn what_waits_in_several_batches_is_written_when_the_log_stops() {
    let mut world = World::new(6);
    let mut last = 0;
    for at in 0..3u8 {
        world.record.note_set(&[at], &vec![at; small().gather_bytes]);
        last = world.log.append(&mut world.record);
        world.offer();
    }
    world.log.hand_over(Some(&mut world.record), true);
    while world.writer.step() != Next::Done {}
    assert_eq!(world.log.stats().written, last);
}
