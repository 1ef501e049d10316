//! Bytes that rot, files that are cut off, lost or exchanged: always noticed or harmless.

use super::*;
use barn_fabric::seam::Disk;

/// A log with everything in it, stopped in good order; and the model of it.
fn stopped(seed: u64, acts: u64) -> (SimulatedDisk, Kept, BTreeMap<Position, Kept>) {
    let mut world = World::new(seed);
    (0..acts).for_each(|_| world.act());
    let World { log, mut record, mut writer, disk, kept, history, checkpoint, .. } = world;
    drop(checkpoint);
    log.stop(&mut record).unwrap();
    while writer.step() != Next::Done {}
    (disk.after_power_loss(seed), kept, history)
}

fn files(disk: &SimulatedDisk) -> Vec<String> {
    let ours = |name: &String| !name.starts_with("lock") && !name.contains(".damaged");
    disk.list().unwrap().into_iter().filter(ours).collect()
}

/// Does something bad to a file; says what.
fn harm(disk: &SimulatedDisk, random: &mut Seeded) -> String {
    let names = files(disk);
    let one = names[random.below(names.len() as u64) as usize].clone();
    let other = names[random.below(names.len() as u64) as usize].clone();
    let mut at = 0;
    match random.below(10) {
        0 => {
            disk.rot(&one, |bytes| {
                at = random.below(bytes.len() as u64 + 1) as usize;
                bytes.truncate(at);
            });
            format!("`{one}` cut off at {at}")
        }
        1 => {
            disk.remove(&one).unwrap();
            format!("`{one}` removed")
        }
        2 => {
            disk.rename(&one, "aside").unwrap();
            let _ = disk.rename(&other, &one);
            disk.rename("aside", &other).unwrap();
            format!("`{one}` and `{other}` exchanged")
        }
        3 => {
            disk.rot(&one, |bytes| {
                at = 512 * random.below((bytes.len() / 512) as u64 + 1) as usize;
                let end = bytes.len().min(at + 512);
                bytes[at.min(end)..end].fill(0);
            });
            format!("a sector of `{one}` zeroed at {at}")
        }
        _ => {
            // Most bytes of a segment are room: half of the flips go to where frames are.
            let near = random.chance(500_000);
            disk.rot(&one, |bytes| {
                let bits = if near { bytes.len().min(16 << 10) } else { bytes.len() } as u64 * 8;
                at = random.below(bits.max(1)) as usize;
                if let Some(byte) = bytes.get_mut(at / 8) {
                    *byte ^= 1 << (at % 8);
                }
            });
            format!("bit {at} of `{one}` flipped")
        }
    }
}

#[test]
fn whatever_rots_is_noticed_or_harmless_and_never_misread() {
    let (mut noticed, mut harmless) = (0, 0);
    for seed in 0..25 {
        let (whole, kept, history) = stopped(seed, 150 + 20 * seed);
        let (.., found, _) = open_by_hand(&whole.after_kill(0), Arc::default(), false).unwrap();
        assert!(found == kept, "seed {seed}: it was not whole to begin with");
        for fault in 0..48 {
            let disk = whole.after_kill(fault);
            let done = harm(&disk, &mut Seeded::new(seed * 1000 + fault));
            let story = format!("seed {seed}, fault {fault}: {done}");
            match open_by_hand(&disk.after_kill(1), Arc::default(), false) {
                Ok((_, _, recovered, found, _)) => {
                    // A manifest or a segment that is gone with all traces of it leaves nothing to notice.
                    assert!(found == kept, "{story}: misread: {}", recovered.report);
                    harmless += 1;
                }
                Err(error) => {
                    assert!(error.to_string().len() > 60, "{story}: {error}");
                    noticed += 1;
                }
            }
            // With the loss accepted: some earlier state, or still no way to go on.
            let Ok((_, _, recovered, found, _)) = open_by_hand(&disk, Arc::default(), true) else { continue };
            let position = recovered.report.position;
            assert!(history.get(&position) == Some(&found), "{story}: accepted: {}", recovered.report);
            let (_, _, again, found_again, _) = open_by_hand(&disk, Arc::default(), false)
                .unwrap_or_else(|error| panic!("{story}: accepted, and again: {error}"));
            assert!(
                again.report.position == position && found_again == found,
                "{story}: accepted, and again"
            );
        }
    }
    assert!(noticed > 300 && harmless > 300, "{noticed} noticed, {harmless} harmless");
}

#[test]
fn damage_in_the_middle_says_where_and_what_to_do_and_the_rest_is_kept_aside() {
    let mut world = World::new(2);
    let mut positions = Vec::new();
    for _ in 0..3 {
        let position = world.change();
        world.ask(position, Level::Synced);
        world.finish();
        positions.push(position);
    }
    let disk = world.disk.after_power_loss(1);
    let name = crate::names::segment(1);
    // The second frame; the third says that the second was durable.
    disk.rot(&name, |bytes| bytes[2 * 4096 + 100] ^= 1);
    let error = open_by_hand(&disk, Arc::default(), false).err().unwrap();
    let OpenError::Damaged { file, offset, lost_bytes, .. } = &error else { panic!("{error}") };
    assert_eq!((file.as_str(), *offset, *lost_bytes), (name.as_str(), 2 * 4096, positions[2] - positions[0]));
    assert!(error.to_string().contains("accept_loss"), "{error}");
    let (_, _, recovered, kept, _) = open_by_hand(&disk, Arc::default(), true).unwrap();
    assert_eq!(recovered.report.position, positions[0]);
    assert!(kept == world.history[&positions[0]] && !recovered.report.lost.is_empty());
    assert!(disk.list().unwrap().contains(&format!("{name}.damaged")));
}

#[test]
fn a_frame_that_an_old_file_still_holds_is_not_taken_for_a_new_one() {
    // A frame that was never durable survives behind a torn one. The log goes on elsewhere, comes to
    // the same positions again, and must never meet it.
    let mut world = World::new(8);
    let position = world.change();
    world.ask(position, Level::Synced);
    world.finish();
    for _ in 0..2 {
        world.change();
        world.turn();
        world.advance(2000);
        let _ = world.writer.step();
    }
    let disk = world.disk.after_kill(1);
    disk.rot(&crate::names::segment(1), |bytes| bytes[2 * 4096 + 80] ^= 1);
    world.check(&disk.after_kill(1), position, "torn, with a whole frame behind it");
    let (_, _, recovered, ..) = open_by_hand(&disk, Arc::default(), false).unwrap();
    let torn = recovered.report.torn.clone().unwrap();
    assert!(recovered.report.position == position && torn.dropped_bytes > 0, "{}", recovered.report);
    assert_eq!(world.check(&disk, position, "and again"), position);
}
