//! The node's side of a shard: keys found and changed.

use super::edit;
use super::node::{Content, ENTRY_BYTES_MAX, Entry, KEY_BYTES_MAX, NODE_BYTES, Node, Plan, Whose, node_at};
use crate::error::{Refused, ReopenError};
use crate::key::{Found, Key};
use crate::node::notes::Deltas;
use crate::node::{Decision, Part, Shard, ShardStats};
use crate::objects::{Objects, Unwritten};
use crate::options::TableOptions;
use crate::outside::Outside;
use crate::wire::split;
use barn_heap::{Heap, Image, Purpose};
use barn_layout::object::LockMode;
use barn_layout::{Address, planted};
use barn_transaction::Pointer;
use std::cmp::Ordering;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const WHOLE: u32 = u32::from_le_bytes(*b"tre1");
const DELTA: u32 = u32::from_le_bytes(*b"tre+");
/// Versions are set aside so many at a time: those of one that was stopped are not used again.
const VERSIONS_AHEAD: u64 = 1 << 16;
/// No tree is higher: a node has at least two below it.
pub(super) const LEVELS_MAX: usize = 40;

/// What is written down of a shard.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct WholeBytes {
    format: U32,
    root: RootBytes,
    versions_max: U64,
}

/// Where a tree begins.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RootBytes {
    incarnation: U32,
    address: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct DeltaBytes {
    format: U32,
    versions_max: U64,
}

/// Where a change has come from: the nodes above, and which of their entries was followed.
pub(super) type Path = Vec<(Pointer, usize)>;

/// A shard of a tree.
#[derive(Debug)]
pub struct Owner {
    pub(super) whose: Whose,
    pub(super) purpose: Purpose,
    inline_bytes: usize,
    pub(super) root: Pointer,
    /// The version of the last change; every change has one of its own.
    versions: u64,
    /// No version above it has ever been in use.
    versions_max: u64,
    pub(super) stats: ShardStats,
    deltas: Deltas,
    image: Image,
    path: Path,
}

impl From<Unwritten> for Refused {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Busy => Self::Busy,
            Unwritten::Gone => damaged(),
            Unwritten::Full(why) => Self::Full(why),
        }
    }
}

pub(super) fn damaged() -> Refused {
    Refused::Invalid("a node of the tree is not what it should be: the table is damaged".into())
}

/// A leaf that was brought, and what is in it for a key.
struct Leaf {
    pointer: Pointer,
    at: Result<usize, usize>,
}

impl Owner {
    /// An empty shard.
    pub fn new(heap: &mut Heap, options: &TableOptions, part: Part) -> Result<Self, Refused> {
        let mut owner = Self::over(options, part, node_at(Address::from_bits(0), 0));
        let (whose, purpose) = (owner.whose, owner.purpose);
        let mut objects = Objects::new(heap, purpose);
        owner.root = objects.alloc(NODE_BYTES, None)?;
        let empty = Plan { whose, level: 0, low: &[], high: None, right: None, entries: Vec::new() };
        objects.store(owner.root, empty.to_bytes().ok_or_else(damaged)?);
        owner.stats.memory_bytes = objects.commit()?.max(0) as u64;
        owner.stats.nodes = 1;
        owner.deltas = Deltas::of(part, purpose);
        Ok(owner)
    }

    fn over(options: &TableOptions, part: Part, root: Pointer) -> Self {
        Self {
            whose: Whose { table: part.table, shard: part.shard },
            purpose: options.purpose(),
            inline_bytes: options.inline_bytes as usize,
            root,
            versions: 0,
            versions_max: 0,
            stats: ShardStats::default(),
            deltas: Deltas::default(),
            image: Image::default(),
            path: Path::new(),
        }
    }

    /// Opens a shard again: `values` are what [`Shard::remember`] once said, and the deltas since then.
    pub fn reopen(
        heap: &mut Heap,
        options: &TableOptions,
        part: Part,
        values: &[Vec<u8>],
    ) -> Result<Self, ReopenError> {
        let malformed = || ReopenError::Notes("they do not say where a tree begins");
        let (first, later) = values.split_first().ok_or_else(malformed)?;
        let (whole, rest) = split::<WholeBytes>(first).map_err(|_| malformed())?;
        if whole.format.get() != WHOLE || !rest.is_empty() {
            return Err(malformed());
        }
        let root = whole.root.pointer();
        let mut owner = Self::over(options, part, root);
        owner.versions_max = whole.versions_max.get();
        for delta in later {
            let (delta, rest) = split::<DeltaBytes>(delta).map_err(|_| malformed())?;
            if delta.format.get() != DELTA || !rest.is_empty() {
                return Err(malformed());
            }
            owner.versions_max = owner.versions_max.max(delta.versions_max.get());
        }
        owner.versions = owner.versions_max;
        owner.stats = owner.count(heap)?;
        owner.deltas = Deltas::of(part, owner.purpose);
        Ok(owner)
    }

    /// Brings a node, which has to be there.
    pub(super) fn bring(&self, heap: &Heap, pointer: Pointer, image: &mut Image) -> Result<(), Refused> {
        let header = heap.bring(pointer.address, image).map_err(|_| damaged())?;
        match header.incarnation == pointer.incarnation && header.word.mode() == LockMode::Free {
            true => Ok(()),
            false if header.incarnation == pointer.incarnation => Err(Refused::Busy),
            false => Err(damaged()),
        }
    }

    /// Goes down to the leaf of a key, and says how it came there.
    fn leaf(&self, heap: &Heap, key: &[u8], image: &mut Image, path: &mut Path) -> Result<Leaf, Refused> {
        path.clear();
        let mut pointer = self.root;
        for _ in 0..LEVELS_MAX {
            self.bring(heap, pointer, image)?;
            let node = Node::parse(image.body(), self.whose).ok_or_else(damaged)?;
            if node.place(key) != Ordering::Equal {
                return Err(damaged());
            }
            if node.level() == 0 {
                let at = node.search(key).ok_or_else(damaged)?;
                return Ok(Leaf { pointer, at });
            }
            let (at, child) = node.child(key).ok_or_else(damaged)?;
            path.push((pointer, at));
            pointer = child;
        }
        Err(damaged())
    }

    /// What an entry holds.
    pub(super) fn take(&self, heap: &Heap, entry: Entry<'_>, found: &mut Found) -> Result<(), Refused> {
        found.value.clear();
        match entry.content {
            Content::Inline { version, expires, value } => {
                (found.version, found.expires) = (version, expires);
                found.value.extend_from_slice(value);
            }
            Content::Outside { version, pointer } => {
                let mut body = Vec::new();
                let header = heap.read(pointer.address, &mut body).map_err(|_| damaged())?;
                let outside = Outside::parse(&body).filter(|_| header.incarnation == pointer.incarnation);
                let outside = outside.ok_or_else(damaged)?;
                (found.version, found.expires) = (version, outside.expires);
                found.value.extend_from_slice(outside.value);
            }
            Content::Child(_) => return Err(damaged()),
        }
        Ok(())
    }

    fn next_version(&mut self, heap: &mut Heap) -> u64 {
        self.versions += 1;
        if self.versions > self.versions_max {
            self.versions_max = self.versions + VERSIONS_AHEAD;
            let (format, versions_max) = (DELTA.into(), self.versions_max.into());
            if !planted("tree_versions_not_set_aside") {
                self.deltas.add(heap, || DeltaBytes { format, versions_max }.as_bytes().to_vec());
            }
        }
        self.versions
    }

    /// Gives a key of a leaf another value. Nothing if the leaf has no room for it.
    fn store(
        &mut self,
        heap: &mut Heap,
        image: &mut Image,
        leaf: &Leaf,
        key: &[u8],
        (value, expires): (&[u8], u64),
    ) -> Result<Option<u64>, Refused> {
        let version = self.next_version(heap);
        let inline = Entry { key, content: Content::Inline { version, expires, value } };
        let fits = value.len() <= self.inline_bytes && inline.bytes() <= ENTRY_BYTES_MAX;
        let before = match leaf.at {
            Ok(at) => Node::parse(image.body(), self.whose).and_then(|node| node.entry(at)),
            Err(_) => None,
        };
        let payload = before.map_or(0, |entry| entry.payload());
        let left_outside = match before.map(|entry| entry.content) {
            Some(Content::Outside { pointer, .. }) => Some(pointer),
            _ => None,
        };
        let whose = self.whose;
        let put = |page: &mut dyn FnMut(usize, bool) -> bool| match leaf.at {
            Ok(at) => page(at, true),
            Err(at) => page(at, false),
        };
        let mut memory = 0;
        if fits && left_outside.is_none() {
            let done = put(&mut |at, there| match there {
                true => edit::replace(image, whose, at, &inline),
                false => edit::insert(image, whose, at, &inline),
            });
            if !done {
                return Ok(None);
            }
            heap.put_back(image).map_err(|error| Refused::from(Unwritten::from(error)))?;
        } else {
            let mut body = image.body().to_vec();
            let mut objects = Objects::new(heap, self.purpose);
            let mut entry = inline;
            if !fits {
                let outside = Outside { expires, key, value }.to_bytes();
                let pointer = objects.alloc(outside.len(), Some(leaf.pointer.address))?;
                objects.store(pointer, outside);
                entry.content = Content::Outside { version, pointer };
            }
            let done = put(&mut |at, there| match there {
                true => edit::replace(&mut body, whose, at, &entry),
                false => edit::insert(&mut body, whose, at, &entry),
            });
            if !done {
                objects.abandon();
                return Ok(None);
            }
            objects.store(leaf.pointer, body);
            if let Some(pointer) = left_outside {
                objects.free(pointer);
            }
            memory = objects.commit()?;
        }
        self.stats.keys += u64::from(leaf.at.is_err());
        self.stats.updates += 1;
        let after = (key.len() + value.len()) as u64;
        self.stats.payload_bytes = (self.stats.payload_bytes + after).saturating_sub(payload);
        self.remembered(memory, 0);
        Ok(Some(version))
    }

    /// Takes a key out of its leaf.
    fn remove(&mut self, heap: &mut Heap, image: &mut Image, leaf: &Leaf) -> Result<(), Refused> {
        let Ok(at) = leaf.at else { return Ok(()) };
        let node = Node::parse(image.body(), self.whose).ok_or_else(damaged)?;
        let entry = node.entry(at).ok_or_else(damaged)?;
        let payload = entry.payload();
        let mut memory = 0;
        match entry.content {
            Content::Outside { pointer, .. } => {
                let mut body = image.body().to_vec();
                let mut objects = Objects::new(heap, self.purpose);
                edit::remove(&mut body, self.whose, at);
                objects.store(leaf.pointer, body);
                objects.free(pointer);
                memory = objects.commit()?;
            }
            _ => {
                edit::remove(image, self.whose, at);
                heap.put_back(image).map_err(|error| Refused::from(Unwritten::from(error)))?;
            }
        }
        self.stats.keys = self.stats.keys.saturating_sub(1);
        self.stats.updates += 1;
        self.stats.payload_bytes = self.stats.payload_bytes.saturating_sub(payload);
        self.remembered(memory, 0);
        Ok(())
    }

    /// Counts memory and nodes that came or went.
    pub(super) fn remembered(&mut self, memory: i64, nodes: i64) {
        self.stats.memory_bytes = self.stats.memory_bytes.saturating_add_signed(memory);
        self.stats.nodes = self.stats.nodes.saturating_add_signed(nodes);
    }

    fn change<'v>(
        &mut self,
        heap: &mut Heap,
        key: &[u8],
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
        (image, path): (&mut Image, &mut Path),
    ) -> Result<u64, Refused> {
        if key.len() > KEY_BYTES_MAX {
            let why = format!(
                "a key of {} bytes: those of a tree have {KEY_BYTES_MAX} at the most; a hopscotch or cuckoo \
                 table takes longer ones",
                key.len()
            );
            return Err(Refused::Invalid(why));
        }
        // What is decided once is kept: a leaf that has to be divided first is looked for again.
        let mut decided: Option<Decision<'v>> = None;
        for _ in 0..2 * LEVELS_MAX {
            let leaf = self.leaf(heap, key, image, path)?;
            let mut found = Found::default();
            if let Ok(at) = leaf.at {
                let node = Node::parse(image.body(), self.whose).ok_or_else(damaged)?;
                self.take(heap, node.entry(at).ok_or_else(damaged)?, &mut found)?;
            }
            let there = leaf.at.is_ok().then_some(&found);
            match decided.get_or_insert_with(|| decide(there)) {
                Decision::Keep => return Ok(there.map_or(0, |found| found.version)),
                Decision::Store { value, expires } => {
                    let stored = self.store(heap, image, &leaf, key, (value, *expires))?;
                    if let Some(version) = stored {
                        return Ok(version);
                    }
                    let (Ok(at) | Err(at)) = leaf.at;
                    self.divide(heap, (leaf.pointer, at), path)?;
                }
                Decision::Remove => {
                    self.remove(heap, image, &leaf)?;
                    self.put_together(heap, leaf.pointer, path);
                    return Ok(0);
                }
            }
        }
        Err(damaged())
    }
}

impl Shard for Owner {
    fn get(&mut self, heap: &Heap, key: Key<'_>, found: &mut Found) -> Result<bool, Refused> {
        self.stats.gets += 1;
        if key.bytes.len() > KEY_BYTES_MAX {
            return Ok(false);
        }
        let (mut image, mut path) = (std::mem::take(&mut self.image), std::mem::take(&mut self.path));
        let there = self.leaf(heap, key.bytes, &mut image, &mut path).and_then(|leaf| {
            let Ok(at) = leaf.at else { return Ok(false) };
            let node = Node::parse(image.body(), self.whose).ok_or_else(damaged)?;
            self.take(heap, node.entry(at).ok_or_else(damaged)?, found)?;
            Ok(true)
        });
        (self.image, self.path) = (image, path);
        self.stats.hits += u64::from(there == Ok(true));
        there
    }

    fn update<'v>(
        &mut self,
        heap: &mut Heap,
        key: Key<'_>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, Refused> {
        let (mut image, mut path) = (std::mem::take(&mut self.image), std::mem::take(&mut self.path));
        let changed = self.change(heap, key.bytes, decide, (&mut image, &mut path));
        (self.image, self.path) = (image, path);
        changed
    }

    /// In the order of the keys, all at once: a cursor says nothing of a tree, whose clients ask for ranges.
    fn scan(
        &mut self,
        heap: &Heap,
        _: u64,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<Option<u64>, Refused> {
        self.range(heap, &[], None, &mut |key, found| {
            each(key, found);
            true
        })?;
        Ok(None)
    }

    fn range(
        &mut self,
        heap: &Heap,
        from: &[u8],
        to: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<bool, Refused> {
        self.walk_range(heap, from, to, each)
    }

    fn roots(&self, _: &Heap, _: &[u8]) -> Vec<u8> {
        RootBytes::from(self.root).as_bytes().to_vec()
    }

    fn stats(&self) -> ShardStats {
        self.stats.clone()
    }

    fn combined(&mut self) {
        self.stats.combined += 1;
    }

    fn remember(&self, _: &Heap) -> Vec<u8> {
        let (format, root) = (WHOLE.into(), self.root.into());
        WholeBytes { format, root, versions_max: self.versions_max.into() }.as_bytes().to_vec()
    }

    fn clear(&mut self, heap: &mut Heap) {
        self.free_all(heap);
        self.stats = ShardStats::default();
    }
}

impl Owner {
    /// Where a tree begins, as [`Shard::roots`] says it.
    pub(super) fn parse_root(bytes: &[u8]) -> Option<Pointer> {
        let (root, rest) = split::<RootBytes>(bytes).ok()?;
        (rest.is_empty() && root.address.get() != 0).then(|| root.pointer())
    }
}

impl RootBytes {
    fn pointer(&self) -> Pointer {
        node_at(Address::from_bits(self.address.get()), self.incarnation.get())
    }
}

impl From<Pointer> for RootBytes {
    fn from(root: Pointer) -> Self {
        Self { incarnation: root.incarnation.into(), address: root.address.to_bits().into() }
    }
}
