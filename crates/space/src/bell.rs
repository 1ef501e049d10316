//! Wakes a task that waits for a time, before the time is over.
//!
//! What always holds: a bell that was rung before or during a wait ends it; one ring ends one wait.

use barn_fabric::seam::Task;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

/// A bell that one task listens to and anybody rings.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl Bell {
    /// Ends the wait that is under way, or else the next.
    pub(crate) fn ring(&self) {
        // SYNC: Release, pairs with the swap in `heard`: what came before the ring is seen after it.
        self.rung.store(true, Ordering::Release);
        let listener = self.listener.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        listener.into_iter().for_each(Waker::wake);
    }

    fn heard(&self) -> bool {
        // SYNC: Acquire, pairs with the store in `ring`.
        self.rung.swap(false, Ordering::Acquire)
    }

    /// Waits for the bell, or until `sleep` is over; says whether it was the bell.
    pub(crate) async fn wait(&self, mut sleep: Task) -> bool {
        self.or(std::future::poll_fn(move |cx| sleep.as_mut().poll(cx))).await.is_none()
    }

    /// Waits for the bell or for `other`, whichever comes first; nothing if it was the bell.
    pub(crate) async fn or<F: Future>(&self, other: F) -> Option<F::Output> {
        let mut other = std::pin::pin!(other);
        std::future::poll_fn(|cx| {
            {
                let mut listener = self.listener.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // The listener first: a ring after this wakes us, and one before is seen below.
                *listener = Some(cx.waker().clone());
            }
            if self.heard() {
                return Poll::Ready(None);
            }
            other.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_fabric::block_on;
    use barn_fabric::seam::{Schedule, Threads};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_ring_ends_a_wait_that_would_have_been_long() {
        let bell = Arc::new(Bell::default());
        let ringer = bell.clone();
        let thread = std::thread::spawn(move || ringer.ring());
        assert!(block_on(bell.wait(Threads.sleep(Duration::from_secs(3600)))));
        thread.join().unwrap();
    }

    #[test]
    fn a_wait_that_nobody_ends_ends_by_itself() {
        assert!(!block_on(Bell::default().wait(Threads.sleep(Duration::from_millis(1)))));
    }

    #[test]
    fn what_is_ready_counts_unless_the_bell_came_first() {
        let bell = Bell::default();
        assert_eq!(block_on(bell.or(std::future::ready(5))), Some(5));
        bell.ring();
        assert_eq!(block_on(bell.or(std::future::ready(5))), None);
        assert_eq!(block_on(bell.or(std::future::ready(5))), Some(5), "one ring ended two waits");
    }
}
