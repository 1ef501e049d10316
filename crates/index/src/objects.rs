//! Objects of the node's own heap, for one change: written together at its end, or not at all.

use barn_heap::{AllocError, HEADER_BYTES, Header, Heap, ObjectError, Purpose};
use barn_layout::Address;
use barn_transaction::Pointer;

/// Why objects were not written. Nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// A transaction holds one of them.
    Busy,
    /// One is not where it was.
    Gone,
    /// There is no memory.
    Full(String),
}

impl From<ObjectError> for Unwritten {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Locked => Self::Busy,
            _ => Self::Gone,
        }
    }
}

impl From<AllocError> for Unwritten {
    fn from(error: AllocError) -> Self {
        Self::Full(error.to_string())
    }
}

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
pub(crate) struct Objects<'a> {
    heap: &'a mut Heap,
    /// What new objects are for.
    purpose: Purpose,
    writes: Vec<(Pointer, Write)>,
    /// Bytes of memory taken, or given back.
    pub(crate) memory: i64,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(heap: &'a mut Heap, purpose: Purpose) -> Self {
        Self { heap, purpose, writes: Vec::new(), memory: 0 }
    }

    /// Carries everything out: every object closed before the first is changed.
    pub(crate) fn commit(mut self) -> Result<i64, Unwritten> {
        // Most changes are of one object: closed, changed and opened in one go.
        if let [(pointer, Write::Update(body))] = &self.writes[..] {
            self.heap.replace(pointer.address, pointer.incarnation, body)?;
            return Ok(self.memory);
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
                return Err(error.into());
            }
        }
        for (pointer, write) in std::mem::take(&mut self.writes) {
            match write {
                Write::Update(body) => self.heap.write(pointer.address, &body).map(|_| ())?,
                Write::Create(Some(body)) => self.heap.create(pointer.address, &body).map(|_| ())?,
                Write::Create(None) => self.heap.release(pointer.address)?,
                Write::Free => self.heap.free(pointer.address)?,
            }
        }
        Ok(self.memory)
    }

    /// Gives back what was reserved.
    pub(crate) fn abandon(&mut self) {
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

    /// An object as it was before the change.
    pub(crate) fn load(&self, pointer: Pointer, into: &mut Vec<u8>) -> Result<Header, Unwritten> {
        let header = self.heap.read(pointer.address, into)?;
        match header.incarnation == pointer.incarnation {
            true => Ok(header),
            false => Err(Unwritten::Gone),
        }
    }

    /// The object will have these bytes.
    pub(crate) fn store(&mut self, pointer: Pointer, body: Vec<u8>) {
        match self.writes.iter_mut().find(|(written, _)| written.address == pointer.address) {
            Some((_, Write::Create(made))) => *made = Some(body),
            Some((_, write)) => *write = Write::Update(body),
            None => self.writes.push((pointer, Write::Update(body))),
        }
    }

    /// Reserves an object near another one.
    pub(crate) fn alloc(&mut self, bytes: usize, near: Option<Address>) -> Result<Pointer, Unwritten> {
        let place = self.heap.reserve(bytes, near, self.purpose)?;
        let pointer = Pointer { address: place.address, bytes: bytes as u32, incarnation: place.incarnation };
        self.memory += self.slot_bytes(pointer);
        self.writes.push((pointer, Write::Create(None)));
        Ok(pointer)
    }

    /// The version that an object will have which was reserved just now.
    pub(crate) fn first_version(&self, pointer: Pointer) -> Result<u64, Unwritten> {
        Ok(self.heap.header(pointer.address)?.word.version() + 1)
    }

    /// Gives the last that was reserved back at once.
    pub(crate) fn take_back(&mut self, pointer: Pointer) {
        if let Some(at) = self.writes.iter().rposition(|(written, _)| written.address == pointer.address) {
            self.writes.remove(at);
            self.memory -= self.slot_bytes(pointer);
            let _ = self.heap.release(pointer.address);
        }
    }

    /// The object will be free.
    pub(crate) fn free(&mut self, pointer: Pointer) {
        self.memory -= self.slot_bytes(pointer);
        match self.writes.iter().position(|(written, _)| written.address == pointer.address) {
            Some(at) => self.writes[at].1 = Write::Free,
            None => self.writes.push((pointer, Write::Free)),
        }
    }
}
