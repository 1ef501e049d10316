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

#[cfg(not(loom))]
pub(crate) mod assembly;
#[cfg(not(loom))]
pub(crate) mod backlog;
#[cfg(not(loom))]
pub(crate) mod mail;
#[cfg(all(any(feature = "verbs", test), not(loom)))]
pub(crate) mod repeated;
pub mod request_region;
pub mod ring;

use crate::region::{AccessError, Words};
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};
use barn_layout::message::{ARRIVAL_BYTES, LINE_PAYLOAD_BYTES, MessageHeader};
use barn_layout::planted;

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

/// Words of a line that carry a message: the header's and the body's first.
const LINE_WORDS: usize = LINE_PAYLOAD_BYTES / WORD_BYTES;
const HEADER_WORDS: usize = MessageHeader::BYTES / WORD_BYTES;
/// Bytes of a body that stand beside the header in the first line.
pub(crate) const FIRST_BYTES: usize = LINE_PAYLOAD_BYTES - MessageHeader::BYTES;

/// Stores the header and up to [`FIRST_BYTES`] of the body at `at`.
///
/// By words that are put together in registers: bytes that were stored in parts would be slow
/// to load again for a wider copy, and this is on the way of every small message.
#[inline]
fn store_first(words: &Words, at: u64, header: [u64; HEADER_WORDS], first: &[u8]) -> Result<(), AccessError> {
    let mut line = [0; LINE_WORDS];
    line[..HEADER_WORDS].copy_from_slice(&header);
    // Most bodies fill the line, or are longer: their words are as many as the compiler knows.
    if let Some(full) = first.first_chunk::<FIRST_BYTES>() {
        for (word, bytes) in line[HEADER_WORDS..].iter_mut().zip(full.as_chunks::<WORD_BYTES>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        return words.store_words(at, &line);
    }
    let (whole, rest) = first.as_chunks::<WORD_BYTES>();
    for (word, bytes) in line[HEADER_WORDS..].iter_mut().zip(whole) {
        *word = u64::from_le_bytes(*bytes);
    }
    if !rest.is_empty() {
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        line[HEADER_WORDS + whole.len()] = u64::from_le_bytes(last);
    }
    words.store_words(at, &line)
}

/// Loads what [`store_first`] stored: the header, and the body's bytes onto the end of `into`.
#[inline]
fn load_first(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let mut line = [0; LINE_WORDS];
    words.load_words(at, &mut line)?;
    let mut first = [0; FIRST_BYTES];
    for (bytes, word) in first.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(&line[HEADER_WORDS..]) {
        *bytes = word.to_le_bytes();
    }
    // All of it, and what is too much is given back: a copy whose length is known needs no call.
    let end = into.len() + bytes.min(FIRST_BYTES);
    into.extend_from_slice(&first);
    into.truncate(end);
    Ok(MessageHeader::from_words([line[0], line[1], line[2]]))
}

/// Stores a header and a body in the lines from `at` on, leaving the first word of the first line
/// for the arrival word and clearing that of every other.
#[inline]
fn store_lines(words: &Words, at: u64, header: [u64; HEADER_WORDS], body: &[u8]) -> Result<(), AccessError> {
    if body.len() <= FIRST_BYTES {
        return store_first(words, at + ARRIVAL_BYTES as u64, header, body);
    }
    let (first, rest) = body.split_at(FIRST_BYTES);
    for (index, part) in rest.chunks(LINE_PAYLOAD_BYTES).enumerate() {
        // In registers, as in `store_first`: a line that was put together in memory would be loaded
        // again only when that memory is in the cache, behind the line before, which the reader has.
        let mut line = [0; LINE_BYTES / WORD_BYTES];
        let (whole, last) = part.as_chunks::<WORD_BYTES>();
        for (word, bytes) in line[1..].iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        if !last.is_empty() {
            let mut bytes = [0; WORD_BYTES];
            bytes[..last.len()].copy_from_slice(last);
            line[1 + whole.len()] = u64::from_le_bytes(bytes);
        }
        if planted("ring_line_not_cleared") {
            line[0] = line[1];
        }
        words.store_words(at + ((index + 1) * LINE_BYTES) as u64, &line)?;
    }
    // The first line last, together with the arrival word: the reader polls it, and would take it
    // away while the others are being written.
    store_first(words, at + ARRIVAL_BYTES as u64, header, first)
}

/// Copies a message of `bytes` bytes out of the lines from `at` on: the header, and the body onto
/// the end of `into`.
#[inline]
fn load_lines(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let body_bytes = bytes.checked_sub(MessageHeader::BYTES).ok_or(Corrupt)?;
    let header = load_first(words, at + ARRIVAL_BYTES as u64, body_bytes.min(FIRST_BYTES), into)?;
    if body_bytes <= FIRST_BYTES {
        return Ok(header);
    }
    let (start, rest) = (into.len(), body_bytes - FIRST_BYTES);
    into.resize(start + rest.next_multiple_of(LINE_PAYLOAD_BYTES), 0);
    let mut line_at = at + LINE_BYTES as u64;
    for part in into[start..].chunks_exact_mut(LINE_PAYLOAD_BYTES) {
        let mut line = [0; LINE_WORDS];
        words.load_words(line_at + ARRIVAL_BYTES as u64, &mut line)?;
        // Word by word, so that the lines are on their way from the writer's cache all at once.
        for (bytes, word) in part.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(line) {
            *bytes = word.to_le_bytes();
        }
        line_at += LINE_BYTES as u64;
    }
    into.truncate(start + rest);
    Ok(header)
}

/// Stores a header and a body, which the caller has found room for, one after the other at `at`.
fn store_message(words: &Words, at: u64, header: &MessageHeader, body: &[u8]) -> Result<(), AccessError> {
    let (first, rest) = body.split_at(body.len().min(FIRST_BYTES));
    store_first(words, at, header.to_words(), first)?;
    let rest_at = at + LINE_PAYLOAD_BYTES as u64;
    let (whole, last) = rest.split_at(rest.len() / WORD_BYTES * WORD_BYTES);
    words.store(rest_at, whole)?;
    if !last.is_empty() {
        let mut word = [0; WORD_BYTES];
        word[..last.len()].copy_from_slice(last);
        words.store(rest_at + whole.len() as u64, &word)?;
    }
    Ok(())
}

/// Copies a message of `bytes` bytes out of `at`: the header, and the body onto the end of `into`.
fn load_message(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let body_bytes = bytes.checked_sub(MessageHeader::BYTES).ok_or(Corrupt)?;
    let first = body_bytes.min(FIRST_BYTES);
    let header = load_first(words, at, first, into)?;
    let rest = body_bytes - first;
    if rest > 0 {
        let start = into.len();
        into.resize(start + rest.next_multiple_of(WORD_BYTES), 0);
        words.load(at + LINE_PAYLOAD_BYTES as u64, &mut into[start..])?;
        into.truncate(start + rest);
    }
    Ok(header)
}
