//! Going through keys in their order: of a table of the kind `tree`.
//!
//! Every shard has its part of a range. Pages of them are fetched, by the client's own READs, a leaf at a time,
//! or by asking the node, and put together by their keys.
//!
//! What always holds: keys come in ascending order, each at most once; one that is there all the time is met.
//! Each page is of one moment, and the pages of several shards are not.

use super::memory::Unreadable;
use super::read::now_ms;
use super::roots::Roots;
use super::scan::{Page, read_page};
use super::table::{Counts, ShardLink, Table, Way};
use crate::error::TableError;
use crate::key::{Found, Looked};
use crate::options::Kind;
use crate::wire::{self, Method};
use barn_layout::table::CURSOR_END;
use barn_transaction::{ClientError, Pointer, Waits};

/// About how many bytes a page has that a node is asked for.
const PAGE_BYTES: u32 = 256 << 10;
/// How often a READ of a leaf begins again at once before it waits.
const QUICK_RETRIES: u32 = 4;

/// A walk through keys in their order.
#[derive(Debug)]
pub struct Range {
    table: Table,
    to: Option<Vec<u8>>,
    /// So many keys are still wanted.
    left: usize,
    parts: Vec<Part>,
}

/// What of a shard was fetched and not yet given, and from where to go on; nothing at the end.
#[derive(Debug)]
struct Part {
    page: std::iter::Peekable<std::vec::IntoIter<(Vec<u8>, Option<Found>)>>,
    from: Option<Vec<u8>>,
    /// The leaf that probably has it.
    leaf: Option<Pointer>,
}

impl Part {
    /// Whether its next key is still to be fetched.
    fn is_to_be_filled(&mut self) -> bool {
        self.from.is_some() && self.page.peek().is_none()
    }
}

/// A page, and where the next one begins.
struct Fetched {
    page: Page,
    next: Option<Vec<u8>>,
    leaf: Option<Pointer>,
}

impl Table {
    /// Goes through the keys from `from` on and before `to`, or to the last, in their order. Only of a table of
    /// the kind `tree`: the others have none, and say so when they are asked for the first key.
    pub fn range(&self, from: &[u8], to: Option<&[u8]>) -> Range {
        let table = self.current().into_owned();
        let part = || Part { page: Vec::new().into_iter().peekable(), from: Some(from.to_vec()), leaf: None };
        let parts = table.inner.shards.iter().map(|_| part()).collect();
        Range { table, to: to.map(<[u8]>::to_vec), left: usize::MAX, parts }
    }
}

impl Range {
    /// Ends after so many keys.
    #[must_use]
    pub fn at_most(self, keys: usize) -> Self {
        Self { left: keys, ..self }
    }

    /// The next key, if it has been fetched already: without a future, for those who go through many.
    pub fn next_at_hand(&mut self) -> Option<(Vec<u8>, Found)> {
        let at = self.first().filter(|_| self.left > 0)?;
        if self.parts.iter_mut().any(Part::is_to_be_filled) {
            return None;
        }
        let (key, found) = self.parts[at].page.next_if(|(_, found)| found.is_some())?;
        self.left -= 1;
        Some((key, found?))
    }

    /// The part that has the least of the keys that have been fetched.
    fn first(&mut self) -> Option<usize> {
        let mut first: Option<(usize, &[u8])> = None;
        for (at, part) in self.parts.iter_mut().enumerate() {
            if let Some((key, _)) = part.page.peek()
                && first.is_none_or(|(_, least)| &key[..] < least)
            {
                first = Some((at, key));
            }
        }
        first.map(|(at, _)| at)
    }

    /// The next key, with what it has; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<(Vec<u8>, Found)>, TableError> {
        if let Some(there) = self.next_at_hand() {
            return Ok(Some(there));
        }
        while self.left > 0 {
            for at in 0..self.parts.len() {
                self.fill(at).await?;
            }
            let Some(at) = self.first() else { return Ok(None) };
            match self.parts[at].page.next() {
                Some((key, Some(found))) => {
                    self.left -= 1;
                    return Ok(Some((key, found)));
                }
                // Too long for a page or a leaf; and perhaps gone since.
                Some((key, None)) => {
                    if let Some(found) = self.table.find(&key).await? {
                        self.left -= 1;
                        return Ok(Some((key, found)));
                    }
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Sees to it that a shard's next key is at hand, if it has one.
    async fn fill(&mut self, at: usize) -> Result<(), TableError> {
        while self.parts[at].page.peek().is_none() {
            let Some(from) = self.parts[at].from.take() else { return Ok(()) };
            let (table, to, left, leaf) = (&self.table, self.to.as_deref(), self.left, self.parts[at].leaf);
            let fetched = table
                .reading(async |table, waits| {
                    // The table of another cluster may have another number of shards.
                    let shard = table.inner.shards.get(at).ok_or(ClientError::AnotherCluster)?;
                    table.fetch_range(shard, (&from, to), leaf, left, waits).await
                })
                .await;
            match fetched {
                Ok(Fetched { page, next, leaf }) => {
                    self.parts[at] = Part { page: page.into_iter().peekable(), from: next, leaf };
                }
                Err(error) => {
                    self.parts[at].from = Some(from);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Table {
    /// A page of a shard.
    async fn fetch_range(
        &self,
        shard: &ShardLink,
        (from, to): (&[u8], Option<&[u8]>),
        leaf: Option<Pointer>,
        left: usize,
        waits: &mut Waits<'_>,
    ) -> Result<Fetched, TableError> {
        if self.kind() != Kind::Tree {
            let what = "to go through keys in their order, which a tree has";
            return Err(TableError::Unsupported { what, kind: self.kind() });
        }
        let one_sided = match self.way {
            Way::OneSided => true,
            Way::Request => false,
            // Where a READ is a load, a leaf after another is sooner there than an answer; which it is, the
            // shard's memory tells.
            Way::Auto | Way::Mix(_) => {
                let session = self.client.glance().session();
                if shard.known(session).is_none() {
                    self.fetch_roots(shard, waits.left()).await?;
                }
                self.client.glance().is_mapped()
            }
        };
        if one_sided && let Some(page) = self.read_range(shard, (from, to), leaf, left, waits).await? {
            return Ok(page);
        }
        self.ask_range(shard, (from, to), left, waits).await
    }

    /// Reads a leaf; nothing if the node has to be asked.
    async fn read_range(
        &self,
        shard: &ShardLink,
        (from, to): (&[u8], Option<&[u8]>),
        leaf: Option<Pointer>,
        left: usize,
        waits: &mut Waits<'_>,
    ) -> Result<Option<Fetched>, TableError> {
        let (mut reads, mut retries, mut stale) = (0, 0, 0);
        loop {
            let looked = {
                let reach = self.client.reach().within(waits.left());
                // Of this very session: where another's trees began means nothing in its memory.
                match shard.known(reach.session()).as_deref() {
                    Some(Roots::Tree(roots)) => roots.page(&reach, from, leaf, left, &mut reads).await,
                    _ => Ok(Err(Looked::Stale)),
                }
            };
            match looked {
                Ok(Ok(page)) => {
                    self.inner.counts.looked_up(page.keys.len() as u64, u64::from(reads));
                    let now = now_ms();
                    let is_within = |key: &[u8]| to.is_none_or(|to| key < to);
                    let next = page.next.filter(|next| is_within(next));
                    let mut keys = page.keys;
                    keys.retain(|(key, found)| {
                        is_within(key) && found.as_ref().is_none_or(|found| !found.is_expired(now))
                    });
                    return Ok(Some(Fetched { page: keys, next, leaf: page.right }));
                }
                Ok(Err(Looked::Stale)) | Err(Unreadable::Nowhere) => {
                    stale += 1;
                    if stale > 2 {
                        return Ok(None);
                    }
                    self.fetch_roots(shard, waits.left()).await?;
                }
                Ok(Err(_)) => {
                    Counts::add(&self.inner.counts.retries, 1);
                    retries += 1;
                    if retries > QUICK_RETRIES && !waits.next().await {
                        return Err(TableError::Contended);
                    }
                }
                Err(Unreadable::Closed(region)) => self.client.open(region, waits.left()).await?,
                Err(Unreadable::Lost(error)) => return Err(error.into()),
            }
        }
    }

    /// Asks the node.
    async fn ask_range(
        &self,
        shard: &ShardLink,
        (from, to): (&[u8], Option<&[u8]>),
        left: usize,
        waits: &mut Waits<'_>,
    ) -> Result<Fetched, TableError> {
        Counts::add(&self.inner.counts.requests, 1);
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        wire::begin(&mut message, shard.part.table, shard.part.shard, 0);
        wire::add_range(&mut message, from, to, PAGE_BYTES, u32::try_from(left).unwrap_or(u32::MAX));
        loop {
            self.ask(shard, Method::Range, &message, &mut answer, waits.left()).await?;
            let (page, cursor) = read_page(&answer)?;
            let next = match (cursor, page.last()) {
                (CURSOR_END, _) => None,
                // The least key after the last.
                (_, Some((last, _))) => Some([&last[..], &[0]].concat()),
                (_, None) => {
                    if !waits.next().await {
                        return Err(TableError::Contended);
                    }
                    continue;
                }
            };
            return Ok(Fetched { page, next, leaf: None });
        }
    }
}
