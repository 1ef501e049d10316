//! Tables whose operations block.

use crate::barn::Barn;
use crate::error::Error;
use barn_fabric::{block_on, block_on_alone};
use barn_index::{
    Answers, Durability, Found, Put, Swapped, TableError, TableInfo, TableOptions, TableStats, Way, Write,
    Written,
};
use std::fmt;
use std::time::Duration;

/// A table: keys and values, both of any bytes. Clones are the same; threads may share one.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let barn = barn::Barn::embedded()?;
/// let users = barn.table("users")?;
/// users.put(b"ada", b"1815")?;
/// assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Table {
    inner: barn_index::Table,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Barn {
    /// Opens a table; one that is not there is made, with defaults.
    pub fn table(&self, name: &str) -> Result<Table, Error> {
        self.table_with(name, TableOptions::default())
    }

    /// Opens a table; one that is not there is made with these options. One that is there keeps its own.
    pub fn table_with(&self, name: &str, options: TableOptions) -> Result<Table, Error> {
        let inner = block_on(barn_index::Table::open_or_create(self.client(), name, options))?;
        Ok(Table { inner })
    }

    /// Opens a table that is there.
    pub fn open_table(&self, name: &str) -> Result<Table, Error> {
        Ok(Table { inner: block_on(barn_index::Table::open(self.client(), name))? })
    }

    /// Makes a table with `shards` shards, 0 for one at each node; an error if there is one of this name
    /// with other options.
    pub fn create_table(&self, name: &str, options: TableOptions, shards: u32) -> Result<Table, Error> {
        Ok(Table { inner: block_on(barn_index::Table::create(self.client(), name, options, shards))? })
    }

    /// Drops a table, with all that is in it.
    pub fn drop_table(&self, name: &str) -> Result<(), Error> {
        Ok(block_on(barn_index::Table::drop(self.client(), name))?)
    }

    /// The tables that there are, by name.
    pub fn tables(&self) -> Result<Vec<TableInfo>, Error> {
        Ok(block_on(barn_index::Table::list(self.client()))?)
    }
}

impl Table {
    /// The same, as futures.
    pub fn futures(&self) -> &barn_index::Table {
        &self.inner
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// How it was made.
    pub fn options(&self) -> &TableOptions {
        self.inner.options()
    }

    /// The same table, read in another way.
    pub fn read_by(&self, way: Way) -> Self {
        Self { inner: self.inner.read_by(way) }
    }

    /// The same table, whose changes through this handle count as made only once they are so durable,
    /// whatever the table's own durability is.
    #[must_use = "the handle itself keeps its durability"]
    pub fn durability(&self, durability: Durability) -> Self {
        Self { inner: self.inner.durability(durability) }
    }

    /// The same table, whose operations through this handle may take so long, all in all: for single
    /// calls, as in `table.deadline(limit).get(key)`.
    #[must_use = "the handle itself keeps its deadline"]
    pub fn deadline(&self, deadline: Duration) -> Self {
        Self { inner: self.inner.deadline(deadline) }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.find(key)?.map(|found| found.value))
    }

    /// The value of a key, with its version and when it expires.
    pub fn find(&self, key: &[u8]) -> Result<Option<Found>, Error> {
        let mut found = Found::default();
        Ok(self.find_into(key, &mut found)?.then_some(found))
    }

    /// As [`Table::find`], into memory of the caller's; false if the key is not there.
    pub fn find_into(&self, key: &[u8], found: &mut Found) -> Result<bool, Error> {
        // Most lookups have nothing to wait for but their READs.
        match self.inner.find_waiting(key, found)? {
            Some(there) => Ok(there),
            None => Ok(block_on_alone(self.inner.find_by_future(key, found))?),
        }
    }

    /// Whether a key is there.
    pub fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.find(key)?.is_some())
    }

    /// Gives a key a value; gives its version. Done again, until the deadline, while the node is lost.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        Ok(block_on_alone(self.inner.put(key, value))?)
    }

    /// Gives a key a value that is gone after a while; gives its version.
    pub fn put_for(&self, key: &[u8], value: &[u8], time: Duration) -> Result<u64, Error> {
        Ok(block_on_alone(self.inner.put_with(key, value, Put::expiring_after(time)))?)
    }

    /// Gives a key a value if it has none; false if it has. If whether it was done cannot be known,
    /// that is the error, [`TableError::Indeterminate`](crate::TableError::Indeterminate).
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        Ok(block_on_alone(self.inner.insert(key, value, Put::default()))?)
    }

    /// Removes a key; false if it was not there. Done again, until the deadline, while the node is lost:
    /// then false may also say that an attempt whose answer was lost has removed it.
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        Ok(block_on_alone(self.inner.delete(key))?)
    }

    /// Gives a key a value if it still has this version. If whether it was done cannot be known, that is
    /// the error, [`TableError::Indeterminate`](crate::TableError::Indeterminate).
    pub fn swap(&self, key: &[u8], version: u64, value: &[u8]) -> Result<Swapped, Error> {
        Ok(block_on_alone(self.inner.swap(key, version, value, Put::default()))?)
    }

    /// Adds to a key's value, a decimal number, 0 where there is none; gives the sum. If whether it was
    /// done cannot be known, that is the error,
    /// [`TableError::Indeterminate`](crate::TableError::Indeterminate).
    pub fn increment(&self, key: &[u8], by: i64) -> Result<i64, Error> {
        Ok(block_on_alone(self.inner.increment(key, by))?)
    }

    /// As [`Table::increment`]; a counter that is made by it is gone after a while.
    pub fn increment_for(&self, key: &[u8], by: i64, time: Duration) -> Result<i64, Error> {
        Ok(block_on_alone(self.inner.increment_with(key, by, Put::expiring_after(time)))?)
    }

    /// The values of many keys, in one go.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut answers = Answers::new();
        self.find_many(keys, &mut answers)?;
        Ok(answers.into_values())
    }

    /// As [`Table::get_many`], into memory of the caller's.
    pub fn find_many(&self, keys: &[&[u8]], answers: &mut Answers) -> Result<(), Error> {
        Ok(self.inner.find_many_waiting(keys, answers)?)
    }

    /// Gives many keys values, in as few messages as can be.
    pub fn put_many(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), Error> {
        Ok(block_on(self.inner.put_many(pairs, Put::default()))?)
    }

    /// Carries many puts out, each with an expiry of its own, and says of each what came of it; see
    /// [`barn_index::Table::write_many`].
    pub fn write_many(
        &self,
        writes: &[Write<'_>],
        outcomes: &mut Vec<Result<Written, TableError>>,
    ) -> Result<(), Error> {
        Ok(block_on(self.inner.write_many(writes, outcomes))?)
    }

    /// All keys, with what they have, in no order but that of a tree. What comes or goes meanwhile may be met or
    /// not.
    pub fn scan(&self) -> Scan {
        Scan { inner: self.inner.scan() }
    }

    /// The keys from `from` on and before `to`, or to the last, in their order, of a table of the kind `tree`. What
    /// comes or goes meanwhile may be met or not.
    ///
    /// ```
    /// use barn::{Barn, Kind, TableOptions};
    ///
    /// # fn main() -> Result<(), barn::Error> {
    /// let barn = Barn::embedded()?;
    /// let scores = barn.table_with("scores", TableOptions { kind: Kind::Tree, ..TableOptions::default() })?;
    /// for name in ["carol", "alice", "dave", "bob"] {
    ///     scores.put(name.as_bytes(), b"10")?;
    /// }
    /// let some = scores.range(b"b", Some(b"d")).collect::<Result<Vec<_>, _>>()?;
    /// let names: Vec<&[u8]> = some.iter().map(|(name, _)| &name[..]).collect();
    /// assert_eq!(names, [&b"bob"[..], b"carol"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, from: &[u8], to: Option<&[u8]>) -> Range {
        Range { inner: self.inner.range(from, to) }
    }

    /// What the table holds, and how it was read through this handle.
    pub fn stats(&self) -> Result<TableStats, Error> {
        Ok(block_on(self.inner.stats())?)
    }
}

/// A walk through keys in their order.
#[derive(Debug)]
pub struct Range {
    inner: barn_index::Range,
}

impl Range {
    /// Ends after so many keys.
    #[must_use]
    pub fn at_most(self, keys: usize) -> Self {
        Self { inner: self.inner.at_most(keys) }
    }
}

impl Iterator for Range {
    type Item = Result<(Vec<u8>, Found), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(there) = self.inner.next_at_hand() {
            return Some(Ok(there));
        }
        Some(block_on(self.inner.next()).transpose()?.map_err(Error::from))
    }
}

/// A walk through a table.
#[derive(Debug)]
pub struct Scan {
    inner: barn_index::Scan,
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Found), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(block_on(self.inner.next()).transpose()?.map_err(Error::from))
    }
}
