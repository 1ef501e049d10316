//! Runs one future to its end on this thread: spins while the answer is near, then sleeps.

use super::{Driving, Parking, collect_parking, next_sweep};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::cell::{Cell, OnceCell};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// The longest spin before a sleep: five times what waking a sleeper costs (about 10 µs), so
/// that an answer that was near is never paid for with a wake.
const SPIN_MAX: Duration = Duration::from_micros(50);
/// The same where a device answers, which may be slower than that and yet far nearer than a sleep's
/// end: software RoCE on a slow processor.
const SPIN_MAX_DEVICE: Duration = Duration::from_micros(400);
/// The shortest: a thread whose answers are always far away wastes no more than this.
const SPIN_MIN: Duration = Duration::from_micros(2);
/// A sleep shorter than this would have been better spent spinning.
const SLEEP_SHORT: Duration = Duration::from_micros(100);
/// Polls before the CPU is told that we spin: a pause costs 140 cycles (Intel, since Skylake), and
/// an answer that is near should not wait for its end.
const POLLS_WITHOUT_PAUSE: u32 = 64;
/// Polls, about 3 µs of them, before others may have the core: whoever is to answer may be waiting
/// for it where there are more threads than cores.
const POLLS_WITHOUT_YIELD: u32 = 128;
/// Looks at the clock once in so many polls: a look costs as much as several polls.
const POLLS_PER_LOOK: u32 = 16;

/// Polls `future` in place until it is done.
///
/// This is the blocking style: the operation runs on this thread, with no hop to another and
/// no allocation. It may be used inside an async runtime's blocking section, not in a task.
pub fn block_on<F: Future>(future: F) -> F::Output {
    drive(future, false)
}

/// As [`block_on`], of operations one after another: nothing is posted together with another, so that each leaves at
/// once, and its answer is waited for before anything else is looked at.
pub fn block_on_alone<F: Future>(future: F) -> F::Output {
    drive(future, true)
}

fn drive<F: Future>(future: F, alone: bool) -> F::Output {
    let mut future = pin!(future);
    let _driving = Driving::start(false, alone);
    next_sweep();
    // Most shm operations are done at the first poll, before any waker is needed.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    Waiting::with(|waiting| {
        let mut cx = Context::from_waker(&waiting.waker);
        let mut idle = Idle::start();
        loop {
            next_sweep();
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            if idle.should_sleep() {
                let (polled, parking) = collect_parking(|| future.as_mut().poll(&mut cx));
                if let Poll::Ready(output) = polled {
                    parking.sleepers.iter().for_each(|sleeper| sleeper.awake());
                    return output;
                }
                waiting.sleep(parking);
                idle.slept();
            }
        }
    })
}

thread_local! {
    /// How long this thread spins: learned from how its sleeps went.
    static SPIN: Cell<Duration> = const { Cell::new(SPIN_MAX) };
    /// Whether this thread waits for a device.
    static DEVICE: Cell<bool> = const { Cell::new(false) };
    static WAITING: OnceCell<Waiting> = const { OnceCell::new() };
}

/// This thread waits for a device: it may spin for longer, if that is seen to pay, and does not pause, as
/// nobody does who polls a device's queue (an emulated processor leaves its loop for every pause).
#[cfg_attr(not(feature = "verbs"), expect(dead_code, reason = "only verbs has a device"))]
#[inline]
pub(crate) fn wait_for_device() {
    DEVICE.set(true);
}

/// Decides when spinning has been long enough.
pub(super) struct Idle {
    polls: u32,
    since: Option<Instant>,
}

impl Idle {
    pub(super) fn start() -> Self {
        Self { polls: 0, since: None }
    }

    /// Something happened: start counting anew.
    pub(super) fn busy(&mut self) {
        *self = Self::start();
    }

    pub(super) fn should_sleep(&mut self) -> bool {
        self.polls += 1;
        if self.polls > POLLS_WITHOUT_PAUSE {
            if !DEVICE.get() {
                std::hint::spin_loop();
            }
            if self.polls > POLLS_WITHOUT_YIELD && self.polls.is_multiple_of(POLLS_PER_LOOK) {
                std::thread::yield_now();
            }
        }
        if !self.polls.is_multiple_of(POLLS_PER_LOOK) {
            return false;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if now - since < SPIN.get() {
            return false;
        }
        self.since = Some(now);
        true
    }

    /// Learns from a sleep: a short one means that spinning longer pays, a long one that less does.
    pub(super) fn slept(&mut self) {
        let slept = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let spin = SPIN.get();
        let most = if DEVICE.get() { SPIN_MAX_DEVICE } else { SPIN_MAX };
        SPIN.set(if slept < SLEEP_SHORT { (spin * 2).min(most) } else { (spin / 2).max(SPIN_MIN) });
        self.busy();
    }
}

/// Wakes a thread that sleeps in `poll(2)`.
struct ThreadWaker {
    woken: AtomicBool,
    bell: OwnedFd,
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDER: AcqRel: what the waker did before is seen by the woken thread's next poll.
        if !self.woken.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// This thread's bell and the waker that rings it.
pub(super) struct Waiting {
    thread: Arc<ThreadWaker>,
    pub(super) waker: Waker,
}

impl Waiting {
    /// Runs `wait` with this thread's own, which is made at the first use and kept: a waker that
    /// is only borrowed costs no counting.
    pub(super) fn with<T>(wait: impl FnOnce(&Self) -> T) -> T {
        WAITING.with(|cell| {
            wait(cell.get_or_init(|| {
                let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                    .expect("the process has a descriptor left for a thread's bell");
                let thread = Arc::new(ThreadWaker { woken: AtomicBool::new(false), bell });
                Self { waker: thread.clone().into(), thread }
            }))
        })
    }

    /// Sleeps until a sleeper's descriptor is readable, the waker is called, or the time is up.
    pub(super) fn sleep(&self, parking: Parking) {
        if !parking.ready {
            let mut watched = Vec::with_capacity(parking.sleepers.len() + 1);
            watched.push(PollFd::from_borrowed_fd(self.thread.bell.as_fd(), PollFlags::IN));
            for sleeper in &parking.sleepers {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, sleeper.wants_room());
                watched.push(PollFd::from_borrowed_fd(sleeper.descriptor().as_fd(), flags));
            }
            let timeout = parking.timeout.map(|time| Timespec {
                tv_sec: time.as_secs().min(3600) as i64,
                tv_nsec: i64::from(time.subsec_nanos()),
            });
            // An interrupted poll is a short sleep: the next round tries again.
            let _ = poll(&mut watched, timeout.as_ref());
        }
        parking.sleepers.iter().for_each(|sleeper| sleeper.awake());
        // The bell first: one that is rung after `woken` was taken back is heard next time, and
        // one that is never silenced would keep this thread from ever sleeping again.
        let mut rung = [0; 8];
        let _ = rustix::io::read(&self.thread.bell, &mut rung);
        // ORDER: AcqRel, pairs with the swap in `wake_by_ref`.
        self.thread.woken.swap(false, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_future_that_another_thread_wakes_is_finished() {
        let slot: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let other = slot.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let mut state = other.lock().unwrap();
            state.0 = true;
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        });
        block_on(std::future::poll_fn(|cx| {
            let mut state = slot.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        }));
        thread.join().unwrap();
        assert!(slot.lock().unwrap().0);
    }
}
