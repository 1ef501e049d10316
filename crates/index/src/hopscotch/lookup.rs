//! The client's side: a lookup reads the memory of the node, which knows nothing of it.
//!
//! Where a READ is a load, a bucket is looked at in place: its version, the line with its control words,
//! the one slot whose tag is right, and its version again. Elsewhere one READ brings both buckets of the
//! neighbourhood, and their checksums tell whether they are whole.
//!
//! A key that is found in a whole bucket is there. One that is in neither was in none of them at one
//! moment, if the two belong together: that is what the joint version says.

use super::bucket::{
    self, CONTROL_BYTES, Control, Entry, HEAD_BYTES, OUTSIDE_HEAD_BYTES, Outside, Slots, entry_version,
    slots_at, tag,
};
use super::directory::{Directory, Excerpt, Segment};
use super::shape::Shape;
use crate::client::memory::{Memory, Unreadable};
use crate::key::{Found, Key, Looked};
use crate::node::Part;
use crate::options::TableOptions;
use crate::wire::Malformed;
use barn_fabric::Words;
use barn_fabric::region::{AccessError, Ordering, fence};
use barn_heap::object::{Header, read_bytes};
use barn_heap::{HEADER_BYTES, Seen, inspect};
use barn_layout::object::{LockMode, VersionWord};
use barn_layout::{Address, RegionId, planted};
use barn_transaction::Pointer;

/// The most slots of a bucket: H = 16.
const SLOTS_MAX: usize = 8;
/// Words of a bucket's head and its control words.
const HEAD_WORDS_MAX: usize = slots_at(HEAD_BYTES, SLOTS_MAX) / 8;
/// The longest slot.
const SLOT_BYTES_MAX: usize = 384;

/// What a client knows of a shard's memory.
#[derive(Clone, Debug)]
pub struct Roots {
    shape: Shape,
    directory: Directory<Segment>,
}

/// What a look at one bucket in place found.
enum Bucket {
    /// The key, whose value is in `found`.
    Found,
    /// The key may be there, in an object of its own.
    Outside(Pointer, u64),
    /// Not the key; the bucket's joint versions and overflow block.
    Not {
        back: u16,
        forward: u16,
        chain: Option<bucket::Chain>,
    },
    Unsettled,
    Stale,
}

fn nowhere(_: AccessError) -> Unreadable {
    Unreadable::Nowhere
}

impl Roots {
    /// What the node has said of the whole shard.
    pub fn parse(bytes: &[u8], options: &TableOptions, _: Part) -> Result<Self, Malformed> {
        let shape = Shape::new(options);
        if shape.slots > SLOTS_MAX || shape.slot_bytes > SLOT_BYTES_MAX {
            return Err(Malformed);
        }
        let directory = Excerpt::parse(bytes, &shape)?.whole().ok_or(Malformed)?;
        Ok(Self { shape, directory })
    }

    /// What to ask the node with to learn of a key's segment alone.
    pub fn query(key: Key<'_>) -> [u8; 8] {
        key.hash.to_le_bytes()
    }

    /// Takes in what the node has said to that; false if all has to be asked for.
    pub fn patch(&mut self, bytes: &[u8]) -> bool {
        Excerpt::parse(bytes, &self.shape).is_ok_and(|excerpt| excerpt.patch(&mut self.directory))
    }

    /// The regions that lookups read.
    pub fn regions(&self) -> Vec<RegionId> {
        let mut regions: Vec<RegionId> =
            self.directory.places().iter().map(|segment| segment.address.region()).collect();
        regions.sort_unstable();
        regions.dedup();
        regions.retain(|region| region.0 != 0);
        regions
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(super) fn segment(&self, key: Key<'_>) -> Option<Segment> {
        Some(self.directory.get(key.hash)).filter(|segment| segment.address.to_bits() != 0)
    }

    /// Looks a key up in the shard's memory. Adds the READs that it made to `reads`.
    pub async fn lookup<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let Some(segment) = self.segment(key) else { return Ok(Looked::Stale) };
        let region = segment.address.region();
        let looked = match memory.mapped(region) {
            Some(words) => {
                *reads += 1;
                self.look_in_place(memory, words, segment, key, found, reads).await?
            }
            None => self.look_from_afar(memory, segment, key, found, reads).await?,
        };
        memory.believe(region)?;
        Ok(looked)
    }

    async fn look_in_place<M: Memory + Sync>(
        &self,
        memory: &M,
        words: &Words,
        segment: Segment,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let home = self.shape.home(key.hash, segment.seed);
        let (mut joint, mut chained) = (0, None);
        for index in [home, home + 1] {
            match self.bucket_in_place(words, segment, index, key, found)? {
                Bucket::Found => return Ok(Looked::Found),
                Bucket::Unsettled => return Ok(Looked::Unsettled),
                Bucket::Stale => return Ok(Looked::Stale),
                Bucket::Outside(pointer, version) => {
                    match self.outside(memory, pointer, key, found, reads).await? {
                        Looked::Found => {
                            found.version = version;
                            return Ok(Looked::Found);
                        }
                        // Two keys of one hash in one bucket: the slower way looks at every slot.
                        Looked::Absent => {
                            return self.look_from_afar(memory, segment, key, found, reads).await;
                        }
                        other => return Ok(other),
                    }
                }
                Bucket::Not { forward, chain, .. } if index == home => (joint, chained) = (forward, chain),
                Bucket::Not { back, .. } if back != joint && !planted("joint_version_ignored") => {
                    return Ok(Looked::Unsettled);
                }
                Bucket::Not { .. } => {}
            }
        }
        match chained {
            None => Ok(Looked::Absent),
            Some(chain) => {
                let bucket = segment.bucket(home, &self.shape).address;
                self.look_in_chain(memory, chain.pointer(bucket, &self.shape), key, found, reads).await
            }
        }
    }

    /// Looks at one bucket of mapped memory.
    #[inline]
    fn bucket_in_place(
        &self,
        words: &Words,
        segment: Segment,
        index: usize,
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<Bucket, Unreadable> {
        let Shape { slots, slot_bytes, .. } = self.shape;
        let at = segment.offset(index, &self.shape);
        // SYNC: Acquire, pairs with the Release store of an object's version: whoever sees the version
        // sees all of its bytes.
        let before = words.load_word(at, Ordering::Acquire).map_err(nowhere)?;
        let mut head = [0u64; 3 + HEAD_WORDS_MAX];
        let head = &mut head[..HEADER_BYTES / 8 + slots_at(HEAD_BYTES, slots) / 8];
        words.load_words(at, head).map_err(nowhere)?;
        let header = Header::from_words(before, head[1]);
        if !header.allocated || header.incarnation != segment.incarnation {
            return Ok(Bucket::Stale);
        }
        if header.word.mode() == LockMode::Exclusive {
            return Ok(Bucket::Unsettled);
        }
        let version = header.word.version();
        // SYNC: Acquire, pairs with the Release fence after an object is closed: whoever saw a new byte
        // sees, when it looks at the version again, that it is closed or newer.
        let settled = || -> Result<bool, Unreadable> {
            fence(Ordering::Acquire);
            // ORDER: Relaxed: the fence orders it.
            let after = VersionWord(words.load_word(at, Ordering::Relaxed).map_err(nowhere)?);
            Ok(after.version() == version && after.mode() != LockMode::Exclusive)
        };
        let tag = tag(key.hash);
        for slot in 0..slots {
            let control = control_of(&head[HEADER_BYTES / 8..], slot);
            if control.tag() != tag || control.slot_bytes() > slot_bytes {
                continue;
            }
            let mut bytes = [0; SLOT_BYTES_MAX];
            let bytes = &mut bytes[..control.slot_bytes().next_multiple_of(8)];
            let from = at + (HEADER_BYTES + slots_at(HEAD_BYTES, slots) + slot * slot_bytes) as u64;
            words.load(from, bytes).map_err(nowhere)?;
            match Entry::parse(control, bytes) {
                Some(Entry::Inline { key: stored, value, expires }) if stored == key.bytes => {
                    if !settled()? {
                        return Ok(Bucket::Unsettled);
                    }
                    found.value.clear();
                    found.value.extend_from_slice(value);
                    found.expires = expires;
                    found.version =
                        entry_version(segment.bucket(index, &self.shape).address, version, control);
                    return Ok(Bucket::Found);
                }
                Some(Entry::Outside { pointer, hash }) if hash == key.hash => {
                    let address = segment.bucket(index, &self.shape).address;
                    return Ok(match settled()? {
                        true => Bucket::Outside(pointer, entry_version(address, version, control)),
                        false => Bucket::Unsettled,
                    });
                }
                _ => {}
            }
        }
        if !settled()? {
            return Ok(Bucket::Unsettled);
        }
        let joints = head[HEADER_BYTES / 8];
        let chain = joints >> 32 | head[HEADER_BYTES / 8 + 1] << 32;
        Ok(Bucket::Not {
            back: joints as u16,
            forward: (joints >> 16) as u16,
            chain: bucket::Chain::from_bits(chain),
        })
    }

    /// Reads both buckets at once, and looks at every slot.
    async fn look_from_afar<M: Memory + Sync>(
        &self,
        memory: &M,
        segment: Segment,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let home = self.shape.home(key.hash, segment.seed);
        let mut bytes = vec![0; self.shape.pair_bytes()];
        let first = segment.bucket(home, &self.shape).address;
        memory.read(first, &mut bytes).await?;
        *reads += 1;
        let (mut joint, mut chained) = (0, None);
        for index in [home, home + 1] {
            let pointer = segment.bucket(index, &self.shape);
            let object = &bytes[(index - home) * self.shape.stride..];
            let confirmation = barn_fabric::Confirmation::Unordered;
            let view = match inspect(pointer.address, Some(pointer.incarnation), object, confirmation) {
                Seen::Whole(view) if view.bytes == self.shape.bucket_bytes => view,
                Seen::Freed => return Ok(Looked::Stale),
                _ => return Ok(Looked::Unsettled),
            };
            let body = &object[HEADER_BYTES..HEADER_BYTES + view.bytes];
            let slots = Slots::of_bucket(body, &self.shape);
            let looked =
                self.look_in_slots(memory, slots, (pointer.address, view.version), key, found, reads);
            match looked.await? {
                Looked::Absent => {}
                other => return Ok(other),
            }
            if index == home {
                (joint, chained) = (bucket::joint_forward(body), bucket::chain(body));
            } else if bucket::joint_back(body) != joint && !planted("joint_version_ignored") {
                return Ok(Looked::Unsettled);
            }
        }
        match chained {
            None => Ok(Looked::Absent),
            Some(chain) => {
                self.look_in_chain(memory, chain.pointer(first, &self.shape), key, found, reads).await
            }
        }
    }

    async fn look_in_slots<M: Memory + Sync>(
        &self,
        memory: &M,
        slots: Slots<'_>,
        object: (Address, u64),
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        for slot in 0..slots.count() {
            if slots.control(slot).tag() != tag(key.hash) {
                continue;
            }
            match slots.entry(slot) {
                Some((control, Entry::Inline { key: stored, value, expires })) if stored == key.bytes => {
                    found.value.clear();
                    found.value.extend_from_slice(value);
                    found.expires = expires;
                    found.version = entry_version(object.0, object.1, control);
                    return Ok(Looked::Found);
                }
                Some((control, Entry::Outside { pointer, hash })) if hash == key.hash => {
                    match self.outside(memory, pointer, key, found, reads).await? {
                        Looked::Absent => {}
                        looked => {
                            found.version = entry_version(object.0, object.1, control);
                            return Ok(looked);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(Looked::Absent)
    }

    async fn look_in_chain<M: Memory + Sync>(
        &self,
        memory: &M,
        pointer: Pointer,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let mut bytes = vec![0; read_bytes(pointer.bytes as usize)];
        let confirmation = memory.read_confirmed(pointer.address, &mut bytes).await?;
        *reads += 1;
        match inspect(pointer.address, Some(pointer.incarnation), &bytes, confirmation) {
            Seen::Whole(view) => {
                let body = &bytes[HEADER_BYTES..HEADER_BYTES + view.bytes];
                let slots = Slots::of_chain(body, &self.shape);
                self.look_in_slots(memory, slots, (pointer.address, view.version), key, found, reads).await
            }
            // Freed: the chain has changed since the bucket was read.
            _ => Ok(Looked::Unsettled),
        }
    }

    /// Reads an entry that lies in an object of its own. Absent if it is another key's.
    async fn outside<M: Memory + Sync>(
        &self,
        memory: &M,
        pointer: Pointer,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let bytes = pointer.bytes as usize;
        found.value.clear();
        found.value.resize(read_bytes(bytes), 0);
        let confirmation = memory.read_confirmed(pointer.address, &mut found.value).await?;
        *reads += 1;
        let seen = inspect(pointer.address, Some(pointer.incarnation), &found.value, confirmation);
        let Seen::Whole(view) = seen else { return Ok(Looked::Unsettled) };
        let Some(outside) = Outside::parse(&found.value[HEADER_BYTES..HEADER_BYTES + view.bytes]) else {
            return Ok(Looked::Unsettled);
        };
        if outside.key != key.bytes {
            return Ok(Looked::Absent);
        }
        let value = outside.value.len();
        found.expires = outside.expires;
        // The value alone, in place: it may be long.
        let start = HEADER_BYTES + OUTSIDE_HEAD_BYTES + key.bytes.len();
        found.value.copy_within(start..start + value, 0);
        found.value.truncate(value);
        Ok(Looked::Found)
    }

    /// Looks many keys up in mapped memory, so that their cache misses overlap. What needs more than a
    /// look in place is `Unsettled` afterwards, or `Stale`: [`Roots::lookup`] is for those.
    pub fn lookup_batch_mapped<M: Memory>(
        &self,
        memory: &M,
        keys: &[Key<'_>],
        found: &mut [Found],
        looked: &mut [Looked],
        reads: &mut u64,
    ) -> Result<(), Unreadable> {
        const GROUP: usize = 32;
        let mut regions: [Option<RegionId>; 8] = [None; 8];
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let start = group * GROUP;
            let mut places = [None; GROUP];
            let mut last: Option<(RegionId, &Words)> = None;
            for (place, key) in places.iter_mut().zip(keys) {
                let Some(segment) = self.segment(*key) else { continue };
                let region = segment.address.region();
                let words = match last.filter(|(known, _)| *known == region) {
                    Some((_, words)) => words,
                    None => {
                        let words = memory.mapped(region).ok_or(Unreadable::Closed(region))?;
                        note(&mut regions, region);
                        last = Some((region, words));
                        words
                    }
                };
                let home = self.shape.home(key.hash, segment.seed);
                words.prefetch(segment.offset(home, &self.shape), 64);
                *place = Some((segment, words, home));
            }
            let mut elsewhere = 0u64;
            for (at, (place, key)) in places.iter().zip(keys).enumerate() {
                if let Some((segment, words, home)) = place
                    && !self.prefetch_slot(words, *segment, *home, *key)
                {
                    words.prefetch(segment.offset(home + 1, &self.shape), 64);
                    elsewhere |= 1 << at;
                }
            }
            while elsewhere != 0 {
                let at = elsewhere.trailing_zeros() as usize;
                elsewhere &= elsewhere - 1;
                if let Some((segment, words, home)) = places[at] {
                    self.prefetch_slot(words, segment, home + 1, keys[at]);
                }
            }
            for (at, (place, key)) in places.iter().zip(keys).enumerate() {
                let looked = &mut looked[start + at];
                let found = &mut found[start + at];
                *reads += 1;
                *looked = match place {
                    Some((segment, words, home)) => self.look_once(words, *segment, *home, *key, found)?,
                    None => Looked::Stale,
                };
            }
        }
        for region in regions.into_iter().flatten() {
            memory.believe(region)?;
        }
        Ok(())
    }

    /// Asks for the slot that probably holds the key; false if none does.
    #[inline]
    fn prefetch_slot(&self, words: &Words, segment: Segment, index: usize, key: Key<'_>) -> bool {
        let Shape { slots, slot_bytes, .. } = self.shape;
        let at = segment.offset(index, &self.shape) + HEADER_BYTES as u64;
        let mut head = [0u64; HEAD_WORDS_MAX];
        let head = &mut head[..slots_at(HEAD_BYTES, slots) / 8];
        if words.load_words(at, head).is_err() {
            return false;
        }
        let tag = tag(key.hash);
        for slot in 0..slots {
            if control_of(head, slot).tag() == tag {
                let from = at + (slots_at(HEAD_BYTES, slots) + slot * slot_bytes) as u64;
                words.prefetch(from, slot_bytes);
                return true;
            }
        }
        false
    }

    #[inline]
    fn look_once(
        &self,
        words: &Words,
        segment: Segment,
        home: usize,
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<Looked, Unreadable> {
        let mut joint = 0;
        for index in [home, home + 1] {
            match self.bucket_in_place(words, segment, index, key, found)? {
                Bucket::Found => return Ok(Looked::Found),
                Bucket::Stale => return Ok(Looked::Stale),
                Bucket::Not { forward, chain: None, .. } if index == home => joint = forward,
                Bucket::Not { back, .. } if index != home && back == joint => return Ok(Looked::Absent),
                Bucket::Not { chain: Some(_), .. } if index == home => {
                    // It may still be in the next bucket; absence is for the slow way to say.
                    return Ok(match self.bucket_in_place(words, segment, home + 1, key, found)? {
                        Bucket::Found => Looked::Found,
                        _ => Looked::Unsettled,
                    });
                }
                _ => return Ok(Looked::Unsettled),
            }
        }
        Ok(Looked::Unsettled)
    }
}

/// The control word of a slot, out of the words of a bucket's body.
#[inline]
fn control_of(body: &[u64], slot: usize) -> Control {
    let at = HEAD_BYTES + slot * CONTROL_BYTES;
    Control((body[at / 8] >> (at % 8 * 8)) as u32)
}

/// Remembers a region, once.
fn note(regions: &mut [Option<RegionId>; 8], region: RegionId) {
    for known in regions {
        match known {
            Some(known) if *known == region => return,
            Some(_) => {}
            None => {
                *known = Some(region);
                return;
            }
        }
    }
}
