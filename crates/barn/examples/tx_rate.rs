//! How long reads and small transactions take on an embedded node: `tx_rate [SECONDS]`.

use barn::{Barn, Error, Pointer};
use barn_fabric::seam::{Random, Seeded};
use std::time::{Duration, Instant};

const OBJECTS: u64 = 100_000;

fn main() -> Result<(), Error> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2);
    let barn = Barn::embedded()?;
    let bodies = [&[0u8; 64][..]; 1000];
    let mut objects: Vec<Pointer> = Vec::new();
    while objects.len() < OBJECTS as usize {
        objects.extend(barn.transaction(|tx| tx.alloc_array(&bodies, None))?);
    }
    let mut random = Seeded::new(1);
    let mut pick = |below: u64| objects[random.below(below) as usize];
    for (name, below) in [("low", OBJECTS), ("high", 16)] {
        let each = time(seconds, || {
            let (one, two) = (pick(below), pick(below));
            barn.transaction(|tx| {
                for pointer in [one, two] {
                    let mut body = [0; 64];
                    body.copy_from_slice(tx.read(pointer)?);
                    body[0] = body[0].wrapping_add(1);
                    tx.write(pointer, &body)?;
                }
                Ok(())
            })
        })?;
        println!("read and write 2 objects, {name} contention: {each:.0} ns");
    }
    let each = time(seconds, || {
        let four = [pick(OBJECTS), pick(OBJECTS), pick(OBJECTS), pick(OBJECTS)];
        barn.transaction(|tx| {
            let mut sum = 0;
            for pointer in four {
                sum += u64::from(tx.read(pointer)?[0]);
            }
            Ok(sum)
        })
        .map(|_| ())
    })?;
    println!("read 4 objects: {each:.0} ns");
    let each = time(seconds, || barn.read(pick(OBJECTS)).map(|_| ()))?;
    println!("read 1 object, without a transaction: {each:.0} ns");
    Ok(())
}

/// Nanoseconds of one.
fn time(seconds: u64, mut one: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let (start, mut count) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..100 {
            one()?;
        }
        count += 100;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / count as f64)
}
