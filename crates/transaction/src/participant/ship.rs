//! Functions that run next to the data: FaRM section 3.4, "shipping the transaction to the primary".
//!
//! A function runs on the poll loop, so nothing comes between its reads and its writes: it needs no
//! versions and no retries, only objects that no prepared transaction holds locked.

use super::session::malformed;
use super::{Participant, Refusal};
use crate::id::Pointer;
use crate::wire::split;
use barn_heap::{Heap, ObjectError, Purpose};
use barn_layout::object::LockMode;
use barn_layout::transaction::{Ship, Verdict};
use barn_layout::{Address, planted};
use std::collections::HashMap;
use std::fmt;

/// Why a function did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionError {
    /// An object is locked by a transaction that is being committed: try again.
    Busy(Address),
    /// The pointer's object is gone.
    Freed(Address),
    /// The function's own reason.
    Failed(String),
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(address) => write!(f, "{BUSY}{address:?} is being changed by a transaction"),
            Self::Freed(address) => write!(f, "the object at {address:?} is gone"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for FunctionError {}

/// Starts the refusal of a call that may simply be made again.
pub(crate) const BUSY: &str = "busy: ";

/// A function: what it does next to an object, with what it was sent; what it returns is sent back.
pub type Function = Box<dyn Fn(&mut Local<'_>, Pointer, &[u8]) -> Result<Vec<u8>, FunctionError> + Send>;

/// The functions of a node, by name.
#[derive(Default)]
pub struct Functions {
    by_name: HashMap<String, Function>,
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Functions {
    /// Those that every node offers: `barn.add` adds its argument to the number that the object
    /// starts with (both `i64`, little-endian) and gives the sum.
    pub fn builtin() -> Self {
        let mut functions = Self::default();
        functions.register("barn.add", |local, pointer, argument| {
            let failed = |why: &str| FunctionError::Failed(why.into());
            let add = argument.try_into().map(i64::from_le_bytes);
            let add = add.map_err(|_| failed("barn.add takes eight bytes: a little-endian i64"))?;
            let mut body = local.read(pointer)?;
            let Some(number) = body.first_chunk_mut() else {
                return Err(failed("barn.add needs an object of eight bytes or more"));
            };
            let sum = i64::from_le_bytes(*number).wrapping_add(add);
            *number = sum.to_le_bytes();
            local.write(pointer, &body)?;
            Ok(sum.to_le_bytes().to_vec())
        });
        functions
    }

    /// Adds a function, in place of one that had the name.
    pub fn register(
        &mut self,
        name: &str,
        function: impl Fn(&mut Local<'_>, Pointer, &[u8]) -> Result<Vec<u8>, FunctionError> + Send + 'static,
    ) {
        self.by_name.insert(name.to_string(), Box::new(function));
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// What a function does with objects of its node. Its writes are carried out together when it
/// returns without an error, and not at all otherwise.
pub struct Local<'a> {
    heap: &'a mut Heap,
    writes: Vec<(Pointer, LocalChange)>,
}

enum LocalChange {
    Update(Vec<u8>),
    Create(Vec<u8>),
    Free,
}

impl fmt::Debug for Local<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("writes", &self.writes.len()).finish()
    }
}

impl Local<'_> {
    /// Whether the object is there and no transaction is about to change it.
    fn check(&self, pointer: Pointer) -> Result<(), FunctionError> {
        let address = pointer.address;
        let header = self.heap.header(address).map_err(|_| FunctionError::Freed(address))?;
        if header.incarnation != pointer.incarnation || !(header.allocated || header.coming) {
            return Err(FunctionError::Freed(address));
        }
        // It is decided that it will be there, and not yet carried out.
        if header.coming && !planted("coming_is_gone") {
            return Err(FunctionError::Busy(address));
        }
        if header.word.mode() != LockMode::Free {
            return Err(FunctionError::Busy(address));
        }
        Ok(())
    }

    /// Reads an object, as this function has left it.
    pub fn read(&self, pointer: Pointer) -> Result<Vec<u8>, FunctionError> {
        match self.writes.iter().rev().find(|(written, _)| written.address == pointer.address) {
            Some((_, LocalChange::Update(body) | LocalChange::Create(body))) => return Ok(body.clone()),
            Some((_, LocalChange::Free)) => return Err(FunctionError::Freed(pointer.address)),
            None => {}
        }
        self.check(pointer)?;
        let mut body = Vec::new();
        self.heap.read(pointer.address, &mut body).map_err(|_| FunctionError::Freed(pointer.address))?;
        Ok(body)
    }

    /// Replaces an object's bytes.
    pub fn write(&mut self, pointer: Pointer, body: &[u8]) -> Result<(), FunctionError> {
        if body.len() != pointer.bytes as usize {
            return Err(FunctionError::Failed(format!(
                "the object has {} bytes, not {}",
                pointer.bytes,
                body.len()
            )));
        }
        let known = self.writes.iter_mut().find(|(written, _)| written.address == pointer.address);
        match known {
            Some((_, LocalChange::Free)) => Err(FunctionError::Freed(pointer.address)),
            Some((_, LocalChange::Update(old) | LocalChange::Create(old))) => {
                old.clear();
                old.extend_from_slice(body);
                Ok(())
            }
            None => {
                self.check(pointer)?;
                self.writes.push((pointer, LocalChange::Update(body.to_vec())));
                Ok(())
            }
        }
    }

    /// Makes a new object, near to another if one is given.
    pub fn alloc(&mut self, body: &[u8], near: Option<Pointer>) -> Result<Pointer, FunctionError> {
        let hint = near.map(|near| near.address);
        let place = self
            .heap
            .reserve(body.len(), hint, Purpose::Objects)
            .map_err(|error| FunctionError::Failed(error.to_string()))?;
        let pointer =
            Pointer { address: place.address, bytes: body.len() as u32, incarnation: place.incarnation };
        self.writes.push((pointer, LocalChange::Create(body.to_vec())));
        Ok(pointer)
    }

    /// Frees an object.
    pub fn free(&mut self, pointer: Pointer) -> Result<(), FunctionError> {
        if let Some(known) = self.writes.iter().position(|(written, _)| written.address == pointer.address) {
            if let (_, LocalChange::Create(_)) = self.writes.remove(known) {
                // It was reserved by `alloc`.
                let _ = self.heap.release(pointer.address);
                return Ok(());
            }
        } else {
            self.check(pointer)?;
        }
        self.writes.push((pointer, LocalChange::Free));
        Ok(())
    }

    /// Carries the writes out: every object closed, or announced, before the first is changed.
    fn commit(self) -> Result<(), ObjectError> {
        for (pointer, change) in &self.writes {
            if let LocalChange::Create(_) = change {
                self.heap.announce(pointer.address)?;
                continue;
            }
            let header = self.heap.header(pointer.address)?;
            self.heap.lock(pointer.address, header.word.version(), pointer.incarnation)?;
            self.heap.close(pointer.address)?;
        }
        for (pointer, change) in &self.writes {
            match change {
                LocalChange::Update(body) => self.heap.write(pointer.address, body).map(|_| ())?,
                LocalChange::Create(body) => self.heap.create(pointer.address, body).map(|_| ())?,
                LocalChange::Free => self.heap.free(pointer.address)?,
            }
        }
        Ok(())
    }

    fn forget(self) {
        for (pointer, change) in &self.writes {
            if let LocalChange::Create(_) = change {
                // It was reserved by `alloc`.
                let _ = self.heap.release(pointer.address);
            }
        }
    }
}

impl Participant {
    pub(super) fn ship(&mut self, body: &[u8], answer: &mut Vec<u8>) -> Result<(), String> {
        let (ship, rest) = split::<Ship>(body).map_err(malformed)?;
        let name_bytes = ship.name_bytes.get() as usize;
        if rest.len() != name_bytes.saturating_add(ship.argument_bytes.get() as usize) {
            return Err(malformed(crate::wire::Malformed));
        }
        let (name, argument) = rest.split_at(name_bytes);
        let name = std::str::from_utf8(name).unwrap_or("");
        let Some(function) = self.functions.by_name.get(name) else {
            return Err(format!(
                "no function `{name}` here; there are: {}",
                self.functions.names().join(", ")
            ));
        };
        let pointer = Pointer {
            address: Address::from_bits(ship.address.get()),
            bytes: ship.bytes.get(),
            incarnation: ship.incarnation.get(),
        };
        if !self.regions.contains(&pointer.address.region()) {
            let refusal: Refusal = Verdict::NotHere.into();
            return Err(format!(
                "the object at {:?} is not held here ({:?})",
                pointer.address, refusal.verdict
            ));
        }
        self.stats.shipped += 1;
        let mut local = Local { heap: &mut self.heap, writes: Vec::new() };
        match function(&mut local, pointer, argument) {
            Ok(result) => {
                local.commit().map_err(|error| format!("the function's writes: {error}"))?;
                *answer = result;
                Ok(())
            }
            Err(error) => {
                local.forget();
                Err(error.to_string())
            }
        }
    }
}
