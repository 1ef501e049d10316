//! A space that was joined: reserve, alloc, init, free (RStore section III-D, Table I).

use super::session::Session;
use super::{RangeHandle, SpaceError, Spaces};
use crate::message::{Keys, Request, Response, Role, SpaceId, SpaceInfo};
use barn_layout::space::RESERVE_WAIT_MS;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A space that was made or joined. Clones are the same.
#[derive(Clone)]
pub struct Space {
    shared: Arc<Shared>,
}

struct Shared {
    spaces: Spaces,
    session: Arc<Session>,
    space: SpaceId,
    name: String,
    role: Role,
    chunk_bytes: u64,
}

/// A space that was just made, with its keys.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The space.
    pub space: Space,
    /// Its keys, for those who are to join it.
    pub keys: Keys,
}

/// What is prepared for a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// In all.
    pub reserved_bytes: u64,
    /// Of these, bound to nothing yet.
    pub free_bytes: u64,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Space({})", self.shared.name)
    }
}

impl Space {
    pub(super) fn new(
        spaces: Spaces,
        session: Arc<Session>,
        space: SpaceId,
        name: &str,
        role: Role,
        chunk_bytes: u64,
    ) -> Self {
        let name = name.to_owned();
        Self { shared: Arc::new(Shared { spaces, session, space, name, role, chunk_bytes }) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its number: another space of the same name has another.
    pub fn id(&self) -> SpaceId {
        self.shared.space
    }

    /// What may be done here.
    pub fn role(&self) -> Role {
        self.shared.role
    }

    /// How long its chunks are.
    pub fn chunk_bytes(&self) -> u64 {
        self.shared.chunk_bytes
    }

    /// The client that it was joined through.
    pub fn spaces(&self) -> &Spaces {
        &self.shared.spaces
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.shared.session
    }

    /// Asks something of the space's session, once.
    pub(super) async fn ask(&self, request: &Request) -> Result<Response, SpaceError> {
        self.ask_within(request, self.shared.spaces.inner.options.deadline).await
    }

    /// Asks something of the space's session that comes to the same end when it is done twice.
    pub(super) async fn ask_again(&self, request: &Request) -> Result<Response, SpaceError> {
        if self.shared.session.is_lost() {
            return Err(SpaceError::SessionLost);
        }
        self.shared.spaces.inner.ask_again(&self.shared.session, request).await
    }

    async fn ask_within(&self, request: &Request, limit: Duration) -> Result<Response, SpaceError> {
        if self.shared.session.is_lost() {
            return Err(SpaceError::SessionLost);
        }
        self.shared.spaces.inner.ask_once(&self.shared.session, request, limit).await
    }

    /// How it is: its size, its ranges, who uses it.
    pub async fn stat(&self) -> Result<SpaceInfo, SpaceError> {
        self.shared.spaces.stat(&self.shared.name).await
    }

    /// Prepares so much more memory for it, in whole chunks, over all nodes.
    pub async fn reserve(&self, bytes: u64) -> Result<Reserved, SpaceError> {
        let (session, space) = (self.shared.session.id, self.shared.space);
        // The master gives up first, so that its reason is heard.
        let limit = self.shared.spaces.inner.options.deadline + Duration::from_millis(RESERVE_WAIT_MS);
        self.reserved(&Request::Reserve { session, space, bytes }, limit).await
    }

    /// Gives reserved memory that is bound to nothing back, in whole chunks.
    pub async fn release(&self, bytes: u64) -> Result<Reserved, SpaceError> {
        let (session, space) = (self.shared.session.id, self.shared.space);
        let limit = self.shared.spaces.inner.options.deadline;
        self.reserved(&Request::Release { session, space, bytes }, limit).await
    }

    async fn reserved(&self, request: &Request, limit: Duration) -> Result<Reserved, SpaceError> {
        match self.ask_within(request, limit).await? {
            Response::Reserved { reserved_bytes, free_bytes } => Ok(Reserved { reserved_bytes, free_bytes }),
            _ => Err(SpaceError::Protocol),
        }
    }

    /// Binds reserved chunks to a range of addresses that everybody can see. It stays when this process
    /// ends, until somebody frees it.
    pub async fn alloc(&self, bytes: u64) -> Result<RangeHandle, SpaceError> {
        self.alloc_as(bytes, false).await
    }

    /// The same, for a copy-on-write range: one writer at a time replaces it as a whole, and readers keep
    /// the version that they hold. It needs chunks for every version that is held.
    pub async fn alloc_copy_on_write(&self, bytes: u64) -> Result<RangeHandle, SpaceError> {
        self.alloc_as(bytes, true).await
    }

    async fn alloc_as(&self, bytes: u64, copy_on_write: bool) -> Result<RangeHandle, SpaceError> {
        let (session, space) = (self.shared.session.id, self.shared.space);
        let response = self.ask(&Request::Alloc { session, space, bytes, copy_on_write }).await?;
        RangeHandle::take(self, response, None, true)
    }

    /// Holds all or part of a range that somebody allocated, to read it.
    pub async fn init(&self, address: u64, bytes: u64) -> Result<RangeHandle, SpaceError> {
        self.init_as(address, bytes, false).await
    }

    /// Holds all or part of a range that somebody allocated, to read and write it. Of a copy-on-write range,
    /// whoever may write can take the lease.
    pub async fn init_to_write(&self, address: u64, bytes: u64) -> Result<RangeHandle, SpaceError> {
        self.init_as(address, bytes, true).await
    }

    async fn init_as(&self, address: u64, bytes: u64, write: bool) -> Result<RangeHandle, SpaceError> {
        let (session, space) = (self.shared.session.id, self.shared.space);
        let response = self.ask(&Request::Init { session, space, address, bytes, write }).await?;
        RangeHandle::take(self, response, Some((address, bytes)), write)
    }

    /// Frees the range that begins at `address`. Whoever holds it keeps it until it lets go.
    pub async fn free(&self, address: u64) -> Result<(), SpaceError> {
        let (session, space) = (self.shared.session.id, self.shared.space);
        self.ask(&Request::Free { session, space, address }).await.map(|_| ())
    }

    /// Deletes the space, whoever still maps it.
    pub async fn delete(&self) -> Result<(), SpaceError> {
        let (session, space) = (self.shared.session.id, self.shared.space);
        self.ask(&Request::Delete { session, space }).await.map(|_| ())
    }
}
