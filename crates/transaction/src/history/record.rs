//! One transaction as its client saw it.

/// An object, as histories name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The bits of its address.
    pub address: u64,
    /// How often that place had been freed when it was created.
    pub incarnation: u32,
}

/// What the client was told in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Committed,
    /// It did not happen.
    Aborted,
    /// Nothing: the client died, or the call's outcome was indeterminate.
    Unknown,
}

/// How a transaction changed an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// New bytes.
    Update,
    /// It was not there before.
    Create,
    /// It is not there any more.
    Free,
}

/// A change of one object. A transaction changes an object at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// What was changed.
    pub object: ObjectKey,
    /// How.
    pub kind: WriteKind,
    /// The version that the change was based on; means nothing for [`WriteKind::Create`].
    pub before: u64,
    /// The version installed: `before + 1`, or the first one of a created object.
    pub after: u64,
}

/// One transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who ran it.
    pub client: u32,
    /// The client's own number for it.
    pub number: u64,
    /// When it began: nanoseconds of a clock that all clients share.
    pub start: u64,
    /// When its client was told the outcome; `u64::MAX` if never.
    pub end: u64,
    /// What the client was told.
    pub outcome: Outcome,
    /// Objects read, each with the version seen.
    pub reads: Vec<(ObjectKey, u64)>,
    /// Objects changed.
    pub writes: Vec<Write>,
}
