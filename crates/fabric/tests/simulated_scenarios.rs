//! Every scenario, over many seeds; and that the seeds show what they are there to show.

use barn_fabric::simulated::Stats;
use barn_fabric::simulated::scenario::{ALL, Scenario};

const SEEDS: u64 = 250;

fn run((name, scenario): Scenario) -> (Stats, u64) {
    let (mut stats, mut checked) = (Stats::default(), 0);
    for seed in 1_000..1_000 + SEEDS {
        let report = scenario(seed);
        if let Some(why) = report.failure {
            panic!("seed {seed} failed: {name}: {why}\nreplay: cargo xtask simulate --seed {seed}");
        }
        stats += report.stats;
        checked += report.checked;
    }
    (stats, checked)
}

#[test]
fn racing_readers_take_no_torn_body_though_reads_are_torn() {
    let (stats, accepted) = run(ALL[0]);
    assert!(stats.torn_reads > 200, "only {} READs were torn", stats.torn_reads);
    assert!(accepted > 5_000, "only {accepted} bodies were accepted");
}

#[test]
fn acknowledged_increments_are_counted_once_through_crashes() {
    let (stats, acknowledged) = run(ALL[1]);
    assert!(stats.crashes > 100, "only {} crashes", stats.crashes);
    assert!(acknowledged > 10_000, "only {acknowledged} calls were acknowledged");
}

#[test]
fn contended_atomics_are_exact() {
    let (stats, done) = run(ALL[2]);
    assert!(stats.faults > 1_000 && done > 10_000, "{done} additions, {stats:?}");
}

#[test]
fn a_revoked_grant_is_of_no_use() {
    let (_, operations) = run(ALL[3]);
    assert!(operations > 10_000, "only {operations} operations were tried");
}
