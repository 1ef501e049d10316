//! What a lookup reads: the memory of nodes, or in tests a heap's own.

use barn_fabric::{Confirmation, OperationError, Words};
use barn_layout::limits::OPERATION_BYTES_MAX;
use barn_layout::{Address, RegionId};
use barn_transaction::Reach;

/// Memory that can be read.
pub trait Memory {
    /// READ: the bytes at an address. They may be of no one moment: only single words are.
    fn read(&self, at: Address, into: &mut [u8]) -> impl Future<Output = Result<(), Unreadable>> + Send;

    /// READ with confirmation of the first word: see [`Confirmation`].
    fn read_confirmed(
        &self,
        at: Address,
        into: &mut [u8],
    ) -> impl Future<Output = Result<Confirmation, Unreadable>> + Send;

    /// A region's words, where a READ is a load.
    fn mapped(&self, region: RegionId) -> Option<&Words>;

    /// Whether what was read from a region may be believed; asked after the bytes were read.
    fn believe(&self, region: RegionId) -> Result<(), Unreadable>;
}

/// Why memory cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Unreadable {
    /// The region is not open: open it, and start again.
    Closed(RegionId),
    /// Nothing is there: whoever gave the address was out of date.
    Nowhere,
    /// The link, or the lease, is lost.
    Lost(barn_transaction::ClientError),
}

pub(super) fn unreadable(reach: &Reach<'_>, error: OperationError) -> Unreadable {
    match error {
        OperationError::OutOfBounds { .. } | OperationError::Misaligned { .. } => Unreadable::Nowhere,
        error => Unreadable::Lost(reach.failed(error)),
    }
}

impl Memory for Reach<'_> {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let region = self.region(at.region()).ok_or(Unreadable::Closed(at.region()))?;
        let read = region.read(u64::from(at.offset()), into).within(self.limit()).await;
        read.map_err(|error| unreadable(self, error))
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        let region = self.region(at.region()).ok_or(Unreadable::Closed(at.region()))?;
        let offset = u64::from(at.offset());
        let read = match into.len() <= OPERATION_BYTES_MAX {
            true => region.read_confirmed(offset, into).within(self.limit()).await,
            false => region.read_long(offset, into, self.limit()).await,
        };
        read.map_err(|error| unreadable(self, error))
    }

    fn mapped(&self, region: RegionId) -> Option<&Words> {
        self.region(region)?.mapped()
    }

    fn believe(&self, region: RegionId) -> Result<(), Unreadable> {
        Reach::believe(self, region).map_err(Unreadable::Lost)
    }
}

/// A heap's own memory, for tests of owner and reader in one process.
#[cfg(test)]
pub(crate) struct HeapMemory(pub(crate) Vec<(RegionId, Words)>);

#[cfg(test)]
impl Memory for HeapMemory {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let words = self.mapped(at.region()).ok_or(Unreadable::Closed(at.region()))?;
        words.load(u64::from(at.offset()), into).map_err(|_| Unreadable::Nowhere)
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        self.read(at, into).await?;
        let word = into.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Ok(Confirmation::Again(word))
    }

    fn mapped(&self, region: RegionId) -> Option<&Words> {
        self.0.iter().find(|(id, _)| *id == region).map(|(_, words)| words)
    }

    fn believe(&self, _: RegionId) -> Result<(), Unreadable> {
        Ok(())
    }
}
