//! The three calling styles, over one implementation of every operation.
//!
//! Each operation is a future. [`block_on`] polls one in place: no thread hop, no allocation;
//! it spins while an answer is near and sleeps when it is not. [`Pipeline`] interleaves N on
//! one thread, so that round trips (and, on shm, cache misses) overlap. Any async runtime can
//! poll them too; then the process's one reactor thread watches for answers.
//!
//! What a leaf future needs to know about who polls it is in a thread-local [`Driver`]:
//! - *in place*: nobody else will drive the connection, so `poll` does;
//! - *interleaved*: others can run meanwhile, so a shm READ first prefetches and yields;
//! - *alone*: nothing else will be posted in this sweep, so that a lone operation leaves at once;
//! - *parking*: the driver is about to sleep and collects what to sleep on.

mod block_on;
mod pipeline;
pub(crate) mod reactor;

#[cfg(feature = "verbs")]
pub(crate) use block_on::wait_for_device;
pub use block_on::{block_on, block_on_alone};
pub use pipeline::Pipeline;

use barn_layout::planted;
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// Something that a driver can sleep on: a connection with an answer outstanding.
pub(crate) trait Sleeper: Send + Sync {
    /// The descriptor that becomes readable when there is something to do.
    fn descriptor(&self) -> &OwnedFd;
    /// Whether there is something to do also when the descriptor has room for what is to be sent.
    fn wants_room(&self) -> bool {
        false
    }
    /// Called after a sleep, before the next poll.
    fn awake(&self);
}

/// What a driver that is about to sleep has collected.
#[derive(Default)]
struct Parking {
    sleepers: Vec<Arc<dyn Sleeper>>,
    /// A leaf found something to do after all.
    ready: bool,
    timeout: Option<Duration>,
}

struct Driver {
    in_place: Cell<bool>,
    interleaved: Cell<bool>,
    alone: Cell<bool>,
    corked: Cell<bool>,
    /// Whether `PARKING` holds something: what every poll asks.
    parking: Cell<bool>,
    /// Changes with every sweep over the futures, on every thread.
    sweep: Cell<u64>,
}

thread_local! {
    static DRIVER: Driver = const {
        Driver {
            in_place: Cell::new(false),
            interleaved: Cell::new(false),
            alone: Cell::new(false),
            corked: Cell::new(false),
            parking: Cell::new(false),
            sweep: Cell::new(0),
        }
    };
    /// Apart from the flags: what needs no destructor costs no check at each use.
    static PARKING: RefCell<Parking> = RefCell::default();
}

/// Hands every thread a range of sweep numbers, so that a connection that two threads share
/// never takes one's sweep for the other's. 2^40 sweeps at 10 ns each last three hours; past
/// that the number may coincide with another thread's, which costs one skipped look.
static NEXT_RANGE: AtomicU64 = AtomicU64::new(1);
const RANGE: u64 = 1 << 40;

/// Whether whoever polls now drives connections in place.
#[inline]
pub(crate) fn in_place() -> bool {
    DRIVER.with(|driver| driver.in_place.get())
}

/// Whether other operations can run on this thread while one waits for memory.
#[inline]
pub(crate) fn interleaved() -> bool {
    DRIVER.with(|driver| driver.interleaved.get())
}

/// Whether the operation that is polled is all there is: whatever waited for more to be posted would
/// wait in vain.
#[inline]
pub(crate) fn alone() -> bool {
    DRIVER.with(|driver| driver.alone.get())
}

/// The number of the sweep that polls now; 0 outside any.
#[inline]
pub(crate) fn sweep() -> u64 {
    DRIVER.with(|driver| if driver.in_place.get() { driver.sweep.get() } else { 0 })
}

fn next_sweep() {
    DRIVER.with(|driver| {
        let sweep = driver.sweep.get();
        let next = if sweep.is_multiple_of(RANGE) {
            NEXT_RANGE.fetch_add(1, Ordering::Relaxed).wrapping_mul(RANGE) + 1
        } else {
            sweep + 1
        };
        driver.sweep.set(next);
    });
}

/// Whether the driver is collecting what to sleep on.
#[inline]
pub(crate) fn parking() -> bool {
    DRIVER.with(|driver| driver.parking.get())
}

/// Tells a driver that is about to sleep what to sleep on: `None` if there is something to do
/// after all.
pub(crate) fn park_on(sleeper: Option<Arc<dyn Sleeper>>, timeout: Option<Duration>) {
    if !parking() {
        return;
    }
    PARKING.with(|parking| {
        let mut parking = parking.borrow_mut();
        match sleeper {
            None => parking.ready = true,
            Some(sleeper) if parking.sleepers.iter().any(|known| Arc::ptr_eq(known, &sleeper)) => {}
            Some(sleeper) => parking.sleepers.push(sleeper),
        }
        parking.timeout = match (parking.timeout, timeout) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
    });
}

/// Something is on its way of which nobody will wake anybody, such as what is fetched into the cache: whoever
/// is about to sleep polls again instead.
#[inline]
pub(crate) fn poll_again() {
    if parking() && !planted("fetch_slept_on") {
        park_on(None, None);
    }
}

/// Memory was asked for that others of this thread need not wait for: they run once, if there are any.
#[derive(Debug, Default)]
#[must_use = "a future does nothing unless it is driven"]
pub struct Fetching {
    others_ran: bool,
}

impl Future for Fetching {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.others_ran || !interleaved() {
            return Poll::Ready(());
        }
        self.others_ran = true;
        poll_again();
        Poll::Pending
    }
}

/// Runs `poll` as the last look before a sleep; gives what it said to sleep on.
fn collect_parking<T>(poll: impl FnOnce() -> T) -> (T, Parking) {
    DRIVER.with(|driver| driver.parking.set(true));
    next_sweep();
    let polled = poll();
    DRIVER.with(|driver| driver.parking.set(false));
    (polled, PARKING.take())
}

/// Runs `poll` with nothing interleaved and nothing sent off on its own: what is posted in it
/// keeps its order, and leaves in one piece.
pub(crate) fn in_order<T>(poll: impl FnOnce() -> T) -> T {
    let was = DRIVER.with(|driver| (driver.interleaved.replace(false), driver.corked.replace(true)));
    let polled = poll();
    DRIVER.with(|driver| {
        driver.interleaved.set(was.0);
        driver.corked.set(was.1);
    });
    polled
}

/// Whether more is about to be posted, so that a transport had better wait before it sends.
pub(crate) fn corked() -> bool {
    DRIVER.with(|driver| driver.corked.get() || driver.in_place.get())
}

/// Marks this thread as a driver for as long as it lives.
struct Driving {
    was: (bool, bool, bool),
}

impl Driving {
    fn start(interleaved: bool, alone: bool) -> Self {
        DRIVER.with(|driver| Self {
            was: (
                driver.in_place.replace(true),
                driver.interleaved.replace(interleaved),
                driver.alone.replace(alone),
            ),
        })
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        DRIVER.with(|driver| {
            driver.in_place.set(self.was.0);
            driver.interleaved.set(self.was.1);
            driver.alone.set(self.was.2);
        });
    }
}
