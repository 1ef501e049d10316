//! The node's end of a connection: what arrives waits for the process, which takes it in order.
//!
//! What always holds: the process sees nothing of a connection before its greeting and nothing
//! after it has parted; a peer's number is never given out twice.

use super::NodeId;
use super::connection::{Frame, Side};
use super::net::{Effect, Event, Net, within};
use crate::region::Rights;
use crate::registry::PeerId;
use crate::slots::Answer;
use barn_layout::frame::Outcome;
use barn_layout::limits::{PEERS_MAX, REGIONS_PER_PEER_MAX};
use barn_layout::message::Status;
use barn_layout::{RegionId, planted};

/// What waits for a node's process.
#[derive(Debug)]
pub(super) enum Arrived {
    Frame(Frame),
    /// The peer is gone.
    Gone,
}

impl Net {
    pub(super) fn deliver_to_server(&mut self, id: u64, frame: Frame) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let (server, incarnation) = (channel.server, channel.server_incarnation);
        let greeting = matches!(frame, Frame::Hello { .. });
        if matches!(frame, Frame::OneWay { .. }) {
            self.settle(id);
        }
        let Some(channel) = self.channels.get_mut(&id) else { return };
        if greeting {
            let state = &self.nodes[server.0 as usize];
            if !state.up || !state.serves {
                return self.reply(id, frame, Outcome::NoSuchRegion as u8, Vec::new());
            }
            if !channel.open[Side::Client as usize] {
                return;
            }
            channel.server_incarnation = state.incarnation;
            channel.open[Side::Server as usize] = true;
        } else if !channel.open[Side::Server as usize]
            || self.nodes[server.0 as usize].incarnation != incarnation
        {
            // Nobody is there any more; the client will notice in its own time.
            return;
        }
        match frame {
            Frame::Operate { ticket, key, verb } => self.enqueue_operation(id, ticket, key, verb),
            frame => {
                if planted("simulated_request_twice")
                    && let Frame::Request { ticket, method, body } = &frame
                    && ticket.is_multiple_of(16)
                {
                    let again = Frame::Request { ticket: *ticket, method: *method, body: body.clone() };
                    self.arrive(id, Arrived::Frame(again));
                }
                self.arrive(id, Arrived::Frame(frame));
            }
        }
    }

    /// Something is there for the process to take.
    pub(super) fn arrive(&mut self, id: u64, what: Arrived) {
        let delay = within(&mut self.streams.schedule, self.options.scheduling);
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.arrived.push_back(what);
        channel.last_serve = (self.now + delay).max(channel.last_serve + 1);
        let at = channel.last_serve;
        self.at(at, Event::Serve { channel: id });
    }

    fn reply(&mut self, id: u64, to: Frame, status: u8, body: Vec<u8>) {
        if let Frame::Hello { ticket } | Frame::Open { ticket, .. } | Frame::Request { ticket, .. } = to {
            self.send(id, Side::Client, Frame::Answer { ticket, answer: Answer { status, body } });
        }
    }

    /// A node's process takes what has arrived.
    pub(super) fn serve(&mut self, id: u64) -> Effect {
        let Some(channel) = self.channels.get_mut(&id) else { return Effect::Nothing };
        let (node, incarnation, peer) = (channel.server, channel.server_incarnation, channel.peer);
        let state = &mut self.nodes[node.0 as usize];
        if state.paused.is_some() && state.incarnation == incarnation {
            channel.serves_stalled += 1;
            return Effect::Nothing;
        }
        let Some(what) = channel.arrived.pop_front() else { return Effect::Nothing };
        if !state.up || state.incarnation != incarnation {
            self.reap(id);
            return Effect::Nothing;
        }
        self.schedule_idle(node);
        match what {
            Arrived::Gone => return self.part(id),
            Arrived::Frame(Frame::Goodbye) => {
                self.close_server(id, false);
                return self.part(id);
            }
            Arrived::Frame(Frame::Request { ticket, method, body }) => {
                self.stats.calls += 1;
                return Effect::Call { node, peer, id: ticket, method, body };
            }
            Arrived::Frame(Frame::OneWay { body }) => return Effect::Message { node, peer, body },
            Arrived::Frame(Frame::Hello { ticket }) => return self.welcome(id, ticket),
            Arrived::Frame(Frame::Open { ticket, region, rights }) => {
                let (status, body) = self.open_region(id, region, rights);
                let key = body.first_chunk().map(|key| u64::from_le_bytes(*key));
                let answer = Answer { status, body };
                self.send(id, Side::Client, Frame::Opened { ticket, answer, key });
            }
            Arrived::Frame(Frame::Close { key }) => {
                if let Some(channel) = self.channels.get_mut(&id) {
                    channel.grants.remove(&key);
                }
            }
            Arrived::Frame(
                Frame::Operate { .. } | Frame::Answer { .. } | Frame::Opened { .. } | Frame::Push { .. },
            ) => {}
        }
        Effect::Nothing
    }

    fn welcome(&mut self, id: u64, ticket: u64) -> Effect {
        let Some(channel) = self.channels.get_mut(&id) else { return Effect::Nothing };
        let node = channel.server;
        let state = &mut self.nodes[node.0 as usize];
        if state.peers.len() >= PEERS_MAX {
            channel.open[Side::Server as usize] = false;
            self.reply(id, Frame::Hello { ticket }, Outcome::TooManyRegions as u8, Vec::new());
            return Effect::Nothing;
        }
        state.next_peer += 1;
        let peer = PeerId(state.next_peer);
        state.peers.insert(peer, id);
        channel.peer = peer;
        self.reply(id, Frame::Hello { ticket }, Outcome::Done as u8, Vec::new());
        Effect::Joined { node, peer }
    }

    fn open_region(&mut self, id: u64, region: RegionId, rights: Rights) -> (u8, Vec<u8>) {
        let Some(channel) = self.channels.get_mut(&id) else { return (Outcome::BadKey as u8, Vec::new()) };
        if channel.grants.len() >= REGIONS_PER_PEER_MAX {
            return (Outcome::TooManyRegions as u8, Vec::new());
        }
        let registry = &self.nodes[channel.server.0 as usize].registry;
        match registry.grant(region, channel.peer, rights, None) {
            Err(outcome) => (outcome as u8, Vec::new()),
            Ok(grant) => {
                let mut body = grant.key.to_le_bytes().to_vec();
                body.extend_from_slice(&grant.region.bytes().to_le_bytes());
                channel.grants.insert(grant.key, grant);
                (Outcome::Done as u8, body)
            }
        }
    }

    /// The connection of a peer to which something can still be sent.
    fn channel_to(&mut self, node: NodeId, peer: PeerId) -> Option<u64> {
        let id = *self.node(node).peers.get(&peer)?;
        self.channels.get(&id)?.open[Side::Server as usize].then_some(id)
    }

    /// A service's answer goes back, if its peer is still there.
    pub(super) fn answer_call(
        &mut self,
        node: NodeId,
        peer: PeerId,
        ticket: u64,
        status: Status,
        body: Vec<u8>,
    ) {
        if let Some(id) = self.channel_to(node, peer) {
            let answer = Answer { status: status as u8, body };
            self.send(id, Side::Client, Frame::Answer { ticket, answer });
        }
    }

    /// A message that a node sends by itself.
    pub(super) fn push(&mut self, node: NodeId, peer: PeerId, body: Vec<u8>) {
        if let Some(id) = self.channel_to(node, peer) {
            self.send(id, Side::Client, Frame::Push { body });
        }
    }
}
