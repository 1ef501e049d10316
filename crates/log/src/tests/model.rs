//! Crashes at any moment, compared with the model.

use super::*;

/// What to do at a moment: look at what a crash now would leave.
fn crash_images(world: &World, seed: u64, story: &str) {
    let answers = world.answers();
    let killed = world.disk.after_kill(seed);
    world.check(&killed, answers.written, &format!("{story}, killed"));
    let lost = world.disk.after_power_loss(seed);
    let again = lost.after_kill(seed);
    let first = world.check(&lost, answers.synced, &format!("{story}, power lost"));
    let second = world.check(&lost, first, &format!("{story}, recovered twice"));
    assert_eq!(first, second, "{story}: recovering twice gives the same");
    // A recovery that dies at any call, by kill or by power loss, is followed by one that finds the same.
    let mut random = Seeded::new(seed);
    again.die_at(random.below(14));
    let _ = open_by_hand(&again, Arc::default(), false);
    let third = world.check(&again.after_power_loss(seed + 1), first, &format!("{story}, died in recovery"));
    assert_eq!(first, third, "{story}: a recovery that died changed what is recovered");
    // After a kill the cache is believed; the power may then fail before the recovery has synced it.
    let died = world.disk.after_kill(seed);
    died.die_at(random.below(14));
    let _ = open_by_hand(&died, Arc::default(), false);
    let story = format!("{story}, killed, died in recovery, power lost");
    world.check(&died.after_power_loss(seed + 2), answers.synced, &story);
}

/// The world goes on from what a crash left.
fn restart(world: World, power: bool, seed: u64) -> World {
    let answers = world.answers();
    let (floor, disk) = if power {
        (answers.synced, world.disk.after_power_loss(seed))
    } else {
        (answers.written, world.disk.after_kill(seed))
    };
    let position = world.check(&disk.after_kill(seed), floor, &format!("seed {seed}, restarted"));
    let World { clock, mut history, random, .. } = world;
    let (log, writer, recovered, kept, memory) = open_by_hand(&disk, clock.clone(), false).unwrap();
    assert_eq!(recovered.report.position, position);
    history.retain(|at, _| *at <= position);
    let answers = Answers { written: position, synced: position, ..Answers::default() };
    let answers = Arc::new(Mutex::new(answers));
    let record = Record::default();
    World { disk, clock, log, record, writer, checkpoint: None, memory, kept, history, answers, random }
}

#[test]
fn crashes_at_any_moment_leave_a_whole_record_that_was_answered_for() {
    let seeds = std::env::var("BARN_LOG_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(120);
    let (mut images, mut checkpoints) = (0, 0);
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for step in 0..400 {
            world.act();
            if world.random.chance(20_000) {
                crash_images(&world, seed * 1000 + step, &format!("seed {seed}, step {step}"));
                images += 5;
            }
            if world.random.chance(5_000) {
                let power = world.random.chance(500_000);
                checkpoints += world.log.stats().checkpoints;
                world = restart(world, power, seed * 1000 + step);
            }
        }
        world.finish();
        crash_images(&world, seed, &format!("seed {seed}, at the end"));
        checkpoints += world.log.stats().checkpoints;
    }
    assert!(images > 7 * seeds, "{images} images");
    assert!(checkpoints > seeds, "{checkpoints} checkpoints: the story tells nothing of them");
}

/// The same story, cut off at each call of the disk: inside writes, rotations, checkpoints, cleaning.
#[test]
fn a_process_killed_at_any_call_of_the_disk_has_lost_nothing_that_it_answered_for() {
    for seed in 0..6 {
        let mut call = 0;
        loop {
            let disk = SimulatedDisk::new(seed);
            disk.die_at(call);
            let Ok(mut world) = World::try_on(disk, seed) else {
                call += 1;
                continue;
            };
            for _ in 0..700 {
                world.act();
            }
            let story = format!("seed {seed}, killed at call {call}");
            let answers = world.answers();
            world.check(&world.disk.after_kill(seed), answers.written, &story);
            world.check(&world.disk.after_power_loss(call), answers.synced, &format!("{story}, power lost"));
            if world.disk.calls() < call {
                let stats = world.log.stats();
                assert!(stats.checkpoints > 0 && call > 100, "{call} calls: {stats:?}");
                break;
            }
            call += 1;
        }
    }
}

#[test]
fn a_log_that_is_stopped_says_so_and_has_everything() {
    let mut world = World::new(5);
    (0..60).for_each(|_| world.act());
    let position = world.change();
    world.ask(position, Level::Synced);
    let World { log, mut record, mut writer, disk, kept, answers, .. } = world;
    log.stop(&mut record).unwrap();
    while writer.step() != Next::Done {}
    let answers = answers.lock().unwrap().clone();
    assert_eq!((answers.asked, answers.refused, answers.synced), (answers.answered, 0, position));
    let (_, _, recovered, found, _) = open_by_hand(&disk.after_power_loss(1), Arc::default(), false).unwrap();
    assert!(recovered.report.stopped_cleanly && !recovered.fresh && recovered.report.torn.is_none());
    assert!(found == kept, "{}", recovered.report);
}

#[test]
fn a_crash_loop_leaves_one_segment_behind_and_not_one_for_each_start() {
    let mut world = World::new(9);
    let position = world.change();
    world.ask(position, Level::Synced);
    world.finish();
    let disk = world.disk.after_power_loss(1);
    for _ in 0..20 {
        drop(open_by_hand(&disk, Arc::default(), false).unwrap());
    }
    let segments = disk_names(&disk).into_iter().filter(|name| name.starts_with("log-")).count();
    assert_eq!(segments, 2);
    world.check(&disk, position, "after twenty starts");
}

#[test]
fn segments_are_cleaned_and_used_again() {
    let mut world = World::new(3);
    for _ in 0..6000 {
        world.act();
    }
    world.finish();
    let stats = world.log.stats();
    assert!(stats.checkpoints > 3, "{stats:?}");
    let names = disk_names(&world.disk);
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    assert!(count("log-") < 8 && count("spare-") <= 3, "{names:?}");
    assert_eq!((count("image-"), count("manifest-")), (1, 1), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("log-") && name.as_str() > "log-0000000000000010"));
}

fn disk_names(disk: &SimulatedDisk) -> Vec<String> {
    use barn_fabric::seam::Disk;
    disk.list().unwrap()
}
