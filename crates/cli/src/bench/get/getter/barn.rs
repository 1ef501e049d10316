//! Barn's table, through the blocking API and memory that is used again.

use std::array;
use std::io;

use barn::{Answers, Barn, Found, Table, Way};

use super::{Getter, check, missing};
use crate::bench::get::workload::{Key, Pool};

/// A client of a node's table.
pub(crate) struct BarnGetter {
    table: Table,
    found: Found,
    answers: Answers,
}

impl BarnGetter {
    /// Connects, and opens the table.
    pub(crate) fn connect(address: &str, table: &str, way: Way) -> Result<Self, barn::Error> {
        let table = Barn::connect(address)?.open_table(table)?.read_by(way);
        Ok(Self { table, found: Found::default(), answers: Answers::new() })
    }

    fn one(&mut self, key: &Key, verify: bool) -> io::Result<()> {
        if !self.table.find_into(key, &mut self.found).map_err(io::Error::other)? {
            return Err(missing(key));
        }
        check(key, &self.found.value, verify)
    }

    fn many<const N: usize>(&mut self, keys: &[Key], verify: bool) -> io::Result<()> {
        let asked: [&[u8]; N] = array::from_fn(|at| &keys[at][..]);
        self.table.find_many(&asked, &mut self.answers).map_err(io::Error::other)?;
        for (key, found) in keys.iter().zip(self.answers.iter()) {
            check(key, &found.ok_or_else(|| missing(key))?.value, verify)?;
        }
        Ok(())
    }
}

impl Getter for BarnGetter {
    fn get(&mut self, pool: &Pool, at: usize, batch: usize, verify: bool) -> io::Result<()> {
        let keys = &pool.keys[at..at + batch];
        match keys.len() {
            16 => self.many::<16>(keys, verify),
            32 => self.many::<32>(keys, verify),
            64 => self.many::<64>(keys, verify),
            _ => keys.iter().try_for_each(|key| self.one(key, verify)),
        }
    }
}
