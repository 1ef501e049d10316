//! Where the configuration is kept: one value, replaced by compare-and-set, and members' leases.
//!
//! The trait is shaped for a store behind a network (etcd: a key with a revision, leases, a
//! watch), so its methods answer with futures. The two stores here answer at once.

#[cfg(test)]
mod conformance;
mod file;
#[cfg(test)]
mod file_tests;
mod leases;
mod memory;

pub use file::FileStore;
pub use memory::MemoryStore;

use crate::configuration::{Configuration, ConfigurationError};
use crate::member::MemberId;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// What a store answers, now or later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// An answer that is there already.
pub(crate) fn at_once<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Answer<'a, T> {
    Box::pin(std::future::ready(result))
}

/// Keeps the configuration, and counts leases.
///
/// What an implementation promises: a configuration that was replaced stays so, through any crash,
/// from when `replace` has answered; of two replacements of one version, one at most succeeds; a
/// lease is counted by the store's own clock or by the `now` that it is given, and never ends
/// before all of it has passed. Leases need not survive: a store that has lost them forgets all
/// at once, and the coordinator grants every member of the configuration a new one.
pub trait ConfigurationStore: Send + Sync {
    /// The configuration; `None` if there never was one.
    fn load(&self) -> Answer<'_, Option<Configuration>>;

    /// Puts a configuration in the place of version `expected` (0: of none).
    fn replace<'a>(&'a self, expected: u64, configuration: &'a Configuration) -> Answer<'a, ()>;

    /// The configuration, if it is newer than `known_version`. A store that can wait for one may
    /// do so for a while before it says that there is none.
    fn watch(&self, known_version: u64) -> Answer<'_, Option<Configuration>>;

    /// Gives a member a lease from `now`, or lengthens the one it has.
    fn grant(&self, member: MemberId, now: Duration, lease: Duration) -> Answer<'_, ()>;

    /// Lengthens a lease that has not ended; says whether that was so.
    fn renew(&self, member: MemberId, now: Duration, lease: Duration) -> Answer<'_, bool>;

    /// Ends a lease.
    fn release(&self, member: MemberId) -> Answer<'_, ()>;

    /// The members whose lease has ended and was not released, by number.
    fn expired(&self, now: Duration) -> Answer<'_, Vec<MemberId>>;

    /// When a member's lease ends; `None` if it has none.
    fn ends_at(&self, member: MemberId) -> Answer<'_, Option<Duration>>;
}

/// Why a store did not do as it was told.
#[derive(Debug)]
pub enum StoreError {
    /// The configuration has another version: somebody else has replaced it.
    Conflict {
        /// The version that is there; 0 for none.
        current: u64,
    },
    /// The disk refused. Whether a replacement is durable is not known.
    Disk {
        /// What was done.
        step: &'static str,
        /// To which file.
        file: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A write or sync failed before: the store takes no more, because nobody knows what the disk
    /// holds now.
    Stopped,
    /// The file is not whole.
    Damaged {
        /// Which file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file was written by a newer Barn.
    NewerFormat {
        /// Which file.
        file: String,
        /// Its format.
        found: u64,
        /// The newest format that this program knows.
        known: u64,
    },
    /// What was to be stored cannot be right.
    Invalid(ConfigurationError),
    /// The store has not answered yet, and whoever asked cannot wait.
    Slow,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { current } => {
                write!(f, "the configuration is at version {current} by now: load it and try again")
            }
            Self::Disk { step, file, cause } => {
                write!(f, "{step} `{file}` failed ({cause}): check the disk, then restart the node")
            }
            Self::Stopped => write!(
                f,
                "the configuration's disk failed before, so nothing more is written: check the disk, then restart the node"
            ),
            Self::Damaged { file, why } => write!(
                f,
                "`{file}` is damaged ({why}): put back a copy of it, or move it away to begin a new cluster without the old one's regions"
            ),
            Self::NewerFormat { file, found, known } => write!(
                f,
                "`{file}` is of format {found}, and this program knows formats up to {known}: start the newer Barn that wrote it"
            ),
            Self::Invalid(why) => why.fmt(f),
            Self::Slow => write!(f, "the configuration's store has not answered yet"),
        }
    }
}

impl std::error::Error for StoreError {}
