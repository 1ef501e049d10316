//! redb in memory, without durability. Writers wait for each other.

use std::sync::Arc;

use ::redb::backends::InMemoryBackend;
use ::redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::{OBJECT_BYTES, Peer, PeerError, Store, counter, object, raised};

const OBJECTS: TableDefinition<'_, u32, &[u8; OBJECT_BYTES]> = TableDefinition::new("objects");

struct Redb(Arc<Database>);

fn failed(error: impl Into<::redb::Error>) -> PeerError {
    PeerError::failed("redb", error.into())
}

fn gone() -> PeerError {
    PeerError::failed("redb", "an object is gone")
}

pub(super) fn open(objects: u32, _spin: bool) -> Result<Box<dyn Store>, PeerError> {
    let database = Database::builder()
        // All of it, twice over.
        .set_cache_size((objects as usize * 512).max(64 << 20))
        .create_with_backend(InMemoryBackend::new())
        .map_err(failed)?;
    let transaction = database.begin_write().map_err(failed)?;
    {
        let mut table = transaction.open_table(OBJECTS).map_err(failed)?;
        for id in 0..objects {
            table.insert(id, &object(0)).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)?;
    Ok(Box::new(Redb(Arc::new(database))))
}

impl Store for Redb {
    fn client(&self) -> Result<Box<dyn Peer>, PeerError> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }
}

impl Peer for Redb {
    fn name(&self) -> &str {
        "redb"
    }

    fn rmw_2(&mut self, i: u32, j: u32) -> Result<(), PeerError> {
        let mut transaction = self.0.begin_write().map_err(failed)?;
        transaction.set_durability(Durability::None).map_err(failed)?;
        {
            let mut table = transaction.open_table(OBJECTS).map_err(failed)?;
            for id in [i, j] {
                let before = table.get(id).map_err(failed)?.ok_or_else(gone)?;
                let after = raised(before.value()).ok_or_else(gone)?;
                drop(before);
                table.insert(id, &after).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    fn read_4(&mut self, at: [u32; 4]) -> Result<u64, PeerError> {
        let transaction = self.0.begin_read().map_err(failed)?;
        let table = transaction.open_table(OBJECTS).map_err(failed)?;
        let mut sum = 0;
        for id in at {
            let bytes = table.get(id).map_err(failed)?.ok_or_else(gone)?;
            sum +=
                std::hint::black_box(raised(bytes.value())).and(counter(bytes.value())).ok_or_else(gone)?;
        }
        Ok(sum)
    }

    fn conflicts(&self) -> u64 {
        0
    }
}
