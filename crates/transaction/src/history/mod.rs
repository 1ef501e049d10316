//! Judges what clients saw: is there one order of the transactions that explains it all?
//!
//! Every committed change of an object raises its version by exactly one, so the versions give the
//! order of writes and nothing has to be guessed: transactions are nodes, and an edge says "before".
//!
//! | edge | from | to |
//! |---|---|---|
//! | [`EdgeKind::WriteWrite`] | who installed version v | who installed v + 1 |
//! | [`EdgeKind::WriteRead`] | who installed version v | who read v |
//! | [`EdgeKind::ReadWrite`] | who read version v | who installed v + 1 |
//! | [`EdgeKind::RealTime`] | who ended | who started after that |
//!
//! A history is strictly serializable exactly if this graph has no cycle (Adya's PL-SS) and every
//! version seen was installed by a transaction that happened as a whole. [`check`] says so in time
//! linear in the reads and writes, apart from two sorts by time.
//!
//! What always holds:
//! - a transaction whose outcome its client never learned happened exactly if somebody saw, or built
//!   upon, a version of it. Where several such claim one version, all choices are tried;
//! - an object that was known to be there and that nobody freed is found by all who look ([`absent`]);
//! - reads of transactions that did not happen are evidence of what was installed (an object is only
//!   ever read whole and committed), but need not fit together;
//! - one who is never told the end of his transaction has it end never.

mod absent;
mod check;
mod cycle;
mod happened;
mod order;
mod record;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod violation;

pub use check::{Summary, check};
pub use record::{ObjectKey, Outcome, Record, Write, WriteKind};
pub use store::History;
pub use violation::{Cycle, Edge, EdgeKind, TransactionName, Violation, Witness};
