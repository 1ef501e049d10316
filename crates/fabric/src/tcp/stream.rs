//! Frames from a non-blocking stream, the same at both ends; see [`super::outbound`] for those
//! that leave.
//!
//! What always holds: many frames arrive in one `recv`; a buffer grows with the bytes that have
//! come, never with the length that a header claims.

use barn_layout::frame::{Frame, FrameError, FrameHeader, FrameKind};
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::time::Duration;
use zerocopy::FromBytes;

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

    /// Passes the next frame's header and the first `bytes` of its body, and gives these, if they are here.
    pub(super) fn begin(&mut self, bytes: usize) -> Option<&[u8]> {
        let (from, to) = (self.start + FrameHeader::BYTES, self.start + FrameHeader::BYTES + bytes);
        let start = self.bytes.get(from..to)?;
        self.start = to;
        Some(start)
    }

    /// The whole frames that are here, without taking them.
    pub(super) fn ahead(&self) -> impl Iterator<Item = (Frame, &[u8])> {
        let mut rest = &self.bytes[self.start..];
        std::iter::from_fn(move || {
            let (header, after) = FrameHeader::ref_from_prefix(rest).ok()?;
            let frame = Frame::check(header).ok()?;
            let (body, after) = after.split_at_checked(frame.body_bytes)?;
            rest = after;
            Some((frame, body))
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::{Random, Seeded};
    use zerocopy::IntoBytes;

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
        let mut bytes = Vec::new();
        for (kind, id, body) in frames {
            bytes.extend_from_slice(header(*kind, 0, 0, *id, body.len()).as_bytes());
            bytes.extend_from_slice(body);
        }
        bytes
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
}
