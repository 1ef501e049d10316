//! Registered memory straight to a socket and from it: the kernel does the copying.
//!
//! For long transfers, where another copy would be most of the cost. What always holds: bounds and
//! rights are checked first; no reference to registered bytes exists, the kernel is given addresses.
//! It promises single bytes, not words: whoever needs words uses the copies of [`Words`].
#![allow(unsafe_code)]

use super::words::Words;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;

fn part(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn outcome(done: isize) -> Result<usize, Errno> {
    match usize::try_from(done) {
        Ok(bytes) => Ok(bytes),
        Err(_) => {
            Err(std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
        }
    }
}

impl Words {
    /// One `sendmsg` of `before`, of `bytes` registered bytes from `offset` on, and of `after`: how many
    /// bytes of all of that were taken. Out of bounds is `EFAULT`.
    pub(crate) fn send(
        &self,
        socket: &OwnedFd,
        before: &[u8],
        (offset, bytes): (u64, usize),
        after: &[u8],
    ) -> Result<usize, Errno> {
        let at = self.reach(offset, bytes).map_err(|_| Errno::FAULT)?;
        let mut parts = [part(before), libc::iovec { iov_base: at.cast(), iov_len: bytes }, part(after)];
        // SAFETY: a header of zeros is a valid one: no address, no control data, no parts.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the parts are two slices that live until the call returns and a range inside the
        // mapping, which `self` keeps; the kernel only reads them.
        outcome(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) })
    }

    /// One `recv` of at most `bytes` bytes, to `offset`: how many came, 0 at the stream's end. Out of bounds
    /// or read-only is `EFAULT`.
    pub(crate) fn receive(&self, socket: &OwnedFd, offset: u64, bytes: usize) -> Result<usize, Errno> {
        let at = self.reach_to_store(offset, bytes).map_err(|_| Errno::FAULT)?;
        // SAFETY: the range is inside the mapping, which `self` keeps and which is writable; nobody has a
        // reference into it.
        outcome(unsafe { libc::recv(socket.as_raw_fd(), at.cast(), bytes, 0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Region, Rights};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn bytes_go_from_memory_to_memory_and_no_further() {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let (from, to) = (Region::on_heap(4096, Rights::ALL), Region::on_heap(4096, Rights::ALL));
        from.words().store(0, &(0..=255).cycle().take(4096).collect::<Vec<u8>>()).unwrap();
        assert_eq!(from.words().send(&near, b"ab", (3, 1000), b"c"), Ok(1003));
        let mut start = [0; 2];
        rustix::net::recv(&far, &mut start, rustix::net::RecvFlags::empty()).unwrap();
        assert_eq!(&start, b"ab");
        assert_eq!(to.words().receive(&far, 5, 1000), Ok(1000));
        let (mut sent, mut got) = ([0; 1000], [0; 1006]);
        from.words().load(3, &mut sent).unwrap();
        to.words().load(0, &mut got).unwrap();
        assert_eq!(got[5..1005], sent);
        assert_eq!((&got[..5], got[1005]), (&[0; 5][..], 0), "a neighbour was written");
        for (offset, bytes) in [(4096, 1), (0, 4097), (u64::MAX, 2)] {
            assert_eq!(from.words().send(&near, &[], (offset, bytes), &[]), Err(Errno::FAULT));
            assert_eq!(to.words().receive(&far, offset, bytes), Err(Errno::FAULT));
        }
        assert_eq!(to.words().receive(&near, 0, 8), Err(Errno::AGAIN));
    }
}
