//! Barn's table, through the blocking API and memory that is used again.
//!
//! One operation is one call. A group's reads go as one batch and its changes as another, both under way at
//! once. To read, modify and write is to find a value with its version and to swap it if the version is still
//! that one: unlike YCSB's own, which loses an update that comes between. A group's scans are under way at once,
//! after its other operations.

use std::io;
use std::pin::pin;
use std::task::Poll;

use barn::{Answers, Found, Swapped, Table};
use barn_fabric::{Pipeline, block_on};
use barn_layout::planted;

use super::{Kind, Scanned, Shape, Stamps, Store, Tally, check, missing};

/// A table, from one thread.
pub(crate) struct BarnStore {
    table: Table,
    shape: Shape,
    stamps: Stamps,
    /// Whether it may have forgotten a key.
    forgets: bool,
    found: Found,
    answers: Answers,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The keys of a group's reads and of its changes, and the values of these; memory is used again.
    reads: Vec<(Vec<u8>, u64, Kind)>,
    changes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl BarnStore {
    /// Of a table that is loaded.
    pub(crate) fn of(table: Table, shape: Shape, thread: u64) -> Self {
        Self {
            forgets: table.options().kind == barn::Kind::Cache,
            table,
            shape,
            stamps: Stamps::of(thread),
            found: Found::default(),
            answers: Answers::new(),
            key: Vec::new(),
            value: Vec::new(),
            reads: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn one(&mut self, kind: Kind, number: u64, tally: &mut Tally) -> io::Result<()> {
        self.shape.key(number, &mut self.key);
        match kind {
            Kind::Read => {
                if !self.table.find_into(&self.key, &mut self.found).map_err(io::Error::other)? {
                    return self.miss(number, tally);
                }
                check(self.shape, number, &self.found.value).map(drop)
            }
            Kind::Update | Kind::Insert => {
                self.shape.value(number, self.stamps.next(), &mut self.value);
                self.table.put(&self.key, &self.value).map(drop).map_err(io::Error::other)
            }
            Kind::ReadModifyWrite => self.modify(number, tally),
            Kind::Scan(keys) => {
                let mut scanned = Scanned::from(self.shape, &self.key);
                for found in self.table.range(&self.key, None).at_most(usize::from(keys)) {
                    let (key, found) = found.map_err(io::Error::other)?;
                    scanned.take(&key, &found.value)?;
                }
                scanned.end(keys, tally)
            }
        }
    }

    /// Carries a group's scans out, all at once.
    fn scan_all(&self, group: &[(Kind, u64)], tally: &mut Tally) -> io::Result<()> {
        let (table, shape) = (self.table.futures(), self.shape);
        let scans = group.iter().filter_map(|(kind, number)| match kind {
            Kind::Scan(keys) => Some((*keys, *number)),
            _ => None,
        });
        if scans.clone().next().is_none() {
            return Ok(());
        }
        let each = scans.map(|(keys, number)| async move {
            let mut from = Vec::new();
            shape.key(number, &mut from);
            let mut scanned = Scanned::from(shape, &from);
            let mut range = table.range(&from, None).at_most(usize::from(keys));
            while let Some((key, found)) = range.next().await.map_err(io::Error::other)? {
                scanned.take(&key, &found.value)?;
            }
            let mut short = Tally::default();
            scanned.end(keys, &mut short).map(|()| short)
        });
        let mut outcome = Ok(());
        Pipeline::new(group.len()).run(each, |scanned| match scanned {
            Ok(short) => *tally = tally.and(short),
            Err(error) if outcome.is_ok() => outcome = Err(error),
            Err(_) => {}
        });
        outcome
    }

    fn miss(&self, number: u64, tally: &mut Tally) -> io::Result<()> {
        if !self.forgets {
            return Err(missing(number));
        }
        tally.misses += 1;
        Ok(())
    }

    /// Adds one to a record's stamp, again until nobody came between.
    fn modify(&mut self, number: u64, tally: &mut Tally) -> io::Result<()> {
        self.shape.key(number, &mut self.key);
        loop {
            if !self.table.find_into(&self.key, &mut self.found).map_err(io::Error::other)? {
                return self.miss(number, tally);
            }
            let stamp = check(self.shape, number, &self.found.value)?;
            self.shape.value(number, stamp.wrapping_add(1), &mut self.value);
            if planted("modify_ignores_the_version") {
                return self.table.put(&self.key, &self.value).map(drop).map_err(io::Error::other);
            }
            match self.table.swap(&self.key, self.found.version, &self.value).map_err(io::Error::other)? {
                Swapped::Done(_) => return Ok(()),
                Swapped::Different(_) => tally.retries += 1,
                Swapped::Absent => return self.miss(number, tally),
            }
        }
    }

    /// Sorts a group into what is read and what is changed; gives how many of each there are.
    fn sort(&mut self, group: &[(Kind, u64)]) -> (usize, usize) {
        let (mut reads, mut changes) = (0, 0);
        for (kind, number) in group {
            match kind {
                Kind::Read | Kind::ReadModifyWrite => {
                    if reads == self.reads.len() {
                        self.reads.push((Vec::new(), 0, Kind::Read));
                    }
                    let (key, read, is) = &mut self.reads[reads];
                    self.shape.key(*number, key);
                    (*read, *is) = (*number, *kind);
                    reads += 1;
                }
                Kind::Update | Kind::Insert => {
                    if changes == self.changes.len() {
                        self.changes.push(Default::default());
                    }
                    let (key, value) = &mut self.changes[changes];
                    self.shape.key(*number, key);
                    self.shape.value(*number, self.stamps.next(), value);
                    changes += 1;
                }
                Kind::Scan(_) => {}
            }
        }
        (reads, changes)
    }

    fn many(&mut self, group: &[(Kind, u64)], tally: &mut Tally) -> io::Result<()> {
        let (reads, changes) = self.sort(group);
        let asked: Vec<&[u8]> = self.reads[..reads].iter().map(|(key, ..)| &key[..]).collect();
        let put: Vec<(&[u8], &[u8])> =
            self.changes[..changes].iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let answers = &mut self.answers;
        match (asked.is_empty(), put.is_empty()) {
            (true, true) => return Ok(()),
            (false, true) => self.table.find_many(&asked, answers).map_err(io::Error::other)?,
            (true, false) => return self.table.put_many(&put).map_err(io::Error::other),
            (false, false) => {
                let table = self.table.futures();
                let found = async { table.find_many(&asked, answers).await };
                let done = async { table.put_many(&put, barn::Put::default()).await };
                block_on(both(found, done)).map_err(io::Error::other)?;
            }
        }
        let mut swaps = Vec::new();
        for ((key, number, kind), found) in self.reads[..reads].iter().zip(self.answers.iter()) {
            let Some(found) = found else {
                self.miss(*number, tally)?;
                continue;
            };
            let stamp = check(self.shape, *number, &found.value)?;
            if *kind == Kind::ReadModifyWrite {
                let mut value = Vec::new();
                self.shape.value(*number, stamp.wrapping_add(1), &mut value);
                swaps.push((key, *number, found.version, value));
            }
        }
        if swaps.is_empty() {
            Ok(())
        } else {
            self.swap_all(&swaps).and_then(|again| self.again(&again, tally))
        }
    }

    /// Swaps all at once; gives the numbers of those that met another's change.
    fn swap_all(&self, swaps: &[(&Vec<u8>, u64, u64, Vec<u8>)]) -> io::Result<Vec<u64>> {
        let table = self.table.futures();
        let each = swaps.iter().map(|(key, number, version, value)| async move {
            (*number, table.swap(key, *version, value, barn::Put::default()).await)
        });
        let (mut again, mut failed) = (Vec::new(), None);
        Pipeline::new(swaps.len()).run(each, |(number, outcome)| match outcome {
            Ok(Swapped::Done(_)) => {}
            Ok(_) => again.push(number),
            Err(error) => failed = Some(error),
        });
        failed.map_or(Ok(again), |error| Err(io::Error::other(error)))
    }

    fn again(&mut self, numbers: &[u64], tally: &mut Tally) -> io::Result<()> {
        tally.retries += numbers.len() as u64;
        numbers.iter().try_for_each(|number| self.modify(*number, tally))
    }
}

impl Store for BarnStore {
    fn carry_out(&mut self, group: &[(Kind, u64)], tally: &mut Tally) -> io::Result<()> {
        match group {
            [(kind, number)] => self.one(*kind, *number, tally),
            group => {
                self.many(group, tally)?;
                self.scan_all(group, tally)
            }
        }
    }
}

/// Drives two at once, until both are done; the first failure counts.
async fn both<E>(
    one: impl Future<Output = Result<(), E>>,
    other: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(cx)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(cx)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready(first.and(second)),
            (was, is) => {
                (first, second) = (was, is);
                Poll::Pending
            }
        }
    })
    .await
}
