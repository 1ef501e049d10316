//! LMDB in `/dev/shm`: no sync, a writable map, integer keys. Writers wait for each other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::lmdb::{Database, DatabaseFlags, Environment, EnvironmentFlags, Transaction, WriteFlags};

use super::{Peer, PeerError, Store, counter, object, raised};

/// Room for the objects four times over, and as much again for pages that readers still hold.
const BYTES_EACH: usize = 1024;

struct Lmdb {
    environment: Arc<Environment>,
    database: Database,
    directory: PathBuf,
}

struct Client {
    environment: Arc<Environment>,
    database: Database,
}

fn failed(error: ::lmdb::Error) -> PeerError {
    PeerError::failed("LMDB", error)
}

fn garbled() -> PeerError {
    PeerError::failed("LMDB", "an object has not its length")
}

pub(super) fn open(objects: u32, _spin: bool) -> Result<Box<dyn Store>, PeerError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // ORDER: only a number that nobody else has.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let directory = PathBuf::from(format!("/dev/shm/barn-bench-lmdb-{}-{number}", std::process::id()));
    std::fs::create_dir(&directory).map_err(|error| PeerError::failed("LMDB", error))?;
    let loaded = load(&directory, objects);
    let (environment, database) =
        loaded.inspect_err(|_| drop(std::fs::remove_dir_all(&directory))).map_err(failed)?;
    Ok(Box::new(Lmdb { environment: Arc::new(environment), database, directory }))
}

fn load(directory: &std::path::Path, objects: u32) -> Result<(Environment, Database), ::lmdb::Error> {
    let fast = EnvironmentFlags::NO_SYNC
        | EnvironmentFlags::NO_META_SYNC
        | EnvironmentFlags::WRITE_MAP
        | EnvironmentFlags::MAP_ASYNC
        | EnvironmentFlags::NO_MEM_INIT
        | EnvironmentFlags::NO_READAHEAD;
    let bytes = (objects as usize * BYTES_EACH).max(64 << 20);
    let environment = Environment::new().set_flags(fast).set_map_size(bytes).open(directory)?;
    let database = environment.create_db(None, DatabaseFlags::INTEGER_KEY)?;
    let mut transaction = environment.begin_rw_txn()?;
    for id in 0..objects {
        transaction.put(database, &id.to_ne_bytes(), &object(0), WriteFlags::APPEND)?;
    }
    transaction.commit()?;
    Ok((environment, database))
}

impl Store for Lmdb {
    fn client(&self) -> Result<Box<dyn Peer>, PeerError> {
        Ok(Box::new(Client { environment: Arc::clone(&self.environment), database: self.database }))
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Peer for Client {
    fn name(&self) -> &str {
        "lmdb"
    }

    fn rmw_2(&mut self, i: u32, j: u32) -> Result<(), PeerError> {
        let mut transaction = self.environment.begin_rw_txn().map_err(failed)?;
        for id in [i, j] {
            let key = id.to_ne_bytes();
            let bytes = transaction.get(self.database, &key).map_err(failed)?;
            let bytes = raised(bytes).ok_or_else(garbled)?;
            transaction.put(self.database, &key, &bytes, WriteFlags::empty()).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn read_4(&mut self, at: [u32; 4]) -> Result<u64, PeerError> {
        let transaction = self.environment.begin_ro_txn().map_err(failed)?;
        let mut sum = 0;
        for id in at {
            let bytes = transaction.get(self.database, &id.to_ne_bytes()).map_err(failed)?;
            sum += std::hint::black_box(raised(bytes)).and(counter(bytes)).ok_or_else(garbled)?;
        }
        Ok(sum)
    }

    fn conflicts(&self) -> u64 {
        0
    }
}
