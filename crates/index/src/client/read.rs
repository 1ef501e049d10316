//! Looking keys up.

use super::buffers::Buffers;
use super::memory::Unreadable;
use super::table::{Counts, ShardLink, Table, Way, next_of_mix};
use crate::error::TableError;
use crate::key::{Found, Key, Looked};
use crate::options::Kind;
use crate::selector::Choice;
use crate::wire::{self, Answer, Method, next_answer};
use barn_layout::table::Outcome;
use barn_transaction::{Client, ClientError, Reach, Waits};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// The attempts of one lookup. Their time counts from the first step that has to wait for anything:
/// a load needs no clock.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    client: &'a Client,
    waits: Option<Waits<'a>>,
}

impl<'a> Trial<'a> {
    pub(super) fn of(client: &'a Client) -> Self {
        Self { client, waits: None }
    }

    pub(super) fn waits(&mut self) -> &mut Waits<'a> {
        self.waits.get_or_insert_with(|| self.client.attempts())
    }

    pub(super) fn left(&mut self) -> Duration {
        match &self.waits {
            Some(waits) => waits.left(),
            // All of it: the clock is looked at once, not twice.
            None => {
                self.waits();
                self.client.deadline()
            }
        }
    }

    fn reach(&mut self) -> Reach<'a> {
        let reach = self.client.reach();
        if self.waits.is_none() && reach.is_mapped() {
            return reach;
        }
        reach.within(self.left())
    }
}

/// How often a lookup begins again at once before it waits.
const QUICK_RETRIES: u32 = 4;

impl Table {
    /// The value of a key.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        Ok(self.find(key).await?.map(|found| found.value))
    }

    /// Whether a key is there.
    pub async fn contains(&self, key: &[u8]) -> Result<bool, TableError> {
        Ok(self.find(key).await?.is_some())
    }

    /// The value of a key, with its version and when it expires.
    pub async fn find(&self, key: &[u8]) -> Result<Option<Found>, TableError> {
        let mut found = Found::default();
        Ok(self.find_into(key, &mut found).await?.then_some(found))
    }

    /// As [`Table::find`], into memory of the caller's; false if the key is not there.
    pub async fn find_into(&self, key: &[u8], found: &mut Found) -> Result<bool, TableError> {
        // The other designs are read by futures that let others run while memory is fetched.
        if self.kind() == Kind::Hopscotch
            && let Some(there) = self.find_at_once(key, found)
        {
            return Ok(there);
        }
        self.find_by_future(key, found).await
    }

    /// As [`Table::find_into`], after [`Table::find_waiting`] or [`Table::find_at_once`] could not tell.
    pub async fn find_by_future(&self, key: &[u8], found: &mut Found) -> Result<bool, TableError> {
        let mut trial = Trial::of(&self.client);
        let there = loop {
            let error = match self.current().find_once(key, found, &mut trial).await {
                Ok(there) => break there,
                Err(error) => error,
            };
            if !self.again(&error, trial.waits()).await? {
                return Err(error);
            }
        };
        // The clock is only looked at where something can expire.
        Ok(there && (found.expires == 0 || !found.is_expired(now_ms())))
    }

    /// One attempt, in whichever way.
    async fn find_once(
        &self,
        key: &[u8],
        found: &mut Found,
        trial: &mut Trial<'_>,
    ) -> Result<bool, TableError> {
        let key = self.key(key)?;
        let shard = self.shard(key);
        match self.way {
            Way::OneSided => self.find_one_sided(shard, key, found, trial).await,
            Way::Request => self.find_by_request(shard, key, found, trial).await,
            Way::Mix(percent) => match next_of_mix(percent) {
                true => self.find_by_request(shard, key, found, trial).await,
                false => self.find_one_sided(shard, key, found, trial).await,
            },
            Way::Auto => {
                // What is done once is not what a lookup costs.
                if !shard.is_known() {
                    self.fetch_roots(shard, trial.left()).await?;
                }
                let sent = shard.single.choose(&self.client);
                let there = match sent.choice {
                    Choice::OneSided => self.find_one_sided(shard, key, found, trial).await?,
                    Choice::Request => self.find_by_request(shard, key, found, trial).await?,
                };
                shard.single.done(&self.client, &sent, 1);
                Ok(there)
            }
        }
    }

    /// Looks a key up in the shard's memory, until it is found or found not to be there.
    pub(super) async fn find_one_sided(
        &self,
        shard: &ShardLink,
        key: Key<'_>,
        found: &mut Found,
        trial: &mut Trial<'_>,
    ) -> Result<bool, TableError> {
        let counts = &self.inner.counts;
        let mut reads = 0;
        let mut stale = 0;
        let mut retries = 0u32;
        loop {
            let looked = {
                let reach = trial.reach();
                let Some(roots) = shard.known(reach.session()) else {
                    drop(reach);
                    self.fetch_roots(shard, trial.left()).await?;
                    // Sessions that end one after another do not keep a lookup for ever.
                    if trial.left().is_zero() {
                        return Err(ClientError::Deadline.into());
                    }
                    continue;
                };
                roots.lookup(&reach, key, found, &mut reads).await
            };
            match looked {
                Ok(looked @ (Looked::Found | Looked::Absent)) => {
                    counts.looked_up(1, u64::from(reads));
                    return Ok(looked == Looked::Found);
                }
                Ok(Looked::Unsettled) => {
                    Counts::add(&counts.retries, 1);
                    retries += 1;
                    if retries > QUICK_RETRIES && !trial.waits().next().await {
                        return Err(TableError::Contended);
                    }
                }
                // What is not to be had in this way, the node can still be asked for.
                Ok(Looked::Stale) | Err(Unreadable::Nowhere) if stale >= 2 => {
                    counts.looked_up(0, u64::from(reads));
                    return self.find_by_request(shard, key, found, trial).await;
                }
                Ok(Looked::Stale) | Err(Unreadable::Nowhere) => {
                    stale += 1;
                    self.renew_roots(shard, key, trial.left()).await?;
                }
                Err(Unreadable::Closed(region)) => self.client.open(region, trial.left()).await?,
                Err(Unreadable::Lost(error)) => return Err(error.into()),
            }
        }
    }

    /// Asks the node for a key.
    pub(super) async fn find_by_request(
        &self,
        shard: &ShardLink,
        key: Key<'_>,
        found: &mut Found,
        trial: &mut Trial<'_>,
    ) -> Result<bool, TableError> {
        Counts::add(&self.inner.counts.requests, 1);
        let mut left = trial.left();
        let waits = trial.waits();
        let mut buffers = Buffers::take();
        let Buffers { message, answer } = &mut buffers;
        wire::begin(message, shard.part.table, shard.part.shard, 1);
        wire::add_key(message, key.bytes);
        loop {
            self.ask(shard, Method::Get, message, answer, left).await?;
            if let Some(there) = answered(answer, found)? {
                return Ok(there);
            }
            if !waits.next().await {
                return Err(TableError::Contended);
            }
            left = waits.left();
        }
    }
}

/// What a node has answered to the question for a key: whether it is there. `None` if it is to be asked again.
pub(super) fn answered(answer: &[u8], found: &mut Found) -> Result<Option<bool>, TableError> {
    let told = next_answer(&mut &answer[..]).map_err(malformed)?;
    match told.outcome {
        Outcome::Done => {
            take_value(&told, found);
            Ok(Some(true))
        }
        Outcome::Absent => Ok(Some(false)),
        Outcome::Again => Ok(None),
        _ => Err(said_no(told.value)),
    }
}

/// Takes the value that an answer brings.
#[inline]
pub(super) fn take_value(told: &Answer<'_>, found: &mut Found) {
    wire::replace(&mut found.value, told.value);
    found.version = told.version;
    found.expires = told.expires;
}

pub(super) fn malformed(error: wire::Malformed) -> TableError {
    TableError::Client(ClientError::Refused { why: error.to_string() })
}

pub(super) fn said_no(why: &[u8]) -> TableError {
    TableError::Client(ClientError::Refused { why: String::from_utf8_lossy(why).into_owned() })
}
