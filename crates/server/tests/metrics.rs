//! A node's metrics, as a scraper sees them, and scrapers that mean it no good.
#![forbid(unsafe_code)]

use barn::space::Role;
use barn::{Barn, Way};
use barn_server::{Server, ServerOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine; a wait this long is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node inside this process, with metrics.
struct Scene {
    server: Server,
    address: SocketAddr,
    directory: PathBuf,
}

impl Scene {
    fn start(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("barn-metrics-{name}-{}", std::process::id()));
        let options = ServerOptions {
            shm: Some(directory.join("node.sock")),
            tcp: Some(([127, 0, 0, 1], 0).into()),
            memory_bytes: 16 << 20,
            lease: Duration::from_millis(300),
            metrics: Some(([127, 0, 0, 1], 0).into()),
            ..ServerOptions::default()
        };
        let server = Server::start(&options).unwrap();
        let address = server.metrics_address().unwrap();
        Self { server, address, directory }
    }

    fn connect(&self) -> Barn {
        Barn::connect(&format!("tcp://{}", self.server.tcp_address().unwrap())).unwrap()
    }

    /// Sends bytes, and gives all that is answered.
    fn ask(&self, bytes: &[u8]) -> String {
        self.try_ask(bytes).expect("an answer")
    }

    fn try_ask(&self, bytes: &[u8]) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(bytes)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// How a probe fares: whether it is told that the node is well; an error if it was cut off.
    fn probe(&self) -> std::io::Result<bool> {
        let answer = self.try_ask(b"GET /healthz HTTP/1.1\r\n\r\n")?;
        assert!(answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.1 503 "), "{answer}");
        Ok(answer.starts_with("HTTP/1.1 200 "))
    }

    fn get(&self, path: &str) -> String {
        self.ask(format!("GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").as_bytes())
    }

    /// A metric's value on the page.
    fn value(&self, line: &str) -> Option<f64> {
        let page = self.get("/metrics");
        let found = page.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        found.map(|value| value.parse().unwrap())
    }

    /// Waits until a metric is what it should be: figures are written down now and then.
    fn until(&self, line: &str, holds: impl Fn(f64) -> bool) {
        let since = Instant::now();
        loop {
            let value = self.value(line);
            if value.is_some_and(&holds) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{line} is {value:?}:\n{}", self.get("/metrics"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn what_clients_do_is_on_the_page() {
    let scene = Scene::start("page");
    let barn = scene.connect();
    let table = barn.table("users \"of\" all".replace(['"', ' '], "-").as_str()).unwrap();
    for number in 0..200u32 {
        table.put(&number.to_le_bytes(), b"value").unwrap();
        table.read_by(Way::Request).get(&number.to_le_bytes()).unwrap();
        table.read_by(Way::OneSided).get(&number.to_le_bytes()).unwrap();
    }
    table.increment(b"count", 1).unwrap();
    table.delete(&0u32.to_le_bytes()).unwrap();
    let object = barn.new(&1u64).unwrap();
    barn.store(object, &2).unwrap();
    let (space, _) = barn.spaces().create_with("pixels", 64 << 10, Role::Nobody).unwrap();
    space.reserve(2 * (64 << 10)).unwrap();

    scene.until("barn_table_operations_total{operation=\"put\"}", |count| count == 200.0);
    scene.until("barn_table_operations_total{operation=\"get\"}", |count| count == 200.0);
    scene.until("barn_table_operations_total{operation=\"increment\"}", |count| count == 1.0);
    scene.until("barn_table_operations_total{operation=\"delete\"}", |count| count == 1.0);
    scene.until("barn_table_keys{table=\"users--of--all\",shard=\"0\"}", |keys| keys == 200.0);
    scene.until("barn_transactions_total{outcome=\"committed_alone\"}", |count| count == 2.0);
    // One request in many is timed, by chance: of so many one surely is.
    for number in 0..3000u32 {
        table.put(&number.to_le_bytes(), b"value").unwrap();
    }
    scene.until("barn_request_seconds_count{request=\"table_update\"}", |count| count >= 1.0);
    scene.until("barn_one_sided_operations_total", |count| count >= 200.0);
    scene.until("barn_bytes_in_total{transport=\"tcp\"}", |bytes| bytes > 200.0 * 20.0);
    scene.until("barn_bytes_out_total{transport=\"tcp\"}", |bytes| bytes > 200.0 * 20.0);
    scene.until("barn_bytes_in_total{transport=\"shm\"}", |bytes| bytes > 0.0);
    scene.until("barn_peers{transport=\"tcp\"}", |peers| peers >= 1.0);
    scene.until("barn_sessions", |sessions| sessions >= 1.0);
    scene.until("barn_memory_budget_bytes", |bytes| bytes == (16 << 20) as f64);
    scene.until("barn_space_chunks", |chunks| chunks == 2.0);
    scene.until("barn_space_bytes{what=\"held\"}", |bytes| bytes == (128 << 10) as f64);
    scene.until("barn_peers{transport=\"verbs\"}", |peers| peers == 0.0);
    scene.until("barn_lease_left_seconds", |left| left > 0.0);
    scene.until("barn_members", |members| members == 1.0);
    assert!(scene.get("/metrics").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(scene.value("barn_log_unsynced_bytes").is_none(), "a node without a log shows none");

    // The other side of it: what no node can see.
    let stats = barn.stats();
    assert_eq!((stats.lookups.gets, stats.lookups.requests), (200, 200));
    assert!(stats.reads_per_get().is_some_and(|reads| (1.0..2.0).contains(&reads)), "{stats:?}");
    drop((barn, table, space));
    scene.until("barn_peers{transport=\"tcp\"}", |peers| peers == 0.0);
}

#[test]
fn every_line_is_of_a_metric_that_was_announced() {
    let scene = Scene::start("lines");
    scene.connect().table("a").unwrap().put(b"a", b"b").unwrap();
    scene.until("barn_table_keys{table=\"a\",shard=\"0\"}", |keys| keys == 1.0);
    let page = scene.get("/metrics");
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let (mut announced, mut ended) = (String::new(), Vec::new());
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            ended.push(std::mem::replace(&mut announced, rest.split(' ').next().unwrap().to_string()));
            assert!(!ended.contains(&announced), "{announced} is there twice");
        } else if !line.starts_with("# TYPE ") {
            assert!(line.starts_with(&announced), "{line} below {announced}");
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        }
    }
    // Every bucket of a histogram has what the ones below it have.
    let buckets = body.lines().filter(|line| line.contains("_bucket{request=\"other\""));
    let counts: Vec<f64> = buckets.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(counts.len() > 20 && counts.is_sorted(), "{counts:?}");
}

#[test]
fn health_and_readiness_are_told() {
    let scene = Scene::start("health");
    let since = Instant::now();
    while !scene.get("/readyz").starts_with("HTTP/1.1 200 ") {
        assert!(since.elapsed() < PATIENCE, "{}", scene.get("/readyz"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(scene.get("/healthz").ends_with("\r\n\r\nok\n"));
    assert!(scene.get("/nothing").starts_with("HTTP/1.1 404 "));
    assert!(scene.ask(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(scene.ask(&[b'x'; 10_000]).starts_with("HTTP/1.1 431 "));
    let head = scene.ask(b"HEAD /healthz HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn scrapers_that_say_nothing_keep_nobody_from_the_node() {
    let scene = Scene::start("silent");
    let table = scene.connect().table("a").unwrap();
    let mut silent: Vec<TcpStream> = (0..30).map(|_| TcpStream::connect(scene.address).unwrap()).collect();
    silent[0].write_all(b"GET /met").unwrap();
    for number in 0..100u32 {
        table.put(&number.to_le_bytes(), b"value").unwrap();
    }
    // One too many is told so, once the first ones are being served; the port is there again when they
    // are gone, or have had their time.
    let since = Instant::now();
    // (One that is sent away before it has asked may find the connection reset.)
    while scene.probe().is_ok_and(|well| well) {
        assert!(since.elapsed() < PATIENCE, "nobody was sent away");
    }
    drop(silent);
    let since = Instant::now();
    while !scene.probe().is_ok_and(|well| well) {
        assert!(since.elapsed() < PATIENCE, "the port did not come back");
        std::thread::sleep(Duration::from_millis(20));
    }
}
