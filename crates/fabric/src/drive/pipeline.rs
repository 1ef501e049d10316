//! Runs many futures at once on this thread, N in flight.

use super::block_on::{Idle, Waiting};
use super::{Driving, collect_parking, next_sweep};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Fewer than so many prefetches do not keep the memory busy.
const GROUP_MIN: usize = 8;

/// N places for operations in flight, kept from run to run so that nothing is allocated.
///
/// ```
/// use barn_fabric::Pipeline;
/// let mut pipeline = Pipeline::new(16);
/// let mut sum = 0;
/// pipeline.run((0..100).map(|i| async move { i * 2 }), |doubled| sum += doubled);
/// assert_eq!(sum, 9900);
/// ```
pub struct Pipeline<F: Future> {
    places: Vec<Pin<Box<Option<F>>>>,
}

impl<F: Future> Pipeline<F> {
    /// A pipeline with `window` operations in flight; at least one.
    pub fn new(window: usize) -> Self {
        Self { places: (0..window.max(1)).map(|_| Box::pin(None)).collect() }
    }

    /// Runs every future that `next` gives, and hands each result to `done`, in the order in
    /// which they finish.
    pub fn run(&mut self, next: impl IntoIterator<Item = F>, mut done: impl FnMut(F::Output)) {
        let mut next = next.into_iter().fuse();
        let interleaved = self.places.len() > 1;
        let _driving = Driving::start(interleaved, false);
        Waiting::with(|waiting| {
            let mut cx = Context::from_waker(&waiting.waker);
            let mut idle = Idle::start();
            loop {
                next_sweep();
                let (running, finished) = self.sweep(&mut next, &mut done, &mut cx);
                if running == 0 {
                    return;
                }
                if finished > 0 {
                    idle.busy();
                } else if idle.should_sleep() {
                    let ((_, finished), parking) =
                        collect_parking(|| self.sweep(&mut next, &mut done, &mut cx));
                    if finished > 0 {
                        parking.sleepers.iter().for_each(|sleeper| sleeper.awake());
                    } else {
                        waiting.sleep(parking);
                    }
                    idle.slept();
                }
            }
        })
    }

    /// Polls every place once, group by group: first those under way, then those that take a new operation.
    ///
    /// The starts of a group stand together because a shm READ starts with a prefetch: many of them close
    /// behind one another let the CPU walk the page tables for all of them at once, where
    /// prefetches far apart wait for one walk after the other (three times slower on 4 KiB pages). There are
    /// two groups, so that one's memory is fetched while the other's is copied.
    #[inline(always)]
    fn sweep(
        &mut self,
        next: &mut impl Iterator<Item = F>,
        done: &mut impl FnMut(F::Output),
        cx: &mut Context<'_>,
    ) -> (usize, usize) {
        let (mut running, mut finished) = (0, 0);
        let group = self.places.len().div_ceil(2).max(GROUP_MIN);
        'groups: for group in self.places.chunks_mut(group) {
            let before = running;
            for place in &mut *group {
                let Some(future) = place.as_mut().as_pin_mut() else { continue };
                match future.poll(cx) {
                    Poll::Pending => running += 1,
                    Poll::Ready(output) => {
                        place.set(None);
                        done(output);
                        finished += 1;
                    }
                }
            }
            if running - before == group.len() {
                continue;
            }
            for place in &mut *group {
                while place.is_none() {
                    let Some(future) = next.next() else { continue 'groups };
                    place.set(Some(future));
                    let Some(future) = place.as_mut().as_pin_mut() else { break };
                    match future.poll(cx) {
                        Poll::Pending => running += 1,
                        Poll::Ready(output) => {
                            place.set(None);
                            done(output);
                            finished += 1;
                        }
                    }
                }
            }
        }
        (running, finished)
    }
}

impl<F: Future> std::fmt::Debug for Pipeline<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").field("window", &self.places.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn no_more_than_the_window_are_in_flight() {
        let (now, most) = (Cell::new(0), Cell::new(0));
        let operation = |i: u32| {
            let (now, most) = (&now, &most);
            async move {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                let mut yields = i % 5;
                std::future::poll_fn(|_| {
                    if yields == 0 {
                        return Poll::Ready(());
                    }
                    yields -= 1;
                    Poll::Pending
                })
                .await;
                now.set(now.get() - 1);
                i
            }
        };
        let mut seen = Vec::new();
        Pipeline::new(7).run((0..1000).map(operation), |i| seen.push(i));
        assert_eq!(most.get(), 7);
        seen.sort_unstable();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    }
}
