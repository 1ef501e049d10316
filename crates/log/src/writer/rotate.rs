//! How the writer changes from segment to segment.
//!
//! What always holds, in this order: the old segment is synced; the new one is there, durably; the old
//! one says that it goes on there. A crash between any two leaves a log that can be read across.

use super::{Frame, Writer};
use crate::error::LogError;
use crate::failpoint::failpoint;
use crate::names;
use crate::segment::{FRAMES_START, RESERVED_BYTES, SegmentInfo, make};
use crate::shared::Condition;
use crate::stats::Counters;
use barn_layout::log::FRAME_CONTINUED;

impl Writer {
    /// Writes and syncs a frame without records, which says how the segment ends.
    pub(super) fn mark(&mut self, flags: u32) -> Result<(), LogError> {
        self.write_frame(Frame::Mark, flags)?;
        self.segment.file.sync().map_err(LogError::failed("syncing", &self.segment.name))?;
        Counters::add(&self.shared.counters.syncs, 1);
        Ok(())
    }

    /// Goes on in a new segment that has room for a frame of so many bytes. Whether there was room.
    pub(super) fn rotate(&mut self, needed: u64) -> Result<bool, LogError> {
        failpoint("rotate-before");
        if self.unsynced_since.is_some() {
            self.sync()?;
            self.answer_synced();
        }
        let bytes = self.shared.options.segment_bytes.max(FRAMES_START + needed + RESERVED_BYTES);
        let info = SegmentInfo { number: self.segment.info.number + 1, start: self.position, bytes, key: 0 };
        let spare = self.shared.lock().spares.last().cloned();
        let made = match make(&*self.disk, self.log, info, spare.as_deref()) {
            Ok(made) => made,
            Err(error) if error.no_space => {
                let reason = LogError::NoSpace { file: names::segment(info.number), bytes };
                let mut state = self.shared.lock();
                // A rotation that only a checkpoint wants can wait.
                if needed > 0 {
                    state.no_space = Some(reason);
                    self.shared.set_condition(Condition::NoSpace);
                }
                return Ok(false);
            }
            Err(error) => return Err(LogError::failed(error.step, &error.file)(error.cause)),
        };
        self.mark(FRAME_CONTINUED)?;
        self.segment = made;
        self.ahead_failed = false;
        let mut state = self.shared.lock();
        state.segments.push_back(self.segment.info);
        if let Some(spare) = spare {
            // A spare file of another length was not used, and is of no use to anybody.
            if bytes != self.shared.options.segment_bytes {
                let _ = self.disk.remove(&spare);
            }
            state.spares.retain(|name| *name != spare);
        }
        state.no_space = None;
        self.shared.set_condition(Condition::Open);
        Ok(true)
    }

    /// Reserves room for the next segment while the present one is half empty.
    pub(super) fn make_ahead(&mut self) {
        if self.ahead_failed || self.segment.at < self.segment.info.bytes / 2 {
            return;
        }
        if !self.shared.lock().spares.is_empty() {
            return;
        }
        let name = names::spare(self.segment.info.number + 1);
        match self.disk.create_log(&name, self.shared.options.segment_bytes) {
            Ok(_) => self.shared.lock().spares.push(name),
            // It is tried again, and complained about, when it is needed.
            Err(_) => self.ahead_failed = true,
        }
    }
}
