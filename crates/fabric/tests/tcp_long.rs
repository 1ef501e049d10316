//! Long READs and WRITEs over tcp, which go between socket and registered memory without a stop: their
//! bytes, their order, and what becomes of them when the peer is slow or the grant ends on the way.

mod tcp_support;

use barn_fabric::{OperationError, Pipeline, Rights};
use barn_layout::frame::{FrameKind, Outcome, WriteBody};
use tcp_support::*;
use zerocopy::IntoBytes;

const LONG: usize = 6 << 20;

fn write_frame(key: u64, id: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut body = WriteBody { key: key.into(), offset: offset.into() }.as_bytes().to_vec();
    body.extend_from_slice(bytes);
    frame(FrameKind::Write as u8, id, &body)
}

#[test]
fn a_peer_that_takes_its_bytes_late_gets_all_of_them_in_order() {
    let serving = Serving::start();
    let mut raw = serving.raw();
    let key = raw.open(Rights::READ);
    // Far more than a socket holds, with other answers between.
    for id in 0..4 {
        raw.frame(FrameKind::Read, 100 + id, read_body(key, id * 1000, LONG as u32).as_bytes());
        raw.frame(FrameKind::Ping, 200 + id, &[]);
    }
    // Messages that the node sends by itself come between frames, never inside one.
    serving.connect().call(ECHO, b"meanwhile", &mut Vec::new()).wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let all = pattern(REGION_BYTES);
    for id in 0..4 {
        let mut bytes = Vec::new();
        loop {
            let (frame, body) = raw.next();
            assert_eq!((frame.id, frame.status), (100 + id, Outcome::Done as u8));
            bytes.extend_from_slice(&body);
            if frame.kind == FrameKind::Done {
                break;
            }
            assert_eq!(frame.kind, FrameKind::Piece);
        }
        let from = id as usize * 1000;
        assert!(bytes == all[from..from + LONG], "READ {id}");
        assert_eq!(raw.next().0.kind, FrameKind::Pong);
    }
}

#[test]
fn a_write_that_comes_in_drops_lands_whole_and_what_follows_sees_it() {
    let serving = Serving::start();
    let mut raw = serving.raw();
    let key = raw.open(Rights::ALL);
    let bytes: Vec<u8> = (0..LONG).map(|at| (at % 251) as u8).collect();
    let mut stream = write_frame(key, 1, 5, &bytes);
    stream.extend(frame(FrameKind::Read as u8, 2, read_body(key, 5, 4096).as_bytes()));
    for part in stream.chunks(100_003) {
        raw.say(part);
    }
    let (done, _) = raw.next();
    assert_eq!((done.kind, done.id, done.status), (FrameKind::Done, 1, Outcome::Done as u8));
    let (read, body) = raw.next();
    assert_eq!((read.id, &body[..]), (2, &bytes[..4096]));
    let mut there = vec![0; LONG + 6];
    serving.region.words().load(0, &mut there).unwrap();
    assert!(there[5..LONG + 5] == bytes);
    assert_eq!((&there[..5], there[LONG + 5]), (&pattern(5)[..], pattern(LONG + 6)[LONG + 5]));
}

#[test]
fn a_long_write_that_may_not_be_is_taken_and_dropped() {
    let serving = Serving::start();
    let mut raw = serving.raw();
    let (reads, all) = (raw.open(Rights::READ), raw.open(Rights::ALL));
    let bytes = vec![0xaa; 1 << 20];
    let cases = [
        (reads, 0, Outcome::NoRight),
        (all, (REGION_BYTES - bytes.len()) as u64 + 1, Outcome::OutOfBounds),
        (all, u64::MAX - 7, Outcome::OutOfBounds),
        (all ^ 1, 0, Outcome::BadKey),
    ];
    for (id, (key, offset, expected)) in cases.into_iter().enumerate() {
        for part in write_frame(key, id as u64, offset, &bytes).chunks(70_000) {
            raw.say(part);
        }
        let (done, _) = raw.next();
        assert_eq!((done.kind, done.id, done.status), (FrameKind::Done, id as u64, expected as u8));
    }
    let mut there = vec![0; REGION_BYTES];
    serving.region.words().load(0, &mut there).unwrap();
    assert!(there == pattern(REGION_BYTES), "something was written");
}

#[test]
fn no_long_write_lands_after_a_revocation_has_returned() {
    let serving = Serving::start();
    let connection = serving.connect();
    let bytes = vec![1; LONG];
    for round in 0..20u8 {
        let region = connection.open(REGION, Rights::ALL).wait().unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                loop {
                    if let Err(error) = region.write(0, &bytes).wait() {
                        return error;
                    }
                }
            });
            std::thread::sleep(std::time::Duration::from_micros(u64::from(round) * 300));
            serving.registry.revoke(REGION, connection.peer());
            // Zeros from here on: nobody else writes.
            serving.region.words().store(0, &vec![0; LONG]).unwrap();
            assert_eq!(writer.join().unwrap(), OperationError::Revoked);
            let mut after = vec![9; LONG];
            serving.region.words().load(0, &mut after).unwrap();
            assert!(after.iter().all(|byte| *byte == 0), "round {round}: written after the grant had ended");
        });
    }
}

#[test]
fn long_and_short_operations_side_by_side_are_all_right() {
    let serving = Serving::start();
    let connection = serving.connect();
    let region = connection.open(REGION, Rights::ALL).wait().unwrap();
    let all = pattern(REGION_BYTES);
    let mut buffers: Vec<(u64, Vec<u8>)> = (0..48u64)
        .map(|at| (at * 4099, vec![0; if at % 3 == 0 { 700_000 } else { 64 + at as usize }]))
        .collect();
    let reads = buffers.iter_mut().map(|(offset, into)| region.read(*offset, into));
    Pipeline::new(8).run(reads, |done| assert_eq!(done, Ok(())));
    for (offset, bytes) in &buffers {
        assert!(bytes[..] == all[*offset as usize..][..bytes.len()], "READ at {offset}");
    }
    let writes = (0..24u64).map(|at| region.write(at * 800_000, &all[..700_000]));
    Pipeline::new(4).run(writes, |done| assert_eq!(done, Ok(())));
    let mut there = vec![0; 700_000];
    for at in 0..24u64 {
        serving.region.words().load(at * 800_000, &mut there).unwrap();
        assert!(there[..] == all[..700_000], "WRITE {at}");
    }
}
