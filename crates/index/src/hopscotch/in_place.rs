//! Looks at buckets where they are, in memory that is mapped here: the client's way over shm, and the
//! node's own. Nothing is copied but the value.
//!
//! A look has two steps. *Opening* reads an object's version and its control words. *Taking* compares the
//! key of the one slot whose tag is right, copies its value, and looks at the version again: if it is
//! still the same, control words, key and value are of one moment. Between the two other keys may be opened,
//! so that the slots of many are fetched at once ([`Place::seek`]).
//!
//! A key that is looked up beside others has no time for anything twice: a bucket's place is checked once
//! ([`Span`]), the tags of two slots are compared at once, and what few entries have (a time, an object of
//! their own) is seen to elsewhere.

use super::bucket::{
    self, CHAIN_SLOTS_MAX, CONTROL_BYTES, Chain, Control, Entry, HEAD_BYTES, OUTSIDE_SLOT_BYTES,
    entry_version, slots_at, tag,
};
use super::directory::Segment;
use super::shape::Shape;
use super::tagged::{self, Tagged};
use crate::key::{Found, Key, Looked};
use barn_fabric::Words;
use barn_fabric::region::{AccessError, Ordering, Span, fence};
use barn_heap::HEADER_BYTES;
use barn_heap::object::Header;
use barn_layout::limits::{LINE_BYTES, WORD_BYTES};
use barn_layout::object::{LockMode, VersionWord};
use barn_layout::{Address, RegionId, planted};
use barn_transaction::Pointer;

/// The most slots of a bucket: H = 16.
pub(super) const SLOTS_MAX: usize = 8;
/// The longest slot.
pub(super) const SLOT_BYTES_MAX: usize = 384;
/// Slots of a bucket that is opened by the shorter of two loads.
pub(super) const FEW_SLOTS: usize = 4;
/// Words of a bucket's header, head and control words, if it has few slots, or more: loads of a fixed number
/// need no loop. What is too much is bytes of its first slots; every bucket is that long.
pub(super) const FEW_WORDS: usize = (HEADER_BYTES + slots_at(HEAD_BYTES, FEW_SLOTS)) / WORD_BYTES;
pub(super) const MORE_WORDS: usize = (HEADER_BYTES + slots_at(HEAD_BYTES, SLOTS_MAX)) / WORD_BYTES;
/// Words before the slots of an overflow block, at the most.
const CHAIN_WORDS: usize = (HEADER_BYTES + slots_at(0, CHAIN_SLOTS_MAX)) / WORD_BYTES;

const fn bucket_bytes_min(slots: usize) -> usize {
    HEADER_BYTES + slots_at(HEAD_BYTES, slots) + slots * OUTSIDE_SLOT_BYTES
}
const _: () = assert!(bucket_bytes_min(1) >= FEW_WORDS * WORD_BYTES);
const _: () = assert!(bucket_bytes_min(FEW_SLOTS + 1) >= MORE_WORDS * WORD_BYTES);
// The header is of whole words: what comes after it is found by the same shifts.
const _: () = assert!(HEADER_BYTES.is_multiple_of(WORD_BYTES));

/// Why nothing can be said of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shut {
    /// A writer was there.
    Unsettled,
    /// The bucket is not there any more.
    Stale,
    /// There is no such memory.
    Nowhere,
}

impl From<AccessError> for Shut {
    #[inline]
    fn from(_: AccessError) -> Self {
        Self::Nowhere
    }
}

/// What a look at one bucket found.
pub(super) enum Bucket {
    /// The key, whose value is in `found`.
    Found,
    /// The key may be there, in an object of its own.
    Outside(Pointer),
    /// Not the key.
    Not {
        /// The joint version with the bucket before.
        back: u16,
        /// The joint version with the bucket after.
        forward: u16,
        /// The overflow block.
        chain: Option<Chain>,
    },
}

/// A slot that probably holds a key, of one version of its bucket.
#[derive(Clone, Copy)]
pub(super) struct Likely<'a> {
    /// The bucket.
    span: Span<'a>,
    /// Its version when it was opened, see [`VersionWord::prepared`].
    word: VersionWord,
    /// How far the slot is from the header.
    from: u32,
    control: Control,
}

/// What a slot turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The key, whose value is in `found`.
    Found {
        /// Whether it expires some time.
        timed: bool,
    },
    /// The key may be in an object of its own.
    Outside(Pointer),
    /// Another key.
    Other,
}

/// A bucket in mapped memory, or an overflow block. Of the latter `START` is 0, below, and of the former
/// [`HEAD_BYTES`]: where its control words start, after the header.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    words: &'a Words,
    /// Where its header is.
    at: u64,
    region: RegionId,
    incarnation: u32,
}

impl<'a> Place<'a> {
    /// A bucket of a segment.
    #[inline]
    pub(super) fn new(words: &'a Words, segment: &Segment, index: usize, shape: &Shape) -> Self {
        Self {
            words,
            at: segment.offset(index, shape),
            region: segment.address.region(),
            incarnation: segment.incarnation,
        }
    }

    /// A bucket whose header is there.
    #[inline(always)]
    pub(super) fn at(words: &'a Words, address: Address, incarnation: u32) -> Self {
        Self { words, at: u64::from(address.offset()), region: address.region(), incarnation }
    }

    /// The bucket after it.
    #[inline]
    pub(super) fn next(self, shape: &Shape) -> Self {
        Self { at: self.at + shape.stride as u64, ..self }
    }

    /// The bucket before it.
    #[inline]
    pub(super) fn previous(self, shape: &Shape) -> Self {
        Self { at: self.at - shape.stride as u64, ..self }
    }

    #[inline]
    pub(super) fn address(&self) -> Address {
        Address::new(self.region, self.at as u32)
    }

    /// Asks the CPU for the version and the control words.
    #[inline]
    pub(super) fn prefetch(&self, shape: &Shape) {
        let words = if shape.slots <= FEW_SLOTS { FEW_WORDS } else { MORE_WORDS };
        self.words.prefetch(self.at, words * WORD_BYTES);
    }

    /// Asks the CPU for the bucket's overflow block, if it has one; of what is not known yet, for anything.
    #[inline(never)]
    pub(super) fn prefetch_chain(&self, shape: &Shape) {
        let Ok([joints, rest]) = self.words.load_array(self.at + HEADER_BYTES as u64) else { return };
        if let Some(chain) = Chain::from_bits(joints >> 32 | rest << 32) {
            self.words.prefetch(u64::from(chain.offset), HEADER_BYTES + shape.chain_bytes(chain.slots));
        }
    }

    /// Asks the CPU for all of the bucket, and for the head of the next: misses that overlap cost as much as one.
    #[inline]
    pub(super) fn prefetch_bucket(&self, shape: &Shape) {
        self.words.prefetch(self.at, shape.stride + LINE_BYTES);
    }

    /// The same, and for all of the next, where the key may be: for whoever looks up one key and nothing beside it.
    #[inline]
    pub(super) fn prefetch_all(&self, shape: &Shape) {
        self.words.prefetch(self.at, 2 * shape.stride);
    }

    /// Asks for the slot that probably holds the key; false if none does.
    pub(super) fn prefetch_slot(&self, shape: &Shape, key: Key<'_>) -> bool {
        let likely = match shape.slots <= FEW_SLOTS {
            true => self.seek::<FEW_WORDS>(shape, tag(key.hash)),
            false => self.seek::<MORE_WORDS>(shape, tag(key.hash)),
        };
        matches!(likely, Ok(Some(_)))
    }

    /// Looks for a key in the bucket.
    pub(super) fn look(&self, shape: &Shape, key: &Key<'_>, found: &mut Found) -> Result<Bucket, Shut> {
        match shape.slots <= FEW_SLOTS {
            true => self.look_at::<FEW_WORDS, HEAD_BYTES>(shape.slots, shape, key, found),
            false => self.look_at::<MORE_WORDS, HEAD_BYTES>(shape.slots, shape, key, found),
        }
    }

    /// Looks for a key in its home, which this is, in the next bucket, and in the overflow block. What
    /// needs more than that is `Unsettled`.
    #[inline]
    pub(super) fn look_around(
        &self,
        shape: &Shape,
        key: &Key<'_>,
        found: &mut Found,
    ) -> Result<Looked, Shut> {
        let looked = match shape.slots <= FEW_SLOTS {
            true => self.look_around_by::<FEW_WORDS>(shape, key, found),
            false => self.look_around_by::<MORE_WORDS>(shape, key, found),
        };
        match looked {
            Err(Shut::Unsettled) => Ok(Looked::Unsettled),
            Err(Shut::Stale) => Ok(Looked::Stale),
            looked => looked,
        }
    }

    fn look_around_by<const WORDS: usize>(
        &self,
        shape: &Shape,
        key: &Key<'_>,
        found: &mut Found,
    ) -> Result<Looked, Shut> {
        match self.look_at::<WORDS, HEAD_BYTES>(shape.slots, shape, key, found)? {
            Bucket::Found => Ok(Looked::Found),
            Bucket::Outside(..) => Err(Shut::Unsettled),
            Bucket::Not { forward, chain, .. } => {
                self.look_further::<WORDS>(shape, key, found, forward, chain)
            }
        }
    }

    /// The rest of [`Self::look_around`], after the key was not in its home.
    #[inline(never)]
    fn look_further<const WORDS: usize>(
        &self,
        shape: &Shape,
        key: &Key<'_>,
        found: &mut Found,
        joint: u16,
        chained: Option<Chain>,
    ) -> Result<Looked, Shut> {
        match self.next(shape).look_at::<WORDS, HEAD_BYTES>(shape.slots, shape, key, found)? {
            Bucket::Found => return Ok(Looked::Found),
            Bucket::Not { back, .. } if back == joint || planted("joint_version_ignored") => {}
            _ => return Err(Shut::Unsettled),
        }
        let Some(chain) = chained else { return Ok(Looked::Absent) };
        let block = Self { at: u64::from(chain.offset), incarnation: chain.incarnation, ..*self };
        match block.look_at::<CHAIN_WORDS, 0>(chain.slots, shape, key, found) {
            Ok(Bucket::Found) => Ok(Looked::Found),
            Ok(Bucket::Not { .. }) => Ok(Looked::Absent),
            Err(Shut::Nowhere) => Err(Shut::Nowhere),
            // A block that is not there any more means that the bucket has changed.
            _ => Err(Shut::Unsettled),
        }
    }

    /// All of a bucket.
    #[inline(always)]
    fn bucket(&self, shape: &Shape) -> Result<Span<'a>, Shut> {
        // Of two numbers so short it is known that their sum is one.
        Ok(self.words.span(u64::from(self.at as u32), shape.object_bytes as u32 as usize)?)
    }

    /// Opens a bucket, and asks the CPU for the slot that probably holds the key, which [`Likely::take`] is for, some
    /// time later; `None` if there is no such slot.
    #[inline(always)]
    pub(super) fn seek<const WORDS: usize>(
        &self,
        shape: &Shape,
        tag: u8,
    ) -> Result<Option<Likely<'a>>, Shut> {
        let span = self.bucket(shape)?;
        let words: [u64; WORDS] = span.first().ok_or(Shut::Nowhere)?;
        let word = self.open(&words)?;
        let tagged = Tagged::in_words::<WORDS, HEAD_BYTES>(&words, shape.slots, tag);
        let Some(slot) = tagged.first() else { return Ok(None) };
        let likely = likely::<WORDS, HEAD_BYTES>(span, &words, word, slot, (shape.slots, shape.slot_bytes));
        span.prefetch(likely.from, shape.slot_bytes);
        Ok(Some(likely))
    }

    /// Looks for a key in `slots` slots.
    #[inline(always)]
    fn look_at<const WORDS: usize, const START: usize>(
        &self,
        slots: usize,
        shape: &Shape,
        key: &Key<'_>,
        found: &mut Found,
    ) -> Result<Bucket, Shut> {
        let (span, words) = match START {
            HEAD_BYTES => {
                let span = self.bucket(shape)?;
                (span, span.first().ok_or(Shut::Nowhere)?)
            }
            _ => self.block::<WORDS>(slots, shape)?,
        };
        let word = self.open(&words)?;
        for slot in Tagged::in_words::<WORDS, START>(&words, slots, tag(key.hash)) {
            let likely = likely::<WORDS, START>(span, &words, word, slot, (slots, shape.slot_bytes));
            match likely.take(self.address(), (key.bytes, shape.slot_bytes), || key.hash, found)? {
                Taken::Found { .. } => return Ok(Bucket::Found),
                Taken::Outside(pointer) => return Ok(Bucket::Outside(pointer)),
                Taken::Other => {}
            }
        }
        still(&span, word)?;
        // An overflow block has neither.
        let (joints, rest) = match START {
            HEAD_BYTES => (words[HEADER_BYTES / WORD_BYTES], words[HEADER_BYTES / WORD_BYTES + 1]),
            _ => (0, 0),
        };
        Ok(Bucket::Not {
            back: joints as u16,
            forward: (joints >> 16) as u16,
            chain: bucket::Chain::from_bits(joints >> 32 | rest << 32),
        })
    }

    /// An overflow block, and its header and control words. It may be the last thing in its region, so that no
    /// more than that is read.
    fn block<const WORDS: usize>(
        &self,
        slots: usize,
        shape: &Shape,
    ) -> Result<(Span<'a>, [u64; WORDS]), Shut> {
        let span = self.words.span(self.at, HEADER_BYTES + shape.chain_bytes(slots))?;
        let mut words = [0; WORDS];
        let all = ((HEADER_BYTES + slots_at(0, slots)) / WORD_BYTES).clamp(1, WORDS);
        // SYNC: Acquire, as in `Span::first`: the version comes first.
        words[0] = span.word(0, Ordering::Acquire).ok_or(Shut::Nowhere)?;
        self.words.load_words(self.at + WORD_BYTES as u64, &mut words[1..all])?;
        Ok((span, words))
    }

    /// Judges the first words of an object, its header; gives the version.
    #[inline(always)]
    fn open(&self, words: &[u64]) -> Result<VersionWord, Shut> {
        let header = Header::from_words(words[0], words[1]);
        if !header.allocated || header.incarnation != self.incarnation {
            return Err(Shut::Stale);
        }
        if header.word.mode() == LockMode::Exclusive {
            return Err(Shut::Unsettled);
        }
        Ok(header.word.prepared())
    }
}

impl Likely<'_> {
    /// Takes the slot's entry if it is the key's and nothing has changed since the object, which is at `address`, was
    /// opened.
    #[inline(always)]
    pub(super) fn take(
        &self,
        address: Address,
        (key, slot_bytes): (&[u8], usize),
        hash: impl FnOnce() -> u64,
        found: &mut Found,
    ) -> Result<Taken, Shut> {
        if !self.control.is_plain_of(key.len()) {
            return self.take_unusual(address, (key, slot_bytes), hash(), found);
        }
        let value_bytes = self.control.value_bytes();
        // Words of two versions may say anything.
        if key.len() + value_bytes > slot_bytes {
            return Ok(Taken::Other);
        }
        let Some(value) = self.span.behind(self.from, key, value_bytes) else { return Ok(Taken::Other) };
        value.load(&mut found.value);
        still(&self.span, self.word)?;
        found.expires = 0;
        found.version = entry_version(address, self.word.version(), self.control);
        Ok(Taken::Found { timed: false })
    }

    /// The same of an entry that expires, one that lies outside, or another key's.
    #[inline(never)]
    fn take_unusual(
        &self,
        address: Address,
        (key, slot_bytes): (&[u8], usize),
        hash: u64,
        found: &mut Found,
    ) -> Result<Taken, Shut> {
        let Self { span, word, from, control } = self;
        if control.slot_bytes() > slot_bytes {
            return Ok(Taken::Other);
        }
        if control.is_outside() {
            return self.take_outside(hash);
        }
        if control.key_bytes() != key.len() {
            return Ok(Taken::Other);
        }
        let Some(value) = span.behind(from + control.key_at() as u32, key, control.value_bytes()) else {
            return Ok(Taken::Other);
        };
        value.load(&mut found.value);
        found.expires = match control.has_expiry() {
            // ORDER: Relaxed: the look at the version below orders it.
            true => span.word(*from, Ordering::Relaxed).ok_or(Shut::Nowhere)?,
            false => 0,
        };
        still(span, *word)?;
        found.version = entry_version(address, word.version(), *control);
        Ok(Taken::Found { timed: found.expires != 0 })
    }

    /// The same of an entry that lies outside.
    #[inline(never)]
    fn take_outside(&self, wanted: u64) -> Result<Taken, Shut> {
        let mut slot = [0; OUTSIDE_SLOT_BYTES];
        let Some(()) = self.span.load(self.from, &mut slot) else { return Ok(Taken::Other) };
        match Entry::parse(self.control, &slot) {
            Some(Entry::Outside { pointer, hash }) if hash == wanted => {
                still(&self.span, self.word)?;
                Ok(Taken::Outside(pointer))
            }
            _ => Ok(Taken::Other),
        }
    }
}

/// Whether everything that was read since the object was opened is of that version.
#[inline(always)]
fn still(span: &Span<'_>, opened: VersionWord) -> Result<(), Shut> {
    // SYNC: Acquire, pairs with the Release fence after an object is closed: whoever saw a new byte
    // sees, when it looks at the version again, that it is closed or newer.
    fence(Ordering::Acquire);
    // ORDER: Relaxed: the fence orders it.
    let after = VersionWord(span.word(0, Ordering::Relaxed).ok_or(Shut::Nowhere)?);
    match after.prepared() == opened {
        true => Ok(()),
        false if planted("bucket_not_looked_at_again") => Ok(()),
        false => Err(Shut::Unsettled),
    }
}

/// A slot, of so many of such a length, whose tag is right.
#[inline(always)]
fn likely<'a, const WORDS: usize, const START: usize>(
    span: Span<'a>,
    words: &[u64; WORDS],
    word: VersionWord,
    slot: usize,
    (slots, slot_bytes): (usize, usize),
) -> Likely<'a> {
    let from = (HEADER_BYTES + slots_at(START, slots) + slot * slot_bytes) as u32;
    Likely { span, word, from, control: tagged::control::<WORDS, START>(words, slot) }
}

/// The control word of a slot, out of the words of an object.
#[inline(always)]
pub(super) fn control<const START: usize>(words: &[u64], slot: u32) -> Control {
    let at = HEADER_BYTES + START + slot as usize * CONTROL_BYTES;
    Control((words[at / WORD_BYTES] >> (at % WORD_BYTES * 8)) as u32)
}
