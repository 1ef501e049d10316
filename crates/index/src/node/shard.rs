//! A shard: the part of a table that one node holds. One trait for all kinds.

use crate::error::Refused;
use crate::key::{Found, Key, Looked};
use barn_heap::Heap;
use barn_layout::Address;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// How much a shard holds, and in what memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardStats {
    /// Keys, those that have expired and were not yet removed among them.
    pub keys: u64,
    /// Bytes of keys and values.
    pub payload_bytes: u64,
    /// Bytes of memory, all in all.
    pub memory_bytes: u64,
    /// Places for keys without an overflow.
    pub slots: u64,
    /// Nodes of the tree (`tree`).
    pub nodes: u64,
    /// Keys that lie outside of their bucket and the next (`hopscotch`).
    pub overflowed: u64,
    /// Keys moved to make room for others.
    pub moves: u64,
    /// Times that the shard, or a part of it, has grown.
    pub grown: u64,
    /// Gets that the node has answered.
    pub gets: u64,
    /// Of those, gets that found something.
    pub hits: u64,
    /// Changes made.
    pub updates: u64,
    /// Keys forgotten to make room (`cache`).
    pub evicted: u64,
    /// Keys removed because their time was over.
    pub expired: u64,
    /// Changes that were combined with a later one of the same key.
    pub combined: u64,
}

/// The part of a table that this node holds. All of it runs on the node's poll loop; strangers read
/// the memory meanwhile.
pub trait Shard: Send {
    /// Looks a key up; `false` if it is not there. What has expired is for the caller to see.
    fn get(&mut self, heap: &Heap, key: Key<'_>, found: &mut Found) -> Result<bool, Refused>;

    /// Looks a key up and changes it: `decide` is told what is there, or nothing, and says what is to
    /// become of it. Gives the version that the key has from then on; 0 if it is not there.
    ///
    /// `decide` may be called once only, and nothing has been changed if this fails.
    fn update<'v>(
        &mut self,
        heap: &mut Heap,
        key: Key<'_>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, Refused>;

    /// Gives the keys from `cursor` on, until `each` says that it has enough; then the cursor at
    /// which to go on, or nothing at the end. A key that is there all the time is given at least once.
    fn scan(
        &mut self,
        heap: &Heap,
        cursor: u64,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<Option<u64>, Refused>;

    /// Gives the keys from `from` on and before `to`, in their order, until `each` says that it has enough:
    /// whether it got to the end. Of a kind that keeps no order, nothing.
    fn range(
        &mut self,
        heap: &Heap,
        from: &[u8],
        to: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<bool, Refused> {
        let _ = (heap, from, to, each);
        Err(Refused::Invalid(
            "keys of this table are in no order: a table of the kind `tree` has ranges".into(),
        ))
    }

    /// What a client needs to read the shard's memory for itself: the kind's own bytes. `query` is
    /// what the client's side of the kind has asked with.
    fn roots(&self, heap: &Heap, query: &[u8]) -> Vec<u8>;

    /// How much it holds.
    fn stats(&self) -> ShardStats;

    /// Asks the CPU for the memory that a `get` of this key will look at first.
    fn prefetch(&self, heap: &Heap, key: Key<'_>) {
        let _ = (heap, key);
    }

    /// Asks for what a `get` of this key will look at next, once that has come.
    fn prefetch_more(&self, heap: &Heap, key: Key<'_>) {
        let _ = (heap, key);
    }

    /// Asks for all that a `get` of this key may look at, which is alone: misses that overlap cost as much as one.
    fn prefetch_alone(&self, heap: &Heap, key: Key<'_>) {
        self.prefetch(heap, key);
    }

    /// Looks many keys up at once, as far as that can be told at once and their values are short: into `found`, where
    /// `looked` says so. What is left [`Looked::Unsettled`] or [`Looked::Stale`] is for `get`. The keys come with the
    /// table's seed: each is hashed when its turn comes, while the memory of those before it is on its way.
    fn glance(
        &mut self,
        heap: &Heap,
        (seed, keys): (u64, &[&[u8]]),
        found: &mut [Found],
        looked: &mut [Looked],
    ) {
        let _ = found;
        keys.iter().for_each(|key| self.prefetch(heap, Key::new(seed, key)));
        looked.fill(Looked::Unsettled);
    }

    /// Asks for what a change of this key will look at.
    fn prefetch_change(&self, heap: &Heap, key: Key<'_>) {
        let _ = (heap, key);
    }

    /// A transaction has changed this object: true if it is one of the shard's.
    fn touched(&mut self, address: Address) -> bool {
        let _ = address;
        false
    }

    /// Brings the counts up to date, where transactions have changed the shard.
    fn recount(&mut self, heap: &mut Heap) {
        let _ = heap;
    }

    /// Counts a change that was combined with a later one.
    fn combined(&mut self);

    /// Makes room near the key whose hash `query` holds: a transaction found none.
    fn grow(&mut self, heap: &mut Heap, query: &[u8]) {
        let _ = (heap, query);
    }

    /// Does some of what can wait, a bounded piece; called between requests. Whether there was anything to do.
    fn tend(&mut self, heap: &mut Heap) -> bool {
        let _ = heap;
        false
    }

    /// All that is needed besides the memory to open the shard again after a restart. As that changes,
    /// the shard adds deltas to the heap's record of changes ([`super::notes`]).
    fn remember(&self, heap: &Heap) -> Vec<u8>;

    /// Gives all memory back.
    fn clear(&mut self, heap: &mut Heap);
}

/// What `decide` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Nothing changes.
    #[default]
    Keep,
    /// The key has this value from now on.
    Store {
        /// The value.
        value: Cow<'a, [u8]>,
        /// When it expires, in milliseconds since 1970; 0 for never.
        expires: u64,
    },
    /// The key is gone.
    Remove,
}

impl ShardStats {
    /// Adds another shard's.
    pub fn add(&mut self, other: &Self) {
        let Self {
            keys,
            payload_bytes,
            memory_bytes,
            slots,
            nodes,
            overflowed,
            moves,
            grown,
            gets,
            hits,
            updates,
            evicted,
            expired,
            combined,
        } = other;
        self.keys += keys;
        self.payload_bytes += payload_bytes;
        self.memory_bytes += memory_bytes;
        self.slots += slots;
        self.nodes += nodes;
        self.overflowed += overflowed;
        self.moves += moves;
        self.grown += grown;
        self.gets += gets;
        self.hits += hits;
        self.updates += updates;
        self.evicted += evicted;
        self.expired += expired;
        self.combined += combined;
    }
}
