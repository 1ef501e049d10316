//! The shm transport from end to end, in one process.

use barn_fabric::*;
use std::sync::atomic::{AtomicU64, Ordering};

struct Echo;
impl Service for Echo {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        reply.done(request.body);
    }
}

fn start() -> (String, Registry, Stopper, std::thread::JoinHandle<()>) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let path = std::env::temp_dir().join(format!(
        "barn-smoke-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    let registry = Registry::default();
    let options = NodeOptions { shm: Some(path.clone()), ..NodeOptions::default() };
    let mut node = Node::bind(options, registry.clone()).unwrap();
    let stopper = node.stopper();
    let thread = std::thread::spawn(move || node.run(&mut Echo).unwrap());
    (format!("shm:{}", path.display()), registry, stopper, thread)
}

#[test]
fn smoke() {
    for messaging in [Messaging::Ring, Messaging::RequestRegion { window: 16 }] {
        let (address, registry, stopper, thread) = start();
        let region = Region::allocate(&RegionOptions::writable(4 << 20)).unwrap();
        region.words().store(4096, b"hello barn, 16 b").unwrap();
        registry.register(RegionId(7), region, Rights::ALL).unwrap();
        let connection =
            Connection::connect(&address, ConnectOptions { messaging, ..ConnectOptions::default() })
                .wait()
                .unwrap();
        let remote = connection.open(RegionId(7), Rights::ALL).wait().unwrap();
        let mut into = [0; 16];
        remote.read(4096, &mut into).wait().unwrap();
        assert_eq!(&into, b"hello barn, 16 b");
        let mut reply = Vec::new();
        connection.call(1, b"ping", &mut reply).wait().unwrap();
        assert_eq!(reply, b"ping");
        let long: Vec<u8> = (0..5_000_000u32).map(|i| i as u8).collect();
        connection.call(1, &long, &mut reply).wait().unwrap();
        assert_eq!(reply, long);
        for i in 0..100_000u64 {
            connection.call(1, &i.to_le_bytes(), &mut reply).wait().unwrap();
            assert_eq!(reply, i.to_le_bytes());
        }
        let mut pipeline = Pipeline::new(64);
        let connection = &connection;
        let mut done = 0;
        pipeline.run(
            (0..100_000u64).map(|i| async move {
                let mut reply = Vec::new();
                connection.call(1, &i.to_le_bytes(), &mut reply).await.unwrap();
                assert_eq!(reply, i.to_le_bytes());
            }),
            |()| done += 1,
        );
        assert_eq!(done, 100_000);
        stopper.stop();
        thread.join().unwrap();
    }
}
