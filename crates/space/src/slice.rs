//! Numbers in a mapping: an array that is shared, read and written by value.
//!
//! What always holds: indices are checked; nothing here refers into shared memory, so that numbers are
//! copied in and out; a number of up to eight bytes that stands at a multiple of its own length is read and
//! written whole. Bytes are in the machine's order, which is little-endian on every machine that Barn runs on.

use crate::client::{AccessError, Mapping};
use barn_fabric::block_on;
use std::fmt;
use std::marker::PhantomData;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// How much is moved at once where all elements are: long enough for bandwidth, and it fits a cache.
const BLOCK_BYTES: usize = 256 << 10;

/// What can be an element: plain numbers, and whatever else has any bytes for its value.
pub trait Element: FromBytes + IntoBytes + Immutable + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + Copy> Element for T {}

/// An array of numbers in a mapping. Clones are the same array.
pub struct Slice<T> {
    mapping: Mapping,
    len: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Self {
        Self { mapping: self.mapping.clone(), len: self.len, of: PhantomData }
    }
}

impl<T> fmt::Debug for Slice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} of {})", self.len, std::any::type_name::<T>())
    }
}

impl Mapping {
    /// The mapping as an array of numbers: as many as fit.
    pub fn slice<T: Element>(&self) -> Slice<T> {
        const { assert!(size_of::<T>() > 0, "an element has bytes") };
        Slice { mapping: self.clone(), len: self.bytes() / size_of::<T>() as u64, of: PhantomData }
    }
}

impl<T: Element> Slice<T> {
    const BYTES: u64 = size_of::<T>() as u64;
    /// Elements that are moved at once.
    const BLOCK: usize = if BLOCK_BYTES > size_of::<T>() { BLOCK_BYTES / size_of::<T>() } else { 1 };

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The mapping that it is in.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Where elements begin in the mapping.
    fn place(&self, index: u64, count: usize) -> Result<u64, AccessError> {
        let end = index.checked_add(count as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(AccessError::OutOfBounds {
                offset: index.saturating_mul(Self::BYTES),
                bytes: (count as u64).saturating_mul(Self::BYTES),
                mapped_bytes: self.len * Self::BYTES,
            });
        }
        Ok(index * Self::BYTES)
    }

    /// One element.
    pub async fn get(&self, index: u64) -> Result<T, AccessError> {
        let mut value = T::new_zeroed();
        self.mapping.read(self.place(index, 1)?, value.as_mut_bytes()).await?;
        Ok(value)
    }

    /// One element, blocking this thread.
    #[inline]
    pub fn get_now(&self, index: u64) -> Result<T, AccessError> {
        let mut value = T::new_zeroed();
        self.mapping.read_now(self.place(index, 1)?, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Changes one element.
    pub async fn set(&self, index: u64, value: T) -> Result<(), AccessError> {
        self.mapping.write(self.place(index, 1)?, value.as_bytes()).await
    }

    /// Changes one element, blocking this thread.
    #[inline]
    pub fn set_now(&self, index: u64, value: T) -> Result<(), AccessError> {
        self.mapping.write_now(self.place(index, 1)?, value.as_bytes())
    }

    /// Reads elements from `index` on.
    pub async fn read(&self, index: u64, into: &mut [T]) -> Result<(), AccessError> {
        self.mapping.read(self.place(index, into.len())?, into.as_mut_bytes()).await
    }

    /// Reads elements from `index` on, blocking this thread.
    pub fn read_now(&self, index: u64, into: &mut [T]) -> Result<(), AccessError> {
        self.mapping.read_now(self.place(index, into.len())?, into.as_mut_bytes())
    }

    /// Writes elements from `index` on.
    pub async fn write(&self, index: u64, from: &[T]) -> Result<(), AccessError> {
        self.mapping.write(self.place(index, from.len())?, from.as_bytes()).await
    }

    /// Writes elements from `index` on, blocking this thread.
    pub fn write_now(&self, index: u64, from: &[T]) -> Result<(), AccessError> {
        self.mapping.write_now(self.place(index, from.len())?, from.as_bytes())
    }

    /// Gives every element of `range` the same value.
    pub async fn fill(&self, range: std::ops::Range<u64>, value: T) -> Result<(), AccessError> {
        let block = vec![value; self.block(&range)?];
        let mut at = range.start;
        while at < range.end {
            let count = (range.end - at).min(block.len() as u64) as usize;
            self.write(at, &block[..count]).await?;
            at += count as u64;
        }
        Ok(())
    }

    /// Gives every element of `range` the same value, blocking this thread.
    pub fn fill_now(&self, range: std::ops::Range<u64>, value: T) -> Result<(), AccessError> {
        block_on(self.fill(range, value))
    }

    /// Folds the elements of `range`, in order, read in blocks.
    pub async fn fold<A>(
        &self,
        range: std::ops::Range<u64>,
        mut folded: A,
        mut with: impl FnMut(A, T) -> A,
    ) -> Result<A, AccessError> {
        let mut block = vec![T::new_zeroed(); self.block(&range)?];
        let mut at = range.start;
        while at < range.end {
            let count = (range.end - at).min(block.len() as u64) as usize;
            self.read(at, &mut block[..count]).await?;
            folded = block[..count].iter().fold(folded, |folded, value| with(folded, *value));
            at += count as u64;
        }
        Ok(folded)
    }

    /// Folds the elements of `range`, in order, read in blocks, blocking this thread.
    pub fn fold_now<A>(
        &self,
        range: std::ops::Range<u64>,
        start: A,
        with: impl FnMut(A, T) -> A,
    ) -> Result<A, AccessError> {
        block_on(self.fold(range, start, with))
    }

    /// How many elements of a range are moved at once.
    fn block(&self, range: &std::ops::Range<u64>) -> Result<usize, AccessError> {
        let count = range.end.saturating_sub(range.start);
        // A count past the machine's own is past the mapping, too.
        self.place(range.start, usize::try_from(count).unwrap_or(usize::MAX))?;
        Ok(Self::BLOCK.min(count as usize))
    }
}
