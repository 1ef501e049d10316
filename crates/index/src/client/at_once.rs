//! Looking a key up without a future: where READs are loads, there is mostly nothing to wait for, and a
//! thread that blocks anyway can wait for each READ, or for the node's answer, where it is made.
//!
//! What always holds: what is found here was judged as in [`super::read`], by the same code of each design.
//! Whatever is not plain (a writer, memory that has moved, a lease that is over, a shard that is not known
//! yet) is left to the long way, which begins from the start; nothing of it is decided here.
//!
//! A future of a lookup has room for every way that it could go, over a kilobyte, and is copied when it
//! is made: that alone costs more than the load. And while it waits, every poll goes through all its layers.

use super::batch::Answers;
use super::buffers::Buffers;
use super::choosing::Sent;
use super::memory::{Memory, Unreadable, unreadable};
use super::read::{answered, now_ms};
use super::roots::Roots;
use super::table::{Counts, ShardLink, Table, Way, next_of_mix};
use crate::hopscotch::{self, Told};
use crate::key::{Found, Key, Looked};
use crate::options::KEY_BYTES_MAX;
use crate::selector::Choice;
use crate::wire::{self, Method};
use crate::{TableError, cuckoo};
use barn_fabric::{Confirmation, Words};
use barn_layout::limits::OPERATION_BYTES_MAX;
use barn_layout::{Address, RegionId, planted};
use barn_transaction::{ClientError, Glance, Reach, TOGETHER_MAX, Unanswered};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// Keys that are looked up in one glance: a glance is short.
const GLANCE_KEYS: usize = 32;

/// For each so many keys a node is asked in another message, up to as many as can be under way together. 64: a message
/// costs as much as some 8 keys, and half of 32 keys at a time overlap worse in the node's memory.
const ASKED_KEYS: usize = 64;
/// So many keys are asked for in this way at the most, and bytes of them, of which one may have as many.
const ASKED_KEYS_MAX: usize = 1024;
const ASKED_BYTES_MAX: usize = KEY_BYTES_MAX;

/// How far many keys were looked up at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glanced {
    /// So many of the keys, the first ones, were looked at.
    pub(super) looked: usize,
    /// Of so many of them is known whether they are there; the others are for the long way.
    pub(super) settled: u64,
}

/// The memory is not mapped here.
struct Afar;

impl Table {
    /// Looks a key up if that can be done at once, by loads from memory that is mapped here: whether it is
    /// there. `None` if it cannot; then [`Table::find_into`] is for it.
    #[inline]
    pub fn find_at_once(&self, key: &[u8], found: &mut Found) -> Option<bool> {
        // Where nothing is waited for, nothing fails.
        self.find_plainly(key, found, false).ok().flatten()
    }

    /// As [`Table::find_at_once`], but where memory is not mapped here it waits for its READs, blocking this
    /// thread. Fails if one of them took as long as the whole may.
    #[inline]
    pub fn find_waiting(&self, key: &[u8], found: &mut Found) -> Result<Option<bool>, TableError> {
        self.find_plainly(key, found, true)
    }

    #[inline]
    fn find_plainly(&self, key: &[u8], found: &mut Found, waits: bool) -> Result<Option<bool>, TableError> {
        if key.len() > KEY_BYTES_MAX || self.is_followed() {
            return Ok(None);
        }
        let key = Key::new(self.inner.options.seed, key);
        let shard = self.shard(key);
        let Some((choice, sent)) = self.choose_plainly(shard, waits) else { return Ok(None) };
        // ORDER: Relaxed: a hint. Whether memory is mapped is found out under two locks.
        let is_afar = waits && self.inner.is_afar.load(Ordering::Relaxed);
        if choice == Choice::OneSided
            && !is_afar
            && let Ok(there) = self.look_now(shard, key, found)
        {
            self.say(shard, sent, there.is_some());
            return Ok(there);
        }
        // No memory is near, or the node is to be asked.
        let looked = match choice {
            _ if !waits => Ok(None),
            Choice::Request => self.ask_plainly(shard, key.bytes, found),
            Choice::OneSided => self.look_waiting(shard, key.bytes, key.hash, found),
        };
        self.say(shard, sent, matches!(looked, Ok(Some(_))));
        looked
    }

    /// Tells the selector what came of its choice.
    #[inline(always)]
    fn say(&self, shard: &ShardLink, sent: Option<Sent>, is_done: bool) {
        match sent {
            Some(sent) if is_done => shard.single.done(&self.client, &sent, 1),
            Some(sent) => shard.single.postpone(&sent),
            None => {}
        }
    }

    /// In which way a key is looked up, and what is to be said of it afterwards; `None` for the long way.
    #[inline(always)]
    fn choose_plainly(&self, shard: &ShardLink, waits: bool) -> Option<(Choice, Option<Sent>)> {
        let choice = match self.way {
            Way::OneSided => Choice::OneSided,
            Way::Request if waits => Choice::Request,
            Way::Mix(percent) if waits => match next_of_mix(percent) {
                true => Choice::Request,
                false => Choice::OneSided,
            },
            Way::Request | Way::Mix(_) => return None,
            // The way that has cost less lately.
            Way::Auto => match waits.then(|| shard.single.held()).flatten() {
                Some(choice) => choice,
                None => {
                    let sent = match waits {
                        true => shard.single.choose(&self.client),
                        false => shard.single.choose_one_sided(&self.client)?,
                    };
                    return Some((sent.choice, Some(sent)));
                }
            },
        };
        Some((choice, None))
    }

    /// Looks a key up in memory that is mapped here: whether it is there; `None` if that takes more than loads.
    #[inline(always)]
    fn look_now(&self, shard: &ShardLink, key: Key<'_>, found: &mut Found) -> Result<Option<bool>, Afar> {
        let looked = shard.with_newest(|known| {
            // First of all: what follows is done while the memory is on its way.
            let aim = known.roots.aim(key);
            let glance = self.client.glance();
            if !glance.is_mapped() {
                return Some(Err(Afar));
            }
            if !known.serves(glance.session()) {
                return None;
            }
            let look = |found: &mut Found, reads: &mut u32| {
                Ok(known.roots.look_at_once(&glance, aim, key, found, reads))
            };
            self.one_sided(found, look).ok().flatten().map(Ok)
        });
        looked.transpose()
    }

    /// Runs a one-sided look, and counts it: whether the key is there; `None` if it is not known.
    #[inline(always)]
    fn one_sided(
        &self,
        found: &mut Found,
        look: impl FnOnce(&mut Found, &mut u32) -> Result<Option<Looked>, TableError>,
    ) -> Result<Option<bool>, TableError> {
        let mut reads = 0;
        let there = match look(found, &mut reads)? {
            Some(Looked::Found) => Some(found.expires == 0 || !found.is_expired(now_ms())),
            Some(Looked::Absent) => Some(false),
            Some(Looked::Unsettled) if planted("unsettled_at_once_is_absent") => Some(false),
            _ => None,
        };
        if there.is_some() {
            self.inner.counts.looked_up(1, u64::from(reads));
        }
        Ok(there)
    }

    /// Asks the node for a key and waits for what it says; `None` if that takes more than one question.
    fn ask_plainly(
        &self,
        shard: &ShardLink,
        key: &[u8],
        found: &mut Found,
    ) -> Result<Option<bool>, TableError> {
        let mut buffers = Buffers::take();
        let Buffers { message, answer } = &mut buffers;
        wire::begin(message, shard.part.table, shard.part.shard, 1);
        wire::add_key(message, key);
        let whom = (self.inner.cluster, shard.member);
        match self.client.ask_waiting(whom, Method::Get as u16, message, answer) {
            Some(Ok(())) => {}
            // The long way would take as long once more.
            Some(Err(Unanswered { error: ClientError::Deadline, .. })) => {
                return Err(ClientError::Deadline.into());
            }
            // A question changes nothing: it can be asked once more.
            Some(Err(_)) | None => return Ok(None),
        }
        // What it refused, too, the long way asks again, and says why.
        let Ok(Some(there)) = answered(answer, found) else { return Ok(None) };
        Counts::add(&self.inner.counts.requests, 1);
        Ok(Some(there && (found.expires == 0 || !found.is_expired(now_ms()))))
    }

    /// Asks the node for keys and waits for what it says, if its memory is mapped here: in several messages, so that
    /// one is put together, or its answer read, while the node has another.
    pub(super) fn ask_many_plainly(
        &self,
        keys: &[&[u8]],
        answers: &mut Answers,
    ) -> Result<Glanced, TableError> {
        answers.prepare(keys.len());
        let nothing = Glanced { looked: 0, settled: 0 };
        let [shard] = &self.inner.shards[..] else { return Ok(nothing) };
        let all_bytes: usize = keys.iter().map(|key| key.len()).sum();
        let is_plain = (1..=ASKED_KEYS_MAX).contains(&keys.len()) && all_bytes <= ASKED_BYTES_MAX;
        if !is_plain || self.is_followed() {
            return Ok(nothing);
        }
        let messages = (keys.len() / ASKED_KEYS).clamp(1, TOGETHER_MAX);
        // The first ones have one key more, where they cannot all have as many.
        let first = |message: usize| (message * keys.len()).div_ceil(messages);
        let mut asked = std::mem::take(&mut answers.asked);
        let told = self.client.ask_together_waiting(
            (self.inner.cluster, shard.member),
            Method::Get as u16,
            &mut asked[..messages],
            |message, question| {
                let keys = &keys[first(message)..first(message + 1)];
                wire::begin(question, shard.part.table, shard.part.shard, keys.len() as u16);
                keys.iter().for_each(|key| wire::add_key(question, key));
            },
            |message, answer| answers.take_plain(first(message)..first(message + 1), answer),
        );
        answers.asked = asked;
        match told {
            Some(Ok(())) => {}
            // The long way would take as long once more.
            Some(Err(Unanswered { error: ClientError::Deadline, .. })) => {
                return Err(ClientError::Deadline.into());
            }
            Some(Err(_)) | None => return Ok(nothing),
        }
        let settled = answers.settle(0..keys.len());
        Counts::add(&self.inner.counts.requests, settled);
        Ok(Glanced { looked: keys.len(), settled })
    }

    /// Looks up as many of the keys as can be at once, from the first on.
    #[inline]
    pub(super) fn find_many_at_once(&self, keys: &[&[u8]], answers: &mut Answers) -> Glanced {
        answers.prepare(keys.len());
        let mut glanced = Glanced { looked: 0, settled: 0 };
        let [shard] = &self.inner.shards[..] else { return glanced };
        if matches!(self.way, Way::Request | Way::Mix(_)) || self.is_followed() {
            return glanced;
        }
        for keys in keys.chunks(GLANCE_KEYS) {
            let to = glanced.looked + keys.len();
            let sent = match self.way {
                Way::Auto => match shard.batched.choose_one_sided(&self.client) {
                    None => break,
                    sent => sent,
                },
                _ => None,
            };
            let Some((told, reads)) = self.look_group(shard, keys, answers.of(glanced.looked..to)) else {
                sent.iter().for_each(|sent| shard.batched.postpone(sent));
                break;
            };
            let settled = match told {
                Some(Told { found, absent, timed: false }) if !planted("unsettled_at_once_is_absent") => {
                    found + absent
                }
                _ => answers.settle(glanced.looked..to),
            };
            self.inner.counts.looked_up(settled, reads);
            if let Some(sent) = sent {
                shard.batched.done(&self.client, &sent, keys.len());
            }
            glanced = Glanced { looked: to, settled: glanced.settled + settled };
        }
        glanced
    }

    /// Looks keys of one shard up in mapped memory, and gives the READs that it made, and what became of the keys
    /// if that was counted; `None` if it takes more than loads.
    #[inline]
    fn look_group(
        &self,
        shard: &ShardLink,
        keys: &[&[u8]],
        (found, looked): (&mut [Found], &mut [Looked]),
    ) -> Option<(Option<Told>, u64)> {
        let glance = self.client.glance();
        if !glance.is_mapped() {
            return None;
        }
        if keys.iter().any(|key| key.len() > KEY_BYTES_MAX) {
            return None;
        }
        shard.with_newest(|known| match known.serves(glance.session()) {
            true => self.look_group_at(&known.roots, &glance, keys, found, looked),
            false => None,
        })
    }

    /// The same, of roots that are good for it. A function of its own: its loops need all of the registers.
    #[inline(never)]
    fn look_group_at(
        &self,
        roots: &Roots,
        glance: &Glance<'_>,
        keys: &[&[u8]],
        found: &mut [Found],
        looked: &mut [Looked],
    ) -> Option<(Option<Told>, u64)> {
        let seed = self.inner.options.seed;
        match roots {
            Roots::Hopscotch(roots) => {
                let mapped = |region| glance.mapped(region);
                let (told, read) = roots.look_many_mapped(mapped, (seed, keys), found, looked).ok()?;
                let is_believed = read.is_none_or(|region| glance.is_believed(region));
                is_believed.then_some((Some(told), keys.len() as u64))
            }
            roots => {
                let (mut hashed, mut reads) = ([Key { bytes: &[], hash: 0 }; GLANCE_KEYS], 0);
                let hashed = &mut hashed[..keys.len()];
                hashed.iter_mut().zip(keys).for_each(|(hashed, key)| *hashed = Key::new(seed, key));
                roots
                    .lookup_batch_mapped(glance, hashed, found, looked, &mut reads)
                    .ok()
                    .map(|()| (None, reads))
            }
        }
    }

    /// Looks a key up by READs that this thread waits for, one after the other: whether it is there; `None` if that
    /// takes more than those.
    #[inline(never)]
    fn look_waiting(
        &self,
        shard: &ShardLink,
        bytes: &[u8],
        hash: u64,
        found: &mut Found,
    ) -> Result<Option<bool>, TableError> {
        let key = Key { bytes, hash };
        self.one_sided(found, |found, reads| self.read_waiting(shard, key, found, reads))
    }

    fn read_waiting(
        &self,
        shard: &ShardLink,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Option<Looked>, TableError> {
        let memory = Waiting(self.client.reach());
        let is_afar = !memory.0.is_mapped();
        // ORDER: Relaxed, both: a hint.
        if self.inner.is_afar.load(Ordering::Relaxed) != is_afar {
            self.inner.is_afar.store(is_afar, Ordering::Relaxed);
        }
        let Some(roots) = shard.known(memory.0.session()) else { return Ok(None) };
        let read = |at, into: &mut [u8]| memory.read_now(at, into);
        let looked = match &*roots {
            Roots::Hopscotch(roots) => roots.lookup_waiting(&memory, read, key, found, reads),
            Roots::Cuckoo(roots) => roots.lookup_waiting(&memory, read, key, found, reads),
            // Each READ is over when it has been polled once, and with it the lookup.
            roots => {
                let lookup = pin!(roots.lookup(&memory, key, found, reads));
                match lookup.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(looked) => looked,
                    Poll::Pending => return Ok(None),
                }
            }
        };
        match looked {
            Ok(looked) => Ok(Some(looked)),
            // The long way would take as long once more.
            Err(Unreadable::Lost(ClientError::Deadline)) => Err(ClientError::Deadline.into()),
            Err(_) => Ok(None),
        }
    }
}

impl Roots {
    /// Where a key is to be looked for, if the kind of the table has that fetched ahead.
    #[inline]
    fn aim(&self, key: Key<'_>) -> Option<hopscotch::Aim> {
        match self {
            Self::Hopscotch(roots) => roots.aim(key),
            Self::Cuckoo(_) | Self::Cache(_) | Self::Tree(_) => None,
        }
    }

    /// Looks a key up in mapped memory; `None` if that takes more than loads.
    #[inline]
    fn look_at_once(
        &self,
        glance: &Glance<'_>,
        aim: Option<hopscotch::Aim>,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Option<Looked> {
        match self {
            Self::Hopscotch(roots) => {
                *reads += 1;
                let (looked, region) =
                    roots.look_mapped(&aim?, |region| glance.mapped(region), key, found)?;
                glance.is_believed(region).then_some(looked)
            }
            Self::Cuckoo(roots) => {
                let load = |at: Address, into: &mut [u8]| {
                    cuckoo::load_mapped(glance, at, into).unwrap_or(Err(Unreadable::Closed(at.region())))
                };
                roots.lookup_waiting(glance, load, key, found, reads).ok()
            }
            // Of loads nothing is pending: one poll is all of it.
            Self::Cache(_) | Self::Tree(_) => {
                let lookup = pin!(self.lookup(glance, key, found, reads));
                match lookup.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(looked) => looked.ok(),
                    Poll::Pending => None,
                }
            }
        }
    }
}

/// Only loads: a region that is not mapped counts as closed, and everything that goes wrong is for the
/// long way to find out.
impl Memory for Glance<'_> {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let region = self.region(at.region()).filter(|region| region.mapped().is_some());
        let region = region.ok_or(Unreadable::Closed(at.region()))?;
        region.read(u64::from(at.offset()), into).wait().map_err(|_| Unreadable::Nowhere)
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        let region = self.region(at.region()).filter(|region| region.mapped().is_some());
        let region = region.ok_or(Unreadable::Closed(at.region()))?;
        if into.len() > OPERATION_BYTES_MAX {
            return Err(Unreadable::Nowhere);
        }
        region.read_confirmed(u64::from(at.offset()), into).wait().map_err(|_| Unreadable::Nowhere)
    }

    #[inline]
    fn mapped(&self, region: RegionId) -> Option<&Words> {
        self.region(region)?.mapped()
    }

    #[inline]
    fn believe(&self, region: RegionId) -> Result<(), Unreadable> {
        if self.is_believed(region) { Ok(()) } else { Err(Unreadable::Nowhere) }
    }
}

/// READs that the thread waits for where they are made.
struct Waiting<'a>(Reach<'a>);

impl Waiting<'_> {
    #[inline(always)]
    fn read_now(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let region = self.0.region(at.region()).ok_or(Unreadable::Closed(at.region()))?;
        let read = region.read_waiting(u64::from(at.offset()), into, self.0.limit());
        read.map_err(|error| unreadable(&self.0, error))
    }
}

impl Memory for Waiting<'_> {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        self.read_now(at, into)
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        // Several READs: the long way has them under way at once.
        if into.len() > OPERATION_BYTES_MAX {
            return Err(Unreadable::Nowhere);
        }
        let region = self.0.region(at.region()).ok_or(Unreadable::Closed(at.region()))?;
        let read = region.read_confirmed(u64::from(at.offset()), into).within(self.0.limit()).wait();
        read.map_err(|error| unreadable(&self.0, error))
    }

    fn mapped(&self, region: RegionId) -> Option<&Words> {
        Memory::mapped(&self.0, region)
    }

    fn believe(&self, region: RegionId) -> Result<(), Unreadable> {
        Memory::believe(&self.0, region)
    }
}
