//! A hostile client: the handshake and the channel without the library's manners.

use super::{PATIENCE, address};
use barn_fabric::messaging::ring::{Place, Progress, RingReader, RingWriter};
use barn_fabric::region::{Ordering, Words, map_shared};
use barn_layout::channel::{CONTROL_BYTES, ChannelShape};
use barn_layout::handshake::{MAGIC, ShmHello, ShmOpen, ShmOpened, ShmWelcome, VERSION};
use barn_layout::message::{Arrival, Kind, MessageHeader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};
use std::mem::MaybeUninit;
use std::path::Path;
use zerocopy::{FromBytes, IntoBytes};

/// Descriptors that a hostile packet carries at most.
pub const DESCRIPTORS_MAX: usize = 64;

/// A hello that a node takes, with the smallest rings.
pub fn hello() -> ShmHello {
    ShmHello {
        magic: MAGIC,
        version: VERSION.into(),
        reserved: 0.into(),
        ring_bytes: 4096.into(),
        window: 4.into(),
        reserved_1: 0.into(),
    }
}

/// A connected socket over which nothing has been said.
pub fn dial(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .expect("a socket");
    let to = SocketAddrUnix::new(path).expect("an address");
    rustix::net::connect(&socket, &to).unwrap_or_else(|error| panic!("{}: {error}", address(path)));
    socket
}

/// Sends a packet, without waiting for room.
pub fn send(socket: &OwnedFd, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(descriptors.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, flags).map(|_| ())
}

/// The next packet with its descriptors; `None` when the node has hung up.
pub fn receive(socket: &OwnedFd) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let mut watched = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    assert_ne!(poll(&mut watched, Some(&limit)), Ok(0), "the node said nothing for too long");
    let mut bytes = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    let descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let descriptors = descriptors.collect();
    match received {
        Ok(received) if received.bytes > 0 => Some((bytes[..received.bytes].to_vec(), descriptors)),
        Ok(_) | Err(Errno::CONNRESET) => None,
        Err(error) => panic!("receiving failed: {error}"),
    }
}

/// Whether the node has hung up, as far as can be seen now. Answers are thrown away.
pub fn is_gone(socket: &OwnedFd) -> bool {
    loop {
        let mut bytes = [0; 256];
        match rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

/// Waits until the node hangs up. Answers are thrown away.
pub fn until_gone(what: &str, socket: &OwnedFd) {
    super::until(&format!("the node expels whoever {what}"), || is_gone(socket));
}

/// A client that was let in.
pub struct Raw {
    pub socket: OwnedFd,
    pub shape: ChannelShape,
    /// What was handed over: the inbound half, the outbound half, the node page.
    pub files: Vec<OwnedFd>,
    pub bell: Option<OwnedFd>,
    pub inbound: Words,
    pub outbound: Words,
    pub node_page: Words,
    pub writer: RingWriter,
    pub reader: RingReader,
}

impl Raw {
    pub fn join(path: &Path) -> Self {
        Self::join_as(path, &hello())
    }

    pub fn join_as(path: &Path, hello: &ShmHello) -> Self {
        let socket = dial(path);
        send(&socket, hello.as_bytes(), &[]).expect("the node listens");
        let (packet, mut files) = receive(&socket).expect("the node answers");
        let welcome = ShmWelcome::read_from_bytes(&packet).expect("a welcome");
        assert_eq!(welcome.status.get(), 0, "refused");
        let shape = ChannelShape::new(welcome.ring_bytes.get() as usize, welcome.window.get() as usize)
            .expect("a shape");
        let bell = files.pop();
        let map = |file: &OwnedFd, bytes, writable| {
            map_shared(file.as_fd(), bytes as u64, writable).expect("it maps")
        };
        let inbound = map(&files[0], shape.inbound_bytes(), true);
        let outbound = map(&files[1], shape.outbound_bytes(), false);
        let node_page = map(&files[2], CONTROL_BYTES, false);
        let ring =
            Place { words: inbound.clone(), base: shape.inbound_ring() as u64, bytes: shape.ring_bytes };
        let writer = RingWriter::new(ring, Progress { words: outbound.clone(), at: 0 });
        let ring =
            Place { words: outbound.clone(), base: shape.outbound_ring() as u64, bytes: shape.ring_bytes };
        let reader = RingReader::new(ring, Progress { words: inbound.clone(), at: 0 });
        Self { socket, shape, files, bell, inbound, outbound, node_page, writer, reader }
    }

    /// Wakes the node, whether it sleeps or not.
    pub fn ring(&self) {
        if let Some(bell) = &self.bell {
            let _ = rustix::net::send(bell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }

    /// Puts a message into the ring, as it should be but for what the header says.
    pub fn push(&mut self, header: MessageHeader, body: &[u8]) -> bool {
        let pushed = self.writer.push(&header, body).is_ok();
        self.ring();
        pushed
    }

    /// Stores an arrival word at a place of the inbound half.
    pub fn arrive(&self, at: usize, bytes: u32, number: u32) {
        let word = Arrival { bytes, number }.to_bits();
        self.inbound.store_word(at as u64, word, Ordering::Release).expect("in bounds");
        self.ring();
    }

    /// Stores a header after the arrival word at a place of the inbound half.
    pub fn head(&self, at: usize, header: &MessageHeader) {
        self.inbound.store(at as u64 + 8, header.as_bytes()).expect("in bounds");
    }

    /// Asks for a region.
    pub fn ask(&self, id: u64, region: u32, rights: u32) -> Result<(), Errno> {
        let open = ShmOpen { id: id.into(), region: region.into(), rights: rights.into() };
        send(&self.socket, open.as_bytes(), &[])
    }

    /// The node's answer to [`Self::ask`].
    pub fn opened(&self) -> (ShmOpened, Vec<OwnedFd>) {
        let (packet, files) = receive(&self.socket).expect("the node answers");
        (ShmOpened::read_from_bytes(&packet).expect("an answer"), files)
    }
}

/// A header of a whole message.
pub fn whole(id: u64, kind: Kind, method: u16, bytes: usize) -> MessageHeader {
    MessageHeader {
        id: id.into(),
        total_bytes: (bytes as u32).into(),
        piece_offset: 0.into(),
        method: method.into(),
        kind: kind as u8,
        status: 0,
        reserved: 0.into(),
    }
}

/// A header of a piece.
pub fn piece(id: u64, total: u32, offset: u32) -> MessageHeader {
    MessageHeader { total_bytes: total.into(), piece_offset: offset.into(), ..whole(id, Kind::OneWay, 0, 0) }
}
