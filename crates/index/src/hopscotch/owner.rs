//! The node's side of a shard.

use super::asked::Asked;
use super::bucket::{self, Entry, entry_version};
use super::change::{Effect, Failure, Work};
use super::count::count;
use super::directory::{Directory, Excerpt, Segment};
use super::group::{self, Told};
use super::in_place::Place;
use super::local::{Peek, finish};
use super::one_bucket::{OneBucket, Scratch};
use super::rebuild::{self, Moving};
use super::reopen;
use super::scan::InOrder;
use super::shape::Shape;
use crate::error::Refused;
use crate::hash::scale;
use crate::key::{Found, Key, Looked};
use crate::node::notes::Deltas;
use crate::node::{Decision, Part, Shard, ShardStats};
use crate::objects::Objects;
use crate::options::TableOptions;
use crate::outside::{Outside, outside_version};
use barn_heap::{AllocError, Heap};
use barn_layout::heap::BLOCK_BYTES;
use barn_layout::table::CURSOR_END;
use barn_layout::{Address, planted};
use std::collections::{BTreeMap, BTreeSet};

/// A table is made for its capacity at this part of its slots: FaRM's figures are for it.
const FILL_WANTED: f64 = 0.9;
/// A segment is split when this part of its slots is taken.
const FILL_MAX: f64 = 0.96;
/// Another seed is looked for when more than this part of the keys overflow.
const OVERFLOW_WANTED: f64 = 0.025;
/// ... and again when the keys have grown by this part since.
const RESEED_STEP: f64 = 0.02;
/// A split that failed for want of memory costs as much as one that did not: so many changes later it is
/// tried again.
const SPLIT_PATIENCE: u32 = 200;
/// The most segments that a shard is made for: of the usual size, 1 TiB.
const SEGMENTS_MAX: u64 = 1 << 22;
/// Segments that are made at a time ahead of their use: about 30 µs each.
const MADE_AHEAD: usize = 4;

/// What the owner has counted of a segment.
#[derive(Clone, Copy, Debug)]
struct Tally {
    counted: Counted,
    /// The keys when another seed was last looked for.
    reseeded_at: u32,
    /// How often it is not tried to split it, after that has failed.
    patience: u32,
}

/// What a segment holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) keys: u32,
    pub(super) overflowed: u32,
    /// Bytes of keys and values.
    pub(super) payload: u64,
    /// Bytes of memory, long entries' among them.
    pub(super) memory: u64,
}

/// A segment that has not been made yet.
pub(super) const UNMADE: u32 = u32::MAX;

/// How full a heap is, with all that is in it.
#[derive(Clone, Copy, Debug, Default)]
struct Fullness {
    /// Bytes of blocks.
    held: u64,
    /// Of their slots that are taken.
    taken: u64,
}

impl Fullness {
    fn of(heap: &Heap) -> Self {
        let usage = heap.usage();
        let total = usage.total();
        Self { held: usage.held_bytes, taken: total.slot_bytes + total.reserved_bytes }
    }

    /// Whether there may be a block that there was not then: one was given up, or slots were that may be most of one,
    /// which is kept until somebody needs it.
    fn has_eased(&self, heap: &Heap) -> bool {
        let now = Self::of(heap);
        now.held < self.held || now.taken + BLOCK_BYTES as u64 / 2 <= self.taken
    }
}

/// A shard of a hopscotch table.
#[derive(Debug)]
pub struct Owner {
    pub(super) shape: Shape,
    seed: u64,
    pub(super) directory: Directory<u32>,
    /// Apart from the tallies: every lookup goes by one of them, and close together they stay in the cache.
    pub(super) segments: Vec<Segment>,
    tallies: Vec<Tally>,
    /// Numbers of segments that are free again.
    free: Vec<u32>,
    /// Places before this one have a segment.
    made: usize,
    pub(super) next_seed: u16,
    /// How full the heap was when it had no memory to split a segment.
    when_full: Fullness,
    stats: ShardStats,
    /// Where segments start.
    pub(super) by_address: BTreeMap<u64, u32>,
    /// Segments that transactions have changed since they were counted.
    uncounted: BTreeSet<u32>,
    /// Where it is written down which segments there are.
    deltas: Deltas,
    scratch: Scratch,
}

impl Owner {
    /// An empty shard.
    pub fn new(heap: &mut Heap, options: &TableOptions, part: Part) -> Result<Self, Refused> {
        let shape = Shape::new(options);
        let capacity = options.capacity.div_ceil(u64::from(part.shards.max(1))).max(1);
        let per_segment = shape.segment_slots() as f64 * FILL_WANTED;
        let wanted = (capacity as f64 / per_segment).ceil() as u64;
        if wanted > 1 {
            // What is made ahead, a little at a time, must not end in the middle.
            let checked = heap.check_budget(wanted.saturating_mul(shape.segment_bytes() as u64));
            checked.map_err(|error| Refused::Full(error.to_string()))?;
        }
        if wanted > SEGMENTS_MAX {
            return Err(Refused::Full(format!(
                "{capacity} keys are more than one shard can be made for: ask for a smaller capacity, or for \
                 more shards"
            )));
        }
        let base = wanted.max(1) as usize;
        let mut owner = Self::over(shape, options.seed, Directory::new(vec![UNMADE; base]));
        // At least one, so that a node without room says so at once.
        owner.make_segment(heap, 0).map_err(|error| refused(Failure::Full(error.to_string())))?;
        owner.write_down(part);
        Ok(owner)
    }

    /// A shard of these segments, which are yet to be adopted; it writes nothing down yet.
    pub(super) fn over(shape: Shape, seed: u64, directory: Directory<u32>) -> Self {
        Self {
            shape,
            seed,
            directory,
            segments: Vec::new(),
            tallies: Vec::new(),
            free: Vec::new(),
            made: 0,
            next_seed: 1,
            when_full: Fullness::default(),
            stats: ShardStats::default(),
            by_address: BTreeMap::new(),
            uncounted: BTreeSet::new(),
            deltas: Deltas::default(),
            scratch: Scratch::default(),
        }
    }

    /// From now on it is written down which segments come and go.
    pub(super) fn write_down(&mut self, part: Part) {
        self.deltas = Deltas::of(part, self.shape.purpose);
    }

    /// The segment of a hash, if it has been made.
    #[inline]
    fn segment_of(&self, hash: u64) -> Option<Segment> {
        self.segments.get(self.directory.get(hash) as usize).copied()
    }

    /// A key's home.
    #[inline]
    fn home<'a>(&self, heap: &'a Heap, key: Key<'_>) -> Option<Place<'a>> {
        let segment = self.segment_of(key.hash)?;
        let words = heap.words(segment.address.region())?;
        Some(Place::new(words, &segment, self.shape.home(key.hash, segment.seed), &self.shape))
    }

    /// Makes the segment of a place that has none.
    fn make_segment(&mut self, heap: &mut Heap, place: usize) -> Result<u32, AllocError> {
        let built = rebuild::build(heap, &self.shape, 0, 0, &[])?;
        let number = self.adopt(&built);
        let span = self.directory.span(place, 0);
        self.directory.set(span.clone(), number);
        self.deltas.add(heap, || reopen::delta(&self.directory, &[(span.start, built.segment)]));
        Ok(number)
    }

    /// Takes a segment in.
    pub(super) fn adopt(&mut self, built: &rebuild::Built) -> u32 {
        let tally = Tally { counted: built.counted, reseeded_at: built.counted.keys, patience: 0 };
        self.stats.slots += self.shape.segment_slots() as u64;
        let number = match self.free.pop() {
            Some(number) => {
                self.segments[number as usize] = built.segment;
                self.tallies[number as usize] = tally;
                number
            }
            None => {
                self.segments.push(built.segment);
                self.tallies.push(tally);
                self.segments.len() as u32 - 1
            }
        };
        self.by_address.insert(built.segment.address.to_bits(), number);
        self.count(Counted::default(), built.counted);
        number
    }

    /// Replaces what a segment held by what it holds now, in the sums.
    fn count(&mut self, before: Counted, after: Counted) {
        let stats = &mut self.stats;
        let sums = [
            (&mut stats.keys, u64::from(before.keys), u64::from(after.keys)),
            (&mut stats.overflowed, u64::from(before.overflowed), u64::from(after.overflowed)),
            (&mut stats.payload_bytes, before.payload, after.payload),
            (&mut stats.memory_bytes, before.memory, after.memory),
        ];
        for (sum, before, after) in sums {
            *sum = (*sum + after).saturating_sub(before);
        }
    }

    /// The segment of a hash, which is made if need be.
    fn segment(&mut self, heap: &mut Heap, hash: u64) -> Result<u32, Refused> {
        match self.directory.get(hash) {
            UNMADE => {
                let place = self.directory.place(hash);
                self.make_segment(heap, place).map_err(|error| refused(Failure::Full(error.to_string())))
            }
            number => Ok(number),
        }
    }

    /// Replaces a segment by one or two that are built anew of its entries.
    fn rebuild(&mut self, heap: &mut Heap, hash: u64, split: bool) -> Result<(), Failure> {
        let number = self.directory.get(hash);
        let Some(segment) = self.segments.get(number as usize).copied() else { return Ok(()) };
        let counted = self.tallies[number as usize].counted;
        let mut depth = segment.depth;
        if split && depth == self.directory.depth() {
            if !self.directory.can_double() {
                return Err(Failure::Crowded);
            }
            self.directory.double();
        }
        let contents = rebuild::gather(heap, &segment, &self.shape, self.seed).ok_or(Failure::Busy)?;
        let span = self.directory.span(self.directory.place(hash), depth);
        let middle = span.start + span.len() / 2;
        let places = self.directory.places().len() as u64;
        let (low, high): (Vec<Moving>, Vec<Moving>) = match split {
            true => {
                depth += 1;
                contents
                    .entries
                    .iter()
                    .cloned()
                    .partition(|entry| (scale(entry.hash, places) as usize) < middle)
            }
            false => (contents.entries.clone(), Vec::new()),
        };
        let mut built = Vec::new();
        for entries in [Some(&low), split.then_some(&high)].into_iter().flatten() {
            self.next_seed = self.next_seed.wrapping_add(16).max(1);
            let (seed, overflows) = rebuild::best_seed(entries, &self.shape, self.next_seed);
            // A new seed alone must be worth the work.
            if !split && overflows * 5 > counted.overflowed as usize * 4 {
                return Ok(());
            }
            match rebuild::build(heap, &self.shape, seed, depth, entries) {
                Ok(done) => built.push(done),
                Err(error) => {
                    built.iter().for_each(|done| rebuild::unbuild(heap, done, &self.shape, self.seed));
                    return Err(Failure::Full(error.to_string()));
                }
            }
        }
        let numbers: Vec<u32> = built.iter().map(|done| self.adopt(done)).collect();
        let starts = [span.start, middle];
        match numbers[..] {
            [one] => self.directory.set(span, one),
            [low, high] => {
                self.directory.set(span.start..middle, low);
                self.directory.set(middle..span.end, high);
            }
            _ => {}
        }
        if !planted("segment_note_forgotten") {
            self.deltas.add(heap, || {
                let placed = starts.into_iter().zip(built.iter().map(|done| done.segment));
                reopen::delta(&self.directory, &placed.collect::<Vec<_>>())
            });
        }
        // Whoever still reads the old segment has to notice.
        if !planted("old_segment_left") {
            contents.free(heap).map_err(|_| Failure::Busy)?;
        }
        self.count(counted, Counted::default());
        self.by_address.remove(&segment.address.to_bits());
        self.uncounted.remove(&number);
        self.stats.slots -= self.shape.segment_slots() as u64;
        self.stats.moves += contents.entries.len() as u64;
        self.stats.grown += u64::from(split);
        self.free.push(number);
        Ok(())
    }

    /// Splits a segment; where that has failed, it is not tried again at once.
    fn split(&mut self, heap: &mut Heap, number: u32, hash: u64) -> Result<(), Failure> {
        // Memory that was given back since may be enough.
        if let Some(tally) = self.tallies.get_mut(number as usize)
            && tally.patience > 0
            && (!self.when_full.has_eased(heap) || planted("split_patience_is_blind"))
        {
            tally.patience -= 1;
            return Err(Failure::Full("the node's memory is used up, so that the table cannot grow".into()));
        }
        let split = self.rebuild(heap, hash, true);
        if let (Err(Failure::Full(_)), Some(tally)) = (&split, self.tallies.get_mut(number as usize)) {
            tally.patience = SPLIT_PATIENCE;
            self.when_full = Fullness::of(heap);
        }
        split
    }

    /// Counts what a change did, and looks after the segment that it changed.
    fn account(&mut self, heap: &mut Heap, number: u32, hash: u64, effect: &Effect) {
        self.stats.updates += u64::from(effect.stored);
        if !effect.counts() {
            return;
        }
        self.stats.moves += effect.moves;
        let before = self.tallies[number as usize].counted;
        // A segment that a transaction has changed is counted anew later.
        let after = Counted {
            keys: before.keys.saturating_add_signed(effect.keys as i32),
            overflowed: before.overflowed.saturating_add_signed(effect.overflowed as i32),
            payload: before.payload.saturating_add_signed(effect.payload),
            memory: before.memory.saturating_add_signed(effect.memory),
        };
        self.tallies[number as usize].counted = after;
        self.count(before, after);
        if effect.keys > 0 {
            self.look_after(heap, number, hash);
        }
    }

    /// Splits a segment that is full, or builds it anew if too much of it overflows.
    fn look_after(&mut self, heap: &mut Heap, number: u32, hash: u64) {
        let tally = &mut self.tallies[number as usize];
        let Tally { counted: Counted { keys, overflowed, .. }, reseeded_at, .. } = *tally;
        if f64::from(keys) > self.shape.segment_slots() as f64 * FILL_MAX {
            // Without memory to split, the overflow blocks have room for a while.
            let _ = self.split(heap, number, hash);
        } else if f64::from(overflowed) > f64::from(keys) * OVERFLOW_WANTED
            && f64::from(keys) > f64::from(reseeded_at) * (1.0 + RESEED_STEP)
        {
            tally.reseeded_at = keys;
            let _ = self.rebuild(heap, hash, false);
        }
    }

    /// Counts what a segment holds, where a transaction has changed it.
    fn recount_segment(&mut self, heap: &mut Heap, number: u32) {
        let Some(segment) = self.segments.get(number as usize) else { return };
        // One that is being changed right now is touched again.
        let Some(counted) = count(heap, segment, &self.shape) else { return };
        let before = std::mem::replace(&mut self.tallies[number as usize].counted, counted);
        self.count(before, counted);
        let places = self.directory.places();
        if let Some(place) = places.iter().position(|there| *there == number) {
            let hash = first_hash(place as u64, places.len() as u64);
            self.look_after(heap, number, hash);
        }
    }

    fn peek_found(
        &self,
        heap: &Heap,
        object: (Address, u64),
        control: bucket::Control,
        entry: Entry<'_>,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> bool {
        match entry {
            Entry::Inline { key, value, expires } => {
                let version = entry_version(object.0, object.1, control);
                each(key, &Found { value: value.to_vec(), version, expires })
            }
            Entry::Outside { pointer, .. } => {
                let mut body = Vec::new();
                let Ok(header) = heap.read(pointer.address, &mut body) else { return true };
                let version = outside_version(pointer.address, header.word.version());
                Outside::parse(&body).is_none_or(|Outside { expires, key, value }| {
                    each(key, &Found { value: value.to_vec(), version, expires })
                })
            }
        }
    }
}

fn refused(failure: Failure) -> Refused {
    match failure {
        Failure::Busy => Refused::Busy,
        // Nobody but the owner splits segments: nothing of one that it knows can be gone.
        Failure::Gone => Refused::Invalid("a bucket is not where it should be: the table is damaged".into()),
        Failure::Crowded => {
            Refused::Full("an overflow block is full, and the segment cannot be split".into())
        }
        Failure::Full(why) => Refused::Full(why),
        Failure::Client(error) => Refused::Invalid(error.to_string()),
    }
}

impl Shard for Owner {
    fn get(&mut self, heap: &Heap, key: Key<'_>, found: &mut Found) -> Result<bool, Refused> {
        self.stats.gets += 1;
        if let Some(home) = self.home(heap, key) {
            home.prefetch_all(&self.shape);
            match home.look_around(&self.shape, &key, found) {
                Ok(Looked::Found) => {
                    self.stats.hits += 1;
                    return Ok(true);
                }
                Ok(Looked::Absent) => return Ok(false),
                // An overflow block, a long entry, a lock: the slower way tells.
                _ => {}
            }
        }
        let Some(segment) = self.segment_of(key.hash) else { return Ok(false) };
        let mut store = Peek(heap);
        let work = Work::new(&mut store, segment, &self.shape, self.seed);
        let there = finish(work.get(key, found)).map_err(refused)?;
        self.stats.hits += u64::from(there);
        Ok(there)
    }

    fn update<'v>(
        &mut self,
        heap: &mut Heap,
        key: Key<'_>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, Refused> {
        // What is decided once is kept: a segment that has to be split first is searched again.
        let mut decided: Option<Decision<'v>> = None;
        for round in 0..3 {
            let number = self.segment(heap, key.hash)?;
            let segment = self.segments[number as usize];
            if round == 0 {
                let Self { shape, scratch, .. } = &mut *self;
                let (mut bucket, mut effect) =
                    (OneBucket { heap, segment, shape, scratch }, Effect::default());
                if let Some(version) = bucket.change(&key, &mut decided, decide, &mut effect) {
                    self.account(heap, number, key.hash, &effect);
                    return Ok(version);
                }
            }
            let mut local = Objects::new(heap, self.shape.purpose);
            let work = Work::new(&mut local, segment, &self.shape, self.seed);
            let changed =
                finish(work.change(key, &mut |found| decided.get_or_insert_with(|| decide(found)).clone()));
            match changed {
                Ok(mut effect) => {
                    effect.memory = local.commit().map_err(|unwritten| refused(unwritten.into()))?;
                    self.account(heap, number, key.hash, &effect);
                    return Ok(effect.version);
                }
                Err(Failure::Crowded) => {
                    local.abandon();
                    self.split(heap, number, key.hash).map_err(refused)?;
                }
                Err(failure) => {
                    local.abandon();
                    return Err(refused(failure));
                }
            }
        }
        Err(Refused::Full("an overflow block is full after two splits".into()))
    }

    fn scan(
        &mut self,
        heap: &Heap,
        cursor: u64,
        each: &mut dyn FnMut(&[u8], &Found) -> bool,
    ) -> Result<Option<u64>, Refused> {
        // The cursor is the hash from which to go on: splitting changes neither hashes nor their order.
        let places = self.directory.places().len();
        let mut place = scale(cursor, places as u64) as usize;
        let mut segment_in_order = InOrder::default();
        while place < places {
            let number = self.directory.places()[place];
            let Some(&segment) = self.segments.get(number as usize) else {
                place += 1;
                continue;
            };
            let gathered = segment_in_order.gather(heap, &segment, &self.shape, (self.seed, cursor));
            gathered.map_err(|_| refused(Failure::Gone))?;
            let (mut more, mut last) = (true, None);
            for (hash, object, control, entry) in segment_in_order.entries(&self.shape) {
                // Keys of one hash are not parted, nor is the last of all hashes begun with: it means the end.
                if !more && last != Some(hash) && hash != CURSOR_END {
                    return Ok(Some(hash));
                }
                more &= self.peek_found(heap, object, control, entry, each);
                last = Some(hash);
            }
            place = self.directory.span(place, segment.depth).end;
            if !more && place < places {
                return Ok(Some(first_hash(place as u64, places as u64)));
            }
        }
        Ok(None)
    }

    fn roots(&self, _: &Heap, query: &[u8]) -> Vec<u8> {
        let unmade = Segment { address: Address::from_bits(0), incarnation: 0, seed: 0, depth: 0 };
        let segment = |number: u32| self.segments.get(number as usize).copied().unwrap_or(unmade);
        let (base, depth) = (self.directory.base(), self.directory.depth());
        let (mut place, end) = match query.first_chunk() {
            Some(hash) => {
                let place = self.directory.place(u64::from_le_bytes(*hash));
                let span = self.directory.span(place, segment(self.directory.places()[place]).depth);
                (span.start, span.end)
            }
            None => (0, self.directory.places().len()),
        };
        let first = place;
        let mut segments = Vec::new();
        while place < end {
            let next = segment(self.directory.places()[place]);
            place = self.directory.span(place, next.depth).end;
            segments.push(next);
        }
        Excerpt::new(base, depth, first, segments).to_bytes()
    }

    fn stats(&self) -> ShardStats {
        self.stats.clone()
    }

    fn glance(
        &mut self,
        heap: &Heap,
        (seed, keys): (u64, &[&[u8]]),
        found: &mut [Found],
        looked: &mut [Looked],
    ) {
        let asked = Asked { heap, directory: &self.directory, segments: &self.segments };
        match group::look(&self.shape, &asked, (seed, keys), found, looked) {
            Ok(Told { found, absent, .. }) => {
                self.stats.gets += found + absent;
                self.stats.hits += found;
            }
            Err(()) => looked.fill(Looked::Unsettled),
        }
    }

    fn prefetch(&self, heap: &Heap, key: Key<'_>) {
        if let Some(home) = self.home(heap, key) {
            home.prefetch(&self.shape);
        }
    }

    fn prefetch_more(&self, heap: &Heap, key: Key<'_>) {
        if let Some(home) = self.home(heap, key)
            && !home.prefetch_slot(&self.shape, key)
        {
            home.next(&self.shape).prefetch_bucket(&self.shape);
        }
    }

    fn prefetch_alone(&self, heap: &Heap, key: Key<'_>) {
        if let Some(home) = self.home(heap, key) {
            home.prefetch_all(&self.shape);
        }
    }

    fn prefetch_change(&self, heap: &Heap, key: Key<'_>) {
        if let Some(home) = self.home(heap, key) {
            home.prefetch_bucket(&self.shape);
        }
    }

    fn combined(&mut self) {
        self.stats.combined += 1;
    }

    fn touched(&mut self, address: Address) -> bool {
        let Some((start, number)) = self.by_address.range(..=address.to_bits()).next_back() else {
            return false;
        };
        let inside = address.to_bits() - start < self.shape.segment_bytes() as u64;
        if inside {
            self.uncounted.insert(*number);
        }
        inside
    }

    fn recount(&mut self, heap: &mut Heap) {
        while let Some(number) = self.uncounted.pop_first() {
            self.recount_segment(heap, number);
        }
    }

    fn grow(&mut self, heap: &mut Heap, query: &[u8]) {
        if let Some(hash) = query.first_chunk() {
            // Whoever asked finds out by trying again.
            let hash = u64::from_le_bytes(*hash);
            let _ = self.split(heap, self.directory.get(hash), hash);
        }
    }

    fn tend(&mut self, heap: &mut Heap) -> bool {
        let uncounted = self.uncounted.pop_first();
        if let Some(number) = uncounted {
            self.recount_segment(heap, number);
        }
        let made_before = self.made;
        for _ in 0..MADE_AHEAD {
            let Some(place) = (self.made..self.directory.places().len())
                .take(1024)
                .find(|place| self.directory.places()[*place] == UNMADE)
            else {
                self.made = (self.made + 1024).min(self.directory.places().len());
                break;
            };
            self.made = place;
            if self.make_segment(heap, place).is_err() {
                break;
            }
        }
        uncounted.is_some() || self.made > made_before
    }

    fn remember(&self, _: &Heap) -> Vec<u8> {
        reopen::remember(self)
    }

    fn clear(&mut self, heap: &mut Heap) {
        let mut numbers: Vec<u32> = self.directory.places().to_vec();
        numbers.dedup();
        for number in numbers {
            let Some(segment) = self.segments.get(number as usize) else { continue };
            if let Some(contents) = rebuild::gather(heap, segment, &self.shape, self.seed) {
                contents.free_outside(heap, &self.shape);
                let _ = contents.free(heap);
            }
        }
        self.directory = Directory::new(vec![UNMADE]);
        self.segments.clear();
        self.tallies.clear();
        self.by_address.clear();
        self.uncounted.clear();
        self.stats = ShardStats::default();
    }
}

/// The first hash of a place.
fn first_hash(place: u64, places: u64) -> u64 {
    let shifted = (u128::from(place) << 64).div_ceil(u128::from(places));
    shifted as u64
}
