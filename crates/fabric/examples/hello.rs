//! A node and a client, on shared memory and on tcp: the same calls, the same results.
//!
//! `cargo run --release -p barn-fabric --example hello`

use barn_fabric::*;

struct Greeter;

impl Service for Greeter {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let name = String::from_utf8_lossy(request.body);
        reply.done(format!("hello, {name}").as_bytes());
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A node: one region that its clients may read and write, a service, two transports.
    let socket = std::env::temp_dir().join(format!("barn-hello-{}.sock", std::process::id()));
    let registry = Registry::default();
    let region = Region::allocate(&RegionOptions::writable(2 << 20))?;
    println!("a region on {}", region.pages());
    registry.register(RegionId(1), region, Rights::ALL)?;
    let options = NodeOptions {
        shm: Some(socket.clone()),
        tcp: Some("127.0.0.1:0".parse()?),
        ..NodeOptions::default()
    };
    let mut node = Node::bind(options, registry)?;
    let addresses = [
        format!("shm:{}", socket.display()),
        format!("tcp://{}", node.tcp_address().ok_or("no tcp address")?),
    ];
    let stopper = node.stopper();
    let serving = std::thread::spawn(move || node.run(&mut Greeter));

    for address in &addresses {
        let connection = Connection::connect(address, ConnectOptions::default()).wait()?;
        let region = connection.open(RegionId(1), Rights::ALL).wait()?;

        // One-sided: the node's code does not run for any of these.
        region.write(64, b"written through the fabric").wait()?;
        let mut bytes = [0; 26];
        region.read(64, &mut bytes).wait()?;
        let visits = region.fetch_add(0, 1).wait()? + 1;

        // By message: the node's service answers.
        let mut reply = Vec::new();
        connection.call(0, b"Barn", &mut reply).wait()?;
        println!(
            "{:<4} read {:?}, visit {visits}, called: {}",
            connection.transport(),
            String::from_utf8_lossy(&bytes),
            String::from_utf8_lossy(&reply)
        );
    }
    stopper.stop();
    serving.join().map_err(|_| "the node panicked")??;
    Ok(())
}
