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

#[cfg(not(loom))]
mod client;
/// Loom explores this part of it, and nothing else.
#[cfg(all(loom, test))]
mod client {
    mod activity;
    mod atomics;
}
#[cfg(not(loom))]
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
pub mod history;
#[cfg(not(loom))]
mod id;
#[cfg(not(loom))]
pub mod participant;
/// The heap's tests use it, too.
#[cfg(all(test, not(loom)))]
#[path = "../../heap/src/heap/tests/replay.rs"]
mod replay;
#[cfg(not(loom))]
pub mod resolver;
pub mod rule;
#[cfg(all(feature = "scenarios", not(loom)))]
pub mod scenario;
#[cfg(not(loom))]
pub mod wire;

pub use barn_layout::transaction::{Change, TransactionId};
#[cfg(not(loom))]
pub use {
    client::{
        Attempts, Boxed, Client, ClientOptions, ClientStats, CommitStep, Committed, Connector, Environment,
        Exchange, Glance, LookupCounts, Lookups, Object, Observer, Reach, Retry, RunOptions, Snapshot, Stats,
        TOGETHER_MAX, Touched, Transaction, Waits,
    },
    error::{ClientError, CommitError, FENCED, RunError, Unanswered},
    id::{NotAPointer, Pointer},
};
