//! Ranges, mappings, writers and arrays of numbers whose operations block.

use super::futures;
use crate::error::Error;
use barn_fabric::block_on;
use barn_space::slice::{self, Element};
use std::fmt;
use std::time::Duration;

/// A range of a space that is held, until it and its mappings are dropped.
pub struct Range {
    pub(super) inner: futures::RangeHandle,
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Range {
    /// The same, as futures.
    pub fn futures(&mut self) -> &mut futures::RangeHandle {
        &mut self.inner
    }

    /// The address at which it begins, in its space: what others need to hold it, too.
    pub fn address(&self) -> u64 {
        self.inner.address()
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    /// Of a copy-on-write range, the version that is held; otherwise 0.
    pub fn version(&self) -> u64 {
        self.inner.version()
    }

    /// At how many nodes its chunks are.
    pub fn nodes(&self) -> usize {
        self.inner.nodes()
    }

    /// Maps all of it. Mapping again what is or was mapped through this handle is cheap.
    pub fn map(&self) -> Result<Mapping, Error> {
        Ok(Mapping { inner: block_on(self.inner.map())? })
    }

    /// Maps a part of it.
    pub fn map_part(&self, offset: u64, bytes: u64) -> Result<Mapping, Error> {
        Ok(Mapping { inner: block_on(self.inner.map_part(offset, bytes))? })
    }

    /// Holds the newest version of a copy-on-write range instead. Earlier mappings keep theirs.
    pub fn refresh(&mut self) -> Result<(), Error> {
        Ok(block_on(self.inner.refresh())?)
    }

    /// Becomes the one writer of a copy-on-write range, for so long; 10 s unless said.
    pub fn lease(&mut self, lease: Option<Duration>) -> Result<Writer<'_>, Error> {
        Ok(Writer { inner: block_on(self.inner.lease(lease))? })
    }

    /// Lets it go now; dropping it does the same, a little later.
    pub fn release(self) -> Result<(), Error> {
        Ok(block_on(self.inner.release())?)
    }
}

/// A way to a range's bytes. Clones are the same mapping; threads may share one.
#[derive(Clone)]
pub struct Mapping {
    pub(super) inner: futures::Mapping,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Mapping {
    /// The same, as futures.
    pub fn futures(&self) -> &futures::Mapping {
        &self.inner
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    /// Of a copy-on-write range, the version that is mapped; otherwise 0.
    pub fn version(&self) -> u64 {
        self.inner.version()
    }

    /// Whether it can be written to.
    pub fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    /// Whether all of it is memory of this host, so that reads are loads.
    pub fn is_local(&self) -> bool {
        self.inner.is_local()
    }

    /// Reads the bytes at `offset`.
    #[inline]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.inner.read_now(offset, into)?)
    }

    /// Writes bytes to `offset`.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        Ok(self.inner.write_now(offset, from)?)
    }

    /// Adds to the word at `offset`, a multiple of 8, atomically; gives what it was.
    pub fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, Error> {
        Ok(block_on(self.inner.fetch_add(offset, add))?)
    }

    /// Replaces the word at `offset`, a multiple of 8, if it is `expected`; gives what it was.
    pub fn compare_swap(&self, offset: u64, expected: u64, new: u64) -> Result<u64, Error> {
        Ok(block_on(self.inner.compare_swap(offset, expected, new))?)
    }

    /// Whether no read through this mapping has met a sign of a newer version.
    pub fn is_current(&self) -> bool {
        self.inner.is_current()
    }

    /// Looks at every chunk for a sign of a newer version; whether there is none.
    pub fn check(&self) -> Result<bool, Error> {
        Ok(block_on(self.inner.check())?)
    }

    /// The mapping as an array of numbers: as many as fit.
    pub fn slice<T: Element>(&self) -> Slice<T> {
        Slice { inner: self.inner.slice() }
    }
}

/// The lease on a copy-on-write range. Dropped without a commit, it changes nothing.
#[derive(Debug)]
pub struct Writer<'a> {
    inner: futures::Writer<'a>,
}

impl Writer<'_> {
    /// Writes bytes to `offset` of the next version.
    pub fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Error> {
        Ok(block_on(self.inner.write(offset, from))?)
    }

    /// Reads the next version, as it has been written so far.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(block_on(self.inner.read(offset, into))?)
    }

    /// How long the lease is, from its last renewal.
    pub fn lease(&self) -> Duration {
        self.inner.lease()
    }

    /// Renews the lease.
    pub fn renew(&mut self) -> Result<(), Error> {
        Ok(block_on(self.inner.renew())?)
    }

    /// Switches the range to what was written, all at once. The range's handle holds the new version then.
    pub fn commit(self) -> Result<(), Error> {
        Ok(block_on(self.inner.commit())?)
    }

    /// Ends the lease without a switch.
    pub fn abandon(self) -> Result<(), Error> {
        Ok(block_on(self.inner.abandon())?)
    }
}

/// An array of numbers in a mapping: copied in and out, never referred to. Clones are the same array.
pub struct Slice<T> {
    inner: slice::Slice<T>,
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T> fmt::Debug for Slice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: Element> Slice<T> {
    /// The same, as futures.
    pub fn futures(&self) -> &slice::Slice<T> {
        &self.inner
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// One element.
    #[inline]
    pub fn get(&self, index: u64) -> Result<T, Error> {
        Ok(self.inner.get_now(index)?)
    }

    /// Changes one element.
    #[inline]
    pub fn set(&self, index: u64, value: T) -> Result<(), Error> {
        Ok(self.inner.set_now(index, value)?)
    }

    /// Reads elements from `index` on.
    pub fn read(&self, index: u64, into: &mut [T]) -> Result<(), Error> {
        Ok(self.inner.read_now(index, into)?)
    }

    /// Writes elements from `index` on.
    pub fn write(&self, index: u64, from: &[T]) -> Result<(), Error> {
        Ok(self.inner.write_now(index, from)?)
    }

    /// Gives every element of `range` the same value.
    pub fn fill(&self, range: std::ops::Range<u64>, value: T) -> Result<(), Error> {
        Ok(self.inner.fill_now(range, value)?)
    }

    /// Folds the elements of `range`, in order, read in blocks.
    pub fn fold<A>(
        &self,
        range: std::ops::Range<u64>,
        start: A,
        with: impl FnMut(A, T) -> A,
    ) -> Result<A, Error> {
        Ok(self.inner.fold_now(range, start, with)?)
    }
}
