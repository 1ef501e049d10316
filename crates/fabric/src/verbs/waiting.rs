//! How a thread or a task waits for a verbs connection, and who wakes it.
//!
//! A thread that is about to sleep asks the completion queue for an event, looks once more, and sleeps
//! on the queue's channel; a runtime's tasks leave that to the reactor. The reactor also watches the
//! control stream, whose end is the peer's.
//!
//! What always holds: nobody sleeps on something that has come already; whoever takes the channel's
//! event takes what it told of, wakes everybody whom that concerns, and asks for the next event if
//! somebody still waits.

use super::client::{Armed, Parked, State, VerbsClient};
use super::lane::Lane;
use crate::drive::reactor::{Source, Watch, reactor};
use crate::drive::{self, Sleeper};
use crate::link::{Trouble, Wait};
use crate::slots::Ticket;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

/// Roles of the descriptors that the reactor watches.
const STREAM: u8 = 0;
const COMPLETIONS: u8 = 1;

/// What an operation waits for.
pub(super) enum For {
    /// The device is done.
    Completion(Ticket),
    /// The node answers by a message.
    Reply(Ticket),
    /// A place in the table.
    Place,
    /// Room to post the rest of it, of which there was none when `brought` was this.
    Room(u64),
    Message,
}

fn remember(wakers: &mut Vec<Waker>, waker: &Waker) {
    if !wakers.iter().any(|known| known.will_wake(waker)) {
        wakers.push(waker.clone());
    }
}

impl VerbsClient {
    /// Watches the control stream for the node's end, from now on.
    pub(super) fn watch_stream(&self) -> Result<(), Errno> {
        let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let stream = Arc::new(self.control.descriptor_to_watch().map_err(errno)?);
        let source: Weak<dyn Source> = self.me.clone();
        let _ = self.stream_watch.set(reactor()?.watch(stream, source, STREAM, false)?);
        Ok(())
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
            if let Some(ticket) = wait.ticket.take() {
                self.give_up(state, ticket);
            }
            return Err(if state.gone { Trouble::Gone } else { Trouble::Deadline });
        }
        if drive::in_place() {
            drive::wait_for_device();
            if drive::parking() {
                if matches!(what, For::Place) {
                    state.mail.slots.queue(cx.waker());
                }
                let is_told = matches!(what, For::Reply(_) | For::Message) && state.has_left();
                let wakes_at = if is_told { Armed::Told } else { Armed::All };
                let me = std::thread::current().id();
                match state.parked.iter_mut().find(|parked| parked.thread == me) {
                    Some(parked) => parked.wakes_at = parked.wakes_at.max(wakes_at),
                    None => state.parked.push(Parked { thread: me, waker: cx.waker().clone(), wakes_at }),
                }
                // ORDER: Relaxed, both: changes under the lock that we hold.
                let now = self.brought.load(Ordering::Relaxed);
                // Room that came after it was last looked for is told of by nothing else.
                let before = if let For::Room(before) = what { before } else { now };
                self.arm(state, wakes_at);
                let quiet = self.brought.load(Ordering::Relaxed) == before;
                let sleeper = self.me.upgrade().map(|me| me as Arc<dyn Sleeper>);
                let now = Instant::now();
                let due =
                    state.lane.as_ref().and_then(Lane::due).map(|due| due.saturating_duration_since(now));
                let left = wait.left(now);
                drive::park_on(sleeper.filter(|_| quiet), Some(due.map_or(left, |due| due.min(left))));
            }
            return Ok(());
        }
        match what {
            For::Completion(ticket) | For::Reply(ticket) => {
                state.mail.slots.wake_when_done(ticket, cx.waker())
            }
            For::Message => remember(&mut state.mail.receivers, cx.waker()),
            For::Room(_) => remember(&mut state.mail.posters, cx.waker()),
            For::Place => state.mail.slots.queue(cx.waker()),
        }
        self.watch(state);
        self.repeat_later(state);
        Ok(())
    }

    /// Has the reactor see to repetitions while only a runtime's tasks wait.
    fn repeat_later(&self, state: &mut State) {
        let Some(due) = state.lane.as_ref().and_then(Lane::due) else { return };
        if state.repeating.is_some_and(|at| at <= due) {
            return;
        }
        state.repeating = Some(due);
        if let Ok(reactor) = reactor() {
            reactor.wake_at(due, Waker::from(Arc::new(Repeater(self.me.clone()))));
        }
    }

    /// Asks for an event at the next such completion, and looks once more for what came before.
    fn arm(&self, state: &mut State, wanted: Armed) {
        if state.armed < wanted && !state.gone {
            state.armed = wanted;
            if self.queue.notify(wanted == Armed::Told).is_err() {
                return self.fail(state);
            }
        }
        self.drive(state, None);
    }

    /// Has the reactor drive the connection when there is something to do.
    fn watch(&self, state: &mut State) {
        if !state.watching && !state.gone {
            if state.watch.is_none() {
                let source: Weak<dyn Source> = self.me.clone();
                let descriptor = self.queue.descriptor().clone();
                state.watch = reactor().and_then(|it| it.watch(descriptor, source, COMPLETIONS, true)).ok();
            }
            match state.watch.as_ref().map(Watch::arm) {
                Some(Ok(())) => state.watching = true,
                // Without a watch nobody would ever be woken.
                _ => return self.fail(state),
            }
        }
        self.arm(state, Armed::All);
    }

    /// The queue's event was taken: takes what it told of, and asks for the next if somebody waits.
    fn heard(&self, state: &mut State) {
        self.queue.take_events();
        state.armed = Armed::No;
        self.drive(state, None);
        let awaited = state.awaited();
        if !state.gone && awaited != Armed::No {
            self.arm(state, awaited);
        }
    }
}

/// Repeats what is due, when the reactor's clock says so.
struct Repeater(Weak<VerbsClient>);

impl Wake for Repeater {
    fn wake(self: Arc<Self>) {
        let Some(client) = self.0.upgrade() else { return };
        let mut state = client.lock();
        state.repeating = None;
        client.drive(&mut state, None);
        if !state.gone {
            client.repeat_later(&mut state);
        }
    }
}

impl Source for VerbsClient {
    fn ready(&self, role: u8) {
        if role == STREAM {
            let open = self.control.attend();
            let mut state = self.lock();
            // What the node said before it ended counts.
            self.drive(&mut state, None);
            if !open {
                if !state.gone {
                    self.fail(&mut state);
                }
                drop(state);
                self.stream_watch.get().into_iter().for_each(Watch::stop);
            }
            return;
        }
        let mut state = self.lock();
        state.watching = false;
        self.heard(&mut state);
        if !state.gone && state.mail.is_awaited() {
            self.watch(&mut state);
        }
    }
}

impl Sleeper for VerbsClient {
    fn descriptor(&self) -> &OwnedFd {
        self.queue.descriptor()
    }

    fn awake(&self) {
        let me = std::thread::current().id();
        let mut state = self.lock();
        state.parked.retain(|parked| parked.thread != me);
        self.heard(&mut state);
    }
}
