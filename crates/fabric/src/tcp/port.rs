//! The listening side: newcomers, peers, and who is looked at when.
//!
//! Peers that were busy a moment ago are *hot*: they are tried directly at every sweep, so that
//! a spinning node answers with a `recv` and a `send` and nothing else. When more are busy than
//! that pays for, the port is *crowded* and leaves it all to epoll.
//!
//! What always holds: nothing here waits; a step deals with a bounded number of newcomers,
//! frames and bytes; `joined` and `gone` are called once for each admitted peer.

use super::handshake::{HANDSHAKE_MAX, Newcomer, Policy, Progress};
use super::peer::{End, Peer, Spare};
use super::stream::prepare;
use crate::node::{Core, NodeError, Port, Transport};
use crate::registry::PeerId;
use crate::service::{Outgoing, Service};
use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Newcomers accepted at one event, so that a storm does not keep the peers waiting.
const ACCEPTS_PER_EVENT: usize = 32;
/// Newcomers that have not shown themselves yet; past that the oldest is dropped.
const NEWCOMERS_MAX: usize = 256;
/// Connections that the system may hold for us between two looks.
const LISTEN_BACKLOG: i32 = 1024;
/// Peers that are tried at every sweep: each costs a system call, hit or miss.
const HOT_MAX: usize = 8;
/// A hot peer that had nothing so often cools: at 250 ns a try, longer than a spinning client's
/// round trip.
const EMPTY_TRIES_MAX: u32 = 200;
/// Sweeps that a crowded port leaves to epoll before it tries hot peers again.
const CROWDED_SWEEPS: u32 = 16 << 10;
/// How often newcomers' time is looked at, while there are any.
const TICK: Duration = Duration::from_millis(250);

const LISTENER: u64 = 0;
const TIMER: u64 = 1;
/// Set in the token of a newcomer; a peer's token is its number.
const NEWCOMER: u64 = 1 << 55;
/// Added to a peer's number, past the two tokens above.
const FIRST_PEER: u64 = 2;

/// The listening side.
pub(crate) struct TcpPort {
    number: u8,
    policy: Policy,
    listener: OwnedFd,
    /// The listener rests until the next tick: the process has no descriptor left.
    resting: bool,
    timer: OwnedFd,
    ticking: bool,
    /// By age.
    newcomers: BTreeMap<u64, Newcomer>,
    next_newcomer: u64,
    peers: HashMap<u64, Peer>,
    /// How many of them do everything but control by other means.
    attached: usize,
    hot: Vec<Hot>,
    crowded: u32,
    /// Peers with something to do that no event tells of.
    listed: Vec<u64>,
    /// Peers that are to go at the next sweep.
    doomed: Vec<(u64, End)>,
    spare: Spare,
}

struct Hot {
    peer: u64,
    empty: u32,
}

impl TcpPort {
    pub(crate) fn listen(
        core: &mut Core,
        address: SocketAddr,
        number: u8,
    ) -> Result<(Self, SocketAddr), NodeError> {
        let bind = || -> Result<(OwnedFd, SocketAddr), Errno> {
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let listener = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
            sockopt::set_socket_reuseaddr(&listener, true)?;
            rustix::net::bind(&listener, &address)?;
            rustix::net::listen(&listener, LISTEN_BACKLOG)?;
            let bound = rustix::net::getsockname(&listener)?.try_into()?;
            Ok((listener, bound))
        };
        let (listener, bound) = bind().map_err(|error| match error {
            Errno::ADDRINUSE => NodeError::InUse { address: address.to_string() },
            error => NodeError::Listen { address: address.to_string(), cause: error.into() },
        })?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        core.watch(&listener, number, LISTENER, EventFlags::IN)?;
        core.watch(&timer, number, TIMER, EventFlags::IN)?;
        let policy = Policy {
            token: core.options.token.clone(),
            allow_unauthenticated: core.options.allow_unauthenticated,
        };
        let port = Self {
            number,
            policy,
            listener,
            resting: false,
            timer,
            ticking: false,
            newcomers: BTreeMap::new(),
            next_newcomer: 0,
            peers: HashMap::new(),
            attached: 0,
            hot: Vec::with_capacity(HOT_MAX),
            crowded: 0,
            listed: Vec::new(),
            doomed: Vec::new(),
            spare: Spare::default(),
        };
        Ok((port, bound))
    }

    fn accept(&mut self, core: &Core) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..ACCEPTS_PER_EVENT {
            match rustix::net::acceptfrom_with(&self.listener, flags) {
                Ok((socket, from)) => {
                    // An address that cannot be told is a stranger's.
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    let from = from.map_or(Ipv4Addr::UNSPECIFIED.into(), |from| from.ip());
                    self.greet(core, Newcomer::new(socket, from, Instant::now()));
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // No descriptor left: make room, and rest rather than spin on the event.
                    self.newcomers.pop_first();
                    core.unwatch(&self.listener);
                    self.resting = true;
                    self.tick_on(true);
                    return;
                }
                // One that went again before it was accepted.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn greet(&mut self, core: &Core, newcomer: Newcomer) {
        if self.newcomers.len() >= NEWCOMERS_MAX {
            self.newcomers.pop_first();
            core.stats.refused.fetch_add(1, Ordering::Relaxed);
        }
        self.next_newcomer += 1;
        let token = NEWCOMER | self.next_newcomer;
        if prepare(&newcomer.socket).is_ok()
            && core.watch(&newcomer.socket, self.number, token, EventFlags::IN).is_ok()
        {
            self.newcomers.insert(token, newcomer);
            self.tick_on(true);
        }
    }

    /// A newcomer said something.
    fn advance(&mut self, core: &mut Core, service: &mut dyn Service, token: u64) {
        let Some(newcomer) = self.newcomers.get_mut(&token) else { return };
        match newcomer.advance(&self.policy) {
            Progress::Waiting => {}
            Progress::Gone => drop(self.newcomers.remove(&token)),
            Progress::Refused => {
                core.stats.refused.fetch_add(1, Ordering::Relaxed);
                self.newcomers.remove(&token);
            }
            Progress::Proved { code } => {
                if let Some(newcomer) = self.newcomers.remove(&token) {
                    self.admit(core, service, newcomer, code);
                }
            }
        }
    }

    fn admit(&mut self, core: &mut Core, service: &mut dyn Service, newcomer: Newcomer, code: [u8; 32]) {
        let id = match core.admit(Transport::Tcp) {
            Ok(id) => id,
            Err(refusal) => {
                newcomer.refuse_welcome(refusal);
                return;
            }
        };
        let token = FIRST_PEER + id.0;
        let watched = core.rewatch(&newcomer.socket, self.number, token, EventFlags::IN);
        if watched.is_err() || !newcomer.welcome(id, core.node, code) {
            core.dismiss(Transport::Tcp, id);
            return;
        }
        self.peers.insert(id.0, Peer::new(id, newcomer.socket));
        service.joined(id);
    }

    fn remove(&mut self, core: &mut Core, service: &mut dyn Service, peer: u64, end: End) {
        let Some(gone) = self.peers.remove(&peer) else { return };
        self.attached -= usize::from(gone.attached);
        core.with_carrier(|carrier, core| carrier.dismiss(core, service, PeerId(peer)));
        self.hot.retain(|hot| hot.peer != peer);
        core.unwatch(&gone.socket);
        if end == End::Expelled {
            core.stats.expelled.fetch_add(1, Ordering::Relaxed);
        }
        core.dismiss(Transport::Tcp, PeerId(peer));
        service.gone(PeerId(peer));
    }

    /// One turn of a peer; says how much there was to do.
    fn serve(&mut self, core: &mut Core, service: &mut dyn Service, peer: u64) -> usize {
        let Some(served) = self.peers.get_mut(&peer) else { return 0 };
        let was_attached = served.attached;
        match served.serve(core, service, &mut self.spare) {
            Ok(done) => {
                self.attached += usize::from(served.attached && !was_attached);
                if done.more && !served.listed {
                    served.listed = true;
                    self.listed.push(peer);
                }
                let wanted = served.wanted();
                if wanted != served.interest {
                    served.interest = wanted;
                    let token = FIRST_PEER + peer;
                    if core.rewatch(&served.socket, self.number, token, wanted).is_err() {
                        self.remove(core, service, peer, End::Closed);
                    }
                }
                done.work
            }
            Err(end) => {
                self.attached += usize::from(served.attached && !was_attached);
                self.remove(core, service, peer, end);
                1
            }
        }
    }

    /// A peer was busy: tries it directly from now on, unless too many are.
    fn heat(&mut self, peer: u64) {
        if self.crowded > 0 || !self.peers.contains_key(&peer) || self.hot.iter().any(|hot| hot.peer == peer)
        {
            return;
        }
        if self.hot.len() == HOT_MAX {
            self.hot.clear();
            self.crowded = CROWDED_SWEEPS;
            return;
        }
        self.hot.push(Hot { peer, empty: 0 });
    }

    fn tick(&mut self, core: &Core) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.timer, &mut count);
        let now = Instant::now();
        while let Some(oldest) = self.newcomers.first_entry() {
            if now - oldest.get().since < HANDSHAKE_MAX {
                break;
            }
            oldest.remove();
            core.stats.refused.fetch_add(1, Ordering::Relaxed);
        }
        if self.resting && core.watch(&self.listener, self.number, LISTENER, EventFlags::IN).is_ok() {
            self.resting = false;
        }
        self.tick_on(!self.newcomers.is_empty() || self.resting);
    }

    fn tick_on(&mut self, on: bool) {
        if on != self.ticking {
            self.ticking = on;
            let time = Timespec { tv_sec: 0, tv_nsec: if on { TICK.as_nanos() as i64 } else { 0 } };
            let times = Itimerspec { it_interval: time, it_value: time };
            let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times);
        }
    }
}

impl Port for TcpPort {
    fn event(&mut self, core: &mut Core, service: &mut dyn Service, token: u64, flags: EventFlags) {
        match token {
            LISTENER => self.accept(core),
            TIMER => self.tick(core),
            _ if token & NEWCOMER != 0 => self.advance(core, service, token),
            _ => {
                let peer = token - FIRST_PEER;
                if self.serve(core, service, peer) > 0 {
                    self.heat(peer);
                } else if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
                    // Not read from, for its answers wait: then nobody else would notice.
                    self.remove(core, service, peer, End::Closed);
                }
            }
        }
    }

    fn sweep(&mut self, core: &mut Core, service: &mut dyn Service) -> usize {
        let mut work = 0;
        while let Some(PeerId(peer)) = core.unwanted.pop() {
            self.remove(core, service, peer, End::Expelled);
            work += 1;
        }
        while let Some((peer, end)) = self.doomed.pop() {
            self.remove(core, service, peer, end);
            work += 1;
        }
        for peer in std::mem::take(&mut self.listed) {
            if let Some(listed) = self.peers.get_mut(&peer) {
                listed.listed = false;
                work += 1 + self.serve(core, service, peer);
            }
        }
        self.crowded = self.crowded.saturating_sub(1);
        let mut at = 0;
        while let Some(hot) = self.hot.get(at) {
            let peer = hot.peer;
            let done = self.serve(core, service, peer);
            work += done;
            // Serving may have removed it, or cleared the list.
            match self.hot.get_mut(at) {
                Some(hot) if hot.peer == peer => {
                    hot.empty = if done > 0 { 0 } else { hot.empty + 1 };
                    match hot.empty > EMPTY_TRIES_MAX {
                        true => drop(self.hot.swap_remove(at)),
                        false => at += 1,
                    }
                }
                _ => {}
            }
        }
        work
    }

    fn needs_events(&self) -> bool {
        // Streams that are only control paths can wait a little.
        self.peers.len() > self.attached
    }

    fn before_sleep(&mut self, _core: &mut Core) {
        // From here on epoll tells; a peer that speaks again is hot again.
        self.hot.clear();
        self.crowded = 0;
    }

    fn after_sleep(&mut self, _core: &mut Core) {}

    fn send(&mut self, core: &mut Core, outgoing: &Outgoing) -> bool {
        let (Outgoing::Reply { peer: PeerId(peer), .. } | Outgoing::Message { peer: PeerId(peer), .. }) =
            outgoing;
        let Some(to) = self.peers.get_mut(peer) else { return false };
        match to.push(outgoing, core.options.backlog_bytes_max) {
            // Sent at the next sweep, together with what else there is for this peer.
            Ok(()) if !to.listed => {
                to.listed = true;
                self.listed.push(*peer);
            }
            Ok(()) => {}
            Err(end) => self.doomed.push((*peer, end)),
        }
        true
    }
}
