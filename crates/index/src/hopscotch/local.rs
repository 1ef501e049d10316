//! Objects of the node's own heap, for one change: written together at its end, or not at all.

use super::change::{Failure, Loaded, Store};
use barn_heap::{AllocError, HEADER_BYTES, Heap, ObjectError, Purpose};
use barn_layout::Address;
use barn_layout::object::LockMode;
use barn_transaction::Pointer;
use std::task::{Context, Poll, Waker};

/// What becomes of an object.
#[derive(Debug)]
enum Write {
    Update(Vec<u8>),
    /// Reserved, and made if it has a body.
    Create(Option<Vec<u8>>),
    Free,
}

/// The heap, for a change.
#[derive(Debug)]
pub(super) struct Local<'a> {
    heap: &'a mut Heap,
    /// What new objects are for.
    purpose: Purpose,
    writes: Vec<(Pointer, Write)>,
    /// Bytes of memory taken, or given back.
    pub(super) memory: i64,
}

/// Polls once: everything here answers at once.
pub(super) fn finish<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(Failure::Busy),
    }
}

/// What an allocation that failed means.
pub(super) fn full(error: &AllocError) -> Failure {
    Failure::Full(error.to_string())
}

fn failure(error: &ObjectError) -> Failure {
    match error {
        ObjectError::Locked => Failure::Busy,
        _ => Failure::Gone,
    }
}

impl<'a> Local<'a> {
    pub(super) fn new(heap: &'a mut Heap, purpose: Purpose) -> Self {
        Self { heap, purpose, writes: Vec::new(), memory: 0 }
    }

    /// Carries everything out: every object closed before the first is changed.
    pub(super) fn commit(mut self) -> Result<i64, Failure> {
        // Most changes are of one bucket: closed, changed and opened in one go.
        if let [(pointer, Write::Update(body))] = &self.writes[..] {
            let done = self.heap.replace(pointer.address, pointer.incarnation, body);
            return done.map(|_| self.memory).map_err(|error| failure(&error));
        }
        let changed = |write: &Write| !matches!(write, Write::Create(_));
        for (at, (pointer, write)) in self.writes.iter().enumerate() {
            if !changed(write) {
                continue;
            }
            let locked = self.heap.header(pointer.address).and_then(|header| {
                self.heap.lock(pointer.address, header.word.version(), pointer.incarnation)?;
                self.heap.close(pointer.address)
            });
            if let Err(error) = locked {
                // Nothing has been changed yet: those that were closed are opened again.
                for (pointer, write) in &self.writes[..at] {
                    if changed(write) {
                        let _ = self.heap.unlock(pointer.address);
                    }
                }
                self.abandon();
                return Err(failure(&error));
            }
        }
        for (pointer, write) in std::mem::take(&mut self.writes) {
            let done = match write {
                Write::Update(body) => self.heap.write(pointer.address, &body).map(|_| ()),
                Write::Create(Some(body)) => self.heap.create(pointer.address, &body).map(|_| ()),
                Write::Create(None) => self.heap.release(pointer.address),
                Write::Free => self.heap.free(pointer.address),
            };
            done.map_err(|error| failure(&error))?;
        }
        Ok(self.memory)
    }

    /// Gives back what was reserved.
    pub(super) fn abandon(&mut self) {
        for (pointer, write) in self.writes.drain(..) {
            if let Write::Create(_) = write {
                // It was reserved by `alloc`.
                let _ = self.heap.release(pointer.address);
            }
        }
    }

    fn slot_bytes(&self, pointer: Pointer) -> i64 {
        self.heap.capacity(pointer.address).map_or(0, |bytes| (bytes + HEADER_BYTES) as i64)
    }
}

impl Store for Local<'_> {
    async fn load(&mut self, pointer: Pointer, into: &mut Vec<u8>) -> Result<Loaded, Failure> {
        let header = self.heap.read(pointer.address, into).map_err(|error| failure(&error))?;
        if header.incarnation != pointer.incarnation {
            return Err(Failure::Gone);
        }
        // Also one that is only read: a transaction that has it may have read what is changed here.
        if header.word.mode() != LockMode::Free {
            return Err(Failure::Busy);
        }
        Ok(Loaded { version: header.word.version(), changed: false })
    }

    async fn store(&mut self, pointer: Pointer, body: Vec<u8>) -> Result<(), Failure> {
        match self.writes.iter_mut().find(|(written, _)| written.address == pointer.address) {
            Some((_, Write::Create(made))) => *made = Some(body),
            Some((_, write)) => *write = Write::Update(body),
            None => self.writes.push((pointer, Write::Update(body))),
        }
        Ok(())
    }

    async fn alloc(
        &mut self,
        bytes: usize,
        near: Address,
        same_region: bool,
    ) -> Result<(Pointer, u64), Failure> {
        let place = self.heap.reserve(bytes, Some(near), self.purpose).map_err(|error| full(&error))?;
        let pointer = Pointer { address: place.address, bytes: bytes as u32, incarnation: place.incarnation };
        let header = self.heap.header(place.address).map_err(|error| failure(&error))?;
        if same_region && place.address.region() != near.region() {
            let _ = self.heap.release(place.address);
            // Elsewhere there may be: a segment that is split moves.
            return Err(Failure::Crowded);
        }
        self.memory += self.slot_bytes(pointer);
        self.writes.push((pointer, Write::Create(None)));
        Ok((pointer, header.word.version() + 1))
    }

    async fn free(&mut self, pointer: Pointer) -> Result<(), Failure> {
        self.memory -= self.slot_bytes(pointer);
        match self.writes.iter().position(|(written, _)| written.address == pointer.address) {
            Some(at) => self.writes[at].1 = Write::Free,
            None => self.writes.push((pointer, Write::Free)),
        }
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
