//! The packets that open a connection, on shm and on tcp.
//!
//! shm: over a Unix `SOCK_SEQPACKET` socket; every packet below is one datagram, some with
//! file descriptors beside it. tcp: the same idea with a challenge, so that a token can be
//! proved without being sent and a stream can be wrapped in TLS before anything else is said.

use crate::shared::shared_struct;
use zerocopy::little_endian::{U16, U32, U64};

/// Starts every handshake: "BARN" and a version of the packets' form, as bytes in order.
pub const MAGIC: [u8; 8] = *b"BARN\0\0\0\x01";

/// The protocol's version: a peer with another one is refused, and told both numbers.
///
/// 2: replies of one line have a shorter header ([`crate::message::Arrival::BRIEF`]), and the answers of
/// tables are shorter ([`crate::table::TableAnswer`]).
pub const VERSION: u16 = 2;

shared_struct! {
    /// The client's first packet on a shm socket.
    pub struct ShmHello: 24 {
        /// [`MAGIC`].
        0 => pub magic: [u8; 8],
        /// [`VERSION`].
        8 => pub version: U16,
        /// Zero.
        10 => pub reserved: U16,
        /// Bytes of each ring that the client would like; 0 for the node's default.
        12 => pub ring_bytes: U32,
        /// Slots of the request region that the client would like; 0 for none.
        16 => pub window: U32,
        /// Zero.
        20 => pub reserved_1: U32,
    }
}

shared_struct! {
    /// The node's answer on a shm socket. With status 0 four descriptors come beside it: the
    /// inbound half, the outbound half, the node page, and the client's end of the doorbell.
    pub struct ShmWelcome: 40 {
        /// [`MAGIC`].
        0 => pub magic: [u8; 8],
        /// The node's [`VERSION`].
        8 => pub version: U16,
        /// A [`Refusal`], or 0.
        10 => pub status: U16,
        /// Bytes of each ring.
        12 => pub ring_bytes: U32,
        /// Slots of the request region.
        16 => pub window: U32,
        /// Zero.
        20 => pub reserved: U32,
        /// The number that the node gave this peer.
        24 => pub peer: U64,
        /// The node's own number.
        32 => pub node: U64,
    }
}

shared_struct! {
    /// A client's control packet on a shm socket: asks for a region. The same form as on tcp.
    pub struct ShmOpen: 16 {
        /// The request's id.
        0 => pub id: U64,
        /// The region's number.
        8 => pub region: U32,
        /// The rights that are asked for.
        12 => pub rights: U32,
    }
}

shared_struct! {
    /// The node's answer to a [`ShmOpen`]; with outcome 0 the region's descriptor comes
    /// beside it.
    pub struct ShmOpened: 32 {
        /// The request's id.
        0 => pub id: U64,
        /// Bytes of the region.
        8 => pub bytes: U64,
        /// The grant's place in the grants table.
        16 => pub slot: U32,
        /// The rights that were granted.
        20 => pub rights: U32,
        /// An [`crate::frame::Outcome`].
        24 => pub outcome: U32,
        /// Zero.
        28 => pub reserved: U32,
    }
}

shared_struct! {
    /// The client's first bytes on a tcp stream.
    pub struct TcpHello: 48 {
        /// [`MAGIC`].
        0 => pub magic: [u8; 8],
        /// [`VERSION`].
        8 => pub version: U16,
        /// An [`Authentication`] that the client is ready for.
        10 => pub authentication: U16,
        /// Zero.
        12 => pub reserved: U32,
        /// The client's part of the challenge: 32 unpredictable bytes.
        16 => pub nonce: [u8; 32],
    }
}

shared_struct! {
    /// The node's first bytes on a tcp stream.
    pub struct TcpChallenge: 48 {
        /// [`MAGIC`].
        0 => pub magic: [u8; 8],
        /// The node's [`VERSION`].
        8 => pub version: U16,
        /// The [`Authentication`] that the node demands.
        10 => pub authentication: U16,
        /// A [`Refusal`], or 0; after a refusal nothing follows.
        12 => pub status: U16,
        /// Zero.
        14 => pub reserved: U16,
        /// The node's part of the challenge: 32 unpredictable bytes.
        16 => pub nonce: [u8; 32],
    }
}

shared_struct! {
    /// The client's proof: HMAC-SHA256 under the token over "client", both nonces.
    /// Sent, as zeros, with `Authentication::Open` too, so that there is one form.
    pub struct TcpProof: 32 {
        /// The code.
        0 => pub code: [u8; 32],
    }
}

shared_struct! {
    /// The node's last handshake bytes: it proves that it knows the token, too.
    pub struct TcpWelcome: 64 {
        /// A [`Refusal`], or 0.
        0 => pub status: U16,
        /// Zero.
        2 => pub reserved: U16,
        /// Zero.
        4 => pub reserved_1: U32,
        /// The number that the node gave this peer.
        8 => pub peer: U64,
        /// The node's own number.
        16 => pub node: U64,
        /// Zero.
        24 => pub reserved_2: U64,
        /// HMAC-SHA256 under the token over "node", both nonces.
        32 => pub code: [u8; 32],
    }
}

/// How a tcp peer shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Authentication {
    /// Nothing is shown: loopback, or a node started with `--allow-unauthenticated`.
    Open = 0,
    /// A shared token, proved by a keyed code.
    Token = 1,
    /// A client certificate, under TLS.
    Tls = 2,
}

impl Authentication {
    /// The way that a number means, if any.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        match bits {
            0 => Some(Self::Open),
            1 => Some(Self::Token),
            2 => Some(Self::Tls),
            _ => None,
        }
    }
}

/// Why a node refuses a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Refusal {
    /// The first bytes are not Barn's.
    NotBarn = 1,
    /// The versions differ.
    Version = 2,
    /// The peer's user may not connect.
    Credentials = 3,
    /// The node has [`crate::limits::PEERS_MAX`] peers.
    TooManyPeers = 4,
    /// The ring or window that was asked for is out of bounds.
    Shape = 5,
    /// A remote peer must authenticate.
    Unauthenticated = 6,
    /// The token is wrong.
    BadToken = 7,
    /// The node has no memory for another channel.
    NoMemory = 8,
    /// TLS is reserved in the handshake and not offered yet.
    NoTls = 9,
}

impl Refusal {
    /// The refusal that a number means, if any.
    pub const fn from_bits(bits: u16) -> Option<Self> {
        Some(match bits {
            1 => Self::NotBarn,
            2 => Self::Version,
            3 => Self::Credentials,
            4 => Self::TooManyPeers,
            5 => Self::Shape,
            6 => Self::Unauthenticated,
            7 => Self::BadToken,
            8 => Self::NoMemory,
            9 => Self::NoTls,
            _ => return None,
        })
    }
}
