//! Going through a tree: a range of it, or all.

use super::node::{Content, Node};
use super::owner::{LEVELS_MAX, Owner, damaged};
use crate::error::{Refused, ReopenError};
use crate::key::Found;
use crate::node::ShardStats;
use barn_heap::{HEADER_BYTES, Heap, Image};
use barn_transaction::Pointer;
use std::cmp::Ordering;

/// Bytes of memory of an object.
fn slot_bytes(heap: &Heap, pointer: Pointer) -> u64 {
    heap.capacity(pointer.address).map_or(0, |bytes| (bytes + HEADER_BYTES) as u64)
}

impl Owner {
    /// Gives the keys from `from` on and before `to`, in their order, until `each` says that it has enough:
    /// whether it got to the end.
    pub(super) fn walk_range(
        &self,
        heap: &Heap,
        from: &[u8],
        to: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<bool, Refused> {
        let mut image = Image::default();
        let mut next = Some(self.first_leaf(heap, from, &mut image)?);
        let mut found = Found::default();
        while let Some(pointer) = next {
            self.bring(heap, pointer, &mut image)?;
            let node = Node::parse(image.body(), self.whose).ok_or_else(damaged)?;
            let start = match node.search(from).ok_or_else(damaged)? {
                Ok(at) | Err(at) => at,
            };
            for at in start..node.count {
                let entry = node.entry(at).ok_or_else(damaged)?;
                if to.is_some_and(|to| entry.key >= to) {
                    return Ok(true);
                }
                self.take(heap, entry, &mut found)?;
                if !each(entry.key, &found) {
                    return Ok(false);
                }
            }
            next = node.right();
        }
        Ok(true)
    }

    fn first_leaf(&self, heap: &Heap, key: &[u8], image: &mut Image) -> Result<Pointer, Refused> {
        let mut pointer = self.root;
        for _ in 0..LEVELS_MAX {
            self.bring(heap, pointer, image)?;
            let node = Node::parse(image.body(), self.whose).ok_or_else(damaged)?;
            if node.level() == 0 {
                return Ok(pointer);
            }
            pointer = node.child(key).ok_or_else(damaged)?.1;
        }
        Err(damaged())
    }

    /// Looks at every node, from the root down, and counts what they hold: after a restart.
    pub(super) fn count(&self, heap: &Heap) -> Result<ShardStats, ReopenError> {
        let wrong = ReopenError::Memory;
        let mut stats = ShardStats::default();
        let mut level: Vec<Pointer> = vec![self.root];
        let mut height = None;
        let mut image = Image::default();
        while !level.is_empty() {
            let mut below = Vec::new();
            let mut fence: Option<Vec<u8>> = Some(Vec::new());
            for (at, pointer) in level.iter().enumerate() {
                self.bring(heap, *pointer, &mut image).map_err(|_| wrong("a node of a tree is not there"))?;
                let node = Node::parse(image.body(), self.whose)
                    .ok_or_else(|| wrong("a node of a tree is another's"))?;
                let is_here = height.is_none_or(|height| node.level() == height)
                    && fence.as_deref() == Some(node.low())
                    && node.right() == level.get(at + 1).copied();
                if !is_here {
                    return Err(wrong("a node of a tree is in another's place"));
                }
                height = Some(node.level());
                fence = node.high().map(<[u8]>::to_vec);
                stats.nodes += 1;
                stats.memory_bytes += slot_bytes(heap, *pointer);
                let mut last: Option<&[u8]> = None;
                for entry in node.entries() {
                    let entry = entry.ok_or_else(|| wrong("an entry of a tree makes no sense"))?;
                    let ascends = last.is_none_or(|last| last < entry.key);
                    if !ascends || node.place(entry.key) != Ordering::Equal {
                        return Err(wrong("keys of a tree are not in order"));
                    }
                    last = Some(entry.key);
                    match (node.level(), entry.content) {
                        (1.., Content::Child(pointer)) => below.push(pointer),
                        (0, Content::Inline { .. }) => stats.keys += 1,
                        (0, Content::Outside { pointer, .. }) => {
                            stats.keys += 1;
                            stats.memory_bytes += slot_bytes(heap, pointer);
                        }
                        _ => return Err(wrong("an entry of a tree is on another's level")),
                    }
                    stats.payload_bytes += entry.payload();
                }
            }
            if fence.is_some() {
                return Err(wrong("a level of a tree has no end"));
            }
            height = height.and_then(|height| height.checked_sub(1));
            level = below;
        }
        Ok(stats)
    }

    /// Frees all nodes and all that lies outside of them.
    pub(super) fn free_all(&self, heap: &mut Heap) {
        let mut left = vec![self.root];
        let mut image = Image::default();
        while let Some(pointer) = left.pop() {
            if self.bring(heap, pointer, &mut image).is_err() {
                continue;
            }
            let Some(node) = Node::parse(image.body(), self.whose) else { continue };
            for entry in node.entries().flatten() {
                match entry.content {
                    Content::Child(child) => left.push(child),
                    Content::Outside { pointer, .. } => free(heap, pointer),
                    Content::Inline { .. } => {}
                }
            }
            free(heap, pointer);
        }
    }
}

fn free(heap: &mut Heap, pointer: Pointer) {
    let locked = heap.header(pointer.address).and_then(|header| {
        heap.lock(pointer.address, header.word.version(), pointer.incarnation)?;
        heap.free(pointer.address)
    });
    // Nobody but the shard knows of it: what is not free now was not there.
    let _ = locked;
}
