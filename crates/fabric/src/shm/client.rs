//! The client's side of a shm connection.

use super::control;
use super::lane::RequestLane;
use super::opening::{Control, Opening};
use super::{ring_if_asleep, say_asleep, silence};
use crate::drive::reactor::{Source, Watch, reactor};
use crate::drive::{self, Sleeper};
use crate::error::{CallError, OpenError, OperationError};
use crate::link::{Guarantees, Link, Opened, Place, Wait};
use crate::messaging::Corrupt;
use crate::messaging::mail::{Mail, header};
use crate::region::{Rights, Words};
use crate::registry::PeerId;
use crate::slots::Ticket;
use crate::verb::Verb;
use barn_layout::channel::ChannelShape;
use barn_layout::handshake::ShmOpen;
use barn_layout::limits::{LINE_BYTES, MESSAGE_BYTES_MAX};
use barn_layout::message::{Arrival, BRIEF_BODY_BYTES_MAX, Kind, Status};
use barn_layout::{RegionId, planted};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use zerocopy::IntoBytes;

/// Where the client says that it sleeps: `InboundControl::asleep`.
const CLIENT_ASLEEP: u64 = 64;

/// Looks for an answer that nothing else waits beside, before a poll ends. 8: as long as the rest of a poll takes.
const LOOKS_ALONE: usize = 8;

/// Roles of the descriptors that the reactor watches.
pub(super) const SOCKET: u8 = 0;
const BELL: u8 = 1;

/// A connection, as its client holds it.
pub(super) struct ShmClient {
    pub(super) me: Weak<Self>,
    pub(super) peer: PeerId,
    pub(super) shape: ChannelShape,
    pub(super) socket: Arc<OwnedFd>,
    pub(super) inbound: Words,
    pub(super) outbound: Words,
    pub(super) node_page: Words,
    /// Our end: the node rings it when we sleep, and we when it does.
    pub(super) bell: Arc<OwnedFd>,
    pub(super) open: Arc<AtomicBool>,
    /// The last sweep that looked for what has come.
    pub(super) swept: AtomicU64,
    /// Counts the looks that brought something.
    pub(super) brought: AtomicU64,
    /// Whether the last answer in the ring had more than one line.
    pub(super) long_answers: AtomicBool,
    /// Where the next answers will arrive, in ring and request region, and with what numbers.
    pub(super) next: [(AtomicU64, AtomicU64); 2],
    pub(super) state: Mutex<State>,
    pub(super) control: Mutex<Control>,
    pub(super) socket_watch: OnceLock<Watch>,
    pub(super) bell_watch: OnceLock<Watch>,
}

pub(super) struct State {
    pub(super) mail: Mail,
    pub(super) lane: Option<RequestLane>,
    pub(super) buffer: Vec<u8>,
    /// Whether the node was told that we sleep.
    pub(super) asleep: bool,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl State {
    /// Takes what has come, all of it or as much as somebody waits for; says how much.
    fn take(&mut self, client: &ShmClient) -> Result<usize, Corrupt> {
        let mut taken = 0;
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(lane) = &mut self.lane {
            let slots = &mut self.mail.slots;
            // Whoever is about to sleep must not overlook one: it will not be announced again.
            let thorough = !drive::in_place() || drive::parking();
            taken += lane.collect(&client.outbound, thorough, &mut buffer, |header, body| {
                let ticket = Ticket(header.id.get());
                if let Some(into) = slots.partial(ticket) {
                    std::mem::swap(into, body);
                    slots.complete(ticket, header.status);
                }
            })?;
        }
        let reported = self.mail.reader.reported();
        loop {
            buffer.clear();
            let Some(header) = self.mail.reader.pop(&mut buffer)? else { break };
            client.note_length(buffer.len());
            if let Some(answered) = self.mail.arrived(&header, &mut buffer)?
                && let Some(lane) = &mut self.lane
            {
                lane.answered_elsewhere(answered);
            }
            taken += 1;
            // Whoever waits next looks again. The line where the next message will come is in the node's
            // cache, and a look at it would keep this answer from whoever waits for it.
            if !self.mail.is_awaited() && self.mail.slots.waiting() == 0 {
                break;
            }
        }
        self.buffer = buffer;
        // The node may be waiting for the room that has just been reported.
        self.mail.unrung |= self.mail.reader.reported() != reported;
        Ok(taken)
    }
}

impl ShmClient {
    /// Looks for what has come, at most once a sweep, and wakes the node if something was
    /// posted for it.
    fn drive(&self, state: &mut State) {
        let sweep = drive::sweep();
        // ORDER: Relaxed, here and below: both change under the lock that we hold, and are looked
        // at without it only as hints.
        if sweep != 0 && sweep == self.swept.load(Ordering::Relaxed) {
            return;
        }
        self.swept.store(sweep, Ordering::Relaxed);
        match state.take(self) {
            Ok(0) => {}
            Ok(_) => self.note_brought(),
            Err(Corrupt) => self.close(state),
        }
        state.mail.tell_given_up();
        // What everybody slept for has come, and whoever waits next does so awake: a node that is not told rings
        // for every answer.
        if state.asleep && !state.mail.is_awaited() && !planted("shm_asleep_for_good") {
            self.say_asleep(state, false);
        }
        self.note_next(state);
        if std::mem::take(&mut state.mail.unrung) {
            ring_if_asleep(&self.node_page, 0, &self.bell);
        }
    }

    /// Tells the node whether it has to ring.
    fn say_asleep(&self, state: &mut State, asleep: bool) {
        state.asleep = asleep;
        say_asleep(&self.inbound, CLIENT_ASLEEP, asleep);
    }

    /// Something has come, or nothing will any more.
    #[inline]
    pub(super) fn note_brought(&self) {
        // ORDER: Relaxed: changes under the lock that the caller holds.
        self.brought.store(self.brought.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether a call that has looked before would look in vain: nothing came since. It spares
    /// a spinning thread, and most polls of a wide pipeline, the lock.
    #[inline]
    fn is_in_vain(&self, wait: &mut Wait) -> bool {
        // ORDER: Relaxed: only hints. What they miss now is found by a later poll, of which one
        // in so many (`Wait::pass`) takes the lock and looks at everything.
        // Whoever waits for this alone looks some times before it looks at anything else.
        let alone = drive::alone();
        let looks = if alone { LOOKS_ALONE } else { 1 };
        wait.posted
            && drive::in_place()
            && self.brought.load(Ordering::Relaxed) == wait.seen
            && (self.swept.load(Ordering::Relaxed) == drive::sweep()
                || (0..looks).all(|_| !self.has_news(alone)))
            && !drive::parking()
            && wait.pass()
    }

    /// Whether one of the next answers has arrived. Whoever waits for this `alone` has the answer's second line
    /// fetched with each look at the first, if the last one had two: it would else start on its way from the
    /// node's cache only when the first is here.
    #[inline]
    pub(super) fn has_news(&self, alone: bool) -> bool {
        let lanes = if self.shape.window > 0 { 2 } else { 1 };
        let is_there = self.next[..lanes].iter().any(|(at, number)| {
            let word = self.outbound.load_word(at.load(Ordering::Relaxed), Ordering::Relaxed).unwrap_or(0);
            u64::from(Arrival::from_bits(word).number) == number.load(Ordering::Relaxed)
        });
        if alone && self.long_answers.load(Ordering::Relaxed) {
            let next = self.next[0].0.load(Ordering::Relaxed);
            self.outbound.prefetch(next + LINE_BYTES as u64, LINE_BYTES);
        }
        is_there
    }

    /// Remembers whether an answer in the ring had more than one line.
    #[inline]
    pub(super) fn note_length(&self, body_bytes: usize) {
        let is_long = body_bytes > BRIEF_BODY_BYTES_MAX;
        // ORDER: Relaxed, both: a hint.
        if self.long_answers.load(Ordering::Relaxed) != is_long {
            self.long_answers.store(is_long, Ordering::Relaxed);
        }
    }

    /// Remembers where the next answers will arrive.
    #[inline]
    pub(super) fn note_next(&self, state: &State) {
        let lane = state.lane.as_ref().and_then(RequestLane::next);
        for ((at, number), next) in self.next.iter().zip([Some(state.mail.reader.next()), lane]) {
            let (next_at, next_number) = next.map_or((0, u64::MAX), |(at, number)| (at, number.into()));
            at.store(next_at, Ordering::Relaxed);
            number.store(next_number, Ordering::Relaxed);
        }
    }

    /// What a pending operation does next, once it has left its waker where it must: say what to
    /// sleep on, or leave the rest to the reactor.
    fn wait_for_more(&self, state: &mut State, cx: &mut Context<'_>, wait: &Wait) {
        if drive::in_place() && !drive::parking() {
            return;
        }
        self.say_asleep(state, true);
        state.mail.unrung = true;
        // Whoever spoke before we said that we sleep has not rung: look once more.
        let found = state.take(self);
        if found.is_err() {
            self.close(state);
        }
        if found != Ok(0) {
            self.note_brought();
        }
        let again = found != Ok(0) || !state.mail.posters.is_empty() && state.mail.writer.has_news();
        if std::mem::take(&mut state.mail.unrung) {
            ring_if_asleep(&self.node_page, 0, &self.bell);
        }
        if drive::in_place() {
            let sleeper = self.me.upgrade().map(|me| me as Arc<dyn Sleeper>);
            drive::park_on(sleeper.filter(|_| !again), Some(wait.left(Instant::now())));
        } else if again {
            cx.waker().wake_by_ref();
        }
        self.watch_bell();
    }

    /// Has the reactor take what comes while only a runtime's tasks wait for it.
    fn watch_bell(&self) {
        if drive::in_place() {
            return;
        }
        if self.bell_watch.get().is_none() {
            let source: Weak<dyn Source> = self.me.clone() as Weak<dyn Source>;
            let watch = reactor().and_then(|reactor| reactor.watch(self.bell.clone(), source, BELL, true));
            if let Ok(watch) = watch {
                let _ = self.bell_watch.set(watch);
            }
        }
        if let Some(watch) = self.bell_watch.get() {
            let _ = watch.arm();
        }
    }

    pub(super) fn close(&self, state: &mut State) {
        // SYNC: Release, pairs with the Acquire load in `is_open`.
        self.open.store(false, Ordering::Release);
        self.note_brought();
        state.mail.slots.wake_all();
        state.mail.receivers.drain(..).for_each(Waker::wake);
        state.mail.posters.drain(..).for_each(Waker::wake);
        // The node hears that we are gone, and the reactor ends what is being opened.
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
    }

    /// Takes the node's packets from the socket; notices its end.
    fn take_control(&self) {
        loop {
            match control::receive(self.socket.as_fd()) {
                Ok(Some(packet)) => self.opened(packet),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // Replies that the node gave before it died are still in the ring; a poll takes them
        // before it looks whether the node is there.
        let mut state = lock(&self.state);
        // Garbage or not, the connection is over.
        let _ = state.take(self);
        self.close(&mut state);
        drop(state);
        for opening in lock(&self.control).opening.values_mut() {
            opening.result.get_or_insert(Err(OpenError::PeerGone));
            opening.waker.take().into_iter().for_each(Waker::wake);
        }
        if let Some(watch) = self.socket_watch.get() {
            watch.stop();
        }
    }
}

impl Source for ShmClient {
    fn ready(&self, role: u8) {
        if role == SOCKET {
            self.take_control();
            return;
        }
        silence(&self.bell);
        let mut state = lock(&self.state);
        self.drive(&mut state);
        // The bell may have been rung because there is room.
        state.mail.posters.drain(..).for_each(Waker::wake);
        if state.mail.is_awaited() {
            self.say_asleep(&mut state, true);
            self.drive(&mut state);
            self.watch_bell();
        } else {
            self.say_asleep(&mut state, false);
        }
    }
}

impl Sleeper for ShmClient {
    fn descriptor(&self) -> &OwnedFd {
        &self.bell
    }

    fn awake(&self) {
        let mut state = lock(&self.state);
        silence(&self.bell);
        // The ring may have been for another thread's message, which waits for room.
        state.mail.posters.drain(..).for_each(Waker::wake);
        // Mostly still true: the answer that the ring was for has yet to be taken.
        let awaited = state.mail.is_awaited();
        self.say_asleep(&mut state, awaited);
    }
}

impl Link for ShmClient {
    fn guarantees(&self) -> Guarantees {
        Guarantees::BY_CPU
    }

    fn transport(&self) -> &'static str {
        "shm"
    }

    fn is_near(&self) -> bool {
        true
    }

    fn peer(&self) -> PeerId {
        self.peer
    }

    #[inline]
    fn is_open(&self) -> bool {
        // SYNC: Acquire, pairs with the Release store in `close`.
        self.open.load(Ordering::Acquire)
    }

    fn poll_open(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        region: RegionId,
        rights: Rights,
    ) -> Poll<Result<Opened, OpenError>> {
        if !self.is_open() {
            return Poll::Ready(Err(OpenError::PeerGone));
        }
        let mut control = lock(&self.control);
        let id = match wait.ticket {
            Some(ticket) => ticket.0,
            // The node is behind with its packets: ask again at the next poll.
            None if !control.tell_closing(&self.socket) => return self.open_later(cx, wait),
            None => {
                control.next += 1;
                let id = control.next;
                let asked =
                    ShmOpen { id: id.into(), region: region.0.into(), rights: rights.to_bits().into() };
                match control::send(self.socket.as_fd(), asked.as_bytes(), &[]) {
                    Ok(()) => {}
                    Err(Errno::AGAIN | Errno::INTR) => return self.open_later(cx, wait),
                    Err(_) => return Poll::Ready(Err(OpenError::PeerGone)),
                }
                control.opening.insert(id, Opening::default());
                wait.ticket = Some(Ticket(OPENING | id));
                id
            }
        } & !OPENING;
        let Some(opening) = control.opening.get_mut(&id) else {
            return Poll::Ready(Err(OpenError::Protocol));
        };
        if let Some(result) = opening.result.take() {
            control.opening.remove(&id);
            wait.ticket = None;
            return Poll::Ready(match result {
                Err(OpenError::NoSuchRegion(_)) => Err(OpenError::NoSuchRegion(region)),
                Err(OpenError::NoRight { .. }) => Err(OpenError::NoRight { asked: rights }),
                other => other,
            });
        }
        if wait.is_over(cx) {
            return Poll::Ready(Err(OpenError::Deadline));
        }
        opening.waker = Some(cx.waker().clone());
        if drive::parking() {
            let sleeper = self.me.upgrade().map(|me| me as Arc<dyn Sleeper>);
            drive::park_on(sleeper, Some(wait.left(Instant::now())));
        }
        Poll::Pending
    }

    fn close_region(&self, place: &Place) {
        if let Some(slot) = self.grant_slot(place) {
            let mut control = lock(&self.control);
            control.closing.push(slot);
            control.tell_closing(&self.socket);
        }
    }

    fn poll_operation(
        &self,
        _: &mut Context<'_>,
        _: &mut Wait,
        _: u64,
        _: Rights,
        _: &mut Verb<'_>,
    ) -> Poll<Result<u64, OperationError>> {
        // Every region of a shm connection is mapped: its operations never come here.
        Poll::Ready(Err(OperationError::BadKey))
    }

    #[inline]
    fn start_call(&self, wait: &mut Wait, method: u16, request: &[u8]) {
        self.post_at_once(wait, method, request);
    }

    #[inline]
    fn answer_soon(&self, wait: &mut Wait, reply: &mut Vec<u8>) -> Option<u8> {
        self.take_soon(wait, reply)
    }

    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        method: u16,
        request: &[u8],
        reply: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        if request.len() > MESSAGE_BYTES_MAX {
            return Poll::Ready(Err(CallError::TooLong { bytes: request.len() }));
        }
        if self.is_in_vain(wait) {
            return Poll::Pending;
        }
        let mut state = lock(&self.state);
        let state = &mut *state;
        if !wait.posted {
            wait.seen = u64::MAX;
            if wait.ticket.is_none() {
                wait.ticket = state.mail.slots.take();
            }
            if let Some(ticket) = wait.ticket {
                let header = header(Kind::Request, ticket, method, request.len());
                // Slots are used in turn: where the next one's request is still out, the ring takes
                // over, so that one slow answer holds up nobody.
                let in_slot = wait.sent == 0
                    && state.lane.as_mut().is_some_and(|lane| {
                        lane.takes(request.len()) && lane.post(&self.inbound, ticket, &header, request)
                    });
                wait.posted = in_slot || state.mail.post(wait, header, request, self.shape.ring_bytes);
                state.mail.unrung |= wait.posted;
                if wait.posted && drive::in_place() && !drive::parking() {
                    // Nothing can have come yet; the next poll looks.
                    return Poll::Pending;
                }
            }
        }
        self.drive(state);
        if let Some(ticket) = wait.ticket
            && let Some(status) = state.mail.slots.collect(ticket, reply)
        {
            wait.ticket = None;
            return Poll::Ready(CallError::check(Status::from_bits(status), method, reply));
        }
        // ORDER: Relaxed: changes under the lock that we hold.
        wait.seen = self.brought.load(Ordering::Relaxed);
        if !self.is_open() {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::PeerGone)));
        }
        if wait.is_over(cx) {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::Deadline)));
        }
        self.wake_for(state, cx, wait);
        self.wait_for_more(state, cx, wait);
        Poll::Pending
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
        let mut state = lock(&self.state);
        let state = &mut *state;
        if !self.is_open() {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::PeerGone)));
        }
        if wait.ticket.is_none() {
            wait.ticket = state.mail.slots.take();
        }
        if let Some(ticket) = wait.ticket {
            let header = header(Kind::OneWay, ticket, 0, message.len());
            if state.mail.post(wait, header, message, self.shape.ring_bytes) {
                state.mail.slots.abandon(ticket);
                wait.ticket = None;
                if std::mem::take(&mut state.mail.unrung) {
                    ring_if_asleep(&self.node_page, 0, &self.bell);
                }
                return Poll::Ready(Ok(()));
            }
        }
        self.drive(state);
        if wait.is_over(cx) {
            return Poll::Ready(Err(self.give_up(state, wait, CallError::Deadline)));
        }
        self.wake_for(state, cx, wait);
        self.wait_for_more(state, cx, wait);
        Poll::Pending
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        wait: &mut Wait,
        into: &mut Vec<u8>,
    ) -> Poll<Result<(), CallError>> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        self.drive(state);
        let over = match state.mail.inbox.pop_front() {
            Some(message) => {
                *into = message;
                Some(Ok(()))
            }
            None if !self.is_open() => Some(Err(CallError::PeerGone)),
            None if wait.is_over(cx) => Some(Err(CallError::Deadline)),
            None => None,
        };
        let known = state.mail.receivers.iter().position(|waker| waker.will_wake(cx.waker()));
        if let Some(over) = over {
            // A receiver that is done would keep the connection's bell ringing.
            known.map(|at| state.mail.receivers.swap_remove(at));
            return Poll::Ready(over);
        }
        if known.is_none() && (!drive::in_place() || drive::parking()) {
            state.mail.receivers.push(cx.waker().clone());
        }
        self.wait_for_more(state, cx, wait);
        Poll::Pending
    }

    fn abandon(&self, ticket: Ticket) {
        if ticket.0 & OPENING != 0 {
            let mut control = lock(&self.control);
            let opening = control.opening.remove(&(ticket.0 & !OPENING));
            // One that was granted and never taken is given back.
            if let Some(Opening { result: Some(Ok(opened)), .. }) = opening {
                control.closing.extend(self.grant_slot(&opened.place));
                control.tell_closing(&self.socket);
            }
        } else {
            lock(&self.state).mail.abandon(ticket);
        }
    }
}

/// Marks the ticket of a region that is being opened.
const OPENING: u64 = 1 << 63;

impl ShmClient {
    /// Leaves the waker of an operation that nobody drives, or whose driver is about to sleep.
    fn wake_for(&self, state: &mut State, cx: &Context<'_>, wait: &Wait) {
        if drive::in_place() && !drive::parking() {
            return;
        }
        match wait.ticket {
            Some(ticket) => state.mail.slots.wake_when_done(ticket, cx.waker()),
            None => state.mail.slots.queue(cx.waker()),
        }
        if wait.ticket.is_some()
            && !wait.posted
            && !state.mail.posters.iter().any(|known| known.will_wake(cx.waker()))
        {
            state.mail.posters.push(cx.waker().clone());
        }
    }

    /// The node has no room for another packet: tries again soon, but not past the deadline.
    fn open_later(&self, cx: &mut Context<'_>, wait: &mut Wait) -> Poll<Result<Opened, OpenError>> {
        if wait.is_over(cx) {
            return Poll::Ready(Err(OpenError::Deadline));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn give_up(&self, state: &mut State, wait: &mut Wait, error: CallError) -> CallError {
        if let Some(ticket) = wait.ticket.take() {
            state.mail.abandon(ticket);
        }
        error
    }
}
