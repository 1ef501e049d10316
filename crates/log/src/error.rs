//! What can go wrong, and what to do about it: one type for a running log, one for opening it.

use std::sync::Arc;
use std::{fmt, io};

/// Why the log takes nothing, or a write is not durable.
#[derive(Clone, Debug)]
pub enum LogError {
    /// The disk has no room for the next segment. Nothing is lost; the log tries again by itself.
    NoSpace {
        /// The file that was to be made.
        file: String,
        /// How long it was to be.
        bytes: u64,
    },
    /// A write or a sync failed. What came before is on the disk; of the rest nothing is known.
    Failed {
        /// What was being done.
        step: &'static str,
        /// To which file.
        file: String,
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// The log has been stopped.
    Stopped,
}

impl LogError {
    pub(crate) fn failed(step: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self + use<> {
        let file = file.to_string();
        move |cause| Self::Failed { step, file, cause: Arc::new(cause) }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace { file, bytes } => write!(
                f,
                "the disk has no room for the log's next segment ({bytes} bytes for `{file}`); make room on it: \
                 the log tries again by itself, and durable writes are refused until then"
            ),
            Self::Failed { step, file, cause } => write!(
                f,
                "{step} `{file}` failed: {cause}; the log has stopped for good and takes no durable writes. Check \
                 the disk (dmesg, smartctl), then restart the node: everything that was acknowledged as synced is there"
            ),
            Self::Stopped => write!(f, "the log has been stopped; open it again"),
        }
    }
}

impl std::error::Error for LogError {}

/// Why a log could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has the directory.
    Locked {
        /// Its process's number, if it said so.
        pid: Option<u32>,
    },
    /// The disk failed.
    Disk {
        /// What was being done.
        step: &'static str,
        /// To which file.
        file: String,
        /// What the system said.
        cause: io::Error,
    },
    /// A newer Barn has written this.
    NewerFormat {
        /// Which file.
        file: String,
        /// Its format.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// A part of the log is damaged or missing, and there is more behind it.
    Damaged {
        /// Which file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong with it.
        why: String,
        /// How many bytes of log are known to come after the damage: what would be lost.
        lost_bytes: u64,
    },
    /// No checkpoint that is there can be used.
    NoCheckpoint {
        /// What is wrong with each that was tried.
        why: Vec<String>,
    },
    /// A record is whole and makes no sense here.
    Record {
        /// The position at which it begins.
        position: u64,
        /// What is wrong with it.
        why: String,
    },
    /// There was no memory for a region.
    Memory {
        /// Which region.
        region: u32,
        /// How long it is.
        bytes: u64,
        /// Why not.
        why: String,
    },
    /// A thread could not be started.
    Thread(io::Error),
}

impl OpenError {
    pub(crate) fn disk(step: &'static str, file: &str) -> impl FnOnce(io::Error) -> Self + use<> {
        let file = file.to_string();
        move |cause| Self::Disk { step, file, cause }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { pid: Some(pid) } => {
                write!(f, "process {pid} has the log's directory open; stop it, or use another directory")
            }
            Self::Locked { pid: None } => {
                write!(f, "another process has the log's directory open; stop it, or use another directory")
            }
            Self::Disk { step, file, cause } if cause.kind() == io::ErrorKind::StorageFull => write!(
                f,
                "{step} `{file}` failed: {cause}; make room on the disk and start again: what the log has is still there"
            ),
            Self::Disk { step, file, cause } => write!(
                f,
                "{step} `{file}` failed: {cause}; check the disk and the directory's rights, and start again"
            ),
            Self::NewerFormat { file, found, known } => write!(
                f,
                "`{file}` has format {found}, and {known} is the newest that this version reads; start a newer Barn"
            ),
            Self::Damaged { file, offset, why, lost_bytes } => write!(
                f,
                "`{file}` is damaged at byte {offset}: {why}. At least {lost_bytes} bytes of changes after it would \
                 be lost. Restore the directory from a copy, or let the node be filled from its replicas; or open \
                 the log with `accept_loss`, which keeps everything before the damage and puts the rest aside \
                 (*.damaged)"
            ),
            Self::NoCheckpoint { why } => write!(
                f,
                "no checkpoint can be used ({}); restore the directory from a copy, or empty it and let the node be \
                 filled from its replicas",
                why.join("; ")
            ),
            Self::Record { position, why } => write!(
                f,
                "the record at position {position} cannot be applied: {why}; it was written so, by another version or \
                 a bug: keep the directory and report it"
            ),
            Self::Memory { region, bytes, why } => write!(
                f,
                "no memory for region {region} of {bytes} bytes: {why}; give the node more memory and start it again"
            ),
            Self::Thread(cause) => {
                write!(
                    f,
                    "a thread could not be started: {cause}; raise the limit on processes and start again"
                )
            }
        }
    }
}

impl std::error::Error for OpenError {}
