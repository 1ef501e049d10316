//! Sessions: who may read, reserve and commit here, and until when.

use super::Participant;
use crate::wire::{Malformed, split, whole};
use barn_fabric::{PeerId, Rights};
use barn_heap::Purpose;
use barn_layout::Address;
use barn_layout::transaction::{Hello, Renew, Renewed, Reserve, ReservedPlace, TransactionId, Welcome};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Transactions of a session that are remembered as carried out, so that a client that lost its
/// link can ask: as many as it may have under way at once.
const REMEMBERED_MAX: usize = barn_layout::limits::OUTSTANDING_MAX;
/// Sessions that are remembered after their end.
const ENDED_MAX: usize = 1 << 16;
/// Places that one session may have reserved and not used.
const RESERVED_MAX: usize = 1 << 20;
/// Places that one request may ask for.
const RESERVED_AT_ONCE_MAX: u32 = 1 << 16;

/// Who a session belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An application.
    Client,
    /// A node's resolver, which may end the transactions of others.
    Resolver,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) role: Role,
    renewed: Duration,
    /// Every read of it that began in an earlier epoch has ended.
    epoch: u64,
    pub(super) reserved: BTreeSet<Address>,
    pub(super) assembling: Option<super::prepare::Assembling>,
    committed: VecDeque<u64>,
}

impl Session {
    /// Remembers that a transaction was carried out.
    pub(super) fn committed(&mut self, id: TransactionId) {
        if self.committed.len() == REMEMBERED_MAX {
            self.committed.pop_front();
        }
        self.committed.push_back(id.number.get());
    }
}

/// All sessions, and the end of those that were.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// In order, so that what follows from a seed is the same each time.
    by_peer: BTreeMap<PeerId, Session>,
    live: HashSet<u64>,
    ended: HashMap<u64, VecDeque<u64>>,
    ended_order: VecDeque<u64>,
}

impl Sessions {
    pub(super) fn of(&mut self, peer: PeerId) -> Option<&mut Session> {
        self.by_peer.get_mut(&peer)
    }

    /// How many are clients'.
    pub(super) fn clients(&self) -> usize {
        self.by_peer.values().filter(|session| session.role != Role::Resolver).count()
    }

    pub(super) fn is_resolver(&self, peer: PeerId) -> bool {
        self.by_peer.get(&peer).is_some_and(|session| session.role == Role::Resolver)
    }

    pub(super) fn has_committed(&self, id: TransactionId) -> bool {
        let (session, number) = (id.session.get(), id.number.get());
        let live = self.by_peer.values().find(|known| known.id == session).map(|known| &known.committed);
        live.or_else(|| self.ended.get(&session)).is_some_and(|numbers| numbers.contains(&number))
    }

    /// Remembers that a transaction of some session was carried out.
    pub(super) fn committed(&mut self, id: TransactionId) {
        if let Some(session) = self.by_peer.values_mut().find(|known| known.id == id.session.get()) {
            session.committed(id);
        }
    }

    fn end(&mut self, peer: PeerId) -> Option<Session> {
        let mut session = self.by_peer.remove(&peer)?;
        self.live.remove(&session.id);
        self.ended.insert(session.id, std::mem::take(&mut session.committed));
        self.ended_order.push_back(session.id);
        if self.ended_order.len() > ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        Some(session)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.by_peer.len()
    }

    /// The earliest epoch that a live session may still be reading in.
    fn oldest_epoch(&self) -> Option<u64> {
        self.by_peer.values().map(|session| session.epoch).min()
    }
}

impl Participant {
    pub(super) fn hello(&mut self, peer: PeerId, body: &[u8], answer: &mut Vec<u8>) -> Result<(), String> {
        let hello: &Hello = whole(body).map_err(malformed)?;
        let id = hello.session.get();
        if self.sessions.ended.contains_key(&id) || self.sessions.live.contains(&id) {
            return Err("a session with this number has been here: choose another".into());
        }
        if self.sessions.by_peer.contains_key(&peer) {
            return Err("this connection has a session already".into());
        }
        let role = match hello.role.get() {
            0 => Role::Client,
            1 => Role::Resolver,
            other => return Err(format!("there is no role {other}")),
        };
        for region in &self.regions {
            self.registry
                .allow(*region, peer, Rights::READ)
                .map_err(|error| format!("{region} cannot be read: {error}"))?;
        }
        let epoch = self.heap.epoch();
        let session = Session {
            id,
            role,
            renewed: self.clock.now(),
            epoch,
            reserved: BTreeSet::new(),
            assembling: None,
            committed: VecDeque::new(),
        };
        self.sessions.live.insert(id);
        self.sessions.by_peer.insert(peer, session);
        let configuration = self.directory.configuration();
        let welcome = Welcome {
            cluster: configuration.cluster.into(),
            life: configuration.member(self.member).map_or(0, |member| member.life.0).into(),
            lease_ms: (self.lease.as_millis() as u64).into(),
            epoch: epoch.into(),
            member: self.member.0.into(),
            reserved: 0.into(),
        };
        answer.extend_from_slice(welcome.as_bytes());
        Ok(())
    }

    pub(super) fn renew(&mut self, peer: PeerId, body: &[u8], answer: &mut Vec<u8>) -> Result<(), String> {
        let renew: &Renew = whole(body).map_err(malformed)?;
        let (now, epoch) = (self.clock.now(), self.heap.epoch());
        let Some(session) = self.sessions.of(peer).filter(|session| session.id == renew.session.get()) else {
            return Err("the session has ended: begin another".into());
        };
        session.renewed = now;
        // Nobody has left an epoch that has not begun.
        session.epoch = session.epoch.max(renew.epoch.get().min(epoch));
        let renewed = Renewed { epoch: epoch.into(), configuration: self.directory.version().into() };
        answer.extend_from_slice(renewed.as_bytes());
        Ok(())
    }

    /// Ends sessions whose lease is over, and lets the heap use again what no reader can see.
    pub fn tick(&mut self) {
        self.look_at_lease();
        let now = self.clock.now();
        self.end_sessions(|session, lease| session.renewed + lease < now);
        // Where nobody is short of memory, what was freed is given back all the same, a lease later: what is
        // held should be what is used.
        let due = self.heap.has_waiting() && self.epoch_began + self.lease <= now;
        if self.heap.wants_epoch() || due {
            self.heap.next_epoch();
            self.epoch_began = now;
        }
        let oldest = self.sessions.oldest_epoch().unwrap_or_else(|| self.heap.epoch());
        self.heap.readers_left(oldest);
    }

    /// Looks whether the node still has its own lease, and whether it has had one since the last
    /// look without a break.
    pub(super) fn look_at_lease(&mut self) {
        let Some(standing) = &self.standing else { return };
        let (lease, now) = (standing(), self.clock.now());
        self.fenced = !lease.is_valid(now);
        // One that was asked for after the last had ended: meanwhile the cluster may have done
        // without this node. (Also if a lease in between was not seen; that costs some sessions.)
        let broken = lease.ends_at() >= self.stands_until + barn_cluster::lease::held(self.lease);
        if self.fenced || broken {
            self.end_sessions(|session, _| session.role == Role::Client);
            let held: Vec<TransactionId> = self.held.keys().copied().collect();
            for id in held {
                self.close_held(id);
            }
        }
        self.stands_until = self.stands_until.max(lease.ends_at());
    }

    fn end_sessions(&mut self, over: impl Fn(&Session, Duration) -> bool) {
        let sessions = self.sessions.by_peer.iter();
        let ending = sessions.filter(|(_, session)| over(session, self.lease)).map(|(peer, _)| *peer);
        for peer in ending.collect::<Vec<_>>() {
            self.stats.expired += 1;
            let session = self.sessions.by_peer.get(&peer).map_or(0, |session| session.id);
            tracing::warn!(session = format_args!("{session:016x}"), %peer, "a session has ended by its lease");
            self.end_session(peer);
        }
    }

    /// Ends a session: its grants, its reservations; its transactions are orphans.
    pub(super) fn end_session(&mut self, peer: PeerId) {
        let Some(session) = self.sessions.end(peer) else { return };
        for region in &self.regions {
            // A region that is registered takes fewer rights than it has.
            let _ = self.registry.allow(*region, peer, Rights::NONE);
        }
        for address in session.reserved {
            // It was reserved by this session, so it is released.
            let _ = self.heap.release(address);
        }
        for (id, held) in &mut self.held {
            held.orphan |= id.session.get() == session.id;
        }
    }

    pub(super) fn reserve(&mut self, peer: PeerId, body: &[u8], answer: &mut Vec<u8>) -> Result<(), String> {
        let asked: &Reserve = whole(body).map_err(malformed)?;
        let Some(session) = self.sessions.of(peer) else {
            return Err("the session has ended: begin another".into());
        };
        let (bytes, count) = (asked.bytes.get() as usize, asked.count.get());
        if count == 0
            || count > RESERVED_AT_ONCE_MAX
            || session.reserved.len() + count as usize > RESERVED_MAX
        {
            return Err(format!(
                "{count} places at once: at most {RESERVED_AT_ONCE_MAX}, and {RESERVED_MAX} that are not in use yet"
            ));
        }
        let hint = Some(Address::from_bits(asked.hint.get())).filter(|hint| hint.to_bits() != 0);
        let purpose = Purpose::from_byte(asked.purpose.get() as u8).unwrap_or(Purpose::Objects);
        let mut places = Vec::new();
        let mut stride = 0;
        if asked.array.get() == 1 {
            let array = self.heap.reserve_array(bytes, count as usize, hint, purpose);
            let array = array.map_err(|error| error.to_string())?;
            places = array.slots;
            stride = array.slot_bytes as u32;
        } else {
            for index in 0..count {
                match self.heap.reserve(bytes, hint, purpose) {
                    Ok(place) => places.push(place),
                    // Fewer than asked for are better than none.
                    Err(_) if index > 0 => break,
                    Err(error) => return Err(error.to_string()),
                }
            }
        }
        for place in places {
            session.reserved.insert(place.address);
            let header = self.heap.header(place.address).map_err(|error| error.to_string())?;
            let reserved = ReservedPlace {
                address: place.address.to_bits().into(),
                version: (header.word.version() + 1).into(),
                incarnation: place.incarnation.into(),
                stride: stride.into(),
            };
            answer.extend_from_slice(reserved.as_bytes());
        }
        Ok(())
    }

    pub(super) fn release(&mut self, peer: PeerId, mut body: &[u8]) -> Result<(), String> {
        while !body.is_empty() {
            let (address, rest) = split::<zerocopy::little_endian::U64>(body).map_err(malformed)?;
            body = rest;
            let address = Address::from_bits(address.get());
            if self.sessions.of(peer).is_some_and(|session| session.reserved.remove(&address)) {
                let _ = self.heap.release(address);
            }
        }
        Ok(())
    }
}

pub(super) fn malformed(_: Malformed) -> String {
    "the message is not what this method takes: is the client of another version?".into()
}
