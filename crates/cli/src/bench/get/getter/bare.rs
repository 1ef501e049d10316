//! The limit: loads of 64 bytes at as many places of as much memory, without a table.

use std::hint::black_box;
use std::io;

use barn_fabric::{ConnectOptions, Connection, RemoteRegion, Rights};

use super::Getter;
use crate::bench::get::workload::{LINE_BYTES, Pool};

/// Loads between two looks at the clock: long enough that running into the prefetching does not count.
const STEP: usize = 1024;
/// Of the pages that are mapped before anything is measured.
const PAGE_BYTES: usize = 4096;

/// A region of another process, mapped.
pub(crate) struct Bare {
    _connection: Connection,
    region: RemoteRegion,
    /// How far it prefetches; 0 for not at all.
    ahead: usize,
}

impl Bare {
    /// Opens the first data region of a node.
    pub(crate) fn connect(address: &str, ahead: usize) -> io::Result<Self> {
        let connection =
            Connection::connect(address, ConnectOptions::default()).wait().map_err(io::Error::other)?;
        let region = connection.open(barn_server::RAW, Rights::READ).wait().map_err(io::Error::other)?;
        let bare = Self { _connection: connection, region, ahead };
        let pages: Vec<u32> = (0..bare.region.bytes() as u32).step_by(PAGE_BYTES).collect();
        bare.load(&pages)?;
        Ok(bare)
    }

    fn load(&self, offsets: &[u32]) -> io::Result<()> {
        let words = self.region.mapped().ok_or_else(|| io::Error::other("the memory is not mapped"))?;
        black_box(words.bare_random(offsets, LINE_BYTES, self.ahead));
        Ok(())
    }
}

impl Getter for Bare {
    fn get(&mut self, pool: &Pool, at: usize, batch: usize, _verify: bool) -> io::Result<()> {
        self.load(&pool.offsets[at..at + batch])
    }

    fn step(&self, _batch: usize) -> usize {
        STEP
    }
}
