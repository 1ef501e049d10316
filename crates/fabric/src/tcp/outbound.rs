//! Frames that leave on a non-blocking stream, the same at both ends.
//!
//! What always holds: what waits leaves in one `send`, in order, and each frame whole. Registered bytes
//! of a long READ leave straight from where they lie, while their grant stands; if it ends before all
//! of them have left, zeros do in their place, and the answer that follows says so.

use crate::registry::Grant;
use barn_layout::frame::FrameHeader;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::io::IoSlice;
use zerocopy::IntoBytes;

/// Bytes that are to leave.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
    taken: u64,
    registered: Option<Registered>,
}

/// Registered bytes that are to leave: behind `bytes[..at]`, before the rest.
#[derive(Debug)]
struct Registered {
    grant: Grant,
    offset: u64,
    left: usize,
    at: usize,
}

/// The longest buffer that is kept for the next frames.
const KEPT_BYTES_MAX: usize = 512 << 10;

impl Outbound {
    /// How many bytes wait for the socket.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.bytes.len() - self.sent + self.registered.as_ref().map_or(0, |registered| registered.left)
    }

    /// Whether registered bytes are under way, so that no others can be begun.
    #[inline]
    pub(super) fn has_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// Adds a frame whose body is registered memory, and sends what the socket takes. None may be under
    /// way.
    pub(super) fn push_registered(
        &mut self,
        socket: &OwnedFd,
        header: &FrameHeader,
        grant: &Grant,
        (offset, left): (u64, usize),
    ) -> Result<(), Errno> {
        debug_assert!(self.registered.is_none());
        self.push(header, [&[], &[]]);
        let at = self.bytes.len();
        self.registered = Some(Registered { grant: grant.clone(), offset, left, at });
        self.flush(socket).map(|_| ())
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
        let (gone, waiting) = (self.sent, self.bytes.len() - self.sent);
        let past = self.registered.as_ref().is_none_or(|registered| registered.at >= gone);
        if past && gone > waiting && self.bytes.len() + more > self.bytes.capacity() {
            self.bytes.drain(..self.sent);
            if let Some(registered) = &mut self.registered {
                registered.at -= self.sent;
            }
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
        let sent = match &self.registered {
            None => rustix::net::send(socket, &self.bytes[self.sent..], SendFlags::NOSIGNAL),
            Some(Registered { grant, offset, left, at }) => {
                let (before, after) = (&self.bytes[self.sent..*at], &self.bytes[*at..]);
                // Whoever ends the grant waits until the kernel has copied.
                let send = || grant.region.words().send(socket, before, (*offset, *left), after);
                match grant.standing.change(send) {
                    Some(sent) => sent,
                    None => {
                        self.registered_is_void();
                        return self.flush(socket);
                    }
                }
            }
        };
        match sent {
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
        if self.registered.is_some() {
            self.push(header, parts);
            return Ok(());
        }
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

    /// The grant has ended: zeros leave in place of the rest.
    fn registered_is_void(&mut self) {
        if let Some(Registered { left, at, .. }) = self.registered.take() {
            self.bytes.splice(at..at, std::iter::repeat_n(0, left));
        }
    }

    fn forget(&mut self, mut bytes: usize) {
        self.taken += bytes as u64;
        if let Some(registered) = &mut self.registered {
            let before = bytes.min(registered.at - self.sent);
            self.sent += before;
            bytes -= before;
            let taken = bytes.min(registered.left);
            registered.offset += taken as u64;
            registered.left -= taken;
            bytes -= taken;
            if registered.left > 0 {
                return;
            }
            self.registered = None;
        }
        self.sent += bytes;
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
    use super::super::stream::{header, receive_onto};
    use super::*;
    use barn_layout::frame::FrameKind;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
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
