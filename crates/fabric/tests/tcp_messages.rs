//! Requests, replies and messages over tcp: sizes, order, deadlines, slow consumers.

mod tcp_support;

use barn_fabric::{CallError, Connection, NodeOptions, Pipeline};
use barn_layout::limits::MESSAGE_BYTES_MAX;
use std::time::Duration;
use tcp_support::*;

fn call(connection: &Connection, method: u16, request: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut reply = b"left over".to_vec();
    connection.call(method, request, &mut reply).wait().map(|()| reply)
}

#[test]
fn requests_of_every_size_come_back() {
    let serving = Serving::start();
    let connection = serving.connect();
    for bytes in [0, 1, 15, 16, 17, 1000, 16_384, 65_535, 65_536, 262_128, 262_144, 1 << 20, 5_000_001] {
        let request = pattern(bytes);
        assert!(call(&connection, ECHO, &request).unwrap() == request, "{bytes} bytes");
    }
    assert!(serving.count(|stats| &stats.messages) >= 13);
}

#[test]
fn sixty_four_mebibytes_go_both_ways() {
    let serving = Serving::start();
    let connection = serving.connect();
    let request = pattern(64 << 20);
    assert!(call(&connection, ECHO, &request).unwrap() == request);
    assert!(call(&connection, ECHO, &request[..MESSAGE_BYTES_MAX.min(64 << 20)]).unwrap() == request);
    let long = vec![0; MESSAGE_BYTES_MAX + 1];
    assert!(matches!(call(&connection, ECHO, &long), Err(CallError::TooLong { .. })));
    assert!(matches!(connection.send(&long).wait(), Err(CallError::TooLong { .. })));
    let refused = call(&connection, BYTES, &two(MESSAGE_BYTES_MAX + 1, 0)).unwrap_err();
    assert!(matches!(refused, CallError::Refused(why) if why.contains("longer")));
}

#[test]
fn long_and_short_calls_share_a_pipeline() {
    let serving = Serving::start();
    let connection = &serving.connect();
    let one = |i: usize| async move {
        let bytes = if i.is_multiple_of(50) { 400_000 + i } else { i % 200 };
        let (request, mut reply) = (pattern(bytes), Vec::new());
        connection.call(ECHO, &request, &mut reply).await.unwrap();
        assert!(reply == request, "call {i}");
    };
    let mut done = 0;
    Pipeline::new(64).run((0..3000).map(one), |()| done += 1);
    assert_eq!(done, 3000);
}

#[test]
fn the_service_says_how_it_went() {
    let serving = Serving::start();
    let connection = serving.connect();
    assert_eq!(call(&connection, 999, &[]), Err(CallError::UnknownMethod { method: 999 }));
    assert_eq!(call(&connection, REFUSE, &[]), Err(CallError::Refused("no".into())));
    assert_eq!(call(&connection, BUSY, &[]), Err(CallError::Busy));
    assert!(matches!(call(&connection, FORGET, &[]), Err(CallError::Refused(_))));
}

#[test]
fn answers_given_later_and_backwards_reach_whom_they_are_for() {
    let serving = Serving::start();
    let connection = &serving.connect();
    let one = |i: u64| async move {
        let (request, mut reply) = (i.to_le_bytes(), Vec::new());
        if i == 20 {
            return connection.call(RELEASE_BACKWARDS, &[], &mut reply).await.map(|()| i);
        }
        connection.call(HOLD, &request, &mut reply).await.map(|()| {
            assert_eq!(reply, request);
            i
        })
    };
    let mut order = Vec::new();
    Pipeline::new(21).run((0..21).map(one), |done| order.push(done.unwrap()));
    order.sort_unstable();
    assert_eq!(order, (0..21).collect::<Vec<_>>());
}

#[test]
fn a_call_that_is_never_answered_ends_at_its_deadline_and_its_late_answer_is_dropped() {
    let serving = Serving::start();
    let connection = serving.connect();
    let hasty = connection.with_deadline(Duration::from_millis(20));
    for _ in 0..3 {
        assert_eq!(call(&hasty, HOLD, b"late"), Err(CallError::Deadline));
    }
    assert_eq!(hasty.receive(&mut Vec::new()).wait(), Err(CallError::Deadline));
    call(&connection, RELEASE_BACKWARDS, &[]).unwrap();
    for i in 0..100u8 {
        assert_eq!(call(&connection, ECHO, &[i]).unwrap(), [i], "an old answer was taken for a new one");
    }
}

#[test]
fn a_call_that_is_dropped_disturbs_nobody() {
    let serving = Serving::start();
    let connection = serving.connect();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    for round in 0..50u8 {
        let mut reply = Vec::new();
        let request = pattern(200_000);
        let dropped = std::pin::pin!(connection.call(ECHO, &request, &mut reply)).poll(&mut cx);
        assert!(dropped.is_pending());
        assert_eq!(call(&connection, ECHO, &[round]).unwrap(), [round]);
    }
}

#[test]
fn messages_without_answers_go_both_ways_in_order() {
    let serving = Serving::start();
    let connection = serving.connect();
    for i in 0..200usize {
        connection.send(&pattern(i * 37)).wait().unwrap();
    }
    connection.send(&pattern(10 << 20)).wait().unwrap();
    serving.until("all messages come", |serving| serving.seen.lock().unwrap().messages.len() == 201);
    for (i, (peer, body)) in serving.seen.lock().unwrap().messages.iter().enumerate() {
        let bytes = if i == 200 { 10 << 20 } else { i * 37 };
        assert!(*peer == connection.peer() && *body == pattern(bytes), "message {i}");
    }
    for bytes in [0, 100, 300_000, 64 << 20] {
        call(&connection, PUSH, &two(2, bytes)).unwrap();
        for _ in 0..2 {
            let mut message = b"left over".to_vec();
            connection.receive(&mut message).wait().unwrap();
            assert!(message == pattern(bytes), "{bytes} bytes pushed");
        }
    }
}

#[test]
fn a_peer_that_takes_nothing_is_expelled_and_the_others_are_served() {
    let serving = Serving::with(NodeOptions { backlog_bytes_max: 1 << 20, ..NodeOptions::default() });
    let (mut slow, other) = (serving.raw(), serving.connect());
    let mut push = claim(barn_layout::frame::FrameKind::Request as u8, 1, 16);
    push[6..8].copy_from_slice(&PUSH.to_le_bytes());
    push.extend_from_slice(&two(64, 1 << 20));
    slow.say(&push);
    serving.until("the slow one goes", |serving| {
        assert_eq!(call(&other, ECHO, b"me too").unwrap(), b"me too");
        serving.count(|stats| &stats.expelled) == 1
    });
    serving.until("its service is told", |serving| serving.seen.lock().unwrap().gone == [slow.peer]);
    slow.is_shown_out();
    serving.serves();
}

#[test]
fn a_client_that_never_receives_its_messages_is_cut_off_not_filled_up() {
    let serving = Serving::with(NodeOptions { backlog_bytes_max: 1 << 30, ..NodeOptions::default() });
    let connection = serving.connect();
    call(&connection, PUSH, &two(3, 60 << 20)).unwrap();
    let mut last = Ok(Vec::new());
    while last.is_ok() {
        last = call(&connection, ECHO, b"hello");
    }
    assert_eq!(last, Err(CallError::PeerGone));
    assert!(!connection.is_open());
    serving.serves();
}
