//! A node's side: queue pairs for the peers that ask for them, and the completion queues on which
//! their messages are told.
//!
//! One-sided operations are the device's alone: no code here sees them. Messages are told by
//! completions; a queue serves many peers ([`Group`]), so that a sweep looks at one place and not
//! at each of them, and a node that sleeps is woken by the queue's channel in epoll.
//!
//! What always holds: every queue has room for all that its peers can have under way; what a peer
//! had is freed when its stream ends, after what it had sent was taken.

use super::channel::{self, Channel};
use super::choose::{self, Path};
use super::client::{first_packet, operations_pair};
use super::connect::{end, remote};
use super::datagrams::{self, Datagrams};
use super::id::{OWNER_MASK, Role, unpack};
use super::peer::VerbsPeer;
use super::sys::{
    Access, Completed, Completion, CompletionQueue, Device, MemoryRegion, ProtectionDomain, Remote, Status,
};
use super::window::{self, RequestWindow};
use crate::messaging::repeated::kept;
use crate::node::{Carrier, Core, NodeOptions, count};
use crate::registry::{Grant, Held, PeerId};
use crate::service::{Outgoing, Service};
use crate::{VerbsError, VerbsOption};
use barn_layout::channel::{ChannelShape, SLOT_BYTES};
use barn_layout::frame::{MemoryBody, Outcome, QueuePairsBody, RenewBody};
use rustix::event::epoll::EventFlags;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Entries of a group's completion queue.
const ENTRIES: usize = 16 << 10;
/// Entries that a peer's queue pairs can fill at once, if everything fails: all that is posted.
const ENTRIES_PER_PEER: usize = channel::RECEIVES + channel::REQUESTS + window::RECEIVES;

/// A completion queue, and how many entries of it are spoken for.
struct Group {
    device: Arc<Device>,
    /// Port and GID of the way by which its peers come.
    path: (u8, u8),
    /// What replies to them go by, in HERD's mode.
    datagrams: Option<Datagrams>,
    queue: Arc<CompletionQueue>,
    entries: usize,
    taken: usize,
}

/// The queue pairs of a node.
pub(super) struct Verbs {
    /// The port's number, under which events come.
    number: u8,
    groups: Vec<Group>,
    peers: HashMap<u32, VerbsPeer>,
    owners: HashMap<PeerId, u32>,
    next_owner: u32,
    /// Peers with something to do.
    listed: Vec<u32>,
    /// Peers that failed and are to go.
    failed: Vec<u32>,
    /// Peers of HERD's mode.
    windows: Vec<u32>,
    /// Whether every slot is to be looked at.
    thorough: bool,
    /// Messages of the node's own, counted.
    sent: u64,
    batch: Vec<Completion>,
}

impl Verbs {
    /// Looks whether there is a device at all, so that a node that is to offer verbs and cannot
    /// says so when it starts.
    pub(super) fn new(options: &NodeOptions, number: u8) -> Result<Self, VerbsError> {
        let candidates = choose::candidates()?;
        if let VerbsOption::By(choice) = &options.verbs {
            let local = options.tcp.map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip());
            choose::choose(&candidates, Some(choice), local)?;
        }
        Ok(Self {
            number,
            groups: Vec::new(),
            peers: HashMap::new(),
            owners: HashMap::new(),
            next_owner: 0,
            listed: Vec::new(),
            failed: Vec::new(),
            windows: Vec::new(),
            thorough: false,
            sent: 0,
            batch: Vec::new(),
        })
    }

    /// A group of that device with room for another peer; a new one if there is none.
    fn group(&mut self, core: &Core, device: &Arc<Device>, path: (u8, u8)) -> Result<usize, VerbsError> {
        let fits = |group: &Group| {
            let room = group.taken + ENTRIES_PER_PEER <= group.entries;
            Arc::ptr_eq(&group.device, device) && group.path == path && room
        };
        if let Some(found) = self.groups.iter().position(fits) {
            return Ok(found);
        }
        let entries = ENTRIES.min(device.entries_max);
        let queue = CompletionQueue::new(device, entries)?;
        let token = self.groups.len() as u64;
        core.watch(queue.descriptor(), self.number, token, EventFlags::IN)
            .map_err(|errno| VerbsError::Step { step: "watching a completion queue", cause: errno.into() })?;
        let taken = datagrams::REQUESTS;
        self.groups.push(Group { device: device.clone(), path, datagrams: None, queue, entries, taken });
        Ok(self.groups.len() - 1)
    }

    fn owner(&mut self) -> u32 {
        loop {
            self.next_owner = (self.next_owner + 1) & OWNER_MASK;
            if !self.peers.contains_key(&self.next_owner) {
                return self.next_owner;
            }
        }
    }

    fn make(
        &mut self,
        core: &Core,
        peer: PeerId,
        (device, path): (Arc<Device>, Path),
        theirs: &QueuePairsBody,
    ) -> Result<QueuePairsBody, VerbsError> {
        let at = (path.port, path.gid.index);
        let group = self.group(core, &device, at)?;
        let queue = self.groups[group].queue.clone();
        let owner = self.owner();
        let domain = ProtectionDomain::new(&device)?;
        let operations = operations_pair(&domain, &queue, &path)?;
        let (ring_bytes, window) = (theirs.ring_bytes.get() as usize, theirs.window.get() as usize);
        let mut channel = Channel::new(&domain, &queue, at, owner, ring_bytes, window * SLOT_BYTES)?;
        let packets = (first_packet()?, first_packet()?);
        let mut ours = QueuePairsBody {
            operations_pair: operations.number().into(),
            operations_packet: packets.0.into(),
            messages_pair: channel.pair.number().into(),
            messages_packet: packets.1.into(),
            memory_address: channel.inbound.address().into(),
            memory_key: channel.inbound.remote_key().into(),
            ring_bytes: theirs.ring_bytes,
            ..end(&path, device.reads_max)
        };
        let remote = remote(&ours, theirs, theirs.operations_pair.get(), theirs.operations_packet.get());
        operations.connect(Some(&remote), packets.0)?;
        let (queue_pair, packet) = (theirs.messages_pair.get(), theirs.messages_packet.get());
        channel.pair.connect(Some(&Remote { queue_pair, packet, ..remote }), packets.1)?;
        channel.set_remote(theirs.memory_address.get(), theirs.memory_key.get());
        let window = match window {
            0 => None,
            window => {
                let datagrams = self.datagrams(group)?;
                let to = datagrams.pair.address(theirs.gid, theirs.lid.get())?;
                ours.datagrams_pair = datagrams.pair.number().into();
                let memory = (channel.inbound.words(), ring_bytes);
                let client = (theirs.datagrams_pair.get(), theirs.datagrams_key.get());
                let made = RequestWindow::new(&domain, &queue, at, owner, memory, to, client)?;
                let packet = first_packet()?;
                let (queue_pair, first) =
                    (theirs.requests_pair.get(), theirs.requests_packet.get() & 0xff_ffff);
                made.requests.connect(Some(&Remote { queue_pair, packet: first, ..remote }), packet)?;
                ours.requests_pair = made.requests.number().into();
                ours.requests_packet = packet.into();
                ours.window = theirs.window;
                self.windows.push(owner);
                Some((made, kept(window, remote.mtu)))
            }
        };
        self.groups[group].taken += ENTRIES_PER_PEER;
        let ways = (remote, path);
        let made = VerbsPeer::new(peer, domain, operations, ways, group, (channel, ring_bytes), window);
        self.peers.insert(owner, made);
        self.owners.insert(peer, owner);
        count_peers(core, self.peers.len());
        Ok(ours)
    }

    /// The queue pair of a group's replies, made at the first use.
    fn datagrams(&mut self, group: usize) -> Result<&Datagrams, VerbsError> {
        let number = group as u32;
        let group = &mut self.groups[group];
        if group.datagrams.is_none() {
            group.datagrams = Some(Datagrams::new(&group.device, &group.queue, group.path, number)?);
        }
        group.datagrams.as_ref().ok_or(VerbsError::NotOffered)
    }

    fn list(&mut self, owner: u32) {
        if let Some(peer) = self.peers.get_mut(&owner)
            && !peer.listed
        {
            peer.listed = true;
            self.listed.push(owner);
        }
    }

    /// Takes every completion that has come; says how many told of something.
    fn take_completions(&mut self) -> usize {
        let mut told = 0;
        let mut batch = std::mem::take(&mut self.batch);
        for group in 0..self.groups.len() {
            loop {
                batch.clear();
                match self.groups[group].queue.poll(|completion| batch.push(completion)) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(_) => {
                        // The device is gone, and with it everybody who used it.
                        let lost = self.peers.iter().filter(|(_, peer)| peer.group == group);
                        self.failed.extend(lost.map(|(owner, _)| *owner));
                        break;
                    }
                }
                told += batch.iter().filter(|completion| self.completed(completion)).count();
            }
        }
        self.batch = batch;
        told
    }

    fn completed(&mut self, completion: &Completion) -> bool {
        let Some((role, owner, number)) = unpack(completion.id) else { return false };
        if role == Role::Datagram {
            // The owner is a group. A datagram that failed is lost as others are.
            let group = self.groups.get_mut(owner as usize).and_then(|group| group.datagrams.as_mut());
            group.into_iter().for_each(|datagrams| datagrams.is_done(number));
            return false;
        }
        // What a peer that has gone since had under way.
        let Some(peer) = self.peers.get_mut(&owner) else { return false };
        match (role, completion.status, completion.what) {
            (Role::Pushed, Status::Done, Completed::Written { immediate }) => {
                peer.channel.was_pushed(immediate);
            }
            (Role::Push, Status::Done, _) => peer.channel.is_done(number),
            (Role::Rung, Status::Done, Completed::Written { immediate }) if peer.rung(immediate).is_ok() => {}
            _ => {
                self.failed.push(owner);
                return true;
            }
        }
        self.list(owner);
        true
    }

    /// Serves those with something to do, once each.
    fn serve_listed(&mut self, core: &mut Core, service: &mut dyn Service) -> usize {
        let mut work = 0;
        for owner in std::mem::take(&mut self.listed) {
            let Some(peer) = self.peers.get_mut(&owner) else { continue };
            peer.listed = false;
            match peer.serve(service, &core.outbox, core.options.backlog_bytes_max, self.thorough) {
                Ok(served) => {
                    let group = &mut self.groups[peer.group];
                    group.datagrams.iter_mut().for_each(|datagrams| peer.send_kept(datagrams));
                    work += served.messages;
                    let (came, went) = peer.take_bytes();
                    count(&core.stats.messages, served.messages as u64);
                    count(&core.stats.verbs.bytes_in, came);
                    count(&core.stats.verbs.bytes_out, went);
                    if served.more {
                        self.list(owner);
                    }
                }
                Err(_) => self.failed.push(owner),
            }
        }
        for group in &mut self.groups {
            if let Some(datagrams) = &mut group.datagrams
                && datagrams.flush().is_err()
            {
                // Lost, as datagrams may be: whoever misses one asks again.
                continue;
            }
        }
        work
    }

    /// Looks for requests that nothing tells of.
    fn look_at_windows(&mut self) {
        for at in 0..self.windows.len() {
            let owner = self.windows[at];
            if self.peers.get(&owner).is_some_and(|peer| self.thorough || peer.has_request()) {
                self.list(owner);
            }
        }
    }
}

/// How many peers have come over, for whoever looks.
fn count_peers(core: &Core, peers: usize) {
    // ORDER: Relaxed: a count orders nothing.
    core.stats.verbs.peers.store(peers as u64, std::sync::atomic::Ordering::Relaxed);
}

impl Carrier for Verbs {
    fn attach(
        &mut self,
        core: &mut Core,
        peer: PeerId,
        local: IpAddr,
        body: &QueuePairsBody,
    ) -> Result<QueuePairsBody, Outcome> {
        let ring_bytes = body.ring_bytes.get() as usize;
        let shape = ChannelShape::new(ring_bytes, body.window.get() as usize);
        let window = body.window.get() as usize;
        if ring_bytes > core.options.ring_bytes_max || window > core.options.window_max || shape.is_none() {
            return Err(Outcome::NoRoom);
        }
        let choice = match &core.options.verbs {
            VerbsOption::By(choice) => Some(choice),
            _ => None,
        };
        let chosen = choose::open(choice, local).map_err(|_| Outcome::NoVerbs)?;
        self.make(core, peer, chosen, body).map_err(|_| Outcome::NoRoom)
    }

    fn renew(&mut self, peer: PeerId, body: &RenewBody) -> Result<RenewBody, Outcome> {
        let Some(peer) = self.owners.get(&peer).and_then(|owner| self.peers.get_mut(owner)) else {
            return Err(Outcome::NoVerbs);
        };
        let mut renewed = || -> Result<RenewBody, VerbsError> {
            let pair = operations_pair(&peer.domain, &self.groups[peer.group].queue, &peer.path)?;
            let packet = first_packet()?;
            let (queue_pair, first) = (body.operations_pair.get(), body.operations_packet.get() & 0xff_ffff);
            pair.connect(Some(&Remote { queue_pair, packet: first, ..peer.remote }), packet)?;
            let ours = RenewBody { operations_pair: pair.number().into(), operations_packet: packet.into() };
            peer.operations = pair;
            Ok(ours)
        };
        renewed().map_err(|_| Outcome::NoRoom)
    }

    fn has(&self, peer: PeerId) -> bool {
        self.owners.contains_key(&peer)
    }

    fn register(&mut self, peer: PeerId, grant: &Grant) -> Result<MemoryBody, Outcome> {
        let peer = self.owners.get(&peer).and_then(|owner| self.peers.get(owner)).ok_or(Outcome::NoVerbs)?;
        let access = Access::granted(grant.rights);
        let memory = MemoryRegion::register(&peer.domain, grant.region.words(), access)
            .map_err(|_| Outcome::NoRoom)?;
        let body = MemoryBody {
            address: memory.address().into(),
            key: memory.remote_key().into(),
            reserved: 0.into(),
        };
        if grant.standing.hold(Held(Box::new(memory))) { Ok(body) } else { Err(Outcome::Revoked) }
    }

    fn dismiss(&mut self, core: &mut Core, service: &mut dyn Service, peer: PeerId) {
        let Some(owner) = self.owners.remove(&peer) else { return };
        // What it sent before it went: its device has had an answer for it, so that it is here.
        self.take_completions();
        if let Some(peer) = self.peers.get_mut(&owner) {
            while peer.serve(service, &core.outbox, usize::MAX, true).is_ok_and(|served| served.more) {}
        }
        if let Some(gone) = self.peers.remove(&owner) {
            self.groups[gone.group].taken -= ENTRIES_PER_PEER;
            self.windows.retain(|with| *with != owner);
        }
        count_peers(core, self.peers.len());
    }

    fn event(&mut self, token: u64) {
        if let Some(group) = self.groups.get(token as usize) {
            group.queue.take_events();
        }
    }

    fn sweep(&mut self, core: &mut Core, service: &mut dyn Service) -> usize {
        let told = self.take_completions();
        self.look_at_windows();
        let work = told + self.serve_listed(core, service);
        for owner in self.failed.drain(..) {
            // Its stream ends, and then everything it had is freed.
            core.unwanted.extend(self.peers.get(&owner).map(|peer| peer.id));
        }
        work
    }

    fn before_sleep(&mut self) {
        self.thorough = true;
        for group in &self.groups {
            // A queue that cannot tell is gone; the next look at it finds that out.
            let _ = group.queue.notify(false);
        }
    }

    fn after_sleep(&mut self) {
        self.thorough = false;
    }

    fn send(&mut self, _core: &mut Core, outgoing: &Outgoing) -> bool {
        let (Outgoing::Reply { peer, .. } | Outgoing::Message { peer, .. }) = outgoing;
        let Some(owner) = self.owners.get(peer).copied() else { return false };
        self.sent += 1;
        if let Some(peer) = self.peers.get_mut(&owner) {
            peer.send(outgoing, self.sent);
        }
        self.list(owner);
        true
    }
}
