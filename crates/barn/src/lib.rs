//! A distributed in-memory data platform whose clients read remote memory directly.
//!
//! ```
//! use barn::Barn;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let barn = Barn::embedded()?; // or Barn::connect("shm:/run/user/1000/barn/node.sock")
//! let from = barn.new(&100i64)?;
//! let to = barn.new(&0i64)?;
//! barn.transaction(|tx| {
//!     let (a, b) = (tx.load(from)?, tx.load(to)?);
//!     tx.store(from, &(a - 30))?;
//!     tx.store(to, &(b + 30))
//! })?;
//! assert_eq!((barn.load(from)?, barn.load(to)?), (70, 30));
//! # Ok(())
//! # }
//! ```
//!
//! Objects live in the memory of a node; a read is one load (shm) or one READ (tcp), and never asks
//! the node's CPU. Transactions are strictly serializable and may span nodes. [`Barn`] blocks;
//! [`Barn::client`] is the same thing as futures, for any async runtime.
#![forbid(unsafe_code)]

mod barn;
mod connect;
mod error;
pub mod node;
mod object;
pub mod space;
mod table;
mod transaction;

pub use barn::Barn;
pub use barn_cluster::MemberId;
pub use barn_index::{
    Answers, Durability, Found, KEY_BYTES_MAX, Kind, Put, Swapped, TableError, TableInfo, TableOptions,
    TableStats, TableTransaction, VALUE_BYTES_MAX, Way, Write, Written,
};
pub use barn_transaction::participant::{FunctionError, Functions, Local};
pub use barn_transaction::{
    Client, ClientError, ClientStats, CommitError, CommitStep, Committed, Lookups, Object, Observer, Pointer,
    Retry, RunError, RunOptions, Stats, Transaction,
};
pub use connect::Connect;
pub use error::Error;
pub use object::{Ref, TypedTransaction, Value};
pub use table::{Range, Scan, Table};
pub use transaction::Tx;

/// The programs in README.md compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
