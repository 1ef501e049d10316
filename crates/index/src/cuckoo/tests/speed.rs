//! How fast it is: `cargo test --release -p barn-index --lib cuckoo::tests::speed -- --ignored --nocapture`.

use super::*;
use std::time::Instant;

const KEYS: u64 = 1_000_000;

fn rate(what: &str, count: u64, run: impl FnOnce()) {
    let started = Instant::now();
    run();
    let seconds = started.elapsed().as_secs_f64();
    println!("{what}: {:.2} M/s, {:.0} ns each", count as f64 / seconds / 1e6, seconds * 1e9 / count as f64);
}

#[test]
#[ignore = "measures, and says so on the terminal"]
fn speed() {
    let mut world = World::new(1024, KEYS);
    let mut chance = Chance(1);
    rate("owner inserts, with room", KEYS, || {
        (0..KEYS).for_each(|number| _ = world.put(&number.to_le_bytes(), &[1; 32], 0).unwrap());
    });
    println!("{:?}", world.owner.stats());
    rate("owner updates", KEYS, || {
        (0..KEYS).for_each(|_| _ = world.put(&chance.below(KEYS).to_le_bytes(), &[2; 32], 0).unwrap());
    });
    let mut found = Found::default();
    rate("owner gets", KEYS, || {
        for _ in 0..KEYS {
            let bytes = chance.below(KEYS).to_le_bytes();
            let key = Key::new(world.options.seed, &bytes);
            assert!(world.owner.get(&world.heap, key, &mut found).unwrap());
        }
    });
    let roots = world.roots();
    rate("lookups, one by one", KEYS, || {
        for _ in 0..KEYS {
            let bytes = chance.below(KEYS).to_le_bytes();
            let key = Key::new(world.options.seed, &bytes);
            let looked = block_on(roots.lookup(&world.memory, key, &mut found, &mut 0)).unwrap();
            assert_eq!(looked, Looked::Found);
        }
    });
    let mut founds = vec![Found::default(); 32];
    let mut looked = vec![Looked::Absent; 32];
    let mut unsettled = 0;
    rate("lookups, 32 at once", KEYS, || {
        for _ in 0..KEYS / 32 {
            let bytes: [[u8; 8]; 32] = std::array::from_fn(|_| chance.below(KEYS).to_le_bytes());
            let keys = bytes.each_ref().map(|bytes| Key::new(world.options.seed, bytes));
            let done = roots.lookup_batch_mapped(&world.memory, &keys, &mut founds, &mut looked, &mut 0);
            assert!(done.is_ok());
            unsettled += looked.iter().filter(|looked| **looked != Looked::Found).count();
        }
    });
    // Two keys with the same tag, once in 2^18 looks at another's entry.
    assert!(unsettled < 100, "{unsettled}");
    for bytes in [32, 64, 128, 1024] {
        let (data, mut sum) = (vec![7; bytes], 0);
        rate(&format!("CRC64 of {bytes} bytes"), KEYS, || {
            (0..KEYS).for_each(|_| sum ^= crate::cuckoo::entry::extent_check(std::hint::black_box(&data)));
        });
        std::hint::black_box(sum);
    }
    let mut grown = World::new(1024, 1);
    let mut longest = std::time::Duration::ZERO;
    rate("owner inserts, growing from nothing", KEYS, || {
        for number in 0..KEYS {
            let started = Instant::now();
            grown.put(&number.to_le_bytes(), &[1; 32], 0).unwrap();
            longest = longest.max(started.elapsed());
        }
    });
    println!("the longest put: {longest:?}");
}
