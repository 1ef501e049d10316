//! One peer of a node, from its welcome to its end.
//!
//! What always holds: what one call of [`Peer::serve`] does is bounded (one `recv`, about
//! [`HIGH_WATER_BYTES`] of answers, one or two `send`s), so that no peer keeps the others
//! waiting; a peer that does not take its answers is not read from, so that it holds no more
//! than the high-water mark and one answer; what is pushed to it past its backlog ends it.

use crate::node::{Core, count};
use crate::registry::PeerId;
use crate::service::{Outgoing, Reply, ReplySink, Request, Service};
use crate::tcp::agent::{Agent, Nonsense};
use crate::tcp::attach::{attach, renew};
use crate::tcp::long::Turn;
use crate::tcp::outbound::Outbound;
use crate::tcp::stream::{DIRECT_BYTES, Inbound, Received, header};
use barn_layout::frame::{FrameError, FrameKind, WriteBody};
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::Status;
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// With so much waiting for a peer, nothing more is done for it: 25 µs of copying, so that other peers
/// wait no longer.
const HIGH_WATER_BYTES: usize = 256 << 10;

/// Buffers that a port lends to whichever peer is being served, so that idle ones hold none.
#[derive(Default)]
pub(super) struct Spare {
    inbound: Vec<u8>,
    outbound: Vec<u8>,
}

/// A connected peer.
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) socket: OwnedFd,
    inbound: Inbound,
    out: Outbound,
    agent: Agent,
    /// Whether the long operation under way has had its turn and could go on at once.
    unfinished: bool,
    /// Whether this stream is only the control path of something faster.
    pub(super) attached: bool,
    /// What epoll is asked for.
    pub(super) interest: EventFlags,
    /// Whether it is on the port's list of those with something to do.
    pub(super) listed: bool,
}

/// Why a peer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It closed, or its host or network did.
    Closed,
    /// What it sent makes no sense, or it does not take what it is sent.
    Expelled,
}

impl From<Errno> for End {
    fn from(_: Errno) -> Self {
        Self::Closed
    }
}

impl From<FrameError> for End {
    fn from(_: FrameError) -> Self {
        Self::Expelled
    }
}

impl From<Nonsense> for End {
    fn from(_: Nonsense) -> Self {
        Self::Expelled
    }
}

/// What a call of [`Peer::serve`] has done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// How much there was to do.
    pub(super) work: usize,
    /// Whether there is more to do at once, without any event.
    pub(super) more: bool,
}

impl Peer {
    pub(super) fn new(id: PeerId, socket: OwnedFd) -> Self {
        Self {
            id,
            socket,
            inbound: Inbound::default(),
            out: Outbound::default(),
            agent: Agent::default(),
            unfinished: false,
            attached: false,
            interest: EventFlags::IN,
            listed: false,
        }
    }

    /// The events that are of interest now: input unless its answers wait, room if they do.
    pub(super) fn wanted(&self) -> EventFlags {
        match self.out.pending() {
            0 => EventFlags::IN,
            waiting if waiting < HIGH_WATER_BYTES => EventFlags::IN | EventFlags::OUT,
            _ => EventFlags::OUT,
        }
    }

    /// Takes what came, does what it asks for, and sends the answers.
    pub(super) fn serve(
        &mut self,
        core: &mut Core,
        service: &mut dyn Service,
        spare: &mut Spare,
    ) -> Result<Served, End> {
        if self.out.pending() >= HIGH_WATER_BYTES {
            self.out.flush(&self.socket)?;
            if self.out.pending() >= HIGH_WATER_BYTES {
                return Ok(Served { work: 0, more: false });
            }
        }
        self.inbound.borrow(&mut spare.inbound);
        self.out.borrow(&mut spare.outbound);
        let served = self.serve_with(core, service);
        self.inbound.give_back(&mut spare.inbound);
        self.out.give_back(&mut spare.outbound);
        served
    }

    fn serve_with(&mut self, core: &mut Core, service: &mut dyn Service) -> Result<Served, End> {
        let taken = self.out.taken();
        // What was left over goes first; only when it is done is more taken.
        let mut work = self.advance(core, service)?;
        let mut end = None;
        if self.agent.long.is_none() && self.out.pending() < HIGH_WATER_BYTES {
            match self.inbound.receive(&self.socket)? {
                Received::Bytes(bytes) => {
                    count(&core.stats.tcp.bytes_in, bytes as u64);
                    work += 1 + self.advance(core, service)?;
                }
                Received::Nothing => {}
                Received::End => end = Some(End::Closed),
            }
        }
        let flushed = self.out.flush(&self.socket)?;
        count(&core.stats.tcp.bytes_out, self.out.taken() - taken);
        match end {
            Some(end) => Err(end),
            // With everything sent and something left over there will be no event to go on with.
            None => Ok(Served { work, more: flushed && self.has_more() }),
        }
    }

    fn has_more(&self) -> bool {
        match &self.agent.long {
            // Bytes that have not come yet come with an event.
            Some(long) => !long.takes() || self.unfinished,
            None => self.inbound.has_frame(),
        }
    }

    /// Does what the bytes that are here ask for, until the peer has enough answers waiting.
    fn advance(&mut self, core: &mut Core, service: &mut dyn Service) -> Result<usize, End> {
        let (mut operations, mut messages, mut ahead) = (0, 0, 0);
        let Self { id: peer, inbound, out, agent, attached, socket, unfinished, .. } = self;
        let mut end = Ok(());
        *unfinished = false;
        while out.pending() < HIGH_WATER_BYTES {
            if let Some(long) = &mut agent.long {
                match long.turn(socket, inbound, out)? {
                    Turn::Done => agent.long = None,
                    Turn::More => {
                        *unfinished = true;
                        break;
                    }
                    Turn::Waits => break,
                }
                continue;
            }
            if let Ok(Some(frame)) = inbound.peek()
                && frame.kind == FrameKind::Write
                && frame.body_bytes >= DIRECT_BYTES
                && let Some(start) = inbound.begin(WriteBody::BYTES)
            {
                operations += 1;
                agent.begin_write(frame.id, start, frame.body_bytes)?;
                continue;
            }
            // One READ is seldom alone.
            if operations > 0 && ahead == 0 {
                ahead = agent.look_ahead(inbound.ahead());
            }
            ahead = ahead.saturating_sub(1);
            let (frame, body) = match inbound.next() {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(error) => {
                    end = Err(error.into());
                    break;
                }
            };
            let done = match frame.kind {
                FrameKind::Read | FrameKind::Write | FrameKind::CompareSwap | FrameKind::FetchAdd => {
                    operations += 1;
                    agent.execute(&frame, body, out).map_err(End::from)
                }
                FrameKind::Request => {
                    messages += 1;
                    let reply = Reply::new(out, *peer, frame.id, &core.outbox);
                    service.call(Request { peer: *peer, method: frame.method, body }, reply);
                    Ok(())
                }
                FrameKind::OneWay => {
                    messages += 1;
                    service.message(*peer, body);
                    Ok(())
                }
                FrameKind::Open => agent.open(core, *peer, frame.id, body, out).map_err(End::from),
                FrameKind::Attach => {
                    let done = attach(core, *peer, socket, *attached, frame.id, body, out);
                    done.map(|now| *attached |= now).map_err(End::from)
                }
                FrameKind::Renew => renew(core, *peer, frame.id, body, out).map_err(End::from),
                FrameKind::Close => {
                    agent.close(frame.id);
                    Ok(())
                }
                FrameKind::Ping => {
                    out.push(&header(FrameKind::Pong, 0, 0, frame.id, 0), [&[], &[]]);
                    Ok(())
                }
                FrameKind::Goodbye => Err(End::Closed),
                // What only a node says.
                FrameKind::Opened
                | FrameKind::Done
                | FrameKind::Piece
                | FrameKind::Reply
                | FrameKind::Attached
                | FrameKind::Renewed
                | FrameKind::Pong => Err(End::Expelled),
            };
            if done.is_err() {
                end = done;
                break;
            }
        }
        // Once for all: an atomic for every frame would show.
        if operations > 0 {
            count(&core.stats.operations, operations);
        }
        if messages > 0 {
            count(&core.stats.messages, messages);
        }
        end.map(|()| (operations + messages) as usize)
    }

    /// Adds something that was not said on the poll loop; it leaves with the next `serve`.
    pub(super) fn push(&mut self, outgoing: &Outgoing, backlog_bytes_max: usize) -> Result<(), End> {
        if self.out.pending() > backlog_bytes_max {
            self.out.flush(&self.socket)?;
            if self.out.pending() > backlog_bytes_max {
                return Err(End::Expelled);
            }
        }
        match outgoing {
            Outgoing::Reply { id, status, body, .. } => self.out.reply(*id, *status, body),
            // Longer than any message may be: the peer would take it for nonsense.
            Outgoing::Message { body, .. } if body.len() > MESSAGE_BYTES_MAX => {}
            Outgoing::Message { body, .. } => {
                self.out.push(&header(FrameKind::OneWay, 0, 0, 0, body.len()), [body, &[]]);
            }
        }
        Ok(())
    }
}

impl ReplySink for Outbound {
    #[inline]
    fn reply(&mut self, id: u64, status: Status, body: &[u8]) {
        let (status, body) = match body.len() > MESSAGE_BYTES_MAX {
            true => (Status::Refused, &b"the answer is longer than a message may be"[..]),
            false => (status, body),
        };
        self.push(&header(FrameKind::Reply, status as u8, 0, id, body.len()), [body, &[]]);
    }
}
