//! An entry of the log: a header of four words, the key, the value, each filled up to whole words.
//!
//! | word | what |
//! |---|---|
//! | 0 | its position, which is also the version of the key; 0 where the log goes on in the next chunk |
//! | 1 | when it expires, in milliseconds since 1970; 0 for never |
//! | 2 | the key's length in the low half, the value's in the high |
//! | 3 | CRC64/NVME over all of the entry, with the shard's salt in this place |

use super::space::POSITION_MASK;
use crate::hash::remix;
use crate::node::Part;
use crate::options::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use barn_fabric::crc64;
use barn_layout::limits::WORD_BYTES;

/// The length of a header.
pub(super) const HEADER_BYTES: usize = 32;
/// The same in words.
pub(super) const HEADER_WORDS: u64 = (HEADER_BYTES / WORD_BYTES) as u64;
/// Where the checksum is.
const CHECKSUM: usize = 24;

const _: () = assert!(CHECKSUM + WORD_BYTES == HEADER_BYTES);
const _: () = assert!(KEY_BYTES_MAX <= VALUE_BYTES_MAX && VALUE_BYTES_MAX <= u32::MAX as usize);

/// What a shard's checksums begin with: other tables' and other shards' entries do not pass.
pub(super) fn salt(seed: u64, part: Part) -> u64 {
    let shard = u64::from(part.table) << 16 | u64::from(part.shard);
    // Never 0, so that zeroed memory does not pass.
    remix(seed ^ remix(shard, 1), 2) | 1
}

/// Rounds up to whole words.
const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(WORD_BYTES)
}

/// How long an entry is, in words.
pub(super) const fn words(key_bytes: usize, value_bytes: usize) -> u64 {
    ((HEADER_BYTES + padded(key_bytes) + padded(value_bytes)) / WORD_BYTES) as u64
}

/// What an entry begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// The number of its position.
    pub(super) position: u64,
    /// When it expires.
    pub(super) expires: u64,
    /// How long the key is.
    pub(super) key_bytes: usize,
    /// How long the value is.
    pub(super) value_bytes: usize,
}

impl Header {
    /// The header in front of `bytes`.
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let word = |at: usize| {
            let mut word = [0; WORD_BYTES];
            word.copy_from_slice(&words[at * WORD_BYTES..(at + 1) * WORD_BYTES]);
            u64::from_le_bytes(word)
        };
        Some(Self::from_words([word(0), word(1), word(2)]))
    }

    /// The header that begins with these words.
    #[inline]
    pub(super) fn from_words([position, expires, lengths]: [u64; 3]) -> Self {
        let (key_bytes, value_bytes) = (lengths as u32 as usize, (lengths >> 32) as usize);
        Self { position, expires, key_bytes, value_bytes }
    }

    /// Whether it can be the header of the entry whose position has these low bits.
    #[inline]
    pub(super) fn is_at(&self, position: u64) -> bool {
        self.position & POSITION_MASK == position && self.is_possible()
    }

    /// Whether the lengths are those of a key and a value.
    #[inline]
    pub(super) fn is_possible(&self) -> bool {
        self.key_bytes <= KEY_BYTES_MAX && self.value_bytes <= VALUE_BYTES_MAX
    }

    /// How long the entry is, in words.
    #[inline]
    pub(super) fn words(&self) -> u64 {
        words(self.key_bytes, self.value_bytes)
    }

    /// How long the entry is.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + padded(self.key_bytes) + padded(self.value_bytes)
    }

    /// How many bytes of it are the user's.
    pub(super) fn payload_bytes(&self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }

    /// Where the value starts.
    #[inline]
    pub(super) fn value_at(&self) -> usize {
        HEADER_BYTES + padded(self.key_bytes)
    }
}

/// Puts an entry together, in place of what `into` holds.
pub(super) fn build(into: &mut Vec<u8>, salt: u64, position: u64, expires: u64, key: &[u8], value: &[u8]) {
    into.clear();
    into.reserve(HEADER_BYTES + padded(key.len()) + padded(value.len()));
    into.extend_from_slice(&position.to_le_bytes());
    into.extend_from_slice(&expires.to_le_bytes());
    into.extend_from_slice(&(key.len() as u32).to_le_bytes());
    into.extend_from_slice(&(value.len() as u32).to_le_bytes());
    into.extend_from_slice(&salt.to_le_bytes());
    into.extend_from_slice(key);
    into.resize(HEADER_BYTES + padded(key.len()), 0);
    into.extend_from_slice(value);
    into.resize(padded(into.len()), 0);
    let sum = crc64(into);
    into[CHECKSUM..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// Whether `bytes` are an entry of this shard as it was built. Leaves the salt where the checksum was.
#[inline]
pub(super) fn is_whole(bytes: &mut [u8], salt: u64) -> bool {
    let Some(place) = bytes.get_mut(CHECKSUM..HEADER_BYTES) else { return false };
    let mut sum = [0; WORD_BYTES];
    sum.copy_from_slice(place);
    place.copy_from_slice(&salt.to_le_bytes());
    crc64(bytes) == u64::from_le_bytes(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_passes_only_as_it_was_built() {
        let part = Part { table: 1, shard: 2, shards: 3 };
        let ours = salt(9, part);
        assert_ne!(ours, salt(9, Part { shard: 1, ..part }));
        for (key, value) in [(&b""[..], &b""[..]), (b"key", b"a value"), (b"12345678", &[7; 300])] {
            let mut built = Vec::new();
            build(&mut built, ours, 77, 5, key, value);
            let header = Header::parse(&built).unwrap();
            let lengths = (header.key_bytes, header.value_bytes);
            assert_eq!((header.position, header.expires, lengths), (77, 5, (key.len(), value.len())));
            assert_eq!((header.bytes(), header.words() * 8), (built.len(), built.len() as u64));
            assert!(is_whole(&mut built.clone(), ours));
            assert!(!is_whole(&mut built.clone(), ours ^ 2));
            for at in 0..built.len() {
                let mut torn = built.clone();
                torn[at] ^= 0x10;
                assert!(!is_whole(&mut torn, ours), "byte {at}");
            }
        }
        assert!(!is_whole(&mut [0; HEADER_BYTES], ours) && !is_whole(&mut [], ours));
    }
}
