//! A node's memory, taken when it starts.

use crate::error::Error;
use barn_fabric::{Region, RegionOptions, Rights};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that take memory, at the most: more than these clear pages no faster than the memory is.
const THREADS_MAX: usize = 4;

/// Regions of these lengths. By several threads: what takes the time is that the kernel clears the pages.
pub(super) fn allocate(lengths: &[u64]) -> Result<Vec<Region>, Error> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let take = || {
        let mut taken = Vec::new();
        loop {
            // ORDER: Relaxed: a number that each thread takes for itself.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(bytes) = lengths.get(at).copied() else { return Ok(taken) };
            let wanted = RegionOptions { bytes, remote: Rights::READ, huge: true };
            match Region::allocate(&wanted) {
                Ok(region) => taken.push((at, region)),
                Err(error) => {
                    // ORDER: Relaxed, as above: nobody begins another.
                    next.store(lengths.len(), Ordering::Relaxed);
                    return Err(Error::Node(error.to_string()));
                }
            }
        }
    };
    let mut regions = std::thread::scope(|scope| {
        let threads = cores.min(THREADS_MAX).min(lengths.len());
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut regions = take()?;
        for other in others {
            let panicked = |_| Error::Node("a thread that took memory panicked".into());
            regions.extend(other.join().map_err(panicked)??);
        }
        Ok::<_, Error>(regions)
    })?;
    regions.sort_unstable_by_key(|(at, _)| *at);
    Ok(regions.into_iter().map(|(_, region)| region).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_come_in_the_order_that_was_asked_for() {
        let lengths: Vec<u64> = (1..=9).map(|pages| pages * 4096).collect();
        let regions = allocate(&lengths).unwrap();
        assert_eq!(regions.iter().map(Region::bytes).collect::<Vec<_>>(), lengths);
        assert!(allocate(&[]).unwrap().is_empty());
    }

    #[test]
    fn one_that_cannot_be_had_is_an_error() {
        assert!(allocate(&[4096, 0, 4096]).is_err());
        assert!(allocate(&[4096, u64::MAX]).is_err());
    }
}
