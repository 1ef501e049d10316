//! Messages in shared memory, two ways, one RPC on top.
//!
//! - [`ring`]: FaRM's circular buffer (its section 3.1 and Figure 1): messages of any length, in
//!   order, flow-controlled by a head that is reported lazily.
//! - [`request_region`]: HERD's request region (its section 4.2): a slot for each outstanding
//!   request and a slot for its reply; no flow control but the window.
//!
//! Both are plain protocols over [`Words`](crate::region::Words), written by one side and read by
//! the other, so that loom can check them and verbs can carry them. Every number that comes from
//! the other side is checked before it is used.

pub mod request_region;
pub mod ring;

use crate::region::{AccessError, Words};
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};
use barn_layout::message::{ARRIVAL_BYTES, LINE_PAYLOAD_BYTES, MessageHeader};
use zerocopy::{FromBytes, IntoBytes};

/// What the other side wrote is not of the protocol's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the peer wrote garbage into its messages")
    }
}

impl std::error::Error for Corrupt {}

impl From<AccessError> for Corrupt {
    fn from(_: AccessError) -> Self {
        Self
    }
}

const HEADER_WORDS: usize = MessageHeader::BYTES / WORD_BYTES;

/// Bytes that a small message is put together in: one line without its arrival word.
const SMALL_BYTES: usize = 56;

/// Stores a header and a body in the lines from `at` on, leaving the first word of the first line
/// for the arrival word and clearing that of every other.
fn store_lines(words: &Words, at: u64, header: &MessageHeader, body: &[u8]) -> Result<(), AccessError> {
    let first = body.len().min(LINE_PAYLOAD_BYTES - MessageHeader::BYTES);
    let mut line = [0; LINE_BYTES];
    line[ARRIVAL_BYTES..ARRIVAL_BYTES + MessageHeader::BYTES].copy_from_slice(header.as_bytes());
    line[ARRIVAL_BYTES + MessageHeader::BYTES..][..first].copy_from_slice(&body[..first]);
    words.store(at + ARRIVAL_BYTES as u64, &line[ARRIVAL_BYTES..])?;
    let mut line_at = at + LINE_BYTES as u64;
    for part in body[first..].chunks(LINE_PAYLOAD_BYTES) {
        #[cfg(not(barn_plant = "ring_line_not_cleared"))]
        line[..ARRIVAL_BYTES].fill(0);
        #[cfg(barn_plant = "ring_line_not_cleared")]
        {
            let first = ARRIVAL_BYTES.min(part.len());
            line[..first].copy_from_slice(&part[..first]);
        }
        line[ARRIVAL_BYTES..ARRIVAL_BYTES + part.len()].copy_from_slice(part);
        words.store(line_at, &line)?;
        line_at += LINE_BYTES as u64;
    }
    Ok(())
}

/// Copies a message of `bytes` bytes out of the lines from `at` on: the header, and the body onto
/// the end of `into`.
fn load_lines(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let body_bytes = bytes.checked_sub(MessageHeader::BYTES).ok_or(Corrupt)?;
    let mut line = [0; LINE_PAYLOAD_BYTES];
    words.load(at + ARRIVAL_BYTES as u64, &mut line)?;
    let (header, first) = MessageHeader::read_from_prefix(&line).map_err(|_| Corrupt)?;
    let now = body_bytes.min(first.len());
    into.extend_from_slice(&first[..now]);
    let (mut left, mut line_at) = (body_bytes - now, at + LINE_BYTES as u64);
    while left > 0 {
        words.load(line_at + ARRIVAL_BYTES as u64, &mut line)?;
        let now = left.min(LINE_PAYLOAD_BYTES);
        into.extend_from_slice(&line[..now]);
        left -= now;
        line_at += LINE_BYTES as u64;
    }
    Ok(header)
}

/// Stores a header and a body, which the caller has found room for, at `at`.
fn store_message(words: &Words, at: u64, header: &MessageHeader, body: &[u8]) -> Result<(), AccessError> {
    if MessageHeader::BYTES + body.len() <= SMALL_BYTES {
        // One copy for the whole line.
        let mut line = [0; SMALL_BYTES];
        line[..MessageHeader::BYTES].copy_from_slice(header.as_bytes());
        line[MessageHeader::BYTES..MessageHeader::BYTES + body.len()].copy_from_slice(body);
        let bytes = (MessageHeader::BYTES + body.len()).next_multiple_of(WORD_BYTES);
        return words.store(at, &line[..bytes]);
    }
    words.store(at, header.as_bytes())?;
    let body_at = at + MessageHeader::BYTES as u64;
    let whole = body.len() / WORD_BYTES * WORD_BYTES;
    words.store(body_at, &body[..whole])?;
    if whole < body.len() {
        let mut last = [0; WORD_BYTES];
        last[..body.len() - whole].copy_from_slice(&body[whole..]);
        words.store(body_at + whole as u64, &last)?;
    }
    Ok(())
}

/// Copies a message of `bytes` bytes out of `at`: the header, and the body onto the end of `into`.
fn load_message(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let body_bytes = bytes.checked_sub(MessageHeader::BYTES).ok_or(Corrupt)?;
    if bytes <= SMALL_BYTES {
        let mut line = [0; SMALL_BYTES];
        words.load(at, &mut line[..bytes.next_multiple_of(WORD_BYTES)])?;
        into.extend_from_slice(&line[MessageHeader::BYTES..bytes]);
        let (header, _) = MessageHeader::read_from_prefix(&line).map_err(|_| Corrupt)?;
        return Ok(header);
    }
    let mut header = [0; HEADER_WORDS * WORD_BYTES];
    words.load(at, &mut header)?;
    let start = into.len();
    let padded = body_bytes.next_multiple_of(WORD_BYTES);
    into.resize(start + padded, 0);
    words.load(at + MessageHeader::BYTES as u64, &mut into[start..])?;
    into.truncate(start + body_bytes);
    MessageHeader::read_from_bytes(&header).map_err(|_| Corrupt)
}
