//! Calls that a thread waits for, in every way that they can be begun and gone on with, alone and beside others.

use barn_fabric::{
    CallError, ConnectOptions, Connection, Deferred, Messaging, Node, NodeOptions, Pipeline, Registry, Reply,
    Request, Service, Stopper, block_on,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Answers with what was sent.
const ECHO: u16 = 1;
/// Refuses, for the reason that was sent.
const REFUSE: u16 = 2;
/// Is busy.
const BUSY: u16 = 3;
/// Answers with what was sent, after a while.
const LATER: u16 = 4;
/// Keeps the request until the next one, however long that takes.
const HOLD: u16 = 5;
/// Nobody knows it.
const UNKNOWN: u16 = 99;

#[derive(Default)]
struct Answering {
    held: Vec<(Deferred, Vec<u8>)>,
}

impl Service for Answering {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        self.held.drain(..).for_each(|(held, body)| held.done(body));
        match request.method {
            ECHO => reply.done(request.body),
            REFUSE => reply.refuse(&String::from_utf8_lossy(request.body)),
            BUSY => reply.busy(),
            LATER => {
                let (reply, body) = (reply.later(), request.body.to_vec());
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(300));
                    reply.done(body);
                });
            }
            HOLD => self.held.push((reply.later(), request.body.to_vec())),
            _ => reply.unknown_method(),
        }
    }
}

/// A node with that service, and how to get there.
struct Site {
    directory: PathBuf,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    fn start(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("barn-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let options = NodeOptions { shm: Some(directory.join("node")), ..NodeOptions::default() };
        let mut node = Node::bind(options, Registry::default()).unwrap();
        let stopper = node.stopper();
        let thread = std::thread::spawn(move || node.run(&mut Answering::default()).unwrap());
        Self { directory, stopper, thread: Some(thread) }
    }

    fn connect(&self, messaging: Messaging) -> Connection {
        let options = ConnectOptions { messaging, ..ConnectOptions::default() };
        let address = format!("shm:{}", self.directory.join("node").display());
        block_on(Connection::connect(&address, options)).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.directory);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the node panicked");
    }
}

/// The same numbers at every run.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Letters, so that they may be a reason, of which no two calls have the same.
fn body(number: u64, bytes: usize) -> Vec<u8> {
    let mut body = format!("{number:020}").into_bytes();
    body.resize(bytes.max(20), b'a' + (number % 26) as u8);
    body.truncate(bytes);
    body
}

/// What ought to come of a call.
fn expected(method: u16, sent: &[u8]) -> Result<Vec<u8>, CallError> {
    match method {
        REFUSE => Err(CallError::Refused(String::from_utf8_lossy(sent).into_owned())),
        BUSY => Err(CallError::Busy),
        UNKNOWN => Err(CallError::UnknownMethod { method }),
        _ => Ok(sent.to_vec()),
    }
}

/// Calls in one of the ways that there are; `None` where the call was given up.
fn call_by(
    way: u64,
    client: &Connection,
    method: u16,
    sent: &[u8],
    reply: &mut Vec<u8>,
) -> Option<Result<(), CallError>> {
    let mut call = client.call(method, sent, reply);
    Some(match way {
        0 | 1 => call.wait(),
        2 => {
            call.start();
            call.wait()
        }
        3 => match call.wait_briefly() {
            Some(called) => called,
            None => call.wait(),
        },
        4 => {
            call.start();
            call.start();
            block_on(call)
        }
        5 => match call.wait_briefly() {
            Some(called) => called,
            None => call.detach().wait(sent, reply),
        },
        6 => call.detach().wait(sent, reply),
        7 => {
            call.start();
            call.detach().wait(sent, reply)
        }
        8 => {
            call.start();
            return None;
        }
        _ => {
            call.start();
            drop(call.detach());
            return None;
        }
    })
}

/// Calls of all kinds, one after another.
fn calls(client: &Connection, seed: u64, rounds: u64) {
    let mut random = seed;
    for round in 0..rounds {
        let bytes = match next(&mut random) % 200 {
            0 => 200_000,
            1..20 => 2_000,
            short => short as usize / 2,
        };
        let method = match next(&mut random) % 40 {
            0 => LATER,
            1 => REFUSE,
            2 => BUSY,
            3 => UNKNOWN,
            _ => ECHO,
        };
        let sent = body(seed << 32 | round, bytes);
        // What was there before is replaced.
        let mut reply = vec![0xee; next(&mut random) as usize % 70];
        if let Some(called) = call_by(next(&mut random) % 10, client, method, &sent, &mut reply) {
            let called = called.map(|()| reply);
            assert!(
                called == expected(method, &sent),
                "call {round} of {seed}: {bytes} bytes, method {method}"
            );
        }
    }
}

#[test]
fn however_a_call_is_made_its_answer_is_the_same() {
    let site = Site::start("blocking");
    for messaging in [Messaging::Ring, Messaging::RequestRegion { window: 8 }] {
        calls(&site.connect(messaging), 7, 5_000);
    }
}

#[test]
fn threads_that_share_a_connection_have_their_own_answers() {
    let site = Site::start("sharing");
    for messaging in [Messaging::Ring, Messaging::RequestRegion { window: 8 }] {
        let client = site.connect(messaging);
        let interleaved = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for seed in 1..=3 {
                let client = &client;
                scope.spawn(move || calls(client, seed, 1_500));
            }
            // And one whose calls are many at a time, which nobody waits for alone.
            scope.spawn(|| {
                let calls = (0..5_000u64).map(|number| {
                    let (client, interleaved) = (&client, &interleaved);
                    async move {
                        let (sent, mut reply) = (body(number, (number % 90) as usize), Vec::new());
                        client.call(ECHO, &sent, &mut reply).await.unwrap();
                        assert_eq!(reply, sent);
                        interleaved.fetch_add(1, Ordering::Relaxed);
                    }
                });
                Pipeline::new(8).run(calls, |()| {});
            });
        });
        assert_eq!(interleaved.into_inner(), 5_000);
    }
}

#[test]
fn a_call_that_nobody_answers_ends_and_its_answer_is_nobodys() {
    let site = Site::start("unanswered");
    let client = site.connect(Messaging::Ring);
    let mut reply = Vec::new();
    for round in 0..20u64 {
        let (held, limit) = (body(round, 30), Duration::from_millis(5));
        assert_eq!(client.call(HOLD, &held, &mut reply).within(limit).wait(), Err(CallError::Deadline));
        // Its answer comes first now, and is taken for none.
        let sent = body(round, 60);
        assert_eq!(client.call(ECHO, &sent, &mut reply).wait(), Ok(()));
        assert_eq!(reply, sent);
    }
}

#[test]
fn a_node_that_fell_asleep_is_woken_by_a_call() {
    let site = Site::start("woken");
    let client = site.connect(Messaging::Ring);
    let mut reply = Vec::new();
    for round in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        client.call(ECHO, &body(round, 40), &mut reply).wait().unwrap();
        assert_eq!(reply, body(round, 40));
    }
}
