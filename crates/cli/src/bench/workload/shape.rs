//! Keys and values: how long, as the papers have them, and what is in them.
//!
//! A key is printable text, which every peer's protocol can carry, and says its number. A value says whose
//! it is and which of its key's values, in every word: a value of another key, a torn one or one that was
//! moved is told from a right one, whoever wrote it last.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Eight characters of six bits tell 2^48 keys apart.
const KEY_BYTES_MIN: usize = 8;
/// What lies in a bucket; longer keys take a detour.
const KEY_BYTES_MAX: usize = 126;
/// A stamp, and as much to check it by.
const VALUE_BYTES_MIN: usize = 8;
/// What memcached takes, with its item's header.
const VALUE_BYTES_MAX: usize = 1 << 19;
/// Where a value's stamp ends.
const STAMP_BYTES: usize = 4;

/// Lengths of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Bytes of a key.
    pub key: Span,
    /// Bytes of a value.
    pub value: Span,
}

/// A length: always the same, or any of these with the same chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The least.
    pub least: usize,
    /// The most.
    pub most: usize,
}

/// One shape, or a paper's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shapes(pub Vec<Shape>);

impl Span {
    /// Always the same.
    pub(crate) const fn of(bytes: usize) -> Self {
        Self { least: bytes, most: bytes }
    }

    /// What a number has.
    fn at(self, random: u64) -> usize {
        // Most spans are one length: no division then.
        if self.least == self.most {
            self.most
        } else {
            self.least + random as usize % (self.most - self.least + 1)
        }
    }
}

const fn shape(key_bytes: usize, value_bytes: usize) -> Shape {
    Shape { key: Span::of(key_bytes), value: Span::of(value_bytes) }
}

/// Pilaf, section 5.1: keys of 23 bytes, YCSB's default, and values of 16 to 4096.
const PILAF: [Shape; 5] = [shape(23, 16), shape(23, 64), shape(23, 256), shape(23, 1024), shape(23, 4096)];
/// HERD, section 5.5, and FaRM, section 6.
const HERD: [Shape; 1] = [shape(16, 32)];
/// Cell, section 4.1: keys of 8 to 64 characters, values of 8 to 256, both evenly distributed.
const CELL: [Shape; 1] = [Shape { key: Span { least: 8, most: 64 }, value: Span { least: 8, most: 256 } }];

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least == self.most {
            true => write!(f, "{}", self.most),
            false => write!(f, "{}-{}", self.least, self.most),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.key, self.value)
    }
}

/// A length, or two with a hyphen.
fn span(text: &str, what: &str, least: usize, most: usize) -> Result<Span, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) if least <= low && low <= high && high <= most => {
            Ok(Span { least: low, most: high })
        }
        _ => Err(format!("{what} have {least} to {most} bytes here, as 16 or 8-64, not `{text}`")),
    }
}

impl FromStr for Shapes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = match text {
            "pilaf" => return Ok(Self(PILAF.into())),
            "herd" | "farm" => return Ok(Self(HERD.into())),
            "cell" => return Ok(Self(CELL.into())),
            one => one.split_once('x'),
        };
        let (key, value) =
            one.ok_or("say pilaf, herd, farm, cell, or KEYxVALUE in bytes, such as 16x32 or 8-64x8-256")?;
        let key = span(key, "keys", KEY_BYTES_MIN, KEY_BYTES_MAX)?;
        Ok(Self(vec![Shape { key, value: span(value, "values", VALUE_BYTES_MIN, VALUE_BYTES_MAX)? }]))
    }
}

/// An odd number, with an inverse modulo 2^48: no two numbers become one.
const SCRAMBLE: u64 = 0x9E37_79B9_7F4B;
const SYMBOLS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// The inverse of [`SCRAMBLE`].
const UNSCRAMBLE: u64 = {
    // Newton's: each step doubles the bits that are right, of which an odd number has three to begin with.
    let (mut inverse, mut step) = (SCRAMBLE, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(SCRAMBLE.wrapping_mul(inverse)));
        step += 1;
    }
    inverse & CODE_MASK
};
const CODE_MASK: u64 = (1 << 48) - 1;
/// What each byte stands for in a key.
const BITS_OF: [u8; 256] = {
    let (mut bits_of, mut at) = ([NO_SYMBOL; 256], 0);
    while at < SYMBOLS.len() {
        bits_of[SYMBOLS[at] as usize] = at as u8;
        at += 1;
    }
    bits_of
};
const NO_SYMBOL: u8 = 1 << 7;

/// What is in a value of a key, word by word, for one of its stamps.
fn seed(number: u64, stamp: u32) -> u64 {
    let mixed =
        (number ^ u64::from(stamp).rotate_left(40)).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn word(seed: u64, at: usize) -> [u8; 8] {
    seed.wrapping_add((at as u64).wrapping_mul(0x94D0_49BB_1331_11EB)).to_le_bytes()
}

impl Shape {
    /// Writes a number's key.
    pub(crate) fn key(self, number: u64, into: &mut Vec<u8>) {
        let code = number.wrapping_mul(SCRAMBLE);
        into.clear();
        into.extend((0..8).map(|at| SYMBOLS[(code >> (6 * at)) as usize & 63]));
        // The rest is the same characters, over and over: keys that differ do so at once.
        let bytes = self.key.at(code >> 20);
        while into.len() < bytes {
            let more = (bytes - into.len()).min(8);
            into.extend_from_within(..more);
        }
    }

    /// The number whose key this is, if it is one's.
    pub(crate) fn number(self, key: &[u8]) -> Option<u64> {
        let (mut code, mut wrong) = (0, 0);
        for byte in key.first_chunk::<8>()?.iter().rev() {
            let bits = BITS_OF[usize::from(*byte)];
            (code, wrong) = (code << 6 | u64::from(bits & 63), wrong | bits & NO_SYMBOL);
        }
        (wrong == 0).then_some(code.wrapping_mul(UNSCRAMBLE) & CODE_MASK)
    }

    /// The length of a number's values: always the same.
    fn value_bytes(self, number: u64) -> usize {
        self.value.at(number.wrapping_mul(SCRAMBLE) >> 24)
    }

    /// A key and a value, as they are on average.
    pub(crate) fn mean_bytes(self) -> usize {
        self.key.least.midpoint(self.key.most) + self.value.least.midpoint(self.value.most)
    }

    /// Writes a number's value with a stamp.
    pub(crate) fn value(self, number: u64, stamp: u32, into: &mut Vec<u8>) {
        let seed = seed(number, stamp);
        into.clear();
        into.resize(self.value_bytes(number), 0);
        for (at, bytes) in into.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&word(seed, at)[..bytes.len()]);
        }
        into[..STAMP_BYTES].copy_from_slice(&stamp.to_le_bytes());
    }

    /// The stamp of a value, if it is one of this number's, and whole.
    pub(crate) fn stamp(self, number: u64, value: &[u8]) -> Option<u32> {
        let stamp = u32::from_le_bytes(*value.first_chunk::<STAMP_BYTES>()?);
        let seed = seed(number, stamp);
        if value.len() != self.value_bytes(number) || value[STAMP_BYTES..8] != word(seed, 0)[STAMP_BYTES..] {
            return None;
        }
        // No early end: most values are right, and a loop without branches is many words at once.
        let (words, rest) = value.as_chunks::<8>();
        let differing = words.iter().enumerate().skip(1).fold(0, |differing, (at, bytes)| {
            differing | (u64::from_le_bytes(*bytes) ^ u64::from_le_bytes(word(seed, at)))
        });
        (differing == 0 && *rest == word(seed, words.len())[..rest.len()]).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_papers_shapes_and_ones_own_are_understood() {
        let shapes = |text: &str| text.parse::<Shapes>().map(|shapes| shapes.0);
        let lengths = |text| shapes(text).expect("is one").iter().map(Shape::to_string).collect::<Vec<_>>();
        assert_eq!(lengths("pilaf"), ["23x16", "23x64", "23x256", "23x1024", "23x4096"]);
        assert_eq!((lengths("herd"), lengths("farm")), (vec!["16x32".into()], vec!["16x32".into()]));
        assert_eq!(lengths("cell"), ["8-64x8-256"]);
        assert_eq!(lengths("24x100"), ["24x100"]);
        for (wrong, says) in [
            ("redis", "pilaf"),
            ("16", "KEYxVALUE"),
            ("7x32", "keys have 8 to 126"),
            ("16x4", "values have 8"),
            ("16x", "values"),
            ("-1x9", "keys"),
            ("16x999999999", "values"),
            ("64-8x32", "keys"),
            ("8-16-20x32", "keys"),
        ] {
            let error = shapes(wrong).expect_err("is none");
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn keys_differ_have_their_length_and_can_be_printed() {
        let mut key = Vec::new();
        for key_bytes in [8, 16, 23, 126] {
            let shape = shape(key_bytes, 32);
            let keys: HashSet<Vec<u8>> = (0..20_000u64)
                .chain([u64::from(u32::MAX), 1 << 40])
                .map(|number| {
                    shape.key(number, &mut key);
                    key.clone()
                })
                .collect();
            assert_eq!(keys.len(), 20_002);
            assert!(keys.iter().all(|key| key.len() == key_bytes && key.iter().all(u8::is_ascii_graphic)));
        }
    }

    #[test]
    fn a_key_says_its_number() {
        let mut key = Vec::new();
        for number in (0..5000).chain([u64::from(u32::MAX), (1 << 48) - 1]) {
            CELL[0].key(number, &mut key);
            assert_eq!(CELL[0].number(&key), Some(number));
        }
        assert_eq!(CELL[0].number(b"short"), None);
        assert_eq!(CELL[0].number(b"a symbol"), None, "a blank is none");
    }

    #[test]
    fn a_value_is_known_whatever_its_length_and_nothing_else_is() {
        let mut value = Vec::new();
        for value_bytes in [8, 11, 16, 32, 100, 4096] {
            let shape = shape(16, value_bytes);
            for stamp in [0, 1, u32::MAX] {
                shape.value(77, stamp, &mut value);
                assert_eq!(value.len(), value_bytes);
                assert_eq!(shape.stamp(77, &value), Some(stamp));
                assert_eq!(shape.stamp(78, &value), None, "another key's");
                for at in 0..value_bytes {
                    value[at] ^= 1;
                    assert_eq!(shape.stamp(77, &value), None, "byte {at} of {value_bytes}");
                    value[at] ^= 1;
                }
                assert_eq!(shape.stamp(77, &value[1..]), None, "too short");
            }
            assert_eq!(shape.stamp(77, &[]), None);
        }
    }

    #[test]
    fn lengths_of_a_span_are_spread_evenly_and_stay_the_same() {
        let (mut keys, mut values) = ([0u32; 65], [0u32; 257]);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in 0..57_000 {
            CELL[0].key(number, &mut key);
            CELL[0].value(number, number as u32, &mut value);
            keys[key.len()] += 1;
            values[value.len()] += 1;
            assert_eq!(CELL[0].stamp(number, &value), Some(number as u32));
        }
        // 57 lengths of a key: 1000 of each, and ten standard deviations.
        assert!(keys[8..].iter().all(|count| (684..1316).contains(count)), "{keys:?}");
        assert!(values[8..].iter().all(|count| (80..380).contains(count)), "{values:?}");
        assert_eq!(keys[..8].iter().chain(&values[..8]).sum::<u32>(), 0);
        assert_eq!(CELL[0].mean_bytes(), 36 + 132);
    }

    #[test]
    fn two_values_of_one_key_torn_at_any_word_are_told_from_either() {
        let shape = shape(16, 64);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        shape.value(5, 1, &mut one);
        shape.value(5, 2, &mut other);
        for words in 1..8 {
            let torn = [&one[..8 * words], &other[8 * words..]].concat();
            assert_eq!(shape.stamp(5, &torn), None, "{words} words");
        }
    }
}
