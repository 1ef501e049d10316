//! The rules by which everybody decides alike, apart from whoever sends the messages: so that the
//! models check the very rules that clients and resolvers follow.

use barn_layout::object::{LockMode, VersionWord};
use barn_layout::planted;
use barn_layout::transaction::State;

/// What a reader of an object tolerates of those who are about to change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It may be locked by somebody who has not changed it yet.
    MayBePrepared,
    /// It must not be locked at all.
    MustBeFree,
}

/// Whether a version word is still that of the version which was read.
#[inline]
pub fn is_unchanged(word: VersionWord, version: u64, lock: Lock) -> bool {
    let free = match lock {
        Lock::MayBePrepared => word.mode() != LockMode::Exclusive,
        Lock::MustBeFree => word.mode() == LockMode::Free || planted("validation_ignores_locks"),
    };
    word.version() == version && free
}

/// Whether a transaction whose client is lost is carried out, by what the nodes that could be asked
/// said when they froze it:
///
/// 1. somebody has settled it already: so do all;
/// 2. somebody has decided: it is carried out, for its client may have been told so;
/// 3. otherwise it is not: some node had not decided, so nobody was told.
pub fn is_carried_out(states: impl IntoIterator<Item = State>) -> bool {
    let (mut committed, mut aborted, mut decided) = (false, false, false);
    for state in states {
        match state {
            State::Committed => committed = true,
            State::Aborted => aborted = true,
            State::Decided => decided = true,
            State::Prepared | State::Unknown => {}
        }
    }
    if planted("recovery_aborts_decided") {
        decided &= committed;
    }
    committed || decided && !aborted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_has_decided_is_enough_and_what_is_settled_stays_so() {
        use State::{Aborted, Committed, Decided, Prepared, Unknown};
        for (states, carried_out) in [
            ([Prepared, Prepared], false),
            ([Prepared, Unknown], false),
            ([Prepared, Decided], true),
            ([Decided, Aborted], false),
            ([Prepared, Committed], true),
            ([Committed, Decided], true),
        ] {
            assert_eq!(is_carried_out(states), carried_out, "{states:?}");
        }
    }
}
