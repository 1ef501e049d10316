//! The cases, by what they are about. The list is in [`super::CASES`].

pub(super) mod batches;
pub(super) mod bounds;
pub(super) mod calls;
pub(super) mod death;
pub(super) mod deferred;
pub(super) mod grants;
pub(super) mod messages;
pub(super) mod operations;
pub(super) mod pressure;
pub(super) mod racing;
pub(super) mod regions;
pub(super) mod rights;
