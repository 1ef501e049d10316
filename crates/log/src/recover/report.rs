//! What recovery found, for people and for programs; and how far it is.

use crate::Position;
use serde::Serialize;
use std::fmt;

/// How far recovery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: RecoveryStage,
    /// Bytes that are done in this stage.
    pub done_bytes: u64,
    /// Bytes of this stage, as far as is known.
    pub total_bytes: u64,
}

/// What recovery is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryStage {
    /// Loading the image of the last checkpoint.
    Image,
    /// Replaying the log after it.
    Log,
}

/// The end of the log, where it is not whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TornEnd {
    /// In which file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// Bytes of whole frames behind the torn one, which were never durable and are dropped, too.
    pub dropped_bytes: u64,
}

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    /// The number of the checkpoint that was used; none if the log was replayed from its beginning.
    pub checkpoint: Option<u64>,
    /// How long its image is.
    pub image_bytes: u64,
    /// Segments that were read.
    pub segments: u64,
    /// Frames that were read.
    pub frames: u64,
    /// Records that were applied.
    pub records: u64,
    /// Bytes of records that were applied.
    pub log_bytes: u64,
    /// The position that was reached: the end of the last record that is there.
    pub position: Position,
    /// Whether the log had been stopped in good order.
    pub stopped_cleanly: bool,
    /// What a crash left unfinished at the end, if it did.
    pub torn: Option<TornEnd>,
    /// Checkpoints that could not be used, and why.
    pub unusable: Vec<String>,
    /// What was lost because the caller accepted it, and files that were put aside.
    pub lost: Vec<String>,
    /// How long it took.
    pub milliseconds: u64,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.checkpoint {
            Some(number) => write!(f, "checkpoint {number} ({} bytes)", self.image_bytes)?,
            None => write!(f, "no checkpoint")?,
        }
        write!(
            f,
            ", {} records ({} bytes) of {} frames in {} segments, up to position {}, in {} ms",
            self.records, self.log_bytes, self.frames, self.segments, self.position, self.milliseconds
        )?;
        if self.stopped_cleanly {
            write!(f, "; the log had been stopped in good order")?;
        }
        if let Some(torn) = &self.torn {
            write!(f, "; `{}` ended in the middle of a write at byte {}", torn.file, torn.offset)?;
            if torn.dropped_bytes > 0 {
                write!(
                    f,
                    " ({} bytes after it had never been synced, and were dropped)",
                    torn.dropped_bytes
                )?;
            }
        }
        for unusable in &self.unusable {
            write!(f, "; {unusable}")?;
        }
        for lost in &self.lost {
            write!(f, "; {lost}")?;
        }
        Ok(())
    }
}
