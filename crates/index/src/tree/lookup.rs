//! The client's side: going down a tree by READs, of which its node knows nothing.
//!
//! Where a READ is a load, every node on the way is loaded. Elsewhere a client remembers inner nodes (Cell
//! section 3.3), and mostly needs one READ, that of the leaf. What it remembers may be out of date: a leaf that
//! is there, and between whose fences the key lies, is the right one nevertheless, for no two are; one whose
//! keys are all less points to where the others have gone; and any other means that the way down has to be
//! found anew.

use super::node::{Content, Entry, KEY_BYTES_MAX, NODE_BYTES, Node, Whose};
use super::owner::{LEVELS_MAX, Owner};
use crate::client::memory::{Memory, Unreadable};
use crate::key::{Found, Key, Looked};
use crate::node::Part;
use crate::options::TableOptions;
use crate::outside::{Outside, look_outside};
use crate::wire::Malformed;
use barn_fabric::region::{Ordering as Order, fence};
use barn_fabric::{Confirmation, Words};
use barn_heap::object::read_bytes;
use barn_heap::{HEADER_BYTES, Seen, inspect};
use barn_layout::limits::WORD_BYTES;
use barn_layout::{RegionId, planted};
use barn_transaction::Pointer;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// What a READ of a node brings.
const READ_BYTES: usize = read_bytes(NODE_BYTES);
/// Nodes that are remembered: 64 MiB of them, which stand above some ten million keys.
const REMEMBERED_MAX: usize = 1 << 16;
/// Steps down and to the right before a lookup begins anew.
const STEPS_MAX: usize = 2 * LEVELS_MAX;

/// What a client knows of a shard's memory.
#[derive(Clone, Debug)]
pub struct Roots {
    root: Pointer,
    whose: Whose,
    /// Inner nodes by their addresses.
    remembered: Arc<RwLock<HashMap<u64, Arc<Remembered>>>>,
}

#[derive(Debug)]
struct Remembered {
    incarnation: u32,
    body: Vec<u8>,
}

/// The keys of a leaf, from one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafPage {
    /// Keys and what they have, in their order. Without what is too long to lie in a node: that is to be asked
    /// for.
    pub keys: Vec<(Vec<u8>, Option<Found>)>,
    /// The least key that may follow.
    pub next: Option<Vec<u8>>,
    /// Where that one probably is.
    pub right: Option<Pointer>,
}

/// How a way down ended.
enum Way {
    /// At the leaf of the key, which is in the buffer.
    Leaf,
    /// A writer was there, or what was remembered is out of date.
    Unsettled,
    /// The root is not there.
    Stale,
}

impl Roots {
    /// What the node has said of the shard.
    pub fn parse(bytes: &[u8], _: &TableOptions, part: Part) -> Result<Self, Malformed> {
        let root = Owner::parse_root(bytes).ok_or(Malformed)?;
        let whose = Whose { table: part.table, shard: part.shard };
        Ok(Self { root, whose, remembered: Arc::default() })
    }

    /// The region where the tree begins. The others are opened as lookups come to them.
    pub fn regions(&self) -> Vec<RegionId> {
        vec![self.root.address.region()]
    }

    fn recall(&self, pointer: Pointer) -> Option<Arc<Remembered>> {
        let remembered = self.remembered.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let node = remembered.get(&pointer.address.to_bits())?;
        (node.incarnation == pointer.incarnation).then(|| node.clone())
    }

    fn remember(&self, pointer: Pointer, body: &[u8]) {
        let node = Remembered { incarnation: pointer.incarnation, body: body.to_vec() };
        let mut remembered = self.remembered.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(pointer.address.to_bits(), Arc::new(node));
    }

    fn forget(&self, path: &[Pointer]) {
        let mut remembered = self.remembered.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        for pointer in path {
            remembered.remove(&pointer.address.to_bits());
        }
    }

    /// Goes down to the leaf of a key, whose bytes are in `bytes` then, behind an object's header.
    async fn descend<M: Memory + Sync>(
        &self,
        memory: &M,
        key: &[u8],
        bytes: &mut [u8],
        reads: &mut u32,
    ) -> Result<Way, Unreadable> {
        let mut pointer = self.root;
        // Inner nodes that were remembered, and so may be out of date.
        let mut recalled: Vec<Pointer> = Vec::new();
        for _ in 0..STEPS_MAX {
            if let Some(node) = self.recall(pointer) {
                recalled.push(pointer);
                let next = Node::parse(&node.body, self.whose).and_then(|node| self.step(node, key));
                match next {
                    Some(next) => pointer = next,
                    None => {
                        self.forget(&recalled);
                        return Ok(Way::Unsettled);
                    }
                }
                continue;
            }
            let confirmation = memory.read_confirmed(pointer.address, bytes).await?;
            *reads += 1;
            match inspect(pointer.address, Some(pointer.incarnation), bytes, confirmation) {
                Seen::Whole(view) if view.bytes == NODE_BYTES => {}
                Seen::Freed if pointer == self.root => return Ok(Way::Stale),
                Seen::Freed | Seen::Longer { .. } | Seen::Whole(_) => {
                    self.forget(&recalled);
                    return Ok(Way::Unsettled);
                }
                Seen::Locked | Seen::Torn => return Ok(Way::Unsettled),
            }
            let body = &bytes[HEADER_BYTES..HEADER_BYTES + NODE_BYTES];
            let Some(node) = Node::parse(body, self.whose) else {
                self.forget(&recalled);
                return Ok(Way::Unsettled);
            };
            let place = node.place(key);
            if place == Ordering::Less {
                self.forget(&recalled);
                return Ok(Way::Unsettled);
            }
            if node.level() == 0 && (place == Ordering::Equal || planted("tree_fences_ignored")) {
                return Ok(Way::Leaf);
            }
            if place == Ordering::Greater {
                // The node above knows more by now.
                self.forget(&recalled);
            } else {
                self.remember(pointer, body);
            }
            match self.step(node, key) {
                Some(next) => pointer = next,
                None => return Ok(Way::Unsettled),
            }
        }
        self.forget(&recalled);
        Ok(Way::Unsettled)
    }

    /// Where to go from an inner node: down, or to the right.
    #[inline]
    fn step(&self, node: Node<'_>, key: &[u8]) -> Option<Pointer> {
        match node.place(key) {
            Ordering::Less => None,
            Ordering::Equal => node.child(key).map(|(_, child)| child),
            Ordering::Greater => node.right(),
        }
    }

    /// Looks a key up in the shard's memory. Adds the READs that it made to `reads`.
    pub async fn lookup<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        if key.bytes.len() > KEY_BYTES_MAX {
            return Ok(Looked::Absent);
        }
        let region = self.root.address.region();
        if memory.mapped(region).is_some() {
            let looked = self.look_mapped(|region| memory.mapped(region), key, found, reads)?;
            memory.believe(region)?;
            return Ok(looked);
        }
        let mut bytes = vec![0; READ_BYTES];
        match self.descend(memory, key.bytes, &mut bytes, reads).await? {
            Way::Leaf => {}
            Way::Unsettled => return Ok(Looked::Unsettled),
            Way::Stale => return Ok(Looked::Stale),
        }
        let node = Node::parse(&bytes[HEADER_BYTES..HEADER_BYTES + NODE_BYTES], self.whose);
        let looked = match node.and_then(|node| entry(node, key.bytes)) {
            None => Looked::Unsettled,
            Some(None) => Looked::Absent,
            Some(Some(Content::Inline { version, expires, value })) => {
                give(found, version, expires, value);
                Looked::Found
            }
            Some(Some(Content::Outside { version, pointer })) => {
                let looked = look_outside(memory, pointer, key, found, reads).await?;
                found.version = version;
                // The leaf says that it is there: what is not has been changed since.
                if looked == Looked::Found { looked } else { Looked::Unsettled }
            }
            Some(Some(Content::Child(_))) => Looked::Unsettled,
        };
        memory.believe(region)?;
        Ok(looked)
    }

    /// Looks a key up in mapped memory. Nothing may be concluded before a region of it is believed.
    pub(crate) fn look_mapped<'m>(
        &self,
        mapped: impl Fn(RegionId) -> Option<&'m Words>,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        if key.bytes.len() > KEY_BYTES_MAX {
            return Ok(Looked::Absent);
        }
        let words = |pointer: Pointer| {
            mapped(pointer.address.region()).ok_or(Unreadable::Closed(pointer.address.region()))
        };
        let mut bytes = [0; READ_BYTES];
        let mut pointer = self.root;
        for _ in 0..STEPS_MAX {
            *reads += 1;
            let node = match load(words(pointer)?, pointer, &mut bytes)? {
                Seen::Whole(view) if view.bytes == NODE_BYTES => {
                    Node::parse(&bytes[HEADER_BYTES..HEADER_BYTES + NODE_BYTES], self.whose)
                }
                Seen::Freed if pointer == self.root => return Ok(Looked::Stale),
                _ => None,
            };
            let Some(node) = node else { return Ok(Looked::Unsettled) };
            if node.level() > 0 || node.place(key.bytes) != Ordering::Equal {
                match self.step(node, key.bytes) {
                    Some(next) => pointer = next,
                    None => return Ok(Looked::Unsettled),
                }
                continue;
            }
            return match entry(node, key.bytes) {
                None | Some(Some(Content::Child(_))) => Ok(Looked::Unsettled),
                Some(None) => Ok(Looked::Absent),
                Some(Some(Content::Inline { version, expires, value })) => {
                    give(found, version, expires, value);
                    Ok(Looked::Found)
                }
                Some(Some(Content::Outside { version, pointer })) => {
                    *reads += 1;
                    let mut bytes = vec![0; read_bytes(pointer.bytes as usize)];
                    let Seen::Whole(view) = load(words(pointer)?, pointer, &mut bytes)? else {
                        return Ok(Looked::Unsettled);
                    };
                    match Outside::parse(&bytes[HEADER_BYTES..HEADER_BYTES + view.bytes]) {
                        Some(outside) if outside.key == key.bytes => {
                            give(found, version, outside.expires, outside.value);
                            Ok(Looked::Found)
                        }
                        _ => Ok(Looked::Unsettled),
                    }
                }
            };
        }
        Ok(Looked::Unsettled)
    }

    /// Looks many keys up in mapped memory. What comes out as [`Looked::Unsettled`] is for [`Roots::lookup`].
    pub fn lookup_batch_mapped<M: Memory>(
        &self,
        memory: &M,
        keys: &[Key<'_>],
        found: &mut [Found],
        looked: &mut [Looked],
        reads: &mut u64,
    ) -> Result<(), Unreadable> {
        for ((key, found), looked) in keys.iter().zip(found).zip(looked) {
            let mut made = 0;
            *looked = self.look_mapped(|region| memory.mapped(region), *key, found, &mut made)?;
            *reads += u64::from(made);
        }
        memory.believe(self.root.address.region())
    }

    /// The keys from one on that are in the same leaf, so many at most, which is probably at `right`. `Unsettled`
    /// and `Stale` as for a lookup.
    pub async fn page<M: Memory + Sync>(
        &self,
        memory: &M,
        from: &[u8],
        right: Option<Pointer>,
        most: usize,
        reads: &mut u32,
    ) -> Result<Result<LeafPage, Looked>, Unreadable> {
        let mut bytes = vec![0; READ_BYTES];
        let is_there = match right {
            Some(right) => self.is_leaf_of(memory, from, right, &mut bytes, reads).await?,
            None => false,
        };
        if !is_there {
            match self.descend(memory, from, &mut bytes, reads).await? {
                Way::Leaf => {}
                Way::Unsettled => return Ok(Err(Looked::Unsettled)),
                Way::Stale => return Ok(Err(Looked::Stale)),
            }
        }
        let node = Node::parse(&bytes[HEADER_BYTES..HEADER_BYTES + NODE_BYTES], self.whose);
        if let Some(right) = node.and_then(|node| node.right())
            && let Some(words) = memory.mapped(right.address.region())
        {
            // Whoever goes on comes there next.
            words.prefetch(u64::from(right.address.offset()), READ_BYTES);
        }
        memory.believe(self.root.address.region())?;
        Ok(node.and_then(|node| page(node, from, most)).ok_or(Looked::Unsettled))
    }

    /// Reads what may be the leaf of a key: whether it is. A hint opens nothing: if its region is not open, or is
    /// not there, it was none.
    async fn is_leaf_of<M: Memory + Sync>(
        &self,
        memory: &M,
        key: &[u8],
        pointer: Pointer,
        bytes: &mut [u8],
        reads: &mut u32,
    ) -> Result<bool, Unreadable> {
        let confirmation = match memory.read_confirmed(pointer.address, bytes).await {
            Ok(confirmation) => confirmation,
            Err(Unreadable::Closed(_) | Unreadable::Nowhere) => return Ok(false),
            Err(lost) => return Err(lost),
        };
        *reads += 1;
        let seen = inspect(pointer.address, Some(pointer.incarnation), bytes, confirmation);
        if !matches!(seen, Seen::Whole(view) if view.bytes == NODE_BYTES) {
            return Ok(false);
        }
        let node = Node::parse(&bytes[HEADER_BYTES..HEADER_BYTES + NODE_BYTES], self.whose);
        Ok(node.is_some_and(|node| node.level() == 0 && node.place(key) == Ordering::Equal))
    }
}

fn page(node: Node<'_>, from: &[u8], most: usize) -> Option<LeafPage> {
    let start = match node.search(from)? {
        Ok(at) | Err(at) => at,
    };
    let end = node.count.min(start.saturating_add(most));
    let (next, right) = match end == node.count {
        true => (node.high().map(<[u8]>::to_vec), node.right()),
        false => (Some(node.entry(end)?.key.to_vec()), None),
    };
    let mut page = LeafPage { keys: Vec::with_capacity(end - start), next, right };
    for at in start..end {
        let Entry { key, content } = node.entry(at)?;
        let found = match content {
            Content::Inline { version, expires, value } => {
                Some(Found { value: value.to_vec(), version, expires })
            }
            Content::Outside { .. } => None,
            Content::Child(_) => return None,
        };
        page.keys.push((key.to_vec(), found));
    }
    Some(page)
}

fn give(found: &mut Found, version: u64, expires: u64, value: &[u8]) {
    (found.version, found.expires) = (version, expires);
    found.value.clear();
    found.value.extend_from_slice(value);
}

/// What a leaf holds for a key: nothing, if it is not there; no answer, if the bytes make no sense.
fn entry<'a>(node: Node<'a>, key: &[u8]) -> Option<Option<Content<'a>>> {
    match node.search(key)? {
        Ok(at) => Some(Some(node.entry(at)?.content)),
        Err(_) => Some(None),
    }
}

/// Loads an object, and looks whether it is whole.
fn load(words: &Words, pointer: Pointer, into: &mut [u8]) -> Result<Seen, Unreadable> {
    let offset = u64::from(pointer.address.offset());
    let (first, rest) = into.split_at_mut(WORD_BYTES);
    let nowhere = |_| Unreadable::Nowhere;
    // SYNC: Acquire, pairs with the Release store of an object's version: whoever sees the version sees all of
    // its bytes.
    let before = words.load_word(offset, Order::Acquire).map_err(nowhere)?;
    first.copy_from_slice(&before.to_le_bytes());
    words.load(offset + WORD_BYTES as u64, rest).map_err(nowhere)?;
    // SYNC: Acquire, pairs with the Release fence after an object is closed: whoever saw a new byte sees, when it
    // looks at the version again, that it is closed or newer.
    fence(Order::Acquire);
    // ORDER: Relaxed: after the fence.
    let after = words.load_word(offset, Order::Relaxed).map_err(nowhere)?;
    Ok(inspect(pointer.address, Some(pointer.incarnation), into, Confirmation::Again(after)))
}
