//! Namespaces of raw bytes, striped over the memory of many nodes; what blocks.
//!
//! `reserve` prepares memory at the nodes, `alloc` binds it to addresses that everybody can see, `map` makes
//! it reachable from here. After that, `read` and `write` move bytes and ask nobody.
//!
//! ```
//! use barn::{Barn, node::NodeConfig};
//!
//! # fn main() -> Result<(), barn::Error> {
//! let barn = Barn::embedded_with(NodeConfig::embedded().space_memory(8 << 20))?;
//! let (space, keys) = barn.spaces().create_with("pixels", 1 << 20, barn::space::Role::Nobody)?;
//! space.reserve(4 << 20)?;
//! let range = space.alloc(3 << 20)?;
//! let pixels = range.map()?;
//! pixels.write((1 << 20) - 2, b"over the edge")?;
//!
//! // Another process joins with a key, and holds the same range by its address.
//! let theirs = barn.spaces().join("pixels", Some(&keys.reader))?;
//! let theirs = theirs.init(range.address(), range.bytes())?.map()?;
//! let mut read = [0; 13];
//! theirs.read((1 << 20) - 2, &mut read)?;
//! assert_eq!(&read, b"over the edge");
//! # Ok(())
//! # }
//! ```
//!
//! What a program holds is let go when its handles are dropped, and when it dies, after one lease. A range
//! stays until it is freed. Nothing is kept when a node ends: spaces are memory, as in RStore.

mod barrier;
mod range;

pub use barn_space::barrier::{BarrierError, Outcome, bytes_needed as barrier_bytes};
pub use barn_space::client::{AccessError, MapError, Reserved, SpaceError, SpacesOptions, WriteError};
pub use barn_space::message::{
    CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Keys, RangeInfo, Refusal, Role, SessionId,
    SpaceId, SpaceInfo,
};
pub use barn_space::slice::Element;
pub use barrier::{Assignment, Coordinator, Worker};
pub use range::{Mapping, Range, Slice, Writer};

/// The same things as futures, for any async runtime.
pub use barn_space::client as futures;

use crate::error::Error;
use barn_cluster::Member;
use barn_fabric::{ConnectError, Connection, block_on};
use barn_space::client::{Boxed, Connector, Environment};
use barn_transaction::Client;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long the drop of the last handle waits for the master to hear of it: as long as its task tries.
const LINGER: Duration = Duration::from_secs(1);

/// A client of spaces: a session with the master of spaces, which everything that is held hangs on. Clones
/// are the same.
#[derive(Clone)]
pub struct Spaces {
    inner: futures::Spaces,
}

impl fmt::Debug for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Reaches members in the way that a client of objects does.
struct SameWay(Arc<dyn barn_transaction::Connector>);

impl Connector for SameWay {
    fn connect<'a>(
        &'a self,
        member: &'a Member,
        limit: Duration,
    ) -> Boxed<'a, Result<Connection, ConnectError>> {
        self.0.connect(member, limit)
    }

    fn rediscover<'a>(&'a self, limit: Duration) -> Option<Boxed<'a, Result<Connection, ConnectError>>> {
        self.0.rediscover(limit)
    }
}

impl Spaces {
    /// A client of the spaces of a client's cluster, with a session of its own.
    pub(crate) fn over(client: &Client) -> Self {
        let theirs = client.environment();
        let environment = Environment {
            clock: theirs.clock.clone(),
            schedule: theirs.schedule.clone(),
            connector: Arc::new(SameWay(theirs.connector.clone())),
            directory: client.directory().clone(),
            configuration_method: theirs.configuration_method,
            random: crate::node::random,
        };
        let options = SpacesOptions { deadline: client.deadline(), linger: LINGER };
        Self { inner: futures::Spaces::new(environment, options) }
    }

    /// The same, as futures.
    pub fn futures(&self) -> &futures::Spaces {
        &self.inner
    }

    /// The name of the session, by which others can ask whether it is alive.
    pub fn session(&self) -> SessionId {
        self.inner.session()
    }

    /// Makes a space with chunks of 64 MiB that only those with a key may use.
    pub fn create(&self, name: &str) -> Result<(Space, Keys), Error> {
        self.create_with(name, CHUNK_BYTES_DEFAULT, Role::Nobody)
    }

    /// Makes a space; `everyone` is what those without a key may do.
    pub fn create_with(&self, name: &str, chunk_bytes: u64, everyone: Role) -> Result<(Space, Keys), Error> {
        let made = block_on(self.inner.create(name, chunk_bytes, everyone))?;
        Ok((Space { inner: made.space }, made.keys))
    }

    /// Joins a space, with a key if one is needed.
    pub fn join(&self, name: &str, key: Option<&str>) -> Result<Space, Error> {
        Ok(Space { inner: block_on(self.inner.join(name, key))? })
    }

    /// All spaces.
    pub fn list(&self) -> Result<Vec<SpaceInfo>, Error> {
        Ok(block_on(self.inner.list())?)
    }

    /// One space: its size, its ranges, who uses it.
    pub fn stat(&self, name: &str) -> Result<SpaceInfo, Error> {
        Ok(block_on(self.inner.stat(name))?)
    }

    /// Which of these sessions are alive.
    pub fn alive(&self, sessions: &[SessionId]) -> Result<Vec<SessionId>, Error> {
        Ok(block_on(self.inner.alive(sessions))?)
    }

    /// Ends the session, and with it everything that it holds: now, or after one lease, if something is
    /// still mapped here for writing. The next use begins another.
    pub fn close(&self) -> Result<(), Error> {
        Ok(block_on(self.inner.close())?)
    }
}

/// A space that was made or joined. Clones are the same.
#[derive(Clone)]
pub struct Space {
    inner: futures::Space,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Space {
    /// The same, as futures.
    pub fn futures(&self) -> &futures::Space {
        &self.inner
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// What may be done here.
    pub fn role(&self) -> Role {
        self.inner.role()
    }

    /// How long its chunks are.
    pub fn chunk_bytes(&self) -> u64 {
        self.inner.chunk_bytes()
    }

    /// How it is: its size, its ranges, who uses it.
    pub fn stat(&self) -> Result<SpaceInfo, Error> {
        Ok(block_on(self.inner.stat())?)
    }

    /// Prepares so much more memory for it, in whole chunks, over all nodes.
    pub fn reserve(&self, bytes: u64) -> Result<Reserved, Error> {
        Ok(block_on(self.inner.reserve(bytes))?)
    }

    /// Gives reserved memory that is bound to nothing back, in whole chunks.
    pub fn release(&self, bytes: u64) -> Result<Reserved, Error> {
        Ok(block_on(self.inner.release(bytes))?)
    }

    /// Binds reserved chunks to a range of addresses that everybody can see, until it is freed.
    pub fn alloc(&self, bytes: u64) -> Result<Range, Error> {
        Ok(Range { inner: block_on(self.inner.alloc(bytes))? })
    }

    /// The same, for a range that one writer at a time replaces as a whole, under its readers.
    pub fn alloc_copy_on_write(&self, bytes: u64) -> Result<Range, Error> {
        Ok(Range { inner: block_on(self.inner.alloc_copy_on_write(bytes))? })
    }

    /// Holds all or part of a range that somebody allocated, to read it.
    pub fn init(&self, address: u64, bytes: u64) -> Result<Range, Error> {
        Ok(Range { inner: block_on(self.inner.init(address, bytes))? })
    }

    /// Holds all or part of a range that somebody allocated, to read and write it.
    pub fn init_to_write(&self, address: u64, bytes: u64) -> Result<Range, Error> {
        Ok(Range { inner: block_on(self.inner.init_to_write(address, bytes))? })
    }

    /// Frees the range that begins at `address`. Whoever holds it keeps it until it lets go.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        Ok(block_on(self.inner.free(address))?)
    }

    /// Deletes the space, whoever still maps it.
    pub fn delete(&self) -> Result<(), Error> {
        Ok(block_on(self.inner.delete())?)
    }
}
