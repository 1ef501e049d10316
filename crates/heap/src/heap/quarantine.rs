//! Runs of blocks that are empty, until no reader can still follow a pointer into them.
//!
//! FaRM section 3.5: memory may be used for another size only when nobody expects headers at the
//! old places. A run is stamped with the epoch in which it became empty; a reader that began in
//! that epoch or before may still hold a pointer into it.

use std::collections::VecDeque;

/// What waits, oldest first.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    epoch: u64,
    waiting: VecDeque<(u64, u32)>,
}

impl Quarantine {
    /// The current epoch.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Begins the next one.
    pub(super) fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets a run wait from the current epoch on.
    pub(super) fn put(&mut self, run: u32) {
        self.waiting.push_back((self.epoch, run));
    }

    /// Takes out a run that became empty before `epoch`.
    pub(super) fn take_before(&mut self, epoch: u64) -> Option<u32> {
        let (since, run) = *self.waiting.front()?;
        (since < epoch).then(|| {
            self.waiting.pop_front();
            run
        })
    }

    /// Takes out the youngest run that is as wanted: for its own size it may be used at once.
    pub(super) fn take_where(&mut self, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let at = self.waiting.iter().rposition(|(_, run)| wanted(*run))?;
        self.waiting.remove(at).map(|(_, run)| run)
    }
}
