//! Looking many keys up at once: their cache misses, or their way over the network, overlap.

use super::at_once::Glanced;
use super::read::{Trial, malformed, now_ms, take_value};
use super::table::{Counts, ShardLink, Table, Way, next_of_mix};
use super::update::{batch, judge};
use crate::error::TableError;
use crate::key::{Found, Key, Looked};
use crate::selector::Choice;
use crate::wire::{self, Method, next_answer};
use barn_fabric::block_on;
use barn_layout::planted;
use barn_layout::table::Outcome;
use barn_transaction::{ClientError, Exchange, TOGETHER_MAX, Waits};
use std::future::poll_fn;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

/// Keys that are hashed and looked up together.
const GROUP: usize = 64;

/// What was found for each of many keys, in memory that is used again.
#[derive(Debug, Default)]
pub struct Answers {
    found: Vec<Found>,
    looked: Vec<Looked>,
    /// Of the messages that are under way together.
    pub(super) asked: [Exchange; TOGETHER_MAX],
    count: usize,
}

fn is_settled(looked: Looked) -> bool {
    matches!(looked, Looked::Found | Looked::Absent)
}

/// Drives futures together until all are done, or one has failed.
async fn all<F: Future<Output = Result<(), TableError>>>(
    futures: Vec<Pin<Box<F>>>,
) -> Result<(), TableError> {
    let mut running = futures;
    poll_fn(|cx| {
        let mut failed = None;
        running.retain_mut(|future| match future.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(done) => {
                failed = failed.take().or(done.err());
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if running.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
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

    /// The values that were found, in the order of the keys.
    pub fn into_values(mut self) -> Vec<Option<Vec<u8>>> {
        self.found.truncate(self.count);
        let answers = self.found.into_iter().zip(self.looked);
        answers.map(|(found, looked)| (looked == Looked::Found).then_some(found.value)).collect()
    }

    pub(super) fn prepare(&mut self, count: usize) {
        self.count = count;
        if self.found.len() < count {
            self.found.resize_with(count, Found::default);
        }
        self.looked.clear();
        self.looked.resize(count, Looked::Unsettled);
    }

    /// Where the answers to some of the keys go.
    #[inline]
    pub(super) fn of(&mut self, keys: Range<usize>) -> (&mut [Found], &mut [Looked]) {
        (&mut self.found[keys.clone()], &mut self.looked[keys])
    }

    /// How many of some keys are settled. Those that are past their time are not there.
    #[inline]
    pub(super) fn settle(&mut self, keys: Range<usize>) -> u64 {
        let (found, looked) = self.of(keys);
        let (mut settled, mut now) = (0, None);
        for (found, looked) in found.iter().zip(looked) {
            settled += u64::from(is_settled(*looked) || planted("unsettled_at_once_is_absent"));
            if *looked == Looked::Found
                && found.expires != 0
                && found.is_expired(*now.get_or_insert_with(now_ms))
            {
                *looked = Looked::Absent;
            }
        }
        settled
    }

    /// Takes a node's answers to the keys at these places; what it could not answer yet is asked for `again`.
    fn take(&mut self, places: &[usize], reply: &[u8], again: &mut Vec<usize>) -> Result<(), TableError> {
        let mut rest = reply;
        for at in places.iter().copied() {
            let told = next_answer(&mut rest).map_err(malformed)?;
            match judge(&told)? {
                Outcome::Done => {
                    take_value(&told, &mut self.found[at]);
                    self.looked[at] = Looked::Found;
                }
                Outcome::Again => again.push(at),
                _ => self.looked[at] = Looked::Absent,
            }
        }
        Ok(())
    }

    /// Takes a node's answers to the keys at these places, as far as they are answers.
    pub(super) fn take_plain(&mut self, places: Range<usize>, mut reply: &[u8]) {
        let (found, looked) = self.of(places);
        for (found, looked) in found.iter_mut().zip(looked) {
            let Ok(told) = next_answer(&mut reply) else { return };
            match told.outcome {
                Outcome::Done => {
                    take_value(&told, found);
                    *looked = Looked::Found;
                }
                Outcome::Absent => *looked = Looked::Absent,
                // Not now, or not at all: the long way finds out.
                _ => {}
            }
        }
    }

    /// Which of some keys are not settled, and where their answers go.
    fn unsettled(
        &mut self,
        keys: Range<usize>,
    ) -> impl Iterator<Item = (usize, (&mut Found, &mut Looked))> + Send {
        let (found, looked) = self.of(keys);
        found.iter_mut().zip(looked).enumerate().filter(|(_, (_, looked))| !is_settled(**looked))
    }
}

impl Table {
    /// The values of many keys.
    pub async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, TableError> {
        let mut answers = Answers::new();
        self.find_many(keys, &mut answers).await?;
        Ok(answers.into_values())
    }

    /// Looks many keys up, into memory of the caller's. Each answer is of some moment during the call,
    /// not all of the same: a transaction is for that.
    pub async fn find_many(&self, keys: &[&[u8]], answers: &mut Answers) -> Result<(), TableError> {
        match self.find_many_at_once(keys, answers) {
            glanced if glanced.settled == keys.len() as u64 => Ok(()),
            glanced => self.find_rest(keys, answers, glanced).await,
        }
    }

    /// As [`Table::find_many`], blocking this thread: where memory is mapped here, there is mostly nothing to
    /// wait for, and no future is made.
    pub fn find_many_waiting(&self, keys: &[&[u8]], answers: &mut Answers) -> Result<(), TableError> {
        let glanced = match self.way {
            Way::Request => self.ask_many_plainly(keys, answers)?,
            _ => self.find_many_at_once(keys, answers),
        };
        match glanced.settled == keys.len() as u64 {
            true => Ok(()),
            false => block_on(self.find_rest(keys, answers, glanced)),
        }
    }

    /// Looks up what was not found out at once.
    async fn find_rest(
        &self,
        keys: &[&[u8]],
        answers: &mut Answers,
        glanced: Glanced,
    ) -> Result<(), TableError> {
        if glanced.settled < glanced.looked as u64 {
            let left = answers.unsettled(0..glanced.looked).map(|(at, (found, looked))| {
                Box::pin(async move {
                    let there = self.find_by_future(keys[at], found).await?;
                    *looked = if there { Looked::Found } else { Looked::Absent };
                    Ok(())
                })
            });
            all(left.collect()).await?;
        }
        if glanced.looked < keys.len() {
            let (first, rest) = (glanced.looked, &keys[glanced.looked..]);
            self.reading(async |table, waits| table.find_many_once(rest, first, answers, waits).await)
                .await?;
        }
        Ok(())
    }

    /// One attempt; the answers are at `first` on.
    async fn find_many_once(
        &self,
        keys: &[&[u8]],
        first: usize,
        answers: &mut Answers,
        waits: &mut Waits<'_>,
    ) -> Result<(), TableError> {
        let all = first..first + keys.len();
        answers.looked[all.clone()].fill(Looked::Unsettled);
        if self.inner.shards.len() == 1 && self.way == Way::Request {
            keys.iter().try_for_each(|key| self.check_key(key))?;
            let places: Vec<usize> = all.clone().collect();
            self.request_many(0, &places, |at| keys[at - first], answers, waits).await?;
        } else if self.inner.shards.len() == 1 {
            for (group, keys) in keys.chunks(GROUP).enumerate() {
                self.find_group(0, keys, first + group * GROUP, answers, waits).await?;
            }
        } else {
            self.find_by_shard(keys, first, answers, waits).await?;
        }
        answers.settle(all);
        Ok(())
    }

    /// Keys of one shard, side by side: their answers are at `first` on.
    async fn find_group(
        &self,
        shard: usize,
        keys: &[&[u8]],
        first: usize,
        answers: &mut Answers,
        waits: &mut Waits<'_>,
    ) -> Result<(), TableError> {
        let mut hashed = [Key { bytes: &[], hash: 0 }; GROUP];
        for (hashed, key) in hashed.iter_mut().zip(keys) {
            *hashed = self.key(key)?;
        }
        let hashed = &hashed[..keys.len()];
        let link = &self.inner.shards[shard];
        let end = first + keys.len();
        if self.way == Way::Auto && !link.is_known() {
            self.fetch_roots(link, waits.left()).await?;
        }
        let sent = (self.way == Way::Auto).then(|| link.batched.choose(&self.client));
        let by_request = match (self.way, &sent) {
            (Way::Request, _) => true,
            (Way::Mix(percent), _) => next_of_mix(percent),
            (_, Some(sent)) => sent.choice == Choice::Request,
            (_, None) => false,
        };
        let done = match by_request {
            true => {
                let places: Vec<usize> = (first..end).collect();
                self.request_many(shard, &places, |at| hashed[at - first].bytes, answers, waits).await
            }
            false => self.look_many(link, hashed, first, answers, waits).await,
        };
        if let Some(sent) = sent {
            link.batched.done(&self.client, &sent, keys.len());
        }
        done
    }

    /// Looks up keys of one shard in its memory.
    async fn look_many(
        &self,
        link: &ShardLink,
        hashed: &[Key<'_>],
        first: usize,
        answers: &mut Answers,
        waits: &mut Waits<'_>,
    ) -> Result<(), TableError> {
        let end = first + hashed.len();
        let roots = self.roots(link, self.client.session(), waits.left()).await?;
        let mut reads = 0;
        let looked = {
            let reach = self.client.reach().within(waits.left());
            // What is known of another session's memory is of no use in this one.
            if link.known(reach.session()).is_none() {
                return Err(ClientError::SessionLost.into());
            }
            let (found, looked) = answers.of(first..end);
            roots.lookup_batch_mapped(&reach, hashed, found, looked, &mut reads)
        };
        if looked.is_err() {
            self.inner.counts.looked_up(0, reads);
            // Not mapped, or not open: each on its own finds out which.
            answers.looked[first..end].fill(Looked::Unsettled);
        } else {
            let settled = answers.looked[first..end].iter().filter(|looked| is_settled(**looked)).count();
            self.inner.counts.looked_up(settled as u64, reads);
        }
        // What is left is looked up all at once: over a network, their ways overlap.
        let left = answers.unsettled(first..end).map(|(at, (found, looked))| {
            Box::pin(async move {
                let mut trial = Trial::of(&self.client);
                let there = self.find_one_sided(link, hashed[at], found, &mut trial).await?;
                *looked = if there { Looked::Found } else { Looked::Absent };
                Ok(())
            })
        });
        all(left.collect()).await
    }

    async fn find_by_shard(
        &self,
        keys: &[&[u8]],
        first: usize,
        answers: &mut Answers,
        waits: &mut Waits<'_>,
    ) -> Result<(), TableError> {
        let mut by_shard: Vec<Vec<usize>> = vec![Vec::new(); self.inner.shards.len()];
        for (at, key) in keys.iter().enumerate() {
            by_shard[self.shard_at(self.key(key)?)].push(first + at);
        }
        for (shard, places) in by_shard.iter().enumerate() {
            if self.way == Way::Request {
                self.request_many(shard, places, |at| keys[at - first], answers, waits).await?;
                continue;
            }
            let mut one = Answers::new();
            for places in places.chunks(GROUP) {
                let group: Vec<&[u8]> = places.iter().map(|at| keys[*at - first]).collect();
                one.prepare(group.len());
                self.find_group(shard, &group, 0, &mut one, waits).await?;
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
        key: impl Fn(usize) -> &'k [u8],
        answers: &mut Answers,
        waits: &mut Waits<'_>,
    ) -> Result<(), TableError> {
        let link = &self.inner.shards[shard];
        let mut left = places.to_vec();
        let mut asked = std::mem::take(&mut answers.asked);
        let [Exchange { question, answer }, ..] = &mut asked;
        while !left.is_empty() {
            let count = batch(&left, |at| key(at).len());
            let (places, mut again) = (&left[..count], Vec::new());
            wire::begin(question, link.part.table, link.part.shard, count as u16);
            places.iter().for_each(|at| wire::add_key(question, key(*at)));
            self.ask(link, Method::Get, question, answer, waits.left()).await?;
            answers.take(places, answer, &mut again)?;
            Counts::add(&self.inner.counts.requests, count as u64);
            left.drain(..count);
            if !again.is_empty() {
                left.splice(0..0, again);
                if !waits.next().await {
                    return Err(TableError::Contended);
                }
            }
        }
        answers.asked = asked;
        Ok(())
    }
}
