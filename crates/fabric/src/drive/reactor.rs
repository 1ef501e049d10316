//! The one thread of the process that watches what nobody watches in place.
//!
//! It notices at once when a shm peer dies, takes the answers of the control path, drives
//! connections for operations that an async runtime polls, and wakes them at their deadlines.
//! It sleeps in epoll and costs nothing while nothing happens. Data operations that a thread
//! drives in place never come near it.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Waker;
use std::time::Instant;

/// Something that the reactor watches a descriptor for.
pub(crate) trait Source: Send + Sync {
    /// The descriptor registered under `role` is readable, or its other end is gone.
    fn ready(&self, role: u8);
}

/// A watch on one descriptor; ends when dropped.
pub(crate) struct Watch {
    token: u64,
    descriptor: Arc<OwnedFd>,
    reactor: &'static Reactor,
}

pub(crate) struct Reactor {
    epoll: OwnedFd,
    bell: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    sources: HashMap<u64, (Weak<dyn Source>, u8)>,
    timers: BinaryHeap<Reverse<(Instant, u64)>>,
    wakers: HashMap<u64, Waker>,
}

const BELL: u64 = 0;

/// The process's reactor; its thread starts at the first use.
pub(crate) fn reactor() -> Result<&'static Reactor, Errno> {
    static REACTOR: OnceLock<Result<Reactor, Errno>> = OnceLock::new();
    static THREAD: OnceLock<()> = OnceLock::new();
    let reactor = REACTOR.get_or_init(Reactor::new).as_ref().map_err(|error| *error)?;
    THREAD.get_or_init(|| {
        std::thread::Builder::new()
            .name("barn-reactor".into())
            .spawn(|| reactor.run())
            .expect("the process may start a thread");
    });
    Ok(reactor)
}

impl Reactor {
    fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Self { epoll, bell, state: Mutex::new(State { next: BELL + 1, ..State::default() }) })
    }

    /// Watches `descriptor` until the watch is dropped. `once`: only after each [`Watch::arm`].
    pub(crate) fn watch(
        &'static self,
        descriptor: Arc<OwnedFd>,
        source: Weak<dyn Source>,
        role: u8,
        once: bool,
    ) -> Result<Watch, Errno> {
        let token = {
            let mut state = self.lock();
            state.next += 1;
            let token = state.next;
            state.sources.insert(token, (source, role));
            token
        };
        let flags = if once { EventFlags::ONESHOT } else { EventFlags::IN | EventFlags::RDHUP };
        let watch = Watch { token, descriptor, reactor: self };
        epoll::add(&self.epoll, watch.descriptor.as_fd(), EventData::new_u64(token), flags)?;
        Ok(watch)
    }

    /// Calls `waker` at `when`, or soon after; gives what [`Self::forget`] takes.
    pub(crate) fn wake_at(&self, when: Instant, waker: Waker) -> u64 {
        let (token, first) = {
            let mut state = self.lock();
            state.next += 1;
            let token = state.next;
            state.wakers.insert(token, waker);
            state.timers.push(Reverse((when, token)));
            (token, state.timers.peek().is_some_and(|Reverse((_, first))| *first == token))
        };
        if first {
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
        token
    }

    /// Nobody need be woken any more. Of the timer 24 bytes stay until it is due.
    pub(crate) fn forget(&self, timer: u64) {
        self.lock().wakers.remove(&timer);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(64);
        loop {
            let timeout = self.fire_timers().map(|wait| Timespec {
                tv_sec: wait.as_secs() as i64,
                tv_nsec: i64::from(wait.subsec_nanos()),
            });
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // The descriptor is ours and open: there is no other error to meet here.
                Err(error) => unreachable!("epoll_wait: {error}"),
            }
            for event in &events {
                let token = event.data.u64();
                if token == BELL {
                    let mut rung = [0; 8];
                    let _ = rustix::io::read(&self.bell, &mut rung);
                    continue;
                }
                let source = self.lock().sources.get(&token).cloned();
                if let Some((source, role)) = source
                    && let Some(source) = source.upgrade()
                {
                    source.ready(role);
                }
            }
        }
    }

    /// Wakes whoever is due; says how long until the next is.
    fn fire_timers(&self) -> Option<std::time::Duration> {
        let now = Instant::now();
        let mut due = Vec::new();
        let wait = {
            let mut state = self.lock();
            while let Some(Reverse((when, token))) = state.timers.peek().copied() {
                if when > now {
                    break;
                }
                state.timers.pop();
                due.extend(state.wakers.remove(&token));
            }
            state.timers.peek().map(|Reverse((when, _))| *when - now)
        };
        due.into_iter().for_each(Waker::wake);
        wait
    }
}

impl Watch {
    /// Asks for one more event of a `once` watch.
    pub(crate) fn arm(&self) -> Result<(), Errno> {
        self.arm_for(false)
    }

    /// The same; with `room` also for the event that there is room to send.
    pub(crate) fn arm_for(&self, room: bool) -> Result<(), Errno> {
        let mut flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        flags.set(EventFlags::OUT, room);
        let data = EventData::new_u64(self.token);
        epoll::modify(&self.reactor.epoll, self.descriptor.as_fd(), data, flags)
    }
}

impl Watch {
    /// Ends the watch: no more events.
    pub(crate) fn stop(&self) {
        let _ = epoll::delete(&self.reactor.epoll, self.descriptor.as_fd());
        self.reactor.lock().sources.remove(&self.token);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}
