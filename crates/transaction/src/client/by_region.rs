//! What belongs to each of some regions, found by the region's number.
//!
//! A lookup in a table that is spread over several regions goes to another one nearly every time, so that what is
//! decided by comparing numbers, one after the other, the CPU guesses wrong: some 20 cycles, and the misses that it
//! would have begun meanwhile. Numbers are given one after another; here each has its own place in an array, and the
//! first look nearly always hits.
//!
//! What always holds: at least half of the places are empty, so that every search ends.

use barn_layout::RegionId;

/// A map from regions.
#[derive(Clone, Debug)]
pub(crate) struct ByRegion<T> {
    /// A power of two of them; a region that finds its own place taken has the next free one.
    places: Vec<Option<(RegionId, T)>>,
    count: usize,
}

impl<T> Default for ByRegion<T> {
    fn default() -> Self {
        Self { places: vec_of_none(1), count: 0 }
    }
}

fn vec_of_none<T>(places: usize) -> Vec<Option<(RegionId, T)>> {
    (0..places).map(|_| None).collect()
}

impl<T> ByRegion<T> {
    /// What belongs to a region.
    #[inline]
    pub(crate) fn get(&self, region: RegionId) -> Option<&T> {
        let mut at = region.0 as usize;
        loop {
            match &self.places[at & (self.places.len() - 1)] {
                Some((known, of)) if *known == region => return Some(of),
                None => return None,
                Some(_) => at += 1,
            }
        }
    }

    /// Says what belongs to a region; what is known of it already stays.
    pub(crate) fn insert(&mut self, region: RegionId, of: T) {
        if self.get(region).is_some() {
            return;
        }
        if (self.count + 1) * 2 > self.places.len() {
            let places = vec_of_none(self.places.len() * 2);
            let before = std::mem::replace(&mut self.places, places);
            before.into_iter().flatten().for_each(|(region, of)| self.put(region, of));
        }
        self.put(region, of);
        self.count += 1;
    }

    /// Puts it where there is room, which there is.
    fn put(&mut self, region: RegionId, of: T) {
        let (first, mask) = (region.0 as usize, self.places.len() - 1);
        let free = (first..).map(|at| at & mask).find(|at| self.places[*at].is_none());
        let free = free.expect("half of the places are empty");
        self.places[free] = Some((region, of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_is_found_and_no_other() {
        let mut map = ByRegion::default();
        assert_eq!(map.get(RegionId(1)), None);
        // One after another, and such as want the same place.
        let numbers: Vec<u32> =
            (1..40).chain((1..20).map(|at| at << 16)).chain([u32::MAX, 1 << 31]).collect();
        for (at, number) in numbers.iter().enumerate() {
            map.insert(RegionId(*number), at);
            map.insert(RegionId(*number), usize::MAX);
            for (known, number) in numbers[..=at].iter().enumerate() {
                assert_eq!(map.get(RegionId(*number)), Some(&known), "{number} of {at}");
            }
            assert!(numbers[at + 1..].iter().all(|number| map.get(RegionId(*number)).is_none()));
            assert!(map.places.len().is_power_of_two() && map.count * 2 <= map.places.len());
        }
        assert!(map.get(RegionId(0)).is_none());
    }
}
