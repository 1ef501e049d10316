//! Histories of watched clients of tables on the simulated world are linearizable.

use barn_index::scenario::run;

#[test]
fn every_key_has_one_order() {
    let (mut deaths, mut grown) = (0, [0; 4]);
    for seed in 1..=80 {
        let report = run(seed, 1000);
        assert_eq!(report.failure, None, "seed {seed}: {report:?}");
        deaths += report.deaths;
        grown[(seed % 4) as usize] += report.grown;
    }
    assert!(deaths > 50, "{deaths} clients died");
    assert!(grown.iter().all(|grown| *grown > 100), "nothing moved: {grown:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 14, 16] {
        let (one, two) = (run(seed, 300), run(seed, 300));
        assert_eq!((one.trace, one.judged), (two.trace, two.judged), "seed {seed}");
    }
}
