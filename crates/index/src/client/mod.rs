//! A client's side of tables.

pub(crate) mod memory;

pub use memory::{Memory, Unreadable};
