//! A table's keys in a client's transaction, together with objects and other tables.
//!
//! The transaction reads and writes buckets, overflow blocks and long entries as the objects that they
//! are: what it has read is validated with everything else when it commits.

use super::change::{Failure, Loaded, Store, Work};
use super::lookup::Roots;
use crate::key::{Found, Key};
use crate::node::Decision;
use barn_heap::Purpose;
use barn_layout::Address;
use barn_transaction::{ClientError, Pointer, Transaction};

/// Why a key was not read or changed in a transaction.
#[derive(Debug)]
pub(crate) enum NotDone {
    /// The roots are out of date: fetch them again, and begin the transaction again.
    Stale,
    /// The segment must be split first: ask the node to, and begin the transaction again.
    Crowded,
    /// Everything else.
    Client(ClientError),
}

/// A transaction's objects, and what new ones are for.
struct Within<'a>(&'a mut Transaction, Purpose);

fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::Freed { .. } => Failure::Gone,
        other => Failure::Client(other),
    }
}

impl Store for Within<'_> {
    async fn load(&mut self, pointer: Pointer, into: &mut Vec<u8>) -> Result<Loaded, Failure> {
        let (version, changed) = {
            let body = self.0.read(pointer).await.map_err(failed)?;
            into.clear();
            into.extend_from_slice(body);
            self.0.version_of(pointer)
        };
        Ok(Loaded { version, changed })
    }

    async fn store(&mut self, pointer: Pointer, body: Vec<u8>) -> Result<(), Failure> {
        self.0.write(pointer, &body).await.map_err(failed)
    }

    async fn alloc(
        &mut self,
        bytes: usize,
        near: Address,
        same_region: bool,
    ) -> Result<(Pointer, u64), Failure> {
        let near_pointer = Pointer { address: near, bytes: 0, incarnation: 0 };
        let zeros = vec![0; bytes];
        let made = self.0.alloc_for(&zeros, Some(near_pointer), self.1).await;
        let pointer = made.map_err(failed)?;
        if same_region && pointer.address.region() != near.region() {
            self.0.free(pointer).await.map_err(failed)?;
            return Err(Failure::Crowded);
        }
        let (version, _) = self.0.version_of(pointer);
        Ok((pointer, version + 1))
    }

    async fn free(&mut self, pointer: Pointer) -> Result<(), Failure> {
        self.0.free(pointer).await.map_err(failed)
    }
}

fn not_done(failure: Failure) -> NotDone {
    match failure {
        Failure::Gone => NotDone::Stale,
        Failure::Crowded => NotDone::Crowded,
        Failure::Busy => NotDone::Client(ClientError::SessionLost),
        Failure::Full(why) => NotDone::Client(ClientError::Refused { why }),
        Failure::Client(error) => NotDone::Client(error),
    }
}

impl Roots {
    /// Reads a key in a transaction.
    pub(crate) async fn get_within(
        &self,
        transaction: &mut Transaction,
        seed: u64,
        key: Key<'_>,
        found: &mut Found,
    ) -> Result<bool, NotDone> {
        let segment = *self.segment(key).ok_or(NotDone::Stale)?;
        let mut store = Within(transaction, self.shape().purpose);
        Work::new(&mut store, segment, self.shape(), seed).get(key, found).await.map_err(not_done)
    }

    /// Reads and changes a key in a transaction; gives its version.
    pub(crate) async fn change_within<'v>(
        &self,
        transaction: &mut Transaction,
        seed: u64,
        key: Key<'_>,
        decide: &mut (dyn FnMut(Option<&Found>) -> Decision<'v> + Send),
    ) -> Result<u64, NotDone> {
        let segment = *self.segment(key).ok_or(NotDone::Stale)?;
        let mut store = Within(transaction, self.shape().purpose);
        let work = Work::new(&mut store, segment, self.shape(), seed);
        work.change(key, decide).await.map(|effect| effect.version).map_err(not_done)
    }
}
