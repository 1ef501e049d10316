//! Roots at hand: those that a thread used last, so that its next lookup takes no lock for them.
//!
//! What always holds: what is at hand has a mark, and no two roots that were ever learned have the same. A
//! shard says which mark its newest roots have: others are not used. So what is at hand is what the lock
//! would have given.

use super::roots::Roots;
use barn_layout::planted;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Roots that a thread has at hand; which of them, follows from the mark.
const AT_HAND: usize = 4;

/// The mark of a shard of which nothing is known.
pub(super) const UNKNOWN: u64 = 0;

/// Roots of a shard, as they were learned.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) mark: u64,
    /// The session in which they were learned. In another they are worth nothing: the node may have been
    /// started again, and its memory have another shape.
    pub(super) session: u64,
    pub(super) roots: Arc<Roots>,
}

thread_local! {
    static KEPT: RefCell<[Option<Known>; AT_HAND]> = const { RefCell::new([const { None }; AT_HAND]) };
}

impl Known {
    /// Roots that were just learned.
    pub(super) fn new(session: u64, roots: Arc<Roots>) -> Self {
        static MARKS: AtomicU64 = AtomicU64::new(UNKNOWN + 1);
        // ORDER: Relaxed: a number that nobody else has, and nothing more.
        Self { mark: MARKS.fetch_add(1, Ordering::Relaxed), session, roots }
    }

    /// Whether they are of use in a session.
    #[inline]
    pub(super) fn serves(&self, session: u64) -> bool {
        self.session == session || planted("roots_outlive_sessions")
    }

    /// Runs `look` with the roots of this mark: those at hand, or what `fetch` gives, which are then at hand.
    ///
    /// `look` stands here once, so that it becomes part of its caller: what it is given, a key among others,
    /// stays in registers, and need not be read again from where it was put a moment ago.
    #[inline(always)]
    pub(super) fn with<T>(
        mark: u64,
        fetch: impl FnOnce() -> Option<Self>,
        look: impl FnOnce(&Self) -> Option<T>,
    ) -> Option<T> {
        // A thread that ends has nothing at hand.
        let looked = KEPT.try_with(|kept| {
            let mut kept = kept.try_borrow_mut();
            let fetched;
            let known = match &mut kept {
                Ok(kept) => match &kept[mark as usize % AT_HAND] {
                    Some(known) if known.mark == mark => known,
                    _ => {
                        fetched = fetch()?;
                        match fetched.keep(kept) {
                            Some(known) => known,
                            None => &fetched,
                        }
                    }
                },
                // A look within a look leaves things as they are.
                Err(_) => {
                    fetched = fetch()?;
                    &fetched
                }
            };
            look(known)
        });
        looked.ok().flatten()
    }

    /// Has them at hand, instead of others, unless they are too long for that.
    #[cold]
    fn keep<'k>(&self, kept: &'k mut [Option<Self>; AT_HAND]) -> Option<&'k Self> {
        let place = &mut kept[self.mark as usize % AT_HAND];
        *place = self.roots.is_small().then(|| self.clone());
        place.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Part;
    use crate::options::{Kind, TableOptions};
    use std::cell::Cell;

    /// Some roots: which ones does not matter.
    fn roots() -> Arc<Roots> {
        let options = TableOptions { kind: Kind::Hopscotch, capacity: 10, ..TableOptions::default() };
        // One segment, which is nowhere yet: base, depth, first, count, and the segment's 16 bytes.
        let mut bytes: Vec<u8> = [1u32, 0, 0, 1].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&[0; 16]);
        Arc::new(Roots::parse(&bytes, &options, Part { table: 1, shard: 0, shards: 1 }).unwrap())
    }

    #[test]
    fn roots_are_fetched_once_and_again_when_others_were_learned() {
        let (first, second) = (Known::new(7, roots()), Known::new(8, roots()));
        let fetched = Cell::new(0);
        let session_of = |known: &Known| {
            let fetch = || {
                fetched.set(fetched.get() + 1);
                Some(known.clone())
            };
            Known::with(known.mark, fetch, |known| Some(known.session))
        };
        assert_eq!([&first, &first, &second, &second, &first].map(session_of), [7, 7, 8, 8, 7].map(Some));
        assert_eq!(fetched.get(), 2, "both are at hand");
        // As many others come between as there is room for.
        let others: Vec<Known> = (0..AT_HAND as u64).map(|_| Known::new(9, roots())).collect();
        assert!(others.iter().all(|known| session_of(known) == Some(9)));
        assert_eq!(session_of(&first), Some(7));
        assert_eq!(fetched.get(), 3 + AT_HAND);
        assert_eq!(Known::with(UNKNOWN, || None, |known| Some(known.session)), None);
    }

    #[test]
    fn a_look_within_a_look_is_answered_too() {
        let (outer, inner) = (Known::new(1, roots()), Known::new(2, roots()));
        let within = |_: &Known| Known::with(inner.mark, || Some(inner.clone()), |known| Some(known.session));
        assert_eq!(Known::with(outer.mark, || Some(outer.clone()), within), Some(2));
    }

    #[test]
    fn roots_serve_the_session_in_which_they_were_learned() {
        let known = Known::new(3, roots());
        assert!(known.serves(3) && !known.serves(4));
    }
}
