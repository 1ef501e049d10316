//! The stores that Barn's transactions are compared with, each in its fastest honest setting.
//!
//! Every store holds N objects of 64 bytes: a counter and 56 other bytes, all of which every
//! operation reads. None writes to a disk; all keep transactions apart from one another.
//!
//! | peer | how |
//! |---|---|
//! | `sqlite` | in memory, one connection behind a mutex, statements prepared once |
//! | `lmdb` | in `/dev/shm`, no sync, writable map, integer keys |
//! | `redb` | in memory |
//! | `redis-watch` | `WATCH`, `MGET`; `MULTI`, `MSET`, `EXEC`: two round trips on a Unix socket |
//! | `redis-multi` | all in one pipelined `MULTI` … `EXEC` with `HINCRBY`: one round trip |

pub(crate) use crate::bench::peer::PeerError;

mod redis;

#[cfg(feature = "peers")]
mod lmdb;
#[cfg(feature = "peers")]
mod redb;
#[cfg(feature = "peers")]
mod sqlite;

/// The bytes of an object.
pub(crate) const OBJECT_BYTES: usize = 64;

/// One client of a peer.
pub(crate) trait Peer: Send {
    /// The peer's name.
    fn name(&self) -> &str;

    /// One transaction: reads two different objects, adds one to the counter of each, writes both.
    fn rmw_2(&mut self, i: u32, j: u32) -> Result<(), PeerError>;

    /// One transaction: reads four different objects; the sum of their counters.
    fn read_4(&mut self, at: [u32; 4]) -> Result<u64, PeerError>;

    /// Attempts that met a conflict and were repeated.
    fn conflicts(&self) -> u64;
}

/// A peer's data, loaded; gone when dropped.
pub(crate) trait Store {
    /// Another client of the same data.
    fn client(&self) -> Result<Box<dyn Peer>, PeerError>;
}

/// Loads a peer with so many objects; its clients may spin if they have a core each.
pub(crate) type Open = fn(u32, bool) -> Result<Box<dyn Store>, PeerError>;

/// Every peer.
#[cfg(feature = "peers")]
pub(crate) const ALL: [(&str, Open); 5] = [
    ("sqlite", sqlite::open),
    ("lmdb", lmdb::open),
    ("redb", redb::open),
    ("redis-watch", redis::open_watch),
    ("redis-multi", redis::open_multi),
];

/// Every peer.
#[cfg(not(feature = "peers"))]
pub(crate) const ALL: [(&str, Open); 5] = [
    ("sqlite", not_built),
    ("lmdb", not_built),
    ("redb", not_built),
    ("redis-watch", redis::open_watch),
    ("redis-multi", redis::open_multi),
];

#[cfg(not(feature = "peers"))]
fn not_built(_objects: u32, _spin: bool) -> Result<Box<dyn Store>, PeerError> {
    Err(PeerError::Absent { peer: "it", fix: crate::bench::peer::BUILD_THEM_IN.to_owned() })
}

/// An object as one string of bytes: the counter first.
pub(crate) fn object(counter: u64) -> [u8; OBJECT_BYTES] {
    let mut bytes = [0x5A; OBJECT_BYTES];
    bytes[..8].copy_from_slice(&counter.to_le_bytes());
    bytes
}

/// The counter of an object; none if it has not an object's length.
pub(crate) fn counter(bytes: &[u8]) -> Option<u64> {
    let object: &[u8; OBJECT_BYTES] = bytes.try_into().ok()?;
    object.first_chunk().map(|counter| u64::from_le_bytes(*counter))
}

/// The same object with its counter one higher.
pub(crate) fn raised(bytes: &[u8]) -> Option<[u8; OBJECT_BYTES]> {
    let mut object: [u8; OBJECT_BYTES] = bytes.try_into().ok()?;
    let counter = counter(bytes)?;
    object[..8].copy_from_slice(&(counter + 1).to_le_bytes());
    Some(object)
}
