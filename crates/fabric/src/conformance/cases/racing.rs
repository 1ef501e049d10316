//! Several clients and the owner's CPU at the same bytes.

use crate::RemoteRegion;
use crate::conformance::support::{Site, one_region, rounds};
use crate::conformance::{Boxed, Harness, Job, Style};
use crate::region::{Ordering, Rights, versioned};
use barn_layout::RegionId;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Handles on region 1, each of a client of its own.
async fn clients(site: &Site<'_>, count: usize) -> Vec<RemoteRegion> {
    let mut handles = Vec::new();
    for _ in 0..count {
        handles.push(site.client().await.open(RegionId(1), Rights::ALL).await.unwrap());
    }
    handles
}

fn job(work: impl FnOnce() -> Boxed<'static, ()> + Send + 'static) -> Job {
    Box::new(work)
}

pub(crate) async fn a_contended_counter_is_exact(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, _, region) = one_region(&site, 4096).await;
    let (pause, rounds) = (harness.pause(), rounds(2_000));
    let mut jobs: Vec<Job> = Vec::new();
    for remote in clients(&site, 3).await {
        jobs.push(job(move || {
            Box::pin(async move {
                for _ in 0..rounds {
                    remote.fetch_add(512, 1).await.unwrap();
                }
            })
        }));
    }
    let with_owner = client.guarantees().atomic_with_owner;
    if with_owner {
        let words = region.words().clone();
        jobs.push(job(move || {
            Box::pin(async move {
                for _ in 0..rounds {
                    words.fetch_add(512, 1).unwrap();
                    pause().await;
                }
            })
        }));
    }
    let expected = rounds * jobs.len() as u64;
    harness.parallel(Style::InPlace, jobs).await;
    assert_eq!(region.words().load_word(512, Ordering::Relaxed), Ok(expected), "owner too: {with_owner}");
}

pub(crate) async fn a_lock_by_compare_swap_excludes(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, _, region) = one_region(&site, 4096).await;
    let (pause, rounds) = (harness.pause(), rounds(200));
    let jobs = clients(&site, 3).await.into_iter().zip(1u64..).map(|(remote, me)| {
        let pause = pause.clone();
        job(move || {
            Box::pin(async move {
                for _ in 0..rounds {
                    while remote.compare_swap(0, 0, me).await.unwrap() != 0 {
                        pause().await;
                    }
                    // Not atomic: only right while the lock excludes the others.
                    let mut word = [0; 8];
                    remote.read(64, &mut word).await.unwrap();
                    let next = u64::from_le_bytes(word) + 1;
                    remote.write(64, &next.to_le_bytes()).await.unwrap();
                    assert_eq!(remote.compare_swap(0, me, 0).await, Ok(me), "the lock was not ours");
                }
            })
        })
    });
    harness.parallel(Style::InPlace, jobs.collect()).await;
    assert_eq!(region.words().load_word(64, Ordering::Relaxed), Ok(3 * rounds), "an increment was lost");
}

pub(crate) async fn neighbours_in_one_word_are_kept_apart(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, _, _region) = one_region(&site, 4096).await;
    // Bytes of one word, 1, 2 and 5 of them: no writer may undo another's.
    let parts = [(0u64, 1usize), (1, 2), (3, 5)];
    let jobs = clients(&site, 3).await.into_iter().zip(parts).map(|(remote, (at, bytes))| {
        job(move || {
            Box::pin(async move {
                for round in 0..rounds(500) {
                    let mine = vec![round as u8; bytes];
                    remote.write(at, &mine).await.unwrap();
                    let mut seen = vec![0; bytes];
                    remote.read(at, &mut seen).await.unwrap();
                    assert_eq!(seen, mine, "another's write undid ours at {at}");
                }
            })
        })
    });
    harness.parallel(Style::InPlace, jobs.collect()).await;
}

pub(crate) async fn racing_readers_never_take_a_torn_value(harness: &dyn Harness) {
    const BODY: usize = 256;
    let site = Site::start(harness);
    let (_client, _, region) = one_region(&site, 4096).await;
    versioned::publish(region.words(), 0, &[1; BODY]).unwrap();
    let pause = harness.pause();
    let (accepted, raw_torn) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut jobs: Vec<Job> = Vec::new();
    // The readers hold it; when they are done, or have failed, the writer is alone with it.
    let readers = Arc::new(());
    for remote in clients(&site, 2).await {
        let (accepted, raw_torn, reader) = (accepted.clone(), raw_torn.clone(), readers.clone());
        jobs.push(job(move || {
            Box::pin(async move {
                let _reader = reader;
                let mut mine = 0u64;
                for round in 0..200_000u64 {
                    let mut body = [0; BODY];
                    if let Some(version) = remote.read_versioned(0, &mut body).await.unwrap() {
                        mine += 1;
                        let whole = body.iter().all(|byte| *byte == body[0]);
                        assert!(whole, "a torn value was taken: {body:?}");
                        assert_eq!(body[0], (version / 2) as u8, "the body of another version");
                    }
                    if round % 4 == 0 {
                        let mut raw = [0; BODY];
                        remote.read(8, &mut raw).await.unwrap();
                        let torn = raw.iter().any(|byte| *byte != raw[0]);
                        raw_torn.fetch_add(u64::from(torn), Ordering::Relaxed);
                    }
                    if round >= rounds(3_000) && mine >= 100 {
                        break;
                    }
                }
                assert!(mine > 0, "no value was ever read whole");
                accepted.fetch_add(mine, Ordering::Relaxed);
            })
        }));
    }
    let words = region.words().clone();
    jobs.push(job(move || {
        Box::pin(async move {
            while Arc::strong_count(&readers) > 1 {
                let version = words.load_word(0, Ordering::Relaxed).unwrap();
                versioned::publish(&words, 0, &[(version / 2 + 1) as u8; BODY]).unwrap();
                // Some time between values, or a reader never meets a whole one.
                for _ in 0..20 {
                    std::hint::spin_loop();
                }
                pause().await;
            }
        })
    }));
    harness.parallel(Style::InPlace, jobs).await;
    println!(
        "{}: {} values taken, all whole; {} of the raw READs beside them were torn",
        harness.name(),
        accepted.load(Ordering::Relaxed),
        raw_torn.load(Ordering::Relaxed)
    );
}
