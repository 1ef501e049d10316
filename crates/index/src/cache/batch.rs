//! Lookups of many keys in memory that is mapped: the misses of all of them at the same time.
//!
//! Three passes over a group of keys: ask for the buckets, ask for the entries, read the entries. Each
//! key gets one try; what a writer was in the way of is left to [`Roots::lookup`].

use super::entry::HEADER_BYTES;
use super::index;
use super::lookup::{FIRST_READ_BYTES, Judged, line_of};
use super::roots::Roots;
use super::space::{Place, Spot};
use crate::client::memory::{Memory, Unreadable};
use crate::key::{Found, Key, Looked};
use barn_layout::RegionId;
use barn_layout::limits::LINE_BYTES;

/// How many keys are under way together: as many as the CPU has misses under way, and some.
const GROUP: usize = 16;

impl Roots {
    /// Looks keys up in mapped memory: for each what came of it, and what was found. Adds the READs that
    /// it made to `reads`. [`Looked::Unsettled`] where memory is not mapped, or a writer was there.
    pub fn lookup_batch_mapped<M: Memory>(
        &self,
        memory: &M,
        keys: &[Key<'_>],
        found: &mut [Found],
        looked: &mut [Looked],
        reads: &mut u64,
    ) -> Result<(), Unreadable> {
        looked.fill(Looked::Unsettled);
        let mut touched = Vec::new();
        let groups = keys.chunks(GROUP).zip(found.chunks_mut(GROUP)).zip(looked.chunks_mut(GROUP));
        for ((keys, found), looked) in groups {
            self.look_up_group(memory, keys, found, looked, (&mut touched, reads));
        }
        touched.into_iter().try_for_each(|region| memory.believe(region))
    }

    fn look_up_group<M: Memory>(
        &self,
        memory: &M,
        keys: &[Key<'_>],
        found: &mut [Found],
        looked: &mut [Looked],
        (touched, reads): (&mut Vec<RegionId>, &mut u64),
    ) {
        let mut spots = [None; GROUP];
        for (key, spot) in keys.iter().zip(&mut spots) {
            let Spot { bucket, tag } = self.space.spot(key.hash);
            let place = self.space.find(self.space.bucket_at(bucket));
            if let Some(place) = place
                && let Some(words) = memory.mapped(place.address.region())
            {
                words.prefetch(u64::from(place.address.offset()), LINE_BYTES);
                *spot = Some((place, tag));
            }
        }
        let mut entries = [None; GROUP];
        for ((spot, entry), looked) in spots.iter().zip(&mut entries).zip(&mut *looked) {
            let Some((place, tag)) = *spot else { continue };
            let mut bytes = [0; LINE_BYTES];
            if load(memory, place, &mut bytes, (touched, reads)).is_none() {
                continue;
            }
            let Some(word) = line_of(&bytes).word(tag) else {
                *looked = Looked::Absent;
                continue;
            };
            *entry = self.space.offset(index::position(word)).and_then(|offset| {
                let place = self.space.find(self.space.log_at(offset))?;
                let first = FIRST_READ_BYTES.min(place.rest as usize);
                memory.mapped(place.address.region())?.prefetch(u64::from(place.address.offset()), first);
                Some((word, offset, place))
            });
        }
        let each = keys.iter().zip(found).zip(looked);
        for (((key, found), looked), entry) in each.zip(entries) {
            let Some((word, offset, place)) = entry else { continue };
            match self.load_entry(memory, *key, (word, offset, place), found, (touched, reads)) {
                Some(Judged::Ours) => *looked = Looked::Found,
                Some(Judged::Another) => *looked = Looked::Absent,
                Some(Judged::Broken) | None => {}
            }
        }
    }

    #[inline]
    fn load_entry<M: Memory>(
        &self,
        memory: &M,
        key: Key<'_>,
        (word, offset, place): (u64, u64, Place),
        found: &mut Found,
        (touched, reads): (&mut Vec<RegionId>, &mut u64),
    ) -> Option<Judged> {
        let bytes = &mut found.value;
        bytes.resize(HEADER_BYTES, 0);
        load(memory, place, bytes, (touched, reads))?;
        let whole = self.expected_bytes(bytes, word)?;
        bytes.resize(whole, 0);
        let mut rest = &mut bytes[..];
        for (piece, piece_bytes) in self.space.pieces(offset, whole as u64)? {
            let (now, after) = rest.split_at_mut(piece_bytes);
            load(memory, piece, now, (touched, reads))?;
            rest = after;
        }
        // Header and rest were counted as two, and are one.
        *reads -= 1;
        Some(self.judge(key, word, found))
    }
}

/// Loads bytes that lie together.
#[inline]
fn load<M: Memory>(
    memory: &M,
    place: Place,
    into: &mut [u8],
    (touched, reads): (&mut Vec<RegionId>, &mut u64),
) -> Option<()> {
    let region = place.address.region();
    memory.mapped(region)?.load(u64::from(place.address.offset()), into).ok()?;
    if !touched.contains(&region) {
        touched.push(region);
    }
    *reads += 1;
    Some(())
}
