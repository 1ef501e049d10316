//! Going through all keys of a table, page by page.

use super::follow::Unheard;
use super::range::Range;
use super::read::malformed;
use super::table::Table;
use crate::error::TableError;
use crate::key::Found;
use crate::options::Kind;
use crate::wire::{self, Method, split, take};
use barn_layout::table::{CURSOR_END, TableEntry, TablePage, TableScan, VALUE_LATER};
use zerocopy::IntoBytes;

/// About how many bytes a page has.
const PAGE_BYTES: u32 = 256 << 10;

/// A walk through a table: every key that is there all the time is met once, in no order but that of a tree;
/// in a cache, if it is put again meanwhile, perhaps twice. What comes or goes meanwhile may be met or not. If a
/// node is lost on the way, its shard is walked through from the start again: what it has met may be met twice.
#[derive(Debug)]
pub struct Scan {
    table: Table,
    /// The whole of a table whose keys are in order.
    range: Option<Range>,
    shard: usize,
    cursor: u64,
    /// The session in which the cursor was given: a node that was started again knows no such place.
    session: u64,
    page: std::vec::IntoIter<(Vec<u8>, Option<Found>)>,
}

impl Table {
    /// Goes through all keys.
    pub fn scan(&self) -> Scan {
        let table = self.current().into_owned();
        let range = (table.kind() == Kind::Tree).then(|| table.range(&[], None));
        Scan { range, table, shard: 0, cursor: 0, session: 0, page: Vec::new().into_iter() }
    }
}

impl Scan {
    /// The next key, with what it has; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<(Vec<u8>, Found)>, TableError> {
        if let Some(range) = &mut self.range {
            return range.next().await;
        }
        loop {
            match self.page.next() {
                Some((key, Some(found))) => return Ok(Some((key, found))),
                // Too long for a page; and perhaps gone since.
                Some((key, None)) => match self.table.find(&key).await? {
                    Some(found) => return Ok(Some((key, found))),
                    None => continue,
                },
                None => {}
            }
            if self.shard >= self.table.inner.shards.len() {
                return Ok(None);
            }
            self.turn().await?;
        }
    }

    /// Fetches the next page.
    async fn turn(&mut self) -> Result<(), TableError> {
        let shard = &self.table.inner.shards[self.shard];
        let client = self.table.client();
        let mut waits = client.attempts();
        let mut answer = Vec::new();
        loop {
            // The session as it is before the question: see `fetch_roots`.
            let session = client.session();
            if session != self.session {
                (self.session, self.cursor) = (session, 0);
            }
            let mut message = Vec::new();
            wire::begin(&mut message, shard.part.table, shard.part.shard, 0);
            let (cursor, keys_max) = (self.cursor.into(), u32::MAX.into());
            message
                .extend_from_slice(TableScan { cursor, bytes_max: PAGE_BYTES.into(), keys_max }.as_bytes());
            match self.table.ask(shard, Method::Scan, &message, &mut answer, waits.left()).await {
                // What another session's node says of this cursor means nothing.
                Ok(()) if self.cursor != 0 && client.session() != session => {}
                Ok(()) => break,
                // The table of another cluster is another: who walks through it begins anew.
                Err(Unheard { error: TableError::Client(error), .. }) => {
                    if !waits.again(&error).await {
                        return Err(error.into());
                    }
                }
                Err(unheard) => return Err(unheard.error),
            }
        }
        let (keys, cursor) = read_page(&answer)?;
        self.page = keys.into_iter();
        match cursor {
            CURSOR_END => (self.shard, self.cursor) = (self.shard + 1, 0),
            cursor => self.cursor = cursor,
        }
        Ok(())
    }
}

/// The keys of a page; those whose values were left out have none.
pub(super) type Page = Vec<(Vec<u8>, Option<Found>)>;

/// Takes a page apart: its keys, and where to go on.
pub(super) fn read_page(answer: &[u8]) -> Result<(Page, u64), TableError> {
    let (page, mut rest) = split::<TablePage>(answer).map_err(malformed)?;
    let mut keys = Vec::new();
    for _ in 0..page.count.get() {
        let (header, after) = split::<TableEntry>(rest).map_err(malformed)?;
        let (key, after) = take(after, header.key_bytes.get() as usize).map_err(malformed)?;
        if header.value_bytes.get() == VALUE_LATER {
            rest = after;
            keys.push((key.to_vec(), None));
            continue;
        }
        let (value, after) = take(after, header.value_bytes.get() as usize).map_err(malformed)?;
        rest = after;
        let found =
            Found { value: value.to_vec(), version: header.version.get(), expires: header.expires.get() };
        keys.push((key.to_vec(), Some(found)));
    }
    Ok((keys, page.cursor.get()))
}
