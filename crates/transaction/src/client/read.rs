//! Lock-free reads: one READ in the common case, verified, and tried again when a writer was there
//! (FaRM section 3.5).

use super::activity::Guard;
use super::backoff::Backoff;
use super::reach::Waits;
use super::table::{RegionLink, Table};
use super::{Client, ClientStats, Inner};
use crate::error::{ClientError, CommitError};
use crate::id::Pointer;
use barn_fabric::Confirmation;
use barn_heap::object::read_bytes;
use barn_heap::{HEADER_BYTES, Seen, inspect};
use barn_layout::limits::OPERATION_BYTES_MAX;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// An object as it was read: its bytes, and which version they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    pub(crate) bytes: Vec<u8>,
    /// How often the object had been changed.
    pub version: u64,
}

impl Object {
    /// The object's bytes, alone.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.drain(..HEADER_BYTES);
        self.bytes
    }
}

impl Deref for Object {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object(version {}, {} bytes)", self.version, self.len())
    }
}

/// Several objects as they were at one moment, in the order in which they were asked for.
pub type Snapshot = Vec<Object>;

/// An operation of the client, from its start to its end.
pub(crate) struct Operation<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) guard: Guard,
}

impl<'a> Operation<'a> {
    #[inline]
    pub(crate) fn start(inner: &'a Inner) -> Self {
        Self { inner, guard: inner.activity.enter() }
    }
}

impl Drop for Operation<'_> {
    #[inline]
    fn drop(&mut self) {
        self.inner.activity.leave(&self.guard);
    }
}

impl Inner {
    /// Reads an object into `buffer`, header and all, within a time; gives its version.
    pub(crate) async fn read_into(
        &self,
        link: &RegionLink,
        pointer: Pointer,
        buffer: &mut [u8],
        limit: Duration,
    ) -> Result<u64, Failed> {
        let mut backoff = None;
        loop {
            ClientStats::add(&self.stats.reads, 1);
            let offset = u64::from(pointer.address.offset());
            let confirmation = match buffer.len() <= OPERATION_BYTES_MAX {
                true => link.remote.read_confirmed(offset, buffer).within(limit).await,
                false => link.remote.read_long(offset, buffer, limit).await,
            };
            let confirmation = confirmation.map_err(Failed::Link)?;
            match inspect(pointer.address, Some(pointer.incarnation), buffer, confirmation) {
                Seen::Whole(view) => {
                    if view.bytes != pointer.bytes as usize {
                        return Err(Failed::Client(ClientError::Freed { pointer }));
                    }
                    return Ok(view.version);
                }
                // An object of another length is another object.
                Seen::Freed | Seen::Longer { .. } => {
                    return Err(Failed::Client(ClientError::Freed { pointer }));
                }
                Seen::Torn => ClientStats::add(&self.stats.torn, 1),
                Seen::Locked => {}
            }
            ClientStats::add(&self.stats.read_retries, 1);
            let backoff: &mut Backoff = backoff.get_or_insert_with(|| Backoff::new(self.now(), limit));
            if !backoff.wait(self).await {
                let (address, attempts) = (pointer.address, backoff.attempts);
                return Err(Failed::Client(ClientError::Contended { address, attempts }));
            }
        }
    }

    /// Reads an object through a session's table, which is brought up to date if need be.
    pub(crate) async fn read_object(
        &self,
        table: &mut Arc<Table>,
        pointer: Pointer,
        buffer: &mut [u8],
        limit: Duration,
    ) -> Result<u64, ClientError> {
        let session = table.session;
        let read = match table.region(pointer.address.region()) {
            Some(link) => self.read_into(link, pointer, buffer, limit).await,
            None => {
                let link = self.region(session, pointer.address.region(), limit).await?;
                *table = self.table();
                self.read_into(&link, pointer, buffer, limit).await
            }
        };
        read.map_err(|failed| self.unread(session, pointer, failed))
    }

    /// What it means that an object could not be read.
    pub(crate) fn unread(&self, session: u64, pointer: Pointer, failed: Failed) -> ClientError {
        match failed {
            Failed::Client(error) => error,
            // Out of bounds: whatever the pointer was made from, no object is there.
            Failed::Link(
                barn_fabric::OperationError::OutOfBounds { .. }
                | barn_fabric::OperationError::Misaligned { .. },
            ) => ClientError::Freed { pointer },
            Failed::Link(error) => self.broken(session, error.into()),
        }
    }

    /// Whether what was read from a region's node may be believed.
    #[inline]
    pub(crate) fn check_lease(
        &self,
        table: &Table,
        region: barn_layout::RegionId,
    ) -> Result<(), ClientError> {
        let valid = table.region(region).is_some_and(|link| link.node.is_valid(self.now()));
        if valid { Ok(()) } else { Err(self.session_lost(table.session)) }
    }
}

/// The most that is read at once of objects that stand side by side.
const GROUP_BYTES_MAX: usize = 64 << 10;
/// The most between two of them that is read for nothing: less than another READ costs.
const GAP_BYTES_MAX: usize = 512;

/// Where an object's last word ends.
fn end(pointer: Pointer) -> usize {
    pointer.address.offset() as usize + read_bytes(pointer.bytes as usize)
}

/// How many of the first pointers are to objects that can be read together.
fn neighbours(pointers: &[Pointer]) -> usize {
    let start = pointers[0].address;
    let mut last = pointers[0];
    for (at, next) in pointers.iter().enumerate().skip(1) {
        let offset = next.address.offset() as usize;
        let close = offset >= end(last) && offset - end(last) <= GAP_BYTES_MAX;
        let short = end(*next) - start.offset() as usize <= GROUP_BYTES_MAX;
        if next.address.region() != start.region() || !close || !short {
            return at;
        }
        last = *next;
    }
    pointers.len()
}

/// Why a read gave nothing.
pub(crate) enum Failed {
    Client(ClientError),
    Link(barn_fabric::OperationError),
}

impl Client {
    /// Reads an object: one READ, unless a writer is at it.
    pub async fn read(&self, pointer: Pointer) -> Result<Object, ClientError> {
        let inner = &*self.inner;
        let operation = Operation::start(inner);
        let mut object = Object { bytes: vec![0; read_bytes(pointer.bytes as usize)], version: 0 };
        let mut waits = None;
        // A session that is over is no reason for a read to fail, as it changes nothing.
        loop {
            let mut table = inner.table();
            if waits.is_none() && !table.regions_are_mapped() {
                // A load needs no clock; what travels does.
                waits = Some(self.attempts());
            }
            let left = waits.as_ref().map_or(self.deadline, Waits::left);
            let read = match inner.read_object(&mut table, pointer, &mut object.bytes, left).await {
                Ok(version) => {
                    object.version = version;
                    inner.check_lease(&table, pointer.address.region())
                }
                Err(error) => Err(error),
            };
            match read {
                Err(error) if error.is_passing() => {
                    if !waits.get_or_insert_with(|| self.attempts()).again(&error).await {
                        return Err(error);
                    }
                }
                Ok(()) if inner.activity.is_doomed(&operation.guard) => {
                    return Err(ClientError::TooOld { age_max: inner.options.age_max });
                }
                done => {
                    object.bytes.truncate(HEADER_BYTES + pointer.bytes as usize);
                    return done.map(|()| object);
                }
            }
        }
    }

    /// Reads objects, those that stand side by side (an array's) by one READ together. Each is whole;
    /// they need not be of one moment: for that there is [`Self::read_all`].
    pub async fn read_array(&self, pointers: &[Pointer]) -> Result<Vec<Object>, ClientError> {
        let mut objects = Vec::with_capacity(pointers.len());
        let mut rest = pointers;
        while let Some(first) = rest.first() {
            let (group, others) = rest.split_at(neighbours(rest));
            rest = others;
            let inner = &*self.inner;
            let session = inner.table().session;
            let link = match inner.region(session, first.address.region(), self.deadline).await {
                Ok(link) => link,
                // One at a time, with patience for whatever is the matter.
                Err(error) if error.is_passing() => {
                    for pointer in group {
                        objects.push(self.read(*pointer).await?);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            if group.len() == 1 || link.remote.mapped().is_some() {
                // Where a READ is a load, one for each is as good.
                for pointer in group {
                    objects.push(self.read(*pointer).await?);
                }
                continue;
            }
            self.read_group(&link, session, group, &mut objects).await?;
        }
        Ok(objects)
    }

    async fn read_group(
        &self,
        link: &RegionLink,
        session: u64,
        group: &[Pointer],
        objects: &mut Vec<Object>,
    ) -> Result<(), ClientError> {
        let inner = &*self.inner;
        let operation = Operation::start(inner);
        let start = group[0].address.offset() as usize;
        let mut bytes = vec![0; group.iter().map(|pointer| end(*pointer)).max().unwrap_or(start) - start];
        ClientStats::add(&inner.stats.reads, 1);
        let read = link.remote.read(start as u64, &mut bytes).within(self.deadline).await;
        let read = read.map_err(|error| inner.broken(session, error.into()));
        if let Err(error) = &read
            && !error.is_passing()
        {
            return Err(error.clone());
        }
        let believed =
            read.is_ok() && link.node.is_valid(inner.now()) && !inner.activity.is_doomed(&operation.guard);
        drop(operation);
        for pointer in group {
            let from = pointer.address.offset() as usize - start;
            let one = &bytes[from..end(*pointer) - start];
            match inspect(pointer.address, Some(pointer.incarnation), one, Confirmation::Unordered) {
                Seen::Whole(view) if believed && view.bytes == pointer.bytes as usize => {
                    let bytes = one[..HEADER_BYTES + view.bytes].to_vec();
                    objects.push(Object { bytes, version: view.version });
                }
                Seen::Freed if believed => return Err(ClientError::Freed { pointer: *pointer }),
                // A writer was at this one: it alone is read again.
                _ => objects.push(self.read(*pointer).await?),
            }
        }
        Ok(())
    }

    /// Reads several objects as they were at one moment: a read-only transaction.
    pub async fn read_all(&self, pointers: &[Pointer]) -> Result<Snapshot, ClientError> {
        let mut waits = self.attempts();
        let mut attempts = 0;
        loop {
            let mut transaction = self.begin_within(waits.left());
            let mut objects = Vec::with_capacity(pointers.len());
            // All at once: one round trip instead of many.
            let mut failed = transaction.fetch(pointers).await.err();
            for pointer in pointers.iter().filter(|_| failed.is_none()) {
                match transaction.read_object(*pointer).await {
                    Ok(object) => objects.push(object),
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            let outcome = match failed {
                None => transaction.commit().await.map(|_| ()),
                Some(error) => Err(error.into()),
            };
            attempts += 1;
            let address = pointers.first().map_or(barn_layout::Address::from_bits(0), |first| first.address);
            let error = match outcome {
                Ok(()) => return Ok(objects),
                Err(CommitError::Conflict { .. } | CommitError::Indeterminate) => {
                    ClientError::Contended { address, attempts }
                }
                Err(CommitError::Failed(error)) => error,
            };
            let again = match error {
                ClientError::Contended { .. } => waits.next().await,
                _ => waits.again(&error).await,
            };
            if !again {
                return Err(error);
            }
        }
    }
}
