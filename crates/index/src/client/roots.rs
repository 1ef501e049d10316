//! What a client knows of the memory of a shard, whatever the table's kind.

use super::memory::{Memory, Unreadable};
use crate::key::{Found, Key, Looked};
use crate::node::Part;
use crate::options::{Kind, TableOptions};
use crate::wire::Malformed;
use crate::{cache, cuckoo, hopscotch, tree};
use barn_layout::RegionId;

/// The roots of a shard.
#[derive(Clone, Debug)]
pub(super) enum Roots {
    Hopscotch(hopscotch::Roots),
    Cuckoo(cuckoo::Roots),
    Cache(cache::Roots),
    Tree(tree::Roots),
}

impl Roots {
    pub(super) fn parse(bytes: &[u8], options: &TableOptions, part: Part) -> Result<Self, Malformed> {
        Ok(match options.kind {
            Kind::Hopscotch => Self::Hopscotch(hopscotch::Roots::parse(bytes, options, part)?),
            Kind::Cuckoo => Self::Cuckoo(cuckoo::Roots::parse(bytes, options, part)?),
            Kind::Cache => Self::Cache(cache::Roots::parse(bytes, options, part)?),
            Kind::Tree => Self::Tree(tree::Roots::parse(bytes, options, part)?),
        })
    }

    /// What to ask the node with to learn of one key's part alone; empty where there is no such thing.
    pub(super) fn query(&self, key: Key<'_>) -> Vec<u8> {
        match self {
            Self::Hopscotch(_) => hopscotch::Roots::query(key).to_vec(),
            Self::Cuckoo(_) | Self::Cache(_) | Self::Tree(_) => Vec::new(),
        }
    }

    /// Takes in what the node has said to that; false if all has to be asked for.
    pub(super) fn patch(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Hopscotch(roots) => roots.patch(bytes),
            Self::Cuckoo(_) | Self::Cache(_) | Self::Tree(_) => false,
        }
    }

    pub(super) fn regions(&self) -> Vec<RegionId> {
        match self {
            Self::Hopscotch(roots) => roots.regions(),
            Self::Cuckoo(roots) => roots.regions(),
            Self::Cache(roots) => roots.regions(),
            Self::Tree(roots) => roots.regions(),
        }
    }

    /// Whether they are short enough to be kept by every thread that has used them.
    pub(super) fn is_small(&self) -> bool {
        match self {
            Self::Hopscotch(roots) => roots.is_small(),
            Self::Cuckoo(_) | Self::Cache(_) | Self::Tree(_) => true,
        }
    }

    pub(super) async fn lookup<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        match self {
            Self::Hopscotch(roots) => roots.lookup(memory, key, found, reads).await,
            Self::Cuckoo(roots) => roots.lookup(memory, key, found, reads).await,
            Self::Cache(roots) => roots.lookup(memory, key, found, reads).await,
            Self::Tree(roots) => roots.lookup(memory, key, found, reads).await,
        }
    }

    /// As [`hopscotch::Roots::lookup_batch_mapped`].
    pub(super) fn lookup_batch_mapped<M: Memory>(
        &self,
        memory: &M,
        keys: &[Key<'_>],
        found: &mut [Found],
        looked: &mut [Looked],
        reads: &mut u64,
    ) -> Result<(), Unreadable> {
        match self {
            Self::Hopscotch(roots) => roots.lookup_batch_mapped(memory, keys, found, looked, reads),
            Self::Cuckoo(roots) => roots.lookup_batch_mapped(memory, keys, found, looked, reads),
            Self::Cache(roots) => roots.lookup_batch_mapped(memory, keys, found, looked, reads),
            Self::Tree(roots) => roots.lookup_batch_mapped(memory, keys, found, looked, reads),
        }
    }
}
