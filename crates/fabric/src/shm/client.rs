//! The client's side of a shm connection.

use super::control;
use super::lane::RequestLane;
use super::{ring_if_asleep, say_asleep, silence};
use crate::connection::{ConnectOptions, Messaging};
use crate::drive::reactor::{Source, Watch, reactor};
use crate::drive::{self, Sleeper};
use crate::error::{CallError, ConnectError, OpenError, OperationError};
use crate::link::{Guarantees, Link, Opened, Place, Wait};
use crate::messaging::Corrupt;
use crate::messaging::ring::{self, Progress, RingReader, RingWriter, piece_bytes_max};
use crate::region::{Rights, Words, map_shared};
use crate::registry::PeerId;
use crate::slots::{Slots, Ticket};
use crate::verb::Verb;
use barn_layout::RegionId;
use barn_layout::channel::{CONTROL_BYTES, ChannelShape, WINDOW_DEFAULT};
use barn_layout::frame::Outcome;
use barn_layout::handshake::{MAGIC, Refusal, ShmHello, ShmOpen, ShmOpened, ShmWelcome, VERSION};
use barn_layout::limits::{MESSAGE_BYTES_MAX, WORD_BYTES};
use barn_layout::message::{Kind, MessageHeader, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Messages from the node that nobody has received; past that the connection is closed.
const INBOX_MAX: usize = 4096;

/// Where the client says that it sleeps: `InboundControl::asleep`.
const CLIENT_ASLEEP: u64 = 64;

/// Connects to the node that listens at `path`.
pub(crate) fn connect(path: &Path, options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    let address = SocketAddrUnix::new(path)
        .map_err(|_| ConnectError::Address { address: format!("shm:{}", path.display()) })?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect_to(&socket, &address).map_err(|cause| ConnectError::NoNode {
        address: format!("shm:{}", path.display()),
        cause: cause.into(),
    })?;
    let window = match options.messaging {
        Messaging::Ring => 0,
        Messaging::RequestRegion { window: 0 } => WINDOW_DEFAULT,
        Messaging::RequestRegion { window } => window,
    };
    let hello = ShmHello {
        magic: MAGIC,
        version: VERSION.into(),
        reserved: 0.into(),
        ring_bytes: (options.ring_bytes as u32).into(),
        window: (window as u32).into(),
        reserved_1: 0.into(),
    };
    match control::send(socket.as_fd(), hello.as_bytes(), &[]) {
        // A node that refuses at once may have closed already; what it said still stands.
        Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {}
        Err(error) => return Err(error.into()),
    }
    let packet = receive_within(&socket, options.deadline)?;
    let welcome = ShmWelcome::read_from_bytes(packet.bytes()).map_err(|_| ConnectError::Protocol)?;
    if welcome.magic != MAGIC {
        return Err(ConnectError::Protocol);
    }
    if let Some(refusal) = Refusal::from_bits(welcome.status.get()) {
        return Err(ConnectError::Refused { refusal, version: welcome.version.get() });
    }
    let shape = ChannelShape::new(welcome.ring_bytes.get() as usize, welcome.window.get() as usize)
        .ok_or(ConnectError::Protocol)?;
    let [inbound, outbound, node_page, node_bell, bell]: [OwnedFd; 5] =
        packet.descriptors.try_into().map_err(|_| ConnectError::Protocol)?;
    let map = |file: &OwnedFd, bytes: usize, writable| {
        map_shared(file.as_fd(), bytes as u64, writable).map_err(ConnectError::Map)
    };
    let inbound = map(&inbound, shape.inbound_bytes(), true)?;
    let outbound = map(&outbound, shape.outbound_bytes(), false)?;
    let node_page = map(&node_page, CONTROL_BYTES, false)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    rustix::io::ioctl_fionbio(&bell, true)?;

    let request_ring =
        ring::Place { words: inbound.clone(), base: shape.inbound_ring() as u64, bytes: shape.ring_bytes };
    let reply_ring =
        ring::Place { words: outbound.clone(), base: shape.outbound_ring() as u64, bytes: shape.ring_bytes };
    let state = State {
        writer: RingWriter::new(request_ring, Progress { words: outbound.clone(), at: 0 }),
        reader: RingReader::new(reply_ring, Progress { words: inbound.clone(), at: 0 }),
        lane: (shape.window > 0).then(|| RequestLane::new(shape)),
        slots: Slots::default(),
        inbox: VecDeque::new(),
        receivers: Vec::new(),
        pushed: HashMap::new(),
        buffer: Vec::new(),
        last_sweep: 0,
        unrung: false,
    };
    let client = Arc::new_cyclic(|me| ShmClient {
        me: me.clone(),
        peer: PeerId(welcome.peer.get()),
        shape,
        socket: Arc::new(socket),
        inbound,
        outbound,
        node_page,
        node_bell,
        bell: Arc::new(bell),
        open: AtomicBool::new(true),
        state: Mutex::new(state),
        control: Mutex::default(),
        socket_watch: OnceLock::new(),
        bell_watch: OnceLock::new(),
    });
    let source: Weak<dyn Source> = client.me.clone() as Weak<dyn Source>;
    let watch = reactor()?.watch(client.socket.clone(), source, SOCKET, false)?;
    let _ = client.socket_watch.set(watch);
    Ok(client)
}

/// Waits for one packet, but not for ever.
fn receive_within(socket: &OwnedFd, limit: Duration) -> Result<control::Packet, ConnectError> {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    let mut watched = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    match poll(&mut watched, Some(&timeout))? {
        0 => Err(ConnectError::Deadline),
        _ => control::receive(socket.as_fd())?.ok_or(ConnectError::Protocol),
    }
}

/// Roles of the descriptors that the reactor watches.
const SOCKET: u8 = 0;
const BELL: u8 = 1;

/// A connection, as its client holds it.
struct ShmClient {
    me: Weak<Self>,
    peer: PeerId,
    shape: ChannelShape,
    socket: Arc<OwnedFd>,
    inbound: Words,
    outbound: Words,
    node_page: Words,
    node_bell: OwnedFd,
    bell: Arc<OwnedFd>,
    open: AtomicBool,
    state: Mutex<State>,
    control: Mutex<Control>,
    socket_watch: OnceLock<Watch>,
    bell_watch: OnceLock<Watch>,
}

struct State {
    writer: RingWriter,
    reader: RingReader,
    lane: Option<RequestLane>,
    slots: Slots,
    inbox: VecDeque<Vec<u8>>,
    receivers: Vec<Waker>,
    /// Messages from the node of which only some pieces have come.
    pushed: HashMap<u64, Vec<u8>>,
    buffer: Vec<u8>,
    last_sweep: u64,
    /// Something was posted since the node's sleep was last looked at.
    unrung: bool,
}

/// Regions that are being opened.
#[derive(Default)]
struct Control {
    next: u64,
    opening: HashMap<u64, Opening>,
}

#[derive(Default)]
struct Opening {
    waker: Option<Waker>,
    result: Option<Result<Opened, OpenError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl State {
    /// Takes everything that has come; says how much.
    fn take(&mut self, client: &ShmClient) -> Result<usize, Corrupt> {
        let mut taken = 0;
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(lane) = &mut self.lane {
            let slots = &mut self.slots;
            taken += lane.collect(&client.outbound, &mut buffer, |header, body| {
                let ticket = Ticket(header.id.get());
                if let Some(into) = slots.partial(ticket) {
                    into.clear();
                    into.extend_from_slice(body);
                    slots.complete(ticket, header.status);
                }
            })?;
        }
        let reported = self.reader.reported();
        while self.reader.has_next() {
            buffer.clear();
            let Some(header) = self.reader.pop(&mut buffer)? else { break };
            self.arrived(&header, &buffer)?;
            taken += 1;
        }
        self.buffer = buffer;
        // The node may be waiting for the room that has just been reported.
        self.unrung |= self.reader.reported() != reported;
        Ok(taken)
    }

    /// A piece of a reply, or of a message that the node sent by itself.
    fn arrived(&mut self, header: &MessageHeader, body: &[u8]) -> Result<(), Corrupt> {
        let (total, offset) = (header.total_bytes.get() as usize, header.piece_offset.get() as usize);
        if total > MESSAGE_BYTES_MAX || offset + body.len() > total {
            return Err(Corrupt);
        }
        let whole = offset + body.len() == total;
        let ticket = Ticket(header.id.get());
        match Kind::from_bits(header.kind) {
            Some(Kind::Reply) => {
                if let Some(into) = self.slots.partial(ticket) {
                    if into.len() != offset {
                        return Err(Corrupt);
                    }
                    into.extend_from_slice(body);
                    if whole {
                        self.slots.complete(ticket, header.status);
                    }
                }
                if whole && let Some(lane) = &mut self.lane {
                    lane.answered_elsewhere(ticket);
                }
                Ok(())
            }
            Some(Kind::OneWay) => {
                let into = self.pushed.entry(ticket.0).or_default();
                if into.len() != offset || self.inbox.len() >= INBOX_MAX {
                    return Err(Corrupt);
                }
                into.extend_from_slice(body);
                if whole && let Some(message) = self.pushed.remove(&ticket.0) {
                    self.inbox.push_back(message);
                    self.receivers.drain(..).for_each(Waker::wake);
                }
                Ok(())
            }
            Some(Kind::Request) | None => Err(Corrupt),
        }
    }

    /// Puts as much of a message into the ring as fits, from where `wait` says; whether all of
    /// it is in.
    fn post(&mut self, wait: &mut Wait, header: MessageHeader, body: &[u8], ring_bytes: usize) -> bool {
        let piece_max = piece_bytes_max(ring_bytes);
        loop {
            let piece = &body[wait.sent..body.len().min(wait.sent + piece_max)];
            let header = MessageHeader { piece_offset: (wait.sent as u32).into(), ..header };
            if self.writer.push(&header, piece).is_err() {
                return false;
            }
            self.unrung = true;
            wait.sent += piece.len();
            if wait.sent == body.len() {
                return true;
            }
        }
    }
}

impl ShmClient {
    /// Looks for what has come, at most once a sweep, and wakes the node if something was
    /// posted for it.
    fn drive(&self, state: &mut State) {
        let sweep = drive::sweep();
        if sweep != 0 && sweep == state.last_sweep {
            return;
        }
        state.last_sweep = sweep;
        if state.take(self).is_err() {
            self.close(state);
        }
        if std::mem::take(&mut state.unrung) {
            ring_if_asleep(&self.node_page, 0, &self.node_bell);
        }
    }

    /// What a pending operation does next, once it has left its waker where it must: say what to
    /// sleep on, or leave the rest to the reactor.
    fn wait_for_more(&self, state: &mut State, cx: &mut Context<'_>, wait: &Wait) {
        if drive::in_place() && !drive::parking() {
            return;
        }
        say_asleep(&self.inbound, CLIENT_ASLEEP, true);
        state.unrung = true;
        // Whoever spoke before we said that we sleep has not rung: look once more.
        let found = state.take(self);
        if found.is_err() {
            self.close(state);
        }
        let again = found != Ok(0);
        if std::mem::take(&mut state.unrung) {
            ring_if_asleep(&self.node_page, 0, &self.node_bell);
        }
        if drive::in_place() {
            let sleeper = self.me.upgrade().map(|me| me as Arc<dyn Sleeper>);
            drive::park_on(sleeper.filter(|_| !again), Some(wait.left(Instant::now())));
        } else if again {
            cx.waker().wake_by_ref();
        }
        self.watch_bell();
    }

    /// Has the reactor take what comes while only a runtime's tasks wait for it.
    fn watch_bell(&self) {
        if drive::in_place() {
            return;
        }
        if self.bell_watch.get().is_none() {
            let source: Weak<dyn Source> = self.me.clone() as Weak<dyn Source>;
            let watch = reactor().and_then(|reactor| reactor.watch(self.bell.clone(), source, BELL, true));
            if let Ok(watch) = watch {
                let _ = self.bell_watch.set(watch);
            }
        }
        if let Some(watch) = self.bell_watch.get() {
            let _ = watch.arm();
        }
    }

    fn close(&self, state: &mut State) {
        // SYNC: Release, pairs with the Acquire load in `is_open`.
        self.open.store(false, Ordering::Release);
        state.slots.wake_all();
        state.receivers.drain(..).for_each(Waker::wake);
        // Wakes a thread that sleeps on this connection.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes the node's packets from the socket; notices its end.
    fn take_control(&self) {
        loop {
            match control::receive(self.socket.as_fd()) {
                Ok(Some(packet)) => self.opened(packet),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // Replies that the node gave before it died are still in the ring; a poll takes them
        // before it looks whether the node is there.
        let mut state = lock(&self.state);
        let _ = state.take(self);
        self.close(&mut state);
        drop(state);
        for opening in lock(&self.control).opening.values_mut() {
            opening.result.get_or_insert(Err(OpenError::PeerGone));
            opening.waker.take().into_iter().for_each(Waker::wake);
        }
        if let Some(watch) = self.socket_watch.get() {
            watch.stop();
        }
    }

    fn opened(&self, packet: control::Packet) {
        let Ok(opened) = ShmOpened::read_from_bytes(packet.bytes()) else { return };
        let file = packet.descriptors.into_iter().next();
        let mut control = lock(&self.control);
        let Some(opening) = control.opening.get_mut(&opened.id.get()) else { return };
        opening.result = Some(self.map(&opened, file));
        opening.waker.take().into_iter().for_each(Waker::wake);
    }

    fn map(&self, opened: &ShmOpened, file: Option<OwnedFd>) -> Result<Opened, OpenError> {
        let rights = Rights::from_bits(opened.rights.get());
        match Outcome::from_bits(opened.outcome.get() as u8) {
            Some(Outcome::Done) => {}
            Some(Outcome::NoSuchRegion) => return Err(OpenError::NoSuchRegion(RegionId(opened.slot.get()))),
            Some(Outcome::NoRight) => return Err(OpenError::NoRight { asked: rights }),
            Some(Outcome::TooManyRegions) => return Err(OpenError::TooManyRegions),
            _ => return Err(OpenError::Protocol),
        }
        let file = file.ok_or(OpenError::Protocol)?;
        let words = map_shared(file.as_fd(), opened.bytes.get(), rights.changes()).map_err(OpenError::Map)?;
        let grant = (self.shape.grants() + opened.slot.get() as usize * WORD_BYTES) as u64;
        if grant + WORD_BYTES as u64 > self.shape.outbound_ring() as u64 {
            return Err(OpenError::Protocol);
        }
        let place = Place::Mapped { words, grants: self.outbound.clone(), grant };
        Ok(Opened { bytes: opened.bytes.get(), rights, place })
    }
}

impl Source for ShmClient {
    fn ready(&self, role: u8) {
        if role == SOCKET {
            self.take_control();
            return;
        }
        silence(&self.bell);
        let mut state = lock(&self.state);
        self.drive(&mut state);
        if state.slots.sleeping() > 0 || !state.receivers.is_empty() {
            say_asleep(&self.inbound, CLIENT_ASLEEP, true);
            self.drive(&mut state);
            self.watch_bell();
        } else {
            say_asleep(&self.inbound, CLIENT_ASLEEP, false);
        }
    }
}

impl Sleeper for ShmClient {
    fn descriptor(&self) -> &OwnedFd {
        &self.bell
    }

    fn awake(&self) {
        let state = lock(&self.state);
        silence(&self.bell);
        let others_sleep = state.slots.sleeping() > 0 || !state.receivers.is_empty();
        say_asleep(&self.inbound, CLIENT_ASLEEP, others_sleep);
    }
}

impl Link for ShmClient {
    fn guarantees(&self) -> Guarantees {
        Guarantees::BY_CPU
    }

    fn transport(&self) -> &'static str {
        "shm"
    }

    fn peer(&self) -> PeerId {
        self.peer
    }

    #[inline]
    fn is_open(&self) -> bool {
        // SYNC: Acquire, pairs with the Release store in `close`.
        self.open.load(Ordering::Acquire)
    }

    fn poll_open(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        region: RegionId,
        rights: Rights,
    ) -> Poll<Result<Opened, OpenError>> {
        if !self.is_open() {
            return Poll::Ready(Err(OpenError::PeerGone));
        }
        let mut control = lock(&self.control);
        let id = match wait.ticket {
            Some(ticket) => ticket.0,
            None => {
                control.next += 1;
                let id = control.next;
                let asked =
                    ShmOpen { id: id.into(), region: region.0.into(), rights: rights.to_bits().into() };
                match control::send(self.socket.as_fd(), asked.as_bytes(), &[]) {
                    Ok(()) => {}
                    // The node is behind with its packets: ask again at the next poll.
                    Err(Errno::AGAIN | Errno::INTR) => {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Err(_) => return Poll::Ready(Err(OpenError::PeerGone)),
                }
                control.opening.insert(id, Opening::default());
                wait.ticket = Some(Ticket(OPENING | id));
                id
            }
        } & !OPENING;
        let Some(opening) = control.opening.get_mut(&id) else {
            return Poll::Ready(Err(OpenError::Protocol));
        };
        if let Some(result) = opening.result.take() {
            control.opening.remove(&id);
            wait.ticket = None;
            return Poll::Ready(match result {
                Err(OpenError::NoSuchRegion(_)) => Err(OpenError::NoSuchRegion(region)),
                Err(OpenError::NoRight { .. }) => Err(OpenError::NoRight { asked: rights }),
                other => other,
            });
        }
        if wait.is_over(cx) {
            return Poll::Ready(Err(OpenError::Deadline));
        }
        opening.waker = Some(cx.waker().clone());
        if drive::parking() {
            let sleeper = self.me.upgrade().map(|me| me as Arc<dyn Sleeper>);
            drive::park_on(sleeper, Some(wait.left(Instant::now())));
        }
        Poll::Pending
    }

    fn close_region(&self, place: &Place) {
        if let Place::Mapped { grant, .. } = place {
            let slot = (*grant as usize - self.shape.grants()) / WORD_BYTES;
            let close = ShmOpen { id: 0.into(), region: (slot as u32).into(), rights: 0.into() };
            // A node that is gone needs no telling; one that is behind frees it with the peer.
            let _ = control::send(self.socket.as_fd(), close.as_bytes(), &[]);
        }
    }

    fn poll_operation(
        &self,
        _: &mut Context<'_>,
        _: &mut Wait,
        _: u64,
        _: Rights,
        _: &mut Verb<'_>,
    ) -> Poll<Result<u64, OperationError>> {
        // Every region of a shm connection is mapped: its operations never come here.
        Poll::Ready(Err(OperationError::BadKey))
    }

    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        method: u16,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        if request.len() > MESSAGE_BYTES_MAX {
            return Poll::Ready(Err(CallError::TooLong { bytes: request.len() }));
        }
        let mut state = lock(&self.state);
        let state = &mut *state;
        if !wait.posted {
            if wait.ticket.is_none() {
                wait.ticket = state.slots.take();
            }
            if let Some(ticket) = wait.ticket {
                let header = header(Kind::Request, ticket, method, request.len());
                wait.posted = match &mut state.lane {
                    Some(lane) if lane.takes(request.len()) => {
                        lane.post(&self.inbound, ticket, &header, request)
                    }
                    _ => state.post(wait, header, request, self.shape.ring_bytes),
                };
                state.unrung |= wait.posted;
                if wait.posted && drive::in_place() && !drive::parking() {
                    // Nothing can have come yet; the next poll looks.
                    return Poll::Pending;
                }
            }
        }
        self.drive(state);
        if let Some(ticket) = wait.ticket
            && let Some(status) = state.slots.collect(ticket, reply)
        {
            wait.ticket = None;
            return Poll::Ready(answer(status, method, reply));
        }
        if !self.is_open() {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::PeerGone)));
        }
        if wait.is_over(cx) {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::Deadline)));
        }
        self.wake_for(state, cx, wait);
        self.wait_for_more(state, cx, wait);
        Poll::Pending
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        message: &[u8],
    ) -> Poll<Result<(), CallError>> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Poll::Ready(Err(CallError::TooLong { bytes: message.len() }));
        }
        let mut state = lock(&self.state);
        let state = &mut *state;
        if !self.is_open() {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::PeerGone)));
        }
        if wait.ticket.is_none() {
            wait.ticket = state.slots.take();
        }
        if let Some(ticket) = wait.ticket {
            let header = header(Kind::OneWay, ticket, 0, message.len());
            if state.post(wait, header, message, self.shape.ring_bytes) {
                state.slots.abandon(ticket);
                wait.ticket = None;
                if std::mem::take(&mut state.unrung) {
                    ring_if_asleep(&self.node_page, 0, &self.node_bell);
                }
                return Poll::Ready(Ok(()));
            }
        }
        self.drive(state);
        if wait.is_over(cx) {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::Deadline)));
        }
        self.wake_for(state, cx, wait);
        self.wait_for_more(state, cx, wait);
        Poll::Pending
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        into: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        self.drive(state);
        if let Some(message) = state.inbox.pop_front() {
            *into = message;
            return Poll::Ready(Ok(()));
        }
        if !self.is_open() {
            return Poll::Ready(Err(CallError::PeerGone));
        }
        if wait.is_over(cx) {
            return Poll::Ready(Err(CallError::Deadline));
        }
        if !drive::in_place() || drive::parking() {
            state.receivers.push(cx.waker().clone());
        }
        self.wait_for_more(state, cx, wait);
        Poll::Pending
    }

    fn abandon(&self, ticket: Ticket) {
        if ticket.0 & OPENING != 0 {
            lock(&self.control).opening.remove(&(ticket.0 & !OPENING));
        } else {
            lock(&self.state).slots.abandon(ticket);
        }
    }
}

/// Marks the ticket of a region that is being opened.
const OPENING: u64 = 1 << 63;

impl ShmClient {
    /// Leaves the waker of an operation that nobody drives, or whose driver is about to sleep.
    fn wake_for(&self, state: &mut State, cx: &Context<'_>, wait: &Wait) {
        if drive::in_place() && !drive::parking() {
            return;
        }
        match wait.ticket {
            Some(ticket) => state.slots.wake_when_done(ticket, cx.waker()),
            None => state.slots.queue(cx.waker()),
        }
    }

    fn give_up(&self, state: &mut State, wait: &mut Wait, error: CallError) -> CallError {
        if let Some(ticket) = wait.ticket.take() {
            state.slots.abandon(ticket);
        }
        error
    }
}

fn header(kind: Kind, ticket: Ticket, method: u16, bytes: usize) -> MessageHeader {
    MessageHeader {
        id: ticket.0.into(),
        total_bytes: (bytes as u32).into(),
        piece_offset: 0.into(),
        method: method.into(),
        kind: kind as u8,
        status: 0,
        reserved: 0.into(),
    }
}

/// What a reply's status means.
pub(crate) fn answer(status: u8, method: u16, reply: &[u8]) -> Result<(), CallError> {
    match Status::from_bits(status) {
        Some(Status::Done) => Ok(()),
        Some(Status::UnknownMethod) => Err(CallError::UnknownMethod { method }),
        Some(Status::Refused) => Err(CallError::Refused(String::from_utf8_lossy(reply).into_owned())),
        Some(Status::Busy) => Err(CallError::Busy),
        None => Err(CallError::Protocol),
    }
}
