//! Turns registered regions into allocated, versioned objects.
//!
//! [`Heap`] is the owner's side: one thread of a node changes its memory. [`object`] is everybody's:
//! how bytes that a READ brought are judged. FaRM sections 3.2 to 3.5.
//!
//! What always holds:
//! - a slot is one object's at most, and every byte is accounted for under one purpose;
//! - a slot keeps its size until every reader has left the epoch in which its run of blocks became
//!   empty, so that a header is always where an old pointer looks for it;
//! - at one place neither version nor incarnation ever goes back, whatever the place was used for.
//!
//! This crate never sends anything, and never knows who holds a lock or why.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
mod bitmap;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod heap;
pub mod object;
#[cfg(not(loom))]
pub mod size_class;
#[cfg(not(loom))]
mod usage;

#[cfg(not(loom))]
pub use {
    barn_layout::heap::Purpose,
    error::{AllocError, HeapError, ObjectError},
    heap::{Heap, HeapOptions, Image, Interrupted, Raw, RegionScan, Reserved, ReservedArray, used_ranges},
    object::{HEADER_BYTES, Header, OBJECT_BYTES_MAX, Seen, View, inspect},
    usage::{PurposeUsage, Usage},
};
