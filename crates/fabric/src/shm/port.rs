//! The node's Unix socket: lets clients in, serves them, and notices when they go.

use super::control;
use super::peer::{Expelled, ShmPeer};
use super::peers::Peers;
use super::say_asleep;
use crate::node::{Core, NodeError, Port, Transport, count};
use crate::region::{Region, RegionOptions, Rights};
use crate::registry::PeerId;
use crate::service::{Outgoing, Service};
use barn_layout::RegionId;
use barn_layout::channel::{CONTROL_BYTES, ChannelShape, RING_BYTES_DEFAULT};
use barn_layout::frame::Outcome;
use barn_layout::handshake::{MAGIC, Refusal, ShmHello, ShmOpen, ShmOpened, ShmWelcome, VERSION};
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    socketpair,
};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Newcomers that have not yet said hello; past that the oldest is dropped.
const NEWCOMERS_MAX: usize = 256;
/// Newcomers that are let in before the others have their turn.
const ACCEPTS_PER_EVENT: usize = 64;
/// Control packets that are taken from one peer before the others have their turn.
const PACKETS_PER_EVENT: usize = 64;

/// How often and for how long a node that starts looks whether others have finished starting, 2 s
/// in all: a turn lasts microseconds, and whoever keeps the directory locked is no node.
const TURN_TRIES: u32 = 1000;
const TURN_EVERY: Duration = Duration::from_millis(2);

/// Tokens: the listener, and for each connection its socket and its bell.
const LISTENER: u64 = 0;
const fn socket_token(number: u64) -> u64 {
    number << 1
}
const fn bell_token(number: u64) -> u64 {
    number << 1 | 1
}

/// The listening side of the shm transport.
pub(crate) struct ShmPort {
    port: u8,
    path: PathBuf,
    listener: OwnedFd,
    /// Kept for the day when there is no other.
    spare: Option<OwnedFd>,
    /// What all clients may read: whether the node sleeps.
    node_page: Region,
    next: u64,
    newcomers: BTreeMap<u64, OwnedFd>,
    peers: Peers,
    numbers: HashMap<PeerId, u64>,
    pushed: u64,
    sweeps: u32,
    /// Nobody may be passed over: the node is about to sleep.
    thorough: bool,
}

/// A peer that was silent for so many sweeps (some 10 µs)...
const QUIET_AFTER: u32 = 256;
/// ...is looked at once in so many: those that talk should not wait for those that do not.
const QUIET_EVERY: u32 = 16;

impl ShmPort {
    pub(crate) fn listen(core: &mut Core, path: &Path, port: u8) -> Result<Self, NodeError> {
        let shown = || format!("shm:{}", path.display());
        let failed = |cause: Errno| NodeError::Listen { address: shown(), cause: cause.into() };
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(failed);
        let listener = socket()?;
        // From the look at who answers until we listen: else two nodes that start at once would
        // each take the other's socket for a dead one's.
        let turn = take_turn(path).map_err(failed)?;
        match bind(&listener, &address) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => {
                // A socket that nobody answers was left by a node that died.
                match connect(&socket()?, &address) {
                    Ok(()) | Err(Errno::AGAIN) => return Err(NodeError::InUse { address: shown() }),
                    // Anything but a socket that nobody answers is somebody's: it is left alone.
                    Err(Errno::CONNREFUSED) if is_socket(path) => {
                        rustix::fs::unlink(path).map_err(failed)?;
                    }
                    Err(_) => return Err(failed(Errno::ADDRINUSE)),
                }
                bind(&listener, &address).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        let owner_only = Mode::RUSR | Mode::WUSR;
        rustix::fs::chmod(path, owner_only).map_err(failed)?;
        listen(&listener, 1024).map_err(failed)?;
        drop(turn);
        core.watch(&listener, port, LISTENER, EventFlags::IN)?;
        let node_page =
            Region::allocate(&RegionOptions { huge: false, ..RegionOptions::readable(CONTROL_BYTES as u64) })
                .map_err(|error| NodeError::System(std::io::Error::other(error)))?;
        Ok(Self {
            port,
            path: path.to_path_buf(),
            listener,
            spare: spare(),
            node_page,
            next: 1,
            newcomers: BTreeMap::new(),
            peers: Peers::default(),
            numbers: HashMap::new(),
            pushed: 0,
            sweeps: 0,
            thorough: false,
        })
    }

    fn accept(&mut self, core: &mut Core) {
        if self.spare.is_none() {
            self.spare = spare();
        }
        for _ in 0..ACCEPTS_PER_EVENT {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                // No descriptor is left. A newcomer that nobody takes would be announced again and
                // again: it is told, with the descriptor that was kept for this.
                Err(Errno::MFILE | Errno::NFILE) if self.spare.take().is_some() => {
                    if let Ok(socket) = accept_with(&self.listener, flags) {
                        self.turn_away(core, socket, Refusal::NoMemory);
                    }
                    self.spare = spare();
                    continue;
                }
                Err(_) => return,
            };
            let number = self.next;
            self.next += 1;
            if core
                .watch(&socket, self.port, socket_token(number), EventFlags::IN | EventFlags::RDHUP)
                .is_err()
            {
                continue;
            }
            self.newcomers.insert(number, socket);
            if self.newcomers.len() > NEWCOMERS_MAX
                && let Some((_, oldest)) = self.newcomers.pop_first()
            {
                core.unwatch(&oldest);
            }
        }
    }

    /// A newcomer's first packet: lets it in, or tells it why not.
    fn greet(&mut self, core: &mut Core, service: &mut dyn Service, number: u64) {
        let Some(socket) = self.newcomers.remove(&number) else { return };
        let refused = match control::receive(socket.as_fd()) {
            Ok(Some(packet)) => self.admit(core, number, socket, packet.bytes()),
            Err(Errno::AGAIN | Errno::INTR) => {
                self.newcomers.insert(number, socket);
                return;
            }
            Ok(None) | Err(_) => {
                core.unwatch(&socket);
                return;
            }
        };
        match refused {
            Ok(peer) => service.joined(peer),
            Err((socket, refusal)) => self.turn_away(core, socket, refusal),
        }
    }

    /// Tells a newcomer why it is not let in.
    fn turn_away(&mut self, core: &Core, socket: OwnedFd, refusal: Refusal) {
        let welcome = welcome(core, refusal as u16, None, PeerId(0));
        let _ = control::send(socket.as_fd(), welcome.as_bytes(), &[]);
        core.unwatch(&socket);
    }

    fn admit(
        &mut self,
        core: &mut Core,
        number: u64,
        socket: OwnedFd,
        hello: &[u8],
    ) -> Result<PeerId, (OwnedFd, Refusal)> {
        let shape = match check_hello(core, &socket, hello) {
            Ok(shape) => shape,
            Err(refusal) => return Err((socket, refusal)),
        };
        let (Ok(inbound), Ok(outbound)) = (
            Region::allocate(&half(shape.inbound_bytes(), Rights::ALL)),
            Region::allocate(&half(shape.outbound_bytes(), Rights::READ)),
        ) else {
            return Err((socket, Refusal::NoMemory));
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok((bell, client_bell)) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None) else {
            return Err((socket, Refusal::NoMemory));
        };
        let files = [
            inbound.descriptor(Rights::ALL),
            outbound.descriptor(Rights::READ),
            self.node_page.descriptor(Rights::READ),
        ];
        let Some(files) = files.into_iter().map(|file| file?.ok()).collect::<Option<Vec<OwnedFd>>>() else {
            return Err((socket, Refusal::NoMemory));
        };
        if core.watch(&bell, self.port, bell_token(number), EventFlags::IN).is_err() {
            return Err((socket, Refusal::NoMemory));
        }
        let id = match core.admit(Transport::Shm) {
            Ok(id) => id,
            Err(refusal) => return Err((socket, refusal)),
        };
        let mut descriptors: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        descriptors.push(client_bell.as_fd());
        let welcome = welcome(core, 0, Some(shape), id);
        // A client that is already gone is noticed by its socket's hang-up.
        if control::send(socket.as_fd(), welcome.as_bytes(), &descriptors) == Err(Errno::TOOMANYREFS) {
            core.dismiss(Transport::Shm, id);
            return Err((socket, Refusal::NoMemory));
        }
        let peer = ShmPeer::new(id, socket, shape, (&inbound, &outbound), bell);
        self.peers.insert(number, peer);
        self.numbers.insert(id, number);
        Ok(id)
    }

    /// A peer's control packets: regions to open and to close.
    fn take_packets(&mut self, core: &mut Core, service: &mut dyn Service, number: u64) {
        for _ in 0..PACKETS_PER_EVENT {
            let Some(peer) = self.peers.get_mut(number) else { return };
            match send_unsent(core, peer, self.port, number) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.dismiss(core, service, number),
            }
            let packet = match control::receive(peer.socket.as_fd()) {
                Ok(Some(packet)) => packet,
                Err(Errno::AGAIN | Errno::INTR) => return,
                Ok(None) | Err(_) => return self.dismiss(core, service, number),
            };
            let Ok(open) = ShmOpen::read_from_bytes(packet.bytes()) else {
                return self.expel(core, service, number);
            };
            let rights = Rights::from_bits(open.rights.get());
            if rights == Rights::NONE && open.id.get() == 0 {
                peer.close(open.region.get());
                continue;
            }
            peer.unsent = Some(answer_open(core, peer, &open, rights));
        }
        // The last answer of the turn.
        if let Some(peer) = self.peers.get_mut(number)
            && !matches!(send_unsent(core, peer, self.port, number), Ok(()) | Err(Errno::AGAIN | Errno::INTR))
        {
            self.dismiss(core, service, number);
        }
    }

    /// A peer went by itself, or died: what it sent before is still in its ring.
    fn hung_up(&mut self, core: &mut Core, service: &mut dyn Service, number: u64) {
        if let Some(peer) = self.peers.get_mut(number) {
            let _ = peer.serve(service, &core.outbox, usize::MAX);
        }
        self.dismiss(core, service, number);
    }

    fn expel(&mut self, core: &mut Core, service: &mut dyn Service, number: u64) {
        core.stats.expelled.fetch_add(1, Ordering::Relaxed);
        self.dismiss(core, service, number);
    }

    /// A peer is gone: everything it had is freed.
    fn dismiss(&mut self, core: &mut Core, service: &mut dyn Service, number: u64) {
        let Some(peer) = self.peers.remove(number) else { return };
        self.numbers.remove(&peer.id);
        core.unwatch(&peer.socket);
        core.unwatch(&peer.bell);
        core.dismiss(Transport::Shm, peer.id);
        service.gone(peer.id);
    }
}

/// Waits for a node's turn to start in the directory of `path`, which lasts until the descriptor
/// is dropped. The lock is the directory's own: nothing is left behind, whoever dies.
fn take_turn(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = parent.unwrap_or(Path::new("."));
    // A directory that we may not read has no turns; one that is not there is bind's to report.
    let Ok(directory) = rustix::fs::open(parent, flags, Mode::empty()) else { return Ok(None) };
    for _ in 0..TURN_TRIES {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN | Errno::INTR) => std::thread::sleep(TURN_EVERY),
            // A file system without locks has no turns to wait for.
            Ok(()) | Err(_) => return Ok(Some(directory)),
        }
    }
    Err(Errno::BUSY)
}

fn is_socket(path: &Path) -> bool {
    let kind = |stat: rustix::fs::Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode);
    rustix::fs::lstat(path).is_ok_and(|stat| kind(stat) == rustix::fs::FileType::Socket)
}

/// Checks who a newcomer is and what it asks for.
fn check_hello(core: &Core, socket: &OwnedFd, hello: &[u8]) -> Result<ChannelShape, Refusal> {
    let shape = check_shape(hello, core.options.ring_bytes_max, core.options.window_max)?;
    let who = rustix::net::sockopt::socket_peercred(socket).map_err(|_| Refusal::Credentials)?;
    let ours = rustix::process::geteuid();
    if who.uid != ours && !who.uid.is_root() {
        return Err(Refusal::Credentials);
    }
    Ok(shape)
}

/// The channel that a hello asks for, if it is a hello and the channel within bounds.
pub(super) fn check_shape(
    hello: &[u8],
    ring_bytes_max: usize,
    window_max: usize,
) -> Result<ChannelShape, Refusal> {
    let hello = ShmHello::read_from_bytes(hello).map_err(|_| Refusal::NotBarn)?;
    if hello.magic != MAGIC {
        return Err(Refusal::NotBarn);
    }
    if hello.version.get() != VERSION {
        return Err(Refusal::Version);
    }
    let ring_bytes = match hello.ring_bytes.get() as usize {
        0 => RING_BYTES_DEFAULT,
        bytes => bytes,
    };
    let window = hello.window.get() as usize;
    if ring_bytes > ring_bytes_max || window > window_max {
        return Err(Refusal::Shape);
    }
    ChannelShape::new(ring_bytes, window).ok_or(Refusal::Shape)
}

/// A descriptor that stands for nothing.
fn spare() -> Option<OwnedFd> {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).ok()
}

/// One half of a channel.
fn half(bytes: usize, remote: Rights) -> RegionOptions {
    RegionOptions { bytes: bytes as u64, remote, huge: false }
}

fn welcome(core: &Core, status: u16, shape: Option<ChannelShape>, peer: PeerId) -> ShmWelcome {
    let (ring_bytes, window) = shape.map_or((0, 0), |shape| (shape.ring_bytes as u32, shape.window as u32));
    ShmWelcome {
        magic: MAGIC,
        version: VERSION.into(),
        status: status.into(),
        ring_bytes: ring_bytes.into(),
        window: window.into(),
        reserved: 0.into(),
        peer: peer.0.into(),
        node: core.node.into(),
    }
}

/// Sends the answer that waits for room in the client's socket, if one does. While it waits,
/// the socket is watched for room instead of for packets.
fn send_unsent(core: &Core, peer: &mut ShmPeer, port: u8, number: u64) -> Result<(), Errno> {
    let Some((answer, file)) = &mut peer.unsent else { return Ok(()) };
    let files: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
    let mut sent = control::send(peer.socket.as_fd(), answer.as_bytes(), &files);
    if sent == Err(Errno::TOOMANYREFS) {
        // Descriptors that other peers have not read are as many as this user may have on their
        // way: this peer cannot have its own now, and is told.
        let slot = answer.slot.get();
        let refused = refused(answer.id.get(), Outcome::NoDescriptor);
        (*answer, *file) = (refused, None);
        peer.close(slot);
        sent = control::send(peer.socket.as_fd(), refused.as_bytes(), &[]);
    }
    let watched = match sent {
        Ok(()) => {
            peer.unsent = None;
            if !std::mem::take(&mut peer.blocked) {
                return Ok(());
            }
            EventFlags::IN
        }
        Err(Errno::AGAIN) if !peer.blocked => {
            peer.blocked = true;
            EventFlags::OUT
        }
        Err(error) => return Err(error),
    };
    core.rewatch(&peer.socket, port, socket_token(number), watched | EventFlags::RDHUP)?;
    sent
}

/// An answer without a region.
fn refused(id: u64, outcome: Outcome) -> ShmOpened {
    ShmOpened {
        id: id.into(),
        bytes: 0.into(),
        slot: 0.into(),
        rights: 0.into(),
        outcome: (outcome as u32).into(),
        reserved: 0.into(),
    }
}

/// Opens a region for a peer: the answer, and the descriptor beside it.
fn answer_open(
    core: &Core,
    peer: &mut ShmPeer,
    open: &ShmOpen,
    rights: Rights,
) -> (ShmOpened, Option<OwnedFd>) {
    let region = RegionId(open.region.get());
    let mut answer = refused(open.id.get(), Outcome::Done);
    let mut file = None;
    let opened = match peer.open(&core.registry, region, rights) {
        Ok((slot, grant)) => match grant.region.descriptor(grant.rights) {
            Some(Ok(descriptor)) => {
                answer.bytes = grant.region.bytes().into();
                answer.slot = slot.into();
                answer.rights = grant.rights.to_bits().into();
                file = Some(descriptor);
                Ok(())
            }
            Some(Err(_)) => {
                peer.close(slot);
                Err(Outcome::NoDescriptor)
            }
            // No file is behind it: it cannot be shared this way.
            None => {
                peer.close(slot);
                Err(Outcome::NoSuchRegion)
            }
        },
        Err(outcome) => Err(outcome),
    };
    if let Err(outcome) = opened {
        answer.outcome = (outcome as u32).into();
    }
    (answer, file)
}

impl Port for ShmPort {
    fn event(&mut self, core: &mut Core, service: &mut dyn Service, token: u64, flags: EventFlags) {
        let number = token >> 1;
        if token == LISTENER {
            self.accept(core);
        } else if token == bell_token(number) {
            // A bell that was closed would be announced for ever, and the node could not sleep.
            if self.peers.get(number).is_some_and(|peer| !peer.rung()) {
                self.hung_up(core, service, number);
            }
        } else if self.peers.get(number).is_some() {
            if flags.intersects(EventFlags::IN | EventFlags::OUT) {
                self.take_packets(core, service, number);
            }
            if flags.intersects(EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR) {
                self.hung_up(core, service, number);
            }
        } else {
            self.greet(core, service, number);
        }
    }

    fn sweep(&mut self, core: &mut Core, service: &mut dyn Service) -> usize {
        let (mut work, mut bytes_in, mut bytes_out, mut rings) = (0, 0, 0, 0);
        let mut expelled = Vec::new();
        self.sweeps = self.sweeps.wrapping_add(1);
        let all = self.thorough || self.sweeps.is_multiple_of(QUIET_EVERY);
        for (number, peer) in self.peers.iter_mut() {
            if peer.quiet > QUIET_AFTER && !all {
                continue;
            }
            match peer.serve(service, &core.outbox, core.options.backlog_bytes_max) {
                Ok(0) => peer.quiet = peer.quiet.saturating_add(1),
                Ok(done) => {
                    peer.quiet = 0;
                    work += done;
                    let (came, went, rung) = peer.take_counts();
                    (bytes_in, bytes_out, rings) = (bytes_in + came, bytes_out + went, rings + rung);
                }
                Err(Expelled::Garbage | Expelled::Slow) => expelled.push(number),
            }
        }
        if work > 0 {
            // Once for all, as over tcp.
            count(&core.stats.messages, work as u64);
            count(&core.stats.shm.bytes_in, bytes_in);
            count(&core.stats.shm.bytes_out, bytes_out);
            count(&core.stats.rings, rings);
        }
        for number in expelled {
            self.expel(core, service, number);
        }
        work
    }

    fn needs_events(&self) -> bool {
        false
    }

    fn before_sleep(&mut self, _core: &mut Core) {
        self.thorough = true;
        say_asleep(self.node_page.words(), 0, true);
    }

    fn after_sleep(&mut self, _core: &mut Core) {
        self.thorough = false;
        say_asleep(self.node_page.words(), 0, false);
    }

    fn send(&mut self, _core: &mut Core, outgoing: &Outgoing) -> bool {
        let (Outgoing::Reply { peer, .. } | Outgoing::Message { peer, .. }) = outgoing;
        let Some(peer) = self.numbers.get(peer).and_then(|&number| self.peers.get_mut(number)) else {
            return false;
        };
        match outgoing {
            Outgoing::Reply { id, status, body, .. } => peer.reply(*id, *status, body),
            Outgoing::Message { body, .. } => {
                self.pushed += 1;
                peer.push(self.pushed, body);
            }
        }
        peer.wake_client();
        true
    }
}

impl Drop for ShmPort {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.path);
    }
}
