//! What an operation needs the state to be, and what it makes of it.
//!
//! The state is the number of a value, see [`super::prepare::Names`], or [`NOTHING`].

use super::operation::{Call, Outcome};

/// The state of a key that is not there.
pub(super) const NOTHING: u32 = 0;
/// A value that nobody ever writes.
pub(super) const NEVER: u32 = u32::MAX;

/// What the state has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requires {
    Anything,
    Nothing,
    Something,
    Is(u32),
    /// Nothing, or another value.
    Not(u32),
    /// Another value.
    OtherThan(u32),
}

/// What becomes of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Keep,
    Set(u32),
    Clear,
}

impl Requires {
    #[inline]
    pub(super) fn holds(self, state: u32) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => state == NOTHING,
            Self::Something => state != NOTHING,
            Self::Is(value) => state == value,
            Self::Not(value) => state != value,
            Self::OtherThan(value) => state != value && state != NOTHING,
        }
    }

    /// The value that it names.
    pub(super) fn value(self) -> Option<u32> {
        match self {
            Self::Is(value) | Self::Not(value) | Self::OtherThan(value) => Some(value),
            Self::Anything | Self::Nothing | Self::Something => None,
        }
    }
}

/// What a call with an outcome means; nothing if it says nothing. `number` finds a value's number,
/// `expected` the number of what the call compares with.
pub(super) fn meaning(
    call: &Call,
    outcome: &Outcome,
    number: impl Fn(u64) -> u32,
    expected: u32,
) -> Option<(Requires, Effect)> {
    let done = matches!(outcome, Outcome::Done { .. } | Outcome::Unknown);
    let refused = |absent: Requires, different: Requires, either: Requires| match outcome {
        Outcome::Absent => absent,
        Outcome::Different => different,
        _ => either,
    };
    let compared = || refused(Requires::Nothing, Requires::OtherThan(expected), Requires::Not(expected));
    Some(match (*call, *outcome) {
        (Call::Get, Outcome::Found { value, .. }) => (Requires::Is(number(value)), Effect::Keep),
        (Call::Get, Outcome::Absent) => (Requires::Nothing, Effect::Keep),
        (Call::Get, _) => return None,
        (Call::Put(value), _) => (Requires::Anything, Effect::Set(number(value))),
        (Call::Insert(value), _) if done => (Requires::Nothing, Effect::Set(number(value))),
        (Call::Insert(_), _) => (Requires::Something, Effect::Keep),
        (Call::Delete, _) if done => (Requires::Something, Effect::Clear),
        (Call::Delete, _) => (Requires::Nothing, Effect::Keep),
        (Call::DeleteIf(_), _) if done => (Requires::Is(expected), Effect::Clear),
        (Call::Swap { new, .. }, _) if done => (Requires::Is(expected), Effect::Set(number(new))),
        (Call::DeleteIf(_) | Call::Swap { .. }, _) => (compared(), Effect::Keep),
    })
}
