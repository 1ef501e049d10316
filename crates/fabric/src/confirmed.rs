//! A READ that tells whether the first word changed meanwhile: one operation that validates.
//!
//! Where the memory is mapped here, the first word is loaded before all others and once more after
//! them, which costs nothing and proves as much as a second READ would (see
//! [`versioned`](crate::region::versioned)). Elsewhere the words of one READ may come in any order:
//! then only what the bytes say of themselves, a checksum, tells whether they belong together.

use crate::drive::Fetching;
use crate::error::OperationError;
use crate::link::Place;
use crate::region::{Ordering, Rights, Words, fence};
use crate::remote_region::{RemoteRegion, Transfer, check_standing};
use crate::verb::check_range;
use barn_layout::limits::{OPERATION_BYTES_MAX, WORD_BYTES};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// What is known of a READ's bytes besides themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The first word was read before the others, and held this after them.
    Again(u64),
    /// The words came in any order.
    Unordered,
}

/// A READ with confirmation under way; see [`RemoteRegion::read_confirmed`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is driven"]
pub struct Confirmed<'a>(Way<'a>);

#[derive(Debug)]
enum Way<'a> {
    Mapped { region: &'a RemoteRegion, offset: u64, into: &'a mut [u8], fetching: Option<Fetching> },
    Posted(Transfer<'a>),
}

impl RemoteRegion {
    /// READ: copies the bytes at `offset`, a multiple of eight, into `into`, and says what the
    /// first word held afterwards where the transport can tell.
    #[inline]
    pub fn read_confirmed<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> Confirmed<'a> {
        Confirmed(match self.place() {
            Place::Mapped { .. } => Way::Mapped { region: self, offset, into, fetching: None },
            Place::Keyed(_) => Way::Posted(self.read(offset, into)),
        })
    }
}

impl RemoteRegion {
    /// As [`Self::read_confirmed`], of as many bytes as one likes: in several READs, if it must be,
    /// each of which may take so long.
    pub async fn read_long(
        &self,
        offset: u64,
        into: &mut [u8],
        limit: Duration,
    ) -> Result<Confirmation, OperationError> {
        if into.len() <= OPERATION_BYTES_MAX {
            return self.read_confirmed(offset, into).within(limit).await;
        }
        let mut at = offset;
        for part in into.chunks_mut(OPERATION_BYTES_MAX) {
            let bytes = part.len() as u64;
            self.read(at, part).within(limit).await?;
            at += bytes;
        }
        Ok(Confirmation::Unordered)
    }
}

impl Future for Confirmed<'_> {
    type Output = Result<Confirmation, OperationError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Way::Posted(transfer) => {
                Pin::new(transfer).poll(cx).map(|done| done.map(|()| Confirmation::Unordered))
            }
            Way::Mapped { region, offset, into, fetching } => {
                let fetching = fetching.get_or_insert_with(|| {
                    region.prefetch(*offset, into.len());
                    Fetching::default()
                });
                Pin::new(fetching).poll(cx).map(|()| load(region, *offset, into))
            }
        }
    }
}

impl Confirmed<'_> {
    /// The same, which may take so long. To be said before it is first polled.
    #[inline]
    pub fn within(self, limit: Duration) -> Self {
        Self(match self.0 {
            Way::Posted(transfer) => Way::Posted(transfer.within(limit)),
            mapped => mapped,
        })
    }

    /// Carries it out, blocking this thread.
    #[inline]
    pub fn wait(self) -> Result<Confirmation, OperationError> {
        match self.0 {
            Way::Mapped { region, offset, into, .. } => load(region, offset, into),
            Way::Posted(transfer) => transfer.wait().map(|()| Confirmation::Unordered),
        }
    }
}

#[inline]
fn load(region: &RemoteRegion, offset: u64, into: &mut [u8]) -> Result<Confirmation, OperationError> {
    let Place::Mapped { words, grant, open } = region.place() else {
        return Err(OperationError::BadKey);
    };
    check_range(Rights::READ, region.rights(), offset, into.len(), region.bytes())?;
    if !offset.is_multiple_of(WORD_BYTES as u64) {
        return Err(OperationError::Misaligned { offset });
    }
    let again = load_confirmed(words, offset, into)?;
    check_standing(grant, open)?;
    Ok(Confirmation::Again(again))
}

/// Loads the first word, then the others, then the first again, which it gives.
#[inline]
pub(crate) fn load_confirmed(words: &Words, offset: u64, into: &mut [u8]) -> Result<u64, OperationError> {
    let (first, rest) = into.split_at_mut(into.len().min(WORD_BYTES));
    // SYNC: Acquire, pairs with the Release store of an object's version: whoever sees the version
    // sees all of its bytes.
    let before = words.load_word(offset, Ordering::Acquire)?;
    first.copy_from_slice(&before.to_le_bytes()[..first.len()]);
    words.load(offset + WORD_BYTES as u64, rest)?;
    // SYNC: Acquire, pairs with the Release fence after an object is locked: whoever saw a new byte
    // sees, when it looks at the version again, that it is locked or newer.
    fence(Ordering::Acquire);
    Ok(words.load_word(offset, Ordering::Relaxed)?)
}
