//! Looks many keys up where they are, in memory that is mapped here, so that their cache misses overlap: the
//! client's way over shm, and the node's own.
//!
//! A key is looked up in some 350 instructions, nearly as quickly as the memory brings its lines: each of them counts.
//! So what is known of a key goes from step to step in the fewest words, regions are told apart once for all keys of a
//! group, and what few keys need (a second bucket, a time) is done apart from the others.

use super::bucket::tag;
use super::directory::Segment;
use super::in_place::{FEW_SLOTS, FEW_WORDS, Likely, MORE_WORDS, Place, Taken};
use super::shape::Shape;
use crate::hash::hash;
use crate::key::{Found, Key, Looked};
use barn_fabric::Words;
use barn_layout::{Address, RegionId};

/// Keys that are looked up together: as many as keep the memory busy, and few enough to stay in the
/// nearest cache.
pub(super) const GROUP: usize = 32;

/// Regions of one group that are told apart by the last bits of their numbers.
const MET: usize = 8;

/// Where keys are looked for.
pub(super) trait Sought<'m> {
    /// Why nothing can be looked up at all.
    type Error;

    /// The segment of a hash, if it is known.
    fn segment(&self, hash: u64) -> Option<&Segment>;

    /// A region, if it is mapped.
    fn words(&self, region: RegionId) -> Option<&'m Words>;

    /// That a region is not mapped, if that means that nothing can be looked up at all; or, of no region, that there
    /// is no such memory.
    fn unreadable(&self, region: Option<RegionId>) -> Result<(), Self::Error>;
}

/// A key that is looked up.
pub(crate) trait Wanted {
    /// The key.
    fn bytes(&self) -> &[u8];

    /// Its hash, in a table with this seed.
    fn hash(&self, seed: u64) -> u64;
}

impl Wanted for Key<'_> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    #[inline(always)]
    fn hash(&self, _: u64) -> u64 {
        self.hash
    }
}

/// Hashed when its turn comes, while those before it are on their way.
impl Wanted for &[u8] {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self
    }

    #[inline(always)]
    fn hash(&self, seed: u64) -> u64 {
        hash(seed, self)
    }
}

/// What became of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// So many were found.
    pub(crate) found: u64,
    /// So many are not there.
    pub(crate) absent: u64,
    /// Whether one that was found expires some time.
    pub(crate) timed: bool,
}

/// Where a key's bucket is.
#[derive(Clone, Copy)]
struct Spot<'m> {
    words: Option<&'m Words>,
    address: Address,
    incarnation: u32,
    tag: u8,
}

impl<'m> Spot<'m> {
    const NOWHERE: Self = Spot { words: None, address: Address::from_bits(0), incarnation: 0, tag: 0 };

    #[inline(always)]
    fn place(&self) -> Option<Place<'m>> {
        Some(Place::at(self.words?, self.address, self.incarnation))
    }
}

/// Regions that were met, by the last bits of their numbers.
struct Met<'m>([(RegionId, Option<&'m Words>); MET]);

impl<'m> Met<'m> {
    fn new() -> Self {
        Self([(RegionId(0), None); MET])
    }

    #[inline(always)]
    fn words(&mut self, region: RegionId, sought: &impl Sought<'m>) -> Option<&'m Words> {
        match self.0[region.0 as usize % MET] {
            (known, words) if known == region => words,
            _ => self.meet(region, sought),
        }
    }

    #[inline(never)]
    fn meet(&mut self, region: RegionId, sought: &impl Sought<'m>) -> Option<&'m Words> {
        let words = sought.words(region);
        self.0[region.0 as usize % MET] = (region, words);
        words
    }
}

/// Looks keys of a table with this seed up, group by group: as many as there are places for what is found. A key that
/// has no bucket is [`Looked::Stale`]. Fails if there is no such memory.
#[inline]
pub(super) fn look<'m, S: Sought<'m>, W: Wanted>(
    shape: &Shape,
    sought: &S,
    (seed, keys): (u64, &[W]),
    found: &mut [Found],
    looked: &mut [Looked],
) -> Result<Told, S::Error> {
    let mut told = Told::default();
    let places = found.chunks_mut(GROUP).zip(looked.chunks_mut(GROUP));
    for (keys, places) in keys.chunks(GROUP).zip(places) {
        match shape.slots <= FEW_SLOTS {
            true => look_group::<FEW_WORDS, S, W>(shape, sought, (seed, keys), places, &mut told)?,
            false => look_group::<MORE_WORDS, S, W>(shape, sought, (seed, keys), places, &mut told)?,
        }
    }
    Ok(told)
}

/// Looks up to [`GROUP`] keys up, step by step: all buckets are asked for, then all are opened and their slots asked
/// for, then all are taken.
#[inline]
fn look_group<'m, const WORDS: usize, S: Sought<'m>, W: Wanted>(
    shape: &Shape,
    sought: &S,
    (seed, keys): (u64, &[W]),
    (found, looked): (&mut [Found], &mut [Looked]),
    told: &mut Told,
) -> Result<(), S::Error> {
    // By number, not side by side: each of the loops is short, and begins often.
    let count = keys.len().min(found.len()).min(looked.len()).min(GROUP);
    let (keys, found, looked) = (&keys[..count], &mut found[..count], &mut looked[..count]);
    let mut spots = [Spot::NOWHERE; GROUP];
    let mut met = Met::new();
    // One prefetch after another with little between: each stays until its page is known, and what the CPU sees ahead
    // is some 500 instructions, so that page walks overlap only if several prefetches are among those.
    for at in 0..count {
        let hash = keys[at].hash(seed);
        let Some(segment) = sought.segment(hash) else { continue };
        let address = segment.address_of(shape.home(hash, segment.seed), shape);
        let words = met.words(segment.address.region(), sought);
        if let Some(words) = words {
            words.whereabouts().prefetch_head(u64::from(address.offset()));
        }
        spots[at] = Spot { words, address, incarnation: segment.incarnation, tag: tag(hash) };
    }
    // A bit for each key: whether it is looked for in the bucket after its home.
    let mut next = 0u64;
    let mut likely: [Option<Likely<'_>>; GROUP] = [None; GROUP];
    for at in 0..count {
        let spot = &mut spots[at];
        let Some(home) = spot.place() else { continue };
        match home.seek::<WORDS>(shape, spot.tag) {
            Ok(Some(there)) => likely[at] = Some(there),
            Ok(None) => {
                let after = home.next(shape);
                after.prefetch(shape);
                spot.address = after.address();
                next |= 1 << at;
            }
            // It is not known to be anywhere.
            Err(_) => {}
        }
    }
    let mut left = next;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        let Some(place) = spots[at].place() else { continue };
        match place.seek::<WORDS>(shape, spots[at].tag) {
            Ok(Some(there)) => likely[at] = Some(there),
            // Then it is in its home's overflow block, or nowhere.
            _ => place.previous(shape).prefetch_chain(shape),
        }
    }
    for at in 0..count {
        let (key, found) = (&keys[at], &mut found[at]);
        if let Some(likely) = &likely[at]
            && let Ok(Taken::Found { timed }) =
                likely.take(spots[at].address, (key.bytes(), shape.slot_bytes), || key.hash(seed), found)
        {
            looked[at] = Looked::Found;
            told.found += 1;
            told.timed |= timed;
            continue;
        }
        // In neither of the two at first sight, or a writer was there: the rules decide.
        let spot = &spots[at];
        let Some(place) = spot.place() else {
            let region = spot.address.region();
            if region.0 != 0 {
                sought.unreadable(Some(region))?;
            }
            looked[at] = Looked::Stale;
            continue;
        };
        let home = if next >> at & 1 == 1 { place.previous(shape) } else { place };
        let key = Key { bytes: key.bytes(), hash: key.hash(seed) };
        let Ok(there) = home.look_around(shape, &key, found) else { return sought.unreadable(None) };
        looked[at] = there;
        told.found += u64::from(there == Looked::Found);
        told.absent += u64::from(there == Looked::Absent);
        told.timed |= there == Looked::Found && found.expires != 0;
    }
    Ok(())
}
