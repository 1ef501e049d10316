//! Readers against an owner that never rests, and every mix of words that a READ can bring.
//!
//! An accepted body always has the byte that belongs to its version and incarnation.

use super::publish::{put, vacate};
use super::{Confirmation, HEADER_BYTES, Seen, View, inspect, read_bytes};
use barn_fabric::Words;
use barn_fabric::region::{Ordering, fence};
use barn_fabric::seam::{Random, Seeded};
use barn_layout::object::{LockMode, VersionWord};
use barn_layout::{Address, RegionId};
use std::sync::Arc;

const AT: Address = Address::new(RegionId(3), 0);

/// The byte of which a version's body consists.
fn stamp(version: u64, incarnation: u32) -> u8 {
    (version as u8).wrapping_mul(7) ^ incarnation as u8
}

fn assert_whole(view: View, bytes: &[u8]) {
    let body = &bytes[HEADER_BYTES..HEADER_BYTES + view.bytes];
    let want = stamp(view.version, view.incarnation);
    assert!(body.iter().all(|byte| *byte == want), "a torn body was accepted: {view:?} {body:?}");
}

/// A READ of mapped memory, as the fabric carries it out.
fn read_in_order(words: &Words, bytes: &mut [u8]) -> Confirmation {
    // SYNC: Acquire, pairs with the Release store of the version in `publish`.
    let before = words.load_word(0, Ordering::Acquire).unwrap();
    bytes[..8].copy_from_slice(&before.to_le_bytes());
    words.load(8, &mut bytes[8..]).unwrap();
    // SYNC: Acquire, pairs with the Release fence in `publish`.
    fence(Ordering::Acquire);
    Confirmation::Again(words.load_word(0, Ordering::Relaxed).unwrap())
}

/// A READ whose words come in an order that chance decides.
fn read_in_any_order(words: &Words, bytes: &mut [u8], random: &mut Seeded) -> Confirmation {
    let count = bytes.len() / 8;
    let (start, step) = (random.below(count as u64) as usize, [1, 3, 5, 7][random.below(4) as usize]);
    for index in 0..count {
        let word = (start + index * step) % count;
        let value = words.load_word(word as u64 * 8, Ordering::Relaxed).unwrap();
        bytes[word * 8..word * 8 + 8].copy_from_slice(&value.to_le_bytes());
    }
    Confirmation::Unordered
}

/// Creates, writes and frees at one place for as long as readers want.
fn race(read: impl Fn(&Words, &mut [u8], &mut Seeded) -> Confirmation + Sync) {
    const BODY: usize = 104;
    let words = Words::private(read_bytes(BODY));
    let rounds: u64 = if cfg!(miri) { 60 } else { 150_000 };
    std::thread::scope(|scope| {
        let writer = Arc::new(scope.spawn(|| {
            let (mut version, mut random) = (0, Seeded::new(1));
            for incarnation in 0..(rounds / 4) as u32 {
                let bytes = BODY - random.below(60) as usize;
                for _ in 0..3 {
                    let body = vec![stamp(version + 1, incarnation); bytes];
                    version = put(&words, AT, version, incarnation, &body).unwrap();
                }
                version += 1;
                vacate(&words, 0, version, incarnation + 1).unwrap();
            }
        }));
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (words, read, writer) = (&words, &read, Arc::clone(&writer));
                scope.spawn(move || {
                    let (mut random, mut whole, mut not) = (Seeded::new(seed), 0u64, 0u64);
                    let mut known = None;
                    let mut bytes = [0; HEADER_BYTES + BODY];
                    while !writer.is_finished() {
                        let confirmation = read(words, &mut bytes, &mut random);
                        // By turns whatever is there, and the object last seen.
                        let wanted = known.filter(|_| random.chance(500_000));
                        match inspect(AT, wanted, &bytes, confirmation) {
                            Seen::Whole(view) => {
                                whole += 1;
                                assert!(wanted.is_none_or(|wanted| wanted == view.incarnation));
                                known = Some(view.incarnation);
                                assert_whole(view, &bytes);
                            }
                            _ => not += 1,
                        }
                    }
                    (whole, not)
                })
            })
            .collect();
        let seen: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        println!("whole and not: {seen:?}");
    });
}

#[test]
fn racing_readers_of_mapped_memory_take_no_torn_body() {
    race(|words, bytes, _| read_in_order(words, bytes));
}

#[test]
fn racing_readers_in_any_order_take_no_torn_body() {
    race(read_in_any_order);
}

/// The words of an object of two lines.
const WORDS: usize = 16;
const BODY: usize = WORDS * 8 - HEADER_BYTES;
type Image = [u64; WORDS];

/// What memory goes through, store by store, while `change` is made: the journal of a transport
/// that remembers. Every word but the version changes once in a change.
fn moments(change: impl Fn(&Words), words: &Words) -> Vec<Image> {
    let image = |words: &Words| {
        let mut image = [0; WORDS];
        words.load_words(0, &mut image).unwrap();
        image
    };
    let before = image(words);
    change(words);
    let after = image(words);
    let closed = VersionWord::new(VersionWord(before[0]).version(), LockMode::Exclusive);
    let mut moments = vec![before];
    let mut now = before;
    now[0] = closed.0;
    moments.push(now);
    // The order of `put`: checksum, body, second word, version.
    for word in (2..WORDS).chain([1, 0]) {
        now[word] = after[word];
        moments.push(now);
    }
    moments
}

fn bytes_of(image: &Image) -> Vec<u8> {
    image.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Puts the version after `version`.
fn rewrite(words: &Words, version: u64, incarnation: u32) {
    put(words, AT, version, incarnation, &[stamp(version + 1, incarnation); BODY]).unwrap();
}

/// An object that is written, then freed and created again: three versions, two incarnations.
fn history() -> Vec<Image> {
    let words = Words::private(WORDS * 8);
    put(&words, AT, 0, 0, &[stamp(1, 0); BODY]).unwrap();
    let mut all = moments(|words| rewrite(words, 1, 0), &words);
    all.extend(moments(|words| vacate(words, 0, 3, 1).unwrap(), &words));
    all.extend(moments(|words| rewrite(words, 3, 1), &words));
    all
}

/// Words in any order: each of an object of two lines is old or new, the version also closed.
/// Every one of the 98,304 mixes; only the two whole ones pass.
#[test]
fn no_mix_of_words_is_accepted_in_any_order() {
    let words = Words::private(WORDS * 8);
    put(&words, AT, 0, 0, &[stamp(1, 0); BODY]).unwrap();
    let all = moments(|words| rewrite(words, 1, 0), &words);
    let (old, closed, new) = (all[0], all[1][0], *all.last().unwrap());
    // A new body of the same object has the same second word.
    assert_eq!(old[1], new[1]);
    let mut accepted = 0;
    for mix in 0..1u32 << (WORDS - 1) {
        for version in [old[0], closed, new[0]] {
            let mut image = old;
            image[0] = version;
            (1..WORDS).filter(|word| mix >> (word - 1) & 1 == 1).for_each(|word| image[word] = new[word]);
            let bytes = bytes_of(&image);
            if let Seen::Whole(view) = inspect(AT, None, &bytes, Confirmation::Unordered) {
                accepted += 1;
                assert_whole(view, &bytes);
                assert!(image == old || image == new, "accepted a mix: {mix:b} {version}");
            }
        }
    }
    // The second word, the same in both, makes two mixes of each whole one.
    assert_eq!(accepted, 4);
}

/// Words of three versions and two incarnations, as chance mixes them.
#[test]
fn no_mix_of_objects_is_accepted_in_any_order() {
    let (history, mut random) = (history(), Seeded::new(9));
    let mut accepted = 0;
    for _ in 0..300_000 {
        // Half of the mixes are nearly whole: those are the ones that could be mistaken.
        let base = history[random.below(history.len() as u64) as usize];
        let mut image = base;
        for _ in 0..random.below(WORDS as u64) {
            let word = random.below(WORDS as u64) as usize;
            image[word] = history[random.below(history.len() as u64) as usize][word];
        }
        let bytes = bytes_of(&image);
        if let Seen::Whole(view) = inspect(AT, None, &bytes, Confirmation::Unordered) {
            accepted += 1;
            assert_whole(view, &bytes);
        }
    }
    assert!(accepted > 100, "the shim showed nothing");
}

/// Mapped memory: the version is read first and once more last, the others at any moment between.
/// Every pair of moments of the history, and in each every word at every moment between.
#[test]
fn no_moments_of_mapped_memory_are_mixed() {
    let history = history();
    let (mut accepted, mut torn) = (0, 0);
    for first in 0..history.len() {
        for last in first..history.len() {
            for word in 1..WORDS {
                for moment in first..=last {
                    let mut image = history[first];
                    image[word] = history[moment][word];
                    torn += u32::from(image != history[first]);
                    let bytes = bytes_of(&image);
                    let confirmation = Confirmation::Again(history[last][0]);
                    if let Seen::Whole(view) = inspect(AT, None, &bytes, confirmation) {
                        accepted += 1;
                        // That one word moved between the two looks, so could have any others.
                        assert_eq!(image, history[first], "{first} {word}@{moment} {last}");
                        assert_whole(view, &bytes);
                    }
                }
            }
        }
    }
    assert!(accepted > 0 && torn > 0, "the shim showed nothing");
}

/// Even with the checksum of a broken build, the versions of mapped memory decide alone.
#[test]
fn the_checksum_is_not_asked_where_memory_is_mapped() {
    let words = Words::private(WORDS * 8);
    put(&words, AT, 0, 0, &[stamp(1, 0); BODY]).unwrap();
    words.store_word(16, 0, Ordering::Relaxed).unwrap();
    let mut bytes = vec![0; WORDS * 8];
    let confirmation = read_in_order(&words, &mut bytes);
    assert!(matches!(inspect(AT, Some(0), &bytes, confirmation), Seen::Whole(_)));
    assert_eq!(inspect(AT, Some(0), &bytes, Confirmation::Unordered), Seen::Torn);
}

#[test]
fn a_pointer_to_a_freed_object_is_void() {
    let words = Words::private(WORDS * 8);
    let read = |incarnation| {
        let mut bytes = vec![0; WORDS * 8];
        let confirmation = read_in_order(&words, &mut bytes);
        [confirmation, Confirmation::Unordered].map(|how| match inspect(AT, incarnation, &bytes, how) {
            Seen::Whole(view) => Some(view.version),
            Seen::Freed => None,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(read(None), [None; 2], "zeroed memory holds no object");
    put(&words, AT, 0, 0, &[1; BODY]).unwrap();
    assert_eq!(read(Some(0)), [Some(1); 2]);
    vacate(&words, 0, 2, 1).unwrap();
    assert_eq!(read(Some(0)), [None; 2]);
    put(&words, AT, 2, 1, &[2; BODY]).unwrap();
    assert_eq!(read(Some(0)), [None; 2], "another object is there now");
    assert_eq!(read(Some(1)), [Some(3); 2]);
    assert_eq!(read(None), [Some(3); 2]);
}

/// Whatever a READ brings: a verdict, and never more bytes than were read.
#[test]
fn any_bytes_are_judged() {
    let mut random = Seeded::new(3);
    for _ in 0..200_000 {
        let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.next() as u8).collect();
        if bytes.len() >= 16 && random.chance(500_000) {
            bytes[12..16].copy_from_slice(&(random.below(70) as u32 | 1 << 31).to_le_bytes());
        }
        for how in [Confirmation::Unordered, Confirmation::Again(random.next()), again(&bytes)] {
            match inspect(AT, None, &bytes, how) {
                Seen::Whole(view) => {
                    assert!(HEADER_BYTES + view.bytes <= bytes.len() && how != Confirmation::Unordered)
                }
                Seen::Longer { bytes: longer } => assert!(HEADER_BYTES + longer > bytes.len()),
                Seen::Locked | Seen::Torn | Seen::Freed => {}
            }
        }
    }
}

/// The first word, found the same again.
fn again(bytes: &[u8]) -> Confirmation {
    let mut word = [0; 8];
    word[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
    Confirmation::Again(u64::from_le_bytes(word))
}

#[test]
fn what_is_prepared_can_be_read_and_what_is_closed_cannot() {
    let words = Words::private(WORDS * 8);
    put(&words, AT, 0, 0, &[stamp(1, 0); BODY]).unwrap();
    let mut bytes = vec![0; WORDS * 8];
    for (mode, after, want) in [
        (LockMode::Free, LockMode::Free, Some(false)),
        (LockMode::Free, LockMode::Prepared, Some(false)),
        (LockMode::Prepared, LockMode::Free, Some(true)),
        (LockMode::Free, LockMode::Exclusive, None),
        (LockMode::Exclusive, LockMode::Exclusive, None),
        (LockMode::Exclusive, LockMode::Free, None),
    ] {
        words.store_word(0, VersionWord::new(1, mode).0, Ordering::Relaxed).unwrap();
        read_in_order(&words, &mut bytes);
        let again = Confirmation::Again(VersionWord::new(1, after).0);
        let prepared = |seen| match seen {
            Seen::Whole(view) => Some(view.prepared),
            Seen::Locked => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(prepared(inspect(AT, None, &bytes, again)), want, "{mode:?} {after:?}");
        if mode == after {
            assert_eq!(prepared(inspect(AT, None, &bytes, Confirmation::Unordered)), want);
        }
    }
    words.store_word(0, VersionWord::new(1, LockMode::Free).0, Ordering::Relaxed).unwrap();
    read_in_order(&words, &mut bytes);
    let longer = inspect(AT, None, &bytes[..64], Confirmation::Unordered);
    assert_eq!(longer, Seen::Longer { bytes: BODY });
}
