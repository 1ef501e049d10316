//! A value that verifies itself: a version word and a body, read without a lock.
//!
//! The smallest self-verifying structure, and the pattern of the larger ones. The owner makes
//! the version odd, changes the body, and makes it even again; a reader takes the body for
//! whole only if the version was even and the same before and after.
//!
//! Sound on every transport, for it needs only 8-byte atomicity and that the second version
//! READ begins after the body's has ended (`Guarantees::operations_in_order`): it does not
//! need lines to arrive whole. See reliability.md's first two hazards.

use super::{AccessError, Ordering, Words, fence};
use barn_layout::planted;

/// Bytes of the version word that stands before the body.
pub const VERSION_BYTES: u64 = 8;

/// Whether a version says that its body is being changed.
pub const fn is_locked(version: u64) -> bool {
    version & 1 == 1
}

/// Changes a versioned value. One writer at a time: the owner's own business.
pub fn publish(words: &Words, offset: u64, body: &[u8]) -> Result<u64, AccessError> {
    let version = words.load_word(offset, Ordering::Relaxed)?;
    let locked = version | 1;
    words.store_word(offset, locked, Ordering::Relaxed)?;
    // SYNC: pairs with the Acquire fence in `check`: whoever saw a word of the new body sees,
    // when it looks at the version again, that the version is locked or newer.
    if !planted("publish_without_release_fence") {
        fence(Ordering::Release);
    }
    words.store(offset + VERSION_BYTES, body)?;
    // SYNC: Release, pairs with the Acquire load in `begin`: whoever sees this version sees
    // the whole body.
    let order = if planted("publish_relaxed_version") { Ordering::Relaxed } else { Ordering::Release };
    words.store_word(offset, locked + 1, order)?;
    Ok(locked + 1)
}

/// Reads a versioned value where the memory is mapped: `None` if a writer was at it.
pub fn try_load(words: &Words, offset: u64, body: &mut [u8]) -> Result<Option<u64>, AccessError> {
    // SYNC: Acquire, pairs with the Release store of the version in `publish`.
    let order = if planted("load_relaxed_version") { Ordering::Relaxed } else { Ordering::Acquire };
    let before = words.load_word(offset, order)?;
    if is_locked(before) {
        return Ok(None);
    }
    words.load(offset + VERSION_BYTES, body)?;
    // SYNC: pairs with the Release fence in `publish`.
    if !planted("load_without_acquire_fence") {
        fence(Ordering::Acquire);
    }
    let after = words.load_word(offset, Ordering::Relaxed)?;
    Ok(accept(before, after))
}

/// The one decision: whether a body that was read between two versions is whole.
pub fn accept(before: u64, after: u64) -> Option<u64> {
    let same = before == after || planted("version_check_skipped");
    (same && !is_locked(before)).then_some(before)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn racing_readers_never_take_a_torn_body() {
        let words = Words::private(8 + 256);
        let rounds: u64 = if cfg!(miri) { 40 } else { 200_000 };
        publish(&words, 0, &[0; 256]).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 1..=rounds {
                    publish(&words, 0, &[round as u8; 256]).unwrap();
                }
            });
            let mut whole = 0u64;
            while !writer.is_finished() || whole == 0 {
                let mut body = [0; 256];
                if try_load(&words, 0, &mut body).unwrap().is_some() {
                    whole += 1;
                    assert!(body.iter().all(|byte| *byte == body[0]), "a torn body was accepted");
                }
            }
        });
    }

    /// Every pattern of old and new words, in the shim that reliability.md asks for: each
    /// word of a READ of version, body, version is taken from any moment of a publish.
    #[test]
    fn no_torn_pattern_is_accepted() {
        // The states of (version, a, b) that a publish goes through, word by word.
        let states = [[2, 10, 10], [3, 10, 10], [3, 11, 10], [3, 11, 11], [4, 11, 11]];
        let (mut accepted, mut torn) = (0, 0);
        let at = |moment: usize, word: usize| states[moment][word];
        for first in 0..5 {
            for a in 0..5 {
                for b in 0..5 {
                    for last in 0..5 {
                        // The version is read before the body and again after it; the two body
                        // words come in any order between.
                        if first > a.min(b) || last < a.max(b) {
                            continue;
                        }
                        let (body_a, body_b) = (at(a, 1), at(b, 2));
                        torn += u32::from(body_a != body_b);
                        if accept(at(first, 0), at(last, 0)).is_some() {
                            accepted += 1;
                            assert_eq!(body_a, body_b, "accepted a torn body: {first} {a} {b} {last}");
                        }
                    }
                }
            }
        }
        assert!(accepted > 0 && torn > 0, "the shim showed nothing");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Every interleaving and every allowed reordering of a writer and a reader, once with either
    /// of them as the thread that goes first. Loom looks for other orders only at the last access
    /// to a word; the writer looks at the version before it changes it, and so hides from loom a
    /// reader that came before: with the reader first, no version but the first is ever seen.
    fn race(publishes: u8) {
        for reader_first in [false, true] {
            loom::model(move || {
                let words = Words::private(24);
                let write = {
                    let words = words.clone();
                    move || {
                        for body in 1..=publishes {
                            publish(&words, 0, &[body; 16]).unwrap();
                        }
                    }
                };
                let read = move || {
                    let mut body = [9; 16];
                    if let Some(version) = try_load(&words, 0, &mut body).unwrap() {
                        assert_eq!(body, [(version / 2) as u8; 16], "a torn or stale body was accepted");
                    }
                };
                if reader_first {
                    let writer = loom::thread::spawn(write);
                    read();
                    writer.join().unwrap();
                } else {
                    let reader = loom::thread::spawn(read);
                    write();
                    reader.join().unwrap();
                }
            });
        }
    }

    #[test]
    fn loom_readers_never_take_a_torn_body() {
        race(1);
    }

    /// A second publish must not be mistaken for the first.
    #[test]
    fn loom_two_publishes_are_told_apart() {
        race(2);
    }
}
