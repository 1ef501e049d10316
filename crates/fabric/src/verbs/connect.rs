//! How a client's stream to a node becomes a verbs connection: each end tells the other its queue
//! pairs and the memory for its messages, and both connect.

use super::channel::Channel;
use super::choose::{self, Path};
use super::client::{State, VerbsClient, first_packet, operations_pair};
use super::operations::{Operations, STAGING_BYTES};
use super::sys::{Access, CompletionQueue, MemoryRegion, ProtectionDomain, Remote};
use crate::VerbsError;
use crate::connection::ConnectOptions;
use crate::error::ConnectError;
use crate::link::Link;
use crate::region::Words;
use crate::tcp;
use barn_layout::channel::{RING_BYTES_MAX, RING_BYTES_MIN};
use barn_layout::frame::{Frame, FrameHeader, FrameKind, Outcome, QueuePairsBody};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use zerocopy::{FromBytes, IntoBytes};

/// Entries of a client's completion queue: everything that its queue pairs hold can be in it.
const ENTRIES: usize = 1024;

/// Connects to `host`, which is HOST:PORT of the node's tcp listener.
pub(crate) fn connect(host: &str, options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    let ring_fits = (RING_BYTES_MIN..=RING_BYTES_MAX).contains(&options.ring_bytes);
    if !ring_fits || !options.ring_bytes.is_power_of_two() {
        return Err(ConnectError::Refused { refusal: barn_layout::handshake::Refusal::Shape, version: 0 });
    }
    let deadline = Instant::now() + options.deadline;
    let (stream, peer) = tcp::dial("verbs", host, options, deadline)?;
    let local = stream.local_addr()?.ip().to_canonical();
    let (device, path) = choose::open(options.device.as_ref(), local)?;
    let domain = ProtectionDomain::new(&device)?;
    let queue = CompletionQueue::new(&device, ENTRIES.min(device.entries_max))?;
    let pair = operations_pair(&domain, &queue, &path)?;
    let mut channel = Channel::new(&domain, &queue, (path.port, path.gid.index), 0, options.ring_bytes, 0)?;
    let packets = (first_packet()?, first_packet()?);
    let ours = QueuePairsBody {
        operations_pair: pair.number().into(),
        operations_packet: packets.0.into(),
        messages_pair: channel.pair.number().into(),
        messages_packet: packets.1.into(),
        memory_address: channel.inbound.address().into(),
        memory_key: channel.inbound.remote_key().into(),
        ring_bytes: (options.ring_bytes as u32).into(),
        ..end(&path, device.reads_max)
    };
    let theirs = exchange(&stream, &ours, deadline)?;
    let remote = remote(&ours, &theirs, theirs.operations_pair.get(), theirs.operations_packet.get());
    pair.connect(Some(&remote), packets.0)?;
    let messages =
        Remote { queue_pair: theirs.messages_pair.get(), packet: theirs.messages_packet.get(), ..remote };
    channel.pair.connect(Some(&messages), packets.1)?;
    channel.set_remote(theirs.memory_address.get(), theirs.memory_key.get());
    let staging = MemoryRegion::register(&domain, &Words::private(STAGING_BYTES), Access::LOCAL)?;
    let control = tcp::start(stream, peer)?;
    let client = Arc::new_cyclic(|me| VerbsClient {
        me: me.clone(),
        peer,
        control,
        ring_bytes: options.ring_bytes,
        open: AtomicBool::new(true),
        swept: AtomicU64::new(0),
        brought: AtomicU64::new(0),
        queue,
        domain,
        path,
        remote,
        stream_watch: OnceLock::new(),
        state: Mutex::new(State::new(Operations::new(pair, staging), channel)),
    });
    client.watch_stream()?;
    Ok(client)
}

/// What an end says of itself, but for its queue pairs.
pub(super) fn end(path: &Path, reads: u8) -> QueuePairsBody {
    QueuePairsBody {
        gid: path.gid.bytes,
        operations_pair: 0.into(),
        operations_packet: 0.into(),
        messages_pair: 0.into(),
        messages_packet: 0.into(),
        requests_pair: 0.into(),
        requests_packet: 0.into(),
        datagrams_pair: 0.into(),
        datagrams_key: 0.into(),
        memory_address: 0.into(),
        memory_key: 0.into(),
        ring_bytes: 0.into(),
        window: 0.into(),
        lid: path.lid.into(),
        mtu: path.mtu,
        reads,
        reserved: 0.into(),
    }
}

/// The other end of a queue pair: what both ends can do.
pub(super) fn remote(ours: &QueuePairsBody, theirs: &QueuePairsBody, queue_pair: u32, packet: u32) -> Remote {
    Remote {
        queue_pair,
        packet: packet & 0xff_ffff,
        gid: theirs.gid,
        lid: theirs.lid.get(),
        mtu: ours.mtu.min(theirs.mtu).clamp(1, 5),
        reads: ours.reads.min(theirs.reads).max(1),
    }
}

/// Asks the node for its end.
fn exchange(
    mut stream: &TcpStream,
    ours: &QueuePairsBody,
    deadline: Instant,
) -> Result<QueuePairsBody, ConnectError> {
    let frame =
        Frame { kind: FrameKind::Attach, status: 0, method: 0, id: 0, body_bytes: QueuePairsBody::BYTES };
    let mut asked = frame.header().as_bytes().to_vec();
    asked.extend_from_slice(ours.as_bytes());
    stream.write_all(&asked)?;
    let mut header = [0; FrameHeader::BYTES];
    tcp::exactly(stream, &mut header, deadline)?;
    let header = FrameHeader::ref_from_bytes(&header).map_err(|_| ConnectError::Protocol)?;
    let answer = Frame::check(header).map_err(|_| ConnectError::Protocol)?;
    if answer.kind != FrameKind::Attached {
        return Err(ConnectError::Protocol);
    }
    match Outcome::from_bits(answer.status) {
        Some(Outcome::Done) => {}
        Some(Outcome::NoVerbs) => return Err(VerbsError::NotOffered.into()),
        _ => {
            let refusal = barn_layout::handshake::Refusal::NoMemory;
            return Err(ConnectError::Refused { refusal, version: barn_layout::handshake::VERSION });
        }
    }
    let mut body = [0; QueuePairsBody::BYTES];
    if answer.body_bytes != body.len() {
        return Err(ConnectError::Protocol);
    }
    tcp::exactly(stream, &mut body, deadline)?;
    QueuePairsBody::read_from_bytes(&body).map_err(|_| ConnectError::Protocol)
}
