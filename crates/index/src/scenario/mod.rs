//! Watched clients of tables, on the simulated world and on real nodes: what the checker is fed with.
//!
//! A [`Worker`] does random things to a few hot keys and many cold ones, and writes each of them down in
//! its [`Journal`] before it begins and after it has ended. What never ended is of unknown outcome, so a
//! client may be killed at any moment. [`judge`] then demands an order for each key.

mod journal;
mod judge;
mod simulated;
mod together;
mod value;
mod worker;

pub use journal::{Journal, Shared, Tape, shared};
pub use judge::{Judged, judge};
pub use simulated::{Report, run};
pub use together::together;
pub use worker::{Plan, Worker};

use crate::options::{Kind, TableOptions};

/// A table that is made small, so that it grows, moves, overflows or forgets all the time.
pub fn cramped(kind: Kind) -> TableOptions {
    TableOptions {
        kind,
        capacity: 16,
        inline_bytes: 64,
        neighbourhood: 4,
        memory_bytes: 1 << 20,
        ..TableOptions::default()
    }
}
