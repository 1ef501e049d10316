//! A table, as a program holds it.

use super::at_hand::{self, Known};
use super::choosing::Choosing;
use super::follow::{Successor, Unheard};
use super::roots::Roots;
use crate::error::TableError;
use crate::hash::{remix, scale};
use crate::key::Key;
use crate::node::{NOT_HERE, NOT_YET, Part, ShardStats};
use crate::options::{KEY_BYTES_MAX, Kind, TableOptions, VALUE_BYTES_MAX};
use crate::wire::{self, Method};
use barn_cluster::{MemberId, TablePlacement};
use barn_layout::table::Durability;
use barn_transaction::{Client, ClientError, Waits};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// How a table is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The client reads the memory for itself: Pilaf's and FaRM's way.
    OneSided,
    /// The node is asked: HERD's way.
    Request,
    /// Whichever is faster now: Cell's way.
    #[default]
    Auto,
    /// So many of a hundred by request, the others one-sidedly: to compare with.
    Mix(u8),
}

impl Way {
    /// Those that people choose from.
    pub const CHOICES: [Self; 3] = [Self::OneSided, Self::Request, Self::Auto];

    /// The name that people use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneSided => "one-sided",
            Self::Request => "request",
            Self::Auto => "auto",
            Self::Mix(_) => "mix",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mix(percent) => write!(f, "{percent} % by request"),
            named => f.pad(named.name()),
        }
    }
}

impl std::str::FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::CHOICES
            .into_iter()
            .find(|way| way.name() == name)
            .ok_or_else(|| format!("no way `{name}` to read: one-sided, request or auto"))
    }
}

/// How a node that has not heard of a table yet is given time to.
const NOT_YET_PAUSE: Duration = Duration::from_millis(2);

/// Where hashes are divided among shards: not by the bits that segments and buckets follow from.
const SHARD_SEED: u64 = 0x5ba2d;

/// What was read, and how.
pub(super) use barn_transaction::LookupCounts as Counts;

/// A table. Clones are the same, and cheap; threads may share one.
#[derive(Clone)]
pub struct Table {
    pub(super) inner: Arc<Inner>,
    /// The client, with this handle's deadline.
    pub(super) client: Client,
    pub(super) way: Way,
    /// What its changes ask for; nothing for what the table says.
    pub(super) durability: Option<Durability>,
}

pub(super) struct Inner {
    /// The cluster that the numbers below are of.
    pub(super) cluster: u64,
    pub(super) placed: TablePlacement,
    pub(super) options: TableOptions,
    pub(super) shards: Vec<ShardLink>,
    pub(super) counts: Arc<Counts>,
    /// The table of the same name in the cluster that came after: see [`super::follow`].
    pub(super) successor: Successor,
    /// Whether the last READ that was waited for was one over the network: a hint, for whoever asks first.
    pub(super) is_afar: AtomicBool,
}

/// How a table was read by this client, and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TableStats {
    /// What the shards hold, all together.
    pub shards: ShardStats,
    /// Keys that this client has looked up one-sidedly.
    pub one_sided_gets: u64,
    /// READs that it needed for them.
    pub reads: u64,
    /// Lookups that it had to begin again because a writer was there.
    pub retries: u64,
    /// Keys that it has asked the nodes for.
    pub request_gets: u64,
    /// Times that it has asked where a shard's memory is.
    pub refreshed: u64,
}

/// A shard, from afar.
pub(super) struct ShardLink {
    pub(super) part: Part,
    pub(super) member: MemberId,
    roots: RwLock<Option<Known>>,
    /// The mark of the newest of them.
    mark: AtomicU64,
    /// Which way is faster now, for one key and for many at once.
    pub(super) single: Choosing,
    pub(super) batched: Choosing,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({}, {}, {} shards)", self.name(), self.kind(), self.inner.shards.len())
    }
}

/// Whether the next of a fixed mix goes by request: spread evenly, whatever the part.
pub(super) fn next_of_mix(percent: u8) -> bool {
    thread_local! {
        static TURN: Cell<u32> = const { Cell::new(0) };
    }
    // 61 and 100 have no divisor in common: every hundred turns each number comes once.
    let turn = TURN.with(|turn| turn.replace((turn.get() + 61) % 100));
    turn < u32::from(percent)
}

impl Table {
    pub(super) fn new(client: Client, placed: TablePlacement) -> Result<Self, TableError> {
        let options = TableOptions::from_text(&placed.options)?;
        let shards = placed.shards.len() as u16;
        let links = (placed.shards.iter().enumerate())
            .map(|(shard, member)| ShardLink {
                part: Part { table: placed.table, shard: shard as u16, shards },
                member: *member,
                roots: RwLock::new(None),
                mark: AtomicU64::new(at_hand::UNKNOWN),
                single: Choosing::new(options.kind, client.random()),
                batched: Choosing::new(options.kind, client.random()),
            })
            .collect();
        let (cluster, counts) = (client.directory().cluster(), client.count_lookups());
        let successor = Successor::default();
        let inner = Inner {
            cluster,
            placed,
            options,
            shards: links,
            counts,
            successor,
            is_afar: AtomicBool::new(false),
        };
        Ok(Self { inner: Arc::new(inner), client, way: Way::default(), durability: None })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.inner.placed.name
    }

    /// Its design.
    pub fn kind(&self) -> Kind {
        self.inner.options.kind
    }

    /// How it was made.
    pub fn options(&self) -> &TableOptions {
        &self.inner.options
    }

    /// The same table, read in another way.
    pub fn read_by(&self, way: Way) -> Self {
        Self { way, ..self.clone() }
    }

    /// The same table, whose changes through this handle count as made only once they are so durable. On
    /// a table that is kept in memory only, more than `memory` is refused. Changes that are part of a
    /// transaction are the transaction's concern.
    #[must_use = "the handle itself keeps its durability"]
    pub fn durability(&self, durability: Durability) -> Self {
        Self { durability: Some(durability), ..self.clone() }
    }

    /// The same table, whose operations through this handle may take so long, all in all.
    #[must_use = "the handle itself keeps its deadline"]
    pub fn deadline(&self, deadline: Duration) -> Self {
        Self { client: self.client.with_deadline(deadline), ..self.clone() }
    }

    /// The client that it is reached through.
    pub fn client(&self) -> &Client {
        &self.client
    }

    #[inline]
    pub(super) fn key<'a>(&self, bytes: &'a [u8]) -> Result<Key<'a>, TableError> {
        self.check_key(bytes)?;
        Ok(Key::new(self.inner.options.seed, bytes))
    }

    #[inline]
    pub(super) fn check_key(&self, bytes: &[u8]) -> Result<(), TableError> {
        match bytes.len() > KEY_BYTES_MAX {
            true => Err(TableError::KeyTooLong { bytes: bytes.len() }),
            false => Ok(()),
        }
    }

    pub(super) fn check_value(&self, value: &[u8]) -> Result<(), TableError> {
        match value.len() > VALUE_BYTES_MAX {
            true => Err(TableError::ValueTooLong { bytes: value.len() }),
            false => Ok(()),
        }
    }

    /// The shard of a key.
    #[inline]
    pub(super) fn shard_at(&self, key: Key<'_>) -> usize {
        match self.inner.shards.len() {
            1 => 0,
            shards => scale(remix(key.hash, SHARD_SEED), shards as u64) as usize,
        }
    }

    #[inline]
    pub(super) fn shard(&self, key: Key<'_>) -> &ShardLink {
        &self.inner.shards[self.shard_at(key)]
    }

    /// Asks a shard's node, in the time that is left. Whether what was asked for may have been done
    /// though no answer came is for the caller to judge.
    pub(super) async fn ask(
        &self,
        shard: &ShardLink,
        method: Method,
        message: &[u8],
        answer: &mut Vec<u8>,
        left: Duration,
    ) -> Result<(), Unheard> {
        let whom = (self.inner.cluster, shard.member);
        let mut since = None;
        loop {
            let left = since.map_or(left, |since| left.saturating_sub(self.client.now() - since));
            let Err(unanswered) = self.client.ask(whom, method as u16, message, answer, left).await else {
                return Ok(());
            };
            match &unanswered.error {
                ClientError::Refused { why } if why.starts_with(NOT_YET) => {
                    if self.is_dropped(left).await {
                        return Err(TableError::NoTable(self.name().to_string()).into());
                    }
                    since.get_or_insert_with(|| self.client.now());
                    if left.is_zero() || !self.client.attempts().next_after(NOT_YET_PAUSE.min(left)).await {
                        return Err(unanswered.into());
                    }
                }
                ClientError::Refused { why } if why.starts_with(NOT_HERE) => {
                    return Err(TableError::NoTable(self.name().to_string()).into());
                }
                _ => return Err(unanswered.into()),
            }
        }
    }

    async fn is_dropped(&self, left: Duration) -> bool {
        self.client.refresh(left).await;
        self.client.directory().configuration().table(self.inner.placed.table).is_none()
    }

    /// The roots of a shard in a session; asked for if they are not known.
    pub(super) async fn roots(
        &self,
        shard: &ShardLink,
        session: u64,
        left: Duration,
    ) -> Result<Arc<Roots>, TableError> {
        match shard.known(session) {
            Some(roots) => Ok(roots),
            None => self.fetch_roots(shard, left).await,
        }
    }

    pub(super) async fn fetch_roots(
        &self,
        shard: &ShardLink,
        left: Duration,
    ) -> Result<Arc<Roots>, TableError> {
        Counts::add(&self.inner.counts.refreshed, 1);
        // The session as it is before the question: if it ends meanwhile, the answer is not kept.
        let session = self.client.session();
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        wire::begin(&mut message, shard.part.table, shard.part.shard, 0);
        self.ask(shard, Method::Roots, &message, &mut answer, left).await?;
        let roots = Roots::parse(&answer, &self.inner.options, shard.part)
            .map_err(|error| ClientError::Refused { why: error.to_string() })?;
        for region in roots.regions() {
            self.client.open(region, left).await?;
        }
        let roots = Arc::new(roots);
        shard.learn(session, roots.clone());
        Ok(roots)
    }

    /// Brings the roots up to date for one key, or all of them if that is not enough.
    pub(super) async fn renew_roots(
        &self,
        shard: &ShardLink,
        key: Key<'_>,
        left: Duration,
    ) -> Result<(), TableError> {
        let session = self.client.session();
        let Some(known) = shard.known(session) else {
            return self.fetch_roots(shard, left).await.map(|_| ());
        };
        let query = known.query(key);
        if !query.is_empty() {
            Counts::add(&self.inner.counts.refreshed, 1);
            let (mut message, mut answer) = (Vec::new(), Vec::new());
            wire::begin(&mut message, shard.part.table, shard.part.shard, 0);
            message.extend_from_slice(&query);
            self.ask(shard, Method::Roots, &message, &mut answer, left).await?;
            let mut roots = (*known).clone();
            if roots.patch(&answer) {
                shard.learn(session, Arc::new(roots));
                return Ok(());
            }
        }
        self.fetch_roots(shard, left).await.map(|_| ())
    }

    /// How many keys this client has looked up one-sidedly, and how many by request.
    pub fn ways_taken(&self) -> (u64, u64) {
        let counts = self.inner.counts.now();
        (counts.gets, counts.requests)
    }

    /// What the table holds, and how this client has read it.
    pub async fn stats(&self) -> Result<TableStats, TableError> {
        self.reading(async |table, waits| table.stats_once(waits).await).await
    }

    async fn stats_once(&self, waits: &Waits<'_>) -> Result<TableStats, TableError> {
        let counts = self.inner.counts.now();
        let mut stats = TableStats {
            shards: ShardStats::default(),
            one_sided_gets: counts.gets,
            reads: counts.reads,
            retries: counts.retries,
            request_gets: counts.requests,
            refreshed: counts.refreshed,
        };
        for shard in &self.inner.shards {
            let (mut message, mut answer) = (Vec::new(), Vec::new());
            wire::begin(&mut message, shard.part.table, shard.part.shard, 0);
            self.ask(shard, Method::Stats, &message, &mut answer, waits.left()).await?;
            let one: ShardStats = serde_json::from_slice(&answer)
                .map_err(|error| ClientError::Refused { why: format!("its counts: {error}") })?;
            stats.shards.add(&one);
        }
        Ok(stats)
    }
}

impl ShardLink {
    /// Whether its roots were ever known.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        // ORDER: Relaxed: a hint; the roots themselves are behind their lock.
        self.mark.load(Ordering::Relaxed) != at_hand::UNKNOWN
    }

    /// What was learned last, in whichever session.
    fn newest(&self) -> Option<Known> {
        self.roots.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    #[inline]
    pub(super) fn known(&self, session: u64) -> Option<Arc<Roots>> {
        self.newest().filter(|known| known.serves(session)).map(|known| known.roots)
    }

    /// Runs `look` with what was learned last, in whichever session: mostly without a lock, and no reference is
    /// counted.
    #[inline(always)]
    pub(super) fn with_newest<T>(&self, look: impl FnOnce(&Known) -> Option<T>) -> Option<T> {
        // SYNC: Acquire, pairs with the Release in `learn`: whoever sees a mark finds its roots, or newer ones.
        let mark = self.mark.load(Ordering::Acquire);
        Known::with(mark, || self.newest(), look)
    }

    fn learn(&self, session: u64, roots: Arc<Roots>) {
        let known = Known::new(session, roots);
        let mut newest = self.roots.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SYNC: Release, pairs with the Acquire in `with_newest`; within the lock, so that the last mark is
        // that of the last roots.
        self.mark.store(known.mark, Ordering::Release);
        *newest = Some(known);
    }
}
