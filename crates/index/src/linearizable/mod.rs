//! Judges what clients saw of one key: is there one order of the operations that explains it all?
//!
//! A history is linearizable if every operation can be thought to happen at one moment between its
//! call and its return. Keys do not depend on each other, so each is judged for itself (Horn and
//! Kroening, "Faster linearizability checking via P-compositionality"). The search is Wing and Gong's
//! with Lowe's memory of what was in vain; see [`check`]. These make it quick, and all but the last
//! rest on values being written once only:
//! - what falls into the time of another value is found without a search (Gibbons and Korach's zones);
//! - an operation that changes nothing is put in its place as soon as the state fits: no later place
//!   is better;
//! - a value that others are still to see cannot be replaced: it will never come back;
//! - who wrote a value did so before anybody who saw it had returned; if its client never heard,
//!   it happened all the same;
//! - only dead ends are remembered: where each guess is right, nothing is.
//!
//! What always holds:
//! - intervals that touch are concurrent;
//! - an operation of unknown outcome happens at any moment after its call, or never;
//! - [`Verdict::Linearizable`] is given for an order that was found. [`Verdict::Violation`] is given
//!   after all orders were tried; two different sets of operations are taken for the same one with a
//!   probability of 2^-128.

mod check;
mod links;
mod meaning;
mod memo;
mod operation;
mod prepare;
mod recorder;
mod search;
#[cfg(test)]
mod tests;
mod verdict;
mod zones;

pub use check::{CheckOptions, check, check_with};
pub use operation::{Call, Expected, History, Operation, Outcome};
pub use recorder::{Pending, Recorder, gather};
pub use verdict::{Verdict, Violation, Why};
