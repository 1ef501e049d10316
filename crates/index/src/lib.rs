//! Finds objects by key: tables of four designs behind one interface.
//!
//! - [`hopscotch`]: FaRM's chained associative hopscotch hashing, of heap objects; takes part in
//!   transactions;
//! - [`cuckoo`]: Pilaf's self-verifying 3-way cuckoo table;
//! - [`cache`]: HERD's bounded, lossy cache;
//! - [`tree`]: Cell's B-link tree, whose keys are in order.
//!
//! A table is divided into *shards*, each held by one node. The node's side of all of them is
//! [`node::Tables`]: it alone changes a shard, on its poll loop. A client's side is [`client`]: it
//! reads the memory for itself, or asks the node, or lets [`selector`] choose. Whether all that behaves
//! as one table would is what [`linearizable`] judges.
#![forbid(unsafe_code)]

pub mod cache;
pub mod client;
pub mod cuckoo;
mod error;
mod hash;
pub mod hopscotch;
mod key;
pub mod linearizable;
pub mod node;
mod objects;
mod options;
mod outside;
#[cfg(test)]
#[path = "../../heap/src/heap/tests/replay.rs"]
mod replay;
#[cfg(feature = "scenarios")]
pub mod scenario;
pub mod selector;
pub mod tree;
pub mod wire;

pub use barn_layout::table::Durability;
pub use client::{
    Answers, Put, Range, Scan, Swapped, Table, TableInfo, TableStats, TableTransaction, Way, Write, Written,
};
pub use error::{Refused, ReopenError, TableError};
pub use key::{Found, Key, Looked};
pub use options::{
    INLINE_BYTES_DEFAULT, INLINE_BYTES_MAX, KEY_BYTES_MAX, Kind, OptionsError, TableOptions, VALUE_BYTES_MAX,
};
