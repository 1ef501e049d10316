//! An entry: four words that say where a key's extent is, and prove it (Pilaf, Figure 5).
//!
//! | word | bits | what |
//! |---|---|---|
//! | 0 | 64 | the extent's address |
//! | 1 | 2 | state: 1 empty, 2 in use |
//! |   | 17 | the key's length |
//! |   | 27 | the value's length |
//! |   | 18 | tag: bits of the key's hash, which save READs of other keys' extents |
//! | 2 | 64 | CRC64 of the extent: version, expiry, key, value |
//! | 3 | 64 | CRC64 of the words before |
//!
//! What always holds:
//! - the entry's check begins with table, shard, generation and place, so that no memory that was
//!   or becomes something else passes for an entry of this table at this place;
//! - the extent's check begins with table and shard. It is believed only out of an entry that has
//!   passed, which binds it to the generation: growth need not touch any extent;
//! - an empty entry has a check as well, so words that are all zero are memory given back.

use crate::hash::remix;
use crate::node::Part;
use crate::options::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use barn_fabric::crc64;
use barn_layout::Address;

/// The words of an entry.
pub(super) const ENTRY_WORDS: usize = 4;
/// The bytes of an entry: two to a cache line.
pub(super) const ENTRY_BYTES: usize = ENTRY_WORDS * 8;
/// What precedes the key in an extent: version and expiry.
pub(super) const EXTENT_HEADER_BYTES: usize = 16;
/// The salt stands before an extent in private memory, so that one call makes the CRC of both.
pub(super) const SALT_BYTES: usize = 8;

const EMPTY: u64 = 1;
const USED: u64 = 2;
const KEY_SHIFT: u32 = 2;
const VALUE_SHIFT: u32 = 19;
const TAG_SHIFT: u32 = 46;

const _: () = assert!(KEY_BYTES_MAX < 1 << (VALUE_SHIFT - KEY_SHIFT));
const _: () = assert!(VALUE_BYTES_MAX < 1 << (TAG_SHIFT - VALUE_SHIFT));

/// Where an extent is, how long it is, and what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The extent.
    pub(super) address: Address,
    /// The key's length.
    pub(super) key_bytes: u32,
    /// The value's length.
    pub(super) value_bytes: u32,
    /// Bits of the hash.
    pub(super) tag: u32,
    /// The extent's CRC.
    pub(super) check: u64,
}

/// What the four words of an entry are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// No key is here.
    Empty,
    /// A key is here.
    Used(Entry),
    /// They do not belong together: a writer was there, or they are no entry of this table.
    Torn,
    /// The table has left this memory.
    Gone,
}

impl Entry {
    /// The extent's length.
    pub(super) fn extent_bytes(&self) -> usize {
        extent_bytes(self.key_bytes as usize, self.value_bytes as usize)
    }

    /// Whether the key with this hash and length may be the one.
    #[inline]
    pub(super) fn may_be(&self, hash: u64, key: &[u8]) -> bool {
        self.tag == tag(hash) && self.key_bytes as usize == key.len()
    }

    /// The words, without their check.
    fn pack(&self) -> [u64; 3] {
        let sizes = u64::from(self.key_bytes) << KEY_SHIFT | u64::from(self.value_bytes) << VALUE_SHIFT;
        [self.address.to_bits(), USED | sizes | u64::from(self.tag) << TAG_SHIFT, self.check]
    }

    /// The entry that words mean, whose check is another's concern.
    #[inline]
    pub(super) fn unpack(words: &[u64; ENTRY_WORDS]) -> Self {
        let sizes = words[1];
        Self {
            address: Address::from_bits(words[0]),
            key_bytes: (sizes >> KEY_SHIFT & ((1 << (VALUE_SHIFT - KEY_SHIFT)) - 1)) as u32,
            value_bytes: (sizes >> VALUE_SHIFT & ((1 << (TAG_SHIFT - VALUE_SHIFT)) - 1)) as u32,
            tag: (sizes >> TAG_SHIFT) as u32,
            check: words[2],
        }
    }
}

/// The length of an extent with a key and a value of these lengths.
pub(super) fn extent_bytes(key: usize, value: usize) -> usize {
    EXTENT_HEADER_BYTES + key + value
}

/// The bits of a hash that an entry keeps.
#[inline]
pub(super) fn tag(hash: u64) -> u32 {
    (hash >> TAG_SHIFT) as u32
}

/// What the checks of a table's generation begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Salt {
    entries: u64,
    extents: u64,
}

impl Salt {
    /// The salt of a generation of a shard.
    pub(super) fn new(seed: u64, part: Part, generation: u64) -> Self {
        const NAME: u64 = u64::from_le_bytes(*b"barn-cko");
        let shard = remix(remix(NAME ^ seed, u64::from(part.table) + 1), u64::from(part.shard) + 1);
        Self { entries: remix(shard, generation.wrapping_add(2)), extents: remix(shard, 1) }
    }

    /// Where the count of moves begins: unlike any other generation's.
    pub(super) fn moves_start(&self) -> u64 {
        remix(self.entries, u64::MAX) & !1
    }

    /// What stands before an extent when its CRC is made.
    pub(super) fn extents(&self) -> [u8; SALT_BYTES] {
        self.extents.to_le_bytes()
    }

    /// The words of an entry at `slot`; of an empty one for nothing.
    pub(super) fn seal(&self, slot: u64, entry: Option<&Entry>) -> [u64; ENTRY_WORDS] {
        let [address, sizes, check] = entry.map_or([0, EMPTY, 0], Entry::pack);
        [address, sizes, check, self.check(slot, [address, sizes, check])]
    }

    /// What the words at `slot` are.
    #[inline]
    pub(super) fn open(&self, slot: u64, words: &[u64; ENTRY_WORDS]) -> Seen {
        if self.check(slot, [words[0], words[1], words[2]]) != words[3] {
            return if *words == [0; ENTRY_WORDS] { Seen::Gone } else { Seen::Torn };
        }
        match words[1] & 3 {
            EMPTY => Seen::Empty,
            USED => Seen::Used(Entry::unpack(words)),
            _ => Seen::Torn,
        }
    }

    #[inline]
    fn check(&self, slot: u64, words: [u64; 3]) -> u64 {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&remix(self.entries, slot).to_le_bytes());
        for (into, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        crc64(&bytes)
    }
}

/// The CRC of an extent, with the salt before it.
#[inline]
pub(super) fn extent_check(salted: &[u8]) -> u64 {
    crc64(salted)
}

/// The words of an entry out of the bytes that a READ brought.
#[inline]
pub(super) fn words_of(bytes: &[u8; ENTRY_BYTES]) -> [u64; ENTRY_WORDS] {
    let mut words = [0; ENTRY_WORDS];
    for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*from);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_layout::RegionId;

    const PART: Part = Part { table: 3, shard: 1, shards: 2 };

    fn entry() -> Entry {
        let address = Address::new(RegionId(9), 1 << 20);
        let (key_bytes, value_bytes) = (KEY_BYTES_MAX as u32, VALUE_BYTES_MAX as u32);
        Entry { address, key_bytes, value_bytes, tag: tag(u64::MAX), check: 0x1234 }
    }

    #[test]
    fn an_entry_comes_back_at_its_own_place_only() {
        let salt = Salt::new(5, PART, 1);
        let words = salt.seal(7, Some(&entry()));
        assert_eq!(salt.open(7, &words), Seen::Used(entry()));
        assert_eq!(salt.open(8, &words), Seen::Torn);
        for other in
            [Salt::new(5, PART, 2), Salt::new(6, PART, 1), Salt::new(5, Part { table: 4, ..PART }, 1)]
        {
            assert_eq!(other.open(7, &words), Seen::Torn);
        }
        assert_eq!(salt.open(7, &salt.seal(7, None)), Seen::Empty);
        assert_eq!(salt.open(7, &[0; ENTRY_WORDS]), Seen::Gone);
    }

    #[test]
    fn every_mixture_of_two_entries_is_seen() {
        let salt = Salt::new(5, PART, 1);
        let old = salt.seal(7, Some(&entry()));
        let address = Address::new(RegionId(9), 64);
        let new = salt.seal(7, Some(&Entry { address, value_bytes: 5, check: 77, ..entry() }));
        for mixture in 1..15 {
            let words =
                std::array::from_fn(|word| if mixture >> word & 1 == 0 { old[word] } else { new[word] });
            assert_eq!(salt.open(7, &words), Seen::Torn, "{mixture}");
        }
    }
}
