//! How a stream becomes a connection: hello, challenge, proof, welcome.
//!
//! The token is proved by a keyed code over both nonces and never sent; the node proves itself
//! too. TLS is reserved ([`Authentication::Tls`]): it would wrap the stream before the hello.
//!
//! What always holds: nobody is let in before the policy has been asked and, with a token, the
//! proof verified in constant time; the node's side never blocks and never reads past the
//! handshake; a client with a token talks to no node that does not prove it.

use crate::error::ConnectError;
use crate::registry::PeerId;
use crate::tcp::stream::{Received, receive_into};
use barn_layout::handshake::{
    Authentication, MAGIC, Refusal, TcpChallenge, TcpHello, TcpProof, TcpWelcome, VERSION,
};
use hmac::{Hmac, KeyInit, Mac};
use rustix::fd::OwnedFd;
use rustix::net::SendFlags;
use sha2::Sha256;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// A newcomer that takes longer is dropped: many round trips around the world.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(2);

/// What a node asks of newcomers.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) token: Option<String>,
    pub(super) allow_unauthenticated: bool,
}

/// How a newcomer from `from`, ready for `offered`, has to show itself; or why it may not.
///
/// A node with a token asks everybody for it, loopback too: other users of the host are
/// strangers. Without one, only this host is let in unless the node was told otherwise.
pub(super) fn demand(
    policy: &Policy,
    from: IpAddr,
    offered: Option<Authentication>,
) -> Result<Authentication, Refusal> {
    match (offered, &policy.token) {
        (None, _) => Err(Refusal::NotBarn),
        (Some(Authentication::Tls), _) => Err(Refusal::NoTls),
        (Some(Authentication::Token), Some(_)) => Ok(Authentication::Token),
        (Some(Authentication::Open), Some(_)) => Err(Refusal::Unauthenticated),
        (Some(_), None) if from.to_canonical().is_loopback() || policy.allow_unauthenticated => {
            Ok(Authentication::Open)
        }
        (Some(_), None) => Err(Refusal::Unauthenticated),
    }
}

/// The code under a token: the label says whose it is, so that neither can be sent back.
fn code(token: &str, label: &[u8], client: &[u8; 32], node: &[u8; 32]) -> Hmac<Sha256> {
    let mut code = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("a key of any length is fine");
    code.update(label);
    code.update(client);
    code.update(node);
    code
}

const CLIENT: &[u8] = b"client";
const NODE: &[u8] = b"node";

/// A connection that has not shown itself yet, at the node.
#[derive(Debug)]
pub(super) struct Newcomer {
    pub(super) socket: OwnedFd,
    pub(super) since: Instant,
    from: IpAddr,
    stage: Stage,
    bytes: [u8; TcpHello::BYTES],
    have: usize,
}

#[derive(Debug)]
enum Stage {
    Hello,
    Proof { authentication: Authentication, client: [u8; 32], node: [u8; 32] },
}

/// Where a newcomer stands.
#[derive(Debug)]
pub(super) enum Progress {
    /// It has more to say.
    Waiting,
    /// It showed itself: welcome it with this code.
    Proved { code: [u8; 32] },
    /// It is refused, and has been told.
    Refused,
    /// It is gone, or not worth an answer.
    Gone,
}

impl Newcomer {
    pub(super) fn new(socket: OwnedFd, from: IpAddr, since: Instant) -> Self {
        Self { socket, since, from, stage: Stage::Hello, bytes: [0; TcpHello::BYTES], have: 0 }
    }

    /// Takes what has come; never waits.
    pub(super) fn advance(&mut self, policy: &Policy) -> Progress {
        loop {
            let want = match self.stage {
                Stage::Hello => TcpHello::BYTES,
                Stage::Proof { .. } => TcpProof::BYTES,
            };
            while self.have < want {
                match receive_into(&self.socket, &mut self.bytes[self.have..want]) {
                    Ok(Received::Bytes(bytes)) => self.have += bytes,
                    Ok(Received::Nothing) => return Progress::Waiting,
                    Ok(Received::End) | Err(_) => return Progress::Gone,
                }
            }
            self.have = 0;
            match &self.stage {
                Stage::Hello => match self.hello(policy) {
                    Ok(stage) => self.stage = stage,
                    Err(progress) => return progress,
                },
                Stage::Proof { authentication, client, node } => {
                    let token = policy.token.as_deref().unwrap_or_default();
                    if *authentication == Authentication::Open {
                        return Progress::Proved { code: [0; 32] };
                    }
                    // Constant time: how much of a wrong code is right must not be heard.
                    return match code(token, CLIENT, client, node).verify_slice(&self.bytes[..want]) {
                        Ok(()) => {
                            let code = code(token, NODE, client, node).finalize().into_bytes().into();
                            Progress::Proved { code }
                        }
                        Err(_) => self.refuse_welcome(Refusal::BadToken),
                    };
                }
            }
        }
    }

    fn hello(&self, policy: &Policy) -> Result<Stage, Progress> {
        let hello = TcpHello::ref_from_bytes(&self.bytes).map_err(|_| Progress::Gone)?;
        let offered = Authentication::from_bits(hello.authentication.get());
        let demanded = if hello.magic != MAGIC {
            Err(Refusal::NotBarn)
        } else if hello.version.get() != VERSION {
            Err(Refusal::Version)
        } else {
            demand(policy, self.from, offered)
        };
        let mut node = [0; 32];
        crate::seam::system_random(&mut node).map_err(|_| Progress::Gone)?;
        let challenge = TcpChallenge {
            magic: MAGIC,
            version: VERSION.into(),
            authentication: (demanded.unwrap_or(Authentication::Open) as u16).into(),
            status: demanded.err().map_or(0, |refusal| refusal as u16).into(),
            reserved: 0.into(),
            nonce: node,
        };
        match (self.say(challenge.as_bytes()), demanded) {
            (false, _) => Err(Progress::Gone),
            (true, Err(_)) => Err(Progress::Refused),
            (true, Ok(authentication)) => Ok(Stage::Proof { authentication, client: hello.nonce, node }),
        }
    }

    /// The last packet of a handshake that succeeded; false if the newcomer is gone.
    pub(super) fn welcome(&self, peer: PeerId, node: u64, code: [u8; 32]) -> bool {
        self.say(welcome(0, peer.0, node, code).as_bytes())
    }

    /// The last packet of one that did not.
    pub(super) fn refuse_welcome(&self, refusal: Refusal) -> Progress {
        self.say(welcome(refusal as u16, 0, 0, [0; 32]).as_bytes());
        Progress::Refused
    }

    /// Sends a packet at once: a fresh socket has room for all of the handshake's.
    fn say(&self, packet: &[u8]) -> bool {
        rustix::net::send(&self.socket, packet, SendFlags::NOSIGNAL) == Ok(packet.len())
    }
}

fn welcome(status: u16, peer: u64, node: u64, code: [u8; 32]) -> TcpWelcome {
    TcpWelcome {
        status: status.into(),
        reserved: 0.into(),
        reserved_1: 0.into(),
        peer: peer.into(),
        node: node.into(),
        reserved_2: 0.into(),
        code,
    }
}

/// The client's side, on a blocking stream: gives the number that the node gave this peer.
pub(super) fn introduce(
    mut stream: &TcpStream,
    token: Option<&str>,
    deadline: Instant,
) -> Result<PeerId, ConnectError> {
    let mut client = [0; 32];
    crate::seam::system_random(&mut client)?;
    let offered = if token.is_some() { Authentication::Token } else { Authentication::Open };
    let hello = TcpHello {
        magic: MAGIC,
        version: VERSION.into(),
        authentication: (offered as u16).into(),
        reserved: 0.into(),
        nonce: client,
    };
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(hello.as_bytes())?;
    let mut bytes = [0; TcpChallenge::BYTES];
    exactly(stream, &mut bytes, deadline)?;
    let challenge = TcpChallenge::ref_from_bytes(&bytes).map_err(|_| ConnectError::Protocol)?;
    if challenge.magic != MAGIC {
        return Err(ConnectError::Protocol);
    }
    refused(challenge.status.get(), challenge.version.get())?;
    let demanded = Authentication::from_bits(challenge.authentication.get());
    let proof = match (demanded, token) {
        (Some(Authentication::Token), Some(token)) => {
            code(token, CLIENT, &client, &challenge.nonce).finalize().into_bytes().into()
        }
        (Some(Authentication::Open), None) => [0; 32],
        // Whoever has a token expects the node to know it: another one may be an impostor.
        (Some(Authentication::Open), Some(_)) => return Err(ConnectError::NodeUnproved),
        _ => return Err(ConnectError::Protocol),
    };
    stream.write_all(TcpProof { code: proof }.as_bytes())?;
    let mut welcomed = [0; TcpWelcome::BYTES];
    exactly(stream, &mut welcomed, deadline)?;
    let welcomed = TcpWelcome::ref_from_bytes(&welcomed).map_err(|_| ConnectError::Protocol)?;
    refused(welcomed.status.get(), challenge.version.get())?;
    if let Some(token) = token {
        code(token, NODE, &client, &challenge.nonce)
            .verify_slice(&welcomed.code)
            .map_err(|_| ConnectError::NodeUnproved)?;
    }
    Ok(PeerId(welcomed.peer.get()))
}

fn refused(status: u16, version: u16) -> Result<(), ConnectError> {
    match (status, Refusal::from_bits(status)) {
        (0, _) => Ok(()),
        (_, Some(refusal)) => Err(ConnectError::Refused { refusal, version }),
        (_, None) => Err(ConnectError::Protocol),
    }
}

/// The time left, as a timeout: never zero, which would mean for ever.
pub(super) fn left(deadline: Instant) -> Result<Duration, ConnectError> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ConnectError::Deadline) } else { Ok(left) }
}

/// Reads so many bytes, on a blocking stream.
pub(crate) fn exactly(
    mut stream: &TcpStream,
    into: &mut [u8],
    deadline: Instant,
) -> Result<(), ConnectError> {
    let mut have = 0;
    while have < into.len() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut into[have..]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(ConnectError::Deadline);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_let_in() {
        use Authentication::{Open, Tls, Token};
        let here: [IpAddr; 3] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"].map(|ip| ip.parse().unwrap());
        let far: [IpAddr; 3] = ["10.0.0.9", "2001:db8::1", "::ffff:10.0.0.9"].map(|ip| ip.parse().unwrap());
        let with = |token: Option<&str>, allow_unauthenticated| Policy {
            token: token.map(str::to_string),
            allow_unauthenticated,
        };
        let all = |from: [IpAddr; 3], policy: Policy, offered, expected| {
            for ip in from {
                assert_eq!(demand(&policy, ip, offered), expected, "{ip} {policy:?} {offered:?}");
            }
        };
        all(here, with(None, false), Some(Open), Ok(Open));
        all(here, with(None, false), Some(Token), Ok(Open));
        all(far, with(None, false), Some(Open), Err(Refusal::Unauthenticated));
        all(far, with(None, false), Some(Token), Err(Refusal::Unauthenticated));
        all(far, with(None, true), Some(Open), Ok(Open));
        for allow in [false, true] {
            for from in [here, far] {
                all(from, with(Some("t"), allow), Some(Open), Err(Refusal::Unauthenticated));
                all(from, with(Some("t"), allow), Some(Token), Ok(Token));
                all(from, with(Some("t"), allow), Some(Tls), Err(Refusal::NoTls));
                all(from, with(None, allow), Some(Tls), Err(Refusal::NoTls));
                all(from, with(None, allow), None, Err(Refusal::NotBarn));
            }
        }
    }

    #[test]
    fn a_code_cannot_be_sent_back_or_used_again() {
        let made = |token, label, client, node| -> [u8; 32] {
            code(token, label, &[client; 32], &[node; 32]).finalize().into_bytes().into()
        };
        let proof = made("secret", CLIENT, 1, 2);
        assert_ne!(proof, made("secret", NODE, 1, 2), "the client's code would do for the node's");
        assert_ne!(proof, made("secret", CLIENT, 1, 3), "an old proof would do for a new challenge");
        assert_ne!(proof, made("Secret", CLIENT, 1, 2));
        assert!(code("secret", CLIENT, &[1; 32], &[2; 32]).verify_slice(&proof).is_ok());
    }
}
