//! How the owner changes an object while strangers read it (FaRM section 3.4, for words).
//!
//! The version word says "exclusive" before any other word changes and takes the new version after
//! all have. Of the others the second goes last: if the owner dies in between, a place that says it
//! holds an object has all of its bytes, or is locked with an object that was there before.

use super::{
    HEADER_BYTES, PREFIX_BYTES, checksum, checksum_behind, meta_allocated, meta_coming, meta_vacant,
};
use barn_fabric::region::{AccessError, Ordering, Words, fence};
use barn_layout::limits::WORD_BYTES;
use barn_layout::object::{LockMode, VersionWord};
use barn_layout::{Address, planted};

/// Where the second word, incarnation and length, is.
const META_AT: u64 = 8;
/// Where the checksum is.
const CHECKSUM_AT: u64 = 16;

/// The header of an object's next version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    version: u64,
    meta: u64,
    sum: u64,
}

impl Head {
    /// That of an object with this body.
    #[inline]
    fn of(address: Address, version: u64, incarnation: u32, body: &[u8]) -> Self {
        let meta = meta_allocated(incarnation, body.len());
        Self { version, meta, sum: checksum(address, version, meta, body) }
    }

    /// The same of a body that has room for the checksum's prefix before it.
    #[inline]
    pub(crate) fn behind_prefix(address: Address, version: u64, incarnation: u32, bytes: &mut [u8]) -> Self {
        let meta = meta_allocated(incarnation, bytes.len().saturating_sub(PREFIX_BYTES));
        Self { version, meta, sum: checksum_behind(address, version, meta, bytes) }
    }

    /// Its words, once the object is open.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn words(&self) -> [u64; HEADER_BYTES / WORD_BYTES] {
        [VersionWord::new(self.version, LockMode::Free).0, self.meta, self.sum]
    }
}

/// Puts `body` at `address` as the version after `version`; gives that.
#[inline]
pub(crate) fn put(
    words: &Words,
    address: Address,
    version: u64,
    incarnation: u32,
    body: &[u8],
) -> Result<u64, AccessError> {
    let head = Head::of(address, version + 1, incarnation, body);
    put_headed(words, address, &head, body)?;
    Ok(head.version)
}

/// The same, with a header that was made of this body.
#[inline]
pub(crate) fn put_headed(
    words: &Words,
    address: Address,
    head: &Head,
    body: &[u8],
) -> Result<(), AccessError> {
    put_with(words, address, head, |at| store_body(words, at, body))
}

/// Puts an object's next version at `address`, of which only these parts, whole words each at its place
/// in the body, differ from what is there.
#[inline]
pub(crate) fn put_parts(
    words: &Words,
    address: Address,
    head: &Head,
    parts: [(u64, &[u8]); 2],
) -> Result<(), AccessError> {
    put_with(words, address, head, |at| {
        parts.iter().try_for_each(|(place, bytes)| words.store(at + place, bytes))
    })
}

/// Closes the object, stores the rest, and opens it as its next version.
#[inline]
fn put_with(
    words: &Words,
    address: Address,
    head: &Head,
    store: impl FnOnce(u64) -> Result<(), AccessError>,
) -> Result<(), AccessError> {
    let at = address.offset() as u64;
    close(words, at, head.version - 1)?;
    words.store_word(at + CHECKSUM_AT, head.sum, Ordering::Relaxed)?;
    store(at + HEADER_BYTES as u64)?;
    words.store_word(at + META_AT, head.meta, Ordering::Relaxed)?;
    open(words, at, head.version)
}

/// Makes the place hold no object: version and incarnation are from now on these.
#[inline]
pub(crate) fn vacate(words: &Words, at: u64, version: u64, incarnation: u32) -> Result<(), AccessError> {
    close(words, at, version.wrapping_sub(1))?;
    words.store_word(at + META_AT, meta_vacant(incarnation), Ordering::Relaxed)?;
    open(words, at, version)
}

/// Makes a vacant place say whether an object is coming there.
pub(crate) fn announce(words: &Words, at: u64, incarnation: u32, coming: bool) -> Result<(), AccessError> {
    let meta = if coming { meta_coming(incarnation) } else { meta_vacant(incarnation) };
    // SYNC: Release, pairs with the Acquire that comes before whoever has the pointer reads here: it was handed over
    // after this.
    words.store_word(at + META_AT, meta, Ordering::Release)
}

/// Before the first word changes.
#[inline]
fn close(words: &Words, at: u64, version: u64) -> Result<(), AccessError> {
    let closed = VersionWord::new(version, LockMode::Exclusive);
    words.store_word(at, closed.0, Ordering::Relaxed)?;
    // SYNC: Release, pairs with the Acquire fence of a READ with confirmation: whoever saw a new
    // word sees, when it looks at the version again, that it is closed or newer.
    if !planted("object_publish_without_fence") {
        fence(Ordering::Release);
    }
    Ok(())
}

/// After the last word has changed.
#[inline]
fn open(words: &Words, at: u64, version: u64) -> Result<(), AccessError> {
    let opened = VersionWord::new(version, LockMode::Free);
    // SYNC: Release, pairs with the Acquire load that starts a READ with confirmation: whoever
    // sees this version sees all of its bytes.
    let order = if planted("object_publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
    words.store_word(at, opened.0, order)
}

/// Stores a body in whole words: the slot has them, and a partial one costs a compare-exchange.
#[inline]
fn store_body(words: &Words, at: u64, body: &[u8]) -> Result<(), AccessError> {
    let (whole, tail) = body.split_at(body.len() - body.len() % WORD_BYTES);
    words.store(at, whole)?;
    if !tail.is_empty() {
        let mut word = [0; WORD_BYTES];
        word[..tail.len()].copy_from_slice(tail);
        words.store_word(at + whole.len() as u64, u64::from_le_bytes(word), Ordering::Relaxed)?;
    }
    Ok(())
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::{Confirmation, Seen, inspect};
    use super::*;
    use barn_layout::RegionId;

    const AT: Address = Address::new(RegionId(1), 0);
    const BODY: usize = 8;

    /// A READ with confirmation of mapped memory, as the fabric carries it out.
    fn read(words: &Words) -> Seen {
        let mut bytes = [0; HEADER_BYTES + BODY];
        // SYNC: Acquire, pairs with `open`.
        let before = words.load_word(0, Ordering::Acquire).unwrap();
        bytes[..8].copy_from_slice(&before.to_le_bytes());
        words.load(8, &mut bytes[8..]).unwrap();
        // SYNC: Acquire, pairs with `close`.
        fence(Ordering::Acquire);
        let after = words.load_word(0, Ordering::Relaxed).unwrap();
        let seen = inspect(AT, Some(0), &bytes, Confirmation::Again(after));
        if let Seen::Whole(view) = seen {
            assert_eq!(
                bytes[HEADER_BYTES..],
                [view.version as u8; BODY],
                "a torn or stale body was accepted"
            );
        }
        seen
    }

    /// Every interleaving and reordering of `change` and a reader, from version `version` on, with
    /// either as the thread that goes first: loom looks for other orders only at the last access
    /// to a word.
    fn race(version: u64, change: fn(&Words)) {
        for reader_first in [false, true] {
            loom::model(move || {
                let words = Words::private(HEADER_BYTES + BODY);
                for version in 0..version {
                    put(&words, AT, version, 0, &[version as u8 + 1; BODY]).unwrap();
                }
                let (writers, readers) = (words.clone(), words);
                if reader_first {
                    let writer = loom::thread::spawn(move || change(&writers));
                    read(&readers);
                    writer.join().unwrap();
                } else {
                    let reader = loom::thread::spawn(move || {
                        read(&readers);
                    });
                    change(&writers);
                    reader.join().unwrap();
                }
            });
        }
    }

    #[test]
    fn loom_a_new_object_is_seen_whole() {
        race(0, |words| assert_eq!(put(words, AT, 0, 0, &[1; BODY]), Ok(1)));
    }

    #[test]
    fn loom_two_versions_are_told_apart() {
        race(1, |words| assert_eq!(put(words, AT, 1, 0, &[2; BODY]), Ok(2)));
    }

    /// Only what differs is stored.
    #[test]
    fn loom_a_version_put_in_parts_is_told_apart() {
        race(1, |words| {
            let mut bytes = [2; PREFIX_BYTES + BODY];
            let head = Head::behind_prefix(AT, 2, 0, &mut bytes);
            put_parts(words, AT, &head, [(0, &[2; BODY]), (BODY as u64, &[])]).unwrap();
        });
    }

    /// The place is freed and used again: the pointer's incarnation is gone.
    #[test]
    fn loom_a_freed_object_is_not_seen() {
        race(1, |words| {
            vacate(words, 0, 2, 1).unwrap();
            put(words, AT, 2, 1, &[0xff; BODY]).unwrap();
        });
    }
}
