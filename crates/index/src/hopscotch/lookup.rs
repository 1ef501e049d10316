//! The client's side: a lookup reads the memory of the node, which knows nothing of it.
//!
//! Where a READ is a load, a bucket is looked at in place: its version, the line with its control words,
//! the one slot whose tag is right, and its version again. Elsewhere one READ brings both buckets of the
//! neighbourhood, and their checksums tell whether they are whole.
//!
//! A key that is found in a whole bucket is there. One that is in neither was in none of them at one
//! moment, if the two belong together: that is what the joint version says.

use super::bucket::{self, Entry, Slots, entry_version, tag};
use super::directory::{Directory, Excerpt, Segment};
use super::group::{self, Sought, Told, Wanted};
use super::in_place::{Bucket, Place, SLOT_BYTES_MAX, SLOTS_MAX, Shut};
use super::shape::Shape;
use crate::client::buffers::Buffers;
use crate::client::memory::{Memory, Unreadable};
use crate::client::near::Near;
use crate::key::{Found, Key, Looked};
use crate::node::Part;
use crate::options::TableOptions;
use crate::outside::look_outside;
use crate::wire::Malformed;
use barn_fabric::Words;
use barn_heap::object::read_bytes;
use barn_heap::{HEADER_BYTES, Seen, inspect};
use barn_layout::{Address, RegionId, planted};
use barn_transaction::Pointer;
use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What a client knows of a shard's memory.
#[derive(Clone, Debug)]
pub struct Roots {
    shape: Shape,
    directory: Directory<Segment>,
    near: Near,
}

/// Where a key is to be looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    segment: Segment,
    home: usize,
    is_fetched: bool,
}

/// Places of a directory that counts as small: 1.5 MiB.
const SMALL_PLACES_MAX: usize = 1 << 16;

/// Both buckets of a neighbourhood of no more than so many bytes, as most are, are read onto the stack.
const PAIR_BYTES_NEAR: usize = 512;

/// What a look that came to nothing means.
fn shut(shut: Shut) -> Result<Looked, Unreadable> {
    match shut {
        Shut::Unsettled => Ok(Looked::Unsettled),
        Shut::Stale => Ok(Looked::Stale),
        Shut::Nowhere => Err(Unreadable::Nowhere),
    }
}

/// The two buckets of a neighbourhood, as one READ brought them.
#[derive(Clone, Copy)]
struct Pair<'a> {
    bytes: &'a [u8],
    segment: Segment,
    home: usize,
}

/// The slot of a pair from which on is looked.
#[derive(Clone, Copy, Default)]
struct Start {
    second: bool,
    slot: usize,
}

/// What a look at a pair came to.
enum Step {
    Over(Looked),
    /// The key may be in this object; if it is not, it may be in another slot.
    Outside(Pointer, Start),
    /// It may be in this overflow block.
    Chain(Pointer),
}

/// What a look at slots came to.
enum Slot {
    /// The key, whose value is in `found`.
    Found,
    /// The key may be in an object of its own, or in the slots from `next` on.
    Outside {
        pointer: Pointer,
        next: usize,
    },
    Not,
}

/// Looks for a key in the slots of an object, from one on.
#[inline(always)]
fn take_slot(
    slots: Slots<'_>,
    first: usize,
    (address, version): (Address, u64),
    key: Key<'_>,
    found: &mut Found,
) -> Slot {
    for slot in first..slots.count() {
        if slots.control(slot).tag() != tag(key.hash) {
            continue;
        }
        match slots.entry(slot) {
            Some((control, Entry::Inline { key: stored, value, expires })) if stored == key.bytes => {
                found.value.clear();
                found.value.extend_from_slice(value);
                found.expires = expires;
                found.version = entry_version(address, version, control);
                return Slot::Found;
            }
            Some((_, Entry::Outside { pointer, hash })) if hash == key.hash => {
                return Slot::Outside { pointer, next: slot + 1 };
            }
            _ => {}
        }
    }
    Slot::Not
}

impl Roots {
    /// What the node has said of the whole shard.
    pub fn parse(bytes: &[u8], options: &TableOptions, _: Part) -> Result<Self, Malformed> {
        let shape = Shape::new(options);
        if shape.slots > SLOTS_MAX || shape.slot_bytes > SLOT_BYTES_MAX {
            return Err(Malformed);
        }
        let directory = Excerpt::parse(bytes, &shape)?.whole().ok_or(Malformed)?;
        Ok(Self { shape, directory, near: Near::default() })
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

    /// Whether they are short enough to be kept by every thread that has used them: those of 16 GiB are.
    pub fn is_small(&self) -> bool {
        self.directory.places().len() <= SMALL_PLACES_MAX
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    #[inline]
    pub(super) fn segment(&self, key: Key<'_>) -> Option<&Segment> {
        let segment = &self.directory.places()[self.directory.place(key.hash)];
        Some(segment).filter(|segment| segment.address.to_bits() != 0)
    }

    /// Looks a key up in the shard's memory. Adds the READs that it made to `reads`.
    pub async fn lookup<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let Some(segment) = self.segment(key).copied() else { return Ok(Looked::Stale) };
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

    /// Where a key is to be looked for, in memory that is already on its way if it is known where it is mapped.
    /// `None` if nothing is known of the key's segment.
    #[inline]
    pub(crate) fn aim(&self, key: Key<'_>) -> Option<Aim> {
        let segment = *self.segment(key)?;
        let home = self.shape.home(key.hash, segment.seed);
        let at = Address::new(segment.address.region(), segment.offset(home, &self.shape) as u32);
        // All of both buckets: misses that overlap cost as much as one.
        let is_fetched = self.near.prefetch(at, 2 * self.shape.stride);
        Some(Aim { segment, home, is_fetched })
    }

    /// Looks a key up in mapped memory without a future; gives the region, too, in which it looked, as
    /// nothing may be concluded before that is believed. `None` if the memory is not mapped. What needs more
    /// than a look at its two buckets and their overflow block is `Unsettled`, or `Stale`:
    /// [`Roots::lookup`] is for those.
    #[inline]
    pub(crate) fn look_mapped<'m>(
        &self,
        aim: &Aim,
        mapped: impl FnOnce(RegionId) -> Option<&'m Words>,
        key: Key<'_>,
        found: &mut Found,
    ) -> Option<(Looked, RegionId)> {
        let region = aim.segment.address.region();
        let words = mapped(region)?;
        let home = Place::new(words, &aim.segment, aim.home, &self.shape);
        if !aim.is_fetched {
            home.prefetch_all(&self.shape);
            self.near.learn(aim.segment.address, words);
        }
        Some((home.look_around(&self.shape, &key, found).ok()?, region))
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
        Place::new(words, &segment, home, &self.shape).prefetch_all(&self.shape);
        for index in [home, home + 1] {
            let bucket = match Place::new(words, &segment, index, &self.shape).look(&self.shape, &key, found)
            {
                Ok(bucket) => bucket,
                Err(nothing) => return shut(nothing),
            };
            match bucket {
                Bucket::Found => return Ok(Looked::Found),
                Bucket::Outside(pointer) => {
                    match look_outside(memory, pointer, key, found, reads).await? {
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

    /// Reads both buckets at once, and looks at every slot.
    async fn look_from_afar<M: Memory + Sync>(
        &self,
        memory: &M,
        segment: Segment,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let mut buffers = Buffers::take();
        let home = self.shape.home(key.hash, segment.seed);
        let bytes = self.room(&mut buffers.answer);
        memory.read(segment.bucket(home, &self.shape).address, bytes).await?;
        *reads += 1;
        let pair = Pair { bytes, segment, home };
        match self.judge(pair, Start::default(), key, found) {
            Step::Over(looked) => Ok(looked),
            more => self.look_further(memory, pair, more, key, found, reads).await,
        }
    }

    /// As [`Self::lookup`] of memory that is not mapped, by a READ that `read` waits for. What takes more READs is
    /// done with `memory`, whose READs are to be over when they were polled once.
    #[inline(always)]
    pub(crate) fn lookup_waiting<M: Memory + Sync>(
        &self,
        memory: &M,
        read: impl FnOnce(Address, &mut [u8]) -> Result<(), Unreadable>,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let Some(segment) = self.segment(key).copied() else { return Ok(Looked::Stale) };
        let home = self.shape.home(key.hash, segment.seed);
        let (mut near, mut far) = ([0; PAIR_BYTES_NEAR], None);
        let bytes = match near.get_mut(..self.shape.pair_bytes()) {
            Some(bytes) => bytes,
            None => self.room(&mut far.insert(Buffers::take()).answer),
        };
        read(segment.bucket(home, &self.shape).address, bytes)?;
        *reads += 1;
        let pair = Pair { bytes, segment, home };
        let looked = match self.judge(pair, Start::default(), key, found) {
            Step::Over(looked) => looked,
            more => {
                let further = pin!(self.look_further(memory, pair, more, key, found, reads));
                match further.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(looked) => looked?,
                    Poll::Pending => return Err(Unreadable::Nowhere),
                }
            }
        };
        memory.believe(segment.address.region())?;
        Ok(looked)
    }

    /// Room for both buckets of a neighbourhood.
    #[inline]
    fn room<'b>(&self, room: &'b mut Vec<u8>) -> &'b mut [u8] {
        room.resize(self.shape.pair_bytes(), 0);
        room
    }

    /// What two buckets that were read together say of a key, from some slot on.
    #[inline(always)]
    fn judge(&self, pair: Pair<'_>, start: Start, key: Key<'_>, found: &mut Found) -> Step {
        let Pair { bytes, segment, home } = pair;
        let (mut joint, mut chained) = (0, None);
        for index in [home, home + 1] {
            let pointer = segment.bucket(index, &self.shape);
            let object = &bytes[(index - home) * self.shape.stride..];
            let confirmation = barn_fabric::Confirmation::Unordered;
            let view = match inspect(pointer.address, Some(pointer.incarnation), object, confirmation) {
                Seen::Whole(view) if view.bytes == self.shape.bucket_bytes => view,
                Seen::Freed => return Step::Over(Looked::Stale),
                _ => return Step::Over(Looked::Unsettled),
            };
            let body = &object[HEADER_BYTES..HEADER_BYTES + view.bytes];
            let second = index != home;
            let first = match start {
                Start { second: from, slot } if from == second => slot,
                Start { second: true, .. } if !second => self.shape.slots,
                _ => 0,
            };
            let slots = Slots::of_bucket(body, &self.shape);
            match take_slot(slots, first, (pointer.address, view.version), key, found) {
                Slot::Found => return Step::Over(Looked::Found),
                Slot::Outside { pointer, next } => {
                    return Step::Outside(pointer, Start { second, slot: next });
                }
                Slot::Not => {}
            }
            if !second {
                (joint, chained) = (bucket::joint_forward(body), bucket::chain(body));
            } else if bucket::joint_back(body) != joint && !planted("joint_version_ignored") {
                return Step::Over(Looked::Unsettled);
            }
        }
        match chained {
            None => Step::Over(Looked::Absent),
            Some(chain) => Step::Chain(chain.pointer(segment.bucket(home, &self.shape).address, &self.shape)),
        }
    }

    /// Goes on where two buckets do not say all.
    async fn look_further<M: Memory + Sync>(
        &self,
        memory: &M,
        pair: Pair<'_>,
        more: Step,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let mut step = more;
        loop {
            step = match step {
                Step::Over(looked) => return Ok(looked),
                Step::Chain(pointer) => {
                    return self.look_in_chain(memory, pointer, key, found, reads).await;
                }
                Step::Outside(pointer, next) => {
                    match look_outside(memory, pointer, key, found, reads).await? {
                        // Another key of the same hash.
                        Looked::Absent => self.judge(pair, next, key, found),
                        looked => return Ok(looked),
                    }
                }
            };
        }
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
                let (slots, object) = (Slots::of_chain(body, &self.shape), (pointer.address, view.version));
                let mut first = 0;
                loop {
                    let (pointer, next) = match take_slot(slots, first, object, key, found) {
                        Slot::Found => return Ok(Looked::Found),
                        Slot::Not => return Ok(Looked::Absent),
                        Slot::Outside { pointer, next } => (pointer, next),
                    };
                    match look_outside(memory, pointer, key, found, reads).await? {
                        Looked::Absent => first = next,
                        looked => return Ok(looked),
                    }
                }
            }
            // Freed: the chain has changed since the bucket was read.
            _ => Ok(Looked::Unsettled),
        }
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
        *reads += keys.len() as u64;
        match self.look_many_mapped(|region| memory.mapped(region), (0, keys), found, looked) {
            Ok((_, read)) => read.map_or(Ok(()), |region| memory.believe(region)),
            Err(Some(region)) => Err(Unreadable::Closed(region)),
            Err(None) => Err(Unreadable::Nowhere),
        }
    }

    /// As [`Self::look_mapped`], of many keys. Fails with the region that is not mapped, or with none where
    /// there is no such memory; gives one that was read.
    #[inline]
    pub(crate) fn look_many_mapped<'m>(
        &self,
        mapped: impl Fn(RegionId) -> Option<&'m Words>,
        keys: (u64, &[impl Wanted]),
        found: &mut [Found],
        looked: &mut [Looked],
    ) -> Result<(Told, Option<RegionId>), Option<RegionId>> {
        let many = Many { directory: &self.directory, mapped, last: Cell::new(None) };
        let told = group::look(&self.shape, &many, keys, found, looked)?;
        Ok((told, many.last.get()))
    }
}

/// A directory, and the memory in which keys are looked for.
struct Many<'a, F> {
    directory: &'a Directory<Segment>,
    mapped: F,
    /// A region that was read. All of a shard's are one node's, so that one of them speaks for all.
    last: Cell<Option<RegionId>>,
}

impl<'m, F: Fn(RegionId) -> Option<&'m Words>> Sought<'m> for Many<'_, F> {
    type Error = Option<RegionId>;

    #[inline(always)]
    fn segment(&self, hash: u64) -> Option<&Segment> {
        let segment = &self.directory.places()[self.directory.place(hash)];
        (segment.address.to_bits() != 0).then_some(segment)
    }

    fn words(&self, region: RegionId) -> Option<&'m Words> {
        self.last.set(Some(region));
        (self.mapped)(region)
    }

    fn unreadable(&self, region: Option<RegionId>) -> Result<(), Option<RegionId>> {
        Err(region)
    }
}
