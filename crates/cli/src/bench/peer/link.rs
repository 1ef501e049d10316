//! A connection to a peer's server: everything that is ready goes out in one call.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::PeerError;

/// A server that has not answered within this is gone.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Asked for at once: more than the replies to any batch of ours.
const RECEIVE_BYTES: usize = 64 << 10;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// On a Unix socket.
    Unix(PathBuf),
    /// On loopback.
    Tcp(SocketAddr),
}

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection, with what goes out next and what has come in.
#[derive(Debug)]
pub(crate) struct Link {
    peer: &'static str,
    socket: Socket,
    pub(crate) out: Vec<u8>,
    /// As much memory as was ever needed; `came` bytes of it have come.
    memory: Vec<u8>,
    came: usize,
}

impl Link {
    /// Connects; a spinning link never sleeps while it waits.
    pub(crate) fn connect(peer: &'static str, place: &Place, spin: bool) -> Result<Self, PeerError> {
        let socket = Socket::connect(place, spin).map_err(|error| PeerError::failed(peer, error))?;
        Ok(Self { peer, socket, out: Vec::new(), memory: Vec::new(), came: 0 })
    }

    /// What has come in since the last call of [`Self::send`].
    pub(crate) fn input(&self) -> &[u8] {
        &self.memory[..self.came]
    }

    /// Sends what is to go out, and forgets what came in.
    pub(crate) fn send(&mut self) -> Result<(), PeerError> {
        self.came = 0;
        let mut sent = 0;
        while sent < self.out.len() {
            match self.socket.write(&self.out[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Waits for more to come in.
    pub(crate) fn receive(&mut self) -> Result<(), PeerError> {
        if self.memory.len() - self.came < RECEIVE_BYTES {
            self.memory.resize(self.came + RECEIVE_BYTES, 0);
        }
        let mut deadline = None;
        loop {
            match self.socket.read(&mut self.memory[self.came..]) {
                Ok(0) => return Err(self.failed("the server closed the connection")),
                Ok(more) => {
                    self.came += more;
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + ANSWER_MAX) {
                        return Err(self.failed("the server does not answer"));
                    }
                    std::hint::spin_loop();
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, why: impl std::fmt::Display) -> PeerError {
        PeerError::failed(self.peer, why)
    }
}

impl Socket {
    fn connect(place: &Place, spin: bool) -> io::Result<Self> {
        Ok(match place {
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(spin)?;
                stream.set_read_timeout(Some(ANSWER_MAX))?;
                Self::Unix(stream)
            }
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(spin)?;
                stream.set_read_timeout(Some(ANSWER_MAX))?;
                Self::Tcp(stream)
            }
        })
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }
}
