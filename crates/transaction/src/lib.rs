//! Changes many objects at once, strictly serializably; recovers.
//!
//! FaRM's protocol (sections 3.4 and 3.5) with clients as coordinators: execute against versions,
//! lock the write set, validate the read set, decide, apply. [`Client`] is the side that reads and
//! commits; [`participant`] is a node's side; [`resolver`] ends what lost clients have left.
//!
//! What always holds:
//! - a transaction that was reported committed has happened in one moment between its commit's call
//!   and return, in an order that every client sees alike; one that was not reported may have;
//! - a client or a node that dies, hangs or is cut off at any step leaves no lock for longer than
//!   two leases, and never half a transaction;
//! - a commit whose outcome is not known is never repeated.
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod history;
mod id;
pub mod participant;
pub mod resolver;
#[cfg(feature = "scenarios")]
pub mod scenario;
pub mod wire;

pub use barn_layout::transaction::{Change, TransactionId};
pub use client::{
    Attempts, Boxed, Client, ClientOptions, ClientStats, CommitStep, Committed, Connector, Environment,
    Object, Observer, RunOptions, Snapshot, Touched, Transaction,
};
pub use error::{ClientError, CommitError, RunError};
pub use id::{NotAPointer, Pointer};
