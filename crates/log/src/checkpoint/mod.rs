//! Checkpoints: a copy of the regions that is made while they change.
//!
//! At the beginning, position S, everything that was changed is in memory and in the log. The copy is
//! fuzzy: each word in it is as it was at some moment after S. That is sound, because every word
//! changed after S is in the log after S, provided that recovery replays up to E, where the owner
//! stood when it learned that the copying had ended: nothing that the copy may have seen was appended
//! after E. So the log is synced to E, then the manifest is put in place, and only then is anything
//! removed.
//!
//! What always holds: a crash at any step leaves this checkpoint or the one before it usable; a
//! failure to write the image ends the checkpoint and not the log; a failed sync ends both.

mod clean;
mod image;
pub(crate) mod manifest;

use crate::error::LogError;
use crate::failpoint::failpoint;
use crate::log::Used;
use crate::record::Record;
use crate::shared::{Shared, State};
use crate::stats::Counters;
use crate::{Position, names};
use barn_fabric::seam::Disk;
use barn_fabric::{RegionId, Words};
use barn_layout::planted;
use image::ImageWriter;
use manifest::Manifest;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the copy may pause for each chunk: it must end some day on a machine that is short of CPU.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How many times as long as a chunk took it pauses after it. 3: three quarters of the disk are the log's, for which
/// clients wait.
const PAUSES: u32 = 3;
/// How often a checkpoint that waits looks by itself.
const LOOK: Duration = Duration::from_millis(100);

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something was done.
    Worked,
    /// The owner or the writer has to do something first.
    Waits,
    /// The checkpoint has ended.
    Done,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Copy,
    End,
    Sync(Position),
    Manifest(Position),
    Clean,
}

/// Why a checkpoint ended without a result.
#[derive(Debug)]
pub(super) enum Ended {
    /// The log is being stopped, or has failed.
    Cancelled,
    /// The checkpoint failed; the log goes on.
    Failed(LogError),
    /// A sync failed: the log stops.
    Fatal(LogError),
}

pub(crate) struct Checkpoint {
    disk: Arc<dyn Disk>,
    shared: Arc<Shared>,
    log: u64,
    number: u64,
    start: Position,
    began_ns: u64,
    notes: Vec<u8>,
    regions: Vec<(RegionId, Words)>,
    used: Used,
    image: Option<ImageWriter>,
    stage: Stage,
}

impl Checkpoint {
    pub(crate) fn new(
        (disk, shared): (Arc<dyn Disk>, Arc<Shared>),
        log: u64,
        number: u64,
        start: Position,
        notes: &Record,
        regions: Vec<(RegionId, Words)>,
        used: Used,
    ) -> Self {
        let began_ns = shared.now();
        let notes = notes.entries().to_vec();
        let stage = Stage::Copy;
        Self { disk, shared, log, number, start, began_ns, notes, regions, used, image: None, stage }
    }

    /// Runs to the end, with a pause as long as each piece of work: half of one core at most.
    pub(crate) fn run(mut self) {
        loop {
            let began = Instant::now();
            match self.step() {
                Step::Worked => std::thread::sleep((PAUSES * began.elapsed()).min(PAUSE_MAX)),
                Step::Waits => self.wait(),
                Step::Done => return,
            }
        }
    }

    fn wait(&self) {
        let state = self.shared.lock();
        if self.ended(&state).is_none() && !self.may_go_on(&state) {
            let woken = self.shared.checkpoint_wake.wait_timeout(state, LOOK);
            drop(woken.unwrap_or_else(|poisoned| poisoned.into_inner()));
        }
    }

    fn ended(&self, state: &State) -> Option<Ended> {
        (state.checkpoint.cancelled || state.failure.is_some()).then_some(Ended::Cancelled)
    }

    fn may_go_on(&self, state: &State) -> bool {
        match self.stage {
            Stage::End => state.checkpoint.end.is_some(),
            Stage::Sync(end) => self.shared.synced() >= end,
            _ => true,
        }
    }

    /// Does one piece: a chunk, or one of the last steps.
    pub(crate) fn step(&mut self) -> Step {
        match self.advance() {
            Ok(step) => step,
            Err(ended) => {
                self.abandon(ended);
                Step::Done
            }
        }
    }

    fn advance(&mut self) -> Result<Step, Ended> {
        let end = {
            let state = self.shared.lock();
            if let Some(ended) = self.ended(&state) {
                return Err(ended);
            }
            if !self.may_go_on(&state) {
                return Ok(Step::Waits);
            }
            state.checkpoint.end
        };
        match (self.stage, end) {
            (Stage::Copy, _) => self.copy()?,
            (Stage::End, Some(end)) => self.stage = Stage::Sync(end),
            (Stage::End, None) => return Ok(Step::Waits),
            (Stage::Sync(end), _) => self.stage = Stage::Manifest(end),
            (Stage::Manifest(end), _) => {
                self.put_manifest(end)?;
                self.stage = Stage::Clean;
            }
            (Stage::Clean, _) => {
                clean::clean(&*self.disk, &self.shared, self.number, self.start)?;
                self.shared.lock().checkpoint.running = false;
                return Ok(Step::Done);
            }
        }
        Ok(Step::Worked)
    }

    fn copy(&mut self) -> Result<(), Ended> {
        if self.image.is_none() {
            failpoint("checkpoint-before-image");
            let chunk_bytes = self.shared.options.chunk_bytes;
            self.image = Some(ImageWriter::create(&*self.disk, self.log, self.number, chunk_bytes)?);
        }
        let Some(image) = &mut self.image else { return Ok(()) };
        if image.copy_chunk(&self.regions, &self.used)? {
            return Ok(());
        }
        // From here on the owner may say where the copying ended; the sync takes its time meanwhile.
        self.shared.set_copied(true);
        image.finish()?;
        failpoint("checkpoint-after-image");
        self.stage = Stage::End;
        if planted("log_manifest_before_end") {
            self.stage = Stage::Manifest(self.shared.synced());
        }
        Ok(())
    }

    fn put_manifest(&mut self, end: Position) -> Result<(), Ended> {
        if planted("log_cleaned_too_early") {
            clean::clean(&*self.disk, &self.shared, self.number, self.start)?;
        }
        let Some(image) = &self.image else { return Err(Ended::Cancelled) };
        failpoint("checkpoint-before-manifest");
        let segment = {
            let state = self.shared.lock();
            let holds = state.segments.iter().rev().find(|segment| segment.start <= self.start);
            holds.map_or(0, |segment| segment.number)
        };
        let manifest = Manifest {
            log: self.log,
            number: self.number,
            start: self.start,
            end,
            segment,
            image_bytes: image.bytes(),
            image_chunks: image.chunks(),
            image_checksum: image.checksum(),
            regions: self.regions.iter().map(|(region, words)| (*region, words.bytes() as u64)).collect(),
            notes: std::mem::take(&mut self.notes),
        };
        manifest::put(&*self.disk, &manifest)?;
        failpoint("checkpoint-after-manifest");
        let counters = &self.shared.counters;
        Counters::add(&counters.checkpoints, 1);
        Counters::set(&counters.checkpoint_ms, (self.shared.now() - self.began_ns) / 1_000_000);
        Counters::set(&counters.checkpoint_bytes, image.bytes());
        self.shared.checkpoint_done(self.start, image.bytes());
        Ok(())
    }

    /// Ends without a result. What is left of the image is removed now or at the next start.
    fn abandon(&mut self, ended: Ended) {
        let reason = match ended {
            Ended::Cancelled => None,
            Ended::Failed(error) => {
                if self.stage != Stage::Clean {
                    let _ = self.disk.remove(&names::image(self.number));
                }
                Some(error)
            }
            Ended::Fatal(error) => {
                self.shared.fail(error.clone());
                Some(error)
            }
        };
        let mut state = self.shared.lock();
        state.checkpoint.running = false;
        self.shared.set_copied(false);
        if let Some(error) = reason {
            Counters::add(&self.shared.counters.checkpoint_failures, 1);
            state.checkpoint.failure = Some(error.to_string());
        }
    }
}
