//! Where the regions of a shard are mapped, so that a lookup has its buckets fetched before it does anything else.
//!
//! Until a lookup may look at memory it has things to do that take as long as a third of a miss: it says that it is
//! under way, and sees to it that the mapping stays and that the session is the right one. None of that is needed for
//! a prefetch, and all of it can be done while the memory is on its way.
//!
//! What always holds: what is here is a hint. If it is not true any more, the lookup takes longer.

use barn_fabric::{Whereabouts, Words};
use barn_layout::Address;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Regions that are told apart, by the last bits of their numbers: 16 GiB of the longest.
const SPOTS: usize = 8;

/// Where regions are mapped.
#[derive(Debug)]
pub(crate) struct Near([Spot; SPOTS]);

/// Where one region is; region 0 is nowhere.
#[derive(Debug, Default)]
struct Spot {
    region: AtomicU32,
    at: AtomicU64,
}

impl Default for Near {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Spot::default()))
    }
}

/// Of a copy nothing is known yet.
impl Clone for Near {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Near {
    #[inline]
    fn spot(&self, at: Address) -> &Spot {
        &self.0[at.region().0 as usize % SPOTS]
    }

    /// Asks the CPU for bytes that are going to be read; false if it is not known where they are.
    #[inline]
    pub(crate) fn prefetch(&self, at: Address, bytes: usize) -> bool {
        let spot = self.spot(at);
        // ORDER: Relaxed, both: a hint. What is not of this region is fetched for nothing.
        if spot.region.load(Ordering::Relaxed) != at.region().0 {
            return false;
        }
        Whereabouts::from_bits(spot.at.load(Ordering::Relaxed)).prefetch(u64::from(at.offset()), bytes);
        true
    }

    /// Takes note of where the region of `at` is.
    #[cold]
    pub(crate) fn learn(&self, at: Address, words: &Words) {
        let spot = self.spot(at);
        // ORDER: Relaxed, both: as above.
        spot.at.store(words.whereabouts().to_bits(), Ordering::Relaxed);
        spot.region.store(at.region().0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_layout::RegionId;

    #[test]
    fn a_region_is_fetched_from_once_it_is_known_where_it_is() {
        let (near, words) = (Near::default(), Words::private(4096));
        let [one, other] = [1, 1 + SPOTS as u32].map(|region| Address::new(RegionId(region), 64));
        assert!(!near.prefetch(one, 64));
        near.learn(one, &words);
        assert!(near.prefetch(one, 64) && !near.prefetch(other, 64));
        let copy = near.clone();
        near.learn(other, &words);
        assert!(near.prefetch(other, 64) && !near.prefetch(one, 64), "they share a spot");
        assert!(!copy.prefetch(one, 64), "a copy has yet to learn it");
    }
}
