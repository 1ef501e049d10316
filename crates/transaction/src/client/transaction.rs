//! A transaction before its commit: what it has read, and what it wants to change.
//!
//! What always holds: an object has one entry; reading it again gives the same bytes, or what the
//! transaction itself has put there; nothing leaves this process before `commit`, but for places
//! reserved for new objects.
//!
//! Objects that are read one after another need not belong to one moment until `commit` says so
//! (FaRM's transactions, too, are validated at their end): a program must not run wild on a
//! combination of values that cannot be, only give up or go on to the commit that will refuse it.

use super::activity::Guard;
use super::read::Object;
use super::retry::Attempts;
use super::table::{NodeLink, Table};
use super::{Client, ClientStats, Inner, lock};
use crate::error::ClientError;
use crate::id::Pointer;
use crate::wire::{Method, many};
use barn_cluster::{Member, MemberId};
use barn_heap::{HEADER_BYTES, Purpose};
use barn_layout::transaction::{Change, Reserve, ReservedPlace};
use barn_layout::{Address, Durability, planted};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Up to so many entries are looked through one by one.
const LINEAR_MAX: usize = 16;

/// An object that a transaction has touched.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) pointer: Pointer,
    /// The version that was read; of a new object, the one it will have.
    pub(crate) version: u64,
    /// Which of the table's nodes holds it.
    pub(crate) node: usize,
    /// Where its present bytes are: as read, or as written.
    pub(crate) body: Range<usize>,
    pub(crate) change: Option<Change>,
}

/// What a transaction did with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The object.
    pub pointer: Pointer,
    /// The version that was read; of a new object, the one it will have.
    pub version: u64,
    /// How it is changed, if it is.
    pub change: Option<Change>,
}

fn left(client: &Client, ends: Option<Duration>, now: impl FnOnce() -> Duration) -> Duration {
    ends.map_or(client.deadline, |ends| client.deadline.min(ends.saturating_sub(now())))
}

/// A transaction under way. Dropped without [`commit`](Self::commit), it has done nothing.
pub struct Transaction {
    pub(crate) client: Client,
    pub(crate) guard: Guard,
    /// Taken at the first use; from then on the transaction belongs to that session.
    pub(crate) table: Option<Arc<Table>>,
    pub(crate) entries: Vec<Entry>,
    index: HashMap<Address, usize>,
    /// Whether the last object that was read was read after all others, not beside some of them.
    pub(crate) last_is_latest: bool,
    pub(crate) arena: Vec<u8>,
    /// Messages in the making, and their answers.
    pub(crate) request: Vec<u8>,
    pub(crate) reply: Vec<u8>,
    /// Places that were reserved and will not be used.
    pub(crate) unused: Vec<(usize, Address)>,
    /// Something was in the way that may not be next time.
    pub(crate) stumbled: Option<ClientError>,
    /// How far it must have come before it counts as committed; what is usual, if nobody says.
    pub(crate) durability: Option<Durability>,
    /// By when all of it has to end, if it is one of several attempts.
    pub(super) ends: Option<Duration>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("objects", &self.entries.len()).finish()
    }
}

impl Transaction {
    pub(super) fn new(client: Client) -> Self {
        let guard = client.inner.activity.enter();
        let Buffers { entries, arena, request, reply } = Buffers::take();
        Self {
            client,
            guard,
            table: None,
            entries,
            index: HashMap::new(),
            last_is_latest: true,
            arena,
            request,
            reply,
            unused: Vec::new(),
            stumbled: None,
            durability: None,
            ends: None,
        }
    }

    /// Says how far the commit must have come before it returns. Without a word it is what the nodes
    /// do by themselves.
    pub fn durability(&mut self, durability: Durability) {
        self.durability = Some(durability);
    }

    /// How much time the next step has.
    pub fn left(&self) -> Duration {
        left(&self.client, self.ends, || self.client.now())
    }

    /// The same, if the clock shows `now`.
    pub(super) fn left_at(&self, now: Duration) -> Duration {
        left(&self.client, self.ends, || now)
    }

    /// The session that it belongs to, from now on: see [`super::Reach::session`].
    pub fn session(&mut self) -> u64 {
        let inner = &self.client.inner;
        self.table.get_or_insert_with(|| inner.table()).session
    }

    /// Notes whether an error is one that passes.
    pub(super) fn noting<T>(&mut self, result: Result<T, ClientError>) -> Result<T, ClientError> {
        if let Err(error) = &result
            && error.is_passing()
        {
            self.stumbled = Some(error.clone());
        }
        result
    }

    pub(super) fn find(&self, address: Address) -> Option<usize> {
        if self.entries.len() <= LINEAR_MAX {
            return self.entries.iter().position(|entry| entry.pointer.address == address);
        }
        self.index.get(&address).copied()
    }

    pub(super) fn push(&mut self, entry: Entry) -> usize {
        let at = self.entries.len();
        if at == LINEAR_MAX {
            self.index =
                self.entries.iter().enumerate().map(|(at, entry)| (entry.pointer.address, at)).collect();
        }
        if at >= LINEAR_MAX {
            self.index.insert(entry.pointer.address, at);
        }
        self.entries.push(entry);
        at
    }

    /// Reads an object.
    pub async fn read(&mut self, pointer: Pointer) -> Result<&[u8], ClientError> {
        let at = match self.known(pointer)? {
            Some(at) => at,
            None => self.entry(pointer).await?,
        };
        Ok(&self.arena[self.entries[at].body.clone()])
    }

    /// Reads an object, with the version that was read.
    pub(crate) async fn read_object(&mut self, pointer: Pointer) -> Result<Object, ClientError> {
        let at = match self.known(pointer)? {
            Some(at) => at,
            None => self.entry(pointer).await?,
        };
        let entry = &self.entries[at];
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(&self.arena[entry.body.clone()]);
        Ok(Object { bytes, version: entry.version })
    }

    /// Replaces an object's bytes, which keep their length. One that was not read is read first:
    /// it must not have been freed.
    pub async fn write(&mut self, pointer: Pointer, body: &[u8]) -> Result<(), ClientError> {
        if body.len() == pointer.bytes as usize && self.known(pointer)?.is_none() {
            self.entry(pointer).await?;
        }
        self.replace(pointer, body)
    }

    /// Makes a new object. `near` asks for a place close to another's: in its block, its region, or
    /// at least on its node.
    pub async fn alloc(&mut self, body: &[u8], near: Option<Pointer>) -> Result<Pointer, ClientError> {
        self.alloc_for(body, near, Purpose::Objects).await
    }

    /// Makes a new object, accounted for under a purpose.
    pub async fn alloc_for(
        &mut self,
        body: &[u8],
        near: Option<Pointer>,
        purpose: Purpose,
    ) -> Result<Pointer, ClientError> {
        let made = self.make(body.len(), 1, near, purpose, |_| body).await;
        Ok(self.noting(made)?[0])
    }

    /// Makes objects of one length side by side, so that [`Client::read_array`] reads many of them
    /// at once.
    pub async fn alloc_array(
        &mut self,
        bodies: &[&[u8]],
        near: Option<Pointer>,
    ) -> Result<Vec<Pointer>, ClientError> {
        let Some(first) = bodies.first() else { return Ok(Vec::new()) };
        if let Some(other) = bodies.iter().find(|body| body.len() != first.len()) {
            let why = format!(
                "elements of {} and of {} bytes: an array's are of one length",
                first.len(),
                other.len()
            );
            return Err(ClientError::Refused { why });
        }
        let made = self.make(first.len(), bodies.len(), near, Purpose::Objects, |at| bodies[at]).await;
        self.noting(made)
    }

    async fn make<'b>(
        &mut self,
        bytes: usize,
        count: usize,
        near: Option<Pointer>,
        purpose: Purpose,
        body: impl Fn(usize) -> &'b [u8],
    ) -> Result<Vec<Pointer>, ClientError> {
        self.check_age()?;
        let inner = self.client.inner.clone();
        let session = self.table.get_or_insert_with(|| inner.table()).session;
        let node = match near {
            Some(near) => inner.region(session, near.address.region(), self.left()).await?.node.clone(),
            None => inner.any_node(session, self.left()).await?,
        };
        let reserve = Reserve {
            hint: near.map_or(0, |near| near.address.to_bits()).into(),
            bytes: (bytes as u32).into(),
            count: (count as u32).into(),
            purpose: (purpose as u32).into(),
            array: u32::from(count > 1).into(),
            reserved: 0.into(),
        };
        let mut answer = Vec::new();
        ClientStats::add(&inner.stats.messages, 1);
        node.connection
            .call(Method::Reserve as u16, reserve.as_bytes(), &mut answer)
            .within(self.left())
            .await
            .map_err(|error| inner.broken(session, error.into()))?;
        let places: &[ReservedPlace] = many(&answer)
            .map_err(|_| ClientError::Refused { why: "its places are of another version".into() })?;
        let table = inner.table();
        let node =
            table.node_at(&node).filter(|_| table.session == session).ok_or(ClientError::SessionLost)?;
        self.table = Some(table);
        let mut made = Vec::with_capacity(count);
        for (at, place) in places.iter().enumerate().take(count) {
            let address = Address::from_bits(place.address.get());
            let pointer = Pointer { address, bytes: bytes as u32, incarnation: place.incarnation.get() };
            let start = self.arena.len();
            self.arena.extend_from_slice(body(at));
            let body = start..self.arena.len();
            let entry =
                Entry { pointer, version: place.version.get(), node, body, change: Some(Change::Create) };
            self.push(entry);
            made.push(pointer);
        }
        if made.len() < count {
            return Err(ClientError::Refused {
                why: format!("it had room for {} of {count} objects", made.len()),
            });
        }
        Ok(made)
    }

    /// Frees an object.
    pub async fn free(&mut self, pointer: Pointer) -> Result<(), ClientError> {
        let at = match self.known(pointer)? {
            Some(at) => at,
            None => self.entry(pointer).await?,
        };
        let entry = &mut self.entries[at];
        if entry.change == Some(Change::Create) {
            // It never was: the entry stays, so that later uses of the pointer are refused.
            self.unused.push((entry.node, pointer.address));
        }
        entry.change = Some(Change::Free);
        Ok(())
    }

    /// Notes that something was in the way that may not be next time: the transaction is to be run
    /// again, not to be given up.
    pub fn stumble(&mut self, over: ClientError) {
        self.stumbled = Some(over);
    }

    /// The version that the place of an object had before the transaction, which has touched it, and whether
    /// it will have the next one: it is changed, or made.
    pub fn version_of(&self, pointer: Pointer) -> (u64, bool) {
        let Some(entry) = self.find(pointer.address).map(|at| &self.entries[at]) else { return (0, false) };
        match entry.change {
            Some(Change::Create) => (entry.version - 1, true),
            Some(Change::Update) => (entry.version, true),
            Some(Change::Free) | None => (entry.version, false),
        }
    }

    /// What the transaction has touched so far.
    pub fn touched(&self) -> Vec<Touched> {
        let live = self.entries.iter().filter(|entry| !self.is_unmade(entry));
        live.map(|entry| Touched { pointer: entry.pointer, version: entry.version, change: entry.change })
            .collect()
    }

    /// Keeps what was read and drops what was to be changed.
    pub(crate) fn forget_changes(&mut self) {
        let made: Vec<(usize, Address)> = self
            .entries
            .iter()
            .filter(|entry| entry.change == Some(Change::Create))
            .map(|entry| (entry.node, entry.pointer.address))
            .collect();
        self.unused.extend(made);
        let unused = std::mem::take(&mut self.unused);
        self.entries.retain(|entry| unused.iter().all(|(_, address)| *address != entry.pointer.address));
        self.unused = unused;
        self.entries.iter_mut().for_each(|entry| entry.change = None);
    }

    /// Whether an entry is of an object that the transaction has made and freed again.
    pub(crate) fn is_unmade(&self, entry: &Entry) -> bool {
        self.unused.iter().any(|(_, address)| *address == entry.pointer.address)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let inner = &self.client.inner;
        inner.activity.leave(&self.guard);
        // Entries that a commit has used are not there any more.
        for entry in self.entries.iter().filter(|entry| entry.change == Some(Change::Create)) {
            self.unused.push((entry.node, entry.pointer.address));
        }
        if let Some(table) = self.table.as_ref().filter(|_| !self.unused.is_empty()) {
            let mut giving_back = lock(&inner.giving_back);
            for (node, address) in self.unused.drain(..) {
                giving_back.push((table.nodes[node].clone(), address));
            }
        }
        Buffers {
            entries: std::mem::take(&mut self.entries),
            arena: std::mem::take(&mut self.arena),
            request: std::mem::take(&mut self.request),
            reply: std::mem::take(&mut self.reply),
        }
        .give_back();
    }
}

/// What a transaction allocates: kept by the thread that ends one for the next that it begins.
#[derive(Debug, Default)]
struct Buffers {
    entries: Vec<Entry>,
    arena: Vec<u8>,
    request: Vec<u8>,
    reply: Vec<u8>,
}

/// Buffers that one thread keeps: as many transactions as it may well interleave.
const KEPT_MAX: usize = 64;
/// Longer ones are not kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

impl Buffers {
    fn take() -> Self {
        KEPT.with(|kept| kept.borrow_mut().pop()).unwrap_or_default()
    }

    fn give_back(mut self) {
        if self.arena.capacity().max(self.request.capacity()).max(self.reply.capacity()) > KEPT_BYTES_MAX {
            return;
        }
        self.entries.clear();
        self.arena.clear();
        // A thread that ends has nothing to keep.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(self);
            }
        });
    }
}

impl Client {
    /// Begins a transaction that has to end within a time, its commit included.
    pub fn begin_within(&self, limit: Duration) -> Transaction {
        self.begin_until(self.now().saturating_add(limit))
    }

    /// Begins a transaction that is one of several attempts, in the time that there is for all of them.
    pub fn begin_attempt(&self, attempts: &Attempts) -> Transaction {
        self.begin_until(attempts.ends())
    }

    fn begin_until(&self, ends: Duration) -> Transaction {
        let mut transaction = self.begin();
        transaction.ends = Some(ends);
        transaction
    }
}

impl Inner {
    /// A node for new objects that need not be near to others: each in turn. Where nobody is known to
    /// take any, as while a cluster starts, the cluster is asked once more.
    async fn any_node(&self, session: u64, limit: Duration) -> Result<Arc<NodeLink>, ClientError> {
        let mut members = self.takers();
        if members.is_empty() && !planted("starting_cluster_stays_empty") {
            self.recover(limit).await;
            members = self.takers();
        }
        // ORDER: Relaxed: any number will do.
        let turn = self.next_member.fetch_add(1, Ordering::Relaxed) as usize;
        let mut last = ClientError::NoMember;
        for at in 0..members.len() {
            match self.node(session, members[(turn + at) % members.len()], limit).await {
                Err(error @ ClientError::Unreachable { .. }) => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    /// The members that have memory for objects.
    fn takers(&self) -> Vec<MemberId> {
        let configuration = self.directory.configuration();
        let takes = |member: &&Member| configuration.regions_of(member.id).next().is_some();
        configuration.members.iter().filter(takes).map(|member| member.id).collect()
    }
}
