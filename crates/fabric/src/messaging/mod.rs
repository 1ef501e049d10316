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
use barn_layout::message::{
    ARRIVAL_BYTES, BRIEF_BODY_BYTES_MAX, BRIEF_HEADER_BYTES, LINE_PAYLOAD_BYTES, MessageHeader,
};
use barn_layout::planted;
use zerocopy::IntoBytes;

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
/// Bytes of a body that stand beside a whole header in the first line.
const FIRST_BYTES: usize = LINE_PAYLOAD_BYTES - MessageHeader::BYTES;

/// Puts bytes that are fewer than `WORDS` words into words, the last of which is filled up with zeros; the words
/// behind them are left alone. Without a call and without bytes that are stored in parts and loaded whole: that is
/// slow, and this is on the way of every small message.
#[inline(always)]
fn fill<const WORDS: usize>(into: &mut [u64; WORDS], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (at, word) in into.iter_mut().enumerate() {
        let Some(bytes) = whole.get(at) else { break };
        *word = u64::from_le_bytes(*bytes);
    }
    if rest.is_empty() {
        return;
    }
    if let Some(word) = into.get_mut(whole.len()) {
        *word = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last) >> (8 * (WORD_BYTES - rest.len())),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
    }
}

/// Bytes as words, of which they are so many.
#[inline(always)]
fn words_of<const WORDS: usize, const BYTES: usize>(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    const { assert!(WORDS * WORD_BYTES == BYTES) };
    let mut words = [0; WORDS];
    words.as_mut_bytes().copy_from_slice(bytes);
    little_endian(words)
}

/// Words whose bytes are in memory as on the wire, or the other way round. A loop, for which the compiler leaves
/// nothing on most machines, as it does not for `map`.
#[inline(always)]
fn little_endian<const WORDS: usize>(mut words: [u64; WORDS]) -> [u64; WORDS] {
    let mut at = 0;
    while at < WORDS {
        words[at] = words[at].to_le();
        at += 1;
    }
    words
}

/// Adds the first bytes of some words to the end of `into`. All of them, and what is too much is given back: a copy
/// whose length is known needs no call.
#[inline(always)]
fn add_words<const WORDS: usize>(into: &mut Vec<u8>, words: [u64; WORDS], bytes: usize) {
    let end = into.len() + bytes.min(WORDS * WORD_BYTES);
    into.extend_from_slice(little_endian(words).as_bytes());
    into.truncate(end);
}

/// Stores the header and up to [`FIRST_BYTES`] of the body at `at`.
///
/// By words that are put together in registers: bytes that were stored in parts would be slow
/// to load again for a wider copy, and this is on the way of every small message.
#[inline(always)]
fn store_first(words: &Words, at: u64, header: [u64; HEADER_WORDS], first: &[u8]) -> Result<(), AccessError> {
    let body = match first.first_chunk::<FIRST_BYTES>() {
        // Most bodies fill the line, or are longer.
        Some(full) => words_of(full),
        None => {
            let mut body = [0; FIRST_BYTES / WORD_BYTES];
            fill(&mut body, first);
            body
        }
    };
    let [id, lengths, what] = header;
    let [a, b, c, d] = body;
    words.store_words(at, &[id, lengths, what, a, b, c, d])
}

/// Loads what [`store_first`] stored: the header, and the body's bytes onto the end of `into`.
#[inline(always)]
fn load_first(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let mut line = [0; LINE_WORDS];
    words.load_words(at, &mut line)?;
    let [id, lengths, what, body @ ..] = line;
    add_words(into, body, bytes);
    Ok(MessageHeader::from_words([id, lengths, what]))
}

/// Stores a header and a body in the lines from `at` on, leaving the first word of the first line
/// for the arrival word and clearing that of every other.
#[inline]
fn store_lines(words: &Words, at: u64, header: [u64; HEADER_WORDS], body: &[u8]) -> Result<(), AccessError> {
    let (first, rest) = body.split_at(body.len().min(FIRST_BYTES));
    if !rest.is_empty() {
        store_rest(words, at + LINE_BYTES as u64, rest)?;
    }
    // The first line last, together with the arrival word: the reader polls it, and would take it
    // away while the others are being written.
    store_first(words, at + ARRIVAL_BYTES as u64, header, first)
}

/// Stores what does not fit the first line in those from `line_at` on.
#[inline(never)]
fn store_rest(words: &Words, mut line_at: u64, rest: &[u8]) -> Result<(), AccessError> {
    let (full, last) = rest.as_chunks::<LINE_PAYLOAD_BYTES>();
    for part in full {
        store_line(words, line_at, words_of(part))?;
        line_at += LINE_BYTES as u64;
    }
    if !last.is_empty() {
        let mut line = [0; LINE_WORDS];
        fill(&mut line, last);
        store_line(words, line_at, line)?;
    }
    Ok(())
}

/// Stores a line of a message that is not its first.
///
/// From registers, as in [`store_first`]: a line that was put together in memory would be loaded
/// again only when that memory is in the cache, behind the line before, which the reader has.
#[inline(always)]
fn store_line(words: &Words, at: u64, payload: [u64; LINE_WORDS]) -> Result<(), AccessError> {
    let [a, b, c, d, e, f, g] = payload;
    let arrival = if planted("ring_line_not_cleared") { a } else { 0 };
    words.store_words(at, &[arrival, a, b, c, d, e, f, g])
}

/// Copies a message of `bytes` bytes out of the lines from `at` on: the header, and the body onto
/// the end of `into`.
#[inline]
fn load_lines(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let body_bytes = bytes.checked_sub(MessageHeader::BYTES).ok_or(Corrupt)?;
    let header = load_first(words, at + ARRIVAL_BYTES as u64, body_bytes, into)?;
    if body_bytes > FIRST_BYTES {
        load_rest(words, at + LINE_BYTES as u64, body_bytes - FIRST_BYTES, into)?;
    }
    Ok(header)
}

/// Copies the last `left` bytes of a message out of the lines from `line_at` on, onto the end of `into`.
#[inline(never)]
fn load_rest(words: &Words, mut line_at: u64, mut left: usize, into: &mut Vec<u8>) -> Result<(), Corrupt> {
    while left > 0 {
        // Word by word, so that the lines are on their way from the writer's cache all at once.
        let mut line = [0; LINE_WORDS];
        words.load_words(line_at + ARRIVAL_BYTES as u64, &mut line)?;
        add_words(into, line, left);
        left = left.saturating_sub(LINE_PAYLOAD_BYTES);
        line_at += LINE_BYTES as u64;
    }
    Ok(())
}

/// Stores a brief reply in the line at `at`, whose first word is left for the arrival word.
#[inline(always)]
fn store_brief(words: &Words, at: u64, id: u64, body: &[u8]) -> Result<(), AccessError> {
    let body = match body.first_chunk::<BRIEF_BODY_BYTES_MAX>() {
        Some(full) => words_of(full),
        None => {
            let mut words = [0; BRIEF_BODY_BYTES_MAX / WORD_BYTES];
            fill(&mut words, body);
            words
        }
    };
    let [a, b, c, d, e, f] = body;
    words.store_words(at + ARRIVAL_BYTES as u64, &[id, a, b, c, d, e, f])
}

/// Copies a brief reply of `bytes` bytes out of the line at `at`: the header that it stands for, and the body onto
/// the end of `into`.
#[inline(always)]
fn load_brief(words: &Words, at: u64, bytes: usize, into: &mut Vec<u8>) -> Result<MessageHeader, Corrupt> {
    let body_bytes = bytes.checked_sub(BRIEF_HEADER_BYTES).ok_or(Corrupt)?;
    if body_bytes > BRIEF_BODY_BYTES_MAX {
        return Err(Corrupt);
    }
    let mut line = [0; LINE_WORDS];
    words.load_words(at + ARRIVAL_BYTES as u64, &mut line)?;
    let [id, body @ ..] = line;
    add_words(into, body, body_bytes);
    Ok(MessageHeader::of_brief(id, body_bytes))
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
