//! Opens a shard again after a restart, from its memory and from what was written down of it.
//!
//! The first value says where the table's chunks and those of the extents are. A delta says that the
//! table has been replaced, or that a chunk of extents was taken or given back. All of them are words:
//!
//! | value | words |
//! |---|---|
//! | first | name, generation, places, how many chunks of the table, their starts, the starts of the extents' |
//! | table | 1, generation, places, the starts of the table's chunks |
//! | taken | 2, the start of a chunk of extents |
//! | given | 3, the same |
//!
//! Everything else follows from the entries, each of which is checked: counts, which parts of chunks are
//! in use, and what has memory of its own. Versions go on above all that were set aside. Extents are not
//! read: a damaged one fails its own check, as ever. Counts of what has happened begin anew.

use super::extents::Extents;
use super::owner::Owner;
use super::table::{CHUNK_SLOTS, SLOTS_MAX, Table};
use crate::error::ReopenError;
use crate::node::Part;
use crate::node::notes::Deltas;
use crate::options::TableOptions;
use barn_heap::Heap;
use barn_layout::Address;
use std::collections::BTreeSet;

const WHOLE: u64 = u64::from_le_bytes(*b"cuckoo+1");
const TABLE: u64 = 1;
const TAKEN: u64 = 2;
const GIVEN: u64 = 3;

/// Where a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    generation: u64,
    slots: u64,
    starts: Vec<Address>,
}

impl Place {
    fn of(table: &Table) -> Self {
        let starts = table.raws().map(|raw| raw.start).collect();
        Self { generation: table.generation, slots: table.slots, starts }
    }

    fn parse(generation: u64, slots: u64, starts: &[u64]) -> Result<Self, ReopenError> {
        let chunks = slots.div_ceil(CHUNK_SLOTS);
        if !(1..=SLOTS_MAX).contains(&slots) || starts.len() as u64 != chunks {
            return Err(ReopenError::Notes("a table with another number of chunks"));
        }
        Ok(Self { generation, slots, starts: starts.iter().copied().map(Address::from_bits).collect() })
    }
}

/// How a shard has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delta {
    /// Its table is another.
    Table(Place),
    /// It has taken a chunk for extents.
    ChunkTaken(Address),
    /// It has given one back.
    ChunkGiven(Address),
}

impl Delta {
    /// This is its table from now on.
    pub(super) fn of_table(table: &Table) -> Self {
        Self::Table(Place::of(table))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Table(place) => {
                let starts = place.starts.iter().map(|start| start.to_bits());
                bytes([TABLE, place.generation, place.slots].into_iter().chain(starts))
            }
            Self::ChunkTaken(start) => bytes([TAKEN, start.to_bits()]),
            Self::ChunkGiven(start) => bytes([GIVEN, start.to_bits()]),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, ReopenError> {
        match words(bytes)?[..] {
            [TABLE, generation, slots, ref starts @ ..] => {
                Ok(Self::Table(Place::parse(generation, slots, starts)?))
            }
            [TAKEN, start] => Ok(Self::ChunkTaken(Address::from_bits(start))),
            [GIVEN, start] => Ok(Self::ChunkGiven(Address::from_bits(start))),
            _ => Err(ReopenError::Notes("a later one is no change of a cuckoo table")),
        }
    }
}

fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn words(bytes: &[u8]) -> Result<Vec<u64>, ReopenError> {
    match bytes.as_chunks::<8>() {
        (words, []) => Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect()),
        _ => Err(ReopenError::Notes("one of them is not made of words")),
    }
}

/// Where everything is.
pub(super) fn remember(table: &Table, extents: &Extents) -> Vec<u8> {
    let Place { generation, slots, starts } = Place::of(table);
    let chunks = extents.raws().map(|raw| raw.start);
    let header = [WHOLE, generation, slots, starts.len() as u64];
    bytes(header.into_iter().chain(starts.into_iter().chain(chunks).map(Address::to_bits)))
}

/// Where everything was, by what was written down.
fn parse(values: &[Vec<u8>]) -> Result<(Place, BTreeSet<Address>), ReopenError> {
    let (whole, deltas) = values.split_first().ok_or(ReopenError::Notes("there are none"))?;
    let malformed = || ReopenError::Notes("the first is not a cuckoo table's");
    let whole = words(whole)?;
    let [WHOLE, generation, slots, count, ref rest @ ..] = whole[..] else { return Err(malformed()) };
    let count = usize::try_from(count).map_err(|_| malformed())?;
    let (starts, chunks) = rest.split_at_checked(count).ok_or_else(malformed)?;
    let mut place = Place::parse(generation, slots, starts)?;
    let mut chunks: BTreeSet<Address> = chunks.iter().copied().map(Address::from_bits).collect();
    for delta in deltas {
        let fits = match Delta::parse(delta)? {
            Delta::Table(next) => {
                let is_next = next.generation > place.generation;
                place = next;
                is_next
            }
            Delta::ChunkTaken(start) => chunks.insert(start),
            Delta::ChunkGiven(start) => chunks.remove(&start),
        };
        if !fits {
            return Err(ReopenError::Notes("one of them does not follow from those before"));
        }
    }
    Ok((place, chunks))
}

impl Owner {
    /// Opens a shard again: `values` are what [`crate::node::Shard::remember`] once said, and the deltas
    /// since then, in order.
    pub fn reopen(
        heap: &mut Heap,
        options: &TableOptions,
        part: Part,
        values: &[Vec<u8>],
    ) -> Result<Self, ReopenError> {
        let (Place { generation, slots, starts }, chunks) = parse(values)?;
        let (purpose, of) = (options.purpose(), (options.seed, part));
        let table = Table::reopen(heap, of, purpose, generation, slots, &starts)?;
        let mut extents = Extents::new(purpose, Deltas::of(part, purpose));
        for start in chunks {
            extents.reopen_chunk(heap, start)?;
        }
        let (mut keys, mut payload_bytes) = (0, 0);
        for slot in 0..slots {
            if let Some(entry) = table.checked_at(slot)? {
                extents.claim(heap, entry.address, entry.extent_bytes())?;
                keys += 1;
                payload_bytes += u64::from(entry.key_bytes) + u64::from(entry.value_bytes);
            }
        }
        extents.claimed();
        table.check_lists(keys)?;
        let mut owner = Self::over(options, part, table, extents);
        owner.stats.keys = keys;
        owner.stats.payload_bytes = payload_bytes;
        Ok(owner)
    }
}
