//! Namespaces of raw bytes over the memory of many nodes, after RStore (its sections III and V-A).
//!
//! A *space* is a flat 64-bit address space. `reserve` prepares memory on the nodes, `alloc` binds
//! chunks of it to a range of addresses that everybody can see, `map` makes them reachable from
//! here, and `read` and `write` move bytes one-sidedly: they ask nobody and allocate nothing.
//!
//! What always holds: the master alone says which chunk belongs to what; a chunk belongs to one range
//! at most; nobody reaches a chunk without a pass that the master made out for it.
#![forbid(unsafe_code)]

pub mod barrier;
mod bell;
pub mod client;
pub mod keeper;
pub mod master;
pub mod message;
pub mod pass;
pub mod slice;
pub mod wire;
