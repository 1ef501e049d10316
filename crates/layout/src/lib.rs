//! Every byte that another process can see, declared once.
//!
//! What is shared between processes (memory that several map, frames on a wire, packets of a
//! handshake) is declared here and nowhere else: explicit little-endian fields, with
//! compile-time asserts on size and offsets generated right under each struct.
//! `docs/layout.md` is drawn from these same declarations, and a test keeps it current.
//!
//! This crate never allocates for a parser, never does I/O and never panics on input.
//!
//! Of what no other process sees only [`plant`] and [`bytes`] are here, because all crates depend on this one.
#![forbid(unsafe_code)]

mod shared;

pub mod address;
pub mod bytes;
pub mod channel;
pub mod diagram;
pub mod frame;
pub mod handshake;
pub mod heap;
pub mod limits;
pub mod log;
pub mod message;
pub mod object;
pub mod plant;
pub mod space;
pub mod table;
pub mod transaction;

pub use address::{Address, FatPointer, RegionId};
pub use plant::planted;
pub use table::Durability;
