//! What breaks: connections, links, processes, machines; by plan or by chance.
//!
//! What always holds: whatever breaks by chance heals by itself, unless the plan is stopped; an
//! end of a connection that has broken stays so; a node that died starts again as another one,
//! with fresh memory, and what its old life had under way comes to nothing.

use super::NodeId;
use super::connection::Side;
use super::net::{Effect, Event, Net, Pause, within};
use super::serve::Arrived;
use crate::registry::{PeerId, Registry};
use crate::seam::Random;
use crate::service::Outbox;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Something that is made to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The process dies; with `power`, so does the machine, and its disk forgets.
    Crash {
        node: NodeId,
        power: bool,
    },
    Restart(NodeId),
    Pause {
        node: NodeId,
        reachable: bool,
    },
    Resume(NodeId),
    Cut {
        from: NodeId,
        to: NodeId,
    },
    Heal {
        from: NodeId,
        to: NodeId,
    },
    Storm {
        one: NodeId,
        other: NodeId,
    },
    Calm {
        one: NodeId,
        other: NodeId,
    },
    Reset {
        channel: u64,
    },
}

impl Fault {
    fn numbers(self) -> [u64; 3] {
        let id = |node: NodeId| u64::from(node.0);
        match self {
            Self::Crash { node, power } => [20 + u64::from(power), id(node), 0],
            Self::Restart(node) => [22, id(node), 0],
            Self::Pause { node, reachable } => [23, id(node), u64::from(reachable)],
            Self::Resume(node) => [24, id(node), 0],
            Self::Cut { from, to } => [25, id(from), id(to)],
            Self::Heal { from, to } => [26, id(from), id(to)],
            Self::Storm { one, other } => [27, id(one), id(other)],
            Self::Calm { one, other } => [28, id(one), id(other)],
            Self::Reset { channel } => [29, channel, 0],
        }
    }

    fn heals(self) -> bool {
        matches!(self, Self::Restart(_) | Self::Resume(_) | Self::Heal { .. } | Self::Calm { .. })
    }
}

impl Net {
    /// Carries out a fault.
    pub(super) fn strike(&mut self, fault: Fault) -> Effect {
        self.trace.note_all(&fault.numbers());
        self.stats.faults += u64::from(!fault.heals());
        match fault {
            Fault::Crash { node, power } => return self.crash(node, power),
            Fault::Restart(node) if !self.node(node).up => return Effect::Restart(node),
            Fault::Restart(_) => {}
            Fault::Pause { node, reachable } => {
                let now = self.now;
                let state = self.node(node);
                if state.up && state.paused.is_none() {
                    state.paused = Some(Pause { since: now, reachable });
                    state.pauses += 1;
                }
            }
            Fault::Resume(node) => self.resume(node),
            Fault::Cut { from, to } => self.cut(from, to),
            Fault::Heal { from, to } => self.heal(from, to),
            Fault::Storm { one, other } => {
                *self.storms.entry((one.min(other), one.max(other))).or_default() += 1;
            }
            Fault::Calm { one, other } => {
                let pair = (one.min(other), one.max(other));
                if let Some(count) = self.storms.get_mut(&pair) {
                    *count -= 1;
                    if *count == 0 {
                        self.storms.remove(&pair);
                    }
                }
            }
            Fault::Reset { channel } => self.notice_break(channel, Side::Client, true),
        }
        Effect::Nothing
    }

    fn crash(&mut self, node: NodeId, power: bool) -> Effect {
        let now = self.now;
        let registry = self.fresh_registry();
        let state = self.node(node);
        if !state.up {
            return Effect::Nothing;
        }
        state.up = false;
        state.incarnation += 1;
        state.peers.clear();
        state.stalled_polls.clear();
        state.registry = registry;
        state.outbox = Arc::new(Outbox::new(None));
        if let Some(pause) = state.paused.take() {
            state.paused_ns += now - pause.since;
        }
        if power {
            state.disk.crash();
        }
        self.stats.crashes += 1;
        let ids: Vec<u64> = self.channels.keys().copied().collect();
        for id in ids {
            let Some(channel) = self.channels.get_mut(&id) else { continue };
            let (is_client, is_server) = (channel.client == node, channel.server == node);
            if is_client && channel.open[Side::Client as usize] {
                channel.open[Side::Client as usize] = false;
                self.tell_other_end(id, Side::Server);
            }
            if is_server && self.is_open(id, Side::Server) {
                self.close_server(id, true);
                self.tell_other_end(id, Side::Client);
            }
        }
        Effect::Crashed(node)
    }

    fn is_open(&self, id: u64, side: Side) -> bool {
        self.channels.get(&id).is_some_and(|channel| channel.open[side as usize])
    }

    /// One end is gone: the other notices in its own time.
    fn tell_other_end(&mut self, id: u64, side: Side) {
        let delay = within(&mut self.streams.fault, self.options.detection);
        self.after(delay, Event::Break { channel: id, side, sure: true });
    }

    fn resume(&mut self, node: NodeId) {
        let now = self.now;
        let state = self.node(node);
        let Some(pause) = state.paused.take() else { return };
        state.paused_ns += now - pause.since;
        let polls = std::mem::take(&mut state.stalled_polls);
        polls.into_iter().for_each(|task| self.schedule_poll(task));
        self.schedule_idle(node);
        let ids: Vec<u64> =
            self.channels.iter().filter(|(_, channel)| channel.server == node).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(channel) = self.channels.get_mut(&id) else { continue };
            let serves = std::mem::take(&mut channel.serves_stalled);
            let step = std::mem::take(&mut channel.step_stalled);
            for _ in 0..serves {
                let delay = within(&mut self.streams.schedule, self.options.scheduling);
                let Some(channel) = self.channels.get_mut(&id) else { continue };
                channel.last_serve = (now + delay).max(channel.last_serve + 1);
                let at = channel.last_serve;
                self.at(at, Event::Serve { channel: id });
            }
            if step {
                let delay = within(&mut self.streams.tear, self.options.operation);
                self.after(delay, Event::Step { channel: id });
            }
        }
    }

    fn cut(&mut self, from: NodeId, to: NodeId) {
        if from == to || !self.cuts.insert((from, to)) {
            return;
        }
        let between = |one, other| (one == from && other == to) || (one == to && other == from);
        let ids: Vec<u64> = self
            .channels
            .iter()
            .filter(|(_, channel)| between(channel.client, channel.server))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            for side in [Side::Client, Side::Server] {
                // Half of the ends would notice before long; if the cut heals first, they do not.
                if self.streams.fault.below(2) == 0 {
                    let delay = within(&mut self.streams.fault, self.options.detection);
                    self.after(delay, Event::Break { channel: id, side, sure: false });
                }
            }
        }
    }

    fn heal(&mut self, from: NodeId, to: NodeId) {
        if !self.cuts.remove(&(from, to)) {
            return;
        }
        let ids: Vec<u64> = self.channels.keys().copied().collect();
        for id in ids {
            for side in [Side::Client, Side::Server] {
                let Some(channel) = self.channels.get_mut(&id) else { continue };
                let towards = match side {
                    Side::Server => (channel.client, channel.server),
                    Side::Client => (channel.server, channel.client),
                };
                if towards != (from, to) {
                    continue;
                }
                for _ in 0..std::mem::take(&mut channel.lanes[side as usize].stalled) {
                    let arrival = self.now + self.latency(from, to);
                    let Some(channel) = self.channels.get_mut(&id) else { continue };
                    let lane = &mut channel.lanes[side as usize];
                    lane.last = arrival.max(lane.last + 1);
                    let last = lane.last;
                    self.at(last, Event::Deliver { channel: id, at: side });
                }
            }
        }
    }

    /// One end of a connection notices that the other does not answer.
    pub(super) fn notice_break(&mut self, id: u64, side: Side, sure: bool) {
        let Some(channel) = self.channels.get(&id) else { return };
        let (client, server) = (channel.client, channel.server);
        let cut = self.is_cut(client, server) || self.is_cut(server, client);
        if !(sure || cut) || !self.is_open(id, side) {
            return;
        }
        match side {
            Side::Client => self.close_client(id),
            Side::Server => {
                self.close_server(id, true);
                self.arrive(id, Arrived::Gone);
            }
        }
        if self.is_open(id, side.other()) {
            self.tell_other_end(id, side.other());
        }
        self.reap(id);
    }

    fn close_client(&mut self, id: u64) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.open[Side::Client as usize] = false;
        for wanted in channel.wanted.values_mut() {
            wanted.waker.take().into_iter().for_each(Waker::wake);
        }
        channel.receivers.drain(..).for_each(Waker::wake);
    }

    /// The node's end closes: what is under way stops where it is. When it breaks, what has
    /// arrived may or may not be served.
    pub(super) fn close_server(&mut self, id: u64, broken: bool) {
        let lose = broken && self.streams.fault.below(2) == 0;
        let Some(channel) = self.channels.get_mut(&id) else { return };
        channel.open[Side::Server as usize] = false;
        channel.grants.clear();
        channel.operations.drain(..).for_each(|operation| operation.stop_looking());
        channel.stepping = false;
        channel.ended = None;
        if lose {
            channel.arrived.clear();
        }
    }

    /// A node's process learns that a peer is gone.
    pub(super) fn part(&mut self, id: u64) -> Effect {
        let Some(channel) = self.channels.get(&id) else { return Effect::Nothing };
        let (node, peer) = (channel.server, channel.peer);
        self.reap(id);
        let state = self.node(node);
        if peer == PeerId(0) || state.peers.remove(&peer).is_none() {
            return Effect::Nothing;
        }
        state.registry.forget(peer);
        Effect::Gone { node, peer }
    }

    /// Forgets a connection that nobody holds any more.
    pub(super) fn reap(&mut self, id: u64) {
        let Some(channel) = self.channels.get(&id) else { return };
        if channel.dropped && !channel.open[Side::Server as usize] && channel.arrived.is_empty() {
            self.channels.remove(&id);
        }
    }

    /// Keys that follow from the seed.
    pub(super) fn fresh_registry(&mut self) -> Registry {
        self.handed_out += 1;
        Registry::seeded(super::net::derive(self.seed ^ self.handed_out.rotate_left(32), "registry"))
    }

    pub(super) fn schedule_chance(&mut self) {
        let every = self.options.faults.every.as_nanos() as u64;
        if every > 0 {
            let delay = within(&mut self.streams.fault, (every / 2, every + every / 2));
            self.after(delay, Event::Chance);
        }
    }

    /// Draws a fault and, where it has one, its end.
    pub(super) fn draw_fault(&mut self) {
        self.schedule_chance();
        let plan = self.options.faults.clone();
        let total: u32 = plan.weights().iter().sum();
        if plan.every.is_zero() || total == 0 || self.nodes.is_empty() {
            return;
        }
        let lasting = within(&mut self.streams.fault, plan.lasting);
        let random = &mut self.streams.fault;
        let mut drawn = random.below(u64::from(total)) as u32;
        let kind = plan.weights().iter().position(|weight| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        let count = self.nodes.len() as u64;
        let one = NodeId(random.below(count) as u32);
        let other = NodeId(((u64::from(one.0) + 1 + random.below(count.max(2) - 1)) % count) as u32);
        let coin = random.below(3) == 0;
        let (fault, end) = match kind {
            Some(0) => {
                let victims: Vec<NodeId> = (0..count as u32)
                    .map(NodeId)
                    .filter(|node| self.nodes[node.0 as usize].up && self.nodes[node.0 as usize].restartable)
                    .collect();
                if victims.is_empty() {
                    return;
                }
                let node = victims[random.below(victims.len() as u64) as usize];
                (Fault::Crash { node, power: coin }, Some(Fault::Restart(node)))
            }
            Some(1) => {
                if !coin {
                    self.after(0, Event::Fault(Fault::Cut { from: other, to: one }));
                    self.after(lasting, Event::Fault(Fault::Heal { from: other, to: one }));
                }
                (Fault::Cut { from: one, to: other }, Some(Fault::Heal { from: one, to: other }))
            }
            Some(2) => (Fault::Pause { node: one, reachable: !coin }, Some(Fault::Resume(one))),
            Some(3) => {
                let open: Vec<u64> = self.channels.keys().copied().collect();
                if open.is_empty() {
                    return;
                }
                (Fault::Reset { channel: open[random.below(open.len() as u64) as usize] }, None)
            }
            _ => (Fault::Storm { one, other }, Some(Fault::Calm { one, other })),
        };
        self.after(0, Event::Fault(fault));
        if let Some(end) = end {
            self.after(lasting.max(1), Event::Fault(end));
        }
    }

    /// No more faults by chance, and everything that is broken heals.
    pub(super) fn calm(&mut self) {
        self.options.faults.every = Duration::ZERO;
        self.storms.clear();
        for (from, to) in self.cuts.clone() {
            self.after(0, Event::Fault(Fault::Heal { from, to }));
        }
        for node in 0..self.nodes.len() as u32 {
            self.after(0, Event::Fault(Fault::Resume(NodeId(node))));
            if self.node(NodeId(node)).restartable {
                self.after(0, Event::Fault(Fault::Restart(NodeId(node))));
            }
        }
    }
}
