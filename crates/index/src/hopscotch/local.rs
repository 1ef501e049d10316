//! A change of the node's own heap, for whoever changes tables, here or in a transaction.

use super::change::{Failure, Loaded, Store};
use crate::objects::{Objects, Unwritten};
use barn_heap::{Heap, ObjectError};
use barn_layout::Address;
use barn_layout::object::LockMode;
use barn_transaction::Pointer;
use std::task::{Context, Poll, Waker};

/// Polls once: everything here answers at once.
pub(super) fn finish<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(Failure::Busy),
    }
}

fn failure(error: &ObjectError) -> Failure {
    match error {
        ObjectError::Locked => Failure::Busy,
        _ => Failure::Gone,
    }
}

impl From<Unwritten> for Failure {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Busy => Self::Busy,
            Unwritten::Gone => Self::Gone,
            Unwritten::Full(why) => Self::Full(why),
        }
    }
}

impl Store for Objects<'_> {
    async fn load(&mut self, pointer: Pointer, into: &mut Vec<u8>) -> Result<Loaded, Failure> {
        let header = Objects::load(self, pointer, into)?;
        // Also one that is only read: a transaction that has it may have read what is changed here.
        if header.word.mode() != LockMode::Free {
            return Err(Failure::Busy);
        }
        Ok(Loaded { version: header.word.version(), changed: false })
    }

    async fn store(&mut self, pointer: Pointer, body: Vec<u8>) -> Result<(), Failure> {
        Objects::store(self, pointer, body);
        Ok(())
    }

    async fn alloc(
        &mut self,
        bytes: usize,
        near: Address,
        same_region: bool,
    ) -> Result<(Pointer, u64), Failure> {
        let pointer = Objects::alloc(self, bytes, Some(near))?;
        if same_region && pointer.address.region() != near.region() {
            self.take_back(pointer);
            // Elsewhere there may be: a segment that is split moves.
            return Err(Failure::Crowded);
        }
        Ok((pointer, self.first_version(pointer)?))
    }

    async fn free(&mut self, pointer: Pointer) -> Result<(), Failure> {
        Objects::free(self, pointer);
        Ok(())
    }
}

/// The heap, for one look.
#[derive(Debug)]
pub(super) struct Peek<'a>(pub(super) &'a Heap);

impl Store for Peek<'_> {
    async fn load(&mut self, pointer: Pointer, into: &mut Vec<u8>) -> Result<Loaded, Failure> {
        let header = self.0.read(pointer.address, into).map_err(|error| failure(&error))?;
        match (header.incarnation == pointer.incarnation, header.word.mode()) {
            (false, _) => Err(Failure::Gone),
            (true, LockMode::Exclusive) => Err(Failure::Busy),
            (true, _) => Ok(Loaded { version: header.word.version(), changed: false }),
        }
    }

    async fn store(&mut self, _: Pointer, _: Vec<u8>) -> Result<(), Failure> {
        Err(Failure::Busy)
    }

    async fn alloc(&mut self, _: usize, _: Address, _: bool) -> Result<(Pointer, u64), Failure> {
        Err(Failure::Busy)
    }

    async fn free(&mut self, _: Pointer) -> Result<(), Failure> {
        Err(Failure::Busy)
    }
}
