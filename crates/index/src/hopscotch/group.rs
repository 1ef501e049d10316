//! Looks many keys up where they are, in memory that is mapped here, so that their cache misses overlap: the
//! client's way over shm, and the node's own.

use super::in_place::{FEW_SLOTS, FEW_WORDS, Likely, MORE_WORDS, Place};
use super::shape::Shape;
use crate::key::{Found, Key, Looked};

/// Keys that are looked up together: as many as keep the memory busy, and few enough to stay in the
/// nearest cache.
pub(super) const GROUP: usize = 32;

/// Looks keys up, group by group. `home` gives a key's bucket, or nothing where there is none: then it is
/// [`Looked::Stale`]. Fails as `home` does, or with `nowhere` if there is no such memory.
#[inline]
pub(super) fn look<'m, E: Copy>(
    shape: &Shape,
    mut home: impl FnMut(&Key<'_>) -> Result<Option<Place<'m>>, E>,
    nowhere: E,
    keys: &[Key<'_>],
    found: &mut [Found],
    looked: &mut [Looked],
) -> Result<(), E> {
    let groups = keys.chunks(GROUP).zip(found.chunks_mut(GROUP)).zip(looked.chunks_mut(GROUP));
    for ((keys, found), looked) in groups {
        match shape.slots <= FEW_SLOTS {
            true => look_group::<FEW_WORDS, E>(shape, &mut home, nowhere, keys, found, looked)?,
            false => look_group::<MORE_WORDS, E>(shape, &mut home, nowhere, keys, found, looked)?,
        }
    }
    Ok(())
}

/// Looks up to [`GROUP`] keys up, step by step: all buckets are asked for, then all are opened and
/// their slots asked for, then all are taken.
#[inline]
fn look_group<'m, const WORDS: usize, E>(
    shape: &Shape,
    home: &mut impl FnMut(&Key<'_>) -> Result<Option<Place<'m>>, E>,
    nowhere: E,
    keys: &[Key<'_>],
    found: &mut [Found],
    looked: &mut [Looked],
) -> Result<(), E> {
    // By number, not side by side: each of the loops is short, and begins often.
    let count = keys.len().min(GROUP).min(found.len()).min(looked.len());
    let mut places: [Option<Place<'_>>; GROUP] = [None; GROUP];
    for at in 0..count {
        if let Some(home) = home(&keys[at])? {
            home.prefetch(shape);
            places[at] = Some(home);
        }
    }
    // A bit for each key: whether it is looked for in the bucket after its home.
    let mut next = 0u64;
    let mut likely = [Likely::default(); GROUP];
    for at in 0..count {
        let Some(home) = &mut places[at] else { continue };
        match home.seek::<WORDS>(shape, keys[at]) {
            Ok(Some(there)) => likely[at] = there,
            Ok(None) => {
                *home = home.next(shape);
                home.prefetch(shape);
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
        let Some(place) = &places[at] else { continue };
        match place.seek::<WORDS>(shape, keys[at]) {
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
        match home.look_around(shape, *key, found) {
            Ok(told) => looked[at] = told,
            Err(_) => return Err(nowhere),
        }
    }
    Ok(())
}
