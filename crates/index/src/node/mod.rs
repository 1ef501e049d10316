//! A node's side of tables: it holds shards, answers about them, and alone changes them.
//!
//! Everything here runs on the node's poll loop, one message at a time. Which tables there are is
//! in the cluster's configuration: a shard is made when somebody first asks for it, and given up
//! when the node hears that its table was dropped.

mod expect;
pub mod notes;
mod operation;
mod reopen;
mod shard;
#[cfg(test)]
mod tests;

pub use operation::apply;
pub use reopen::Reopened;
pub use shard::{Decision, Shard, ShardStats};

use crate::error::Refused;
use crate::key::{Found, Key, Looked};
use crate::options::{KEY_BYTES_MAX, Kind, TableOptions, VALUE_BYTES_MAX};
use crate::wire::{
    self, Answer, Malformed, Method, Update, add_answer, add_value, next_key, next_update, split,
};
use crate::{cache, cuckoo, hopscotch, tree};
use barn_cluster::{Configuration, MemberId};
use barn_heap::Heap;
use barn_layout::Address;
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::planted;
use barn_layout::table::{
    CURSOR_END, Durability, Operation, Outcome, TableEntry, TableHeader, TablePage, TableScan, VALUE_LATER,
};
use notes::NoteKey;
use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};
use zerocopy::IntoBytes;

/// Starts the refusal of a request about a table that the node has not heard of, or for whose shard it has no
/// memory until readers have left what was freed: ask again.
pub const NOT_YET: &str = "not yet: ";
/// Starts the refusal of a request about a shard that is not held here.
pub const NOT_HERE: &str = "not here: ";

/// What a node without a log is told.
const NO_LOG: &str = "keeps no log: start it with a data directory (--data), or ask for less";

/// Keys whose memory is asked for together.
const GET_GROUP: usize = 32;
/// The same of changes, which look at more of it.
const UPDATE_GROUP: usize = 8;

/// How many pieces of what can wait are done for a shard as time passes: about a millisecond, ten times
/// in each lease.
const TENDED_AT_ONCE: usize = 8;
/// How many for all shards together: some 8 ms, for which nobody is answered.
const TENDED_IN_ALL: usize = 64;

/// Longer values are left out of pages.
const PAGE_VALUE_BYTES_MAX: usize = 256 << 10;

/// A shard, and how its table was made.
struct Held {
    options: TableOptions,
    /// How many shards the table has.
    shards: u16,
    /// The version of the configuration under which it was made.
    made: u64,
    shard: Box<dyn Shard>,
}

/// The shards that a node holds.
#[derive(Default)]
pub struct Tables {
    shards: Vec<((u32, u16), Held)>,
    /// The configuration's version when dropped tables were last looked for.
    swept: u64,
    /// The shard that was tended last.
    tended: usize,
    found: Found,
    /// What was found of keys that were looked up at once: short values.
    glanced: Vec<Found>,
    /// Keys of a batch that is being answered, for combining.
    later: Vec<bool>,
    counts: OperationCounts,
}

/// Operations on tables that the node was asked for, key by key. What clients read for themselves is
/// not among them: nobody here sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Keys looked up.
    pub get: u64,
    /// Values put.
    pub put: u64,
    /// Values put where there was none.
    pub insert: u64,
    /// Keys removed, or not found.
    pub delete: u64,
    /// Compare-and-swaps, and removals of one version.
    pub swap: u64,
    /// Increments.
    pub increment: u64,
    /// Pages of scans.
    pub scan: u64,
    /// Questions where a shard's memory is.
    pub roots: u64,
}

impl OperationCounts {
    /// Names and values.
    pub fn rows(&self) -> [(&'static str, u64); 8] {
        [
            ("get", self.get),
            ("put", self.put),
            ("insert", self.insert),
            ("delete", self.delete),
            ("swap", self.swap),
            ("increment", self.increment),
            ("scan", self.scan),
            ("roots", self.roots),
        ]
    }

    #[inline]
    fn update(&mut self, operation: Operation) {
        *match operation {
            Operation::Put => &mut self.put,
            Operation::Insert => &mut self.insert,
            Operation::Delete => &mut self.delete,
            Operation::Swap | Operation::DeleteVersion => &mut self.swap,
            Operation::Add => &mut self.increment,
        } += 1;
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.shards.iter().map(|(part, _)| part)).finish()
    }
}

/// The time in milliseconds since 1970, looked at once, and only if somebody asks.
#[derive(Debug, Default)]
pub struct Now(OnceLock<u64>);

impl Now {
    /// A time of one's own.
    pub fn at(ms: u64) -> Self {
        Self(OnceLock::from(ms))
    }

    /// The time.
    pub fn ms(&self) -> u64 {
        *self.0.get_or_init(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
        })
    }
}

/// What the tables need of the node at the moment of a request.
pub struct Surroundings<'a> {
    /// The node's memory.
    pub heap: &'a mut Heap,
    /// The newest configuration that the node knows.
    pub configuration: &'a Configuration,
    /// Who the node is.
    pub member: MemberId,
    /// The time.
    pub now: &'a Now,
    /// Objects of tables that transactions have changed.
    pub changed: Vec<Address>,
    /// What the node does for tables that do not say how durable they are; `Memory` if it has no log.
    pub durability: Durability,
}

/// What a request has done, for whoever keeps the log and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// The strongest that any of its changes asks for, before it may be answered.
    pub durability: Durability,
    /// Whether it has changed any key. (What the node did on the side nobody waits for.)
    pub changed: bool,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Surroundings({:?})", self.member)
    }
}

impl Tables {
    /// Answers a request; why not, otherwise.
    pub fn handle(
        &mut self,
        node: Surroundings<'_>,
        method: u16,
        body: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<Handled, String> {
        let method = Method::from_bits(method).ok_or_else(|| "no such method of tables".to_string())?;
        let (header, rest) = split::<TableHeader>(body).map_err(|error| error.to_string())?;
        let (table, shard, count) = (header.table.get(), header.shard.get(), header.count.get());
        let Surroundings { heap, configuration, member, now, changed, durability } = node;
        for address in changed {
            let _ = self.shards.iter_mut().any(|(_, held)| held.shard.touched(address));
        }
        if configuration.version > self.swept {
            self.sweep(heap, configuration);
        }
        let known = |tables: &Self| tables.shards.iter().position(|(part, _)| *part == (table, shard));
        let at = match known(self) {
            Some(at) => at,
            None => {
                self.make(heap, configuration, member, table, shard)?;
                self.shards.len() - 1
            }
        };
        // Who is asked for often is found soon.
        if at > 0 {
            self.shards.swap(at, at - 1);
        }
        let Self { shards, found, glanced, later, counts, .. } = self;
        let held = &mut shards[at.saturating_sub(1)].1;
        let handled = Handled::default();
        let mut at = Request { held, found, glanced, later, counts, heap, now, durability, handled };
        let done = match method {
            Method::Get => at.get(count, rest, answer),
            Method::Update => at.update(count, rest, answer),
            // All of a tree would be one page: a cursor says nothing of it.
            Method::Scan if at.held.options.kind == Kind::Tree => {
                return Err("keys of a tree are in order: they are gone through by ranges".into());
            }
            Method::Scan | Method::Range => {
                let paged =
                    if method == Method::Scan { at.scan(rest, answer) } else { at.range(rest, answer) };
                match paged {
                    Ok(None) => Ok(()),
                    Ok(Some(refused)) => return Err(refused.to_string()),
                    Err(malformed) => Err(malformed),
                }
            }
            Method::Roots => {
                at.counts.roots += 1;
                answer.extend_from_slice(&at.held.shard.roots(at.heap, rest));
                Ok(())
            }
            Method::Stats => {
                at.held.shard.recount(at.heap);
                let stats = serde_json::to_vec(&at.held.shard.stats()).unwrap_or_default();
                answer.extend_from_slice(&stats);
                Ok(())
            }
            Method::Grow => {
                at.held.shard.grow(at.heap, rest);
                Ok(())
            }
        };
        let Request { held, heap, handled, .. } = at;
        // Whoever looks at the counts should not change them.
        if method != Method::Stats {
            held.shard.tend(heap);
        }
        done.map(|()| handled).map_err(|error| error.to_string())
    }

    /// Does some of what can wait, as time passes: a table that was dropped is given up, and a shard gets
    /// ready, though nobody asks for any.
    pub fn tend(&mut self, heap: &mut Heap, configuration: &Configuration) {
        if configuration.version > self.swept {
            self.sweep(heap, configuration);
        }
        let mut left = TENDED_IN_ALL;
        for _ in 0..self.shards.len() {
            // Who was not reached is first the next time.
            if left == 0 {
                return;
            }
            self.tended = (self.tended + 1) % self.shards.len();
            let (_, held) = &mut self.shards[self.tended];
            let pieces = left.min(TENDED_AT_ONCE);
            left -= (0..pieces).take_while(|_| held.shard.tend(heap)).count();
        }
    }

    /// Whether a request is about a shard that is kept in memory only.
    pub fn is_volatile(&self, body: &[u8]) -> bool {
        let Ok((header, _)) = split::<TableHeader>(body) else { return false };
        let part = (header.table.get(), header.shard.get());
        let held = self.shards.iter().find(|(of, _)| *of == part);
        held.is_some_and(|(_, held)| !held.options.purpose().is_durable())
    }

    /// What was asked for since the start.
    pub fn operations(&self) -> OperationCounts {
        self.counts
    }

    /// The shards held here.
    pub fn stats(&self) -> impl Iterator<Item = (u32, u16, ShardStats)> + '_ {
        self.shards.iter().map(|((table, shard), held)| (*table, *shard, held.shard.stats()))
    }

    fn make(
        &mut self,
        heap: &mut Heap,
        configuration: &Configuration,
        member: MemberId,
        table: u32,
        shard: u16,
    ) -> Result<(), String> {
        let Some(placed) = configuration.table(table) else {
            return Err(format!("{NOT_YET}table {table} is not in configuration {}", configuration.version));
        };
        if placed.shards.get(shard as usize) != Some(&member) {
            return Err(format!("{NOT_HERE}shard {shard} of table {table}"));
        }
        let options = TableOptions::from_text(&placed.options).map_err(|error| error.to_string())?;
        if options.durability > Some(Durability::Memory) && heap.changes().is_none() {
            return Err(format!("table {table} is to be logged, and this node {NO_LOG}"));
        }
        let part = Part { table, shard, shards: placed.shards.len() as u16 };
        let made: Result<Box<dyn Shard>, Refused> = match options.kind {
            Kind::Hopscotch => hopscotch::Owner::new(heap, &options, part).map(|owner| Box::new(owner) as _),
            Kind::Cuckoo => cuckoo::Owner::new(heap, &options, part).map(|owner| Box::new(owner) as _),
            Kind::Cache => cache::Owner::new(heap, &options, part).map(|owner| Box::new(owner) as _),
            Kind::Tree => tree::Owner::new(heap, &options, part).map(|owner| Box::new(owner) as _),
        };
        let shard_made = made.map_err(|refused| match refused {
            // What was freed is had as soon as its readers have left.
            Refused::Full(why) if heap.will_have_room() => format!("{NOT_YET}{why}"),
            refused => refused.to_string(),
        })?;
        tracing::info!(table = placed.name, number = table, shard, kind = %options.kind, "a shard was made");
        let held = Held { options, shards: part.shards, made: configuration.version, shard: shard_made };
        held.note(heap, table, shard);
        self.shards.push(((table, shard), held));
        Ok(())
    }

    /// Gives up the shards of tables that are no more.
    fn sweep(&mut self, heap: &mut Heap, configuration: &Configuration) {
        self.swept = configuration.version;
        self.shards.retain_mut(|((table, shard), held)| {
            // A node that has just started may know a configuration from before the table was made.
            let there = configuration.table(*table).is_some() || configuration.version < held.made;
            if !there {
                held.shard.clear(heap);
                if let Some(record) = heap.changes() {
                    record.note_remove(NoteKey::new(*table, *shard).as_bytes());
                }
                tracing::info!(number = *table, "a shard was given up: its table was dropped");
            }
            there
        });
    }
}

/// Which part of which table a shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The table's number.
    pub table: u32,
    /// Which of its shards.
    pub shard: u16,
    /// How many there are.
    pub shards: u16,
}

/// A request under way.
struct Request<'a> {
    held: &'a mut Held,
    found: &'a mut Found,
    glanced: &'a mut Vec<Found>,
    later: &'a mut Vec<bool>,
    counts: &'a mut OperationCounts,
    heap: &'a mut Heap,
    now: &'a Now,
    /// What the node does for tables that do not say.
    durability: Durability,
    handled: Handled,
}

/// Adds what is known of a key: whether it is there, and what was found. `more` keys are to be answered, it among them.
#[inline]
fn add_found(answer: &mut Vec<u8>, there: Result<bool, Refused>, found: &Found, now: &Now, more: u16) {
    match there {
        Ok(true) if found.expires == 0 || !found.is_expired(now.ms()) => {
            let Found { ref value, version, expires } = *found;
            let told = match fits(answer, value.len(), more) {
                true => Answer { outcome: Outcome::Done, version, expires, value },
                false => Answer::only(Outcome::Again),
            };
            add_answer(answer, &told);
        }
        Ok(_) => add_answer(answer, &Answer::only(Outcome::Absent)),
        Err(refused) => add_refusal(answer, &refused),
    }
}

/// Whether an answer with another value of this length still is a message.
fn fits(answer: &[u8], value: usize, more: u16) -> bool {
    answer.len() + value + (usize::from(more) + 1) * Answer::BYTES_MAX <= MESSAGE_BYTES_MAX
}

fn add_refusal(answer: &mut Vec<u8>, refused: &Refused) {
    let told = match refused {
        Refused::Busy => Answer::only(Outcome::Again),
        Refused::Full(why) => Answer::because(Outcome::Full, why.as_bytes()),
        Refused::Invalid(why) => Answer::because(Outcome::Invalid, why.as_bytes()),
    };
    add_answer(answer, &told);
}

impl Request<'_> {
    fn get(&mut self, count: u16, mut rest: &[u8], answer: &mut Vec<u8>) -> Result<(), Malformed> {
        self.counts.get += u64::from(count);
        if count != 1 {
            return self.get_many(count, rest, answer);
        }
        let key = Key::new(self.held.options.seed, next_key(&mut rest)?);
        let there = self.held.shard.get(self.heap, key, self.found);
        add_found(answer, there, self.found, self.now, count);
        Ok(())
    }

    // Not inlined: the room for a group would be cleared for one key, and for changes, too.
    #[inline(never)]
    fn get_many(&mut self, count: u16, mut rest: &[u8], answer: &mut Vec<u8>) -> Result<(), Malformed> {
        let seed = self.held.options.seed;
        let mut group: [&[u8]; GET_GROUP] = [&[]; GET_GROUP];
        let mut looked = [Looked::Unsettled; GET_GROUP];
        self.glanced.resize_with(GET_GROUP, Found::default);
        for done in 0..count {
            let at = usize::from(done) % GET_GROUP;
            if at == 0 {
                let keys = &mut group[..usize::from(count - done).min(GET_GROUP)];
                for key in &mut *keys {
                    *key = next_key(&mut rest)?;
                }
                // Nothing is known of these yet, whatever became of the last ones.
                if !planted("looked_up_before") {
                    looked.fill(Looked::Unsettled);
                }
                if keys.len() > 1 {
                    self.held.shard.glance(self.heap, (seed, keys), self.glanced, &mut looked[..keys.len()]);
                }
            }
            // Nearly all: those that are there for good.
            if looked[at] == Looked::Found
                && let Found { value, version, expires: 0 } = &self.glanced[at]
                && fits(answer, value.len(), count - done)
            {
                add_value(answer, *version, value);
                continue;
            }
            let (there, found) = match looked[at] {
                Looked::Found => (Ok(true), &self.glanced[at]),
                Looked::Absent => (Ok(false), &*self.found),
                Looked::Unsettled | Looked::Stale => {
                    let key = Key::new(seed, group[at]);
                    (self.held.shard.get(self.heap, key, self.found), &*self.found)
                }
            };
            add_found(answer, there, found, self.now, count - done);
        }
        Ok(())
    }

    fn update(&mut self, count: u16, mut rest: &[u8], answer: &mut Vec<u8>) -> Result<(), Malformed> {
        let seed = self.held.options.seed;
        self.mark_combined(count, rest)?;
        for at in 0..count {
            if count > 1 && usize::from(at) % UPDATE_GROUP == 0 {
                self.prefetch_changes(usize::from(count - at).min(UPDATE_GROUP), rest);
            }
            let update = next_update(&mut rest)?;
            self.counts.update(update.operation);
            if update.key.len() > KEY_BYTES_MAX || update.value.len() > VALUE_BYTES_MAX {
                let why = "a key of more than 64 KiB or a value of more than 64 MiB";
                add_refusal(answer, &Refused::Invalid(why.into()));
                continue;
            }
            let durability = match self.durability_of(&update) {
                Ok(durability) => durability,
                Err(refused) => {
                    add_refusal(answer, &refused);
                    continue;
                }
            };
            self.handled.durability = self.handled.durability.max(durability);
            if self.later.get(usize::from(at)).copied().unwrap_or(false) {
                // A later put of this batch replaces it before anybody could have seen it.
                self.held.shard.combined();
                add_answer(answer, &Answer { expires: update.expires, ..Answer::only(Outcome::Done) });
                continue;
            }
            let key = Key::new(seed, update.key);
            let handled = &mut self.handled;
            apply(
                &mut *self.held.shard,
                self.heap,
                key,
                &update,
                self.now,
                |outcome, version, expires, value| {
                    handled.changed |= outcome == Outcome::Done;
                    add_answer(answer, &Answer { outcome, version, expires, value });
                },
            );
        }
        Ok(())
    }

    /// How durable a change has to be before it is answered.
    fn durability_of(&mut self, update: &Update<'_>) -> Result<Durability, Refused> {
        let options = &self.held.options;
        let (is_durable, asked) = (options.purpose().is_durable(), update.durability);
        let refused = match asked {
            Some(asked @ (Durability::Logged | Durability::Synced)) if !is_durable => format!(
                "{asked} is more than this table can be, which is kept in memory only: leave it out, or make \
                 a hopscotch, cuckoo or tree table whose durability is logged or synced"
            ),
            Some(asked @ (Durability::Logged | Durability::Synced)) if self.heap.changes().is_none() => {
                format!("a change cannot be {asked} here: this node {NO_LOG}")
            }
            _ if !is_durable => return Ok(Durability::Memory),
            _ => return Ok(asked.or(options.durability).unwrap_or(self.durability)),
        };
        Err(Refused::Invalid(refused))
    }

    /// Finds the puts of a batch that a later put of the same key in the same batch replaces.
    fn mark_combined(&mut self, count: u16, mut rest: &[u8]) -> Result<(), Malformed> {
        self.later.clear();
        if count < 2 {
            return Ok(());
        }
        let mut last: HashMap<&[u8], usize> = HashMap::with_capacity(usize::from(count));
        self.later.resize(usize::from(count), false);
        for at in 0..usize::from(count) {
            let update = next_update(&mut rest)?;
            match update.operation {
                // One that will be refused replaces nothing.
                Operation::Put if self.durability_of(&update).is_err() => {}
                Operation::Put => {
                    if let Some(before) = last.insert(update.key, at) {
                        self.later[before] = true;
                    }
                }
                // What this one finds depends on the puts before it.
                _ => {
                    last.remove(update.key);
                }
            }
        }
        Ok(())
    }

    /// Keys in no order; why not, otherwise.
    fn scan(&mut self, rest: &[u8], answer: &mut Vec<u8>) -> Result<Option<Refused>, Malformed> {
        self.counts.scan += 1;
        let (scan, _) = split::<TableScan>(rest)?;
        let most = (scan.bytes_max.get(), scan.keys_max.get());
        let (end, start, count) =
            self.page(most, answer, |shard, heap, each| shard.scan(heap, scan.cursor.get(), each));
        // A scan that stumbles over a lock goes on there with the next page.
        let cursor = match end {
            Ok(next) => next.unwrap_or(CURSOR_END),
            Err(Refused::Busy) => scan.cursor.get(),
            Err(refused) => return Ok(Some(refused)),
        };
        end_page(&mut answer[start..], cursor, count);
        Ok(None)
    }

    /// Keys in their order; why not, otherwise.
    fn range(&mut self, rest: &[u8], answer: &mut Vec<u8>) -> Result<Option<Refused>, Malformed> {
        self.counts.scan += 1;
        let (range, from, to) = wire::parse_range(rest)?;
        let most = (range.bytes_max.get(), range.keys_max.get());
        let (end, start, count) =
            self.page(most, answer, |shard, heap, each| shard.range(heap, from, to, each));
        let cursor = match end {
            Ok(true) => CURSOR_END,
            Ok(false) => 0,
            // What came before the lock is a page; with nothing of it, whoever asks tries again.
            Err(Refused::Busy) => 0,
            Err(refused) => return Ok(Some(refused)),
        };
        end_page(&mut answer[start..], cursor, count);
        Ok(None)
    }

    /// Fills a page with what `go` gives, up to so many bytes and keys; how that ended,
    /// where the page begins, and how many there are.
    fn page<T>(
        &mut self,
        (bytes_max, keys_max): (u32, u32),
        answer: &mut Vec<u8>,
        go: impl FnOnce(&mut dyn Shard, &Heap, &mut dyn FnMut(&[u8], &Found) -> bool) -> Result<T, Refused>,
    ) -> (Result<T, Refused>, usize, u32) {
        let bytes_max = (bytes_max as usize).clamp(1, MESSAGE_BYTES_MAX / 4);
        let keys_max = keys_max.max(1);
        let start = answer.len();
        answer.extend_from_slice(&[0; TablePage::BYTES]);
        let (mut count, now_ms) = (0, self.now.ms());
        let end = go(&mut *self.held.shard, self.heap, &mut |key, found| {
            if !found.is_expired(now_ms) {
                // Pages stay messages: a long value is for the asker to get.
                let long = found.value.len() > PAGE_VALUE_BYTES_MAX;
                let header = TableEntry {
                    key_bytes: (key.len() as u32).into(),
                    value_bytes: if long { VALUE_LATER } else { found.value.len() as u32 }.into(),
                    version: found.version.into(),
                    expires: found.expires.into(),
                };
                answer.extend_from_slice(header.as_bytes());
                answer.extend_from_slice(key);
                if !long {
                    answer.extend_from_slice(&found.value);
                }
                count += 1;
            }
            count < keys_max && answer.len() - start < bytes_max
        });
        (end, start, count)
    }
}

/// Writes down how a page ends.
fn end_page(answer: &mut [u8], cursor: u64, count: u32) {
    let page = TablePage { cursor: cursor.into(), count: count.into(), reserved: 0.into() };
    answer[..TablePage::BYTES].copy_from_slice(page.as_bytes());
}

/// Begins a request for the shard `part`; see [`wire`].
pub fn begin(message: &mut Vec<u8>, part: Part, count: u16) {
    wire::begin(message, part.table, part.shard, count);
}
