//! The circular log, as its owner sees it: where it begins, where it ends, what is next to be forgotten.
//!
//! From `tail` to `head` there is entry after entry. Where an entry did not fit a chunk's rest, a word 0
//! stands in the place of its position, and the next entry begins the next chunk.

use super::entry::{self, Header};
use super::space::{Position, Space};
use super::storage::Storage;

/// The ends of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    head: Position,
    tail: Position,
}

/// An entry that is about to be appended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// Where it begins.
    pub(super) start: Position,
    /// Where it ends.
    end: Position,
}

impl Log {
    /// An empty log. The first lap is 1, so that no position is 0.
    pub(super) fn new() -> Self {
        Self::from_lap(1)
    }

    /// An empty log whose next lap is `lap`.
    pub(super) fn from_lap(lap: u64) -> Self {
        let start = Position { lap, offset: 0 };
        Self { head: start, tail: start }
    }

    /// Where an entry of `words` will be; `None` if the log is shorter than that.
    pub(super) fn place(&self, space: &Space, words: u64) -> Option<Placed> {
        let start = (words <= space.log_words()).then(|| space.place(self.head, words))?;
        Some(Placed { start, end: space.forward(start, words) })
    }

    /// Takes out the oldest entry, if it is in the way of what is to be placed.
    pub(super) fn forget(&mut self, storage: &Storage, placed: Placed) -> Option<(Position, Header)> {
        let space = &storage.space;
        while self.tail != self.head && space.overwrites(placed.end, self.tail) {
            let (at, header) = (self.tail, self.oldest(storage));
            match header {
                Some(header) => {
                    self.tail = space.forward(at, header.words());
                    return Some((at, header));
                }
                None => self.tail = space.forward(at, space.together(at)),
            }
        }
        None
    }

    /// The oldest entry; `None` if the log goes on in the next chunk, or is empty.
    pub(super) fn oldest(&self, storage: &Storage) -> Option<Header> {
        let mut words = [0; 3];
        storage.load_words(self.tail.offset, &mut words[..1])?;
        if words[0] == 0 || self.tail == self.head {
            return None;
        }
        storage.load_words(self.tail.offset, &mut words)?;
        Some(Header::from_words(words))
    }

    /// Where the oldest entry is.
    pub(super) fn tail(&self) -> Position {
        self.tail
    }

    /// Appends an entry that was placed, once all that is in its way was forgotten.
    pub(super) fn append(&mut self, storage: &Storage, placed: Placed, bytes: &[u8]) -> Option<()> {
        debug_assert!(bytes.len() >= entry::HEADER_BYTES);
        if self.tail == self.head {
            self.tail = placed.start;
        } else if placed.start != self.head {
            storage.store(self.head.offset, &0u64.to_le_bytes())?;
        }
        storage.store(placed.start.offset, bytes)?;
        self.head = placed.end;
        Some(())
    }
}
