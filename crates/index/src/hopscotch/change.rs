//! Looking a key up and changing it, over objects that somebody else reads and writes: the node's own
//! heap, or a client's transaction. One implementation for both.
//!
//! What always holds of a segment, before and after each change:
//! - an entry lies in its key's home bucket, in the next, or in the home's overflow block;
//! - an overflow block is there only if it has an entry, and has no free slot;
//! - two buckets side by side have the same joint version, which changes when an entry goes from one to
//!   the other.

use super::bucket::{self, CHAIN_SLOTS_MAX, Chain, Control, Entry, HEAD_BYTES, Slots, entry_version, tag};
use super::directory::Segment;
use super::shape::Shape;
use crate::key::{Found, Key};
use crate::node::Decision;
use crate::outside::{Outside, outside_version};
use barn_layout::{Address, planted};
use barn_transaction::{ClientError, Pointer};

/// How far from home an insert looks for a free slot, either way: beyond, an overflow block is cheaper.
const SEARCH_BUCKETS_MAX: usize = 24;

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum Failure {
    /// An object is held by a transaction.
    Busy,
    /// An object is not there any more: the segment was split meanwhile.
    Gone,
    /// The overflow block has its most slots: the segment must be split first.
    Crowded,
    /// There is no memory.
    Full(String),
    /// What a client's transaction says.
    Client(ClientError),
}

/// An object as it was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The version that it had before this change, or its transaction.
    pub(super) version: u64,
    /// Whether that has changed it already, or made it, so that it will have the next.
    pub(super) changed: bool,
}

/// Where objects are read and written.
pub(super) trait Store {
    /// Reads an object's body.
    async fn load(&mut self, pointer: Pointer, into: &mut Vec<u8>) -> Result<Loaded, Failure>;
    /// Replaces an object's body.
    async fn store(&mut self, pointer: Pointer, body: Vec<u8>) -> Result<(), Failure>;
    /// Takes a place near `near`, whose object [`Store::store`] then makes; gives also the version that
    /// it will have. `same_region` if it must be in the region of `near`.
    async fn alloc(
        &mut self,
        bytes: usize,
        near: Address,
        same_region: bool,
    ) -> Result<(Pointer, u64), Failure>;
    /// Frees an object.
    async fn free(&mut self, pointer: Pointer) -> Result<(), Failure>;
}

/// A bucket at hand.
#[derive(Debug)]
struct Bucket {
    index: usize,
    pointer: Pointer,
    version: u64,
    changed: bool,
    dirty: bool,
    body: Vec<u8>,
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a bucket at hand, and a slot of it.
    Bucket(usize, usize),
    /// In a slot of the home's overflow block.
    Chain(usize),
}

/// An overflow block at hand.
#[derive(Debug)]
struct Block {
    pointer: Pointer,
    version: u64,
    body: Vec<u8>,
}

/// What a change did, besides the change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// The key's version from now on; 0 if it is not there.
    pub(super) version: u64,
    /// Keys more than before.
    pub(super) keys: i64,
    /// Bytes of keys and values more than before.
    pub(super) payload: i64,
    /// Entries in overflow blocks more than before.
    pub(super) overflowed: i64,
    /// Entries moved.
    pub(super) moves: u64,
    /// Bytes of memory more than before, where that is known.
    pub(super) memory: i64,
    /// Whether a decision was made at all: not, if what has expired was dropped on the way.
    pub(super) stored: bool,
}

impl Effect {
    /// Whether it changes what is counted of a segment.
    pub(super) fn counts(&self) -> bool {
        let Self { keys, payload, overflowed, moves, memory, .. } = *self;
        keys != 0 || payload != 0 || overflowed != 0 || moves != 0 || memory != 0
    }
}

/// A segment being looked at.
pub(super) struct Work<'a, S> {
    pub(super) store: &'a mut S,
    pub(super) segment: Segment,
    pub(super) shape: &'a Shape,
    pub(super) seed: u64,
    buckets: Vec<Bucket>,
    chain: Option<Block>,
}

impl<'a, S: Store> Work<'a, S> {
    pub(super) fn new(store: &'a mut S, segment: Segment, shape: &'a Shape, seed: u64) -> Self {
        Self { store, segment, shape, seed, buckets: Vec::with_capacity(2), chain: None }
    }

    /// The place of a bucket among those at hand; it is read if need be.
    async fn bucket(&mut self, index: usize) -> Result<usize, Failure> {
        if let Some(at) = self.buckets.iter().position(|bucket| bucket.index == index) {
            return Ok(at);
        }
        let pointer = self.segment.bucket(index, self.shape);
        let mut body = Vec::with_capacity(self.shape.bucket_bytes.next_multiple_of(8));
        let Loaded { version, changed } = self.store.load(pointer, &mut body).await?;
        self.buckets.push(Bucket { index, pointer, version, changed, dirty: false, body });
        Ok(self.buckets.len() - 1)
    }

    /// A bucket that is about to be changed.
    fn dirty(&mut self, at: usize) -> &mut Bucket {
        let shape = self.shape;
        let bucket = &mut self.buckets[at];
        if !bucket.dirty && !bucket.changed {
            bucket::refresh_ages(&mut bucket.body, HEAD_BYTES, shape.slots, bucket.version + 1);
        }
        bucket.dirty = true;
        bucket
    }

    fn put(&mut self, at: usize, slot: usize, control: Control, entry: &[u8]) -> u64 {
        let shape = self.shape;
        let bucket = self.dirty(at);
        let next = bucket.version + 1;
        let control = control.with_age(next as u8);
        bucket::put(&mut bucket.body, HEAD_BYTES, shape.slots, shape, slot, control, entry);
        entry_version(bucket.pointer.address, next, control)
    }

    fn erase(&mut self, at: usize, slot: usize) {
        let shape = self.shape;
        let bucket = self.dirty(at);
        bucket::put(&mut bucket.body, HEAD_BYTES, shape.slots, shape, slot, Control::FREE, &[]);
    }

    /// Whether an entry is of this key; if so, all of it is in `found`.
    async fn matches(
        &mut self,
        entry: (Control, Entry<'_>),
        object: (Address, u64),
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<bool, Failure> {
        let (control, entry) = entry;
        match entry {
            Entry::Inline { key: stored, value, expires } => {
                if stored != key.bytes {
                    return Ok(false);
                }
                found.value.clear();
                found.value.extend_from_slice(value);
                found.expires = expires;
                found.version = entry_version(object.0, object.1, control);
            }
            Entry::Outside { pointer, hash } => {
                if hash != key.hash {
                    return Ok(false);
                }
                let mut body = Vec::new();
                let Loaded { version, changed } = self.store.load(pointer, &mut body).await?;
                let Some(outside) = Outside::parse(&body).filter(|outside| outside.key == key.bytes) else {
                    return Ok(false);
                };
                found.value.clear();
                found.value.extend_from_slice(outside.value);
                found.expires = outside.expires;
                found.version = outside_version(pointer.address, version + u64::from(changed));
            }
        }
        Ok(true)
    }

    /// Finds a key.
    async fn search(&mut self, key: Key<'_>, found: &mut Found) -> Result<Option<Place>, Failure> {
        let home = self.shape.home(key.hash, self.segment.seed);
        let tag = tag(key.hash);
        for index in [home, home + 1] {
            let at = self.bucket(index).await?;
            let bucket = &self.buckets[at];
            let object = (bucket.pointer.address, bucket.version + u64::from(bucket.changed));
            // The body is moved out while other objects may be read.
            let body = std::mem::take(&mut self.buckets[at].body);
            let place = self.search_slots(Slots::of_bucket(&body, self.shape), object, tag, key, found).await;
            self.buckets[at].body = body;
            if let Some(slot) = place? {
                return Ok(Some(Place::Bucket(at, slot)));
            }
        }
        let Some(block) = self.load_chain(home).await? else { return Ok(None) };
        let object = (block.pointer.address, block.version);
        let slots = Slots::of_chain(&block.body, self.shape);
        let place = self.search_slots(slots, object, tag, key, found).await;
        self.chain = Some(block);
        Ok(place?.map(Place::Chain))
    }

    async fn search_slots(
        &mut self,
        slots: Slots<'_>,
        object: (Address, u64),
        tag: u8,
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<Option<usize>, Failure> {
        for slot in 0..slots.count() {
            if slots.control(slot).tag() == tag
                && let Some(entry) = slots.entry(slot)
                && self.matches(entry, object, key, found).await?
            {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Reads a bucket's overflow block, if it has one.
    async fn load_chain(&mut self, index: usize) -> Result<Option<Block>, Failure> {
        let at = self.bucket(index).await?;
        let Bucket { pointer, body, .. } = &self.buckets[at];
        let Some(chain) = bucket::chain(body) else { return Ok(None) };
        let pointer = chain.pointer(pointer.address, self.shape);
        let mut body = Vec::new();
        let Loaded { version, changed } = self.store.load(pointer, &mut body).await?;
        Ok(Some(Block { pointer, version: version + u64::from(changed), body }))
    }

    /// Looks a key up.
    pub(super) async fn get(mut self, key: Key<'_>, found: &mut Found) -> Result<bool, Failure> {
        Ok(self.search(key, found).await?.is_some())
    }

    /// Looks a key up and changes it as `decide` says.
    pub(super) async fn change<'v>(
        mut self,
        key: Key<'_>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<Effect, Failure> {
        let mut found = Found::default();
        let place = self.search(key, &mut found).await?;
        let mut effect = Effect::default();
        match decide(place.map(|_| &found)) {
            Decision::Keep => {
                effect.version = if place.is_some() { found.version } else { 0 };
                return Ok(effect);
            }
            Decision::Remove => {
                let Some(place) = place else { return Ok(effect) };
                self.remove(key, place, &mut effect).await?;
                effect.keys -= 1;
                effect.payload -= (key.bytes.len() + found.value.len()) as i64;
            }
            Decision::Store { value, expires } => {
                effect.payload += (key.bytes.len() + value.len()) as i64;
                match place {
                    Some(_) => effect.payload -= (key.bytes.len() + found.value.len()) as i64,
                    None => effect.keys += 1,
                }
                effect.version = self.store_value(key, place, &value, expires, &mut effect).await?;
            }
        }
        effect.stored = true;
        for bucket in self.buckets.into_iter().filter(|bucket| bucket.dirty) {
            self.store.store(bucket.pointer, bucket.body).await?;
        }
        Ok(effect)
    }

    /// Gives a key a value where it is, or a place; gives its version.
    async fn store_value(
        &mut self,
        key: Key<'_>,
        place: Option<Place>,
        value: &[u8],
        expires: u64,
        effect: &mut Effect,
    ) -> Result<u64, Failure> {
        let tag = tag(key.hash);
        if let Some((control, entry)) = bucket::inline(tag, key.bytes, value, expires, self.shape) {
            return self.put_entry(key, place, control, &entry, effect).await;
        }
        let body = Outside { expires, key: key.bytes, value }.to_bytes();
        // One that stays as long as it is stays where it is.
        let there = place.and_then(|place| self.outside_at(place));
        if let Some(pointer) = there.filter(|pointer| pointer.bytes as usize == body.len()) {
            let Loaded { version, .. } = self.store.load(pointer, &mut Vec::new()).await?;
            self.store.store(pointer, body).await?;
            return Ok(outside_version(pointer.address, version + 1));
        }
        let (pointer, version) = self.store.alloc(body.len(), self.segment.address, false).await?;
        self.store.store(pointer, body).await?;
        let (control, entry) = bucket::outside(tag, pointer, key.hash);
        self.put_entry(key, place, control, &entry, effect).await?;
        Ok(outside_version(pointer.address, version))
    }

    /// Puts an entry where the key is, or finds it a place; gives the version of one that lies in its slot.
    async fn put_entry(
        &mut self,
        key: Key<'_>,
        place: Option<Place>,
        control: Control,
        entry: &[u8],
        effect: &mut Effect,
    ) -> Result<u64, Failure> {
        match place {
            Some(place) => self.replace(place, control, entry).await,
            None => self.insert(key, control, entry, effect).await,
        }
    }

    /// The object of an entry, if it has one.
    fn outside_at(&self, place: Place) -> Option<Pointer> {
        let entry = match place {
            Place::Bucket(at, slot) => Slots::of_bucket(&self.buckets[at].body, self.shape).entry(slot),
            Place::Chain(slot) => {
                self.chain.as_ref().and_then(|block| Slots::of_chain(&block.body, self.shape).entry(slot))
            }
        };
        match entry {
            Some((_, Entry::Outside { pointer, .. })) => Some(pointer),
            _ => None,
        }
    }

    /// Frees the object of an entry that is about to go.
    async fn free_outside(&mut self, place: Place) -> Result<(), Failure> {
        match self.outside_at(place) {
            Some(pointer) => self.store.free(pointer).await,
            None => Ok(()),
        }
    }

    async fn replace(&mut self, place: Place, control: Control, entry: &[u8]) -> Result<u64, Failure> {
        self.free_outside(place).await?;
        match place {
            Place::Bucket(at, slot) => Ok(self.put(at, slot, control, entry)),
            Place::Chain(slot) => {
                let home = self.buckets[0].index;
                let mut entries = self.chain_entries();
                entries[slot] = (control, entry.to_vec());
                self.replace_chain(home, entries, slot).await
            }
        }
    }

    /// The entries of the overflow block at hand.
    fn chain_entries(&self) -> Vec<(Control, Vec<u8>)> {
        let Some(block) = &self.chain else { return Vec::new() };
        let slots = Slots::of_chain(&block.body, self.shape);
        (0..slots.count())
            .map(|slot| {
                (
                    slots.control(slot),
                    slots.slot(slot)[..slots.control(slot).slot_bytes().min(self.shape.slot_bytes)].to_vec(),
                )
            })
            .collect()
    }

    /// Gives a bucket an overflow block with these entries instead of the one at hand, or none; gives
    /// the version of the entry `of_interest`. A new block each time: whoever follows the old pointer
    /// finds it freed.
    async fn replace_chain(
        &mut self,
        index: usize,
        entries: Vec<(Control, Vec<u8>)>,
        of_interest: usize,
    ) -> Result<u64, Failure> {
        if entries.len() > CHAIN_SLOTS_MAX {
            return Err(Failure::Crowded);
        }
        let at = self.bucket(index).await?;
        let shape = self.shape;
        let mut version = 0;
        let chain = match entries.len() {
            0 => None,
            slots => {
                let near = self.buckets[at].pointer.address;
                let bytes = shape.chain_bytes(slots);
                let (pointer, object_version) = self.store.alloc(bytes, near, true).await?;
                let mut body = vec![0; bytes];
                for (slot, (control, entry)) in entries.iter().enumerate() {
                    let control = control.with_age(object_version as u8);
                    bucket::put(&mut body, 0, slots, shape, slot, control, entry);
                    if slot == of_interest {
                        version = entry_version(pointer.address, object_version, control);
                    }
                }
                self.store.store(pointer, body).await?;
                Some(Chain { offset: pointer.address.offset(), slots, incarnation: pointer.incarnation })
            }
        };
        if let Some(block) = self.chain.take() {
            self.store.free(block.pointer).await?;
        }
        bucket::set_chain(&mut self.dirty(at).body, chain);
        Ok(version)
    }

    async fn remove(&mut self, key: Key<'_>, place: Place, effect: &mut Effect) -> Result<(), Failure> {
        self.free_outside(place).await?;
        let home = self.shape.home(key.hash, self.segment.seed);
        match place {
            Place::Chain(slot) => {
                let mut entries = self.chain_entries();
                entries.swap_remove(slot);
                effect.overflowed -= 1;
                self.replace_chain(home, entries, usize::MAX).await?;
            }
            Place::Bucket(at, slot) => {
                self.erase(at, slot);
                // The slot is for an entry that had to lie further away: FaRM's collapsing of chains.
                let index = self.buckets[at].index;
                for owner in [index.checked_sub(1), Some(index)].into_iter().flatten() {
                    if owner > self.shape.homes {
                        continue;
                    }
                    self.chain = self.load_chain(owner).await?;
                    if self.chain.is_none() {
                        continue;
                    }
                    let mut entries = self.chain_entries();
                    if let Some((control, entry)) = entries.pop() {
                        self.put(at, slot, control, &entry);
                        effect.overflowed -= 1;
                        effect.moves += 1;
                        self.replace_chain(owner, entries, usize::MAX).await?;
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    async fn insert(
        &mut self,
        key: Key<'_>,
        control: Control,
        entry: &[u8],
        effect: &mut Effect,
    ) -> Result<u64, Failure> {
        let home = self.shape.home(key.hash, self.segment.seed);
        for index in [home, home + 1] {
            let at = self.bucket(index).await?;
            if let Some(slot) = Slots::of_bucket(&self.buckets[at].body, self.shape).free() {
                return Ok(self.put(at, slot, control, entry));
            }
        }
        if let Some((at, slot)) = self.make_room(home, effect).await? {
            return Ok(self.put(at, slot, control, entry));
        }
        let mut entries = self.chain_entries();
        entries.push((control, entry.to_vec()));
        effect.overflowed += 1;
        let last = entries.len() - 1;
        self.replace_chain(home, entries, last).await
    }

    /// Frees a slot in the home or the bucket after it by moving entries: onwards, each from its home to
    /// the next bucket; or back, each from the bucket after its home to its home.
    async fn make_room(
        &mut self,
        home: usize,
        effect: &mut Effect,
    ) -> Result<Option<(usize, usize)>, Failure> {
        let last = self.shape.homes;
        // Onwards: home + 1 is full, so one of those who are at home there goes on to the next.
        let mut path = Vec::new();
        for index in home + 1..last.min(home + SEARCH_BUCKETS_MAX) {
            let Some(slot) = self.resident(index, index).await? else { break };
            path.push((index, slot));
            let next = self.bucket(index + 1).await?;
            if Slots::of_bucket(&self.buckets[next].body, self.shape).free().is_some() {
                for (index, slot) in path.into_iter().rev() {
                    self.shift(index, slot, index + 1).await?;
                    effect.moves += 1;
                }
                let at = self.bucket(home + 1).await?;
                let free = Slots::of_bucket(&self.buckets[at].body, self.shape).free();
                return Ok(free.map(|slot| (at, slot)));
            }
        }
        // Back: whoever is in the home and belongs to the bucket before it goes there.
        let mut path = Vec::new();
        for index in (1.max((home + 1).saturating_sub(SEARCH_BUCKETS_MAX))..=home).rev() {
            let Some(slot) = self.resident(index, index - 1).await? else { break };
            path.push((index, slot));
            let before = self.bucket(index - 1).await?;
            if Slots::of_bucket(&self.buckets[before].body, self.shape).free().is_some() {
                for (index, slot) in path.into_iter().rev() {
                    self.shift(index, slot, index - 1).await?;
                    effect.moves += 1;
                }
                let at = self.bucket(home).await?;
                let free = Slots::of_bucket(&self.buckets[at].body, self.shape).free();
                return Ok(free.map(|slot| (at, slot)));
            }
        }
        Ok(None)
    }

    /// A slot of a bucket whose entry's home is `home`.
    async fn resident(&mut self, index: usize, home: usize) -> Result<Option<usize>, Failure> {
        let at = self.bucket(index).await?;
        let slots = Slots::of_bucket(&self.buckets[at].body, self.shape);
        let is_of = |slot: &usize| {
            slots
                .entry(*slot)
                .is_some_and(|(_, entry)| self.shape.home(entry.hash(self.seed), self.segment.seed) == home)
        };
        Ok((0..slots.count()).find(is_of))
    }

    /// Moves an entry to a free slot of a bucket next to its own.
    async fn shift(&mut self, from: usize, slot: usize, to: usize) -> Result<(), Failure> {
        let (from_at, to_at) = (self.bucket(from).await?, self.bucket(to).await?);
        let slots = Slots::of_bucket(&self.buckets[from_at].body, self.shape);
        let control = slots.control(slot);
        let entry = slots.slot(slot)[..control.slot_bytes().min(self.shape.slot_bytes)].to_vec();
        let Some(free) = Slots::of_bucket(&self.buckets[to_at].body, self.shape).free() else {
            return Err(Failure::Crowded);
        };
        self.put(to_at, free, control, &entry);
        self.erase(from_at, slot);
        let (first, second) = if from < to { (from_at, to_at) } else { (to_at, from_at) };
        if !planted("joint_version_skipped") {
            bucket::bump_joint_forward(&mut self.dirty(first).body);
            bucket::bump_joint_back(&mut self.dirty(second).body);
        }
        Ok(())
    }
}
