//! What our CRC64 takes beside the crate that does it elsewhere, by length: why there is one of our own.
//!
//! ```console
//! $ cargo run --release -p barn-fabric --example crc64_rate
//! ```

use std::hint::black_box;
use std::time::Instant;

/// Nanoseconds of one call, the median of some rounds.
fn measure(bytes: &[u8], sum: impl Fn(&[u8]) -> u64) -> f64 {
    let calls = (4 << 20) / (bytes.len() + 64);
    let mut rounds: Vec<f64> = (0..15)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..calls {
                black_box(sum(black_box(bytes)));
            }
            began.elapsed().as_nanos() as f64 / calls as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn main() {
    println!("   bytes     ours ns    crate ns   ratio");
    for bytes in [16, 32, 64, 128, 256, 570, 1024, 4096, 65_536, 1 << 20] {
        let all = vec![7; bytes];
        let ours = measure(&all, barn_fabric::crc64);
        let theirs = measure(&all, crc_fast::crc64_nvme);
        println!("{bytes:8}  {ours:10.1}  {theirs:10.1}  {:6.2}", theirs / ours);
    }
}
