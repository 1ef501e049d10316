//! A table that is loaded with records, and how much memory it needs.

use barn::{Barn, Kind, Table, TableOptions};
use barn_index::INLINE_BYTES_DEFAULT;

use super::shape::Shape;

/// The table's name.
pub(crate) const TABLE: &str = "workload";
/// That of the tree that workloads which need an order have beside it.
pub(crate) const ORDERED: &str = "workload-ordered";
/// What any node has, beside its records.
const NODE_BYTES_MIN: u64 = 128 << 20;
/// Of an entry beside its key and value: a bucket or an extent, and what is free while a table grows.
const ENTRY_BYTES: u64 = 192;
/// A table comes to hold as many records again by inserts, at the most.
pub(crate) const GROWS_BY: u64 = 2;
/// Records of one loading batch: about this many bytes go in one message.
const LOAD_BYTES: usize = 32 << 10;

/// An entry, with all that goes with it.
pub(crate) fn entry_bytes(shape: Shape) -> u64 {
    ENTRY_BYTES + 2 * (shape.key.most + shape.value.most) as u64
}

/// The memory of a node for so many records, loaded and inserted.
pub(crate) fn memory_bytes(shape: Shape, records: u64) -> u64 {
    NODE_BYTES_MIN + records * GROWS_BY * entry_bytes(shape)
}

/// Records as keys and values, a batch after another.
pub(crate) fn batches(shape: Shape, records: u64) -> impl Iterator<Item = Vec<(Vec<u8>, Vec<u8>)>> {
    let batch = (LOAD_BYTES / (shape.key.most + shape.value.most)).clamp(1, 500);
    (0..records).step_by(batch).map(move |first| {
        (first..records.min(first + batch as u64))
            .map(|number| {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                shape.key(number, &mut key);
                shape.value(number, 0, &mut value);
                (key, value)
            })
            .collect()
    })
}

/// Makes the table, with so many records.
pub(crate) fn load(barn: &Barn, kind: Kind, shape: Shape, records: u64) -> Result<Table, barn::Error> {
    load_as(TABLE, barn, kind, shape, records)
}

/// Makes the tree of workloads that need an order.
pub(crate) fn load_ordered(barn: &Barn, shape: Shape, records: u64) -> Result<Table, barn::Error> {
    load_as(ORDERED, barn, Kind::Tree, shape, records)
}

fn load_as(name: &str, barn: &Barn, kind: Kind, shape: Shape, records: u64) -> Result<Table, barn::Error> {
    let value_bytes_max = shape.value.most as u32;
    let options = TableOptions {
        kind,
        capacity: records,
        key_bytes: shape.key.most as u32,
        // Where not all values lie in the buckets, none does: a bucket has room for the longest in each slot.
        inline_bytes: if value_bytes_max <= INLINE_BYTES_DEFAULT { value_bytes_max } else { 0 },
        memory_bytes: (records * GROWS_BY * entry_bytes(shape)).max(64 << 20),
        ..TableOptions::default()
    };
    let table = barn.table_with(name, options)?;
    for batch in batches(shape, records) {
        let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        table.put_many(&pairs)?;
    }
    Ok(table)
}
