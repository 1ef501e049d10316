//! One seed, one history.

use barn_fabric::simulated::scenario::ALL;
use std::collections::BTreeSet;

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    for (name, scenario) in ALL {
        let mut traces = BTreeSet::new();
        for seed in 0..100 {
            let (one, two) = (scenario(seed), scenario(seed));
            assert_eq!(one, two, "{name}, seed {seed}: two runs differ");
            traces.insert(one.trace);
        }
        assert_eq!(traces.len(), 100, "{name}: two seeds have one history");
    }
}

#[test]
fn the_trace_does_not_depend_on_what_ran_before() {
    let (_, scenario) = ALL[0];
    let alone = scenario(7).trace;
    let _busy: Vec<Vec<u8>> = (1..100).map(|bytes| vec![0; bytes * 100]).collect();
    let elsewhere = std::thread::spawn(move || scenario(7).trace).join().unwrap();
    assert_eq!(alone, elsewhere);
}
