//! Looks many keys up where they are, in memory that is mapped here, so that their cache misses overlap: the
//! client's way over shm, and the node's own.

use super::in_place::{FEW_SLOTS, FEW_WORDS, Likely, MORE_WORDS, Place};
use super::shape::Shape;
use crate::key::{Found, Key, Looked};

/// Keys that are looked up together: as many as keep the memory busy, and few enough to stay in the
/// nearest cache.
pub(super) const GROUP: usize = 32;

/// Keys to be looked up, and where their buckets are.
pub(super) trait Sought<'m> {
    /// What is known of a key's bucket before its memory is looked at.
    type Aim: Copy + Default;
    /// Why nothing can be looked up at all.
    type Error;

    /// The key at a place.
    fn key(&self, at: usize) -> Key<'_>;

    /// Asks the CPU for the head of a key's bucket. Of one key after another with little between: a prefetch stays
    /// until its page is known, and what the CPU sees ahead is some 500 instructions, so that page walks
    /// overlap only if several prefetches are among those.
    fn aim(&self, key: &Key<'_>) -> Self::Aim;

    /// The bucket; nothing where there is none.
    fn place(&self, aim: Self::Aim) -> Result<Option<Place<'m>>, Self::Error>;

    /// That there is no such memory.
    fn nowhere(&self) -> Self::Error;
}

/// Looks keys up, group by group: as many as there are places for what is found. A key that has no bucket is
/// [`Looked::Stale`]. Fails if there is no such memory.
#[inline]
pub(super) fn look<'m, S: Sought<'m>>(
    shape: &Shape,
    sought: &S,
    found: &mut [Found],
    looked: &mut [Looked],
) -> Result<(), S::Error> {
    for (group, (found, looked)) in found.chunks_mut(GROUP).zip(looked.chunks_mut(GROUP)).enumerate() {
        let first = group * GROUP;
        match shape.slots <= FEW_SLOTS {
            true => look_group::<FEW_WORDS, S>(shape, sought, first, found, looked)?,
            false => look_group::<MORE_WORDS, S>(shape, sought, first, found, looked)?,
        }
    }
    Ok(())
}

/// Looks up to [`GROUP`] keys up, those from `first` on, step by step: all buckets are asked for, then all are
/// opened and their slots asked for, then all are taken.
#[inline]
fn look_group<'m, const WORDS: usize, S: Sought<'m>>(
    shape: &Shape,
    sought: &S,
    first: usize,
    found: &mut [Found],
    looked: &mut [Looked],
) -> Result<(), S::Error> {
    // By number, not side by side: each of the loops is short, and begins often.
    let count = found.len().min(looked.len()).min(GROUP);
    let mut keys = [Key { bytes: &[], hash: 0 }; GROUP];
    let mut aims = [S::Aim::default(); GROUP];
    for at in 0..count {
        keys[at] = sought.key(first + at);
        aims[at] = sought.aim(&keys[at]);
    }
    let mut places: [Option<Place<'_>>; GROUP] = [None; GROUP];
    // A bit for each key: whether it is looked for in the bucket after its home.
    let mut next = 0u64;
    let mut likely = [Likely::default(); GROUP];
    for at in 0..count {
        let Some(home) = sought.place(aims[at])? else { continue };
        match home.seek::<WORDS>(shape, &keys[at]) {
            Ok(Some(there)) => {
                likely[at] = there;
                places[at] = Some(home);
            }
            Ok(None) => {
                let after = home.next(shape);
                after.prefetch(shape);
                places[at] = Some(after);
                next |= 1 << at;
            }
            // It is not known to be anywhere.
            Err(_) => places[at] = Some(home),
        }
    }
    let mut left = next;
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        let Some(place) = &places[at] else { continue };
        match place.seek::<WORDS>(shape, &keys[at]) {
            Ok(Some(there)) => likely[at] = there,
            // Then it is in its home's overflow block, or nowhere.
            _ => place.previous(shape).prefetch_chain(shape),
        }
    }
    for at in 0..count {
        let Some(place) = &places[at] else {
            looked[at] = Looked::Stale;
            continue;
        };
        let (key, found) = (&keys[at], &mut found[at]);
        if likely[at].is_somewhere() && place.take_likely(likely[at], shape, key, found) == Ok(true) {
            looked[at] = Looked::Found;
            continue;
        }
        // In neither of the two at first sight, or a writer was there: the rules decide.
        let home = if next >> at & 1 == 1 { place.previous(shape) } else { *place };
        match home.look_around(shape, key, found) {
            Ok(told) => looked[at] = told,
            Err(_) => return Err(sought.nowhere()),
        }
    }
    Ok(())
}
