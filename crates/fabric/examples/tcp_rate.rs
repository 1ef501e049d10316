//! RPC and READ over tcp beside a bare socket echo, in one run: `cargo run --release -p
//! barn-fabric --example tcp_rate`.
//!
//! Both ends spin, on two threads. Ours and the bare one take short turns, so that a change in
//! the machine's mood hits both; the median of the turns is shown, and the best, which is what
//! to look at on a machine that others use too.

use barn_fabric::{
    ConnectOptions, Connection, Node, NodeOptions, Pipeline, Region, RegionId, RegionOptions, Registry,
    Reply, Request, Rights, Service,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const BODY_BYTES: usize = 32;
const REPEATS: usize = 40;
const SAMPLE: Duration = Duration::from_millis(20);

struct Echo;

impl Service for Echo {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        reply.done(request.body);
    }
}

/// Reads what is there, spinning until something is; 0 at the end.
fn spin_read(stream: &mut TcpStream, into: &mut [u8]) -> usize {
    loop {
        match stream.read(into) {
            Ok(bytes) => return bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(_) => return 0,
        }
    }
}

fn bare_server(listener: TcpListener, spin: bool) {
    while let Ok((mut stream, _)) = listener.accept() {
        stream.set_nonblocking(spin).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut buffer = vec![0; 256 << 10];
        loop {
            let bytes = spin_read(&mut stream, &mut buffer);
            if bytes == 0 || stream.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
    }
}

/// Echoes per second with `window` in flight: as many new ones leave as came back, at once.
fn bare_rate(stream: &mut TcpStream, window: usize) -> f64 {
    let (mut buffer, start) = (vec![0; 256 << 10], Instant::now());
    let (mut back, mut part) = (0u64, 0);
    stream.write_all(&buffer[..window * BODY_BYTES]).unwrap();
    while start.elapsed() < SAMPLE {
        part += spin_read(stream, &mut buffer);
        let whole = part / BODY_BYTES;
        part %= BODY_BYTES;
        back += whole as u64;
        if whole > 0 {
            stream.write_all(&buffer[..whole * BODY_BYTES]).unwrap();
        }
    }
    let rate = back as f64 / start.elapsed().as_secs_f64();
    let mut left = window * BODY_BYTES - part;
    while left > 0 {
        left -= spin_read(stream, &mut buffer).min(left);
    }
    rate
}

fn call_rate(connection: &Connection, window: usize) -> f64 {
    let (request, start) = ([7; BODY_BYTES], Instant::now());
    let mut calls = 0u64;
    if window == 1 {
        let mut reply = Vec::new();
        while start.elapsed() < SAMPLE {
            connection.call(1, &request, &mut reply).wait().unwrap();
            calls += 1;
        }
        return calls as f64 / start.elapsed().as_secs_f64();
    }
    let request = &request;
    let pool = &std::cell::RefCell::new(vec![Vec::new(); window]);
    let mut pipeline = Pipeline::new(window);
    let mut given = 0u64;
    let next = std::iter::from_fn(|| {
        given += 1;
        if given.is_multiple_of(64) && start.elapsed() >= SAMPLE {
            return None;
        }
        Some(async move {
            let mut reply = pool.borrow_mut().pop().unwrap_or_default();
            connection.call(1, request, &mut reply).await.unwrap();
            pool.borrow_mut().push(reply);
        })
    });
    pipeline.run(next, |()| calls += 1);
    calls as f64 / start.elapsed().as_secs_f64()
}

fn read_rate(connection: &Connection, bytes: usize, window: usize) -> f64 {
    let region = connection.open(RegionId(1), Rights::READ).wait().unwrap();
    let pool = std::cell::RefCell::new(vec![vec![0; bytes]; window]);
    let (region, pool, start) = (&region, &pool, Instant::now());
    let (mut reads, mut given) = (0u64, 0u64);
    let next = std::iter::from_fn(|| {
        given += 1;
        let offset = given.wrapping_mul(0x9e37_79b9) % ((64 << 20) - bytes as u64) / 64 * 64;
        if start.elapsed() >= SAMPLE {
            return None;
        }
        Some(async move {
            let mut into = pool.borrow_mut().pop().unwrap_or_else(|| vec![0; bytes]);
            region.read(offset, &mut into).await.unwrap();
            pool.borrow_mut().push(into);
        })
    });
    Pipeline::new(window).run(next, |()| reads += 1);
    reads as f64 / start.elapsed().as_secs_f64()
}

/// The median and the best.
fn summary(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() - 1])
}

fn main() {
    let registry = Registry::default();
    let region = Region::allocate(&RegionOptions::readable(64 << 20)).unwrap();
    registry.register(RegionId(1), region, Rights::READ).unwrap();
    let options = NodeOptions { tcp: Some("127.0.0.1:0".parse().unwrap()), ..NodeOptions::default() };
    let mut node = Node::bind(options, registry).unwrap();
    let address = node.tcp_address().unwrap();
    std::thread::spawn(move || node.run(&mut Echo).unwrap());
    let connection =
        Connection::connect(&format!("tcp://{address}"), ConnectOptions::default()).wait().unwrap();

    let [spinning, blocking] = [true, false].map(|spin| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || bare_server(listener, spin));
        at
    });
    let only: Option<usize> = std::env::args().nth(1).and_then(|window| window.parse().ok());
    for window in [1, 16, 64, 256].into_iter().filter(|window| only.is_none_or(|only| only == *window)) {
        let mut turns = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..REPEATS {
            for (turn, at) in [(1, spinning), (2, blocking)] {
                let mut stream = TcpStream::connect(at).unwrap();
                stream.set_nonblocking(turn == 1).unwrap();
                stream.set_nodelay(true).unwrap();
                turns[turn].push(bare_rate(&mut stream, window));
                // Its server stops spinning when the stream closes, and ours sleeps meanwhile.
                drop(stream);
                std::thread::sleep(Duration::from_millis(1));
            }
            turns[0].push(call_rate(&connection, window));
            std::thread::sleep(Duration::from_millis(1));
        }
        let [ours, spinning, blocking] = turns.map(summary);
        for (name, ours, spinning, blocking) in
            [("median", ours.0, spinning.0, blocking.0), ("best", ours.1, spinning.1, blocking.1)]
        {
            println!(
                "rpc, window {window:3}, {name:6}: {:6.0} k/s ({:5.2} us each); bare echo, spinning {:6.0} k/s, ratio {:.2}; blocking {:6.0} k/s, ratio {:.2}",
                ours / 1e3,
                1e6 / ours,
                spinning / 1e3,
                ours / spinning,
                blocking / 1e3,
                ours / blocking
            );
        }
    }
    if only.is_some() {
        return;
    }
    for (bytes, window) in [
        (8, 1),
        (64, 1),
        (64, 64),
        (1024, 1),
        (1024, 16),
        (64 << 10, 1),
        (64 << 10, 16),
        (1 << 20, 1),
        (1 << 20, 4),
    ] {
        let (median, best) =
            summary((0..REPEATS / 4).map(|_| read_rate(&connection, bytes, window)).collect());
        println!(
            "read {bytes:7} B, window {window:2}: median {:8.2} us each, best {:8.2} us each ({:6.1} k/s, {:5.2} GB/s)",
            1e6 / median,
            1e6 / best,
            best / 1e3,
            best * bytes as f64 / 1e9
        );
    }
}
