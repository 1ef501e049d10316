//! Registered memory: what is allocated, which pages back it, who may reach it.
//!
//! A [`Region`] is a memory file (memfd) that its owner maps writable and others map as they
//! were granted. What always holds:
//! - a region's file can be neither shrunk nor grown (sealed), so that no reader is ever
//!   faulted, and its pages are there from the start;
//! - a region whose owner grants nobody the right to change it is sealed against every new
//!   writable mapping (`F_SEAL_FUTURE_WRITE`), even by a process that holds the descriptor;
//! - bytes are reached through [`Words`] only.

#[cfg(not(loom))]
pub mod bare;
mod checked;
pub mod journal;
#[cfg(not(loom))]
pub(crate) mod mapping;
mod rights;
#[cfg(not(loom))]
mod socket;
mod span;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod vector;
pub mod versioned;
mod whereabouts;
mod words;

pub use rights::Rights;
pub use span::{Rest, Span};
pub use whereabouts::Whereabouts;
pub(crate) use words::Word;
pub use words::{AccessError, AtomicU64, Ordering, Words, fence};

#[cfg(not(loom))]
pub use allocate::{MapError, Pages, Region, RegionError, RegionOptions, map_shared};
#[cfg(not(loom))]
pub use mapping::PrivateMemory;

#[cfg(not(loom))]
mod allocate;
