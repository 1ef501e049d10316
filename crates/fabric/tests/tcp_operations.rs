//! One-sided operations over tcp: results, rights, bounds, revocation, the calling styles.

mod tcp_support;

use barn_fabric::region::versioned;
use barn_fabric::{Batch, OpenError, OperationError, Pipeline, Region, RegionId, Rights};
use barn_layout::frame::{AtomicBody, FrameKind, Outcome, WriteBody};
use barn_layout::limits::{OPERATION_BYTES_MAX, OUTSTANDING_MAX, REGIONS_PER_PEER_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tcp_support::*;
use zerocopy::IntoBytes;

#[test]
fn what_is_written_is_read_at_every_length_and_alignment() {
    let serving = Serving::start();
    let region = serving.connect().open(REGION, Rights::ALL).wait().unwrap();
    assert_eq!(region.bytes(), REGION_BYTES as u64);
    let lengths =
        [0, 1, 7, 8, 9, 64, 1000, 4096, 65_535, 65_536, 262_144, 262_145, 1 << 20, OPERATION_BYTES_MAX];
    for (round, bytes) in lengths.into_iter().enumerate() {
        for offset in [0, 3, 8, 4096 + round as u64] {
            let mut there = vec![0; bytes];
            serving.region.words().load(offset, &mut there).unwrap();
            let mut here = vec![0xee; bytes];
            region.read(offset, &mut here).wait().unwrap();
            assert!(here == there, "READ {bytes} at {offset}");
            here.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            region.write(offset, &here).wait().unwrap();
            serving.region.words().load(offset, &mut there).unwrap();
            assert!(here == there, "WRITE {bytes} at {offset}");
        }
    }
    assert!(serving.count(|stats| &stats.operations) > 0);
}

#[test]
fn atomics_give_what_was_there() {
    let serving = Serving::start();
    let region = serving.connect().open(REGION, Rights::ALL).wait().unwrap();
    region.write(64, &5u64.to_le_bytes()).wait().unwrap();
    assert_eq!(region.fetch_add(64, 10).wait(), Ok(5));
    assert_eq!(region.compare_swap(64, 15, 99).wait(), Ok(15));
    assert_eq!(region.compare_swap(64, 15, 1).wait(), Ok(99), "swapped although another value was there");
    assert_eq!(region.fetch_add(64, u64::MAX).wait(), Ok(99), "99 and -1");
    assert_eq!(serving.region.words().load_word(64, Ordering::Relaxed), Ok(98));
}

#[test]
fn a_contended_counter_counts_everybody() {
    let serving = Serving::start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let region = serving.connect().open(REGION, Rights::ATOMIC).wait().unwrap();
                Pipeline::new(16).run((0..500).map(|_| region.fetch_add(0, 1)), |done| assert!(done.is_ok()));
            });
        }
        (0..500).for_each(|_| assert!(serving.region.words().fetch_add(0, 1).is_ok()));
    });
    let first = u64::from_le_bytes(pattern(8).try_into().unwrap());
    assert_eq!(serving.region.words().load_word(0, Ordering::Relaxed), Ok(first.wrapping_add(2500)));
}

#[test]
fn a_missing_right_is_refused_on_both_sides() {
    let serving = Serving::start();
    let (id, read_only) = (RegionId(8), Region::on_heap(4096, Rights::ALL));
    serving.registry.register(id, read_only, Rights::READ).unwrap();
    let connection = serving.connect();
    assert!(matches!(connection.open(id, Rights::WRITE).wait(), Err(OpenError::NoRight { .. })));
    assert!(matches!(connection.open(id, Rights::NONE).wait(), Err(OpenError::NoRight { .. })));
    assert!(matches!(connection.open(RegionId(99), Rights::READ).wait(), Err(OpenError::NoSuchRegion(_))));
    let region = connection.open(id, Rights::READ).wait().unwrap();
    assert!(matches!(region.write(0, &[1]).wait(), Err(OperationError::NoRight { .. })));
    assert!(matches!(region.fetch_add(0, 1).wait(), Err(OperationError::NoRight { .. })));
    let mut raw = serving.raw();
    let key = raw.open(Rights::READ);
    let write = WriteBody { key: key.into(), offset: 0.into() };
    raw.frame(FrameKind::Write, 2, &[write.as_bytes(), b"never"].concat());
    assert_eq!(raw.next().0.status, Outcome::NoRight as u8);
    let atomic = AtomicBody { key: key.into(), offset: 0.into(), operand: 1.into(), replacement: 1.into() };
    for kind in [FrameKind::FetchAdd, FrameKind::CompareSwap] {
        raw.frame(kind, 3, atomic.as_bytes());
        assert_eq!(raw.next().0.status, Outcome::NoRight as u8);
    }
    let key = raw.open(Rights::WRITE);
    assert_eq!(raw.read(key, 0, 8), (Outcome::NoRight as u8, 0));
}

#[test]
fn every_bound_is_checked_on_both_sides() {
    let serving = Serving::start();
    let region = serving.connect().open(REGION, Rights::ALL).wait().unwrap();
    let end = REGION_BYTES as u64;
    let mut into = [0; 16];
    for offset in [end - 15, end, end + 1, u64::MAX, u64::MAX - 15] {
        assert!(matches!(region.read(offset, &mut into).wait(), Err(OperationError::OutOfBounds { .. })));
        assert!(matches!(region.write(offset, &into).wait(), Err(OperationError::OutOfBounds { .. })));
    }
    assert!(matches!(region.fetch_add(12, 1).wait(), Err(OperationError::Misaligned { .. })));
    let mut long = vec![0; OPERATION_BYTES_MAX + 1];
    assert!(matches!(region.read(0, &mut long).wait(), Err(OperationError::TooLong { .. })));
    let mut raw = serving.raw();
    let key = raw.open(Rights::ALL);
    for offset in [end - 15, end, u64::MAX, u64::MAX - 15] {
        assert_eq!(raw.read(key, offset, 16), (Outcome::OutOfBounds as u8, 0), "READ at {offset}");
        let write = WriteBody { key: key.into(), offset: offset.into() };
        raw.frame(FrameKind::Write, 2, &[write.as_bytes(), &into].concat());
        assert_eq!(raw.next().0.status, Outcome::OutOfBounds as u8, "WRITE at {offset}");
    }
    for bytes in [OPERATION_BYTES_MAX as u32 + 1, u32::MAX] {
        assert_eq!(raw.read(key, 0, bytes), (Outcome::TooLong as u8, 0));
    }
    let atomic = |offset: u64| AtomicBody {
        key: key.into(),
        offset: offset.into(),
        operand: 0.into(),
        replacement: 0.into(),
    };
    for (offset, outcome) in
        [(4, Outcome::Misaligned), (end, Outcome::OutOfBounds), (!7, Outcome::OutOfBounds)]
    {
        raw.frame(FrameKind::CompareSwap, 2, atomic(offset).as_bytes());
        assert_eq!(raw.next().0.status, outcome as u8, "atomic at {offset}");
    }
    assert_eq!(raw.read(key, end - 16, 16), (0, 16), "the last bytes are there");
}

#[test]
fn a_revoked_grant_is_worth_nothing_and_can_be_had_again() {
    let serving = Serving::start();
    let (connection, other) = (serving.connect(), serving.connect());
    let (region, others) = (
        connection.open(REGION, Rights::ALL).wait().unwrap(),
        other.open(REGION, Rights::READ).wait().unwrap(),
    );
    let mut into = [0; 8];
    region.read(0, &mut into).wait().unwrap();
    serving.registry.revoke(REGION, connection.peer());
    assert_eq!(region.read(0, &mut into).wait(), Err(OperationError::Revoked));
    assert_eq!(region.write(0, &into).wait(), Err(OperationError::Revoked));
    assert_eq!(region.fetch_add(0, 1).wait(), Err(OperationError::Revoked));
    others.read(0, &mut into).wait().unwrap();
    let again = connection.open(REGION, Rights::ALL).wait().unwrap();
    again.read(0, &mut into).wait().unwrap();
    serving.registry.withdraw(REGION);
    assert_eq!(again.read(0, &mut into).wait(), Err(OperationError::Revoked));
    assert_eq!(others.read(0, &mut into).wait(), Err(OperationError::Revoked));
}

#[test]
fn long_reads_race_a_revocation_and_end_whole_or_revoked() {
    let serving = Serving::start();
    let connection = serving.connect();
    let mut into = vec![0; 8 << 20];
    for _ in 0..20 {
        let region = connection.open(REGION, Rights::READ).wait().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| serving.registry.revoke(REGION, connection.peer()));
            match region.read(0, &mut into).wait() {
                Ok(()) => assert!(into == pattern(8 << 20)),
                Err(error) => assert_eq!(error, OperationError::Revoked),
            }
        });
    }
}

#[test]
fn no_write_lands_after_a_revocation_has_returned() {
    let serving = Serving::start();
    let connection = serving.connect();
    for round in 0..50u8 {
        let region = connection.open(REGION, Rights::ALL).wait().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| while region.write(0, &[round; 4096]).wait().is_ok() {});
            std::thread::yield_now();
            serving.registry.revoke(REGION, connection.peer());
            let (mut before, mut after) = (vec![0; 4096], vec![0; 4096]);
            serving.region.words().load(0, &mut before).unwrap();
            std::thread::yield_now();
            serving.region.words().load(0, &mut after).unwrap();
            assert!(before == after, "the region changed after the grant had ended");
        });
    }
}

#[test]
fn a_dropped_region_makes_room_for_another() {
    let serving = Serving::start();
    let connection = serving.connect();
    let mut held: Vec<_> =
        (0..REGIONS_PER_PEER_MAX).map(|_| connection.open(REGION, Rights::READ).wait().unwrap()).collect();
    assert!(matches!(connection.open(REGION, Rights::READ).wait(), Err(OpenError::TooManyRegions)));
    held.pop();
    let mut into = [0; 8];
    connection.open(REGION, Rights::READ).wait().unwrap().read(0, &mut into).wait().unwrap();
}

#[test]
fn an_open_that_is_given_up_leaves_no_grant_behind() {
    let serving = Serving::start();
    let connection = serving.connect();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..REGIONS_PER_PEER_MAX + 100 {
        let opening = std::pin::pin!(connection.open(REGION, Rights::READ)).poll(&mut cx);
        assert!(opening.is_pending());
        connection.call(ECHO, b"go on", &mut Vec::new()).wait().unwrap();
    }
    connection.open(REGION, Rights::READ).wait().unwrap();
}

#[test]
fn a_batch_longer_than_the_window_is_carried_out_in_order() {
    let serving = Serving::start();
    let region = serving.connect().open(REGION, Rights::ALL).wait().unwrap();
    let values: Vec<[u8; 8]> = (0..3 * OUTSTANDING_MAX as u64).map(u64::to_le_bytes).collect();
    let mut batch = Batch::new();
    for value in &values {
        batch.push(region.write(0, value));
    }
    batch.wait().unwrap();
    let last = serving.region.words().load_word(0, Ordering::Relaxed).unwrap();
    assert_eq!(last, 3 * OUTSTANDING_MAX as u64 - 1);
    let mut into = vec![[0; 100]; 500];
    let mut batch = Batch::new();
    for (i, into) in into.iter_mut().enumerate() {
        batch.push(region.read(100 * i as u64 + 8, into));
    }
    batch.wait().unwrap();
    assert!(into.concat() == pattern(REGION_BYTES)[8..50_008]);
    let mut batch = Batch::new();
    let mut two = [0; 8];
    batch.push(region.write(0, &[1])).push(region.read(u64::MAX, &mut two));
    assert!(matches!(batch.wait(), Err(OperationError::OutOfBounds { .. })));
}

#[test]
fn a_pipeline_wider_than_the_window_finishes() {
    let serving = Serving::start();
    let region = serving.connect().open(REGION, Rights::READ).wait().unwrap();
    let (region, expected) = (&region, pattern(REGION_BYTES));
    let read = |i: usize| async move {
        let bytes = if i.is_multiple_of(100) { 300_000 } else { 40 };
        let mut into = vec![0; bytes];
        region.read(i as u64 * 8, &mut into).await.unwrap();
        (i, into)
    };
    let mut done = 0;
    Pipeline::new(2 * OUTSTANDING_MAX).run((0..10_000).map(read), |(i, into)| {
        assert!(into == expected[i * 8..i * 8 + into.len()], "READ {i}");
        done += 1;
    });
    assert_eq!(done, 10_000);
}

#[test]
fn racing_readers_take_no_torn_value() {
    let serving = Serving::start();
    let region = serving.connect().open(REGION, Rights::READ).wait().unwrap();
    let (words, stop) = (serving.region.words(), AtomicBool::new(false));
    versioned::publish(words, 0, &[0; 512]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0u8;
            // ORDER: Relaxed: only tells when to end.
            while !stop.load(Ordering::Relaxed) {
                round = round.wrapping_add(1);
                versioned::publish(words, 0, &[round; 512]).unwrap();
                (0..200).for_each(|_| std::hint::spin_loop());
            }
        });
        let (mut whole, mut body) = (0, [0; 512]);
        while whole < 300 {
            if barn_fabric::block_on(region.read_versioned(0, &mut body)).unwrap().is_some() {
                whole += 1;
                assert!(body.iter().all(|byte| *byte == body[0]), "a torn value was taken");
            }
        }
        // ORDER: Relaxed, as above.
        stop.store(true, Ordering::Relaxed);
    });
}

/// The smallest runtime: polls when woken, on a thread that parks.
fn run<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker: Waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park_timeout(PATIENCE);
    }
}

#[test]
fn any_runtime_can_drive() {
    let serving = Serving::start();
    let address = serving.address();
    let node = &serving;
    run(async move {
        let options = barn_fabric::ConnectOptions::default();
        let connection = barn_fabric::Connection::connect(&address, options).await.unwrap();
        let region = connection.open(REGION, Rights::ALL).await.unwrap();
        let mut into = vec![0; 3 << 20];
        region.read(0, &mut into).await.unwrap();
        assert!(into == pattern(3 << 20));
        region.write(8, &into).await.unwrap();
        let (mut one, mut two) = ([0; 8], vec![0; 100_000]);
        let mut batch = Batch::new();
        batch.push(region.write(0, &[9; 8])).push(region.read(0, &mut one)).push(region.read(8, &mut two));
        batch.await.unwrap();
        assert!(one == [9; 8] && two == pattern(100_000));
        for i in 0..200u32 {
            let mut reply = Vec::new();
            connection.call(ECHO, &i.to_le_bytes(), &mut reply).await.unwrap();
            assert_eq!(reply, i.to_le_bytes());
        }
        let mut reply = Vec::new();
        let long = pattern(40 << 20);
        connection.call(ECHO, &long, &mut reply).await.unwrap();
        assert!(reply == long);
        connection.send(&long).await.unwrap();
        connection.call(PUSH, &tcp_support::two(3, 1000), &mut reply).await.unwrap();
        for _ in 0..3 {
            connection.receive(&mut reply).await.unwrap();
            assert!(reply == pattern(1000));
        }
        node.until("the message comes", |node| node.seen.lock().unwrap().messages.len() == 1);
    });
}

#[test]
fn threads_that_share_a_connection_each_get_their_own() {
    let serving = Serving::start();
    let connection = serving.connect();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let connection = &connection;
            scope.spawn(move || {
                let call = |i: u32| async move {
                    let (request, mut reply) = ((thread * 10_000 + i).to_le_bytes(), Vec::new());
                    connection.call(ECHO, &request, &mut reply).await.unwrap();
                    assert_eq!(reply, request);
                };
                match thread {
                    0 | 1 => (0..500).for_each(|i| barn_fabric::block_on(call(i))),
                    2 => Pipeline::new(32).run((0..2000).map(call), drop),
                    _ => (0..200).for_each(|i| run(call(i))),
                }
            });
        }
    });
}
