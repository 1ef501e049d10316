//! Histories of watched clients on the simulated world are strictly serializable.

use barn_transaction::scenario::run;

#[test]
fn every_history_has_one_order() {
    for seed in 1..=40 {
        let report = run(seed, 300);
        assert_eq!(report.failure, None, "seed {seed}: {report:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 14, 15] {
        let (one, two) = (run(seed, 200), run(seed, 200));
        assert_eq!((one.trace, one.summary), (two.trace, two.summary), "seed {seed}");
    }
}
