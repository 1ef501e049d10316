//! A simulated connection: two lanes of frames, what waits for answers, and the node's end.
//!
//! What always holds:
//! - the frames of one lane arrive in the order in which they were sent; lanes of different
//!   connections know nothing of each other;
//! - a frame first arrives (the network), and then is served (the process), each in order; a
//!   one-sided operation needs no process;
//! - a ticket is answered at most once; past its deadline, or when its end of the connection
//!   has broken, it never is.

use super::NodeId;
use super::net::{Effect, Event, Key, Net};
use super::operation::{Operation, Owned};
use super::serve::Arrived;
use crate::region::Rights;
use crate::region::journal::{Journal, Moment};
use crate::registry::{Grant, PeerId};
use crate::slots::Answer;
use barn_layout::limits::{MESSAGE_BYTES_MAX, OUTSTANDING_MAX};
use barn_layout::{RegionId, planted};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Messages of a node that a client has not taken; past that it is disconnected, as on tcp.
const INBOX_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;

/// What travels.
#[derive(Debug)]
pub(super) enum Frame {
    // To the node.
    Hello { ticket: u64 },
    Open { ticket: u64, region: RegionId, rights: Rights },
    Close { key: u64 },
    Operate { ticket: u64, key: u64, verb: Owned },
    Request { ticket: u64, method: u16, body: Vec<u8> },
    OneWay { body: Vec<u8> },
    Goodbye,
    // To the client.
    Answer { ticket: u64, answer: Answer },
    Opened { ticket: u64, answer: Answer, key: Option<u64> },
    Push { body: Vec<u8> },
}

impl Frame {
    fn note(&self, trace: &mut super::trace::Trace) {
        let (kind, id, body): (u64, u64, &[u8]) = match self {
            Self::Hello { ticket } => (1, *ticket, &[]),
            Self::Open { ticket, region, .. } => (2, *ticket ^ (u64::from(region.0) << 32), &[]),
            Self::Close { key } => (3, *key, &[]),
            Self::Operate { ticket, key, verb } => {
                verb.note(trace);
                (4, *ticket ^ key.rotate_left(32), &[])
            }
            Self::Request { ticket, method, body } => (5, *ticket ^ (u64::from(*method) << 48), body),
            Self::OneWay { body } => (6, 0, body),
            Self::Goodbye => (7, 0, &[]),
            Self::Answer { ticket, answer } => (8, *ticket ^ (u64::from(answer.status) << 56), &answer.body),
            Self::Push { body } => (9, 0, body),
            Self::Opened { ticket, answer, .. } => {
                (8, *ticket ^ (u64::from(answer.status) << 56), &answer.body)
            }
        };
        trace.note_all(&[kind, id]);
        trace.note_bytes(body);
    }
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    frames: VecDeque<Frame>,
    /// When the last of them arrives.
    pub(super) last: u64,
    /// Arrivals that a partition holds up.
    pub(super) stalled: usize,
}

/// An answer that somebody waits for.
#[derive(Debug)]
pub(super) struct Wanted {
    deadline: Key,
    pub(super) waker: Option<Waker>,
    /// Not sent yet: as many are outstanding as may be.
    unsent: Option<Frame>,
    answer: Option<Answer>,
    /// The grant that the answer brought.
    grant: Option<u64>,
}

/// See the module's head.
pub(super) struct Channel {
    pub(super) client: NodeId,
    pub(super) client_incarnation: u32,
    pub(super) server: NodeId,
    pub(super) server_incarnation: u32,
    pub(super) peer: PeerId,
    pub(super) open: [bool; 2],
    pub(super) lanes: [Lane; 2],
    pub(super) wanted: BTreeMap<u64, Wanted>,
    unsent: VecDeque<u64>,
    outstanding: usize,
    next_ticket: u64,
    inbox: VecDeque<Vec<u8>>,
    inbox_bytes: usize,
    pub(super) receivers: Vec<Waker>,
    /// Whether the client's handle is gone.
    pub(super) dropped: bool,
    // The node's end.
    pub(super) grants: BTreeMap<u64, Grant>,
    pub(super) operations: VecDeque<Operation>,
    pub(super) stepping: bool,
    pub(super) step_stalled: bool,
    pub(super) ended: Option<(Arc<Journal>, Moment)>,
    pub(super) arrived: VecDeque<Arrived>,
    pub(super) last_serve: u64,
    pub(super) serves_stalled: usize,
}

/// What a wait has come to.
pub(super) enum Waited {
    Answer(Answer),
    Pending,
    Gone,
    Expired,
}

impl Net {
    /// A connection that has not been answered yet.
    pub(super) fn new_channel(&mut self, client: NodeId, server: NodeId) -> u64 {
        let (client_incarnation, server_incarnation) =
            (self.node(client).incarnation, self.node(server).incarnation);
        self.next_channel += 1;
        let channel = Channel {
            client,
            client_incarnation,
            server,
            server_incarnation,
            peer: PeerId(0),
            open: [true, false],
            lanes: Default::default(),
            wanted: BTreeMap::new(),
            unsent: VecDeque::new(),
            outstanding: 0,
            next_ticket: 0,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            receivers: Vec::new(),
            dropped: false,
            grants: BTreeMap::new(),
            operations: VecDeque::new(),
            stepping: false,
            step_stalled: false,
            ended: None,
            arrived: VecDeque::new(),
            last_serve: 0,
            serves_stalled: 0,
        };
        self.channels.insert(self.next_channel, channel);
        self.next_channel
    }

    /// Puts a frame on its way to one end.
    pub(super) fn send(&mut self, id: u64, to: Side, frame: Frame) {
        let Some(channel) = self.channels.get(&id) else { return };
        let (from, towards) = match to {
            Side::Server => (channel.client, channel.server),
            Side::Client => (channel.server, channel.client),
        };
        let arrival = self.now + self.latency(from, towards);
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let lane = &mut channel.lanes[to as usize];
        lane.last = arrival.max(lane.last + 1);
        lane.frames.push_back(frame);
        let last = lane.last;
        self.at(last, Event::Deliver { channel: id, at: to });
    }

    /// Posts something that will be answered within `limit` nanoseconds, or never.
    pub(super) fn post(&mut self, id: u64, limit: u64, frame: impl FnOnce(u64) -> Frame) -> Option<u64> {
        let channel = self.channels.get_mut(&id)?;
        if !channel.open[Side::Client as usize] {
            return None;
        }
        channel.next_ticket += 1;
        let ticket = channel.next_ticket;
        let frame = frame(ticket);
        let full = channel.outstanding >= OUTSTANDING_MAX;
        let deadline = self.after(limit, Event::Deadline { channel: id, ticket });
        let channel = self.channels.get_mut(&id)?;
        let mut wanted = Wanted { deadline, waker: None, unsent: None, answer: None, grant: None };
        if full {
            wanted.unsent = Some(frame);
            channel.unsent.push_back(ticket);
            channel.wanted.insert(ticket, wanted);
        } else {
            channel.wanted.insert(ticket, wanted);
            self.launch(id, ticket, frame);
        }
        Some(ticket)
    }

    /// A one-way message is taken as soon as it is under way; anything else waits on.
    fn launch(&mut self, id: u64, ticket: u64, frame: Frame) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.outstanding += 1;
        let taken = matches!(frame, Frame::OneWay { .. });
        self.send(id, Side::Server, frame);
        if taken {
            self.answer(id, ticket, Answer::default());
        }
    }

    /// One outstanding thing less: the next of those that wait is sent.
    pub(super) fn settle(&mut self, id: u64) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.outstanding = channel.outstanding.saturating_sub(1);
        while let Some(ticket) = channel.unsent.pop_front() {
            if let Some(frame) = channel.wanted.get_mut(&ticket).and_then(|wanted| wanted.unsent.take()) {
                return self.launch(id, ticket, frame);
            }
        }
    }

    fn answer(&mut self, id: u64, ticket: u64, answer: Answer) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if let Some(wanted) = channel.wanted.get_mut(&ticket) {
            wanted.answer = Some(answer);
            let (deadline, waker) = (wanted.deadline, wanted.waker.take());
            self.cancel(deadline);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn wait_for(&mut self, id: u64, ticket: u64, waker: &Waker) -> Waited {
        let Some(channel) = self.channels.get_mut(&id) else { return Waited::Gone };
        let open = channel.open[Side::Client as usize];
        let Some(wanted) = channel.wanted.get_mut(&ticket) else { return Waited::Expired };
        if wanted.answer.is_none() && open {
            wanted.waker = Some(waker.clone());
            return Waited::Pending;
        }
        let Some(wanted) = channel.wanted.remove(&ticket) else { return Waited::Expired };
        self.cancel(wanted.deadline);
        wanted.answer.map_or(Waited::Gone, Waited::Answer)
    }

    /// Nobody waits for this any more.
    pub(super) fn forget(&mut self, id: u64, ticket: u64) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if let Some(wanted) = channel.wanted.remove(&ticket) {
            self.cancel(wanted.deadline);
            self.give_back(id, wanted.grant);
        }
    }

    /// A grant came that nobody wants any more.
    fn give_back(&mut self, id: u64, grant: Option<u64>) {
        if let Some(key) = grant {
            self.send(id, Side::Server, Frame::Close { key });
        }
    }

    /// A wait is over: whoever waits finds its ticket gone.
    pub(super) fn expire(&mut self, id: u64, ticket: u64) {
        if planted("simulated_deadline_ignored") && ticket.is_multiple_of(4) {
            return;
        }
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if let Some(wanted) = channel.wanted.remove(&ticket) {
            wanted.waker.into_iter().for_each(Waker::wake);
        }
        channel.receivers.drain(..).for_each(Waker::wake);
    }

    /// Takes a message that the node sent by itself.
    pub(super) fn receive(&mut self, id: u64, waker: &Waker) -> Option<Vec<u8>> {
        let channel = self.channels.get_mut(&id)?;
        let Some(body) = channel.inbox.pop_front() else {
            if !channel.receivers.iter().any(|known| known.will_wake(waker)) {
                channel.receivers.push(waker.clone());
            }
            return None;
        };
        channel.inbox_bytes -= body.len();
        Some(body)
    }

    /// A wait for something that is not sent: only its deadline counts.
    pub(super) fn wait_until(&mut self, id: u64, limit: u64) -> Option<u64> {
        let channel = self.channels.get_mut(&id)?;
        channel.next_ticket += 1;
        let ticket = channel.next_ticket;
        let deadline = self.after(limit, Event::Deadline { channel: id, ticket });
        let wanted = Wanted { deadline, waker: None, unsent: None, answer: None, grant: None };
        self.channels.get_mut(&id)?.wanted.insert(ticket, wanted);
        Some(ticket)
    }

    /// Whether a wait has been posted and is not over.
    pub(super) fn is_waiting(&self, id: u64, ticket: u64) -> bool {
        self.channels.get(&id).is_some_and(|channel| channel.wanted.contains_key(&ticket))
    }

    /// A frame arrives.
    pub(super) fn deliver(&mut self, id: u64, at: Side) -> Effect {
        let Some(channel) = self.channels.get(&id) else { return Effect::Nothing };
        let (from, to) = match at {
            Side::Server => (channel.client, channel.server),
            Side::Client => (channel.server, channel.client),
        };
        let cut = self.is_cut(from, to);
        let Some(channel) = self.channels.get_mut(&id) else { return Effect::Nothing };
        let lane = &mut channel.lanes[at as usize];
        if cut {
            lane.stalled += 1;
            return Effect::Nothing;
        }
        let Some(frame) = lane.frames.pop_front() else { return Effect::Nothing };
        frame.note(&mut self.trace);
        match at {
            Side::Client => self.deliver_to_client(id, frame),
            Side::Server => self.deliver_to_server(id, frame),
        }
        Effect::Nothing
    }

    fn deliver_to_client(&mut self, id: u64, frame: Frame) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if !channel.open[Side::Client as usize] {
            return;
        }
        match frame {
            Frame::Answer { mut ticket, answer } => {
                if planted("simulated_reply_to_wrong_request") {
                    let mut later = channel.wanted.range(ticket + 1..);
                    let other = later.find(|(_, wanted)| wanted.answer.is_none() && wanted.unsent.is_none());
                    ticket = other.map_or(ticket, |(other, _)| *other);
                }
                self.answer(id, ticket, answer);
                self.settle(id);
            }
            Frame::Opened { ticket, answer, key } => {
                match channel.wanted.get_mut(&ticket) {
                    Some(wanted) => wanted.grant = key,
                    None => self.give_back(id, key),
                }
                self.answer(id, ticket, answer);
                self.settle(id);
            }
            Frame::Push { body } => {
                channel.inbox_bytes += body.len();
                channel.inbox.push_back(body);
                channel.receivers.drain(..).for_each(Waker::wake);
                if channel.inbox_bytes > INBOX_BYTES_MAX {
                    self.after(0, Event::Break { channel: id, side: Side::Server, sure: true });
                }
            }
            _ => {}
        }
    }
}
