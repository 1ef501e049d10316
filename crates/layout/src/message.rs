//! Messages in shared memory: FaRM's circular buffer and HERD's request region.
//!
//! Both begin a message with one 64-bit *arrival word*, stored last, that says how long the
//! message is and which one it is; the receiver polls that word. After it comes the header of
//! the RPC layer, then the body. A request of up to 32 bytes fits one cache line whole.
//!
//! Most replies say nothing in their header but whose they are: they were done, and are here whole. In a ring
//! such a reply is *brief*: the arrival word says so, and all of its header is the id. So a reply of up to 48
//! bytes is one line, and with it the answer to a get of a value of up to 32.
//!
//! In a ring every line starts with such a word: the first line of a message with its arrival
//! word, the others with zero. So payload never stands where the receiver looks for a message,
//! and nothing need be cleared when a ring goes round.

use crate::limits::LINE_BYTES;
use crate::shared::shared_struct;
use zerocopy::little_endian::{U16, U32, U64};

/// What the arrival word says: the length of what follows and the message's number.
///
/// The number runs from 1 and skips 0, so that zeroed memory never looks like a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes that follow the word, with [`Arrival::BRIEF`] if they are of that form; or [`Arrival::WRAP`].
    pub bytes: u32,
    /// The message's number in its channel.
    pub number: u32,
}

impl Arrival {
    /// A length that means: nothing here, go on at the start of the ring.
    pub const WRAP: u32 = u32::MAX;
    /// Added to the length of a brief reply.
    pub const BRIEF: u32 = 1 << 31;

    /// The word as stored.
    pub const fn to_bits(self) -> u64 {
        ((self.number as u64) << 32) | self.bytes as u64
    }

    /// What a stored word says. Any bits have a meaning; the receiver checks it.
    pub const fn from_bits(bits: u64) -> Self {
        Self { bytes: bits as u32, number: (bits >> 32) as u32 }
    }

    /// The number after `number`: 0 is never used.
    pub const fn next(number: u32) -> u32 {
        if number == u32::MAX { 1 } else { number + 1 }
    }
}

/// Bytes of the arrival word.
pub const ARRIVAL_BYTES: usize = 8;

shared_struct! {
    /// The RPC layer's header, the same on ring, request region and datagram.
    pub struct MessageHeader: 24 {
        /// The request's id, chosen by the caller; a reply carries it back.
        0 => pub id: U64,
        /// Bytes of the whole body, of which this message may carry a piece.
        8 => pub total_bytes: U32,
        /// Where this piece starts in the whole body.
        12 => pub piece_offset: U32,
        /// What is asked for: a number that the service gives meaning to.
        16 => pub method: U16,
        /// A [`Kind`].
        18 => pub kind: u8,
        /// A [`Status`]; 0 in requests.
        19 => pub status: u8,
        /// Zero; room for a later version.
        20 => pub reserved: U32,
    }
}

impl MessageHeader {
    /// The header as the words that are stored. Put together by arithmetic: a word that was
    /// stored in parts is slow to load whole again.
    #[inline]
    pub fn to_words(&self) -> [u64; 3] {
        [
            self.id.get(),
            u64::from(self.total_bytes.get()) | u64::from(self.piece_offset.get()) << 32,
            u64::from(self.method.get())
                | u64::from(self.kind) << 16
                | u64::from(self.status) << 24
                | u64::from(self.reserved.get()) << 32,
        ]
    }

    /// The header that stored words mean.
    #[inline]
    pub fn from_words(words: [u64; 3]) -> Self {
        Self {
            id: words[0].into(),
            total_bytes: (words[1] as u32).into(),
            piece_offset: ((words[1] >> 32) as u32).into(),
            method: (words[2] as u16).into(),
            kind: (words[2] >> 16) as u8,
            status: (words[2] >> 24) as u8,
            reserved: ((words[2] >> 32) as u32).into(),
        }
    }
}

/// Bytes of a brief reply's header, which is its id.
pub const BRIEF_HEADER_BYTES: usize = 8;

/// The longest body of a brief reply: one line.
pub const BRIEF_BODY_BYTES_MAX: usize = LINE_PAYLOAD_BYTES - BRIEF_HEADER_BYTES;

impl MessageHeader {
    /// Whether a message with a header of these words, and so much of its body, can be a brief reply: one that was
    /// done, whole, and short enough for a line.
    #[inline]
    pub const fn is_brief([_, lengths, what]: [u64; 3], body_bytes: usize) -> bool {
        // The piece's offset stands above the length: it is 0. So are the method, the status and what is reserved.
        body_bytes <= BRIEF_BODY_BYTES_MAX
            && lengths == body_bytes as u64
            && what == (Kind::Reply as u64) << 16 | (Status::Done as u64) << 24
    }

    /// The header that a brief reply stands for.
    #[inline]
    pub fn of_brief(id: u64, body_bytes: usize) -> Self {
        Self {
            id: id.into(),
            total_bytes: (body_bytes as u32).into(),
            piece_offset: 0.into(),
            method: 0.into(),
            kind: Kind::Reply as u8,
            status: Status::Done as u8,
            reserved: 0.into(),
        }
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request, which will be answered.
    Request = 1,
    /// The answer to a request.
    Reply = 2,
    /// A message that expects no answer.
    OneWay = 3,
    /// The sender gave up a message of which it has sent some pieces: forget them.
    Abandoned = 4,
}

impl Kind {
    /// The kind that a byte means, if any.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            1 => Some(Self::Request),
            2 => Some(Self::Reply),
            3 => Some(Self::OneWay),
            4 => Some(Self::Abandoned),
            _ => None,
        }
    }
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// It was done; the body is the service's answer.
    Done = 0,
    /// The service does not know the method.
    UnknownMethod = 1,
    /// The service refused; the body says why, in words.
    Refused = 2,
    /// The node has no room for it now; nothing was done.
    Busy = 3,
}

impl Status {
    /// The status that a byte means, if any.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Done),
            1 => Some(Self::UnknownMethod),
            2 => Some(Self::Refused),
            3 => Some(Self::Busy),
            _ => None,
        }
    }
}

/// Bytes of each line of a ring that carry a message: its first word is never payload.
pub const LINE_PAYLOAD_BYTES: usize = LINE_BYTES - ARRIVAL_BYTES;

/// Bytes that a message of so many bytes takes in a ring, in whole lines.
#[inline]
pub const fn cell_bytes(message_bytes: usize) -> usize {
    // Most are: and a division is not free.
    if message_bytes <= LINE_PAYLOAD_BYTES {
        return LINE_BYTES;
    }
    message_bytes.div_ceil(LINE_PAYLOAD_BYTES) * LINE_BYTES
}

/// The longest body that still makes a one-line message.
pub const ONE_LINE_BODY_BYTES: usize = LINE_BYTES - ARRIVAL_BYTES - MessageHeader::BYTES;

const _: () = assert!(ONE_LINE_BODY_BYTES == 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_memory_is_no_message() {
        assert_eq!(Arrival::from_bits(0).number, 0);
        assert_eq!(Arrival::next(u32::MAX), 1);
        let arrival = Arrival { bytes: 77, number: 9 };
        assert_eq!(Arrival::from_bits(arrival.to_bits()), arrival);
    }

    #[test]
    fn a_headers_words_are_its_bytes() {
        use zerocopy::{FromBytes, IntoBytes};
        let bytes: Vec<u8> = (1..=24).collect();
        let header = MessageHeader::read_from_bytes(&bytes).unwrap();
        let words: Vec<u8> = header.to_words().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(words, bytes);
        assert_eq!(MessageHeader::from_words(header.to_words()).as_bytes(), bytes);
    }

    #[test]
    fn a_brief_reply_stands_for_its_header() {
        for bytes in [0, 1, BRIEF_BODY_BYTES_MAX] {
            let brief = MessageHeader::of_brief(7, bytes);
            assert!(MessageHeader::is_brief(brief.to_words(), bytes));
            let others = [
                MessageHeader { total_bytes: (bytes as u32 + 1).into(), ..brief },
                MessageHeader { piece_offset: 1.into(), ..brief },
                MessageHeader { method: 1.into(), ..brief },
                MessageHeader { kind: Kind::OneWay as u8, ..brief },
                MessageHeader { status: Status::Refused as u8, ..brief },
                MessageHeader { reserved: 1.into(), ..brief },
            ];
            for other in others {
                assert!(!MessageHeader::is_brief(other.to_words(), bytes), "{other:?}");
            }
        }
        let long = BRIEF_BODY_BYTES_MAX + 1;
        assert!(!MessageHeader::is_brief(MessageHeader::of_brief(7, long).to_words(), long));
    }

    #[test]
    fn a_small_request_is_one_line() {
        assert_eq!(cell_bytes(MessageHeader::BYTES + 32), LINE_BYTES);
        assert_eq!(cell_bytes(MessageHeader::BYTES + 33), 2 * LINE_BYTES);
    }
}
