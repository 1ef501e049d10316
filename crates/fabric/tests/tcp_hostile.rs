//! What a hostile, broken or absent peer can do to a node, and a node to its client: nothing
//! that anybody else notices.

mod tcp_support;

use barn_fabric::{CallError, ConnectError, ConnectOptions, Connection, OpenError, OperationError, Rights};
use barn_layout::frame::{FrameKind, OpenedBody, Outcome};
use barn_layout::handshake::{MAGIC, Refusal, TcpChallenge, TcpHello, TcpProof, TcpWelcome, VERSION};
use barn_layout::limits::MESSAGE_BYTES_MAX;
use std::io::{Read, Write};
use std::net::TcpListener;
use tcp_support::*;
use zerocopy::{FromZeros, IntoBytes};

#[test]
fn a_stolen_key_opens_nothing() {
    let serving = Serving::start();
    let (mut owner, mut thief) = (serving.raw(), serving.raw());
    let key = owner.open(Rights::ALL);
    assert_eq!(thief.read(key, 0, 8), (Outcome::BadKey as u8, 0));
    for guess in [0, 1, !0, key ^ 1, key.swap_bytes()] {
        assert_eq!(thief.read(guess, 0, 8), (Outcome::BadKey as u8, 0));
    }
    thief.frame(FrameKind::Close, key, &[]);
    assert_eq!(thief.read(key, 0, 8), (Outcome::BadKey as u8, 0));
    assert_eq!(owner.read(key, 0, 8), (0, 8), "another connection closed the grant");
    owner.frame(FrameKind::Close, key, &[]);
    assert_eq!(owner.read(key, 0, 8), (Outcome::BadKey as u8, 0), "the grant outlived its close");
}

#[test]
fn ids_are_the_askers_own_business() {
    let serving = Serving::start();
    let mut raw = serving.raw();
    for id in [0, u64::MAX, 7, 7, 7] {
        raw.frame(FrameKind::Request, id, b"same");
        let (frame, body) = raw.next();
        assert_eq!((frame.kind, frame.id, &body[..]), (FrameKind::Reply, id, &b"same"[..]));
        raw.frame(FrameKind::Ping, id, &[]);
        assert_eq!((raw.next().0.kind, frame.id), (FrameKind::Pong, id));
    }
}

#[test]
fn frames_that_make_no_sense_end_their_sender_only() {
    let serving = Serving::start();
    let honest = serving.connect();
    let mut nonsense: Vec<Vec<u8>> = [0, 20, 77, 255].into_iter().map(|kind| claim(kind, 1, 0)).collect();
    for kind in [
        FrameKind::Opened,
        FrameKind::Done,
        FrameKind::Piece,
        FrameKind::Reply,
        FrameKind::Pong,
        FrameKind::Attached,
        FrameKind::Renewed,
    ] {
        nonsense.push(frame(kind as u8, 1, &vec![0; kind.body_bounds().0]));
    }
    for kind in (1..=19).filter_map(FrameKind::from_bits) {
        let (least, most) = kind.body_bounds();
        nonsense.push(claim(kind as u8, 1, most as u32 + 1));
        nonsense.push(claim(kind as u8, 1, u32::MAX));
        if least > 0 {
            nonsense.push(claim(kind as u8, 1, least as u32 - 1));
        }
    }
    nonsense.push(pattern(10_000));
    let count = nonsense.len() as u64;
    for bytes in nonsense {
        let mut raw = serving.raw();
        raw.say(&bytes);
        raw.is_shown_out();
    }
    serving.until("all are expelled", |serving| serving.count(|stats| &stats.expelled) == count);
    let mut reply = Vec::new();
    honest.call(ECHO, b"undisturbed", &mut reply).wait().unwrap();
    assert_eq!(reply, b"undisturbed");
    serving.until("the service is told of each once", |serving| {
        let seen = serving.seen.lock().unwrap();
        (seen.joined.len() as u64, seen.gone.len() as u64) == (count + 1, count)
    });
}

#[test]
fn a_node_without_verbs_says_so_and_the_stream_stays_good() {
    let serving = Serving::start();
    let mut raw = serving.raw();
    for kind in [FrameKind::Attach, FrameKind::Renew, FrameKind::Attach] {
        raw.frame(kind, 5, &vec![0xff; kind.body_bounds().0]);
        let (frame, body) = raw.next();
        assert_eq!((frame.status, frame.id, body.len()), (Outcome::NoVerbs as u8, 5, 0), "{kind:?}");
    }
    let key = raw.open(Rights::ALL);
    assert_eq!(raw.read(key, 0, 8), (0, 8));
    // A client is told what to do, whether it was built with verbs or not, and has a device or not.
    let address = format!("verbs://{}", serving.at);
    let refused = Connection::connect(&address, ConnectOptions::default()).wait().unwrap_err();
    assert!(matches!(refused, ConnectError::Verbs(_)), "{refused:?}");
    serving.serves();
}

#[test]
fn half_a_frame_and_then_silence_holds_nobody_up() {
    let serving = Serving::start();
    let whole = frame(FrameKind::Request as u8, 1, b"a whole request");
    let silent: Vec<Raw> = (1..whole.len())
        .map(|bytes| {
            let mut raw = serving.raw();
            raw.say(&whole[..bytes]);
            raw
        })
        .collect();
    let mut long = serving.raw();
    long.say(&claim(FrameKind::Request as u8, 1, MESSAGE_BYTES_MAX as u32));
    long.say(&pattern(300_000));
    for _ in 0..3 {
        serving.serves();
    }
    for (bytes, mut raw) in (1..whole.len()).zip(silent) {
        raw.say(&whole[bytes..]);
        assert_eq!(raw.next().1, b"a whole request", "cut after {bytes} bytes");
    }
}

#[test]
fn one_byte_at_a_time_is_served_too() {
    let serving = Serving::start();
    let mut raw = serving.raw();
    let key = raw.open(Rights::READ);
    let mut bytes = frame(FrameKind::Read as u8, 3, read_body(key, 8, 24).as_bytes());
    bytes.extend(frame(FrameKind::Request as u8, 4, b"slowly"));
    for byte in bytes {
        raw.say(&[byte]);
    }
    assert_eq!(raw.next().1, pattern(32)[8..]);
    assert_eq!(raw.next().1, b"slowly");
}

#[test]
fn half_a_handshake_is_dropped_after_a_while() {
    let serving = Serving::start();
    let hello = Raw::hello(0);
    let mut halves: Vec<Raw> = [0, 1, 47, 48, 60]
        .into_iter()
        .map(|bytes| {
            let mut raw = Raw::connect(serving.at);
            let both = [hello.as_bytes(), TcpProof { code: [0; 32] }.as_bytes()].concat();
            raw.say(&both[..bytes]);
            raw
        })
        .collect();
    serving.serves();
    halves.iter_mut().for_each(Raw::is_shown_out);
    serving.serves();
    let seen = serving.seen.lock().unwrap();
    assert_eq!(seen.joined.len(), 2, "one that never finished was let in");
}

#[test]
fn a_storm_of_connections_leaves_the_node_serving() {
    let serving = Serving::start();
    let honest = serving.connect();
    let storm: Vec<Raw> = (0..400).map(|_| Raw::connect(serving.at)).collect();
    serving.serves();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mine: Vec<Connection> = (0..25).map(|_| serving.connect()).collect();
                for connection in &mine {
                    let mut reply = Vec::new();
                    connection.call(ECHO, b"in the storm", &mut reply).wait().unwrap();
                    assert_eq!(reply, b"in the storm");
                }
            });
        }
    });
    drop(storm);
    let mut reply = Vec::new();
    honest.call(ECHO, b"after it", &mut reply).wait().unwrap();
    serving.until("only the honest one is left", |serving| serving.count(|stats| &stats.peers) == 1);
    serving.until("the service is told of each once", |serving| {
        let seen = serving.seen.lock().unwrap();
        seen.joined.len() == seen.gone.len() + 1
    });
}

#[test]
fn strangers_are_told_why_they_are_refused() {
    let serving = Serving::start();
    let refused = |hello: TcpHello| {
        let mut raw = Raw::connect(serving.at);
        raw.say(hello.as_bytes());
        Refusal::from_bits(raw.challenge().status.get())
    };
    assert_eq!(refused(TcpHello { magic: *b"GET / HT", ..Raw::hello(0) }), Some(Refusal::NotBarn));
    assert_eq!(refused(TcpHello { version: 9.into(), ..Raw::hello(0) }), Some(Refusal::Version));
    assert_eq!(refused(Raw::hello(2)), Some(Refusal::NoTls));
    assert_eq!(refused(Raw::hello(500)), Some(Refusal::NotBarn));
    serving.serves();
}

/// A node that says what it likes after a proper handshake.
fn false_node(then: impl FnOnce(&mut Raw) + Send + 'static) -> Connection {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut raw = Raw { stream, peer: barn_fabric::PeerId(1) };
        let mut hello = [0; TcpHello::BYTES];
        raw.stream.read_exact(&mut hello).unwrap();
        let challenge = TcpChallenge {
            magic: MAGIC,
            version: VERSION.into(),
            authentication: 0.into(),
            status: 0.into(),
            reserved: 0.into(),
            nonce: [2; 32],
        };
        raw.stream.write_all(challenge.as_bytes()).unwrap();
        let mut proof = [0; TcpProof::BYTES];
        raw.stream.read_exact(&mut proof).unwrap();
        raw.stream.write_all(TcpWelcome::new_zeroed().as_bytes()).unwrap();
        then(&mut raw);
        let _ = raw.stream.read_to_end(&mut Vec::new());
    });
    Connection::connect(&format!("tcp://{at}"), ConnectOptions::default()).wait().unwrap()
}

#[test]
fn answers_that_nobody_asked_for_are_dropped() {
    let connection = false_node(|raw| {
        let (request, body) = raw.next();
        for id in [0, u64::MAX, request.id + 1, request.id + (1 << 16), request.id ^ (1 << 40)] {
            raw.frame(FrameKind::Reply, id, b"forged");
            raw.frame(FrameKind::Done, id, &vec![1; 100_000]);
            raw.frame(FrameKind::Piece, id, &[1]);
            raw.frame(FrameKind::Opened, id, OpenedBody::new_zeroed().as_bytes());
            raw.frame(FrameKind::Pong, id, &[]);
        }
        raw.frame(FrameKind::Reply, request.id, &body);
        raw.frame(FrameKind::Reply, request.id, b"twice");
        let (again, _) = loop {
            let next = raw.next();
            if next.0.kind == FrameKind::Request {
                break next;
            }
        };
        raw.frame(FrameKind::Reply, again.id, b"the second");
    });
    let mut reply = Vec::new();
    connection.call(1, b"the first", &mut reply).wait().unwrap();
    assert_eq!(reply, b"the first");
    connection.call(1, b"", &mut reply).wait().unwrap();
    assert_eq!(reply, b"the second");
}

#[test]
fn frames_that_no_node_sends_end_the_connection() {
    let mut nonsense = vec![claim(200, 1, 0), claim(FrameKind::Reply as u8, 1, u32::MAX)];
    nonsense.push(claim(FrameKind::Goodbye as u8, 0, 0));
    nonsense.push(frame(FrameKind::Read as u8, 1, read_body(1, 1, 1).as_bytes()));
    nonsense.push(frame(FrameKind::Request as u8, 1, b"please"));
    nonsense.push(claim(FrameKind::Done as u8, 1, (16 << 20) + 1));
    for bytes in nonsense {
        let connection = false_node(move |raw| raw.say(&bytes));
        let mut reply = Vec::new();
        assert_eq!(connection.call(1, b"", &mut reply).wait(), Err(CallError::PeerGone));
        assert_eq!(connection.call(1, b"", &mut reply).wait(), Err(CallError::PeerGone));
        assert_eq!(connection.receive(&mut reply).wait(), Err(CallError::PeerGone));
        assert_eq!(connection.send(&[]).wait(), Err(CallError::PeerGone));
        assert!(matches!(connection.open(REGION, Rights::READ).wait(), Err(OpenError::PeerGone)));
        assert!(!connection.is_open());
    }
}

#[test]
fn an_answer_of_the_wrong_form_is_an_error_not_a_result() {
    let connection = false_node(|raw| {
        let (open, _) = raw.next();
        let opened = OpenedBody { key: 5.into(), bytes: 4096.into(), rights: 7.into(), reserved: 0.into() };
        raw.frame(FrameKind::Opened, open.id, opened.as_bytes());
        for bytes in [0, 7, 9, 100_000] {
            let (read, _) = raw.next();
            raw.frame(FrameKind::Done, read.id, &vec![1; bytes]);
        }
        let (atomic, _) = raw.next();
        raw.frame(FrameKind::Done, atomic.id, &[1; 7]);
        let (open, _) = raw.next();
        raw.frame(FrameKind::Opened, open.id, &[1; 3]);
    });
    let region = connection.open(REGION, Rights::ALL).wait().unwrap();
    for _ in 0..4 {
        assert_eq!(region.read(0, &mut [0; 8]).wait(), Err(OperationError::Protocol));
    }
    assert_eq!(region.fetch_add(0, 1).wait(), Err(OperationError::Protocol));
    assert!(matches!(connection.open(REGION, Rights::READ).wait(), Err(OpenError::Protocol)));
}

#[test]
fn what_is_no_node_is_not_taken_for_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(&pattern(4096));
            let _ = stream.read(&mut [0; 100]);
        }
    });
    let connected = Connection::connect(&format!("tcp://{at}"), ConnectOptions::default()).wait();
    assert!(matches!(connected, Err(ConnectError::Protocol)), "{connected:?}");
}
