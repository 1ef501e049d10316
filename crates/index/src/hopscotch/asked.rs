//! Keys that a node is asked for, all of a message at once: where their buckets are, in the owner's own lists.

use super::directory::{Directory, Segment};
use super::group::Sought;
use barn_fabric::Words;
use barn_heap::Heap;
use barn_layout::RegionId;

/// Where keys are that a request asks for.
pub(super) struct Asked<'a> {
    pub(super) heap: &'a Heap,
    /// The numbers of segments.
    pub(super) directory: &'a Directory<u32>,
    pub(super) segments: &'a [Segment],
}

impl<'m> Sought<'m> for Asked<'m> {
    type Error = ();

    #[inline(always)]
    fn segment(&self, hash: u64) -> Option<&Segment> {
        self.segments.get(self.directory.get(hash) as usize)
    }

    fn words(&self, region: RegionId) -> Option<&'m Words> {
        self.heap.words(region)
    }

    fn unreadable(&self, region: Option<RegionId>) -> Result<(), ()> {
        // A segment may be in a region that is not there any more; then each key is told so.
        region.map(drop).ok_or(())
    }
}
