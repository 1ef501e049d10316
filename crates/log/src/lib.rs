//! Makes the memory of regions durable: a redo log of words, fuzzy checkpoints, recovery.
//!
//! A node keeps everything in registered memory, which one thread changes. With each change that
//! thread appends a [`Record`]: the words that are new, and small notes for what is not in words. A
//! writer thread puts records on disk, in frames that prove themselves (Pilaf sections 3.1 and 4 log in
//! this way, asynchronously; FaRM section 3.4 keeps its logs in memory that survives). Now and then a
//! checkpoint copies the regions while they change, and what it makes needless is removed. After a
//! restart [`open`] loads the last checkpoint and replays the log. What the bytes mean is none of this
//! crate's business.
//!
//! # What may be lost
//!
//! A write may be answered at three moments: at once (`logged`, as long as [`Log::admission`] says
//! [`Admission::Open`]), once [`Level::Written`], once [`Level::Synced`].
//!
//! - The process dies (kill -9): whatever is `Written` is there. What was answered at once and is lost
//!   is a suffix of the log, and was answered within one span of time no longer than
//!   [`LogOptions::window`], or is among the last [`LogOptions::window_bytes`]; nothing that was answered
//!   before or after that span is lost. (The span is the last one, unless the disk hangs: then it is
//!   the one in which it began to hang, since from its end on nothing was answered that was not written.)
//! - The power fails: whatever is `Synced` is there. In addition to the above, what was written within
//!   the last [`LogOptions::sync_interval`], and while the sync that follows it runs, may be lost.
//! - In every case a suffix is lost and never a part from the middle: what is recovered is the memory at
//!   the end of some record, with all records before it and none after it.
//! - The disk is full: nothing is lost; durable writes are refused until there is room again.
//! - A write or a sync fails: the log stops for good. Whatever is `Synced` is there, unless the disk has
//!   lost it.
//! - Bytes rot: everything on disk has a checksum. Damage to what later frames prove to have been durable
//!   is reported ([`OpenError::Damaged`]) and never replayed. Damage to the very last frames of a log that
//!   was not stopped in good order cannot be told from a write that a crash cut off.
#![forbid(unsafe_code)]

mod aligned;
mod checkpoint;
mod error;
mod failpoint;
mod frame;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod log;
pub mod names;
mod options;
mod parse;
mod pending;
mod record;
mod recover;
mod segment;
mod shared;
mod stats;
#[cfg(test)]
mod tests;
mod writer;

pub use error::{LogError, OpenError};
pub use failpoint::{FAILPOINTS, REACHED};
pub use log::{Admission, Log, Used};
pub use options::LogOptions;
pub use parse::Entry;
pub use record::{ROOM_BYTES, Record};
pub use recover::{Memory, Progress, Recovered, RecoveryReport, RecoveryStage, TornEnd, open};
pub use stats::{LogStats, LogStatsHandle};

/// A place in the log: grows; the end of a record, in bytes of records since the log began.
pub type Position = u64;

/// How far a write must have come before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Handed to the operating system: survives the process.
    Written,
    /// On the disk: survives a power loss.
    Synced,
}
