//! The whole loop of a node, on one screen.

use super::{BELL, Node, NodeError};
use crate::service::{Outbox, Service};
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the loop goes on sweeping after the last work: longer than a spinning client takes
/// to send its next request, short enough that an idle node costs nothing.
pub(crate) const SPIN: Duration = Duration::from_micros(50);
/// How long a busy loop leaves sockets unlooked at while tcp peers are connected: a look at epoll
/// costs about 0.7 µs, so that it spends 3 % on them.
const LOOK_EVERY: Duration = Duration::from_micros(20);
/// The same while there are only shm peers, whose messages need no look: newcomers, deaths and
/// regions to open wait no longer than this.
const LOOK_SELDOM: Duration = Duration::from_micros(100);
/// Empty sweeps before the CPU is told that we spin: a pause costs 140 cycles, and the next
/// request should not wait for its end.
const SWEEPS_WITHOUT_PAUSE: u32 = 64;
/// Empty sweeps, about 3 µs of them, before others may have the core: where there are more threads
/// than cores, whoever is to send the next request may be waiting for ours.
const SWEEPS_WITHOUT_YIELD: u32 = 128;
/// Sweeps between two such offers, each of which costs 0.3 µs.
const SWEEPS_PER_YIELD: u32 = 16;
/// Events that one look takes; the rest wait for the next.
const EVENTS_PER_LOOK: usize = 64;
/// Sweeps between two looks at the clock (about 25 ns).
const SWEEPS_PER_CLOCK: u32 = 32;

/// Stops a node's loop, from any thread. Clones are the same.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    outbox: Arc<Outbox>,
}

impl Stopper {
    pub(super) fn new(outbox: Arc<Outbox>) -> Self {
        Self { stop: Arc::default(), outbox }
    }

    /// Makes [`Node::run`] return soon.
    pub fn stop(&self) {
        // SYNC: Release, pairs with the Acquire load in `is_stopped`.
        self.stop.store(true, Ordering::Release);
        self.outbox.ring();
    }

    /// Whether the node was told to stop.
    pub fn is_stopped(&self) -> bool {
        // SYNC: Acquire, pairs with the Release store in `stop`.
        self.stop.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Stopper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stopper({})", self.is_stopped())
    }
}

impl Node {
    /// Serves until stopped: sweeps while there is work, sleeps when there is none.
    pub fn run(&mut self, service: &mut dyn Service) -> Result<(), NodeError> {
        let (mut sweeps, mut looked, mut busy) = (0u32, Instant::now(), Instant::now());
        let mut events = Vec::with_capacity(EVENTS_PER_LOOK);
        // Whether nothing was done since the last look at the clock, and for how many sweeps.
        let (mut idle, mut empty) = (true, 0u32);
        while !self.stopper.is_stopped() {
            let mut work = self.sweep(service);
            sweeps = sweeps.wrapping_add(1);
            empty = if work == 0 { empty + 1 } else { 0 };
            if empty == 1 {
                service.pause();
            }
            if empty > SWEEPS_WITHOUT_PAUSE {
                std::hint::spin_loop();
                if empty > SWEEPS_WITHOUT_YIELD && empty.is_multiple_of(SWEEPS_PER_YIELD) {
                    std::thread::yield_now();
                }
            }
            if !sweeps.is_multiple_of(SWEEPS_PER_CLOCK) {
                idle = idle && work == 0;
                continue;
            }
            let now = Instant::now();
            let events_wait = self.ports.iter().any(|port| port.needs_events());
            if now - looked >= if events_wait { LOOK_EVERY } else { LOOK_SELDOM } {
                looked = now;
                work += self.take_events(service, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            }
            if work > 0 || !idle {
                (busy, idle) = (now, true);
                // What came by an event is work as well.
                empty = if work > 0 { 0 } else { empty };
            } else if now - busy >= SPIN {
                self.sleep(service, &mut events)?;
                (busy, looked, empty) = (Instant::now(), Instant::now(), 0);
            }
        }
        Ok(())
    }

    /// One round by hand, for a program that has node and client on one thread and counts what each does:
    /// a look at everything that is busy, and at the sockets if there was nothing. Says how much was done.
    pub fn turn(&mut self, service: &mut dyn Service) -> Result<usize, NodeError> {
        let work = self.sweep(service);
        if work > 0 {
            return Ok(work);
        }
        service.pause();
        let mut events = Vec::with_capacity(EVENTS_PER_LOOK);
        self.take_events(service, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    fn sleep(&mut self, service: &mut dyn Service, events: &mut Vec<Event>) -> Result<(), NodeError> {
        service.idle();
        self.ports.iter_mut().for_each(|port| port.before_sleep(&mut self.core));
        // Whoever spoke before the ports said that they sleep has not rung: look once more.
        if self.sweep(service) == 0 && !self.stopper.is_stopped() {
            self.core.stats.sleeps.fetch_add(1, Ordering::Relaxed);
            self.take_events(service, events, None)?;
        }
        self.ports.iter_mut().for_each(|port| port.after_sleep(&mut self.core));
        Ok(())
    }

    fn take_events(
        &mut self,
        service: &mut dyn Service,
        events: &mut Vec<Event>,
        timeout: Option<&Timespec>,
    ) -> Result<usize, NodeError> {
        events.clear();
        match epoll::wait(&self.core.epoll, rustix::buffer::spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &*events {
            let (data, flags): (u64, EventFlags) = (event.data.u64(), event.flags);
            if data == BELL {
                let mut rung = [0; 8];
                let _ = rustix::io::read(&self.core.bell, &mut rung);
                self.send_outgoing();
            } else if let Some(port) = self.ports.get_mut((data >> 56) as usize) {
                port.event(&mut self.core, service, data & ((1 << 56) - 1), flags);
            }
        }
        Ok(events.len())
    }
}
