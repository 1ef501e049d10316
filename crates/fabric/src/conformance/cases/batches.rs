//! Several operations at once: batches, pipelines, a runtime's tasks.

use crate::conformance::service::ECHO;
use crate::conformance::support::{Site, call, join_all, one_region, pattern, rounds};
use crate::conformance::{Boxed, Harness, Job, Style};
use crate::region::Rights;
use crate::seam::{Random, Seeded};
use crate::{Batch, OperationError, Pipeline};
use barn_layout::RegionId;
use barn_layout::limits::OUTSTANDING_MAX;

pub(crate) async fn a_batch_keeps_its_order(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, 4096).await;
    for round in 0..100u8 {
        let (mut between, mut after) = ([0; 64], [0; 64]);
        let (first, second) = ([round; 64], [round ^ 0xff; 64]);
        let mut batch = Batch::new();
        batch
            .push(remote.write(100, &first))
            .push(remote.read(100, &mut between))
            .push(remote.write(100, &second))
            .push(remote.read(100, &mut after));
        batch.await.unwrap();
        assert_eq!(between, first, "a READ did not see the WRITE before it, or saw the one after it");
        assert_eq!(after, second, "the last READ did not see the last WRITE");
    }
}

pub(crate) async fn an_error_in_a_batch_ends_it(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, 4096).await;
    let mut into = [0; 8];
    let mut batch = Batch::new();
    batch.push(remote.write(0, &[7; 8])).push(remote.write(4095, &[7; 8])).push(remote.write(8, &[7; 8]));
    let refused = OperationError::OutOfBounds { offset: 4095, bytes: 8, region_bytes: 4096 };
    assert_eq!(batch.await, Err(refused));
    remote.read(0, &mut into).await.expect("the connection is still good");
    assert_eq!(into, [7; 8], "the operation before the error was not carried out");
    let mut batch = Batch::new();
    batch.push(remote.read(0, &mut into));
    assert_eq!(batch.await, Ok(()));
}

pub(crate) async fn a_batch_of_nothing_is_done(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, 4096).await;
    assert_eq!(Batch::new().await, Ok(()));
    let mut batch = Batch::new();
    batch.push(remote.read(0, &mut [])).push(remote.write(4096, &[]));
    assert_eq!(batch.await, Ok(()));
}

pub(crate) async fn a_batch_longer_than_the_window_keeps_its_order(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, 4096).await;
    let steps = OUTSTANDING_MAX + 500;
    let values: Vec<[u8; 8]> = (1..=steps as u64).map(u64::to_le_bytes).collect();
    let mut seen = vec![[0; 8]; steps];
    let mut batch = Batch::new();
    for (value, seen) in values.iter().zip(&mut seen) {
        batch.push(remote.write(64, value)).push(remote.read(64, seen));
    }
    batch.await.unwrap();
    assert_eq!(seen, values, "each READ sees the WRITE just before it");
}

pub(crate) async fn a_batch_spans_regions(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, _) = one_region(&site, 4096).await;
    site.region(2, 4096, Rights::ALL);
    let two = client.open(RegionId(2), Rights::ALL).await.unwrap();
    let (mut first, mut second) = ([0; 8], [0; 8]);
    let mut batch = Batch::new();
    batch
        .push(one.write(0, b"region 1"))
        .push(two.write(0, b"region 2"))
        .push(one.read(0, &mut first))
        .push(two.read(0, &mut second));
    batch.await.unwrap();
    assert_eq!((&first, &second), (b"region 1", b"region 2"));
}

pub(crate) async fn pipelined_operations_are_all_right(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, remote, region) = one_region(&site, 64 << 10).await;
    let bytes = pattern(64 << 10);
    region.words().store(0, &bytes).unwrap();
    let mut random = Seeded::new(3);
    let plan: Vec<(usize, usize)> =
        (0..rounds(2_000)).map(|_| (random.below(60 << 10) as usize, random.below(200) as usize)).collect();
    if harness.has_threads() {
        let job: Job = Box::new(move || {
            let mut done = 0;
            for window in [1, 2, 16, 64] {
                let (remote, bytes) = (&remote, &bytes);
                Pipeline::new(window).run(
                    plan.iter().map(|(at, length)| async move {
                        let mut into = vec![0; *length];
                        remote.read(*at as u64, &mut into).await.unwrap();
                        assert_eq!(into, bytes[*at..at + length]);
                    }),
                    |()| done += 1,
                );
                let client = &client;
                Pipeline::new(window).run(
                    plan.iter().take(500).map(|(at, length)| async move {
                        let sent = &bytes[*at..at + length];
                        assert_eq!(call(client, ECHO, sent).await.unwrap(), sent);
                    }),
                    |()| done += 1,
                );
            }
            assert_eq!(done, 4 * (plan.len() + plan.len().min(500)));
            for window in [0, 1, 7, 64] {
                let mut into: Vec<Vec<u8>> = plan.iter().map(|(_, length)| vec![0; *length]).collect();
                // One that is refused stands in nobody's way.
                let mut beyond = [0; 8];
                let reads = plan.iter().zip(&mut into).map(|((at, _), into)| (*at as u64, &mut into[..]));
                let reads = [((64 << 10) - 7, &mut beyond[..])].into_iter().chain(reads);
                let (mut right, mut refused) = (0, 0);
                remote.read_many(window, reads, |done| match done {
                    Ok(()) => right += 1,
                    Err(OperationError::OutOfBounds { .. }) => refused += 1,
                    Err(other) => panic!("{other}"),
                });
                assert_eq!((right, refused), (plan.len(), 1), "{window} at once");
                for ((at, length), into) in plan.iter().zip(&into) {
                    assert_eq!(*into, bytes[*at..at + length], "{length} bytes at {at}, {window} at once");
                }
            }
            Box::pin(async {})
        });
        return harness.parallel(Style::InPlace, vec![job]).await;
    }
    for some in plan.chunks(64) {
        let (remote, client, bytes) = (&remote, &client, &bytes);
        let operations = some.iter().map(|(at, length)| {
            Box::pin(async move {
                let sent = &bytes[*at..at + length];
                let mut into = vec![0; *length];
                remote.read(*at as u64, &mut into).await.unwrap();
                assert_eq!(into, sent);
                assert_eq!(call(client, ECHO, sent).await.unwrap(), sent);
            }) as Boxed<'_, ()>
        });
        join_all(operations.collect()).await;
    }
}

pub(crate) async fn a_runtimes_tasks_get_their_answers(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, remote, region) = one_region(&site, 4096).await;
    region.words().store(0, &pattern(4096)).unwrap();
    let jobs = (0..3u8).map(|task| {
        let (client, remote) = (client.clone(), remote.clone());
        Box::new(move || {
            Box::pin(async move {
                let expected = pattern(4096);
                for round in 0..rounds(200) as usize {
                    let mut into = [0; 40];
                    remote.read(round as u64, &mut into).await.unwrap();
                    assert_eq!(into, expected[round..round + 40]);
                    let sent = vec![task; round * 37 % 3000];
                    assert_eq!(call(&client, ECHO, &sent).await.unwrap(), sent);
                    if round % 50 == 0 {
                        let again = client.open(RegionId(1), Rights::READ).await.unwrap();
                        again.read(0, &mut into).await.unwrap();
                    }
                }
            }) as Boxed<'static, ()>
        }) as Job
    });
    harness.parallel(Style::Runtime, jobs.collect()).await;
}

pub(crate) async fn connections_are_shared_between_threads(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, _remote, _) = one_region(&site, 4096).await;
    let jobs = |style: Style, seed: u8| {
        let client = client.clone();
        let rounds = rounds(if style == Style::InPlace { 500 } else { 100 }) as usize;
        Box::new(move || {
            Box::pin(async move {
                for round in 0..rounds {
                    let sent = vec![seed ^ round as u8; round * 11 % 900];
                    assert_eq!(call(&client, ECHO, &sent).await.unwrap(), sent);
                }
            }) as Boxed<'static, ()>
        }) as Job
    };
    harness.parallel(Style::InPlace, (1..4).map(|seed| jobs(Style::InPlace, seed)).collect()).await;
    harness.parallel(Style::Runtime, (4..6).map(|seed| jobs(Style::Runtime, seed)).collect()).await;
}
