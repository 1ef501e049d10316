//! How fast verbs are between two processes, in lines `name value unit`:
//!
//! ```text
//! verbs_rate node 10.9.0.1:7000
//! verbs_rate client 10.9.0.1:7000 10.9.0.2 [SECONDS [ROW]]
//! ```
//!
//! Blocking READs, pipelined READs, calls by FaRM's ring and in HERD's mode, each for a fixed time;
//! and, on the same device, echoes by bare SENDs and bare WRITEs (HERD's Figures 5 and 9), which are
//! what the modes above are made of. On an emulated processor only the ratios mean something.

use barn_fabric::verbs::{Echo, echo_client, echo_node};
use barn_fabric::{
    ConnectOptions, Connection, Messaging, Node, NodeOptions, Pipeline, Region, RegionId, RegionOptions,
    Registry, RemoteRegion, Reply, Request, Rights, Service, VerbsOption,
};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const REGION_BYTES: u64 = 4 << 20;
const BYTES: usize = 64;
/// READs in flight, unless BARN_READS says otherwise; `ib_read_bw` has 128.
const READS: usize = 32;
/// Calls in flight: HERD saw no gain past 16.
const CALLS: usize = 16;

struct Service64;

impl Service for Service64 {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        reply.done(request.body);
    }
}

fn node(at: SocketAddr) {
    let registry = Registry::default();
    let region = Region::allocate(&RegionOptions::readable(REGION_BYTES)).expect("memory for a region");
    registry.register(RegionId(1), region, Rights::READ).expect("a free number");
    // One port further: bare echoes.
    let bare = SocketAddr::new(at.ip(), at.port() + 1);
    std::thread::spawn(move || echo_node(bare));
    let options = NodeOptions {
        tcp: Some(at),
        verbs: VerbsOption::Auto,
        allow_unauthenticated: true,
        ..NodeOptions::default()
    };
    let mut node = Node::bind(options, registry).expect("the node binds");
    node.run(&mut Service64).expect("the node runs");
}

struct Client {
    at: SocketAddr,
    bind: IpAddr,
    time: Duration,
}

impl Client {
    fn connect(&self, messaging: Messaging) -> Connection {
        let options = ConnectOptions { messaging, bind: Some(self.bind), ..ConnectOptions::default() };
        Connection::connect(&format!("verbs://{}", self.at), options).wait().expect("the node is there")
    }

    fn region(&self) -> RemoteRegion {
        self.connect(Messaging::Ring).open(RegionId(1), Rights::READ).wait().expect("the region opens")
    }

    /// The median of how long `once` takes, in microseconds.
    fn median(&self, mut once: impl FnMut()) -> f64 {
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < self.time {
            let before = Instant::now();
            once();
            times.push(before.elapsed());
        }
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e6
    }

    /// How many futures a second, `window` at a time.
    fn rate<F: Future<Output = ()>>(&self, window: usize, mut make: impl FnMut(u64) -> F) -> f64 {
        let (start, mut given, mut done) = (Instant::now(), 0, 0u64);
        let next = std::iter::from_fn(|| {
            given += 1;
            (start.elapsed() < self.time).then(|| make(given))
        });
        Pipeline::new(window).run(next, |()| done += 1);
        done as f64 / start.elapsed().as_secs_f64()
    }

    fn read_latency(&self) -> f64 {
        let (region, mut into) = (self.region(), [0; BYTES]);
        self.median(|| region.read(64, &mut into).wait().expect("a READ"))
    }

    fn read_rate(&self) -> f64 {
        let region = self.region();
        let region = &region;
        let window = std::env::var("BARN_READS").ok().and_then(|reads| reads.parse().ok()).unwrap_or(READS);
        self.rate(window, |number| async move {
            let mut into = [0; BYTES];
            region.read(number * 64 % (REGION_BYTES - 64), &mut into).await.expect("a READ");
        })
    }

    fn call_latency(&self, messaging: Messaging) -> f64 {
        let (connection, mut reply) = (self.connect(messaging), Vec::new());
        self.median(|| connection.call(1, &[7; BYTES], &mut reply).wait().expect("an answer"))
    }

    fn call_rate(&self, messaging: Messaging) -> f64 {
        let connection = self.connect(messaging);
        let connection = &connection;
        self.rate(CALLS, |_| async move {
            connection.call(1, &[7; BYTES], &mut Vec::new()).await.expect("an answer");
        })
    }

    fn echo_rate(&self, echo: Echo) -> f64 {
        let bare = SocketAddr::new(self.at.ip(), self.at.port() + 1);
        echo_client(bare, self.bind, echo, CALLS, BYTES, self.time).expect("echoes")
    }
}

/// A row: its name, its unit, and what measures it.
type Row = (&'static str, &'static str, fn(&Client) -> f64);

const HERD: Messaging = Messaging::RequestRegion { window: CALLS };

const ROWS: &[Row] = &[
    ("read_64_latency", "us", Client::read_latency),
    ("read_64_rate", "per_second", Client::read_rate),
    ("ring_call_64_latency", "us", |client| client.call_latency(Messaging::Ring)),
    ("ring_call_64_rate", "per_second", |client| client.call_rate(Messaging::Ring)),
    ("herd_call_64_latency", "us", |client| client.call_latency(HERD)),
    ("herd_call_64_rate", "per_second", |client| client.call_rate(HERD)),
    ("echo_send_send_rate", "per_second", |client| client.echo_rate(Echo::SendSend)),
    ("echo_write_write_rate", "per_second", |client| client.echo_rate(Echo::WriteWrite)),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (role, at) = (args.first().map(String::as_str), args.get(1).and_then(|at| at.parse().ok()));
    match (role, at, args.get(2).and_then(|bind| bind.parse().ok())) {
        (Some("node"), Some(at), _) => node(at),
        (Some("client"), Some(at), Some(bind)) => {
            let seconds = args.get(3).and_then(|seconds| seconds.parse().ok()).unwrap_or(3);
            let client = Client { at, bind, time: Duration::from_secs(seconds) };
            let only = args.get(4).map_or("", String::as_str);
            for (name, unit, measure) in ROWS.iter().filter(|row| row.0.contains(only)) {
                println!("{name} {:.1} {unit}", measure(&client));
            }
        }
        _ => {
            eprintln!("verbs_rate node IP:PORT | verbs_rate client IP:PORT BIND-IP [SECONDS [ROW]]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
