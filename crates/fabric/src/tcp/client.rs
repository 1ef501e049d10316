//! The client's side of a tcp connection.
//!
//! What always holds: what is posted in one sweep leaves in one `send`, at the next drive; at
//! most one drive happens in a sweep; what waits to leave is bounded ([`OUT_BYTES_MAX`] and one
//! message), and so is what nobody has taken; once the peer is gone every operation says so.

use super::intake::{FILL_BYTES, Gone, Intake, Own};
use super::stream::{DIRECT_BYTES, Outbound, header};
use crate::drive::reactor::{Source, Watch, reactor};
use crate::drive::{self, Sleeper};
use crate::error::{CallError, OpenError, OperationError};
use crate::link::{Guarantees, Link, Opened, Place, Wait};
use crate::region::Rights;
use crate::registry::PeerId;
use crate::slots::{Answer, Slots, Ticket};
use crate::verb::Verb;
use barn_layout::RegionId;
use barn_layout::frame::{
    AtomicBody, FrameHeader, FrameKind, OpenBody, OpenedBody, Outcome, ReadBody, WriteBody,
};
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::Status;
use rustix::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Instant;
use zerocopy::{FromBytes, IntoBytes};

/// With so much waiting to leave, nothing more is posted: several times what a socket holds.
const OUT_BYTES_MAX: usize = 4 << 20;

/// A connection to a node over tcp.
pub(super) struct TcpClient {
    me: Weak<Self>,
    socket: Arc<OwnedFd>,
    peer: PeerId,
    open: AtomicBool,
    /// Whether bytes wait for the socket to have room.
    blocked: AtomicBool,
    /// The last sweep that drove.
    swept: AtomicU64,
    /// Counts the drives that brought something.
    brought: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    gone: bool,
    out: Outbound,
    intake: Intake,
    slots: Slots,
    /// Threads that sleep on the socket: whoever else takes bytes from it wakes them.
    parked: Vec<(ThreadId, Waker)>,
    /// Tasks that wait for a message, and those that wait for bytes to leave.
    receivers: Vec<Waker>,
    senders: Vec<Waker>,
    watch: Option<Watch>,
    /// Whether the watch will tell, and whether of room too.
    armed: Option<bool>,
}

/// Why there will be no answer.
enum Trouble {
    Gone,
    Deadline,
}

macro_rules! trouble_into {
    ($($error:ident),+) => { $(
        impl From<Trouble> for $error {
            fn from(trouble: Trouble) -> Self {
                match trouble {
                    Trouble::Gone => Self::PeerGone,
                    Trouble::Deadline => Self::Deadline,
                }
            }
        }
    )+ };
}
trouble_into!(OperationError, OpenError, CallError);

/// What an operation waits for.
enum For {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Sends what waits, then takes what has come.
    fn drive(&self, state: &mut State, own: Option<Own<'_>>) {
        self.flush(state);
        if state.gone {
            return;
        }
        let State { intake, slots, out, .. } = state;
        match intake.take(&self.socket, slots, out, own) {
            Ok(0) => {}
            Ok(_) => {
                self.brought.fetch_add(1, Ordering::Relaxed);
                state.receivers.drain(..).for_each(Waker::wake);
                state.parked.drain(..).for_each(|(_, waker)| waker.wake());
            }
            Err(Gone) => self.fail(state),
        }
    }

    /// One `send` of what waits.
    fn flush(&self, state: &mut State) {
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
    fn drive_if_due(&self, state: &mut State, own: Option<Own<'_>>) {
        if !drive::in_place() {
            return self.flush(state);
        }
        let sweep = drive::sweep();
        if self.swept.load(Ordering::Relaxed) != sweep {
            self.swept.store(sweep, Ordering::Relaxed);
            self.drive(state, own);
        }
    }

    /// Whether an operation that has looked before would look in vain: this sweep's drive is
    /// done, and nothing came since. It spares most polls of a wide pipeline the lock.
    #[inline]
    fn is_in_vain(&self, wait: &mut Wait) -> bool {
        // ORDER: Relaxed: only this thread's own drive can have stored this sweep's number; what
        // another thread's brings meanwhile is found in the next sweep.
        wait.ticket.is_some()
            && drive::in_place()
            && self.swept.load(Ordering::Relaxed) == drive::sweep()
            && self.brought.load(Ordering::Relaxed) == wait.seen
            && !drive::parking()
            && wait.pass()
    }

    /// A place for a new operation; `None` if it has to wait for one.
    fn place(&self, state: &mut State, cx: &Context<'_>, wait: &mut Wait) -> Result<Option<Ticket>, Trouble> {
        for round in 0..2 {
            if state.gone {
                return Err(Trouble::Gone);
            }
            if state.out.pending() < OUT_BYTES_MAX
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
    fn post(&self, state: &mut State, header: &FrameHeader, parts: [&[u8]; 2]) {
        if parts[1].len() < DIRECT_BYTES {
            state.out.push(header, parts);
        } else if state.out.push_direct(&self.socket, header, parts).is_err() {
            self.fail(state);
        }
    }

    /// Looks for an answer: `Ready(Ok)` if it can be collected. `fresh`: posted just now, and
    /// if more is about to be posted too, it had better leave together with that.
    #[inline]
    fn answer(
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
                self.drive_if_due(state, into.map(|into| Own { ticket, into, placed }));
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

    /// Nothing yet: sees to it that this operation is polled again when there may be.
    fn rest(&self, state: &mut State, cx: &Context<'_>, wait: &mut Wait, what: For) -> Result<(), Trouble> {
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

impl Link for TcpClient {
    fn guarantees(&self) -> Guarantees {
        Guarantees::BY_CPU
    }

    fn transport(&self) -> &'static str {
        "tcp"
    }

    fn peer(&self) -> PeerId {
        self.peer
    }

    fn is_open(&self) -> bool {
        // An idle connection hears of its peer's end only when somebody looks.
        if let Ok(mut state) = self.state.try_lock()
            && !state.gone
        {
            self.drive(&mut state, None);
        }
        // SYNC: Acquire, pairs with the Release store in `fail`.
        self.open.load(Ordering::Acquire)
    }

    fn poll_open(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        region: RegionId,
        rights: Rights,
    ) -> Poll<Result<Opened, OpenError>> {
        let mut state = self.lock();
        let state = &mut *state;
        let fresh = wait.ticket.is_none();
        if fresh {
            let Some(ticket) = self.place(state, cx, wait)? else { return Poll::Pending };
            let body = OpenBody { region: region.0.into(), rights: rights.to_bits().into() };
            let header = header(FrameKind::Open, 0, 0, ticket.0, OpenBody::BYTES);
            self.post(state, &header, [body.as_bytes(), &[]]);
        }
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, None)? else { return Poll::Pending };
        let taken = state.slots.collect_with(ticket, |answer| opened(answer, region, rights));
        Poll::Ready(taken.unwrap_or(Err(OpenError::Protocol)))
    }

    fn close_region(&self, place: &Place) {
        if let Place::Keyed(key) = place {
            let mut state = self.lock();
            if !state.gone {
                state.out.push(&header(FrameKind::Close, 0, 0, *key, 0), [&[], &[]]);
                self.flush(&mut state);
            }
        }
    }

    fn poll_operation(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        key: u64,
        rights: Rights,
        verb: &mut Verb<'_>,
    ) -> Poll<Result<u64, OperationError>> {
        if self.is_in_vain(wait) {
            return Poll::Pending;
        }
        let mut state = self.lock();
        let state = &mut *state;
        let fresh = wait.ticket.is_none();
        if fresh {
            let Some(ticket) = self.place(state, cx, wait)? else { return Poll::Pending };
            self.post_verb(state, ticket, key, verb);
        }
        let into = match verb {
            Verb::Read { into, .. } if into.len() >= FILL_BYTES => Some(&mut **into),
            _ => None,
        };
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, into)? else { return Poll::Pending };
        let placed = wait.placed;
        let taken = state.slots.collect_with(ticket, |answer| done(answer, rights, verb, placed));
        Poll::Ready(taken.unwrap_or(Err(OperationError::Protocol)))
    }

    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        method: u16,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        if self.is_in_vain(wait) {
            return Poll::Pending;
        }
        let mut state = self.lock();
        let state = &mut *state;
        let fresh = wait.ticket.is_none();
        if fresh {
            if request.len() > MESSAGE_BYTES_MAX {
                return Poll::Ready(Err(CallError::TooLong { bytes: request.len() }));
            }
            let Some(ticket) = self.place(state, cx, wait)? else { return Poll::Pending };
            let header = header(FrameKind::Request, 0, method, ticket.0, request.len());
            self.post(state, &header, [&[], request]);
        }
        let Poll::Ready(ticket) = self.answer(state, cx, wait, fresh, None)? else { return Poll::Pending };
        let status = state.slots.collect(ticket, reply).and_then(Status::from_bits);
        Poll::Ready(match status {
            Some(Status::Done) => Ok(()),
            Some(Status::UnknownMethod) => Err(CallError::UnknownMethod { method }),
            Some(Status::Refused) => Err(CallError::Refused(String::from_utf8_lossy(reply).into_owned())),
            Some(Status::Busy) => Err(CallError::Busy),
            None => Err(CallError::Protocol),
        })
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        message: &[u8],
    ) -> Poll<Result<(), CallError>> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Poll::Ready(Err(CallError::TooLong { bytes: message.len() }));
        }
        let mut state = self.lock();
        let state = &mut *state;
        if wait.ticket.is_none() {
            if state.out.pending() >= OUT_BYTES_MAX {
                self.drive_if_due(state, None);
            }
            if state.gone || state.out.pending() >= OUT_BYTES_MAX {
                self.rest(state, cx, wait, For::Place)?;
                return Poll::Pending;
            }
            self.post(state, &header(FrameKind::OneWay, 0, 0, 0, message.len()), [&[], message]);
            // No answer will come: the ticket is where in the stream the message ends.
            wait.ticket = Some(Ticket(state.out.end()));
            if !drive::corked() {
                self.flush(state);
            }
        } else {
            self.drive_if_due(state, None);
        }
        if wait.ticket.is_some_and(|end| end.0 <= state.out.taken()) && !state.gone {
            return Poll::Ready(Ok(()));
        }
        self.rest(state, cx, wait, For::Leaving)?;
        Poll::Pending
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        into: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        let mut state = self.lock();
        let state = &mut *state;
        for round in 0..2 {
            if let Some(message) = state.intake.message() {
                *into = message;
                return Poll::Ready(Ok(()));
            }
            if round == 0 {
                self.drive_if_due(state, None);
            }
        }
        self.rest(state, cx, wait, For::Message)?;
        Poll::Pending
    }

    fn abandon(&self, ticket: Ticket) {
        self.lock().slots.abandon(ticket);
    }
}

impl TcpClient {
    fn post_verb(&self, state: &mut State, ticket: Ticket, key: u64, verb: &Verb<'_>) {
        let (key, start) = (key.into(), |kind, bytes| header(kind, 0, 0, ticket.0, bytes));
        match verb {
            Verb::Read { offset, into } => {
                let bytes = (into.len() as u32).into();
                let body = ReadBody { key, offset: (*offset).into(), bytes, reserved: 0.into() };
                self.post(state, &start(FrameKind::Read, ReadBody::BYTES), [body.as_bytes(), &[]]);
                if into.len() >= DIRECT_BYTES {
                    state.intake.expect(into.len());
                }
            }
            Verb::Write { offset, from } => {
                let body = WriteBody { key, offset: (*offset).into() };
                let bytes = WriteBody::BYTES + from.len();
                self.post(state, &start(FrameKind::Write, bytes), [body.as_bytes(), from]);
            }
            Verb::CompareSwap { offset, expected: operand, new: replacement } => {
                let (offset, operand) = ((*offset).into(), (*operand).into());
                let body = AtomicBody { key, offset, operand, replacement: (*replacement).into() };
                self.post(state, &start(FrameKind::CompareSwap, AtomicBody::BYTES), [body.as_bytes(), &[]]);
            }
            Verb::FetchAdd { offset, add } => {
                let (offset, operand) = ((*offset).into(), (*add).into());
                let body = AtomicBody { key, offset, operand, replacement: 0.into() };
                self.post(state, &start(FrameKind::FetchAdd, AtomicBody::BYTES), [body.as_bytes(), &[]]);
            }
        }
    }
}

/// What the answer to an `Open` means.
fn opened(answer: &Answer, region: RegionId, asked: Rights) -> Result<Opened, OpenError> {
    match Outcome::from_bits(answer.status) {
        Some(Outcome::Done) => {
            let opened = OpenedBody::ref_from_bytes(&answer.body).map_err(|_| OpenError::Protocol)?;
            let rights = Rights::from_bits(opened.rights.get());
            if !rights.contains(asked) {
                return Err(OpenError::Protocol);
            }
            Ok(Opened { bytes: opened.bytes.get(), rights, place: Place::Keyed(opened.key.get()) })
        }
        Some(Outcome::NoSuchRegion) => Err(OpenError::NoSuchRegion(region)),
        Some(Outcome::NoRight) => Err(OpenError::NoRight { asked }),
        Some(Outcome::TooManyRegions) => Err(OpenError::TooManyRegions),
        _ => Err(OpenError::Protocol),
    }
}

/// What the answer to a one-sided operation means; of a READ's, `placed` bytes are in place.
#[inline]
fn done(answer: &Answer, rights: Rights, verb: &mut Verb<'_>, placed: usize) -> Result<u64, OperationError> {
    let outcome = Outcome::from_bits(answer.status);
    if outcome != Some(Outcome::Done) {
        return Err(OperationError::from_outcome(outcome, verb, rights));
    }
    match verb {
        Verb::Read { into, .. } => {
            let rest = into.get_mut(placed..).filter(|rest| rest.len() == answer.body.len());
            rest.ok_or(OperationError::Protocol)?.copy_from_slice(&answer.body);
            Ok(0)
        }
        Verb::Write { .. } => Ok(0),
        Verb::CompareSwap { .. } | Verb::FetchAdd { .. } => {
            let word = answer.body.as_slice().try_into().map_err(|_| OperationError::Protocol)?;
            Ok(u64::from_le_bytes(word))
        }
    }
}
