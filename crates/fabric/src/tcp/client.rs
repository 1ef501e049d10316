//! The client's side of a tcp connection.
//!
//! What always holds: what is posted in one sweep leaves in one `send`, at the next drive; at
//! most one drive happens in a sweep; what waits to leave is bounded ([`OUT_BYTES_MAX`] and one
//! message), and so is what nobody has taken; once the peer is gone every operation says so.

use super::intake::{Gone, Intake, Own};
use super::outbound::Outbound;
use super::stream::DIRECT_BYTES;
use crate::drive::reactor::{Source, Watch, reactor};
use crate::drive::{self, Sleeper};
use crate::link::{Trouble, Wait};
use crate::registry::PeerId;
use crate::slots::{Slots, Ticket};
use barn_layout::frame::FrameHeader;
#[cfg(feature = "verbs")]
use barn_layout::frame::{FrameKind, Outcome, RenewBody};
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Instant;
#[cfg(feature = "verbs")]
use {
    super::stream::header,
    zerocopy::{FromBytes, IntoBytes},
};

/// With so much waiting to leave, nothing more is posted: several times what a socket holds.
pub(super) const OUT_BYTES_MAX: usize = 4 << 20;

/// A connection to a node over tcp.
pub(crate) struct TcpClient {
    me: Weak<Self>,
    socket: Arc<OwnedFd>,
    pub(super) peer: PeerId,
    pub(super) open: AtomicBool,
    /// Whether bytes wait for the socket to have room.
    blocked: AtomicBool,
    /// The last sweep that drove.
    swept: AtomicU64,
    /// Counts the drives that brought something.
    brought: AtomicU64,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) gone: bool,
    pub(super) out: Outbound,
    pub(super) intake: Intake,
    pub(super) slots: Slots,
    /// Threads that sleep on the socket: whoever else takes bytes from it wakes them.
    parked: Vec<(ThreadId, Waker)>,
    /// Tasks that wait for a message, and those that wait for bytes to leave.
    receivers: Vec<Waker>,
    senders: Vec<Waker>,
    watch: Option<Watch>,
    /// Whether the watch will tell, and whether of room too.
    armed: Option<bool>,
}

/// What an operation waits for.
pub(super) enum For {
    Answer(Ticket),
    Place,
    Message,
    Leaving,
}

fn remember(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

impl TcpClient {
    /// Takes over a stream after its handshake.
    pub(super) fn start(socket: OwnedFd, peer: PeerId) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            socket: Arc::new(socket),
            peer,
            open: AtomicBool::new(true),
            blocked: AtomicBool::new(false),
            swept: AtomicU64::new(0),
            brought: AtomicU64::new(0),
            state: Mutex::default(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sends what waits, then takes what has come.
    pub(super) fn drive(&self, state: &mut State, own: Option<Own<'_>>) {
        self.flush(state);
        if state.gone {
            return;
        }
        let State { intake, slots, out, .. } = state;
        match intake.take(&self.socket, slots, out, own) {
            Ok(0) if !intake.has_left() => {}
            // The READ that bytes were left for is not to pass.
            // ORDER: Relaxed, as below.
            Ok(0) => drop(self.brought.fetch_add(1, Ordering::Relaxed)),
            Ok(_) => {
                // ORDER: Relaxed: a hint; whoever sees it looks again under the lock.
                self.brought.fetch_add(1, Ordering::Relaxed);
                state.receivers.drain(..).for_each(Waker::wake);
                state.parked.drain(..).for_each(|(_, waker)| waker.wake());
            }
            Err(Gone) => self.fail(state),
        }
    }

    /// One `send` of what waits.
    pub(super) fn flush(&self, state: &mut State) {
        if state.out.pending() == 0 || state.gone {
            return;
        }
        let Ok(all) = state.out.flush(&self.socket) else { return self.fail(state) };
        if !state.senders.is_empty() {
            state.senders.drain(..).for_each(Waker::wake);
        }
        // ORDER: Relaxed: a hint that its own thread reads after a lock.
        if self.blocked.load(Ordering::Relaxed) == all {
            self.blocked.store(!all, Ordering::Relaxed);
        }
    }

    /// The connection is over: everybody hears of it.
    fn fail(&self, state: &mut State) {
        state.gone = true;
        // ORDER: Relaxed, as in `drive`.
        self.brought.fetch_add(1, Ordering::Relaxed);
        // SYNC: Release, pairs with the Acquire load in `is_open`.
        self.open.store(false, Ordering::Release);
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        state.slots.wake_all();
        state.receivers.drain(..).for_each(Waker::wake);
        state.senders.drain(..).for_each(Waker::wake);
        state.parked.drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Drives, if this is the first to ask for it in this sweep; a runtime's poll only sends.
    #[inline]
    pub(super) fn drive_if_due(&self, state: &mut State, own: Option<Own<'_>>) {
        if !drive::in_place() {
            return self.flush(state);
        }
        let sweep = drive::sweep();
        // ORDER: Relaxed: changes under the lock that we hold.
        if self.swept.load(Ordering::Relaxed) != sweep {
            self.swept.store(sweep, Ordering::Relaxed);
            self.drive(state, own);
        }
    }

    /// Whether an operation that has looked before would look in vain: this sweep's drive is
    /// done, and nothing came since. It spares most polls of a wide pipeline the lock.
    #[inline]
    pub(super) fn is_in_vain(&self, wait: &mut Wait) -> bool {
        // ORDER: Relaxed: only this thread's own drive can have stored this sweep's number; what
        // another thread's brings meanwhile is found in the next sweep.
        wait.ticket.is_some()
            && drive::in_place()
            && self.swept.load(Ordering::Relaxed) == drive::sweep()
            && self.brought.load(Ordering::Relaxed) == wait.seen
            && !drive::parking()
            && wait.pass()
    }

    /// A place for a new operation that sends `bytes`; `None` if it has to wait for one.
    pub(super) fn place(
        &self,
        state: &mut State,
        cx: &Context<'_>,
        wait: &mut Wait,
        bytes: usize,
    ) -> Result<Option<Ticket>, Trouble> {
        // What goes straight from the caller's buffer waits until it can: it would be copied else.
        let most = if bytes < DIRECT_BYTES { OUT_BYTES_MAX } else { 1 };
        for round in 0..2 {
            if state.gone {
                return Err(Trouble::Gone);
            }
            if state.out.pending() < most
                && let Some(ticket) = state.slots.take()
            {
                wait.ticket = Some(ticket);
                return Ok(Some(ticket));
            }
            if round == 0 {
                self.drive_if_due(state, None);
            }
        }
        self.rest(state, cx, wait, For::Place)?;
        Ok(None)
    }

    /// Adds a frame to what leaves at the next drive.
    #[inline]
    pub(super) fn post(&self, state: &mut State, header: &FrameHeader, parts: [&[u8]; 2]) {
        if parts[1].len() < DIRECT_BYTES {
            state.out.push(header, parts);
        } else if state.out.push_direct(&self.socket, header, parts).is_err() {
            self.fail(state);
        }
    }

    /// Looks for an answer: `Ready(Ok)` if it can be collected. `fresh`: posted just now, and
    /// if more is about to be posted too, it had better leave together with that.
    #[inline]
    pub(super) fn answer(
        &self,
        state: &mut State,
        cx: &Context<'_>,
        wait: &mut Wait,
        fresh: bool,
        into: Option<&mut [u8]>,
    ) -> Poll<Result<Ticket, Trouble>> {
        let Some(ticket) = wait.ticket else { return Poll::Pending };
        wait.seen = u64::MAX;
        if fresh && drive::in_place() && !drive::parking() && !state.gone {
            // The rest of the sweep may post more; the next one drives.
            return Poll::Pending;
        }
        if !fresh || !drive::corked() {
            if !state.slots.is_done(ticket) {
                let placed = &mut wait.placed;
                let own = into.map(|into| Own { ticket, into, placed });
                // What was left in the socket for this one is taken, whoever has driven before.
                match own.is_some() && state.intake.is_for(ticket) && drive::in_place() {
                    true => self.drive(state, own),
                    false => self.drive_if_due(state, own),
                }
            }
            if state.slots.is_done(ticket) {
                return Poll::Ready(Ok(ticket));
            }
            // ORDER: Relaxed: changes under the lock that we hold.
            wait.seen = self.brought.load(Ordering::Relaxed);
        }
        self.rest(state, cx, wait, For::Answer(ticket))
            .map_or_else(|trouble| Poll::Ready(Err(trouble)), |()| Poll::Pending)
    }

    /// Sends what waits and takes what has come; false if the peer is gone.
    #[cfg(feature = "verbs")]
    pub(crate) fn attend(&self) -> bool {
        let mut state = self.lock();
        if !state.gone {
            self.drive(&mut state, None);
        }
        !state.gone
    }

    /// A descriptor of the same socket, for a watch of somebody else's.
    #[cfg(feature = "verbs")]
    pub(crate) fn descriptor_to_watch(&self) -> std::io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Ends the connection: the node hears of it.
    #[cfg(feature = "verbs")]
    pub(crate) fn end(&self) {
        self.fail(&mut self.lock());
    }

    /// Asks for a new queue pair. The answer is looked for by [`Self::renewed`].
    #[cfg(feature = "verbs")]
    pub(crate) fn renew(&self, body: &RenewBody) -> Option<Ticket> {
        let mut state = self.lock();
        let ticket = state.slots.take()?;
        let header = header(FrameKind::Renew, 0, 0, ticket.0, RenewBody::BYTES);
        self.post(&mut state, &header, [body.as_bytes(), &[]]);
        self.flush(&mut state);
        Some(ticket)
    }

    /// The answer to [`Self::renew`], if it has come: nothing in it if the node cannot.
    #[cfg(feature = "verbs")]
    pub(crate) fn renewed(&self, ticket: Ticket) -> Option<Option<RenewBody>> {
        self.lock().slots.collect_with(ticket, |answer| {
            let done = answer.status == Outcome::Done as u8;
            RenewBody::read_from_bytes(&answer.body).ok().filter(|_| done)
        })
    }

    /// Nothing yet: sees to it that this operation is polled again when there may be.
    pub(super) fn rest(
        &self,
        state: &mut State,
        cx: &Context<'_>,
        wait: &mut Wait,
        what: For,
    ) -> Result<(), Trouble> {
        if state.gone || wait.is_over(cx) {
            if let For::Answer(ticket) = what {
                state.slots.abandon(ticket);
                wait.ticket = None;
            }
            return Err(if state.gone { Trouble::Gone } else { Trouble::Deadline });
        }
        if drive::in_place() {
            if drive::parking() {
                self.flush(state);
                if matches!(what, For::Place) {
                    state.slots.queue(cx.waker());
                }
                let me = std::thread::current().id();
                if !state.parked.iter().any(|(thread, _)| *thread == me) {
                    state.parked.push((me, cx.waker().clone()));
                }
                let sleeper = self.me.upgrade().map(|me| me as Arc<dyn Sleeper>);
                drive::park_on(sleeper, Some(wait.left(Instant::now())));
            }
            return Ok(());
        }
        match what {
            For::Answer(ticket) => state.slots.wake_when_done(ticket, cx.waker()),
            For::Message => remember(&mut state.receivers, cx.waker()),
            For::Leaving => remember(&mut state.senders, cx.waker()),
            For::Place => {
                state.slots.queue(cx.waker());
                remember(&mut state.senders, cx.waker());
            }
        }
        self.arm(state);
        Ok(())
    }

    /// Has the reactor drive the connection when there is something to do.
    fn arm(&self, state: &mut State) {
        let room = state.out.pending() > 0;
        if state.armed >= Some(room) {
            return;
        }
        if state.watch.is_none() {
            let source: Weak<dyn Source> = self.me.clone();
            state.watch = reactor().and_then(|it| it.watch(self.socket.clone(), source, 0, true)).ok();
        }
        match state.watch.as_ref().map(|watch| watch.arm_for(room)) {
            Some(Ok(())) => state.armed = Some(room),
            // Without a watch nobody would ever be woken.
            _ => self.fail(state),
        }
    }
}

impl Source for TcpClient {
    fn ready(&self, _role: u8) {
        let mut state = self.lock();
        let state = &mut *state;
        state.armed = None;
        self.drive(state, None);
        let waiting = state.slots.sleeping() + state.receivers.len() + state.senders.len();
        if !state.gone && (waiting > 0 || state.out.pending() > 0) {
            self.arm(state);
        }
    }
}

impl Sleeper for TcpClient {
    fn descriptor(&self) -> &OwnedFd {
        &self.socket
    }

    fn wants_room(&self) -> bool {
        // ORDER: Relaxed: this thread's own poll wrote it last, or whoever did sends too.
        self.blocked.load(Ordering::Relaxed)
    }

    fn awake(&self) {
        let me = std::thread::current().id();
        self.lock().parked.retain(|(thread, _)| *thread != me);
    }
}

impl Drop for TcpClient {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        let _ = state.out.flush(&self.socket);
    }
}
