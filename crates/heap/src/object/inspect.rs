//! Judges the bytes of one READ: an object, whole, or why not.

use super::{HEADER_BYTES, Header, checksum};
use barn_layout::object::{LockMode, ObjectHeader, VersionWord};
use barn_layout::{Address, planted};
use zerocopy::FromBytes;

#[cfg(not(loom))]
pub use barn_fabric::Confirmation;

/// Loom knows no transports: what one would say of a READ.
#[cfg(loom)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The first word was read before the others, and held this after them.
    Again(u64),
    /// The words came in any order.
    Unordered,
}

/// What a READ turned out to have brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// One version of the object, whole: its bytes are those after the header.
    Whole(View),
    /// It is being changed, or about to be there: read again.
    Locked,
    /// Words of different versions: read again.
    Torn,
    /// There is no object, or another than the one asked for.
    Freed,
    /// The object has more bytes than were read: read that many.
    Longer {
        /// The object's length, if no word is torn.
        bytes: usize,
    },
}

/// A whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Its version, without lock mode.
    pub version: u64,
    /// Its incarnation.
    pub incarnation: u32,
    /// Its length.
    pub bytes: usize,
    /// Whether a transaction is about to change it.
    pub prepared: bool,
}

/// Judges `bytes`, header and body as one READ at `address` brought them; there may be more of
/// them than the object has. `incarnation` is that of the pointer followed, if there was one.
#[inline(always)]
pub fn inspect(address: Address, incarnation: Option<u32>, bytes: &[u8], confirmation: Confirmation) -> Seen {
    let Ok((raw, body)) = ObjectHeader::read_from_prefix(bytes) else {
        return Seen::Longer { bytes: 0 };
    };
    let meta = raw.incarnation.get() as u64 | (raw.length.get() as u64) << 32;
    let header = Header::from_words(raw.version.get(), meta);
    // One word, so true of some moment of the READ whatever became of the others.
    if !header.allocated || is_other(incarnation, header.incarnation) {
        return vacant(&header, incarnation);
    }
    if header.word.mode() == LockMode::Exclusive {
        return Seen::Locked;
    }
    if let Confirmation::Again(after) = confirmation {
        let after = VersionWord(after);
        if after.version() != header.word.version() {
            return Seen::Torn;
        }
        if after.mode() == LockMode::Exclusive {
            return Seen::Locked;
        }
    }
    let Some(body) = body.get(..header.bytes) else {
        return Seen::Longer { bytes: header.bytes };
    };
    if confirmation == Confirmation::Unordered
        && checksum(address, header.word.version(), meta, body) != raw.checksum.get()
    {
        return Seen::Torn;
    }
    Seen::Whole(View {
        version: header.word.version(),
        incarnation: header.incarnation,
        bytes: header.bytes,
        prepared: header.word.mode() == LockMode::Prepared,
    })
}

/// What a place says that has no object of this incarnation.
#[cold]
fn vacant(header: &Header, incarnation: Option<u32>) -> Seen {
    match header.coming && !is_other(incarnation, header.incarnation) {
        true => Seen::Locked,
        false => Seen::Freed,
    }
}

#[inline]
fn is_other(wanted: Option<u32>, found: u32) -> bool {
    wanted.is_some_and(|wanted| wanted != found) && !planted("incarnation_ignored")
}

/// How many bytes a READ of an object of `bytes` takes: whole words, which are copied fastest.
#[inline]
pub const fn read_bytes(bytes: usize) -> usize {
    HEADER_BYTES + bytes.next_multiple_of(8)
}
