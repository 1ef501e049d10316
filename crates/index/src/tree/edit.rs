//! Changes of a node in place: only the bytes that change are touched, and so only they are logged.
//!
//! What always holds: an edit that finds no room has changed nothing.

use super::node::{Content, Entry, NODE_BYTES, Node, Plan, SLOT_BYTES, Whose, u16_at};
use barn_heap::Image;
use std::ops::Range;

/// The bytes of a node, to be changed.
pub(super) trait Page {
    fn body(&self) -> &[u8];
    /// All bytes, of which these are about to be changed, and nothing else.
    fn change(&mut self, range: Range<usize>) -> &mut [u8];
}

impl Page for Image {
    fn body(&self) -> &[u8] {
        Image::body(self)
    }

    fn change(&mut self, range: Range<usize>) -> &mut [u8] {
        Image::change(self, range)
    }
}

impl Page for Vec<u8> {
    fn body(&self) -> &[u8] {
        self
    }

    fn change(&mut self, _: Range<usize>) -> &mut [u8] {
        self
    }
}

/// What of a node's head changes with its entries.
struct Head {
    count: usize,
    start: usize,
    dead: usize,
    slots: usize,
}

impl Head {
    fn of(page: &impl Page, whose: Whose) -> Option<Self> {
        let node = Node::parse(page.body(), whose)?;
        let (start, dead) = (usize::from(u16_at(node.body, 4)?), usize::from(u16_at(node.body, 6)?));
        let end = node.slots + node.count * SLOT_BYTES;
        (end <= start && start <= NODE_BYTES).then_some(Self {
            count: node.count,
            start,
            dead,
            slots: node.slots,
        })
    }

    /// Writes it down, and moves the slots from `at` on by one: up if a key comes, down if one goes.
    fn write(&self, page: &mut impl Page, at: usize, comes: Option<usize>, goes: bool) {
        let slot = |at: usize| self.slots + at * SLOT_BYTES;
        let before = u16_at(page.body(), 2).map_or(0, usize::from);
        // In one piece with the head: what lies between is short.
        let body = page.change(0..slot(before.max(self.count)));
        match comes {
            Some(_) if self.count > before => body.copy_within(slot(at)..slot(before), slot(at + 1)),
            _ if goes => body.copy_within(slot(at + 1)..slot(before), slot(at)),
            _ => {}
        }
        if let Some(offset) = comes {
            body[slot(at)..slot(at + 1)].copy_from_slice(&(offset as u16).to_le_bytes());
        }
        body[2..4].copy_from_slice(&(self.count as u16).to_le_bytes());
        body[4..6].copy_from_slice(&(self.start as u16).to_le_bytes());
        body[6..8].copy_from_slice(&(self.dead as u16).to_le_bytes());
    }
}

/// Puts the entries together, so that no byte among them is unused.
fn compact(page: &mut impl Page, whose: Whose) -> Option<()> {
    let node = Node::parse(page.body(), whose)?;
    let body = Plan::of(node, whose)?.to_bytes()?;
    page.change(0..NODE_BYTES).copy_from_slice(&body);
    Some(())
}

/// Room for an entry of so many bytes behind the others, without its slot; none if there is none.
fn place(page: &mut impl Page, whose: Whose, bytes: usize, slots: usize) -> Option<Head> {
    let fits = |head: &Head, dead: usize| {
        head.slots + (head.count + slots) * SLOT_BYTES + bytes <= head.start + dead
    };
    let head = Head::of(page, whose)?;
    if fits(&head, 0) {
        return Some(head);
    }
    if !fits(&head, head.dead) {
        return None;
    }
    compact(page, whose)?;
    Head::of(page, whose)
}

/// Puts an entry before the one that is `at` now; false if there is no room.
pub(super) fn insert(page: &mut impl Page, whose: Whose, at: usize, entry: &Entry<'_>) -> bool {
    let bytes = entry.bytes();
    let Some(mut head) = place(page, whose, bytes, 1).filter(|head| at <= head.count) else { return false };
    head.start -= bytes;
    head.count += 1;
    put(page, head.start, entry);
    head.write(page, at, Some(head.start), false);
    true
}

/// Puts an entry in the place of the one that is there, of the same key; false if there is no room.
pub(super) fn replace(page: &mut impl Page, whose: Whose, at: usize, entry: &Entry<'_>) -> bool {
    let Some((offset, old)) = found(page, whose, at) else { return false };
    let bytes = entry.bytes();
    if bytes == old {
        put(page, offset, entry);
        return true;
    }
    // The old one's bytes count as free, whether or not they are needed.
    let Some(mut head) = Head::of(page, whose) else { return false };
    head.dead += old;
    if head.slots + head.count * SLOT_BYTES + bytes > head.start {
        if head.slots + head.count * SLOT_BYTES + bytes > head.start + head.dead {
            return false;
        }
        return rebuild(page, whose, at, entry).is_some();
    }
    head.start -= bytes;
    put(page, head.start, entry);
    head.write(page, at, Some(head.start), false);
    true
}

/// The same, with all entries put together anew.
fn rebuild(page: &mut impl Page, whose: Whose, at: usize, entry: &Entry<'_>) -> Option<()> {
    let node = Node::parse(page.body(), whose)?;
    let mut plan = Plan::of(node, whose)?;
    *plan.entries.get_mut(at)? = *entry;
    let body = plan.to_bytes()?;
    page.change(0..NODE_BYTES).copy_from_slice(&body);
    Some(())
}

/// Takes an entry out.
pub(super) fn remove(page: &mut impl Page, whose: Whose, at: usize) -> bool {
    let Some((_, old)) = found(page, whose, at) else { return false };
    let Some(mut head) = Head::of(page, whose) else { return false };
    head.dead += old;
    head.count -= 1;
    head.write(page, at, None, true);
    true
}

/// Where an entry is, and how long.
fn found(page: &impl Page, whose: Whose, at: usize) -> Option<(usize, usize)> {
    let node = Node::parse(page.body(), whose)?;
    Some((node.offset(at)?, node.entry(at)?.bytes()))
}

fn put(page: &mut impl Page, at: usize, entry: &Entry<'_>) {
    let mut bytes = Vec::with_capacity(entry.bytes());
    entry.write(&mut bytes);
    page.change(at..at + bytes.len())[at..at + bytes.len()].copy_from_slice(&bytes);
}

/// Two nodes of one: its lower and its upper half, by bytes.
pub(super) struct Halves<'a> {
    pub(super) low: Vec<Entry<'a>>,
    pub(super) high: Vec<Entry<'a>>,
    /// Greater than all keys of the lower half, and no greater than any of the upper.
    pub(super) between: &'a [u8],
}

/// Divides the entries of a node; none if it has fewer than two. Where keys come in order, nothing comes to the
/// lower half any more: it stays full.
pub(super) fn halve<'a>(entries: &[Entry<'a>], in_order: bool) -> Option<Halves<'a>> {
    let total: usize = entries.iter().map(|entry| entry.bytes() + SLOT_BYTES).sum();
    let (mut at, mut bytes) = (0, 0);
    while at + 1 < entries.len() && (at == 0 || in_order || 2 * bytes < total) {
        bytes += entries[at].bytes() + SLOT_BYTES;
        at += 1;
    }
    let (low, high) = entries.split_at(at);
    let (last, first) = (low.last()?, high.first()?);
    let between = match first.content {
        // As short as can be: inner nodes have room for more of them, then.
        Content::Inline { .. } | Content::Outside { .. } => {
            let same = last.key.iter().zip(first.key).take_while(|(low, high)| low == high).count();
            &first.key[..(same + 1).min(first.key.len())]
        }
        Content::Child(_) => first.key,
    };
    Some(Halves { low: low.to_vec(), high: high.to_vec(), between })
}
