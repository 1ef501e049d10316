//! The client's side of a verbs connection.
//!
//! One-sided operations go by a queue pair of their own ([`Operations`]), messages by another
//! ([`Channel`], [`Mail`]); both complete in one queue. Threads that share the connection share its
//! queue pairs behind its lock (FaRM section 3.1: q threads to a queue pair, q being however many
//! share a [`Connection`](crate::Connection)). Regions are opened and queue pairs renewed over the
//! tcp stream by which the connection began, and whose end is the connection's.
//!
//! What always holds: what is posted in one sweep leaves on one doorbell for each queue pair, at the
//! next drive; at most one drive happens in a sweep; whoever sleeps has asked for the completion
//! queue's event and looked once more; once the peer is gone every operation says so.

use super::channel::Channel;
use super::choose::Path;
use super::id::{Role, unpack};
use super::lane::Lane;
use super::operations::{self, Operations, Own, Progress};
use super::sys::{
    COMPLETIONS, Completed, Completion, CompletionQueue, Kind, ProtectionDomain, QueuePair, Remote, Room,
    Status,
};
use crate::VerbsError;
use crate::drive;
use crate::drive::reactor::Watch;
use crate::link::Wait;
use crate::messaging::Corrupt;
use crate::messaging::mail::Mail;
use crate::registry::PeerId;
use crate::slots::Ticket;
use crate::tcp::{AsIs, TcpClient};
use barn_layout::frame::RenewBody;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Waker;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// How long a connection that is dropped waits for its last messages to be acknowledged: a hundred
/// round trips on a slow network.
const LINGER: Duration = Duration::from_millis(500);

/// A region's place at the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) address: u64,
    pub(super) key: u32,
    /// The node has let it go: there is no use in asking again.
    pub(super) revoked: bool,
}

/// A connection to a node by verbs.
pub(super) struct VerbsClient {
    pub(super) me: Weak<Self>,
    pub(super) peer: PeerId,
    pub(super) control: Arc<TcpClient>,
    pub(super) ring_bytes: usize,
    pub(super) open: AtomicBool,
    /// The last sweep that drove.
    pub(super) swept: AtomicU64,
    /// Counts the drives that brought something.
    pub(super) brought: AtomicU64,
    pub(super) queue: Arc<CompletionQueue>,
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) path: Path,
    /// The node's end, but for the queue pair's number and first packet.
    pub(super) remote: Remote,
    pub(super) stream_watch: OnceLock<Watch>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) gone: bool,
    pub(super) operations: Operations,
    pub(super) channel: Channel,
    pub(super) mail: Mail,
    /// Requests in HERD's mode.
    pub(super) lane: Option<Lane>,
    pub(super) keys: HashMap<u64, Key, BuildHasherDefault<AsIs>>,
    /// The queue pair that is to replace one that failed, and the question that is out for it.
    pub(super) renewal: Option<(QueuePair, Ticket, u32)>,
    /// Threads that sleep on the queue's channel: whoever else takes completions wakes them.
    pub(super) parked: Vec<Parked>,
    /// What event the completion queue was asked for that has not been taken.
    pub(super) armed: Armed,
    pub(super) watch: Option<Watch>,
    pub(super) watching: bool,
    batch: Vec<Completion>,
    buffer: Vec<u8>,
    flushes: u32,
    /// When the reactor will see to repetitions, if it will.
    pub(super) repeating: Option<Instant>,
}

/// A thread that sleeps until something comes.
pub(super) struct Parked {
    pub(super) thread: ThreadId,
    pub(super) waker: Waker,
    pub(super) wakes_at: Armed,
}

/// Which completions make an event. In order: each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Armed {
    No,
    /// What the node tells of. Whoever waits for that is not woken by the READs of others.
    Told,
    All,
}

/// Flushes between two looks at the clock.
const FLUSHES_PER_CLOCK: u32 = 64;

impl State {
    pub(super) fn new(operations: Operations, channel: Channel, lane: Option<Lane>) -> Self {
        let (writer, reader) = channel.rings();
        Self {
            gone: false,
            operations,
            channel,
            mail: Mail::new(writer, reader),
            lane,
            keys: HashMap::default(),
            renewal: None,
            parked: Vec::new(),
            armed: Armed::No,
            watch: None,
            watching: false,
            batch: Vec::new(),
            buffer: Vec::new(),
            flushes: 0,
            repeating: None,
        }
    }

    /// What whoever sleeps has to be woken by.
    pub(super) fn awaited(&self) -> Armed {
        let by_tasks = if self.mail.is_awaited() { Armed::All } else { Armed::No };
        self.parked.iter().fold(by_tasks, |most, parked| most.max(parked.wakes_at))
    }

    /// Whether everything that was to be said to the node is on its way: what waits for room is told of by nothing
    /// that the node says.
    pub(super) fn has_left(&self) -> bool {
        self.channel.is_flushed(&self.mail.writer, &self.mail.reader)
            && !self.mail.has_given_up()
            && self.lane.as_ref().is_none_or(Lane::has_left)
    }

    /// Posts what waits: a doorbell for each queue pair that has something.
    fn flush(&mut self) -> Result<(), Broken> {
        self.operations.flush()?;
        self.mail.tell_given_up();
        self.channel.flush(&self.mail.writer, &self.mail.reader)?;
        if let Some(lane) = &mut self.lane {
            self.flushes = self.flushes.wrapping_add(1);
            // A look at the clock costs as much as a drive: a spinning thread looks now and then.
            if !drive::in_place() || drive::parking() || self.flushes.is_multiple_of(FLUSHES_PER_CLOCK) {
                lane.repeat(Instant::now());
            }
            lane.flush()?;
        }
        Ok(())
    }

    /// A datagram came.
    fn came(&mut self, place: u32, bytes: usize, from: u32) {
        let Some(lane) = &mut self.lane else { return };
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some((ticket, header)) = lane.came(place, bytes, from, &mut buffer)
            && let Some(into) = self.mail.slots.partial(ticket)
        {
            into.clear();
            into.extend_from_slice(&buffer);
            self.mail.slots.complete(ticket, header.status);
        }
        self.buffer = buffer;
    }

    /// Takes the messages that the node says are whole.
    fn take_messages(&mut self) -> Result<(), Broken> {
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.mail.reader.next().1 != self.channel.announced {
            buffer.clear();
            let header = self.mail.reader.pop(&mut buffer)?.ok_or(Broken)?;
            if let Some(answered) = self.mail.arrived(&header, &mut buffer)?
                && let Some(lane) = &mut self.lane
            {
                lane.answered(answered);
            }
        }
        self.buffer = buffer;
        Ok(())
    }
}

/// The connection cannot go on.
#[derive(Debug)]
pub(super) struct Broken;

impl From<VerbsError> for Broken {
    fn from(_: VerbsError) -> Self {
        Self
    }
}

impl From<Corrupt> for Broken {
    fn from(_: Corrupt) -> Self {
        Self
    }
}

impl VerbsClient {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Posts what waits, then takes what has come.
    pub(super) fn drive(&self, state: &mut State, mut own: Option<Own<'_>>) {
        if state.gone {
            return;
        }
        match self.drive_with(state, &mut own) {
            Ok(0) => {}
            Ok(_) => self.note_brought(state),
            Err(Broken) => self.fail(state),
        }
    }

    fn drive_with(&self, state: &mut State, own: &mut Option<Own<'_>>) -> Result<usize, Broken> {
        state.flush()?;
        let mut came = 0;
        let mut batch = std::mem::take(&mut state.batch);
        loop {
            batch.clear();
            let full = self.queue.poll(|completion| batch.push(completion))?;
            if full == 0 {
                break;
            }
            came += full;
            for completion in &batch {
                self.completed(state, completion, own)?;
            }
            // Fewer than there was room for: the queue was empty.
            if full < COMPLETIONS {
                break;
            }
        }
        state.batch = batch;
        if state.renewal.is_some() {
            came += usize::from(self.finish_renewal(state)?);
        }
        self.finish_drive(state, came)?;
        Ok(came)
    }

    /// Sees to what so many completions have made possible.
    pub(super) fn finish_drive(&self, state: &mut State, came: usize) -> Result<(), Broken> {
        if came > 0 {
            state.take_messages()?;
            state.channel.replenish()?;
            if let Some(lane) = &mut state.lane {
                lane.replenish()?;
            }
            // A report, and what waited for room.
            state.flush()?;
        }
        Ok(())
    }

    pub(super) fn completed(
        &self,
        state: &mut State,
        completion: &Completion,
        own: &mut Option<Own<'_>>,
    ) -> Result<(), Broken> {
        let (role, owner, number) = unpack(completion.id).ok_or(Broken)?;
        match (role, completion.status, completion.what) {
            (Role::Operation, Status::Done, _) => {
                state.operations.done(owner, number, &mut state.mail.slots, own);
                Ok(())
            }
            (Role::Operation, Status::Refused, _) => {
                match state.operations.refused(owner, number, &mut state.mail.slots, own) {
                    Progress::Refused(key) => {
                        let revoked = state.keys.values_mut().filter(|known| known.key == key);
                        revoked.for_each(|known| known.revoked = true);
                        self.begin_renewal(state)
                    }
                    _ => Ok(()),
                }
            }
            // Behind one that was refused, or of a queue pair that was replaced.
            (Role::Operation, Status::Flushed, _) => Ok(()),
            (Role::Pushed, Status::Done, Completed::Written { immediate }) => {
                state.channel.was_pushed(immediate);
                Ok(())
            }
            (Role::Push, Status::Done, _) => {
                state.channel.is_done(number);
                Ok(())
            }
            (Role::Request, Status::Done, _) => {
                state.lane.iter_mut().for_each(|lane| lane.is_done(number));
                Ok(())
            }
            (Role::Came, Status::Done, Completed::Received { bytes, from }) => {
                state.came(number, bytes, from);
                Ok(())
            }
            _ => Err(Broken),
        }
    }

    /// Asks for a queue pair in place of the one that failed.
    fn begin_renewal(&self, state: &mut State) -> Result<(), Broken> {
        let pair = operations_pair(&self.domain, &self.queue, &self.path)?;
        let packet = first_packet()?;
        let body = RenewBody { operations_pair: pair.number().into(), operations_packet: packet.into() };
        let ticket = self.control.renew(&body).ok_or(Broken)?;
        state.renewal = Some((pair, ticket, packet));
        Ok(())
    }

    /// Goes on with the new queue pair, if the node has answered.
    fn finish_renewal(&self, state: &mut State) -> Result<bool, Broken> {
        if !self.control.attend() {
            return Err(Broken);
        }
        let Some((pair, ticket, packet)) = state.renewal.take() else { return Ok(false) };
        let Some(answer) = self.control.renewed(ticket) else {
            state.renewal = Some((pair, ticket, packet));
            return Ok(false);
        };
        let theirs = answer.ok_or(Broken)?;
        let remote = Remote {
            queue_pair: theirs.operations_pair.get(),
            packet: theirs.operations_packet.get(),
            ..self.remote
        };
        pair.connect(Some(&remote), packet)?;
        state.operations.renew(pair);
        Ok(true)
    }

    /// Something has come, or nothing will any more: everybody looks again.
    pub(super) fn note_brought(&self, state: &mut State) {
        // ORDER: Relaxed: a hint; whoever sees it looks again under the lock.
        self.brought.fetch_add(1, Ordering::Relaxed);
        state.mail.posters.drain(..).for_each(Waker::wake);
        state.parked.drain(..).for_each(|parked| parked.waker.wake());
    }

    /// The connection is over: everybody hears of it.
    pub(super) fn fail(&self, state: &mut State) {
        state.gone = true;
        // SYNC: Release, pairs with the Acquire load in `is_open`.
        self.open.store(false, Ordering::Release);
        self.note_brought(state);
        state.mail.slots.wake_all();
        state.mail.receivers.drain(..).for_each(Waker::wake);
        self.control.end();
    }

    /// Drives, if this is the first to ask for it in this sweep; a runtime's poll only posts.
    #[inline]
    pub(super) fn drive_if_due(&self, state: &mut State, own: Option<Own<'_>>) {
        if !drive::in_place() {
            if !state.gone && state.flush().is_err() {
                self.fail(state);
            }
            return;
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
        wait.posted
            && drive::in_place()
            && self.swept.load(Ordering::Relaxed) == drive::sweep()
            && self.brought.load(Ordering::Relaxed) == wait.seen
            && !drive::parking()
            && wait.pass()
    }

    /// Gives an operation, a call or a message up.
    pub(super) fn give_up(&self, state: &mut State, ticket: Ticket) {
        state.operations.abandon(ticket);
        state.mail.abandon(ticket);
    }
}

impl Drop for VerbsClient {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if state.gone {
            return;
        }
        // Messages that were taken are to arrive: a queue pair that is destroyed forgets them.
        let until = Instant::now() + LINGER;
        loop {
            let flushed = state.channel.flush(&state.mail.writer, &state.mail.reader);
            let left = !state.channel.is_flushed(&state.mail.writer, &state.mail.reader);
            let (Ok(_), Ok(marked)) = (flushed, state.channel.mark()) else { return };
            if marked && !left || Instant::now() > until {
                return;
            }
            let channel = &mut state.channel;
            let polled = self.queue.poll(|completion| {
                let pushed = unpack(completion.id).filter(|_| completion.status == Status::Done);
                if let Some((Role::Push, _, number)) = pushed {
                    channel.is_done(number);
                }
            });
            match polled {
                Ok(0) => std::thread::yield_now(),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// A new queue pair of one-sided operations, not connected yet.
pub(super) fn operations_pair(
    domain: &Arc<ProtectionDomain>,
    queue: &Arc<CompletionQueue>,
    path: &Path,
) -> Result<QueuePair, VerbsError> {
    let room = Room { requests: operations::REQUESTS, receives: 0, inline_bytes: operations::INLINE_BYTES };
    let pair = QueuePair::new(domain, queue, Kind::Reliable, (path.port, path.gid.index), room)?;
    pair.initialise(0)?;
    Ok(pair)
}

/// Where a queue pair's packets begin: drawn, so that those of an earlier one are not taken for its.
pub(super) fn first_packet() -> Result<u32, VerbsError> {
    let mut bytes = [0; 4];
    crate::seam::system_random(&mut bytes)
        .map_err(|cause| VerbsError::Step { step: "drawing a number", cause: cause.into() })?;
    // A packet's number has 24 bits.
    Ok(u32::from_le_bytes(bytes) & 0xff_ffff)
}
