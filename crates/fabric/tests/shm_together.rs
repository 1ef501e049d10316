//! Requests that came together, or one alone: the service is told of them first, and then has them in order.

use barn_fabric::{
    ConnectOptions, Connection, Messaging, Node, NodeOptions, Pipeline, Registry, Reply, Request, Service,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Longer than what a ring takes in one piece.
const LONG_BYTES: usize = 200_000;

/// What was expected and has not come yet, and how many were in all.
#[derive(Default)]
struct Together {
    expected: VecDeque<(u16, Vec<u8>)>,
    told: u64,
}

struct Watching(Arc<Mutex<Together>>);

impl Service for Watching {
    fn expect(&mut self, requests: &[Request<'_>]) {
        let mut together = self.0.lock().unwrap();
        assert!(together.expected.is_empty(), "expected before the last ones had come");
        assert!(!requests.is_empty(), "nothing was expected");
        together.told += requests.len() as u64;
        let requests = requests.iter().map(|request| (request.method, request.body.to_vec()));
        together.expected.extend(requests);
    }

    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let mut together = self.0.lock().unwrap();
        // Of what came in pieces nothing was told.
        if request.body.len() < LONG_BYTES
            && let Some((method, body)) = together.expected.pop_front()
        {
            assert_eq!((method, &body[..]), (request.method, request.body), "another one was expected");
        }
        drop(together);
        reply.done(request.body);
    }
}

fn expected_is_what_comes(messaging: Messaging) {
    let directory = std::env::temp_dir().join(format!("barn-together-{}-{messaging:?}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let socket = directory.join("node");
    let options = NodeOptions { shm: Some(socket.clone()), ..NodeOptions::default() };
    let mut node = Node::bind(options, Registry::default()).unwrap();
    let stopper = node.stopper();
    let together = Arc::new(Mutex::new(Together::default()));
    let mut service = Watching(together.clone());
    let thread = std::thread::spawn(move || node.run(&mut service).unwrap());
    let options = ConnectOptions { messaging, ..ConnectOptions::default() };
    let connection = Connection::connect(&format!("shm:{}", socket.display()), options);
    let connection = barn_fabric::block_on(connection).unwrap();
    let calls = (0..5000u32).map(|number| {
        let connection = &connection;
        async move {
            // Now and then one that goes in pieces, of which nothing is told.
            let bytes = if number % 500 == 7 { LONG_BYTES } else { 4 + (number % 50) as usize };
            let mut request = vec![number as u8; bytes];
            request[..4].copy_from_slice(&number.to_le_bytes());
            let mut reply = Vec::new();
            connection.call((number % 7) as u16, &request, &mut reply).await.unwrap();
            assert!(reply == request, "call {number}");
        }
    });
    Pipeline::new(32).run(calls, |()| {});
    let told = std::mem::take(&mut together.lock().unwrap().told);
    assert!(told > 0, "nothing was ever expected");
    for number in 0..100u8 {
        let mut reply = Vec::new();
        connection.call(3, &[number; 40], &mut reply).wait().unwrap();
        assert_eq!(reply, [number; 40]);
    }
    assert_eq!(together.lock().unwrap().told, 100, "of one alone nothing was told");
    stopper.stop();
    thread.join().unwrap();
    let _ = std::fs::remove_dir_all(&directory);
}

#[test]
fn what_is_expected_in_a_ring_comes_next() {
    expected_is_what_comes(Messaging::Ring);
}

#[test]
fn what_is_expected_in_a_request_region_comes_next() {
    expected_is_what_comes(Messaging::RequestRegion { window: 16 });
}
