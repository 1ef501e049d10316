//! What the shm tests share: a node on a thread, and a client that speaks the protocol by hand.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod process;

use barn_fabric::messaging::ring::{Place, Progress, RingReader, RingWriter};
use barn_fabric::region::map_shared;
use barn_fabric::*;
use barn_layout::channel::{CONTROL_BYTES, ChannelShape};
use barn_layout::handshake::{MAGIC, ShmHello, ShmOpen, ShmOpened, ShmWelcome, VERSION};
use barn_layout::message::{Kind, MessageHeader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::*;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Longer than anything takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Echoes; a request of method 2 is never answered.
pub(crate) struct Echo(Vec<Deferred>);

impl Echo {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }
}

impl Service for Echo {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        match request.method {
            1 => reply.done(request.body),
            2 => self.0.push(reply.later()),
            _ => reply.unknown_method(),
        }
    }
}

/// A path for a socket that nobody else uses.
pub(crate) fn socket_path(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("barn-{name}-{}-{number}", std::process::id()))
}

/// A node of this process.
pub(crate) struct TestNode {
    pub(crate) path: PathBuf,
    pub(crate) registry: Registry,
    pub(crate) stats: Arc<NodeStats>,
    pub(crate) sender: Sender,
    stopper: Stopper,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TestNode {
    /// With region 1, which everyone may read, and region 2, which everyone may change.
    pub(crate) fn start(name: &str) -> Self {
        let path = socket_path(name);
        let registry = Registry::default();
        let region = |options| Region::allocate(&options).expect("memory");
        let small = |remote| RegionOptions { bytes: 64 << 10, remote, huge: false };
        registry.register(RegionId(1), region(small(Rights::READ)), Rights::READ).unwrap();
        registry.register(RegionId(2), region(small(Rights::ALL)), Rights::ALL).unwrap();
        let options = NodeOptions { shm: Some(path.clone()), ..NodeOptions::default() };
        let mut node = Node::bind(options, registry.clone()).expect("the node binds");
        let (stopper, stats, sender) = (node.stopper(), node.stats(), node.sender());
        let thread = std::thread::spawn(move || node.run(&mut Echo::new()).expect("the node runs"));
        Self { path, registry, stats, sender, stopper, thread: Some(thread) }
    }

    pub(crate) fn client(&self) -> Connection {
        connect(&self.path).expect("an honest client gets in")
    }

    pub(crate) fn expelled(&self) -> u64 {
        self.stats.expelled.load(Ordering::Relaxed)
    }

    pub(crate) fn peers(&self) -> u64 {
        self.stats.peers.load(Ordering::Relaxed)
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("started").expect("the node did not panic");
        }
    }
}

pub(crate) fn connect(path: &Path) -> Result<Connection, ConnectError> {
    let options = ConnectOptions { deadline: PATIENCE, ..ConnectOptions::default() };
    Connection::connect(&format!("shm:{}", path.display()), options).wait()
}

pub(crate) fn echo(client: &Connection, body: &[u8]) {
    let mut reply = Vec::new();
    client.call(1, body, &mut reply).wait().expect("an honest client is served");
    assert_eq!(reply, body);
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A socket connected to a node, without a word said.
pub(crate) fn raw_socket(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect_to(&socket, path)?;
    Ok(socket)
}

fn connect_to(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    rustix::net::connect(socket, &SocketAddrUnix::new(path)?)
}

pub(crate) fn send_packet(socket: &OwnedFd, packet: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, flags).map(|_| ())
}

/// The next packet, with its descriptors; `None` when the node has hung up.
pub(crate) fn receive_packet(socket: &OwnedFd) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let mut watched = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    assert_ne!(poll(&mut watched, Some(&timeout)).unwrap(), 0, "the node neither answered nor hung up");
    let mut bytes = vec![0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let files = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        })
        .flatten()
        .collect();
    bytes.truncate(received.bytes);
    (received.bytes > 0).then_some((bytes, files))
}

pub(crate) fn hello(ring_bytes: u32, window: u32) -> ShmHello {
    ShmHello {
        magic: MAGIC,
        version: VERSION.into(),
        reserved: 0.into(),
        ring_bytes: ring_bytes.into(),
        window: window.into(),
        reserved_1: 0.into(),
    }
}

pub(crate) fn header(kind: Kind, id: u64, method: u16, total_bytes: u32, piece_offset: u32) -> MessageHeader {
    MessageHeader {
        id: id.into(),
        total_bytes: total_bytes.into(),
        piece_offset: piece_offset.into(),
        method: method.into(),
        kind: kind as u8,
        status: 0,
        reserved: 0.into(),
    }
}

/// A client whose every byte is in the test's hands.
pub(crate) struct Raw {
    pub(crate) socket: OwnedFd,
    pub(crate) shape: ChannelShape,
    pub(crate) files: Vec<OwnedFd>,
    pub(crate) inbound: Words,
    pub(crate) outbound: Words,
    pub(crate) bell: OwnedFd,
}

impl Raw {
    pub(crate) fn connect(path: &Path, ring_bytes: u32, window: u32) -> Self {
        let socket = raw_socket(path).expect("the node listens");
        send_packet(&socket, hello(ring_bytes, window).as_bytes(), &[]).unwrap();
        let (bytes, mut files) = receive_packet(&socket).expect("the node answers");
        let welcome = ShmWelcome::read_from_bytes(&bytes).unwrap();
        assert_eq!(welcome.status.get(), 0);
        let shape =
            ChannelShape::new(welcome.ring_bytes.get() as usize, welcome.window.get() as usize).unwrap();
        let bell = files.pop().expect("a bell");
        assert_eq!(files.len(), 3);
        let inbound = map_shared(files[0].as_fd(), shape.inbound_bytes() as u64, true).unwrap();
        let outbound = map_shared(files[1].as_fd(), shape.outbound_bytes() as u64, false).unwrap();
        map_shared(files[2].as_fd(), CONTROL_BYTES as u64, false).unwrap();
        Self { socket, shape, files, inbound, outbound, bell }
    }

    /// Rings whether the node sleeps or not.
    pub(crate) fn ring(&self) {
        let _ = send(&self.bell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    pub(crate) fn writer(&self) -> RingWriter {
        let place = Place {
            words: self.inbound.clone(),
            base: self.shape.inbound_ring() as u64,
            bytes: self.shape.ring_bytes,
        };
        RingWriter::new(place, Progress { words: self.outbound.clone(), at: 0 })
    }

    pub(crate) fn reader(&self) -> RingReader {
        let place = Place {
            words: self.outbound.clone(),
            base: self.shape.outbound_ring() as u64,
            bytes: self.shape.ring_bytes,
        };
        RingReader::new(place, Progress { words: self.inbound.clone(), at: 0 })
    }

    pub(crate) fn open(&self, id: u64, region: u32, rights: u32) -> Result<(), Errno> {
        let open = ShmOpen { id: id.into(), region: region.into(), rights: rights.into() };
        send_packet(&self.socket, open.as_bytes(), &[])
    }

    pub(crate) fn opened(&self) -> Option<(ShmOpened, Vec<OwnedFd>)> {
        let (bytes, files) = receive_packet(&self.socket)?;
        Some((ShmOpened::read_from_bytes(&bytes).expect("an answer"), files))
    }

    /// Waits until the node has hung up.
    pub(crate) fn until_sent_away(&self) {
        until("the node to hang up", || {
            self.ring();
            let mut watched = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::RDHUP)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut watched, Some(&now)).unwrap() > 0
        });
    }
}
