//! Notes: what a node's log keeps of its shards beside the memory itself, so that they can be opened
//! again after a restart.
//!
//! A shard has one key. Its first value is a [`Birth`]: how the table was made, and the shard's whole
//! state. Deltas follow, in the order in which the shard changed, each added by the very record that
//! holds the change. A checkpoint replaces them all by a new first value.
//!
//! What always holds:
//! - the key of a shard is declared here and nowhere else;
//! - tables that are kept in memory only have no notes;
//! - whatever the bytes are, reading them ends in a value or in an error.

use super::Part;
use crate::error::ReopenError;
use crate::options::TableOptions;
use crate::wire::{split, take};
use barn_heap::{Heap, Purpose};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What the key of every shard's notes begins with.
const PREFIX: [u8; 5] = *b"shard";
/// The format of a first value.
const FORMAT: u32 = u32::from_le_bytes(*b"shd1");

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct KeyBytes {
    prefix: [u8; PREFIX.len()],
    table: U32,
    shard: U16,
}

/// The key of a shard's notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteKey {
    bytes: [u8; size_of::<KeyBytes>()],
}

impl NoteKey {
    /// The key of a shard.
    pub fn new(table: u32, shard: u16) -> Self {
        let key = KeyBytes { prefix: PREFIX, table: table.into(), shard: shard.into() };
        Self { bytes: zerocopy::transmute!(key) }
    }

    /// The table and the shard whose key it is; nothing if it is another's.
    pub fn parse(key: &[u8]) -> Option<(u32, u16)> {
        let key = KeyBytes::read_from_bytes(key).ok()?;
        (key.prefix == PREFIX).then_some((key.table.get(), key.shard.get()))
    }

    /// As the log keeps it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Where a shard writes down how it has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deltas(Option<NoteKey>);

impl Deltas {
    /// Those of a shard; nowhere, if its memory is in no log either.
    pub(crate) fn of(part: Part, purpose: Purpose) -> Self {
        Self(purpose.is_durable().then(|| NoteKey::new(part.table, part.shard)))
    }

    /// Adds one, if changes are recorded.
    pub(crate) fn add(self, heap: &mut Heap, delta: impl FnOnce() -> Vec<u8>) {
        if let Some(key) = self.0
            && let Some(record) = heap.changes()
        {
            record.note_append(key.as_bytes(), &delta());
        }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct BirthBytes {
    format: U32,
    shards: U16,
    reserved: U16,
    made: U64,
    options_bytes: U32,
}

/// A shard's first value: enough to open it again even if its table is no more, so that its memory can
/// be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth<'a> {
    /// How many shards the table has.
    pub shards: u16,
    /// The version of the configuration under which the shard was made.
    pub made: u64,
    /// How the table was made.
    pub options: TableOptions,
    /// What [`super::Shard::remember`] said.
    pub state: &'a [u8],
}

impl<'a> Birth<'a> {
    /// As the log keeps it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let options = self.options.to_text();
        let header = BirthBytes {
            format: FORMAT.into(),
            shards: self.shards.into(),
            reserved: 0.into(),
            made: self.made.into(),
            options_bytes: (options.len() as u32).into(),
        };
        [header.as_bytes(), options.as_bytes(), self.state].concat()
    }

    /// As the log kept it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReopenError> {
        let malformed = |_| ReopenError::Notes("the first does not say how its table was made");
        let (header, rest) = split::<BirthBytes>(bytes).map_err(malformed)?;
        if header.format.get() != FORMAT {
            return Err(ReopenError::Notes("they are of another version of barn"));
        }
        let (options, state) = take(rest, header.options_bytes.get() as usize).map_err(malformed)?;
        let options = std::str::from_utf8(options)
            .map_err(|_| ReopenError::Notes("the table's options are not text"))
            .and_then(|text| {
                TableOptions::from_text(text).map_err(|error| ReopenError::Options(error.to_string()))
            })?;
        Ok(Self { shards: header.shards.get(), made: header.made.get(), options, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Kind;

    #[test]
    fn a_key_is_its_shards_and_no_others() {
        let key = NoteKey::new(0x0102_0304, 0xfffe);
        assert_eq!(key.as_bytes(), b"shard\x04\x03\x02\x01\xfe\xff");
        assert_eq!(NoteKey::parse(key.as_bytes()), Some((0x0102_0304, 0xfffe)));
        assert_eq!(NoteKey::parse(&key.as_bytes()[..10]), None);
        assert_eq!(NoteKey::parse(b"shirt\x04\x03\x02\x01\xfe\xff"), None);
        assert_eq!(NoteKey::parse(b"shard\x04\x03\x02\x01\xfe\xff\0"), None);
    }

    #[test]
    fn a_first_value_comes_back_and_its_damage_is_seen() {
        let options = TableOptions { kind: Kind::Cuckoo, seed: 9, ..TableOptions::default() };
        let birth = Birth { shards: 3, made: 17, options, state: b"state" };
        let bytes = birth.to_bytes();
        assert_eq!(Birth::parse(&bytes), Ok(birth));
        for cut in 0..bytes.len() - 5 {
            assert!(Birth::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut other = bytes;
        other[0] ^= 1;
        assert!(Birth::parse(&other).is_err());
    }
}
