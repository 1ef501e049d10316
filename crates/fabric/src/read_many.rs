//! Many READs of one region, some at once on this thread: what a pipeline does, without a future for each
//! where the region is mapped here.

use crate::drive::Pipeline;
use crate::error::OperationError;
use crate::link::Place;
use crate::remote_region::{RemoteRegion, read_mapped};

/// READs of mapped memory that are fetched together. 24: somewhat more misses than a core has under way at once,
/// so that it is never short of them.
const GROUP_MAX: usize = 24;

impl RemoteRegion {
    /// READs many ranges, `window` of them at once, and hands each one's result to `done`, in the order in which
    /// they finish.
    ///
    /// A [`Pipeline`] of [`RemoteRegion::read`]s comes to the same. This is the cheaper way where the region is
    /// mapped here: there is nothing to post then, only memory to be fetched before it is copied.
    ///
    /// ```
    /// # fn example(region: &barn_fabric::RemoteRegion) {
    /// let mut into = vec![[0; 64]; 1000];
    /// let mut failed = None;
    /// let reads = into.iter_mut().enumerate().map(|(at, into)| (at as u64 * 4096, &mut into[..]));
    /// region.read_many(32, reads, |done| failed = failed.take().or(done.err()));
    /// # }
    /// ```
    pub fn read_many<'a>(
        &self,
        window: usize,
        reads: impl IntoIterator<Item = (u64, &'a mut [u8])>,
        mut done: impl FnMut(Result<(), OperationError>),
    ) {
        let Place::Mapped { words, .. } = self.place() else {
            let reads = reads.into_iter().map(|(offset, into)| self.read(offset, into));
            return Pipeline::new(window).run(reads, done);
        };
        // Two groups: one is fetched, all of it together, while the other is copied.
        let group = window.div_ceil(2).clamp(1, GROUP_MAX);
        let (mut fetched, mut next) = (Vec::with_capacity(group), Vec::with_capacity(group));
        let mut reads = reads.into_iter();
        loop {
            for (offset, into) in reads.by_ref().take(group) {
                // Out of bounds is found when it is copied; a prefetch is only advice.
                words.prefetch(offset, into.len());
                next.push((offset, into));
            }
            for (offset, into) in fetched.drain(..) {
                done(read_mapped(self, offset, into));
            }
            if next.is_empty() {
                return;
            }
            std::mem::swap(&mut fetched, &mut next);
        }
    }
}
