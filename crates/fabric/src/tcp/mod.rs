//! The tcp transport: any network; the node's agent plays the NIC.
//!
//! Frames (`barn_layout::frame`) on a stream that begins with a handshake. Many operations
//! leave in one system call, and their answers come in one; both ends spin while work is near
//! and sleep when it is not. One-sided operations are carried out by the node's poll loop
//! ([`agent`]), whole words at a time and in the order in which they were posted.

mod agent;
mod answer;
mod attach;
mod client;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod handshake;
mod intake;
mod link;
mod long;
mod outbound;
mod peer;
mod port;
mod stream;

#[cfg(feature = "verbs")]
pub(crate) use agent::AsIs;
pub(crate) use client::TcpClient;
#[cfg(feature = "verbs")]
pub(crate) use handshake::exactly;
pub(crate) use port::TcpPort;

use crate::ConnectOptions;
use crate::error::ConnectError;
use crate::link::Link;
use crate::registry::PeerId;
use crate::seam::{Random, Seeded, system_random};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connects to `host`, which is HOST:PORT.
pub(crate) fn connect(host: &str, options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    let (stream, peer) = dial("tcp", host, options, Instant::now() + options.deadline)?;
    Ok(start(stream, peer)?)
}

/// Makes a connection of a stream that was let in.
pub(crate) fn start(stream: TcpStream, peer: PeerId) -> Result<Arc<TcpClient>, ConnectError> {
    stream::prepare(&stream)?;
    Ok(TcpClient::start(stream.into(), peer))
}

/// A stream to `host` that the node has let in, and the number that it gave it.
pub(crate) fn dial(
    scheme: &str,
    host: &str,
    options: &ConnectOptions,
    deadline: Instant,
) -> Result<(TcpStream, PeerId), ConnectError> {
    let address = format!("{scheme}://{host}");
    let named = |error| name(error, &address);
    let addresses: Vec<SocketAddr> = host
        .to_socket_addrs()
        .map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => ConnectError::Address { address: host.to_string() },
            _ => ConnectError::NoNode { address: address.clone(), cause: error },
        })?
        .collect();
    let mut seed = [0; 8];
    system_random(&mut seed)?;
    for pause in pauses(&mut Seeded::new(u64::from_le_bytes(seed))) {
        match attempt(&addresses, options, deadline) {
            Err(error) if may_pass(&error) && handshake::left(deadline).is_ok_and(|left| left > pause) => {
                std::thread::sleep(pause);
            }
            done => return done.map_err(named),
        }
    }
    attempt(&addresses, options, deadline).map_err(named)
}

/// The pauses before new attempts: each about twice the last, so that a node that restarts is
/// found at once, and chosen by chance, so that its clients do not all come together. 200 ms at
/// the most: who waits for a node for longer should know why.
fn pauses(random: &mut dyn Random) -> impl Iterator<Item = Duration> {
    [5u64, 10, 20, 40, 80].into_iter().map(|ms| Duration::from_micros(ms * 1000 + random.below(ms * 250)))
}

/// Whether another attempt may go better: nobody listens yet, or the node dropped this
/// newcomer among very many.
fn may_pass(error: &ConnectError) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof};
    let kinds = [BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, UnexpectedEof];
    matches!(error, ConnectError::System(cause) if kinds.contains(&cause.kind()))
}

/// Says where nobody was found.
fn name(error: ConnectError, address: &str) -> ConnectError {
    use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    let absent = [ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut];
    match error {
        ConnectError::System(cause) if absent.contains(&cause.kind()) => {
            ConnectError::NoNode { address: address.to_string(), cause }
        }
        ConnectError::System(cause) if cause.kind() == ErrorKind::UnexpectedEof => ConnectError::Protocol,
        other => other,
    }
}

/// Tries every address once.
fn attempt(
    addresses: &[SocketAddr],
    options: &ConnectOptions,
    deadline: Instant,
) -> Result<(TcpStream, PeerId), ConnectError> {
    let mut last = ConnectError::Deadline;
    for address in addresses {
        let stream = match open(address, options.bind, handshake::left(deadline)?) {
            Ok(stream) => stream,
            Err(error) => {
                last = error.into();
                continue;
            }
        };
        stream.set_nodelay(true)?;
        let peer = handshake::introduce(&stream, options.token.as_deref(), deadline)?;
        return Ok((stream, peer));
    }
    Err(last)
}

/// A stream to `address`, from `bind` if that is said.
pub(crate) fn open(
    address: &SocketAddr,
    bind: Option<IpAddr>,
    limit: Duration,
) -> std::io::Result<TcpStream> {
    let Some(bind) = bind else { return TcpStream::connect_timeout(address, limit) };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(bind, 0))?;
    match rustix::net::connect(&socket, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let mut waiting = [PollFd::new(&socket, PollFlags::OUT)];
            let limit = Timespec {
                tv_sec: limit.as_secs().min(3600) as i64,
                tv_nsec: i64::from(limit.subsec_nanos()),
            };
            if rustix::event::poll(&mut waiting, Some(&limit))? == 0 {
                return Err(ErrorKind::TimedOut.into());
            }
            rustix::net::sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_within_a_fifth_of_a_second() {
        for seed in 0..1000 {
            let pauses: Vec<_> = pauses(&mut Seeded::new(seed)).collect();
            assert!(pauses.is_sorted(), "{pauses:?}");
            assert!(pauses.iter().sum::<Duration>() < Duration::from_millis(200));
        }
    }
}
