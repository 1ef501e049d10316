//! A transaction whose operations block.

use crate::error::Error;
use crate::object::{Ref, TypedTransaction, Value};
use crate::table::Table;
use barn_fabric::{block_on, block_on_alone};
use barn_index::{Put, TableTransaction};
use barn_layout::Durability;
use barn_transaction::{Committed, Pointer, Transaction};

/// A transaction. In [`Barn::transaction`](crate::Barn::transaction) it is committed when the closure
/// returns `Ok`; one from [`Barn::begin`](crate::Barn::begin) is committed by hand.
#[derive(Debug)]
pub struct Tx {
    pub(crate) inner: Transaction,
}

impl Tx {
    /// Reads an object's bytes.
    pub fn read(&mut self, pointer: Pointer) -> Result<&[u8], Error> {
        // Where memory is mapped here a future, and who drives it, would take longer than the read.
        if !self.inner.read_at_once(pointer)? {
            block_on_alone(self.inner.read(pointer))?;
        }
        Ok(self.inner.bytes(pointer).unwrap_or_default())
    }

    /// Reads objects all at once, which takes about as long as to read one; [`read`](Self::read) then has them at
    /// hand.
    pub fn fetch(&mut self, pointers: &[Pointer]) -> Result<(), Error> {
        if !self.inner.fetch_at_once(pointers)? {
            block_on(self.inner.fetch(pointers))?;
        }
        Ok(())
    }

    /// Replaces an object's bytes, which keep their length.
    pub fn write(&mut self, pointer: Pointer, bytes: &[u8]) -> Result<(), Error> {
        if self.inner.read_at_once(pointer)? {
            return Ok(self.inner.replace(pointer, bytes)?);
        }
        Ok(block_on_alone(self.inner.write(pointer, bytes))?)
    }

    /// Makes an object of bytes.
    pub fn alloc(&mut self, bytes: &[u8]) -> Result<Pointer, Error> {
        Ok(block_on(self.inner.alloc(bytes, None))?)
    }

    /// Makes an object close to another: in its block, its region, or at least on its node.
    pub fn alloc_near(&mut self, bytes: &[u8], near: Pointer) -> Result<Pointer, Error> {
        Ok(block_on(self.inner.alloc(bytes, Some(near)))?)
    }

    /// Makes objects of one length side by side.
    pub fn alloc_array(&mut self, elements: &[&[u8]], near: Option<Pointer>) -> Result<Vec<Pointer>, Error> {
        Ok(block_on(self.inner.alloc_array(elements, near))?)
    }

    /// Frees an object.
    pub fn free(&mut self, pointer: Pointer) -> Result<(), Error> {
        Ok(block_on(self.inner.free(pointer))?)
    }

    /// Reads an object of a type.
    pub fn load<T: Value>(&mut self, object: Ref<T>) -> Result<T, Error> {
        Ok(block_on(self.inner.load(object))?)
    }

    /// Changes an object of a type.
    pub fn store<T: Value>(&mut self, object: Ref<T>, value: &T) -> Result<(), Error> {
        Ok(block_on(self.inner.store(object, value))?)
    }

    /// Makes an object of a type.
    #[allow(clippy::new_ret_no_self, clippy::wrong_self_convention, reason = "it makes an object, not a Tx")]
    pub fn new<T: Value>(&mut self, value: &T) -> Result<Ref<T>, Error> {
        Ok(block_on(self.inner.new_object(value, None))?)
    }

    /// Makes an object of a type close to another.
    pub fn new_near<T: Value>(&mut self, value: &T, near: Pointer) -> Result<Ref<T>, Error> {
        Ok(block_on(self.inner.new_object(value, Some(near)))?)
    }

    /// The value of a table's key.
    pub fn get(&mut self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(block_on(self.inner.table_get(table.futures(), key))?)
    }

    /// Gives a table's key a value.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<(), Error> {
        Ok(block_on(self.inner.table_put(table.futures(), key, value, Put::default()))?)
    }

    /// Removes a table's key; false if it was not there.
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool, Error> {
        Ok(block_on(self.inner.table_delete(table.futures(), key))?)
    }

    /// Says how far the commit must have come before it returns; without a word it is what the nodes
    /// do by themselves.
    pub fn durability(&mut self, durability: Durability) {
        self.inner.durability(durability);
    }

    /// Commits: all of the changes, or none.
    pub fn commit(self) -> Result<Committed, Error> {
        Ok(block_on(self.inner.commit())?)
    }
}
