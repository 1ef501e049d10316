//! How tcp connections begin and end: tokens, refusals, restarts, deaths.

mod tcp_support;

use barn_fabric::{CallError, ConnectError, ConnectOptions, Connection, NodeOptions, OperationError, Rights};
use barn_layout::handshake::Refusal;
use std::time::Duration;
use tcp_support::*;

fn guarded(token: &str) -> Serving {
    Serving::with(NodeOptions { token: Some(token.into()), ..NodeOptions::default() })
}

fn refusal(connected: Result<Connection, ConnectError>) -> Refusal {
    match connected {
        Err(ConnectError::Refused { refusal, .. }) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn the_right_token_opens_and_no_other_does() {
    let serving = guarded("open sesame");
    let connection = serving.connect_with(Some("open sesame")).unwrap();
    let mut reply = Vec::new();
    connection.call(ECHO, b"in", &mut reply).wait().unwrap();
    for wrong in ["", "open sesam", "open sesame ", "Open sesame"] {
        assert_eq!(refusal(serving.connect_with(Some(wrong))), Refusal::BadToken);
    }
    assert_eq!(refusal(serving.connect_with(None)), Refusal::Unauthenticated);
    serving.until("all five are counted", |serving| serving.count(|stats| &stats.refused) == 5);
    assert_eq!(serving.seen.lock().unwrap().joined, [connection.peer()]);
}

#[test]
fn a_node_that_does_not_know_the_token_is_not_trusted() {
    let serving = Serving::start();
    let connected = serving.connect_with(Some("open sesame"));
    assert!(matches!(connected, Err(ConnectError::NodeUnproved)), "{connected:?}");
}

#[test]
fn one_more_peer_than_there_may_be_is_told_so() {
    let serving = Serving::with(NodeOptions { peers_max: 2, ..NodeOptions::default() });
    let held = [serving.connect(), serving.connect()];
    assert_eq!(refusal(serving.connect_with(None)), Refusal::TooManyPeers);
    drop(held);
    serving.until("there is room again", |serving| serving.count(|stats| &stats.peers) == 0);
    serving.serves();
}

#[test]
fn nobody_listening_is_no_node_and_a_bad_address_is_no_address() {
    let connect = |address: &str| Connection::connect(address, ConnectOptions::default()).wait();
    assert!(matches!(connect("tcp://127.0.0.1:1"), Err(ConnectError::NoNode { .. })));
    assert!(matches!(connect("tcp://127.0.0.1"), Err(ConnectError::Address { .. })));
    assert!(matches!(connect("tcp://127.0.0.1:99999"), Err(ConnectError::Address { .. })));
}

#[test]
fn a_node_that_restarts_is_found_by_a_client_that_is_early() {
    let mut serving = Serving::start();
    let at = serving.at;
    serving.stop();
    drop(serving);
    std::thread::scope(|scope| {
        let early = scope.spawn(move || {
            Connection::connect(&format!("tcp://{at}"), ConnectOptions::default()).wait().map(drop)
        });
        std::thread::sleep(Duration::from_millis(20));
        let again = Serving::with(NodeOptions { tcp: Some(at), ..NodeOptions::default() });
        // On a very slow machine the client has given up before the node was there; then it
        // has been told so.
        match early.join().unwrap() {
            Ok(()) | Err(ConnectError::NoNode { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        again.serves();
    });
}

#[test]
fn a_dead_node_is_noticed_by_whoever_waits_and_whoever_comes_later() {
    let mut serving = Serving::start();
    let connection = serving.connect();
    let region = connection.open(REGION, Rights::ALL).wait().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| connection.call(HOLD, &[], &mut Vec::new()).wait());
        let listening = scope.spawn(|| connection.receive(&mut Vec::new()).wait());
        serving.until("the call is held", |serving| serving.count(|stats| &stats.messages) == 1);
        serving.stop();
        assert_eq!(waiting.join().unwrap(), Err(CallError::PeerGone));
        assert_eq!(listening.join().unwrap(), Err(CallError::PeerGone));
    });
    assert_eq!(region.read(0, &mut [0; 8]).wait(), Err(OperationError::PeerGone));
    assert!(!connection.is_open());
}

#[test]
fn an_idle_client_sees_that_its_node_is_gone() {
    let mut serving = Serving::start();
    let connection = serving.connect();
    assert!(connection.is_open());
    serving.stop();
    serving.until("the end is noticed", |_| !connection.is_open());
}

#[test]
fn a_dead_client_is_freed_and_its_service_told_once() {
    let serving = Serving::start();
    let (connection, mut raw) = (serving.connect(), serving.raw());
    raw.open(Rights::ALL);
    let peers = [connection.peer(), raw.peer];
    let region = connection.open(REGION, Rights::ALL).wait().unwrap();
    drop(region);
    drop(connection);
    // Closed with an answer unread: a reset rather than an orderly end.
    raw.frame(barn_layout::frame::FrameKind::Request, 1, &pattern(100_000));
    drop(raw);
    serving.until("both are gone", |serving| serving.count(|stats| &stats.peers) == 0);
    let mut gone = serving.seen.lock().unwrap().gone.clone();
    gone.sort_unstable();
    assert_eq!(gone, peers);
    serving.serves();
}
