//! What the tcp tests share: a node with a service that does as it is told, and a raw client
//! that says whatever a hostile one could.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part")]

use barn_fabric::{
    ConnectOptions, Connection, Deferred, Node, NodeOptions, NodeStats, PeerId, Region, RegionId, Registry,
    Reply, Request, Rights, Sender, Service, Stopper,
};
use barn_layout::frame::{Frame, FrameHeader, FrameKind, OpenBody, OpenedBody, ReadBody};
use barn_layout::handshake::{Authentication, MAGIC, TcpChallenge, TcpHello, TcpProof, TcpWelcome, VERSION};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Longer than any test may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const REGION: RegionId = RegionId(7);
pub const REGION_BYTES: usize = 20 << 20;

pub const ECHO: u16 = 1;
pub const HOLD: u16 = 2;
pub const RELEASE_BACKWARDS: u16 = 3;
pub const BYTES: u16 = 4;
pub const PUSH: u16 = 5;
pub const REFUSE: u16 = 6;
pub const FORGET: u16 = 7;
pub const BUSY: u16 = 8;

#[derive(Default, Debug)]
pub struct Seen {
    pub joined: Vec<PeerId>,
    pub gone: Vec<PeerId>,
    pub messages: Vec<(PeerId, Vec<u8>)>,
}

struct Obedient {
    seen: Arc<Mutex<Seen>>,
    sender: Sender,
    held: HashMap<PeerId, Vec<(Vec<u8>, Deferred)>>,
}

fn number(bytes: &[u8], at: usize) -> usize {
    bytes.get(at * 8..at * 8 + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()) as usize)
}

impl Service for Obedient {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let body = request.body;
        match request.method {
            ECHO => reply.done(body),
            HOLD => self.held.entry(request.peer).or_default().push((body.to_vec(), reply.later())),
            RELEASE_BACKWARDS => {
                reply.done(&[]);
                let held = self.held.remove(&request.peer).unwrap_or_default();
                held.into_iter().rev().for_each(|(body, deferred)| deferred.done(body));
            }
            BYTES => reply.done(&pattern(number(body, 0))),
            PUSH => {
                reply.done(&[]);
                for _ in 0..number(body, 0) {
                    self.sender.send(request.peer, pattern(number(body, 1)));
                }
            }
            REFUSE => reply.refuse("no"),
            FORGET => drop(reply),
            BUSY => reply.busy(),
            _ => reply.unknown_method(),
        }
    }

    fn message(&mut self, peer: PeerId, body: &[u8]) {
        self.seen.lock().unwrap().messages.push((peer, body.to_vec()));
    }

    fn joined(&mut self, peer: PeerId) {
        self.seen.lock().unwrap().joined.push(peer);
    }

    fn gone(&mut self, peer: PeerId) {
        self.held.remove(&peer);
        self.seen.lock().unwrap().gone.push(peer);
    }
}

/// Bytes that tell where they come from.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

pub fn two(one: usize, two: usize) -> Vec<u8> {
    [one as u64, two as u64].iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A node that serves until it is dropped.
pub struct Serving {
    pub at: SocketAddr,
    pub registry: Registry,
    pub region: Region,
    pub stats: Arc<NodeStats>,
    pub seen: Arc<Mutex<Seen>>,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub fn start() -> Self {
        Self::with(NodeOptions::default())
    }

    pub fn with(options: NodeOptions) -> Self {
        let at = options.tcp.unwrap_or("127.0.0.1:0".parse().unwrap());
        let registry = Registry::default();
        let region = Region::on_heap(REGION_BYTES, Rights::ALL);
        region.words().store(0, &pattern(REGION_BYTES)).unwrap();
        registry.register(REGION, region.clone(), Rights::ALL).unwrap();
        let mut node = Node::bind(NodeOptions { tcp: Some(at), ..options }, registry.clone()).unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (at, stats, stopper) = (node.tcp_address().unwrap(), node.stats(), node.stopper());
        let mut service = Obedient { seen: seen.clone(), sender: node.sender(), held: HashMap::new() };
        let thread = Some(std::thread::spawn(move || node.run(&mut service).unwrap()));
        Self { at, registry, region, stats, seen, stopper, thread }
    }

    pub fn address(&self) -> String {
        format!("tcp://{}", self.at)
    }

    pub fn connect(&self) -> Connection {
        self.connect_with(None).unwrap()
    }

    pub fn connect_with(&self, token: Option<&str>) -> Result<Connection, barn_fabric::ConnectError> {
        let token = token.map(str::to_string);
        let options = ConnectOptions { token, deadline: PATIENCE, ..ConnectOptions::default() };
        Connection::connect(&self.address(), options).wait()
    }

    pub fn raw(&self) -> Raw {
        let mut raw = Raw::connect(self.at);
        raw.introduce();
        raw
    }

    pub fn stop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    /// Waits until what `seen` asks for is so.
    pub fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: never");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn count(&self, counter: impl Fn(&NodeStats) -> &std::sync::atomic::AtomicU64) -> u64 {
        // ORDER: Relaxed: a count, which orders nothing.
        counter(&self.stats).load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Somebody else is served as if nothing had happened.
    pub fn serves(&self) {
        let connection = self.connect();
        let mut reply = Vec::new();
        connection.call(ECHO, b"still there?", &mut reply).wait().unwrap();
        assert_eq!(reply, b"still there?");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A client that says what it likes.
pub struct Raw {
    pub stream: TcpStream,
    pub peer: PeerId,
}

impl Raw {
    pub fn connect(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream, peer: PeerId(0) }
    }

    pub fn hello(authentication: u16) -> TcpHello {
        TcpHello {
            magic: MAGIC,
            version: VERSION.into(),
            authentication: authentication.into(),
            reserved: 0.into(),
            nonce: [1; 32],
        }
    }

    pub fn introduce(&mut self) {
        self.stream.write_all(Self::hello(Authentication::Open as u16).as_bytes()).unwrap();
        assert_eq!(self.challenge().status.get(), 0);
        self.stream.write_all(TcpProof { code: [0; 32] }.as_bytes()).unwrap();
        let mut welcome = [0; TcpWelcome::BYTES];
        self.stream.read_exact(&mut welcome).unwrap();
        let welcome = TcpWelcome::read_from_bytes(&welcome).unwrap();
        assert_eq!(welcome.status.get(), 0);
        self.peer = PeerId(welcome.peer.get());
    }

    pub fn challenge(&mut self) -> TcpChallenge {
        let mut challenge = [0; TcpChallenge::BYTES];
        self.stream.read_exact(&mut challenge).unwrap();
        TcpChallenge::read_from_bytes(&challenge).unwrap()
    }

    pub fn say(&mut self, bytes: &[u8]) {
        // A node that has expelled us may have closed already.
        let _ = self.stream.write_all(bytes);
    }

    pub fn frame(&mut self, kind: FrameKind, id: u64, body: &[u8]) {
        self.say(&frame(kind as u8, id, body));
    }

    pub fn next(&mut self) -> (Frame, Vec<u8>) {
        let mut header = [0; FrameHeader::BYTES];
        self.stream.read_exact(&mut header).unwrap();
        let frame = Frame::check(FrameHeader::ref_from_bytes(&header).unwrap()).unwrap();
        let mut body = vec![0; frame.body_bytes];
        self.stream.read_exact(&mut body).unwrap();
        (frame, body)
    }

    pub fn open(&mut self, rights: Rights) -> u64 {
        let body = OpenBody { region: REGION.0.into(), rights: rights.to_bits().into() };
        self.frame(FrameKind::Open, 1, body.as_bytes());
        let (frame, body) = self.next();
        assert_eq!((frame.kind, frame.status), (FrameKind::Opened, 0));
        OpenedBody::read_from_bytes(&body).unwrap().key.get()
    }

    /// Asks for bytes; gives the outcome and how many came.
    pub fn read(&mut self, key: u64, offset: u64, bytes: u32) -> (u8, usize) {
        self.frame(FrameKind::Read, 9, read_body(key, offset, bytes).as_bytes());
        let (frame, body) = self.next();
        assert_eq!((frame.kind, frame.id), (FrameKind::Done, 9));
        (frame.status, body.len())
    }

    /// The node closes.
    pub fn is_shown_out(&mut self) {
        let mut rest = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
    }
}

pub fn read_body(key: u64, offset: u64, bytes: u32) -> ReadBody {
    ReadBody { key: key.into(), offset: offset.into(), bytes: bytes.into(), reserved: 0.into() }
}

/// A frame with any kind byte and any claimed length.
pub fn claim(kind: u8, id: u64, body_bytes: u32) -> Vec<u8> {
    let header =
        FrameHeader { body_bytes: body_bytes.into(), kind, status: 0, method: 1.into(), id: id.into() };
    header.as_bytes().to_vec()
}

pub fn frame(kind: u8, id: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = claim(kind, id, body.len() as u32);
    bytes.extend_from_slice(body);
    bytes
}
