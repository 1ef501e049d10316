//! How long reads and small transactions take on an embedded node: `tx_rate [SECONDS [ROW]]`.

use barn::{Barn, Client, ClientError, Error, Pointer, RunError, RunOptions, Transaction};
use barn_fabric::Pipeline;
use barn_fabric::seam::{Random, Seeded};
use std::sync::atomic::{AtomicUsize, Ordering};
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
                tx.fetch(&[one, two])?;
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
    let client = barn.client();
    let each = time(seconds, || {
        let pairs: Vec<[Pointer; 2]> = (0..1024).map(|_| [pick(OBJECTS), pick(OBJECTS)]).collect();
        let mut failed = None;
        Pipeline::new(16).run(pairs.into_iter().map(|pair| add(client, pair)), |done| {
            failed = done.err().or(failed.take());
        });
        failed.map_or(Ok(()), |error| Err(Error::own(error.to_string())))
    })? / 1024.0;
    println!("read and write 2 objects, 16 at once: {each:.0} ns");
    let each = time(seconds, || {
        let four = [pick(OBJECTS), pick(OBJECTS), pick(OBJECTS), pick(OBJECTS)];
        barn.transaction(|tx| {
            tx.fetch(&four)?;
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

async fn add(client: &Client, pair: [Pointer; 2]) -> Result<(), RunError<ClientError>> {
    client
        .run(RunOptions::default(), async |tx: &mut Transaction| {
            tx.fetch(&pair).await?;
            for pointer in pair {
                let mut body = [0; 64];
                body.copy_from_slice(tx.read(pointer).await?);
                body[0] = body[0].wrapping_add(1);
                tx.write(pointer, &body).await?;
            }
            Ok::<(), ClientError>(())
        })
        .await
}

/// Nanoseconds of one.
fn time(seconds: u64, mut one: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    static ROW: AtomicUsize = AtomicUsize::new(0);
    // ORDER: Relaxed: one thread.
    let row = ROW.fetch_add(1, Ordering::Relaxed);
    if std::env::args().nth(2).is_some_and(|wanted| wanted != row.to_string()) {
        return Ok(f64::NAN);
    }
    let (start, mut count) = (Instant::now(), 0u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..16 {
            one()?;
        }
        count += 16;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / count as f64)
}
