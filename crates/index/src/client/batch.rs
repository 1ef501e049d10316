//! Looking many keys up at once: their cache misses, or their way over the network, overlap.

use super::read::{malformed, now_ms};
use super::table::{Counts, Table, Way};
use super::update::{batch, judge};
use crate::error::TableError;
use crate::key::{Found, Key, Looked};
use crate::wire::{self, Method, next_answer};
use barn_layout::table::Outcome;
use barn_transaction::ClientError;

/// What was found for each of many keys, in memory that is used again.
#[derive(Debug, Default)]
pub struct Answers {
    found: Vec<Found>,
    looked: Vec<Looked>,
    message: Vec<u8>,
    reply: Vec<u8>,
    count: usize,
}

impl Answers {
    /// With no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys were looked up.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What was found for the key at a place.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&Found> {
        (self.looked.get(at) == Some(&Looked::Found) && at < self.count).then(|| &self.found[at])
    }

    /// What was found, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = Option<&Found>> {
        (0..self.count).map(|at| self.get(at))
    }

    fn prepare(&mut self, count: usize) {
        self.count = count;
        if self.found.len() < count {
            self.found.resize_with(count, Found::default);
        }
        self.looked.clear();
        self.looked.resize(count, Looked::Unsettled);
    }
}

impl Table {
    /// The values of many keys.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, TableError> {
        let mut answers = Answers::new();
        self.find_many(keys, &mut answers).await?;
        Ok(answers.iter().map(|found| found.map(|found| found.value.clone())).collect())
    }

    /// Looks many keys up, into memory of the caller's. Each answer is of some moment during the call,
    /// not all of the same: a transaction is for that.
    pub async fn find_many(&self, keys: &[&[u8]], answers: &mut Answers) -> Result<(), TableError> {
        answers.prepare(keys.len());
        if self.inner.shards.len() == 1 {
            let mut at = 0;
            // Hashes of a group at a time: as much as is looked up together.
            while at < keys.len() {
                let end = keys.len().min(at + 32);
                self.find_group(0, &keys[at..end], at, answers, keys).await?;
                at = end;
            }
        } else {
            self.find_by_shard(keys, answers).await?;
        }
        let mut now = None;
        for (found, looked) in answers.found.iter().zip(&mut answers.looked) {
            if *looked == Looked::Found
                && found.expires != 0
                && found.is_expired(*now.get_or_insert_with(now_ms))
            {
                *looked = Looked::Absent;
            }
        }
        Ok(())
    }

    /// Keys of one shard, side by side: their answers are at `first` on.
    async fn find_group(
        &self,
        shard: usize,
        keys: &[&[u8]],
        first: usize,
        answers: &mut Answers,
        _all: &[&[u8]],
    ) -> Result<(), TableError> {
        let mut hashed = [Key { bytes: &[], hash: 0 }; 32];
        for (hashed, key) in hashed.iter_mut().zip(keys) {
            *hashed = self.key(key)?;
        }
        let hashed = &hashed[..keys.len()];
        let link = &self.inner.shards[shard];
        let end = first + keys.len();
        if self.way == Way::Request {
            let places: Vec<usize> = (first..end).collect();
            return self.request_many(shard, &places, |at| hashed[at - first], answers).await;
        }
        let roots = self.roots(link).await?;
        let mut reads = 0;
        let looked = {
            let reach = self.inner.client.reach();
            let (found, looked) = (&mut answers.found[first..end], &mut answers.looked[first..end]);
            roots.lookup_batch_mapped(&reach, hashed, found, looked, &mut reads)
        };
        Counts::add(&self.inner.counts.reads, reads);
        if looked.is_err() {
            // Not mapped, or not open: each on its own finds out which.
            answers.looked[first..end].fill(Looked::Unsettled);
            if self.way == Way::Auto && !self.is_mapped() {
                let places: Vec<usize> = (first..end).collect();
                return self.request_many(shard, &places, |at| hashed[at - first], answers).await;
            }
        } else {
            Counts::add(&self.inner.counts.gets, keys.len() as u64);
        }
        for (at, key) in (first..end).zip(hashed) {
            if !matches!(answers.looked[at], Looked::Found | Looked::Absent) {
                let there = self.find_one_sided(link, *key, &mut answers.found[at]).await?;
                answers.looked[at] = if there { Looked::Found } else { Looked::Absent };
            }
        }
        Ok(())
    }

    /// Whether READs are loads.
    fn is_mapped(&self) -> bool {
        let reach = self.inner.client.reach();
        let known = self.inner.shards.iter().filter_map(super::table::ShardLink::known);
        known
            .flat_map(|roots| roots.regions())
            .all(|region| reach.region(region).is_some_and(|it| it.mapped().is_some()))
    }

    async fn find_by_shard(&self, keys: &[&[u8]], answers: &mut Answers) -> Result<(), TableError> {
        let mut by_shard: Vec<Vec<usize>> = vec![Vec::new(); self.inner.shards.len()];
        for (at, key) in keys.iter().enumerate() {
            by_shard[self.shard_at(self.key(key)?)].push(at);
        }
        for (shard, places) in by_shard.iter().enumerate() {
            if self.way == Way::Request {
                let seed = self.inner.options.seed;
                self.request_many(shard, places, |at| Key::new(seed, keys[at]), answers).await?;
                continue;
            }
            let mut one = Answers::new();
            for places in places.chunks(32) {
                let group: Vec<&[u8]> = places.iter().map(|at| keys[*at]).collect();
                one.prepare(group.len());
                self.find_group(shard, &group, 0, &mut one, keys).await?;
                for (from, at) in places.iter().enumerate() {
                    answers.looked[*at] = one.looked[from];
                    std::mem::swap(&mut answers.found[*at], &mut one.found[from]);
                }
            }
        }
        Ok(())
    }

    /// Asks a shard's node for keys, in as few messages as can be.
    async fn request_many<'k>(
        &self,
        shard: usize,
        places: &[usize],
        key: impl Fn(usize) -> Key<'k>,
        answers: &mut Answers,
    ) -> Result<(), TableError> {
        let link = &self.inner.shards[shard];
        let mut left = places.to_vec();
        let (mut message, mut reply) =
            (std::mem::take(&mut answers.message), std::mem::take(&mut answers.reply));
        let mut waits = None;
        let mut lost = 0;
        while !left.is_empty() {
            let count = batch(&left, |at| key(at).bytes.len());
            wire::begin(&mut message, link.part.table, link.part.shard, count as u16);
            for at in &left[..count] {
                wire::add_key(&mut message, key(*at).bytes);
            }
            match self.ask(link, Method::Get, &message, &mut reply).await {
                Ok(()) => {}
                Err(TableError::Client(ClientError::SessionLost)) if lost < 2 => {
                    lost += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
            Counts::add(&self.inner.counts.requests, count as u64);
            let mut rest = &reply[..];
            let mut again = Vec::new();
            for at in left.drain(..count) {
                let (said, value) = next_answer(&mut rest).map_err(malformed)?;
                match judge(said.outcome.get(), value)? {
                    Outcome::Done => {
                        let found = &mut answers.found[at];
                        found.value.clear();
                        found.value.extend_from_slice(value);
                        found.version = said.version.get();
                        found.expires = said.expires.get();
                        answers.looked[at] = Looked::Found;
                    }
                    Outcome::Again => again.push(at),
                    _ => answers.looked[at] = Looked::Absent,
                }
            }
            if !again.is_empty() {
                left.splice(0..0, again);
                let waits = waits.get_or_insert_with(|| self.inner.client.attempts());
                if !waits.next().await {
                    return Err(TableError::Contended);
                }
            }
        }
        (answers.message, answers.reply) = (message, reply);
        Ok(())
    }
}
