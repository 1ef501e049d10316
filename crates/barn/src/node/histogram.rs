//! How long the node takes: a histogram of samples, kept by the poll loop alone.
//!
//! Log-linear: two buckets to every power of two, from 256 ns to half a second, so that a reading is
//! off by a quarter at most. One request in [`ONE_IN`] is timed: two looks at the clock, about 50 ns,
//! are then less than a nanosecond to each request.

use std::time::Duration;

/// Of so many requests one is timed, on average.
pub const ONE_IN: u32 = 64;
/// The first bucket ends at 2^8 ns.
const FIRST_BITS: u32 = 8;
/// The last one with an end, at 2^29 ns.
const LAST_BITS: u32 = 29;
/// Buckets with an end, and one for whatever is longer.
const BUCKETS: usize = ((LAST_BITS - FIRST_BITS) * 2 + 2) as usize;

/// Samples, by how long they took.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum: Duration::ZERO }
    }
}

/// The bucket of a time: the first whose end is not before it.
fn bucket(nanos: u64) -> usize {
    if nanos <= 1 << FIRST_BITS {
        return 0;
    }
    // Of what is just past an end, the end belongs to the bucket before.
    let below = nanos - 1;
    let bits = below.ilog2();
    let half = (below >> (bits - 1)) & 1;
    (((bits - FIRST_BITS) * 2 + half as u32 + 1) as usize).min(BUCKETS - 1)
}

/// Where a bucket ends, in nanoseconds.
fn end(at: usize) -> u64 {
    let (bits, half) = (FIRST_BITS + at as u32 / 2, at as u64 % 2);
    (1 << bits) + half * (1 << (bits - 1))
}

impl Histogram {
    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, time: Duration) {
        self.counts[bucket(time.as_nanos() as u64)] += 1;
        self.sum += time;
    }

    /// How many samples there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long they took, all together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// For each bucket with an end: the end, and how many samples took no longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let mut total = 0;
        (0..BUCKETS - 1).map(move |at| {
            total += self.counts[at];
            (Duration::from_nanos(end(at)), total)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_first_bucket_that_does_not_end_before_it() {
        let ends: Vec<u64> = (0..BUCKETS - 1).map(end).collect();
        assert!(ends.is_sorted_by(|one, next| one < next), "{ends:?}");
        assert_eq!((ends[0], ends[1], ends[2], ends[BUCKETS - 2]), (256, 384, 512, 1 << LAST_BITS));
        for probe in ends.iter().flat_map(|end| [end - 1, *end, end + 1]).chain([0, 1, 1 << 40, u64::MAX]) {
            let expected = ends.iter().position(|end| probe <= *end).unwrap_or(BUCKETS - 1);
            assert_eq!(bucket(probe), expected, "{probe} ns");
        }
    }

    #[test]
    fn samples_add_up() {
        let mut histogram = Histogram::default();
        for nanos in [100, 300, 300, 5_000, u64::MAX / 4] {
            histogram.add(Duration::from_nanos(nanos));
        }
        assert_eq!(histogram.count(), 5);
        let within = |nanos: u64| {
            histogram.cumulative().find(|(end, _)| end.as_nanos() as u64 >= nanos).map(|(_, count)| count)
        };
        assert_eq!((within(256), within(384), within(1 << 29)), (Some(1), Some(3), Some(4)));
    }
}
