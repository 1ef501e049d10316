//! Frames in and out of a non-blocking stream, the same at both ends.
//!
//! What always holds: many frames leave in one `send` and arrive in one `recv`; a buffer grows
//! with the bytes that have come, never with the length that a header claims; what was given to
//! [`Outbound`] leaves in order, whole, or not at all.

use barn_layout::frame::{Frame, FrameError, FrameHeader, FrameKind};
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::IoSlice;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// The most that one `recv` takes: past this a call costs nothing beside the copy, and the
/// buffer still fits a second-level cache.
pub(super) const RECEIVE_BYTES: usize = 256 << 10;
/// A body from here on is sent straight from where it lies: below, copying is cheaper than
/// giving up on sending together with others.
pub(super) const DIRECT_BYTES: usize = 64 << 10;
/// A peer that does not acknowledge bytes for so long is gone: far longer than any pause seen
/// on a loaded machine or network path, far shorter than the system's quarter of an hour.
const SILENCE: Duration = Duration::from_secs(10);

/// A frame's header from its parts.
#[inline]
pub(super) fn header(kind: FrameKind, status: u8, method: u16, id: u64, body_bytes: usize) -> FrameHeader {
    Frame { kind, status, method, id, body_bytes }.header()
}

/// Makes a connected socket the way both ends need it.
pub(super) fn prepare(socket: impl AsFd) -> Result<(), Errno> {
    use rustix::net::sockopt;
    let socket = socket.as_fd();
    rustix::io::ioctl_fionbio(socket, true)?;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, SILENCE / 2)?;
    sockopt::set_tcp_keepintvl(socket, SILENCE / 5)?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    sockopt::set_tcp_user_timeout(socket, SILENCE.as_millis() as u32)
}

/// What a `recv` brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The other end has closed.
    End,
}

/// Turns a `recv`'s result into what it means.
fn received(result: Result<usize, Errno>) -> Result<Received, Errno> {
    match result {
        Ok(0) => Ok(Received::End),
        Ok(bytes) => Ok(Received::Bytes(bytes)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
        Err(error) => Err(error),
    }
}

/// Receives into initialised memory.
pub(super) fn receive_into(socket: &OwnedFd, into: &mut [u8]) -> Result<Received, Errno> {
    received(rustix::net::recv(socket, into, RecvFlags::empty()).map(|(_, bytes)| bytes))
}

/// Receives at the end of a vector, into whatever room it has.
pub(super) fn receive_onto(socket: &OwnedFd, onto: &mut Vec<u8>) -> Result<Received, Errno> {
    debug_assert!(onto.capacity() > onto.len());
    received(rustix::net::recv(socket, spare_capacity(onto), RecvFlags::empty()).map(|(_, bytes)| bytes))
}

/// Bytes that have come and were not yet looked at.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    bytes: Vec<u8>,
    start: usize,
}

impl Inbound {
    /// How many bytes are here.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Works with a buffer that somebody else keeps, if there is none.
    pub(super) fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.capacity() < RECEIVE_BYTES && spare.capacity() >= RECEIVE_BYTES {
            let mut bytes = std::mem::take(spare);
            bytes.extend_from_slice(&self.bytes[self.start..]);
            *self = Self { bytes, start: 0 };
        }
    }

    /// Gives the buffer back. A beginning of a frame is kept, in a buffer of its own size.
    pub(super) fn give_back(&mut self, spare: &mut Vec<u8>) {
        let pending = self.pending();
        let lent = (RECEIVE_BYTES..2 * RECEIVE_BYTES).contains(&self.bytes.capacity());
        if lent && spare.capacity() == 0 && pending <= RECEIVE_BYTES / 8 {
            let rest = self.bytes[self.start..].to_vec();
            *spare = std::mem::replace(&mut self.bytes, rest);
            spare.clear();
            self.start = 0;
        } else if pending == 0 {
            *self = Self::default();
        }
    }

    /// One `recv` of whatever has come.
    pub(super) fn receive(&mut self, socket: &OwnedFd) -> Result<Received, Errno> {
        self.make_room();
        receive_onto(socket, &mut self.bytes)
    }

    /// One `recv` of at most `SIP_BYTES`, when a long body is expected that is better received
    /// where it belongs.
    pub(super) fn receive_little(&mut self, socket: &OwnedFd) -> Result<Received, Errno> {
        let mut sip = [0; SIP_BYTES];
        let taken = receive_into(socket, &mut sip)?;
        if let Received::Bytes(bytes) = taken {
            self.put(&sip[..bytes]);
        }
        Ok(taken)
    }

    /// Takes bytes that somebody else received.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.make_room();
        self.bytes.extend_from_slice(bytes);
    }

    fn make_room(&mut self) {
        let pending = self.pending();
        if self.start > 0 {
            self.bytes.copy_within(self.start.., 0);
            self.bytes.truncate(pending);
            self.start = 0;
        }
        if self.bytes.capacity() < RECEIVE_BYTES {
            self.bytes.reserve_exact(RECEIVE_BYTES - pending);
        } else if self.bytes.capacity() - pending < RECEIVE_BYTES / 4 {
            // Half of a long frame is here: double, up to the frame's end.
            let missing = match self.peek() {
                Ok(Some(frame)) => (FrameHeader::BYTES + frame.body_bytes).saturating_sub(pending),
                _ => 0,
            };
            self.bytes.reserve_exact(missing.clamp(RECEIVE_BYTES / 4, pending.max(RECEIVE_BYTES)));
        }
    }

    /// The header of the next frame, if all of it is here.
    #[inline]
    pub(super) fn peek(&self) -> Result<Option<Frame>, FrameError> {
        match FrameHeader::ref_from_prefix(&self.bytes[self.start..]) {
            Ok((header, _)) => Frame::check(header).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// The next frame, if all of it is here.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(Frame, &[u8])>, FrameError> {
        let Some(frame) = self.peek()? else { return Ok(None) };
        Ok(self.body(&frame).map(|body| (frame, body)))
    }

    /// The body of the frame that [`Self::peek`] gave, if all of it is here; then it is past.
    #[inline]
    pub(super) fn body(&mut self, frame: &Frame) -> Option<&[u8]> {
        let (body, end) =
            (self.start + FrameHeader::BYTES, self.start + FrameHeader::BYTES + frame.body_bytes);
        let body = self.bytes.get(body..end)?;
        self.start = end;
        Some(body)
    }

    /// Whether a whole frame, or what cannot be one, is here.
    pub(super) fn has_frame(&self) -> bool {
        match self.peek() {
            Ok(Some(frame)) => self.pending() >= FrameHeader::BYTES + frame.body_bytes,
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Takes up to `most` bytes from the front.
    #[inline]
    pub(super) fn take(&mut self, most: usize) -> &[u8] {
        let from = self.start;
        self.start += most.min(self.pending());
        &self.bytes[from..self.start]
    }
}

/// Enough for a header and a small frame behind it; the copy costs next to nothing.
pub(super) const SIP_BYTES: usize = 4 << 10;

/// Bytes that are to leave.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
    taken: u64,
}

/// The longest buffer that is kept for the next frames.
const KEPT_BYTES_MAX: usize = 512 << 10;

impl Outbound {
    /// How many bytes wait for the socket.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Where in the stream the last of them ends.
    pub(super) fn end(&self) -> u64 {
        self.taken + self.pending() as u64
    }

    /// Where in the stream the socket's share ends.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds a frame whose body is these parts.
    #[inline]
    pub(super) fn push(&mut self, header: &FrameHeader, parts: [&[u8]; 2]) {
        let bytes = self.buffer(FrameHeader::BYTES + parts[0].len() + parts[1].len());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(parts[0]);
        bytes.extend_from_slice(parts[1]);
    }

    /// The buffer, to add whole frames to: with room for `more` bytes.
    #[inline]
    pub(super) fn buffer(&mut self, more: usize) -> &mut Vec<u8> {
        // What was sent is forgotten once it is the larger part: each byte moves at most once.
        if self.sent > self.pending() && self.bytes.len() + more > self.bytes.capacity() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        self.bytes.reserve(more);
        &mut self.bytes
    }

    /// One `send` of all that waits; true if nothing is left.
    #[inline]
    pub(super) fn flush(&mut self, socket: &OwnedFd) -> Result<bool, Errno> {
        if self.pending() == 0 {
            return Ok(true);
        }
        match rustix::net::send(socket, &self.bytes[self.sent..], SendFlags::NOSIGNAL) {
            Ok(bytes) => self.forget(bytes),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(self.pending() == 0)
    }

    /// Adds a frame with a long body: as much of it as the socket takes leaves straight from
    /// where it lies, and the rest is copied.
    pub(super) fn push_direct(
        &mut self,
        socket: &OwnedFd,
        header: &FrameHeader,
        parts: [&[u8]; 2],
    ) -> Result<(), Errno> {
        let frame = [header.as_bytes(), parts[0], parts[1]];
        let slices = [&self.bytes[self.sent..], frame[0], frame[1], frame[2]].map(IoSlice::new);
        let mut nothing = SendAncillaryBuffer::default();
        let sent = match rustix::net::sendmsg(socket, &slices, &mut nothing, SendFlags::NOSIGNAL) {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(error) => return Err(error),
        };
        let before = sent.min(self.pending());
        self.forget(before);
        let mut skip = sent - before;
        self.taken += skip as u64;
        for part in frame {
            let skipped = skip.min(part.len());
            skip -= skipped;
            let rest = &part[skipped..];
            self.buffer(rest.len()).extend_from_slice(rest);
        }
        Ok(())
    }

    fn forget(&mut self, bytes: usize) {
        self.sent += bytes;
        self.taken += bytes as u64;
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// Works with a buffer that somebody else keeps, if there is none.
    pub(super) fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.capacity() == 0 {
            std::mem::swap(&mut self.bytes, spare);
        }
    }

    /// Gives the buffer back, if nothing waits in it.
    pub(super) fn give_back(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.is_empty() && spare.capacity() < self.bytes.capacity() {
            std::mem::swap(&mut self.bytes, spare);
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::{Random, Seeded};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    fn frames() -> Vec<(FrameKind, u64, Vec<u8>)> {
        vec![
            (FrameKind::Ping, 1, vec![]),
            (FrameKind::Request, 2, b"a request".to_vec()),
            (FrameKind::OneWay, 3, vec![7; 300]),
            (FrameKind::Pong, 4, vec![]),
            (FrameKind::Reply, 5, vec![9; 33]),
        ]
    }

    fn stream(frames: &[(FrameKind, u64, Vec<u8>)]) -> Vec<u8> {
        let mut out = Outbound::default();
        for (kind, id, body) in frames {
            out.push(&header(*kind, 0, 0, *id, body.len()), [body, &[]]);
        }
        out.bytes
    }

    fn drain(inbound: &mut Inbound, into: &mut Vec<(FrameKind, u64, Vec<u8>)>) {
        while let Some((frame, body)) = inbound.next().unwrap() {
            into.push((frame.kind, frame.id, body.to_vec()));
        }
    }

    #[test]
    fn frames_split_at_every_byte_come_out_whole() {
        let (frames, bytes) = (frames(), stream(&frames()));
        for split in 0..=bytes.len() {
            let (mut inbound, mut seen) = (Inbound::default(), Vec::new());
            for part in [&bytes[..split], &bytes[split..]] {
                inbound.put(part);
                drain(&mut inbound, &mut seen);
            }
            assert_eq!(seen, frames, "split at {split}");
            assert_eq!(inbound.pending(), 0);
        }
    }

    #[test]
    fn frames_in_random_pieces_come_out_whole_while_buffers_are_lent_and_given_back() {
        let (frames, bytes) = (frames(), stream(&frames()));
        let mut random = Seeded::new(1);
        for _ in 0..2000 {
            let (mut inbound, mut seen, mut at) = (Inbound::default(), Vec::new(), 0);
            let mut spare = Vec::with_capacity(RECEIVE_BYTES);
            while at < bytes.len() {
                let take = (1 + random.below(40) as usize).min(bytes.len() - at);
                inbound.borrow(&mut spare);
                inbound.put(&bytes[at..at + take]);
                drain(&mut inbound, &mut seen);
                inbound.give_back(&mut spare);
                at += take;
            }
            assert_eq!(seen, frames);
        }
    }

    #[test]
    fn arbitrary_bytes_are_a_frame_an_error_or_a_wait_but_never_a_panic() {
        let mut random = Seeded::new(2);
        for _ in 0..20_000 {
            let bytes: Vec<u8> =
                (0..random.below(64)).map(|_| random.next() as u8 & random.next() as u8).collect();
            let mut inbound = Inbound::default();
            inbound.put(&bytes);
            while let Ok(Some(_)) = inbound.next() {}
        }
    }

    #[test]
    fn a_long_claim_reserves_no_more_than_what_came_asks_for() {
        let long = barn_layout::limits::MESSAGE_BYTES_MAX;
        let mut inbound = Inbound::default();
        inbound.put(header(FrameKind::Request, 0, 0, 1, long).as_bytes());
        let mut came = 0;
        while came < 4 << 20 {
            inbound.put(&[1; 60_000]);
            came += 60_000;
            let most = (2 * came + 2 * RECEIVE_BYTES).max(RECEIVE_BYTES);
            assert!(inbound.bytes.capacity() <= most, "{} after {came}", inbound.bytes.capacity());
        }
        assert!(inbound.next().unwrap().is_none());
    }

    #[test]
    fn a_socket_that_takes_little_gets_everything_in_order() {
        let (left, right) = pair();
        let mut out = Outbound::default();
        let long = vec![5; 3 << 20];
        let mut expected = Vec::new();
        for (round, direct) in [false, true, false, true].into_iter().enumerate() {
            let start = header(FrameKind::OneWay, 0, 0, round as u64, long.len() + 1);
            let parts: [&[u8]; 2] = [&[round as u8], &long];
            match direct {
                true => out.push_direct(&left, &start, parts).unwrap(),
                false => out.push(&start, parts),
            }
            [start.as_bytes(), parts[0], parts[1]].iter().for_each(|part| expected.extend_from_slice(part));
        }
        let end = out.end();
        let mut seen = Vec::with_capacity(expected.len() + 1);
        while seen.len() < expected.len() {
            out.flush(&left).unwrap();
            receive_onto(&right, &mut seen).unwrap();
        }
        assert!(seen == expected);
        assert_eq!((out.pending(), out.taken(), out.end()), (0, end, end));
    }
}
