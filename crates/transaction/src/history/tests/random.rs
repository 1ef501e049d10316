//! Histories made by running transactions one after another, and the same with something changed.

use std::collections::HashMap;

use super::brute::Plain;
use super::*;

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Runs transactions one after another, each at a moment within its interval.
fn run(random: &mut Random, transactions: u64, objects: u64) -> Plain {
    let mut plain = Plain::default();
    let mut alive: HashMap<u64, u64> = HashMap::new();
    let mut used = vec![false; objects as usize];
    for object in 0..objects {
        if random.chance(75) {
            alive.insert(object, 1);
            used[object as usize] = true;
            plain.initial.push((o(object), 1));
        }
    }
    for number in 0..transactions {
        let moment = 100 * (number + 1);
        let start = moment - random.below(250).min(moment);
        let outcome = match random.below(100) {
            0..60 => Outcome::Committed,
            60..80 => Outcome::Aborted,
            _ => Outcome::Unknown,
        };
        let happens = outcome == Outcome::Committed || outcome == Outcome::Unknown && random.chance(50);
        let mut record = Record {
            client: number as u32,
            number: 0,
            start,
            end: if outcome == Outcome::Unknown { u64::MAX } else { moment + random.below(250) },
            outcome,
            reads: Vec::new(),
            writes: Vec::new(),
        };
        for object in 0..objects {
            touch(random, &mut record, object, alive.get(&object).copied(), used[object as usize]);
        }
        if happens {
            for write in &record.writes {
                used[write.object.address as usize] = true;
                if write.kind == WriteKind::Free {
                    alive.remove(&write.object.address);
                } else {
                    alive.insert(write.object.address, write.after);
                }
            }
        }
        plain.records.push(record);
    }
    for object in 0..objects {
        if random.chance(30) {
            plain.last.push((o(object), alive.get(&object).copied()));
        }
    }
    plain
}

/// Perhaps reads an object, perhaps changes it.
fn touch(random: &mut Random, record: &mut Record, object: u64, version: Option<u64>, used: bool) {
    match version {
        Some(version) => {
            let reads = random.chance(45);
            if reads {
                record.reads.push((o(object), version));
            }
            if random.chance(if reads { 50 } else { 15 }) {
                let write = if random.chance(12) { free(object, version) } else { update(object, version) };
                record.writes.push(write);
                if write.kind == WriteKind::Update && random.chance(10) {
                    record.reads.push((o(object), write.after));
                }
            }
        }
        None if !used && random.chance(20) => record.writes.push(create(object, 1)),
        None => {}
    }
}

/// Changes something that may or may not matter.
fn mutate(random: &mut Random, plain: &mut Plain) {
    let count = plain.records.len() as u64;
    let pick = |random: &mut Random| random.below(count) as usize;
    let t = pick(random);
    let record = &mut plain.records[t];
    match random.below(8) {
        0 | 1 => {
            if !record.reads.is_empty() {
                let at = random.below(record.reads.len() as u64) as usize;
                let version = &mut record.reads[at].1;
                *version = if random.chance(50) { *version + 1 } else { version.saturating_sub(1) };
            }
        }
        2 | 3 => {
            let shift = random.below(500);
            let earlier = random.chance(50);
            let end = record.end;
            let moved =
                |time: u64| if earlier { time.saturating_sub(shift) } else { time.saturating_add(shift) };
            record.start = moved(record.start);
            record.end = if end == u64::MAX { end } else { moved(end) };
        }
        4 => {
            if !record.writes.is_empty() {
                let at = random.below(record.writes.len() as u64) as usize;
                record.writes.swap_remove(at);
            }
        }
        5 => {
            if !record.writes.is_empty() {
                let at = random.below(record.writes.len() as u64) as usize;
                let write = &mut record.writes[at];
                if write.kind != WriteKind::Create {
                    write.before =
                        if random.chance(50) { write.before + 1 } else { write.before.saturating_sub(1) };
                    write.after = write.before + 1;
                }
            }
        }
        6 => {
            record.outcome = match random.below(3) {
                0 => Outcome::Committed,
                1 => Outcome::Aborted,
                _ => Outcome::Unknown,
            }
        }
        _ => {
            if let Some(last) = plain.last.first_mut() {
                last.1 = match last.1 {
                    Some(version) if random.chance(60) => Some(version.saturating_sub(1)),
                    Some(_) => None,
                    None => Some(1),
                };
            }
        }
    }
}

#[test]
fn whatever_ran_one_after_another_is_in_order() {
    let mut random = Random(0xBA4);
    for _ in 0..300 {
        let plain = run(&mut random, 200, 12);
        if let Err(violation) = check(&plain.history()) {
            panic!("{violation}\n{plain:#?}");
        }
    }
}

#[test]
fn both_checkers_agree_on_small_histories() {
    let mut random = Random(0x5EED);
    let rounds = 30_000;
    let (mut accepted, mut rejected) = (0, 0);
    for round in 0..rounds {
        let (transactions, objects) = (1 + random.below(6), 1 + random.below(4));
        let mut plain = run(&mut random, transactions, objects);
        for _ in 0..random.below(4) {
            mutate(&mut random, &mut plain);
        }
        let (ours, brute) = (check(&plain.history()), plain.is_explained());
        assert_eq!(ours.is_ok(), brute, "round {round}: {ours:?}\n{plain:#?}");
        if brute {
            accepted += 1;
        } else {
            rejected += 1;
        }
    }
    // Both verdicts must be common, or nothing was compared.
    assert!(accepted > rounds / 5 && rejected > rounds / 5, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn both_checkers_agree_where_outcomes_are_unknown() {
    let mut random = Random(0xD1CE);
    let mut chosen = 0;
    for round in 0..20_000 {
        // Few objects and many of unknown outcome: they claim the same versions.
        let mut plain = run(&mut random, 6, 2);
        for record in &mut plain.records {
            if random.chance(60) {
                (record.outcome, record.end) = (Outcome::Unknown, u64::MAX);
            }
        }
        if random.chance(50) {
            mutate(&mut random, &mut plain);
        }
        let (ours, brute) = (check(&plain.history()), plain.is_explained());
        assert_eq!(ours.is_ok(), brute, "round {round}: {ours:?}\n{plain:#?}");
        chosen += ours.map_or(0, |summary| summary.unknown_happened);
    }
    assert!(chosen > 1000, "{chosen}");
}
