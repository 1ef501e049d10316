//! What a node does with the messages it gets: the RPC layer's serving side.
//!
//! A [`Service`] is called on the node's poll loop with bytes that are private to the node (they
//! were copied out of the ring or off the wire before anybody looked at them). It answers at
//! once, or keeps a [`Deferred`] and answers later, from any thread and in any order.

use crate::registry::PeerId;
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::Status;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a node serves.
pub trait Service {
    /// A request came. Answer through `reply`; dropping it unanswered refuses the request.
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>);

    /// These requests came together, and [`Service::call`] will have one after another now: what they
    /// will look at may be fetched into the cache (HERD section 4.1.1). Nothing changes by it.
    fn expect(&mut self, requests: &[Request<'_>]) {
        let _ = requests;
    }

    /// A message came that expects no answer.
    fn message(&mut self, peer: PeerId, body: &[u8]) {
        let _ = (peer, body);
    }

    /// A peer connected.
    fn joined(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// A peer is gone: it closed, or it died.
    fn gone(&mut self, peer: PeerId) {
        let _ = peer;
    }

    /// The poll loop has found nothing for the first time after some work: what had to come together has
    /// come.
    fn pause(&mut self) {}

    /// The poll loop has nothing else to do; called once before each sleep.
    fn idle(&mut self) {}
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who asks.
    pub peer: PeerId,
    /// What is asked for.
    pub method: u16,
    /// With what.
    pub body: &'a [u8],
}

/// What a caller is told whose answer does not fit a message.
const TOO_LONG: &str = "the answer is longer than a message may be";

/// Where a transport takes an answer.
pub(crate) trait ReplySink {
    fn reply(&mut self, id: u64, status: Status, body: &[u8]);
}

/// The way to answer a request.
pub struct Reply<'a> {
    sink: &'a mut dyn ReplySink,
    peer: PeerId,
    id: u64,
    outbox: &'a Arc<Outbox>,
    answered: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(sink: &'a mut dyn ReplySink, peer: PeerId, id: u64, outbox: &'a Arc<Outbox>) -> Self {
        Self { sink, peer, id, outbox, answered: false }
    }

    fn answer(mut self, status: Status, body: &[u8]) {
        self.answered = true;
        if body.len() > MESSAGE_BYTES_MAX {
            return self.sink.reply(self.id, Status::Refused, TOO_LONG.as_bytes());
        }
        self.sink.reply(self.id, status, body);
    }

    /// Answers.
    pub fn done(self, body: &[u8]) {
        self.answer(Status::Done, body);
    }

    /// Refuses, and says why.
    pub fn refuse(self, why: &str) {
        self.answer(Status::Refused, why.as_bytes());
    }

    /// Says that the method means nothing here.
    pub fn unknown_method(self) {
        self.answer(Status::UnknownMethod, &[]);
    }

    /// Says that there is no room now; nothing was done.
    pub fn busy(self) {
        self.answer(Status::Busy, &[]);
    }

    /// Answers later.
    pub fn later(mut self) -> Deferred {
        self.answered = true;
        Deferred { peer: self.peer, id: self.id, outbox: self.outbox.clone(), answered: false }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.sink.reply(self.id, Status::Refused, b"the service gave no answer");
        }
    }
}

impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({}, id {})", self.peer, self.id)
    }
}

/// An answer that is given later. Dropping it unanswered refuses the request.
pub struct Deferred {
    peer: PeerId,
    id: u64,
    outbox: Arc<Outbox>,
    answered: bool,
}

impl Deferred {
    fn answer(&mut self, status: Status, body: Vec<u8>) {
        self.answered = true;
        let too_long = body.len() > MESSAGE_BYTES_MAX;
        let (status, body) = if too_long { (Status::Refused, TOO_LONG.into()) } else { (status, body) };
        self.outbox.push(Outgoing::Reply { peer: self.peer, id: self.id, status, body });
    }

    /// Answers.
    pub fn done(mut self, body: Vec<u8>) {
        self.answer(Status::Done, body);
    }

    /// Refuses, and says why.
    pub fn refuse(mut self, why: &str) {
        self.answer(Status::Refused, why.as_bytes().to_vec());
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(Status::Refused, b"the service gave no answer".to_vec());
        }
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({}, id {})", self.peer, self.id)
    }
}

/// Something for a peer that was not said on the poll loop.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Reply { peer: PeerId, id: u64, status: Status, body: Vec<u8> },
    Message { peer: PeerId, body: Vec<u8> },
}

/// Where other threads leave what the poll loop is to send.
pub(crate) struct Outbox {
    queue: Mutex<VecDeque<Outgoing>>,
    /// Whether there may be something in the queue: what a busy poll loop looks at.
    filled: AtomicBool,
    /// Rings the poll loop awake; none on the simulated transport.
    bell: Option<OwnedFd>,
}

impl Outbox {
    pub(crate) fn new(bell: Option<OwnedFd>) -> Self {
        Self { queue: Mutex::default(), filled: AtomicBool::new(false), bell }
    }

    pub(crate) fn push(&self, outgoing: Outgoing) {
        let mut queue = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        queue.push_back(outgoing);
        // ORDER: Relaxed: the queue itself is behind its lock, and so is who comes first: whoever finds
        // it empty rings for all that follow until it is drained. `drain` clears this before it takes
        // the queue, so that what comes too late for it rings again.
        let was_filled = self.filled.swap(true, Ordering::Relaxed);
        drop(queue);
        if !was_filled {
            self.ring();
        }
    }

    /// Wakes the poll loop.
    pub(crate) fn ring(&self) {
        if let Some(bell) = &self.bell {
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// Whether there may be something to send.
    #[inline]
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) -> VecDeque<Outgoing> {
        // What is pushed from here on is either in the queue below or fills it again.
        self.filled.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

/// Sends messages to a node's peers, from any thread.
#[derive(Clone)]
pub struct Sender {
    pub(crate) outbox: Arc<Outbox>,
}

impl Sender {
    /// Sends a message that expects no answer. A peer that is gone does not get it, and nobody
    /// gets one that is longer than [`MESSAGE_BYTES_MAX`].
    pub fn send(&self, peer: PeerId, body: Vec<u8>) {
        if body.len() > MESSAGE_BYTES_MAX {
            return;
        }
        self.outbox.push(Outgoing::Message { peer, body });
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}
