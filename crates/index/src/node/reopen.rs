//! How a node's shards come back after a restart, and what is kept for that.
//!
//! The heap has its objects and raw memory back already, where they were. Every shard is opened again
//! from its notes before anything else is allocated, because raw memory that nobody has claimed yet looks
//! free. Shards whose table was dropped while the node was away are opened, too: the first sweep then
//! gives their memory back in the ordinary way.

use super::notes::{Birth, NoteKey};
use super::{Held, Part, Shard, Tables};
use crate::error::ReopenError;
use crate::options::{Kind, TableOptions};
use crate::{cuckoo, hopscotch, tree};
use barn_cluster::Configuration;
use barn_heap::Heap;
use barn_log::Record;

/// What has come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reopened {
    /// Shards.
    pub shards: usize,
    /// Of those, shards whose table is no more: they are given up at the first request.
    pub dropped: usize,
    /// Keys in all of them.
    pub keys: u64,
}

impl Tables {
    /// Opens shards again: a table, a shard and the values of its notes, for each. Before anything else is
    /// allocated from the heap.
    pub fn reopen(
        &mut self,
        heap: &mut Heap,
        configuration: &Configuration,
        notes: impl Iterator<Item = (u32, u16, Vec<Vec<u8>>)>,
    ) -> Result<Reopened, String> {
        let mut reopened = Reopened::default();
        for (table, shard, values) in notes {
            let named = |error: ReopenError| format!("shard {shard} of table {table}: {error}");
            if self.shards.iter().any(|(part, _)| *part == (table, shard)) {
                return Err(named(ReopenError::Notes("it is there twice")));
            }
            let held = Held::reopen(heap, table, shard, values).map_err(named)?;
            let placed = configuration.table(table);
            if let Some(placed) = placed
                && TableOptions::from_text(&placed.options).as_ref() != Ok(&held.options)
            {
                return Err(named(ReopenError::Notes("the table was made with other options")));
            }
            reopened.shards += 1;
            reopened.dropped += usize::from(placed.is_none() && configuration.version >= held.made);
            reopened.keys += held.shard.stats().keys;
            self.shards.push(((table, shard), held));
        }
        Ok(reopened)
    }

    /// Writes down all that is needed besides the memory: for a checkpoint.
    pub fn remember(&self, heap: &Heap, record: &mut Record) {
        for ((table, shard), held) in &self.shards {
            if held.options.purpose().is_durable() {
                let value = held.birth(heap);
                record.note_set(NoteKey::new(*table, *shard).as_bytes(), &value);
            }
        }
    }
}

impl Held {
    fn birth(&self, heap: &Heap) -> Vec<u8> {
        let Self { options, shards, made, shard } = self;
        let state = shard.remember(heap);
        Birth { shards: *shards, made: *made, options: options.clone(), state: &state }.to_bytes()
    }

    /// Writes a shard down that was made just now.
    pub(super) fn note(&self, heap: &mut Heap, table: u32, shard: u16) {
        if self.options.purpose().is_durable() && heap.changes().is_some() {
            let value = self.birth(heap);
            if let Some(record) = heap.changes() {
                record.note_set(NoteKey::new(table, shard).as_bytes(), &value);
            }
        }
    }

    fn reopen(
        heap: &mut Heap,
        table: u32,
        shard: u16,
        mut values: Vec<Vec<u8>>,
    ) -> Result<Self, ReopenError> {
        let first = values.first_mut().ok_or(ReopenError::Notes("there are none"))?;
        let Birth { shards, made, options, state } = Birth::parse(first)?;
        *first = state.to_vec();
        let part = Part { table, shard, shards };
        if !options.purpose().is_durable() {
            return Err(ReopenError::Volatile);
        }
        let shard: Box<dyn Shard> = match options.kind {
            Kind::Hopscotch => Box::new(hopscotch::Owner::reopen(heap, &options, part, &values)?),
            Kind::Cuckoo => Box::new(cuckoo::Owner::reopen(heap, &options, part, &values)?),
            Kind::Tree => Box::new(tree::Owner::reopen(heap, &options, part, &values)?),
            Kind::Cache => return Err(ReopenError::Volatile),
        };
        Ok(Self { options, shards, made, shard })
    }
}
