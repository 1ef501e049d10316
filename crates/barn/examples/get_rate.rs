//! How fast keys are looked up here: `cargo run --release --example get_rate [KEYS [SECONDS [ROW]]]`.
//!
//! A quick look while working on the hot path; `barn bench get` is the benchmark.

use barn::node::NodeConfig;
use barn::{Answers, Barn, Found, TableOptions, Way};
use std::time::{Duration, Instant};

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:............";
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn main() -> Result<(), barn::Error> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (keys, seconds, only) = (number(1_000_000), number(1), number(u64::MAX));
    let memory_bytes = (keys * 160 + (256 << 20)).next_multiple_of(1 << 30);
    let barn = Barn::embedded_with(NodeConfig { memory_bytes, ..NodeConfig::embedded() })?;
    let options = TableOptions { capacity: keys, inline_bytes: 32, ..TableOptions::default() };
    let table = barn.create_table("rate", options, 0)?;
    let started = Instant::now();
    for group in 0..keys.div_ceil(512) {
        let names: Vec<[u8; 16]> = (group * 512..((group + 1) * 512).min(keys)).map(key).collect();
        let pairs: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &[7u8; 32][..])).collect();
        table.put_many(&pairs)?;
    }
    println!("put_many    {:>12.0} keys/s", keys as f64 / started.elapsed().as_secs_f64());
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ((u128::from(random) * u128::from(keys)) >> 64) as u64
    };
    let mut row = 0;
    for way in [Way::OneSided, Way::Request, Way::Auto] {
        for batch in [1usize, 32] {
            row += 1;
            if only != u64::MAX && only != row {
                continue;
            }
            let table = table.read_by(way);
            let (mut found, mut answers) = (Found::default(), Answers::new());
            // Memory is mapped when it is first read.
            assert!(table.find_into(&key(0), &mut found)?);
            let (mut gets, started) = (0u64, Instant::now());
            while started.elapsed() < Duration::from_secs(seconds) {
                for _ in 0..64 {
                    let names: [[u8; 16]; 32] = std::array::from_fn(|_| key(next()));
                    if batch == 1 {
                        for name in &names {
                            assert!(table.find_into(name, &mut found)?);
                        }
                    } else {
                        let wanted: [&[u8]; 32] = std::array::from_fn(|at| &names[at][..]);
                        table.find_many(&wanted, &mut answers)?;
                        assert!(answers.iter().all(|found| found.is_some()));
                    }
                    gets += 32;
                }
            }
            let rate = gets as f64 / started.elapsed().as_secs_f64();
            println!("row {row} {way:>9} {batch:>3} {rate:>12.0} gets/s");
        }
    }
    let stats = table.stats()?;
    println!("{} reads for {} gets; {:?}", stats.reads, stats.one_sided_gets, stats.shards);
    Ok(())
}
