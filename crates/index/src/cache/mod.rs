//! HERD's bounded cache.

use crate::client::memory::{Memory, Unreadable};
use crate::error::Refused;
use crate::key::{Found, Key, Looked};
use crate::node::{Decision, Part, Shard, ShardStats};
use crate::options::TableOptions;
use crate::wire::Malformed;
use barn_heap::Heap;
use barn_layout::RegionId;

/// The node's side.
#[derive(Debug)]
pub struct Owner {}

impl Owner {
    /// An empty shard.
    pub fn new(_heap: &mut Heap, _options: &TableOptions, _part: Part) -> Result<Self, Refused> {
        Err(Refused::Invalid("this kind of table is not there yet".into()))
    }
}

impl Shard for Owner {
    fn get(&mut self, _: &Heap, _: Key<'_>, _: &mut Found) -> Result<bool, Refused> {
        Ok(false)
    }

    fn update<'v>(
        &mut self,
        _: &mut Heap,
        _: Key<'_>,
        _: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, Refused> {
        Ok(0)
    }

    fn scan(
        &mut self,
        _: &Heap,
        _: u64,
        _: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<Option<u64>, Refused> {
        Ok(None)
    }

    fn roots(&self, _: &Heap, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn stats(&self) -> ShardStats {
        ShardStats::default()
    }

    fn combined(&mut self) {}

    fn clear(&mut self, _: &mut Heap) {}
}

/// What a client knows of a shard's memory.
#[derive(Clone, Debug)]
pub struct Roots {}

impl Roots {
    /// What the node has said.
    pub fn parse(_bytes: &[u8], _options: &TableOptions, _part: Part) -> Result<Self, Malformed> {
        Err(Malformed)
    }

    /// The regions that lookups read.
    pub fn regions(&self) -> Vec<RegionId> {
        Vec::new()
    }

    /// Looks many keys up in mapped memory.
    pub fn lookup_batch_mapped<M: Memory>(
        &self,
        _memory: &M,
        _keys: &[Key<'_>],
        _found: &mut [Found],
        _looked: &mut [Looked],
        _reads: &mut u64,
    ) -> Result<(), Unreadable> {
        Ok(())
    }

    /// Looks a key up in the shard's memory. Adds the READs that it made to `reads`.
    pub async fn lookup<M: Memory + Sync>(
        &self,
        _memory: &M,
        _key: Key<'_>,
        _found: &mut Found,
        _reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        Ok(Looked::Stale)
    }
}
