//! A client's first steps: finds the node, says hello, maps what it is handed.

use super::client::{SOCKET, ShmClient, State};
use super::control;
use super::lane::RequestLane;
use crate::connection::{ConnectOptions, Messaging};
use crate::drive::reactor::{Source, reactor};
use crate::error::ConnectError;
use crate::link::Link;
use crate::messaging::mail::Mail;
use crate::messaging::ring::{self, Progress, RingReader, RingWriter};
use crate::region::map_shared;
use crate::registry::PeerId;
use barn_layout::channel::{CONTROL_BYTES, ChannelShape, WINDOW_DEFAULT};
use barn_layout::handshake::{MAGIC, Refusal, ShmHello, ShmWelcome, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Connects to the node that listens at `path`.
pub(crate) fn connect(path: &Path, options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    let address = SocketAddrUnix::new(path)
        .map_err(|_| ConnectError::Address { address: format!("shm:{}", path.display()) })?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // A node that hangs takes nobody in: neither connecting nor the first packet waits for ever.
    set_socket_timeout(&socket, Timeout::Send, Some(options.deadline.max(Duration::from_millis(1))))?;
    connect_to(&socket, &address).map_err(|cause| match cause {
        Errno::AGAIN => ConnectError::Deadline,
        cause => ConnectError::NoNode { address: format!("shm:{}", path.display()), cause: cause.into() },
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
        Err(Errno::AGAIN) => return Err(ConnectError::Deadline),
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
    let [inbound, outbound, node_page, bell]: [OwnedFd; 4] =
        packet.descriptors.try_into().map_err(|_| ConnectError::Protocol)?;
    let map = |file: &OwnedFd, bytes: usize, writable| {
        map_shared(file.as_fd(), bytes as u64, writable).map_err(ConnectError::Map)
    };
    let inbound = map(&inbound, shape.inbound_bytes(), true)?;
    let outbound = map(&outbound, shape.outbound_bytes(), false)?;
    let node_page = map(&node_page, CONTROL_BYTES, false)?;
    rustix::io::ioctl_fionbio(&socket, true)?;

    let request_ring =
        ring::Place { words: inbound.clone(), base: shape.inbound_ring() as u64, bytes: shape.ring_bytes };
    let reply_ring =
        ring::Place { words: outbound.clone(), base: shape.outbound_ring() as u64, bytes: shape.ring_bytes };
    let state = State {
        mail: Mail::new(
            RingWriter::new(request_ring, Progress { words: outbound.clone(), at: 0 }),
            RingReader::new(reply_ring, Progress { words: inbound.clone(), at: 0 }),
        ),
        lane: (shape.window > 0).then(|| RequestLane::new(shape)),
        buffer: Vec::new(),
        asleep: false,
    };
    let client = Arc::new_cyclic(|me| ShmClient {
        me: me.clone(),
        peer: PeerId(welcome.peer.get()),
        shape,
        socket: Arc::new(socket),
        inbound,
        outbound,
        node_page,
        bell: Arc::new(bell),
        open: Arc::new(AtomicBool::new(true)),
        swept: AtomicU64::new(0),
        brought: AtomicU64::new(0),
        long_answers: AtomicBool::new(false),
        next: Default::default(),
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
