//! FaRM's circular buffer: one writer, one reader, in the reader's or in shared memory.
//!
//! The reader polls the *arrival word* where the next message will start; the writer stores it
//! last. FaRM's reader zeroes what it has consumed so that old bytes are never taken for a
//! message. Here the first word of every line is kept for arrival words (zero in the lines that
//! go on with a message), and each message has its own number: what an earlier lap left where
//! the reader looks is another number or zero, never payload. So neither side clears anything,
//! the reader never writes to the ring (a client maps the node's read-only), and a small message
//! is one line that crosses between the caches once.
//!
//! What always holds:
//! - messages start at multiples of a line and never straddle the end of the ring;
//! - the first word of a line is an arrival word or zero, never payload;
//! - a word with the number that the reader waits for is not there until that message is whole;
//! - the writer never touches a line that the reader has not reported as consumed;
//! - the reader reports after it has copied a message out, and only when half of the ring has
//!   been consumed since the last report: so a message may take a quarter of the ring, and one
//!   that fits an empty ring is never stuck (proved at [`piece_bytes_max`]).

use super::{Corrupt, load_brief, load_lines, store_brief, store_lines};
use crate::region::{Ordering, Words};
use barn_layout::limits::LINE_BYTES;
use barn_layout::message::{Arrival, BRIEF_HEADER_BYTES, LINE_PAYLOAD_BYTES, MessageHeader, cell_bytes};
use barn_layout::planted;

/// The longest body that one message in a ring may have; longer ones go in pieces.
///
/// A message takes `cell <= ring / 4` bytes. At worst it does not fit before the end, so that
/// fewer than `cell` bytes are skipped: `2 * cell <= ring / 2`. The reader withholds less than
/// half of the ring, so the writer to a reader that has consumed everything always has room.
pub const fn piece_bytes_max(ring_bytes: usize) -> usize {
    ring_bytes / 4 / LINE_BYTES * LINE_PAYLOAD_BYTES - MessageHeader::BYTES
}

/// The ring is fetched so far before it is written.
const AHEAD_BYTES: u64 = 1 << 10;

/// There is no room now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Where a ring is: `bytes` from `base`.
#[derive(Clone, Debug)]
pub struct Place {
    /// The memory.
    pub words: Words,
    /// Where the ring starts in it.
    pub base: u64,
    /// How long the ring is.
    pub bytes: usize,
}

/// A word that one side writes and the other reads: how much has been consumed.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The memory.
    pub words: Words,
    /// Where the word is.
    pub at: u64,
}

/// The writing side.
#[derive(Debug)]
pub struct RingWriter {
    place: Place,
    consumed: Progress,
    /// Bytes written since the start...
    tail: u64,
    /// ...and where that is in the ring: kept, because a division costs as much as a cache hit.
    at: u64,
    /// Bytes consumed since the start, as last seen.
    head: u64,
    number: u32,
}

impl RingWriter {
    /// A writer to a ring of zeros.
    pub fn new(place: Place, consumed: Progress) -> Self {
        Self { place, consumed, tail: 0, at: 0, head: 0, number: 1 }
    }

    /// Whether `bytes` fit, after a look at what the reader has reported if need be.
    fn has_room(&mut self, bytes: u64) -> bool {
        let ring = self.place.bytes as u64;
        if self.tail + bytes - self.head <= ring {
            return true;
        }
        // SYNC: Acquire, pairs with the Release store in `RingReader::report`: the reader has
        // finished with what it reports before we write over it.
        let order = if planted("ring_room_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        if let Ok(reported) = self.consumed.words.load_word(self.consumed.at, order) {
            // A report that is not between what was known and what was written is garbage.
            if (self.head..=self.tail).contains(&reported) {
                self.head = reported;
            }
        }
        self.tail + bytes - self.head <= ring
    }

    /// Whether the reader has reported more than was known when a push last found no room.
    pub fn has_news(&self) -> bool {
        let reported = self.consumed.words.load_word(self.consumed.at, Ordering::Relaxed);
        reported.is_ok_and(|reported| reported != self.head)
    }

    /// How many bytes were written since the start, and the number of the next message.
    pub fn tail(&self) -> (u64, u32) {
        (self.tail, self.number)
    }

    /// Writes one message. `body` is at most [`piece_bytes_max`] long.
    #[inline]
    pub fn push(&mut self, header: &MessageHeader, body: &[u8]) -> Result<(), Full> {
        let [id, lengths, what] = header.to_words();
        self.push_words(id, lengths, what, body)
    }

    /// The same with the header in registers: one that was just stored field by field is loaded whole only when
    /// every store before it has reached the cache.
    pub(super) fn push_words(&mut self, id: u64, lengths: u64, what: u64, body: &[u8]) -> Result<(), Full> {
        debug_assert!(body.len() <= piece_bytes_max(self.place.bytes));
        let ring = self.place.bytes as u64;
        let is_brief = MessageHeader::is_brief([id, lengths, what], body.len());
        let header_bytes = if is_brief { BRIEF_HEADER_BYTES } else { MessageHeader::BYTES };
        let bytes = header_bytes + body.len();
        let cell = cell_bytes(bytes) as u64;
        let skip = if self.at + cell > ring { ring - self.at } else { 0 };
        if !self.has_room(skip + cell) {
            return Err(Full);
        }
        if skip > 0 {
            self.publish(Arrival::WRAP, skip);
        }
        let at = self.at;
        self.place.words.owns_to_write(self.place.base + at, cell as usize);
        // Offsets are in bounds by construction: the ring lies inside its memory.
        let (words, line_at) = (&self.place.words, self.place.base + at);
        let _ = match is_brief {
            true => store_brief(words, line_at, id, body),
            false => store_lines(words, line_at, [id, lengths, what], body),
        };
        self.publish(bytes as u32 | if is_brief { Arrival::BRIEF } else { 0 }, cell);
        // The reader had the next lines last, a lap ago. Having them back by the time they are written
        // keeps cache misses out of the way of the messages to come: far enough ahead for some of
        // them, since even the lock that is given back after a push waits until its lines are ours.
        let ahead = self.at + AHEAD_BYTES.min(ring / 4);
        let (mut at, end) = (ahead, ahead + cell.min(AHEAD_BYTES));
        while at < end {
            let line = if at >= ring { at - ring } else { at };
            self.place.words.prefetch_for_store(self.place.base + line);
            at += LINE_BYTES as u64;
        }
        Ok(())
    }

    /// Makes what stands at the tail a message.
    fn publish(&mut self, bytes: u32, advance: u64) {
        let arrival = Arrival { bytes, number: self.number };
        // SYNC: Release, pairs with the Acquire load in `RingReader::peek`: whoever sees the
        // arrival word sees the message.
        let order = if planted("ring_publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        let _ = self.place.words.store_word(self.place.base + self.at, arrival.to_bits(), order);
        self.tail += advance;
        self.at = wrapped(self.at + advance, self.place.bytes);
        self.number = Arrival::next(self.number);
    }
}

/// A place in the ring after a step that ends at its end or before.
#[inline]
fn wrapped(at: u64, ring_bytes: usize) -> u64 {
    if at == ring_bytes as u64 { 0 } else { at }
}

/// The reading side.
#[derive(Debug)]
pub struct RingReader {
    place: Place,
    consumed: Progress,
    /// Bytes consumed since the start...
    head: u64,
    /// ...and where that is in the ring.
    at: u64,
    reported: u64,
    number: u32,
}

impl RingReader {
    /// A reader of a ring of zeros.
    pub fn new(place: Place, consumed: Progress) -> Self {
        Self { place, consumed, head: 0, at: 0, reported: 0, number: 1 }
    }

    /// Whether the next message may be there.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.awaits(Arrival::from_bits(self.peek())) != Ok(false)
    }

    /// Whether an arrival word is that of the next message; an earlier one's, or zero, is not.
    #[inline]
    fn awaits(&self, arrival: Arrival) -> Result<bool, Corrupt> {
        // How far ahead of the expected number it is: 0 is it, and what an earlier lap left is
        // behind, by less than the messages that fit a ring.
        let ahead = arrival.number.wrapping_sub(self.number);
        match ahead {
            0 => Ok(true),
            _ if arrival.to_bits() == 0 || ahead > u32::MAX / 2 => Ok(false),
            _ => Err(Corrupt),
        }
    }

    #[inline]
    fn peek(&self) -> u64 {
        let at = self.next_at();
        // SYNC: Acquire, pairs with the Release store in `RingWriter::publish`.
        let order = if planted("ring_peek_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        self.place.words.load_word(at, order).unwrap_or(0)
    }

    /// Takes the next message, if there is one: its header, and its body onto the end of `into`.
    /// The bytes are copied before anything in them is looked at.
    pub fn pop(&mut self, into: &mut Vec<u8>) -> Result<Option<MessageHeader>, Corrupt> {
        let ring = self.place.bytes as u64;
        loop {
            let arrival = Arrival::from_bits(self.peek());
            if !self.awaits(arrival)? {
                return Ok(None);
            }
            let at = self.at;
            if arrival.bytes == Arrival::WRAP {
                if at == 0 {
                    return Err(Corrupt);
                }
                self.advance(ring - at);
                self.report_lazily();
                continue;
            }
            let is_brief = arrival.bytes & Arrival::BRIEF != 0;
            let bytes = (arrival.bytes & !Arrival::BRIEF) as usize;
            if bytes > MessageHeader::BYTES + piece_bytes_max(self.place.bytes) {
                return Err(Corrupt);
            }
            let cell = cell_bytes(bytes) as u64;
            if at + cell > ring {
                return Err(Corrupt);
            }
            if planted("ring_head_update_early") {
                self.reported = self.head + cell;
                // SYNC: Release, as in `report_lazily`; what is wrong here is when.
                let _ = self.consumed.words.store_word(self.consumed.at, self.reported, Ordering::Release);
            }
            self.place.words.owns_to_read(self.place.base + at, cell as usize);
            let (words, line_at) = (&self.place.words, self.place.base + at);
            let header = match is_brief {
                true => load_brief(words, line_at, bytes, into)?,
                false => load_lines(words, line_at, bytes, into)?,
            };
            self.advance(cell);
            self.report_lazily();
            return Ok(Some(header));
        }
    }

    fn advance(&mut self, bytes: u64) {
        self.head += bytes;
        self.at = wrapped(self.at + bytes, self.place.bytes);
        self.number = Arrival::next(self.number);
    }

    /// Tells the writer once half of the ring has been consumed since it was last told.
    fn report_lazily(&mut self) {
        if self.head - self.reported >= self.place.bytes as u64 / 2 {
            self.reported = self.head;
            // SYNC: Release, pairs with the Acquire load in `RingWriter::has_room`.
            let order = if planted("ring_report_relaxed") { Ordering::Relaxed } else { Ordering::Release };
            let _ = self.consumed.words.store_word(self.consumed.at, self.head, order);
        }
    }

    /// Where the next arrival word will be, in the ring's memory.
    #[inline]
    fn next_at(&self) -> u64 {
        self.place.base + self.at
    }

    /// Where the next arrival word will be, and its number.
    pub fn next(&self) -> (u64, u32) {
        (self.next_at(), self.number)
    }

    /// How often the writer has been told, in effect: changes when it is.
    pub fn reported(&self) -> u64 {
        self.reported
    }
}

#[cfg(test)]
pub(super) fn pair(ring_bytes: usize) -> (RingWriter, RingReader, Words) {
    let words = Words::private(ring_bytes + 64);
    let place = Place { words: words.clone(), base: 64, bytes: ring_bytes };
    let progress = Progress { words: words.clone(), at: 0 };
    (RingWriter::new(place.clone(), progress.clone()), RingReader::new(place, progress), words)
}

#[cfg(test)]
pub(super) fn header(id: u64) -> MessageHeader {
    MessageHeader {
        id: id.into(),
        total_bytes: 0.into(),
        piece_offset: 0.into(),
        method: 0.into(),
        kind: 1,
        status: 0,
        reserved: 0.into(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::seam::{Random, Seeded};
    use barn_layout::message::BRIEF_BODY_BYTES_MAX;

    #[test]
    fn messages_of_all_lengths_arrive_in_order() {
        for seed in 0..20 {
            let mut random = Seeded::new(seed);
            let ring_bytes = 4096 << random.below(3);
            let (mut writer, mut reader, _) = pair(ring_bytes);
            let most = piece_bytes_max(ring_bytes) as u64;
            let (mut sent, mut received) = (0u64, 0u64);
            let body_of = |id: u64| {
                let mut random = Seeded::new(id);
                let bytes = random.below(most + 1);
                (0..bytes).map(|i| (id + i) as u8).collect::<Vec<u8>>()
            };
            while received < 2_000 {
                if random.chance(500_000) {
                    if writer.push(&header(sent), &body_of(sent)).is_ok() {
                        sent += 1;
                    }
                } else {
                    let mut body = Vec::new();
                    if let Some(header) = reader.pop(&mut body).unwrap() {
                        assert_eq!(header.id.get(), received);
                        assert_eq!(body, body_of(received));
                        received += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn replies_of_one_line_arrive_as_they_were_sent() {
        let (mut writer, mut reader, _) = pair(4096);
        let mut random = Seeded::new(11);
        for id in 0..5_000u64 {
            let bytes = random.below(80) as usize;
            let body: Vec<u8> = (0..bytes).map(|at| at as u8 | 1).collect();
            // Now and then one that has more to say in its header.
            let sent = MessageHeader { status: (id % 3 / 2) as u8, ..MessageHeader::of_brief(id, bytes) };
            let (before, _) = writer.tail();
            writer.push(&sent, &body).unwrap();
            let lines = (writer.tail().0 - before) / LINE_BYTES as u64;
            if sent.status == 0 && reader.at + LINE_BYTES as u64 * 2 <= 4096 {
                assert_eq!(lines, 1 + u64::from(bytes > BRIEF_BODY_BYTES_MAX), "{bytes} bytes");
            }
            let mut taken = vec![9];
            assert_eq!(reader.pop(&mut taken), Ok(Some(sent)));
            assert_eq!(taken[1..], body, "it is added to what is there");
        }
    }

    #[test]
    fn a_brief_reply_of_another_length_is_corrupt() {
        for bytes in [0, 7, 57, 63, 64, 1 << 20, Arrival::WRAP & !Arrival::BRIEF] {
            let (mut writer, mut reader, words) = pair(4096);
            writer.push(&MessageHeader::of_brief(1, 4), b"body").unwrap();
            let forged = Arrival { bytes: bytes | Arrival::BRIEF, number: 1 };
            words.store_word(64, forged.to_bits(), Ordering::Relaxed).unwrap();
            let mut taken = Vec::new();
            assert_eq!(reader.pop(&mut taken), Err(Corrupt), "{bytes} bytes");
            assert!(taken.is_empty());
        }
    }

    #[test]
    fn the_longest_message_always_fits_a_drained_ring() {
        let (mut writer, mut reader, _) = pair(4096);
        let body = vec![7; piece_bytes_max(4096)];
        let mut taken = Vec::new();
        for id in 0..5_000u64 {
            // Small ones in between move the start to every line.
            for _ in 0..id % 3 {
                writer.push(&header(id), &[1; 8]).unwrap();
                taken.clear();
                reader.pop(&mut taken).unwrap().unwrap();
            }
            writer.push(&header(id), &body).expect("a drained ring had no room");
            taken.clear();
            reader.pop(&mut taken).unwrap().unwrap();
            assert_eq!(taken, body);
        }
    }

    #[test]
    fn payload_never_poses_as_a_message() {
        // Fill the ring with words that would be the arrival words of later laps.
        let (mut writer, mut reader, words) = pair(4096);
        let mut taken = Vec::new();
        for lap in 0..2_000u32 {
            // Of every length, so that later messages start where the middle of these was.
            let forged = |word: u32| Arrival { bytes: 24, number: writer.number + 1 + (word + lap) % 24 };
            let body: Vec<u8> =
                (0..5 + lap * 7 % 100).flat_map(|word| forged(word).to_bits().to_le_bytes()).collect();
            writer.push(&header(u64::from(lap)), &body).unwrap();
            taken.clear();
            assert_eq!(reader.pop(&mut taken).unwrap().unwrap().id.get(), u64::from(lap));
            taken.clear();
            assert_eq!(reader.pop(&mut taken), Ok(None), "lap {lap}: payload was taken for a message");
        }
        drop(words);
    }

    #[test]
    fn garbage_is_corrupt_and_never_a_panic() {
        let mut random = Seeded::new(5);
        for round in 0..20_000u64 {
            let (mut writer, mut reader, words) = pair(4096);
            for id in 0..round % 5 {
                writer.push(&header(id), &vec![1; random.below(400) as usize]).unwrap();
            }
            // A hostile writer scribbles anywhere in its ring.
            for _ in 0..1 + random.below(4) {
                let at = 64 + random.below(512) * 8;
                let value = match random.below(4) {
                    0 => random.next(),
                    1 => {
                        Arrival { bytes: random.next() as u32, number: 1 + random.below(6) as u32 }.to_bits()
                    }
                    2 => Arrival { bytes: Arrival::WRAP, number: 1 + random.below(6) as u32 }.to_bits(),
                    _ => random.below(64),
                };
                words.store_word(at, value, Ordering::Relaxed).unwrap();
            }
            let mut taken = Vec::new();
            for _ in 0..64 {
                taken.clear();
                match reader.pop(&mut taken) {
                    Ok(Some(_)) => assert!(taken.len() <= piece_bytes_max(4096)),
                    Ok(None) | Err(Corrupt) => break,
                }
            }
        }
    }

    #[test]
    fn a_lying_reader_cannot_make_the_writer_wrap_around() {
        let (mut writer, _reader, words) = pair(4096);
        for lie in [u64::MAX, 1 << 40, 8192] {
            while writer.push(&header(1), &[0; 100]).is_ok() {}
            words.store_word(0, lie, Ordering::Relaxed).unwrap();
            assert_eq!(writer.push(&header(1), &[0; 100]), Err(Full), "{lie} was believed");
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// The smallest ring that works: eight lines, of which a message takes one.
    const RING: usize = 512;

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        // Two preemptions find every known bug of this protocol; three take minutes.
        builder.preemption_bound = Some(2);
        builder.check(check);
    }

    /// A message that has arrived is whole, and what follows it is not yet one.
    #[test]
    fn loom_a_message_that_arrived_is_whole() {
        model(|| {
            let (mut writer, mut reader, _) = pair(RING);
            let sender = loom::thread::spawn(move || {
                writer.push(&header(1), &[1; 8]).unwrap();
                writer.push(&header(2), &[2; 8]).unwrap();
            });
            let mut expected = 1;
            for _ in 0..3 {
                let mut body = Vec::new();
                if let Some(header) = reader.pop(&mut body).unwrap() {
                    assert_eq!(header.id.get(), expected);
                    assert_eq!(body, [expected as u8; 8]);
                    expected += 1;
                }
            }
            sender.join().unwrap();
        });
    }

    /// The writer goes round: it must not touch what the reader has not finished with, and old
    /// bytes must not be taken for the next message.
    #[test]
    fn loom_a_full_ring_is_not_overwritten() {
        model(|| {
            let (mut writer, mut reader, _) = pair(RING);
            // Before the race: the reader has reported half a ring, and the writer has filled it
            // again, so that its next message goes where the one that is read next stands.
            let mut body = Vec::new();
            for id in 1..=12 {
                writer.push(&header(id), &[id as u8; 8]).unwrap();
                if id == 8 {
                    (1..=4).for_each(|_| assert!(reader.pop(&mut body).unwrap().is_some()));
                }
            }
            assert_eq!(writer.push(&header(13), &[]), Err(Full), "the ring is full");
            let sender = loom::thread::spawn(move || {
                let sent = writer.push(&header(13), &[13; 8]).is_ok();
                if sent { 13 } else { 12 }
            });
            let mut expected = 5;
            for _ in 5..=13 {
                body.clear();
                let Some(header) = reader.pop(&mut body).unwrap() else { break };
                assert_eq!(header.id.get(), expected);
                assert_eq!(body, [expected as u8; 8], "message {expected} was overwritten");
                expected += 1;
            }
            let sent = sender.join().unwrap();
            assert!(expected <= sent + 1);
        });
    }
}
