//! Nodes divided when they are full, and put together when they are nearly empty.
//!
//! What always holds: every step leaves a whole tree, and changes the nodes of one parent, and that parent, at
//! once. A node whose parent has no room is divided after the parent is.

use super::edit;
use super::node::{Content, Entry, NODE_BYTES, Node, Plan};
use super::owner::{Owner, Path, damaged};
use crate::error::Refused;
use crate::objects::Objects;
use barn_heap::{Heap, Image};
use barn_layout::planted;
use barn_transaction::Pointer;

/// A node is put together with its neighbour when less than this part of it is used.
const USED_MIN: usize = 4;

impl Owner {
    /// The bytes of a node.
    fn body(&self, heap: &Heap, pointer: Pointer) -> Result<Vec<u8>, Refused> {
        let mut image = Image::default();
        self.bring(heap, pointer, &mut image)?;
        Ok(image.body().to_vec())
    }

    fn plan<'a>(&self, body: &'a [u8]) -> Result<Plan<'a>, Refused> {
        Node::parse(body, self.whose).and_then(|node| Plan::of(node, self.whose)).ok_or_else(damaged)
    }

    /// Divides a node, or one above it that has to be divided first: an entry is to come before the one that
    /// is `at` now.
    pub(super) fn divide(
        &mut self,
        heap: &mut Heap,
        (node, at): (Pointer, usize),
        path: &[(Pointer, usize)],
    ) -> Result<(), Refused> {
        let body = self.body(heap, node)?;
        let plan = self.plan(&body)?;
        let is_last = at == plan.entries.len() && plan.high.is_none();
        let halves = edit::halve(&plan.entries, is_last).ok_or_else(damaged)?;
        let Some(((parent, below), above)) = path.split_last() else {
            return self.divide_root(heap, &plan, &halves);
        };
        let mut parent_body = self.body(heap, *parent)?;
        let mut objects = Objects::new(heap, self.purpose);
        let right = objects.alloc(NODE_BYTES, Some(node.address))?;
        let entry = Entry { key: halves.between, content: Content::Child(right) };
        if !edit::insert(&mut parent_body, self.whose, below + 1, &entry) {
            objects.abandon();
            return self.divide(heap, (*parent, below + 1), above);
        }
        let upper = Plan { low: halves.between, entries: halves.high.clone(), ..plan.clone() };
        let lower = Plan {
            high: Some(halves.between),
            right: Some(right),
            entries: halves.low.clone(),
            ..plan.clone()
        };
        objects.store(right, upper.to_bytes().ok_or_else(damaged)?);
        objects.store(node, lower.to_bytes().ok_or_else(damaged)?);
        if !planted("tree_parent_forgotten") {
            objects.store(*parent, parent_body);
        }
        let memory = objects.commit()?;
        self.remembered(memory, 1);
        self.stats.grown += 1;
        self.stats.moves += halves.high.len() as u64;
        Ok(())
    }

    /// The root stays where it is: its halves become new nodes.
    fn divide_root(
        &mut self,
        heap: &mut Heap,
        plan: &Plan<'_>,
        halves: &edit::Halves<'_>,
    ) -> Result<(), Refused> {
        let mut objects = Objects::new(heap, self.purpose);
        let near = Some(self.root.address);
        let made =
            objects.alloc(NODE_BYTES, near).and_then(|low| Ok((low, objects.alloc(NODE_BYTES, near)?)));
        let (low, high) = made.inspect_err(|_| objects.abandon())?;
        let upper = Plan { low: halves.between, entries: halves.high.clone(), ..plan.clone() };
        let lower = Plan {
            high: Some(halves.between),
            right: Some(high),
            entries: halves.low.clone(),
            ..plan.clone()
        };
        let child = |key, pointer| Entry { key, content: Content::Child(pointer) };
        let entries = vec![child(plan.low, low), child(halves.between, high)];
        let root = Plan { level: plan.level + 1, entries, ..plan.clone() };
        objects.store(low, lower.to_bytes().ok_or_else(damaged)?);
        objects.store(high, upper.to_bytes().ok_or_else(damaged)?);
        objects.store(self.root, root.to_bytes().ok_or_else(damaged)?);
        let memory = objects.commit()?;
        self.remembered(memory, 2);
        self.stats.grown += 1;
        self.stats.moves += plan.entries.len() as u64;
        Ok(())
    }

    /// Puts a node together with a neighbour if it is nearly empty, and so on above it.
    pub(super) fn put_together(&mut self, heap: &mut Heap, node: Pointer, path: &mut Path) {
        let mut node = node;
        while let Some((parent, at)) = path.pop() {
            // What cannot be done now is done when another key goes.
            match self.put_one_together(heap, node, parent, at) {
                Ok(true) => node = parent,
                _ => return,
            }
        }
        while let Ok(true) = self.lower_root(heap) {}
    }

    fn put_one_together(
        &mut self,
        heap: &mut Heap,
        node: Pointer,
        parent: Pointer,
        at: usize,
    ) -> Result<bool, Refused> {
        let body = self.body(heap, node)?;
        let this = Node::parse(&body, self.whose).ok_or_else(damaged)?;
        if this.used() * USED_MIN >= this.capacity() {
            return Ok(false);
        }
        let parent_body = self.body(heap, parent)?;
        let above = Node::parse(&parent_body, self.whose).ok_or_else(damaged)?;
        let child = |at: usize| match above.entry(at).map(|entry| entry.content) {
            Some(Content::Child(pointer)) => Some(pointer),
            _ => None,
        };
        // With the next one of the same parent, or else with the one before.
        for left_at in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            let (Some(left), Some(right)) = (child(left_at), child(left_at + 1)) else { continue };
            if self.join(heap, (left, right), (parent, left_at, &parent_body))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves all of a node to the one before it, if there is room.
    fn join(
        &mut self,
        heap: &mut Heap,
        (left, right): (Pointer, Pointer),
        (parent, left_at, parent_body): (Pointer, usize, &[u8]),
    ) -> Result<bool, Refused> {
        let (left_body, right_body) = (self.body(heap, left)?, self.body(heap, right)?);
        let (low, high) = (self.plan(&left_body)?, self.plan(&right_body)?);
        let entries = low.entries.iter().chain(&high.entries).copied().collect();
        let both = Plan { high: high.high, right: high.right, entries, ..low };
        let Some(body) = both.to_bytes() else { return Ok(false) };
        let mut parent_body = parent_body.to_vec();
        if !edit::remove(&mut parent_body, self.whose, left_at + 1) {
            return Err(damaged());
        }
        let mut objects = Objects::new(heap, self.purpose);
        objects.store(left, body);
        objects.store(parent, parent_body);
        objects.free(right);
        let memory = objects.commit()?;
        self.remembered(memory, -1);
        self.stats.moves += high.entries.len() as u64;
        Ok(true)
    }

    /// A root above one node only takes that one's place.
    fn lower_root(&mut self, heap: &mut Heap) -> Result<bool, Refused> {
        let body = self.body(heap, self.root)?;
        let root = Node::parse(&body, self.whose).ok_or_else(damaged)?;
        let (1, Some(Entry { content: Content::Child(only), .. })) = (root.count, root.entry(0)) else {
            return Ok(false);
        };
        let child = self.body(heap, only)?;
        let mut objects = Objects::new(heap, self.purpose);
        objects.store(self.root, child);
        objects.free(only);
        let memory = objects.commit()?;
        self.remembered(memory, -1);
        Ok(true)
    }
}
