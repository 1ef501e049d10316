//! Frames on a stream (the tcp transport).
//!
//! Every frame is a [`FrameHeader`] and then `body_bytes` bytes. The one-sided frames are what
//! a NIC would execute; `Request`, `Reply` and `OneWay` carry the RPC layer.

use crate::limits::{MESSAGE_BYTES_MAX, OPERATION_BYTES_MAX};
use crate::shared::shared_struct;
use zerocopy::little_endian::{U16, U32, U64};

shared_struct! {
    /// The start of every frame.
    pub struct FrameHeader: 16 {
        /// Bytes of the body that follows.
        0 => pub body_bytes: U32,
        /// A [`FrameKind`].
        4 => pub kind: u8,
        /// A status: of the RPC layer in a `Reply`, an [`Outcome`] in a `Done`, else 0.
        5 => pub status: u8,
        /// The method of a `Request`, else 0.
        6 => pub method: U16,
        /// The operation's id, chosen by the asker; the answer carries it back.
        8 => pub id: U64,
    }
}

shared_struct! {
    /// The body of a `Read`; the body of its `Done` is the bytes.
    pub struct ReadBody: 24 {
        /// The grant's key.
        0 => pub key: U64,
        /// Where in the region.
        8 => pub offset: U64,
        /// How many bytes.
        16 => pub bytes: U32,
        /// Zero.
        20 => pub reserved: U32,
    }
}

shared_struct! {
    /// The start of a `Write`'s body; the bytes follow. The body of its `Done` is empty.
    pub struct WriteBody: 16 {
        /// The grant's key.
        0 => pub key: U64,
        /// Where in the region.
        8 => pub offset: U64,
    }
}

shared_struct! {
    /// The body of a `CompareSwap` or a `FetchAdd`; the body of its `Done` is the word's
    /// previous value, 8 bytes.
    pub struct AtomicBody: 32 {
        /// The grant's key.
        0 => pub key: U64,
        /// Where in the region: a multiple of 8.
        8 => pub offset: U64,
        /// The value to add, or the value that is expected.
        16 => pub operand: U64,
        /// The value to store if the expected one was there; 0 in a `FetchAdd`.
        24 => pub replacement: U64,
    }
}

shared_struct! {
    /// The body of an `Open`: asks for a grant on a region.
    pub struct OpenBody: 8 {
        /// The region's number.
        0 => pub region: U32,
        /// The rights that are asked for; the grant may not be less.
        4 => pub rights: U32,
    }
}

shared_struct! {
    /// The body of an `Opened` whose status is done.
    pub struct OpenedBody: 24 {
        /// The grant's key, which only this connection may use.
        0 => pub key: U64,
        /// Bytes of the region.
        8 => pub bytes: U64,
        /// The rights that were granted.
        16 => pub rights: U32,
        /// Zero.
        20 => pub reserved: U32,
    }
}

shared_struct! {
    /// Follows the body of an `Opened` on a connection that has queue pairs: where its device
    /// finds the region.
    pub struct MemoryBody: 16 {
        /// The address of the region's first byte, at the node.
        0 => pub address: U64,
        /// The key of its registration, which only this connection's queue pairs may use.
        8 => pub key: U32,
        /// Zero.
        12 => pub reserved: U32,
    }
}

shared_struct! {
    /// The body of an `Attach` and of its `Attached`: one end's queue pairs and message memory.
    pub struct QueuePairsBody: 80 {
        /// The end's GID.
        0 => pub gid: [u8; 16],
        /// The queue pair of one-sided operations...
        16 => pub operations_pair: U32,
        /// ...and the number of its first packet.
        20 => pub operations_packet: U32,
        /// The queue pair of messages...
        24 => pub messages_pair: U32,
        /// ...and the number of its first packet.
        28 => pub messages_packet: U32,
        /// The queue pair of requests that may be lost (UC); 0 without a window...
        32 => pub requests_pair: U32,
        /// ...and the number of its first packet.
        36 => pub requests_packet: U32,
        /// The queue pair of datagrams (UD); 0 without a window...
        40 => pub datagrams_pair: U32,
        /// ...and its key.
        44 => pub datagrams_key: U32,
        /// The memory that the other end writes messages to: its address...
        48 => pub memory_address: U64,
        /// ...and its key.
        56 => pub memory_key: U32,
        /// Bytes of each ring: a power of two.
        60 => pub ring_bytes: U32,
        /// Slots of the request region; 0 if it is not used.
        64 => pub window: U32,
        /// The LID, on InfiniBand.
        68 => pub lid: U16,
        /// The path MTU: 1 is 256 bytes, each step doubles it, 5 is 4096.
        70 => pub mtu: u8,
        /// READs and atomics that may be on their way at a time.
        71 => pub reads: u8,
        /// Zero.
        72 => pub reserved: U64,
    }
}

shared_struct! {
    /// The body of a `Renew` and of its `Renewed`: a new queue pair of one-sided operations.
    pub struct RenewBody: 8 {
        /// Its number.
        0 => pub operations_pair: U32,
        /// The number of its first packet.
        4 => pub operations_packet: U32,
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Asks for a grant.
    Open = 1,
    /// Answers an `Open`.
    Opened = 2,
    /// Reads registered memory.
    Read = 3,
    /// Writes registered memory.
    Write = 4,
    /// Compares and swaps a word of registered memory.
    CompareSwap = 5,
    /// Adds to a word of registered memory.
    FetchAdd = 6,
    /// Answers any of the four one-sided operations.
    Done = 7,
    /// A request to the service.
    Request = 8,
    /// The service's answer.
    Reply = 9,
    /// A message that expects no answer, either way.
    OneWay = 10,
    /// Are you there? Answered by `Pong` with the same id.
    Ping = 11,
    /// Yes.
    Pong = 12,
    /// The last frame before an orderly close.
    Goodbye = 13,
    /// Gives a grant back: the id is its key. Not answered.
    Close = 14,
    /// A part of what a long `Read` gives; more parts and then its `Done` follow. The `Done`
    /// decides: if the grant ended meanwhile, the parts are worth nothing.
    Piece = 15,
    /// Asks for queue pairs: this stream becomes the control path of a verbs connection.
    Attach = 16,
    /// Answers an `Attach`.
    Attached = 17,
    /// Asks for a new queue pair of one-sided operations, in place of one that failed.
    Renew = 18,
    /// Answers a `Renew`.
    Renewed = 19,
}

impl FrameKind {
    /// The kind that a byte means, if any.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Open,
            2 => Self::Opened,
            3 => Self::Read,
            4 => Self::Write,
            5 => Self::CompareSwap,
            6 => Self::FetchAdd,
            7 => Self::Done,
            8 => Self::Request,
            9 => Self::Reply,
            10 => Self::OneWay,
            11 => Self::Ping,
            12 => Self::Pong,
            13 => Self::Goodbye,
            14 => Self::Close,
            15 => Self::Piece,
            16 => Self::Attach,
            17 => Self::Attached,
            18 => Self::Renew,
            19 => Self::Renewed,
            _ => return None,
        })
    }

    /// The longest body that a frame of this kind may have, and the shortest.
    pub const fn body_bounds(self) -> (usize, usize) {
        match self {
            Self::Open => (OpenBody::BYTES, OpenBody::BYTES),
            Self::Opened => (0, OpenedBody::BYTES + MemoryBody::BYTES),
            Self::Attach => (QueuePairsBody::BYTES, QueuePairsBody::BYTES),
            Self::Attached => (0, QueuePairsBody::BYTES),
            Self::Renew => (RenewBody::BYTES, RenewBody::BYTES),
            Self::Renewed => (0, RenewBody::BYTES),
            Self::Read => (ReadBody::BYTES, ReadBody::BYTES),
            Self::Write => (WriteBody::BYTES, WriteBody::BYTES + OPERATION_BYTES_MAX),
            Self::CompareSwap | Self::FetchAdd => (AtomicBody::BYTES, AtomicBody::BYTES),
            Self::Done => (0, OPERATION_BYTES_MAX),
            Self::Piece => (1, OPERATION_BYTES_MAX),
            Self::Request | Self::Reply | Self::OneWay => (0, MESSAGE_BYTES_MAX),
            Self::Ping | Self::Pong | Self::Goodbye | Self::Close => (0, 0),
        }
    }
}

/// How a one-sided operation or an `Open` went, on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Done.
    Done = 0,
    /// The key names no grant of this connection.
    BadKey = 1,
    /// The grant was revoked.
    Revoked = 2,
    /// The grant lacks the right.
    NoRight = 3,
    /// The range leaves the region.
    OutOfBounds = 4,
    /// An atomic's offset is no multiple of 8.
    Misaligned = 5,
    /// There is no such region.
    NoSuchRegion = 6,
    /// The operation is longer than [`OPERATION_BYTES_MAX`].
    TooLong = 7,
    /// The peer holds as many grants as it may.
    TooManyRegions = 8,
    /// The node has no descriptor left to hand over.
    NoDescriptor = 9,
    /// The node offers no queue pairs on this connection.
    NoVerbs = 10,
    /// The node's device has no room, or the node may not pin so much memory.
    NoRoom = 11,
}

impl Outcome {
    /// The outcome that a byte means, if any.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Done,
            1 => Self::BadKey,
            2 => Self::Revoked,
            3 => Self::NoRight,
            4 => Self::OutOfBounds,
            5 => Self::Misaligned,
            6 => Self::NoSuchRegion,
            7 => Self::TooLong,
            8 => Self::TooManyRegions,
            9 => Self::NoDescriptor,
            10 => Self::NoVerbs,
            11 => Self::NoRoom,
            _ => return None,
        })
    }
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The kind byte means nothing.
    UnknownKind(u8),
    /// The body's length is out of the kind's bounds.
    BodyLength {
        /// The kind.
        kind: FrameKind,
        /// The length that was claimed.
        bytes: usize,
    },
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownKind(bits) => {
                write!(f, "unknown frame kind {bits}: the peer speaks another protocol or version")
            }
            Self::BodyLength { kind, bytes } => {
                write!(f, "a {kind:?} frame cannot have a body of {bytes} bytes")
            }
        }
    }
}

impl core::error::Error for FrameError {}

/// A header that has been checked: its kind is known and its length within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: FrameKind,
    /// The status byte, unchecked.
    pub status: u8,
    /// The method.
    pub method: u16,
    /// The id.
    pub id: u64,
    /// Bytes of the body.
    pub body_bytes: usize,
}

impl Frame {
    /// Checks a header as it came.
    pub fn check(header: &FrameHeader) -> Result<Self, FrameError> {
        let kind = FrameKind::from_bits(header.kind).ok_or(FrameError::UnknownKind(header.kind))?;
        let body_bytes = header.body_bytes.get() as usize;
        let (least, most) = kind.body_bounds();
        if !(least..=most).contains(&body_bytes) {
            return Err(FrameError::BodyLength { kind, bytes: body_bytes });
        }
        Ok(Self { kind, status: header.status, method: header.method.get(), id: header.id.get(), body_bytes })
    }

    /// The header to send.
    pub fn header(&self) -> FrameHeader {
        FrameHeader {
            body_bytes: (self.body_bytes as u32).into(),
            kind: self.kind as u8,
            status: self.status,
            method: self.method.into(),
            id: self.id.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_goes_there_and_back() {
        for bits in 0..=255u8 {
            let Some(kind) = FrameKind::from_bits(bits) else { continue };
            assert_eq!(kind as u8, bits);
            let (least, most) = kind.body_bounds();
            for body_bytes in [least, most] {
                let frame = Frame { kind, status: 3, method: 7, id: 1 << 40, body_bytes };
                assert_eq!(Frame::check(&frame.header()), Ok(frame));
            }
            let long = Frame { kind, status: 0, method: 0, id: 0, body_bytes: most + 1 };
            assert!(Frame::check(&long.header()).is_err(), "{kind:?} takes too long a body");
        }
    }

    #[test]
    fn an_unknown_kind_is_an_error() {
        let mut header = Frame { kind: FrameKind::Ping, status: 0, method: 0, id: 0, body_bytes: 0 }.header();
        header.kind = 200;
        assert_eq!(Frame::check(&header), Err(FrameError::UnknownKind(200)));
    }
}
